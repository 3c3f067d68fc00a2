//! Detects when the virtual machine was copied: newer kernels pass on the word of the hypervisor (the
//! virtual machine generation ID) as an event.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, socket,
};

/// The kernel's own events.
const KERNEL: u32 = 1;
/// The line of an event that reports a copied machine.
const COPIED: &[u8] = b"NEW_VMGENID=1";
/// Octets of an event, which has a page of lines and a path.
const EVENT: usize = 8_192;

/// Listens for it; to nothing where the kernel does not let us.
#[derive(Debug)]
pub struct Copies(Option<OwnedFd>);

impl Copies {
    /// Listens from now on.
    #[must_use]
    pub fn watch() -> Self {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkKObjectUEvent;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol).ok();
        let address = NetlinkAddr::new(0, KERNEL);
        Self(socket.filter(|socket| bind(socket.as_raw_fd(), &address).is_ok()))
    }

    /// What to wait for.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|socket| socket.as_fd())
    }

    /// Takes all events, and says whether one was that this machine is a copy.
    #[must_use]
    pub fn has_one(&self) -> bool {
        let Some(socket) = &self.0 else { return false };
        let mut event = [0; EVENT];
        let mut is_copy = false;
        while let Ok((len, from)) = recvfrom::<NetlinkAddr>(socket.as_raw_fd(), &mut event) {
            let is_kernels = from.is_some_and(|from| from.pid() == 0);
            is_copy |= is_kernels && is_copied(&event[..len]);
        }
        is_copy
    }
}

/// Lines end with zero; the first is the path.
fn is_copied(event: &[u8]) -> bool {
    event.split(|octet| *octet == 0).skip(1).any(|line| line == COPIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux's drivers/virt/vmgenid.c sends it.
    #[test]
    fn the_event_of_a_new_generation_is_known_from_others() {
        let event = |line: &str| {
            format!("change@/devices/LNXSYSTM:00/QEMUVGID:00\0ACTION=change\0{line}\0SEQNUM=7\0")
        };

        assert!(is_copied(event("NEW_VMGENID=1").as_bytes()));
        assert!(!is_copied(event("SYNTH_ARG_NEW_VMGENID=1").as_bytes()));
        assert!(!is_copied(b"NEW_VMGENID=1"));
        assert!(!is_copied(b""));
    }

    #[test]
    fn nothing_is_heard_where_nothing_was_said() {
        let copies = Copies::watch();

        assert!(!copies.has_one());
    }
}
