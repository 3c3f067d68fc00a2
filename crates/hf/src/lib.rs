//! IP over HF radio: a STANAG 5066 node, and its clients.
//!
//! ```text
//!   TCP connections ─▶ hfpep ─▶ slep ─┐
//!                                     ├─▶ s5066: sis ─▶ cas, dts ─▶ modem ─▶ the air
//!   IP datagrams ─────▶ ipclient ─────┘
//! ```
//!
//! [`hfpep`] and [`ipclient`] reach a node through its subnetwork interface, ours or another's.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod hfpep;
pub mod ipclient;
pub mod modem;
pub mod s5066;
pub mod slep;
