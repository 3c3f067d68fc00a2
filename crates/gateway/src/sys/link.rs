//! A packet socket on one interface, many frames a system call.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;

use base::ip::protocol;
use nix::libc;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, sockopt};

/// Frames in one system call.
const BATCH: usize = 64;
/// Octets of the longest frame: Ethernet's header, a tag, and jumbo frames.
const FRAME: usize = 9_236;

/// A packet socket that sees only the frames its filter lets through.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Opens a socket on the interface numbered `index` for frames of IP protocol `protocol`, and for ICMP errors that
    /// a host does not know it.
    ///
    /// `send_buffer` bounds the octets that wait in the device, so that a slow device pushes back.
    /// Sent frames carry the firewall mark `mark`.
    ///
    /// # Errors
    /// When the right to open packet sockets is missing or the interface is gone.
    pub fn open(index: u32, protocol: u8, send_buffer: usize, mark: u32) -> io::Result<Self> {
        // Without a protocol the socket hears nothing until it is bound, after the filter is set.
        let fd = socket::socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        let link = Self(fd);
        link.attach_filter(protocol)?;
        link.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        socket::setsockopt(&link.0, sockopt::Mark, &mark)?;
        socket::setsockopt(&link.0, sockopt::SndBuf, &send_buffer)?;
        socket::setsockopt(&link.0, sockopt::RcvBufForce, &(4 << 20))?;

        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?,
            sll_protocol: u16::try_from(libc::ETH_P_ALL).map_err(io::Error::other)?.to_be(),
            sll_ifindex: i32::try_from(index).map_err(io::Error::other)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = socklen::<libc::sockaddr_ll>();
        // SAFETY: `address` is a whole `sockaddr_ll` of `len` octets, alive for the call.
        let result = unsafe { libc::bind(link.0.as_raw_fd(), (&raw const address).cast(), len) };
        if result == 0 { Ok(link) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads frames that wait, at most a batch, and returns how many.
    ///
    /// # Errors
    /// When the interface is down or gone.
    pub fn receive(&self, batch: &mut Received) -> io::Result<usize> {
        batch.received = 0;
        for (header, slice) in batch.headers.iter_mut().zip(&mut batch.slices) {
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
        }
        let count = libc::c_uint::try_from(batch.headers.len()).map_err(io::Error::other)?;
        // SAFETY: `headers` has `count` elements, each with one slice into `batch.octets`, which
        // is as long as they claim together and not otherwise borrowed during the call.
        let received = unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                batch.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        };
        batch.received = received;
        Ok(received)
    }

    /// Sends the frames of `batch` from `first` on; returns how many the device took.
    ///
    /// # Errors
    /// When the first frame cannot be sent at all.
    pub fn send(&self, batch: &mut FrameBatch, first: usize) -> io::Result<usize> {
        batch.prepare();
        let Some(headers) = batch.headers.get_mut(first..batch.ends.len()) else { return Ok(0) };
        let count = libc::c_uint::try_from(headers.len()).map_err(io::Error::other)?;
        // SAFETY: `headers` has `count` elements, each with one slice of `batch.octets`, which
        // stays as it is during the call; the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(self.0.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        };
        let Ok(sent) = usize::try_from(sent) else {
            let error = io::Error::last_os_error();
            let is_full = error.kind() == io::ErrorKind::WouldBlock
                || error.raw_os_error() == Some(libc::ENOBUFS);
            return if is_full { Ok(0) } else { Err(error) };
        };
        Ok(sent)
    }

    /// Lets through IPv4 and IPv6 of one protocol that other stations sent, and the ICMP errors "protocol unreachable"
    /// (RFC 792: type 3, code 2) and "unrecognized next header" (RFC 4443: type 4, code 1) about this protocol.
    fn attach_filter(&self, protocol: u8) -> io::Result<()> {
        let statement = |code: u32, k: u32| filter(code, 0, 0, k);
        let load_half = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
        let load_byte = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let ours = u32::from(protocol);
        // Jumps count the statements that follow. ICMP has 8 octets before the header that it quotes.
        let mut program = [
            statement(load_half, 12)?,
            filter(equal, 0, 7, 0x0800)?,
            statement(load_byte, 14 + 9)?,
            filter(equal, 13, 0, ours)?,
            filter(equal, 0, 13, u32::from(protocol::ICMP))?,
            statement(load_half, 14 + 20)?,
            filter(equal, 0, 11, 0x0302)?,
            statement(load_byte, 14 + 20 + 8 + 9)?,
            filter(equal, 8, 9, ours)?,
            filter(equal, 0, 8, 0x86dd)?,
            statement(load_byte, 14 + 6)?,
            filter(equal, 5, 0, ours)?,
            filter(equal, 0, 5, u32::from(protocol::ICMPV6))?,
            statement(load_half, 14 + 40)?,
            filter(equal, 0, 3, 0x0401)?,
            statement(load_byte, 14 + 40 + 8 + 6)?,
            filter(equal, 0, 1, ours)?,
            statement(libc::BPF_RET | libc::BPF_K, 0xffff)?,
            statement(libc::BPF_RET | libc::BPF_K, 0)?,
        ];
        let program = libc::sock_fprog {
            len: u16::try_from(program.len()).map_err(io::Error::other)?,
            filter: program.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    fn set<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let len = socklen::<T>();
        // SAFETY: `value` is a whole `T` of `len` octets; what it points to (a filter's program)
        // is alive in the caller, and the kernel copies it.
        let result = unsafe {
            libc::setsockopt(self.0.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Frames that were read together.
pub struct Received {
    octets: Vec<u8>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    received: usize,
}

impl Default for Received {
    fn default() -> Self {
        let mut octets = vec![0; BATCH * FRAME];
        let slices = octets
            .chunks_mut(FRAME)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: FRAME })
            .collect();
        Self { octets, slices, headers: vec![empty_header(); BATCH], received: 0 }
    }
}

impl Received {
    /// Whether there was no room for more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.received == self.headers.len()
    }

    /// The frames; one that was longer than a frame may be is cut and so does not parse.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let lengths = self.headers[..self.received].iter().map(|header| header.msg_len);
        self.octets.chunks(FRAME).zip(lengths).map(|(chunk, len)| {
            let len = usize::try_from(len).unwrap_or(FRAME);
            &chunk[..len.min(FRAME)]
        })
    }
}

/// Frames to send together.
#[derive(Default)]
pub struct FrameBatch {
    octets: Vec<u8>,
    ends: Vec<usize>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl FrameBatch {
    /// Whether no more frames go in.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ends.len() == BATCH
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a frame of a header and a packet.
    pub fn push(&mut self, header: &[u8], packet: &[u8]) {
        self.octets.extend_from_slice(header);
        self.octets.extend_from_slice(packet);
        self.ends.push(self.octets.len());
    }

    /// Forgets the frames.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }

    fn prepare(&mut self) {
        self.slices.clear();
        let mut start = 0;
        for &end in &self.ends {
            let frame = &mut self.octets[start..end];
            let slice = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            self.slices.push(slice);
            start = end;
        }
        self.headers.clear();
        for slice in &mut self.slices {
            let mut header = empty_header();
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all-zero octets are a valid `mmsghdr`: integers and null pointers.
    unsafe { mem::zeroed() }
}

fn filter(code: u32, jt: u8, jf: u8, k: u32) -> io::Result<libc::sock_filter> {
    let code = u16::try_from(code).map_err(io::Error::other)?;
    Ok(libc::sock_filter { code, jt, jf, k })
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("options are small")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use base::ip::{Spec, icmp};

    use super::*;

    const OURS: u8 = protocol::EXPERIMENT;

    #[test]
    fn the_filter_lets_through_our_protocol_and_the_errors_about_it_and_nothing_else() {
        // The kernel filters datagrams of any socket, so that the test needs no rights.
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        let link = Link(receiver.into());
        link.attach_filter(OURS).unwrap();
        let receiver = UnixDatagram::from(link.0);
        receiver.set_nonblocking(true).unwrap();
        let passes = |frame: &[u8]| {
            sender.send(frame).unwrap();
            receiver.recv(&mut [0; FRAME]).is_ok()
        };

        for (version, addresses) in
            [(0x0800, ["10.0.0.1", "10.0.0.2"]), (0x86dd_u16, ["fd00::1", "fd00::2"])]
        {
            let [a, b] = addresses.map(|text| text.parse().unwrap());
            let packet = |protocol| {
                let mut packet = Vec::new();
                Spec::new(a, b, protocol).emit(8, &mut packet);
                packet.extend([0; 8]);
                packet
            };
            let error = |error: icmp::Error, protocol| {
                let mut out = Vec::new();
                assert!(error.emit(b, &packet(protocol), &mut out));
                out
            };
            let framed = |version: u16, packet: &[u8]| {
                [&[2; 12][..], &version.to_be_bytes(), packet].concat()
            };

            for (packet, expected, what) in [
                (packet(OURS), true, "ours"),
                (packet(protocol::TCP), false, "TCP"),
                (packet(OURS + 1), false, "another"),
                (error(icmp::Error::ProtocolUnreachable, OURS), true, "an error about ours"),
                (error(icmp::Error::ProtocolUnreachable, OURS + 1), false, "about another"),
                (error(icmp::Error::PortUnreachable, OURS), false, "another error about ours"),
            ] {
                assert_eq!(passes(&framed(version, &packet)), expected, "{addresses:?}: {what}");
                assert!(!passes(&framed(0x0806, &packet)), "{addresses:?}: {what}, as ARP");
                assert!(!passes(&framed(version, &packet[..5])), "{addresses:?}: {what}, cut");
            }
        }
    }
}
