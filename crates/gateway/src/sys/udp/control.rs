//! Control messages: what the kernel is told and tells of a message beside its octets.

use nix::libc;

/// Words of the control messages that go with a message: the size of segments, and the traffic class.
const WORDS: usize = 6;

/// Control messages, aligned as the kernel wants them.
#[derive(Clone, Copy, Default)]
pub(super) struct Control([usize; WORDS]);

impl Control {
    /// Asks the kernel to cut a message into datagrams, and to put a class into their IP headers.
    pub(super) fn say(
        &mut self,
        header: &mut libc::msghdr,
        is_v4: bool,
        segment: Option<usize>,
        class: Option<u8>,
    ) {
        let segment = segment.map(|it| u16::try_from(it).unwrap_or(u16::MAX));
        // SAFETY: plain arithmetic.
        let (of_segment, of_class) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_SPACE(4)) };
        let space = segment.map_or(0, |_| of_segment) + class.map_or(0, |_| of_class);
        if space == 0 {
            return;
        }
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = usize::try_from(space).unwrap_or(0).min(size_of_val(&self.0));
        // SAFETY: the control buffer is aligned for a `cmsghdr` and has room for both messages, of
        // 24 octets each; the header says how much of it they take, and `CMSG_NXTHDR` is called
        // only when the second one is in that.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            if let Some(segment) = segment {
                (*message).cmsg_level = libc::SOL_UDP;
                (*message).cmsg_type = libc::UDP_SEGMENT;
                (*message).cmsg_len = usize::try_from(libc::CMSG_LEN(2)).unwrap_or(0);
                libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment);
                if class.is_some() {
                    message = libc::CMSG_NXTHDR(header, message);
                }
            }
            if let Some(class) = class
                && !message.is_null()
            {
                let (level, kind) = match is_v4 {
                    true => (libc::IPPROTO_IP, libc::IP_TOS),
                    false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                (*message).cmsg_level = level;
                (*message).cmsg_type = kind;
                (*message).cmsg_len = usize::try_from(libc::CMSG_LEN(4)).unwrap_or(0);
                libc::CMSG_DATA(message).cast::<i32>().write_unaligned(class.into());
            }
        }
    }
}

/// What the kernel says of a message.
#[derive(Default)]
pub(super) struct Said {
    pub(super) traffic_class: u8,
    pub(super) segment: Option<usize>,
    pub(super) is_group: bool,
}

pub(super) fn said_of(header: &libc::msghdr) -> Said {
    let mut said = Said::default();
    // SAFETY: the kernel filled the control buffer up to `msg_controllen`; the macros stay within
    // it, and each message is read only as far as its own length says.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = at.as_ref() {
            let data = libc::CMSG_DATA(message);
            let len = message.cmsg_len.saturating_sub(data.addr() - at.addr());
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) if len >= 1 => said.traffic_class = *data,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if len >= 4 => {
                    let class = data.cast::<i32>().read_unaligned();
                    said.traffic_class = u8::try_from(class).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) if len >= size_of::<libc::in_pktinfo>() => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    said.is_group = info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                    if len >= size_of::<libc::in6_pktinfo>() =>
                {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    said.is_group = info.ipi6_addr.s6_addr[0] == 0xff;
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
