//! The gateway: real traffic on Linux, hop by hop.
//!
//! ```text
//!   gateway      the loop: intercept, forward, release, transmit
//!   neighbours   who speaks HBH (hello)          firewall   what is intercepted (nftables)
//!   routes       the kernel's next hops          port       a MANET interface
//!   offload      segments and checksums          sys        packet sockets, TAP
//!   secure       keys, handshakes, sealing
//! ```

pub mod config;
mod control;
pub mod counters;
pub mod firewall;
pub mod frame;
mod gateway;
pub mod hello;
pub mod links;
pub mod mss;
pub mod neighbours;
pub mod netlink;
pub mod offload;
mod port;
mod rights;
pub mod routes;
pub mod secure;
mod setup;
pub mod sys;

pub use config::Config;
pub use control::ask as ask_status;
pub use gateway::Gateway;
