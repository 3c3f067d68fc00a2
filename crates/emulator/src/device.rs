//! Interfaces that pass frames to us and take frames from us, as over a cable.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use gateway::linux::offload::{self, Offload};
use gateway::sys::port::{OFFLOAD, Port, Received};
use nix::errno::Errno;

/// Octets of Ethernet's header.
pub const ETHERNET: usize = 14;
/// Octets of both addresses, behind which a VLAN tag goes.
const ADDRESSES: usize = 12;
/// The longest train of segments: 64 KiB of IP.
const TRAIN: usize = OFFLOAD + ETHERNET + (64 << 10);

/// A port with the buffers to use it.
#[derive(Debug)]
pub struct Device<'a> {
    port: &'a Port,
}

/// Buffers for reading trains and for building packets, shared by the devices of a thread.
#[derive(Debug)]
pub struct Buffers {
    train: Vec<u8>,
    scratch: Vec<u8>,
    packet: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { train: vec![0; TRAIN], scratch: Vec::new(), packet: vec![0; OFFLOAD] }
    }
}

/// The result of reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// One frame or more.
    Frames,
    /// Something that makes no sense.
    Malformed,
    /// No frame waits.
    Nothing,
}

impl<'a> Device<'a> {
    pub fn new(port: &'a Port) -> Self {
        Self { port }
    }

    /// Reads one train of segments, and hands on each frame with its checksums, as a network card would
    /// send it, in parts.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn take(
        &self,
        buffers: &mut Buffers,
        mut take: impl FnMut(&[&[u8]]),
    ) -> anyhow::Result<Taken> {
        let Buffers { train, scratch, .. } = buffers;
        let received = match self.port.receive(train) {
            Ok(None) => return Ok(Taken::Nothing),
            Ok(Some(received)) => received,
            Err(error) => {
                return match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
                    // Down: frames come again once it is up.
                    Errno::ENETDOWN | Errno::EINTR | Errno::ENOBUFS => Ok(Taken::Nothing),
                    // A train too long, or of a kind without a description.
                    Errno::EINVAL | Errno::EMSGSIZE => Ok(Taken::Malformed),
                    _ => Err(error).context("receiving frames"),
                };
            }
        };
        let cut = cut(train, received, scratch, &mut take);
        Ok(if cut.is_ok() { Taken::Frames } else { Taken::Malformed })
    }

    /// Sends a frame; false if the interface does not take it.
    pub fn send(&self, buffers: &mut Buffers, frame: &[u8]) -> bool {
        buffers.packet.truncate(OFFLOAD);
        buffers.packet.extend_from_slice(frame);
        self.port.send(&buffers.packet).is_ok()
    }
}

impl AsFd for Device<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

/// Cuts a train into frames.
fn cut(
    train: &mut [u8],
    received: Received,
    scratch: &mut Vec<u8>,
    take: &mut impl FnMut(&[&[u8]]),
) -> Result<(), offload::Malformed> {
    let (what, frame) = train[..received.len].split_at_mut(OFFLOAD.min(received.len));
    let offload = Offload::parse(what, ETHERNET)?;
    let have = frame.len();
    let Some((header, packet)) = frame.split_at_mut_checked(ETHERNET) else {
        return Err(offload::Malformed::Truncated { have });
    };
    let (addresses, kind) = header.split_at(ADDRESSES);
    let tag = received.tag.as_ref().map_or(&[][..], |tag| tag);
    offload.segment(packet, scratch, |segment| take(&[addresses, tag, kind, segment]))
}
