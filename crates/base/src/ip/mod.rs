//! IP for every core: headers, checksums, ICMP errors, fragments.
//!
//! ```text
//!   octets ──▶ Header::parse ──▶ Header (facts, both versions)      Spec ──▶ emit ──▶ octets
//!                                  └──▶ FlowKey::of (addresses, ports)
//! ```

mod checksum;
mod flow;
mod fragment;
mod header;
pub mod icmp;
pub mod minimal;
pub mod mss;
mod prefix;
pub mod selective;
mod source;
#[cfg(test)]
mod tests;
pub mod udp;

pub use checksum::{Checksum, pseudo_header};
pub use flow::FlowKey;
pub use fragment::fragment;
pub use header::{
    Fragment, Header, Malformed, Spec, Transport, V4_HEADER, V6_HEADER, decrement_ttl, dscp,
    increment_ttl, mark_congestion, rewrite_v4_checksum,
};
pub use prefix::{NoPrefix, Prefix};
pub use source::{BadSource, BadSources, check_source, is_unicast};

/// IP protocol numbers (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 fragment header.
    pub const V6_FRAGMENT: u8 = 44;
    /// Generic Routing Encapsulation.
    pub const GRE: u8 = 47;
    /// Minimal encapsulation (RFC 2004).
    pub const MINIMAL: u8 = 55;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows.
    pub const NONE: u8 = 59;
    /// OSPF (RFC 2328).
    pub const OSPF: u8 = 89;
    /// For experiments (RFC 3692); HBH's default.
    pub const EXPERIMENT: u8 = 253;
}

/// The ECN field, the low two bits of the traffic class (RFC 3168, 5).
pub mod ecn {
    /// The transport does not speak ECN.
    pub const NOT_ECT: u8 = 0;
    /// ECN-capable transport, codepoint 1.
    pub const ECT_1: u8 = 1;
    /// ECN-capable transport, codepoint 0.
    pub const ECT_0: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 3;
}
