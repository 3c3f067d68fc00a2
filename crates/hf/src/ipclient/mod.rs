//! IP datagrams over STANAG 5066: the IP client (Annex F, F.12; Annex U in Edition 4).
//!
//! ```text
//!          handle_packet                          poll_octets
//!  stack ─────────────────▶ ┌─────┐ ┌────────┐ ─────────────────▶  node's subnetwork
//!        ◀───────────────── │Queue│ │ Client │ ◀─────────────────  interface, TCP
//!          poll_packet      └─────┘ └────────┘    handle_octets
//!                             │        └── unconfirmed: the window for each priority, twice it at most
//!                             └─ by priority, then by age
//! ```
//!
//! A U_PDU is one whole datagram: the first half octet tells IPv4 from IPv6, nothing is added. Towards clients of ours
//! its [headers] are compressed.
//! Settings and design decisions are in `docs/protocols/ipclient.md`.

mod client;
mod config;
pub mod headers;
mod queue;
mod route;
pub mod stats;
mod tcp;
#[cfg(test)]
mod tests;

pub use client::{Event, IpClient};
pub use config::{CLASS, Class, Config, Override, PARAMETERS};
pub use route::Route;
pub use stats::Stats;
