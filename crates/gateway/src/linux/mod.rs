//! Reads and changes the state of the Linux kernel by netlink, nftables and devices.

pub(crate) mod account;
pub(crate) mod belongings;
pub(crate) mod capture;
pub(crate) mod claims;
pub(crate) mod copies;
pub(crate) mod device;
pub(crate) mod divert;
pub(crate) mod entrances;
mod fence;
pub mod fib;
pub mod firewall;
pub(crate) mod holder;
pub mod left;
pub mod links;
pub mod manet;
pub mod netlink;
pub(crate) mod nft;
pub mod offload;
pub(crate) mod redirect;
pub(crate) mod rights;
pub mod routes;
pub(crate) mod seccomp;
pub(crate) mod settings;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod ways;
