//! Declares the kinds of findings. Kinds that a running gateway also reports are declared with the faults.

use std::time::Duration;

use host::fault::{
    BESIDE, COVERED, FIREWALL, FORWARDING, INTERFACE, Kind, LISTEN, MTU, NO_ROUTE, OVERRULED,
    REVERSE_PATH, SETTING, Severity,
};

/// A kind that a running gateway does not report.
const fn kind(code: &'static str, severity: Severity, meaning: &'static str) -> Kind {
    Kind { code, severity, meaning, follows: &[], delay: Duration::ZERO }
}

pub static RIGHTS: Kind = kind("rights", Severity::High, "The process may not change the host.");
pub static TUN: Kind = kind("tun", Severity::High, "The kernel has no TUN devices.");
pub static NFT: Kind = kind("nft", Severity::High, "nftables, or a part of it, is missing.");
pub static PORT: Kind = kind("port", Severity::High, "A port is taken by another program.");
pub static CLOCK: Kind = kind("clock", Severity::Medium, "The clock is wrong.");
pub static UNREAD: Kind =
    kind("firewall-unread", Severity::Low, "Rules of another firewall cannot be read.");
pub static DNS: Kind = kind("dns", Severity::Low, "DNS queries go past a peer for everything.");
pub static MANAGER: Kind =
    kind("manager", Severity::Low, "A network manager may change devices of ours.");
pub static PERHAPS: Kind = kind(
    "perhaps",
    Severity::Low,
    "Something that the examination cannot evaluate may drop packets.",
);
pub static RUNNING: Kind = kind("running", Severity::Low, "A gateway runs here already.");

/// All kinds of findings, the gravest first.
pub static KINDS: [&Kind; 21] = [
    &RIGHTS,
    &TUN,
    &NFT,
    &PORT,
    &INTERFACE,
    &LISTEN,
    &BESIDE,
    &OVERRULED,
    &COVERED,
    &SETTING,
    &FORWARDING,
    &FIREWALL,
    &REVERSE_PATH,
    &NO_ROUTE,
    &MTU,
    &CLOCK,
    &UNREAD,
    &DNS,
    &MANAGER,
    &PERHAPS,
    &RUNNING,
];
