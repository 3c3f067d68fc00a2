//! The coded tunnel, which repairs losses between two gateways.
//!
//! ```text
//!   inner IP     handle_packet  ┌────────┐  poll_transmit    sealed, in UDP
//!   packets    ───────────────▶ │ Tunnel │ ────────────────▶ to the peer
//!              ◀─────────────── │        │ ◀────────────────
//!               poll_packet     └────────┘  handle_datagram
//!                  poll_event  next_timeout  handle_timeout
//! ```
//!
//! Each peer has a [`Tunnel`] of its own, without keys and addresses: the driver seals the datagrams of
//! [`Tunnel::poll_transmit`], with the datagram's number as nonce, and hands in only datagrams that it
//! could open; [`secure`] seals and opens. Inside, a part calls only the parts shown below or right of it, and none
//! calls back:
//!
//! ```text
//!                                 Tunnel   takes calls and messages, chooses the next datagram
//!       sending                   the peer and the path                     receiving
//!   queue     FQ-CoDel         liveness       is the peer there?        receiver   recovers sources
//!   recorder  packets into     mtu            the path's longest         └ outlet  packets in order
//!    │         records          │              datagram                  reporter  what was received,
//!    ├ headers                 understanding  what an older peer        │          and when to say so
//!    └ parts   long packets                    cannot read               └ overtaken  late, or lost?
//!   sender    sources, repairs    proof      of a further path's      (outlet: headers, parts)
//!    └ loss   of each path        address
//!   rate      when to send
//!   reported, silence          what reports say, and what it means when none comes
//!
//!   Of each path to the peer: rate, reported, silence, reporter, liveness, mtu, proof. The window of sources is one: what
//!   one path loses, another makes good.
//!
//!   below all: wire, record (octets), pool (buffers), work (budgets), stats, config
//! ```

#![warn(clippy::disallowed_methods, reason = "time comes in as `now: Time`, and cores never wait")]

mod advance;
mod config;
pub mod headers;
mod kept;
mod liveness;
mod loss;
mod mtu;
mod number;
mod outlet;
mod overtaken;
mod parts;
mod pool;
mod proof;
mod queue;
mod rate;
mod receiver;
mod record;
mod recorder;
mod reported;
mod reporter;
pub mod secure;
mod sender;
mod silence;
pub mod stats;
#[cfg(test)]
mod tests;
mod tunnel;
mod understanding;
mod wire;
mod work;

pub use config::{Config, PARAMETERS};
pub use number::{PATHS, PathId};
pub use stats::{Estimates, OfPath, Stats};
pub use tunnel::{Event, Transmit, Tunnel};
