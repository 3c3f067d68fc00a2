//! Packets that rules of nftables report, with `log group`: the kernel hands over copies (NFLOG).

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::SockProtocol;

use crate::netlink::{Kernel, Monitor, Request};

/// `struct nfgenmsg`: family, version, and the group.
const FIXED: usize = 4;

/// Receives the packets that nftables logs to a group (NFLOG).
#[derive(Debug)]
pub struct Logged(Monitor);

impl Logged {
    /// Hears of the packets of this group from now on, each cut to its first `longest` octets.
    ///
    /// # Errors
    /// When a right or a part of the kernel is missing, or another process has the group.
    pub fn open(group: u16, longest: u32) -> io::Result<Self> {
        let mut netlink = Kernel::open_to(SockProtocol::NetlinkNetFilter)?;
        let fixed: Vec<u8> = [0, 0].into_iter().chain(group.to_be_bytes()).collect();
        let number = |value: i32| u16::try_from(value).unwrap_or_default();
        let octet = |value: i32| u8::try_from(value).unwrap_or_default();
        let kind = number(libc::NFNL_SUBSYS_ULOG << 8 | libc::NFULNL_MSG_CONFIG);
        let mode: Vec<u8> =
            longest.to_be_bytes().into_iter().chain([octet(libc::NFULNL_COPY_PACKET), 0]).collect();
        for (setting, value) in [
            (libc::NFULA_CFG_CMD, vec![octet(libc::NFULNL_CFG_CMD_BIND)]),
            (libc::NFULA_CFG_MODE, mode),
            // One at a time, or the kernel waits for more.
            (libc::NFULA_CFG_QTHRESH, 1_u32.to_be_bytes().to_vec()),
        ] {
            netlink.ask(&Request::set(kind, 0, &fixed).with(number(setting), &value), |_| {})?;
        }
        Ok(Self(netlink.into()))
    }

    /// Calls `each` with the prefix of the rule and the octets of each packet that waits, but of `most` datagrams of the
    /// kernel at most. Returns whether the kernel had no room for further packets.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn read(
        &mut self,
        most: usize,
        mut each: impl FnMut(Cow<'_, str>, &[u8]),
    ) -> io::Result<bool> {
        self.0.read_some(most, |message| {
            let attribute = |wanted: i32| {
                let mut all = message.attributes(FIXED);
                all.find(|(kind, _)| i32::from(*kind) == wanted).map(|(_, value)| value)
            };
            let name = attribute(libc::NFULA_PREFIX).unwrap_or_default();
            let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name));
            each(name, attribute(libc::NFULA_PAYLOAD).unwrap_or_default());
        })
    }
}

impl AsFd for Logged {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
