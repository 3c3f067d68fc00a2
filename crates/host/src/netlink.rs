//! Speaks netlink with the kernel: links, addresses, routes, and notices of changes.
//!
//! ```text
//!  0         4      6       8          12         16
//!  +---------+------+-------+----------+----------+-- - -+---------------------------- - -
//!  | length  | type | flags | sequence | port     | fixed| attributes: length (2) type (2) value
//!  +---------+------+-------+----------+----------+-- - -+---------------------------- - -
//! ```
//! All numbers are in the machine's order of octets, except addresses and ports.
//!
//! Ours and not netlink-packet-route, which would take some 30 s of a clean build for the hundred lines of requests and
//! attributes here: the socket, batches, dumps that were interrupted and nftables' messages would stay ours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sockopt,
};
use nix::sys::time::TimeVal;

/// `NETLINK_GET_STRICT_CHK`: the kernel filters a dump by the fixed part of the question (Linux 4.20).
const STRICT: i32 = 12;
const HEADER: usize = 16;
const BUFFER: usize = 64 << 10;
/// The kernel answers at once; waiting longer means that something is very wrong.
const PATIENCE: TimeVal = TimeVal::new(5, 0);

/// Attempts to dump a table that keeps changing; the last answer counts.
const TRIES: usize = 8;

nix::setsockopt_impl!(StrictQuestions, libc::SOL_NETLINK, STRICT, bool, sockopt::SetBool);

/// The option of a socket whose questions are read strictly.
#[derive(Clone, Copy, Debug)]
struct StrictQuestions;

/// Asks the kernel, one question at a time, and orders changes.
#[derive(Debug)]
pub struct Kernel {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A message from the kernel: type, fixed part and attributes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The type of the message, `RTM_…`.
    pub kind: u16,
    body: &'a [u8],
}

impl Kernel {
    /// Opens a socket for questions about links, addresses and routes.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        Self::open_to(SockProtocol::NetlinkRoute)
    }

    /// Opens a socket for questions to another part of the kernel.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_to(part: SockProtocol) -> io::Result<Self> {
        let fd = netlink_socket(SockFlag::SOCK_CLOEXEC, part)?;
        socket::setsockopt(&fd, sockopt::ReceiveTimeout, &PATIENCE)?;
        // Older kernels answer with everything: callers skip the surplus.
        let _ = socket::setsockopt(&fd, StrictQuestions, &true);
        Ok(Self { fd, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Asks a question and calls `each` with every message of the answer.
    ///
    /// # Errors
    /// The error with which the kernel refused the question.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.ask_once(request, each).map(drop)
    }

    /// Gives an order to a part of netfilter, which takes orders in batches alone.
    ///
    /// # Errors
    /// The error with which the kernel refused the order.
    pub(crate) fn ask_in_batch(&mut self, part: i32, order: &Request) -> io::Result<()> {
        // `struct nfgenmsg`: no family, version 0, and the part of netfilter addressed by the batch.
        let [high, low] = u16::try_from(part).map_err(io::Error::other)?.to_be_bytes();
        let edge = |kind| Request::new(flag(kind), 0, &[0, 0, high, low]);
        let (begin, end) = (edge(libc::NFNL_MSG_BATCH_BEGIN), edge(libc::NFNL_MSG_BATCH_END));
        // Only the order in the middle asks for an answer, but each of the three messages may cause an error.
        self.sequence = self.sequence.wrapping_add(1);
        let octets = [&begin, order, &end].map(|request| request.finish(self.sequence)).concat();
        self.exchange(&octets, true, |_| {}).map(drop)
    }

    /// Asks for a dump, and returns everything that `each` adds for the messages of the answer. Asks again if the
    /// table changed meanwhile, because the kernel may then have left something out.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn dump<T>(
        &mut self,
        request: &Request,
        mut each: impl FnMut(Message<'_>, &mut Vec<T>),
    ) -> io::Result<Vec<T>> {
        let mut found = Vec::new();
        for _ in 0..TRIES {
            found.clear();
            if !self.ask_once(request, |message| each(message, &mut found))? {
                break;
            }
        }
        Ok(found)
    }

    /// Whether the answer may lack something.
    fn ask_once(&mut self, request: &Request, each: impl FnMut(Message<'_>)) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let octets = request.finish(self.sequence);
        self.exchange(&octets, request.wants_ack, each)
    }

    /// Sends messages with the current sequence number, and calls `each` with every message of the answer.
    fn exchange(
        &mut self,
        octets: &[u8],
        wants_ack: bool,
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<bool> {
        socket::send(self.fd.as_raw_fd(), octets, MsgFlags::empty())?;
        let mut is_interrupted = false;
        loop {
            let len = socket::recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            for (header, message) in Messages(&self.buffer[..len]) {
                // A late answer to a question that was given up on.
                if header.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= header.flags & flag(libc::NLM_F_DUMP_INTR) != 0;
                match i32::from(header.kind) {
                    // A dump that broke off carries its error here; older kernels send no body.
                    libc::NLMSG_DONE if message.body.is_empty() => return Ok(is_interrupted),
                    libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                        return message.error().map_or(Ok(is_interrupted), Err);
                    }
                    _ => each(message),
                }
                if header.flags & flag(libc::NLM_F_MULTI) == 0 && !wants_ack {
                    return Ok(is_interrupted);
                }
            }
        }
    }
}

/// A socket for the kernel's notices of changes.
#[derive(Debug)]
pub(crate) struct Monitor {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Listens for changes of links, neighbours, traffic control, addresses, routes, policy rules, settings and next hops.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_NEIGH
            | libc::RTMGRP_TC
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV6_ROUTE;
        // These groups have numbers, but no names for bits.
        let numbered = [
            libc::RTNLGRP_IPV4_RULE,
            libc::RTNLGRP_IPV6_RULE,
            libc::RTNLGRP_IPV4_NETCONF,
            libc::RTNLGRP_IPV6_NETCONF,
            libc::RTNLGRP_NEXTHOP,
        ];
        let numbered = numbered.iter().fold(0, |groups, number| groups | 1 << (number - 1));
        let groups = u32::from_ne_bytes(groups.to_ne_bytes()) | numbered;
        Self::open_for(SockProtocol::NetlinkRoute, groups)
    }

    /// Lets the kernel store so many octets of notices; without the right to choose, the usual number stays.
    pub(crate) fn store(&self, octets: usize) {
        let _ = socket::setsockopt(&self.fd, sockopt::RcvBufForce, &octets);
    }

    /// Listens for notices of a part of the kernel to these groups.
    ///
    /// # Errors
    /// When there are no descriptors left, or the kernel has no such part.
    pub(crate) fn open_for(part: SockProtocol, groups: u32) -> io::Result<Self> {
        let fd = netlink_socket(SockFlag::SOCK_CLOEXEC, part)?;
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self { fd, buffer: vec![0; BUFFER] })
    }

    /// Calls `each` with the changes that wait, of at most `most` datagrams: changes may come as fast as we read. Returns
    /// whether any was lost.
    ///
    /// # Errors
    /// When the socket is broken.
    pub(crate) fn read_some(
        &mut self,
        most: usize,
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<bool> {
        let mut is_lossy = false;
        for _ in 0..most {
            match socket::recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => Messages(&self.buffer[..len]).for_each(|(_, message)| each(message)),
                Err(Errno::EAGAIN) => break,
                Err(Errno::ENOBUFS) => is_lossy = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_lossy)
    }
}

impl From<Kernel> for Monitor {
    /// Listens for notices that the kernel was asked to send to this socket.
    fn from(asked: Kernel) -> Self {
        let Kernel { fd, buffer, .. } = asked;
        Self { fd, buffer }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A question or an order.
#[derive(Debug)]
pub(crate) struct Request {
    octets: Vec<u8>,
    wants_ack: bool,
}

impl Request {
    /// A question about one thing, answered by one message.
    #[must_use]
    pub(crate) fn get(kind: u16, fixed: &[u8]) -> Self {
        Self::new(kind, 0, fixed)
    }

    /// A question about all there is.
    #[must_use]
    pub(crate) fn dump(kind: u16, fixed: &[u8]) -> Self {
        Self::new(kind, flag(libc::NLM_F_DUMP), fixed)
    }

    /// An order.
    #[must_use]
    pub(crate) fn set(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut request = Self::new(kind, flag(libc::NLM_F_ACK) | flags, fixed);
        request.wants_ack = true;
        request
    }

    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut octets = vec![0; HEADER];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&(flags | flag(libc::NLM_F_REQUEST)).to_ne_bytes());
        octets.extend_from_slice(fixed);
        octets.resize(octets.len().next_multiple_of(4), 0);
        Self { octets, wants_ack: false }
    }

    /// Adds an attribute.
    #[must_use]
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.octets.extend(attribute(kind, value));
        self
    }

    /// Adds an attribute that is an address.
    #[must_use]
    pub(crate) fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(kind, &address.octets()),
            IpAddr::V6(address) => self.with(kind, &address.octets()),
        }
    }

    fn finish(&self, sequence: u32) -> Vec<u8> {
        let mut octets = self.octets.clone();
        let len = u32::try_from(octets.len()).expect("requests are short");
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&sequence.to_ne_bytes());
        octets
    }
}

impl<'a> Message<'a> {
    pub(crate) fn new(kind: u16, body: &'a [u8]) -> Self {
        Self { kind, body }
    }

    /// All behind the header.
    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The fixed part of `N` octets, if the message is long enough.
    #[must_use]
    pub fn fixed<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.body.first_chunk()
    }

    /// The attributes behind a fixed part of `fixed` octets, as (type, value).
    pub fn attributes(&self, fixed: usize) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        attributes(self.body.get(fixed.next_multiple_of(4)..).unwrap_or_default())
    }

    /// The value of an attribute; `None` if absent.
    #[must_use]
    pub fn attribute(&self, fixed: usize, wanted: u16) -> Option<&'a [u8]> {
        self.attributes(fixed).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    fn error(&self) -> Option<io::Error> {
        let code =
            self.body.first_chunk::<4>().map_or(-libc::EPROTO, |&code| i32::from_ne_bytes(code));
        (code != 0).then(|| io::Error::from_raw_os_error(code.wrapping_neg()))
    }
}

/// The attributes in octets, such as the value of an outer attribute, as (type, value).
pub(crate) fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    Attributes(octets)
}

/// An attribute in octets, to be nested in another attribute's value.
#[must_use]
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).expect("attributes are short");
    let mut octets = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    octets.extend_from_slice(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

/// The value of an attribute as an address.
#[must_use]
pub(crate) fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// The value of an attribute as a number.
#[must_use]
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|&octets| u32::from_ne_bytes(octets))
}

/// The address family of an address.
#[must_use]
pub(crate) fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).expect("families are below 256")
}

struct MessageHeader {
    kind: u16,
    flags: u16,
    sequence: u32,
}

struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (MessageHeader, Message<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let &[l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] =
            self.0.first_chunk::<HEADER>()?;
        let len = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let message = self.0.get(..len)?;
        let kind = u16::from_ne_bytes([k0, k1]);
        let header = MessageHeader {
            kind,
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
        };
        let body = message.get(HEADER..)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((header, Message { kind, body }))
    }
}

struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let &[l0, l1, k0, k1] = self.0.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.0.get(4..len)?;
        // The upper two bits say how the value is to be read.
        let kind = u16::from_ne_bytes([k0, k1]) & 0x3fff;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn netlink_socket(flags: SockFlag, part: SockProtocol) -> io::Result<OwnedFd> {
    Ok(socket::socket(AddressFamily::Netlink, SockType::Raw, flags, part)?)
}

fn flag(flag: i32) -> u16 {
    u16::try_from(flag).expect("netlink's flags have 16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_a_reader_reads() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let request = Request::dump(26, &[2; 12]).with_address(1, address).with(4, &[7, 0, 0, 0]);

        let octets = request.finish(5);
        let messages: Vec<_> = Messages(&octets).collect();

        let [(header, message)] = &messages[..] else { panic!("{} messages", messages.len()) };
        assert_eq!((header.kind, header.flags, header.sequence), (26, 0x301, 5));
        assert_eq!(message.fixed(), Some(&[2; 12]));
        let attributes: Vec<_> = message.attributes(12).collect();
        assert_eq!(attributes, [(1, &[192, 0, 2, 1][..]), (4, &[7, 0, 0, 0])]);
    }

    /// An emulated kernel with these answers: number of the request, type, flags and body of each.
    fn kernel(answers: &[(u32, i32, i32, &[u8])]) -> (Kernel, OwnedFd) {
        let pair = (AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let (fd, kernel) = socket::socketpair(pair.0, pair.1, None, pair.2).unwrap();
        for (sequence, kind, flags, body) in answers {
            let message = Request::new(flag(*kind), flag(*flags), body).finish(*sequence);
            socket::send(kernel.as_raw_fd(), &message, MsgFlags::empty()).unwrap();
        }
        (Kernel { fd, sequence: 0, buffer: vec![0; BUFFER] }, kernel)
    }

    #[test]
    fn what_changed_while_it_was_told_is_asked_for_again() {
        let (multi, interrupted) = (libc::NLM_F_MULTI, libc::NLM_F_MULTI | libc::NLM_F_DUMP_INTR);
        let (mut netlink, _kernel) = kernel(&[
            (1, 24, multi, &[1; 12]),
            (1, 24, interrupted, &[3; 12]),
            (1, libc::NLMSG_DONE, interrupted, &[0; 4]),
            (2, 24, multi, &[1; 12]),
            (2, 24, multi, &[2; 12]),
            (2, 24, multi, &[3; 12]),
            (2, libc::NLMSG_DONE, multi, &[0; 4]),
        ]);

        let found = netlink.dump(&Request::dump(26, &[0; 12]), |message, found| {
            found.extend(message.fixed::<1>().copied());
        });

        assert_eq!(found.unwrap(), [[1], [2], [3]]);
    }

    #[test]
    fn an_answer_that_broke_off_is_an_error() {
        let code = (-libc::EOPNOTSUPP).to_ne_bytes();
        let (mut netlink, _kernel) = kernel(&[(1, libc::NLMSG_DONE, libc::NLM_F_MULTI, &code)]);

        let outcome = netlink.ask(&Request::dump(26, &[0; 12]), |_| {});

        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn cut_messages_are_left_out() {
        let whole = Request::get(16, &[0; 16]).with(3, b"wlan0").finish(1);

        for len in 0..whole.len() {
            assert_eq!(Messages(&whole[..len]).count(), 0, "{len}");
        }
        let (_, message) = Messages(&whole).next().unwrap();
        assert_eq!(message.attributes(20).count(), 0);
    }
}
