//! A bare forwarder between two namespaces: the least work of a program that sleeps until the kernel has a packet and
//! returns the packet.
//!
//! ```text
//!   10.8.0.1 ─▶ bare0 ─▶ thread ─▶ eth0 ═══ eth0 ─▶ thread ─▶ bare0 ─▶ 10.8.0.2
//! ```

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use gateway::sys::Tap;
use gateway::sys::port::{OFFLOAD, Port};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Namespaces;

/// Reached only through the forwarders, from the first namespace.
pub const ADDRESSES: [&str; 2] = ["10.8.0.2", "fd08::2"];
const DEVICE: &str = "bare0";
/// The header of each packet on the cable: no offload, then Ethernet's header to everybody with a type for
/// experiments.
const HEADER: [u8; OFFLOAD + 14] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // offload
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5,
];
/// The position of the type in the header.
const TYPE: usize = OFFLOAD + 12;
const LONGEST_PACKET: usize = 65_535;

/// A forwarder in each of two namespaces; both end when this is dropped.
#[derive(Debug)]
pub struct Forwarders {
    threads: Vec<(UnixStream, JoinHandle<io::Result<()>>)>,
}

impl Forwarders {
    /// Starts the forwarders in two namespaces joined by a cable at `eth0`.
    ///
    /// # Errors
    /// When a device cannot be made, or a packet socket not opened.
    pub fn start(nets: &Namespaces, ends: &[String; 2]) -> anyhow::Result<Self> {
        let mut started = Self { threads: Vec::new() };
        for (number, name) in (1..).zip(ends) {
            let (tun, port) = emulator::namespace::within(name, || -> anyhow::Result<_> {
                let tun = Tap::open_plain_tun(DEVICE).context("cannot make a TUN device")?;
                let port = Port::open("eth0").context("cannot open a packet socket on eth0")?;
                Ok((tun, port))
            })??;
            nets.address(name, DEVICE, &format!("10.8.0.{number}/24"))?;
            nets.address(name, DEVICE, &format!("fd08::{number}/64"))?;
            nets.run(name, &format!("ip link set dev {DEVICE} up"))?;
            let (ours, theirs) = UnixStream::pair()?;
            started.threads.push((ours, thread::spawn(move || forward(&tun, &port, &theirs))));
        }
        Ok(started)
    }
}

impl Drop for Forwarders {
    fn drop(&mut self) {
        for (until, thread) in self.threads.drain(..) {
            drop(until);
            // A forwarder that failed earlier has been noticed by pings without answer.
            let _ = thread.join();
        }
    }
}

/// Forwards both ways, packet by packet, until the other end of `until` is closed.
fn forward(tun: &Tap, port: &Port, until: &UnixStream) -> io::Result<()> {
    let mut out = HEADER.to_vec();
    out.resize(HEADER.len() + LONGEST_PACKET, 0);
    let mut back = out.clone();
    let mut waits =
        [tun.as_fd(), port.as_fd(), until.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    loop {
        poll(&mut waits, PollTimeout::NONE)?;
        let [has_packet, has_frame, is_over] =
            [0, 1, 2].map(|which| waits[which].any().unwrap_or(true));
        if is_over {
            return Ok(());
        }
        // A packet refused by the other side is lost, as on any link.
        if has_packet && let Some(len) = tun.read(&mut out[HEADER.len()..])? {
            let _ = port.send(&out[..HEADER.len() + len]);
        }
        if has_frame
            && let Some(received) = port.receive(&mut back)?
            && let Some(packet) = back[..received.len].get(HEADER.len()..)
            && back[TYPE..HEADER.len()] == HEADER[TYPE..]
        {
            let _ = tun.write(packet);
        }
    }
}
