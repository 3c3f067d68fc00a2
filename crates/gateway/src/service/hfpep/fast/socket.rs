//! The sockets of connections between gateways: long paths, much under way.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::Context as _;
use nix::libc::linger;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{SockaddrStorage, bind, setsockopt, sockopt};
use tracing::warn;

use crate::config::HfPep;
use crate::config::bearer::Bearer;
use crate::linux::tcp::{start_connecting_with, start_listening, start_listening_with};
use crate::sys::tcp::set_unsent_low_water;

/// A connection that is idle is asked after so many seconds whether it is still there,
const ASK_AFTER: u32 = 15;
/// so many seconds apart,
const ASK_EVERY: u32 = 5;
/// and is dead after so many questions without an answer.
const QUESTIONS: u32 = 3;
/// Octets waiting in the kernel to be sent for the first time: enough to keep a path full between two looks at the
/// socket. Further octets stay with the program that writes them.
const UNSENT: u32 = 256 << 10;
/// Descriptors of everything else.
const RESERVED: usize = 512;

/// How these sockets are made.
#[derive(Debug)]
pub struct Sockets {
    buffer: usize,
    /// What the kernel has; its own choice otherwise.
    congestion_control: Option<OsString>,
    give_up: u32,
    /// Where we listen, if at one address that others reach: they know us by it.
    from: Option<SocketAddr>,
}

impl Sockets {
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(config: &HfPep) -> anyhow::Result<Self> {
        let Bearer { buffer, congestion_control: name, .. } = &config.bearer;
        let wanted = OsString::from(name);
        let probe = start_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false)
            .context("cannot make a socket")?;
        let congestion_control = match setsockopt(&probe, sockopt::TcpCongestion, &wanted) {
            Ok(()) => Some(wanted),
            Err(error) => {
                warn!(
                    %error,
                    "no congestion control {name}: load its module (`modprobe tcp_{name}`); the kernel's \
                     own choice is used"
                );
                None
            }
        };
        let give_up = milliseconds(config.parameters.slep.times.give_up);
        let is_known = |at: &SocketAddr| !at.ip().is_unspecified() && !at.ip().is_loopback();
        let from = config.bearer.listen.filter(is_known);
        Ok(Self { buffer: *buffer, congestion_control, give_up, from })
    }

    /// Begins to connect to another gateway, from the address where we listen.
    ///
    /// # Errors
    /// When it fails at once.
    pub fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        start_connecting_with(to, |socket| {
            self.prepare(socket)?;
            if let Some(mut from) = self.from.filter(|it| it.is_ipv4() == to.is_ipv4()) {
                from.set_port(0);
                // The port is chosen when the destination is known: more connections have room.
                let _ = setsockopt(socket, sockopt::IpBindAddressNoPort, &true);
                // While the address is not this host's, the kernel chooses another.
                let _ = bind(socket.as_raw_fd(), &SockaddrStorage::from(from));
            }
            Ok(())
        })
    }

    /// Listens for other gateways.
    ///
    /// # Errors
    /// When the address is taken.
    pub fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        start_listening_with(at, |socket| {
            self.prepare(socket)?;
            // The address may belong to a tunnel whose device is not there yet.
            let _ = setsockopt(socket, sockopt::IpFreebind, &true);
            setsockopt(socket, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })?;
            // Answers must not be diverted, like connections that we begin ourselves.
            let _ = setsockopt(socket, sockopt::Mark, &crate::linux::firewall::MARK.value());
            Ok(())
        })
    }

    /// Lets connections that come to a listener from now on be made so.
    pub fn adapt(&self, listener: &TcpListener) {
        let _ = setsockopt(listener, sockopt::SndBufForce, &self.buffer);
        let _ = setsockopt(listener, sockopt::RcvBufForce, &self.buffer);
        if let Some(name) = &self.congestion_control {
            let _ = setsockopt(listener, sockopt::TcpCongestion, name);
        }
    }

    /// A program's connection is carried from now on: only a path that is silent for long ends the link.
    pub fn begin(&self, socket: &impl AsFd) {
        // Without it the kernel gives up earlier.
        let _ = setsockopt(socket, sockopt::TcpUserTimeout, &self.give_up);
    }

    fn prepare(&self, socket: &OwnedFd) -> io::Result<()> {
        // Without the right to force, the kernel's limits hold.
        let _ = setsockopt(socket, sockopt::SndBufForce, &self.buffer);
        let _ = setsockopt(socket, sockopt::RcvBufForce, &self.buffer);
        if let Some(name) = &self.congestion_control {
            setsockopt(socket, sockopt::TcpCongestion, name)?;
        }
        setsockopt(socket, sockopt::KeepAlive, &true)?;
        setsockopt(socket, sockopt::TcpKeepIdle, &ASK_AFTER)?;
        setsockopt(socket, sockopt::TcpKeepInterval, &ASK_EVERY)?;
        setsockopt(socket, sockopt::TcpKeepCount, &QUESTIONS)?;
        set_unsent_low_water(socket, UNSENT)
    }
}

/// The number of sessions possible with two descriptors each, but no more than wanted.
pub fn sessions(wanted: usize) -> usize {
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let most = limit.saturating_sub(RESERVED) / 2;
    if most < wanted {
        warn!(
            most,
            wanted,
            limit,
            needed = 2 * wanted + RESERVED,
            "fewer connections at a time than wanted: this process may have too few descriptors (LimitNOFILE= of \
             systemd, `ulimit -n`)"
        );
    }
    wanted.min(most)
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
