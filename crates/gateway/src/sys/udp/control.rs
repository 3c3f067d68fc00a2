//! Encodes and parses control messages: options and metadata that accompany a datagram.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::libc;

/// Words of the control messages that go with a message: the size of segments, the traffic class, and the
/// address that it comes from.
const WORDS: usize = 12;

const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Control messages, aligned as the kernel wants them.
#[derive(Clone, Copy, Default)]
pub struct Control([usize; WORDS]);

impl Control {
    /// Asks the kernel to cut a message into datagrams, to put a class into their IP headers, and to send
    /// them from an address.
    pub fn say(
        &mut self,
        header: &mut libc::msghdr,
        is_v4: bool,
        segment: Option<usize>,
        head: Head,
    ) {
        let mut used = 0;
        if let Some(segment) = segment {
            let segment = u16::try_from(segment).unwrap_or(u16::MAX);
            self.push(&mut used, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        if let Some(class) = head.class {
            let (level, kind) = match is_v4 {
                true => (libc::IPPROTO_IP, libc::IP_TOS),
                false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            self.push(&mut used, level, kind, i32::from(class));
        }
        // An address of the other version is of no use.
        let source = head.source.filter(|source| source.is_ipv4() == is_v4);
        match source.unwrap_or(if is_v4 { ANY_V4 } else { ANY_V6 }) {
            _ if source.is_none() && head.interface.is_none() => {}
            IpAddr::V4(source) => {
                let ours = libc::in_addr { s_addr: u32::from(source).to_be() };
                let any = libc::in_addr { s_addr: 0 };
                let ipi_ifindex = head.interface.map_or(0, u32::cast_signed);
                let info = libc::in_pktinfo { ipi_ifindex, ipi_spec_dst: ours, ipi_addr: any };
                self.push(&mut used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            IpAddr::V6(source) => {
                let ours = libc::in6_addr { s6_addr: source.octets() };
                let ipi6_ifindex = head.interface.unwrap_or(0);
                let info = libc::in6_pktinfo { ipi6_addr: ours, ipi6_ifindex };
                self.push(&mut used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
        if used > 0 {
            header.msg_control = self.0.as_mut_ptr().cast();
            header.msg_controllen = used as _;
        }
    }

    /// Appends a message of this kind behind the `used` octets, if there is room.
    fn push<T: Copy>(&mut self, used: &mut usize, level: i32, kind: i32, value: T) {
        let Ok(octets) = libc::c_uint::try_from(size_of::<T>()) else { return };
        // SAFETY: plain arithmetic.
        let (len, space) = unsafe { (libc::CMSG_LEN(octets), libc::CMSG_SPACE(octets)) };
        let (Ok(len), Ok(space)) = (usize::try_from(len), usize::try_from(space)) else { return };
        if *used + space > size_of_val(&self.0) {
            return;
        }
        // SAFETY: the buffer is aligned for a `cmsghdr`, and so is what is used of it, because
        // `CMSG_SPACE` rounds up; the message has `space` octets, which are there.
        unsafe {
            let message = self.0.as_mut_ptr().byte_add(*used).cast::<libc::cmsghdr>();
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = len as _;
            libc::CMSG_DATA(message).cast::<T>().write_unaligned(value);
        }
        *used += space;
    }
}

/// Options for sending a datagram, besides the destination.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// TOS or traffic class in the IP header; the socket's own if there is none.
    pub class: Option<u8>,
    /// Source address, which belongs to this host; if absent, the kernel chooses.
    pub source: Option<IpAddr>,
    /// The number of the outgoing interface, whatever routes say; routes decide if there is none.
    pub interface: Option<u32>,
}

impl Head {
    /// Whether it is said where the datagram leaves from.
    pub(crate) fn is_bound(self) -> bool {
        self.source.is_some() || self.interface.is_some()
    }
}

/// Control data of a received message.
#[derive(Default)]
pub struct Said {
    pub traffic_class: u8,
    pub segment: Option<usize>,
    pub is_group: bool,
    /// The destination address, unless the datagram was sent to a group or to all.
    pub to: Option<IpAddr>,
    /// The number of the incoming interface.
    pub interface: Option<u32>,
}

pub fn said_of(header: &libc::msghdr) -> Said {
    let mut said = Said::default();
    // SAFETY: the kernel filled the control buffer up to `msg_controllen`; the macros stay within
    // it, and each message is read only as far as its own length says.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = at.as_ref() {
            let data = libc::CMSG_DATA(message);
            let len: usize = message.cmsg_len as _;
            let len = len.saturating_sub(data.addr() - at.addr());
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) if len >= 1 => said.traffic_class = *data,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if len >= 4 => {
                    let class = data.cast::<i32>().read_unaligned();
                    said.traffic_class = u8::try_from(class).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) if len >= size_of::<libc::in_pktinfo>() => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    said.is_group = info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr;
                    let to = u32::from_be(info.ipi_addr.s_addr);
                    said.to = (!said.is_group).then(|| IpAddr::V4(to.into()));
                    said.interface = u32::try_from(info.ipi_ifindex).ok().filter(|it| *it > 0);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                    if len >= size_of::<libc::in6_pktinfo>() =>
                {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    said.is_group = info.ipi6_addr.s6_addr[0] == 0xff;
                    let to = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    said.to = (!said.is_group).then(|| IpAddr::V6(to).to_canonical());
                    said.interface = Some(info.ipi6_ifindex).filter(|it| *it > 0);
                }
                (libc::SOL_UDP, libc::UDP_GRO) if len >= 4 => {
                    said.segment = usize::try_from(data.cast::<i32>().read_unaligned()).ok();
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    said
}
