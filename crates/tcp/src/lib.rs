//! TCP (RFC 9293) without I/O.
//!
//! ```text
//!               write / close                      poll_transmit (whole IP packets)
//!  application ───────────────▶ ┌────────────┐ ─────────────────────────────────────▶  network
//!              ◀─────────────── │ Connection │ ◀─────────────────────────────────────
//!            read / poll_event  └────────────┘   handle_segment (Segment::parse)
//!                        next_timeout / handle_timeout
//! ```
//!
//! The driver listens: it passes a SYN for a listening port to [`Connection::accept`], and answers a segment of no
//! connection with [`Segment::reset_for`](base::tcp::Segment::reset_for). After each `handle_*`, and after `write`,
//! `read`, `close` and `abort`, it asks `poll_event`, `poll_transmit` and `next_timeout`.
//!
//! Inside, `sender` and `receiver` are the two halves, and `connection` is the state machine around them. The sender
//! counts on `scoreboard`, `flight` and `controller`, the receiver on `reassembly`.

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

pub mod adaptive_pacing;
mod algorithm;
pub mod bbr;
mod config;
mod congestion;
mod connection;
mod cubic;
mod event;
mod flight;
mod hystart;
mod newreno;
mod queue;
mod reassembly;
mod receiver;
mod resent;
mod ring;
mod rtt;
mod scoreboard;
mod sender;
mod seq;
mod spelling;
pub mod stats;
pub mod tcpnc;
#[cfg(test)]
mod tests;
pub mod vegas;

pub use algorithm::{Algorithm, Finding};
pub use config::{
    Config, Congestion, DelayedAck, FullAck, InitialWindow, IpFields, KeepAlive, Limit,
    LossRecovery, Offer, PARAMETERS, Rto,
};
pub use congestion::{Ack, CongestionControl, Delivery, Duplicate, Growth, Head, Verdict, Window};
pub use connection::Connection;
pub use cubic::Cubic;
pub use event::{Event, State, TimedOut};
pub use newreno::NewReno;
pub use rtt::Estimator;
pub use stats::Stats;
