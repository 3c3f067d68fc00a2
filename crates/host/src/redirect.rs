//! Redirects frames written into our device, so that the kernel receives them as if from the MANET interface.
//!
//! ```text
//!   write ─▶ trackway0 ─ ingress: u32, all ─▶ mirred: ingress of wlan0 ─▶ the kernel's rules for wlan0
//! ```
//! Every rule, setting and look-up for the MANET interface then applies to frames leaving HBH here. The
//! queueing discipline and its filter belong to our device and go with it, however we end.

use std::io;

use nix::libc;

use crate::netlink::{self, Kernel, Request};

const FIXED: usize = 20;
/// `TC_H_CLSACT`, and its major number alone: where what a device receives is classified.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`.
const INGRESS: u32 = 0xffff_fff2;
/// A filter's priority in the upper half, the kind of frames in the lower.
const FIRST_OF_ALL: u32 = 1 << 16;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_U32_TERMINAL: u8 = 1;
const TC_ACT_STOLEN: u32 = 4;
const TCA_INGRESS_REDIR: u32 = 3;
/// Where `struct tc_mirred` has the number of the interface.
const MIRRED_TO: usize = 24;

/// Whether the interface numbered `to` receives what the one numbered `from` receives.
///
/// # Errors
/// When the kernel does not answer.
pub fn redirects(netlink: &mut Kernel, from: u32, to: u32) -> io::Result<bool> {
    let request = Request::dump(libc::RTM_GETTFILTER, &fixed(from, 0, INGRESS, 0));
    let found = netlink.dump(&request, |message, found| {
        let is_of = message
            .fixed::<8>()
            .is_some_and(|&[.., a, b, c, d]| u32::from_ne_bytes([a, b, c, d]) == from);
        let mut options = message.attributes(FIXED).filter(|(kind, _)| *kind == TCA_OPTIONS);
        let is_redirect = options.any(|(_, options)| receiver(options) == Some(to));
        found.extend((is_of && is_redirect).then_some(()));
    })?;
    Ok(!found.is_empty())
}

/// The number of the interface to which a filter redirects, read from its options.
fn receiver(options: &[u8]) -> Option<u32> {
    let path = [TCA_U32_ACT, 1, TCA_ACT_OPTIONS, TCA_MIRRED_PARMS];
    let mirred = path.iter().try_fold(options, |octets, wanted| {
        netlink::attributes(octets).find(|(kind, _)| kind == wanted).map(|(_, value)| value)
    })?;
    mirred.get(MIRRED_TO..).and_then(netlink::number)
}

/// Lets the interface numbered `to` receive what the one numbered `from` receives, whatever was classified there before.
///
/// # Errors
/// When the kernel refuses; `ENOENT` when it has no such filter or action.
pub fn redirect(netlink: &mut Kernel, from: u32, to: u32) -> io::Result<()> {
    // Somebody may have removed the filter and left the rest.
    let old = Request::set(libc::RTM_DELQDISC, 0, &fixed(from, CLSACT_HANDLE, CLSACT, 0));
    let _ = netlink.ask(&old, |_| {});
    let flags = u16::try_from(libc::NLM_F_CREATE | libc::NLM_F_EXCL).unwrap_or_default();
    let qdisc = fixed(from, CLSACT_HANDLE, CLSACT, 0);
    let request = Request::set(libc::RTM_NEWQDISC, flags, &qdisc).with(TCA_KIND, b"clsact\0");
    netlink.ask(&request, |_| {})?;

    let filter = fixed(from, 0, INGRESS, FIRST_OF_ALL | u32::from(all_kinds()));
    let request = Request::set(libc::RTM_NEWTFILTER, flags, &filter)
        .with(TCA_KIND, b"u32\0")
        .with(TCA_OPTIONS, &options(to));
    netlink.ask(&request, |_| {})
}

/// `struct tcmsg`.
fn fixed(index: u32, handle: u32, parent: u32, info: u32) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    for (field, value) in fixed[4..].chunks_exact_mut(4).zip([index, handle, parent, info]) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
    fixed
}

/// The options of a filter that redirects every frame to the interface numbered `to`.
fn options(to: u32) -> Vec<u8> {
    // `struct tc_mirred`: index, capabilities, verdict, references, bindings, kind of redirection, interface.
    let mirred: Vec<u8> = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_INGRESS_REDIR, to]
        .into_iter()
        .flat_map(u32::to_ne_bytes)
        .collect();
    let action = [
        netlink::attribute(TCA_ACT_KIND, b"mirred\0"),
        netlink::attribute(TCA_ACT_OPTIONS, &netlink::attribute(TCA_MIRRED_PARMS, &mirred)),
    ];
    let first = netlink::attribute(1, &action.concat());
    // `struct tc_u32_sel` with one key, whose mask and value are zero.
    let mut selector = [0; 32];
    selector[0] = TC_U32_TERMINAL;
    selector[2] = 1;
    [netlink::attribute(TCA_U32_ACT, &first), netlink::attribute(TCA_U32_SEL, &selector)].concat()
}

/// `ETH_P_ALL` in the network's order.
fn all_kinds() -> u16 {
    u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of `tc filter add … u32 match u32 0 0 action mirred ingress redirect dev …`, without
    /// the flag for nested attributes.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_filter_is_these_octets() {
        let expected = [
            &b"\x38\0\x07\0\x34\0\x01\0\x0b\0\x01\0mirred\0\0"[..],
            b"\x24\0\x02\0\x20\0\x02\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x03\0\0\0",
            b"\x24\0\x05\0\x01\0\x01\0",
            &[0; 28],
        ];

        assert_eq!(options(3), expected.concat());
        assert_eq!(receiver(&options(3)), Some(3));
        assert_eq!(receiver(&options(3)[..20]), None);
    }
}
