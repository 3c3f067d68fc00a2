//! The contract between a protocol core and the driver that runs it.
//!
//! ```text
//!            handle_packet, handle_*              poll_transmit
//!  user   ──────────────────────────▶  ┌──────┐ ─────────────────▶  bearer: a link, a socket
//!         ◀──────────────────────────  │ core │ ◀─────────────────
//!           poll_packet, poll_event    └──────┘   handle_datagram, handle_*
//!                              next_timeout / handle_timeout
//! ```
//!
//! A core is a plain struct. It reads no clock, opens no socket, starts no thread, and draws random
//! numbers only from a generator given by the driver. Two drivers run it: the simulator in virtual time
//! and the gateway in real time.
//!
//! # Four kinds of method
//!
//! - **Facts in.** `handle_*(now, ...)` says that something happened: a packet came from the user, a
//!   datagram came from the bearer, a connection opened. The method returns only facts, like [`Refused`];
//!   decisions come from `poll_*`.
//! - **Decisions out.** `poll_*(now, ...)` takes the next thing that the core has for the driver, or
//!   `None` (`false`, where only octets are handed out). Octets go to
//!   `out: &mut Vec<u8>`, the last argument: a packet or datagram replaces the content of `out`, octets
//!   of a stream (`poll_octets`, and the octets that a modem transmits) are appended. `poll_event()`
//!   returns news for the driver; `poll_transmit` decides what to send now, so it is called only while
//!   the bearer has room: an early decision is stale when the datagram leaves.
//! - **Time.** `next_timeout()` is when to call `handle_timeout(now)` at the latest.
//! - **Getters**, which change nothing: `stats()`, `config()`, `mtu()`.
//!
//! `now` is the first argument of every method with a time. Time never goes back.
//!
//! # Order of the calls
//!
//! 1. One `handle_*`, or `handle_timeout` when the deadline has come.
//! 2. `poll_event`, `poll_packet` and whatever else needs no bearer, until there is nothing more.
//! 3. `poll_transmit` while the bearer has room.
//! 4. `next_timeout`, then wait: for input, for that time, or for a full bearer to have room again.
//!
//! # What a core promises
//!
//! - After `handle_timeout(now)`, `next_timeout()` is `None` or later than `now`; a driver would spin
//!   otherwise. A frame that is ready and waits for the bearer has no deadline: the driver asks again
//!   when there is room.
//! - Data that becomes ready as time passes is announced: after `poll_transmit` has returned nothing
//!   at `now`, `next_timeout()` is no later than the time at which `poll_transmit` has something.
//! - `handle_timeout` called early or repeatedly does nothing.
//! - Polling ends: without input and without time passing, every `poll_*` comes to have nothing more.
//! - No input makes a core panic. Unreadable input is counted and ignored.
//! - Every queue and table has a bound in the core's `Config`, and a counter of refused entries.
//!
//! The parts inside a core have the same shape under shorter names: `push`, `poll`, `is_due(now)`,
//! `next_timeout()`.
//!
//! Wire formats have a common shape too. `T::parse(octets) -> Result<T, Malformed>` reads exactly one `T`, from the
//! first octet to the last; `T::split_first(octets)` reads the first of several and returns the octets of the others as
//! well. The content of an IP packet is parsed together with the packet's header, because checksums cover parts of it:
//! `T::parse(&header, packet, offset)`. `t.emit(&mut out)` appends the octets.
//!
//! The tests of every core run through the crate `harness`, which checks these promises.

/// Why a core did not take a packet from its user. The core has counted it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The peer is unknown or cannot be reached: answer with ICMP destination unreachable.
    #[error("the peer cannot be reached")]
    Down,
    /// There is no room: the packet is dropped.
    #[error("the queue is full")]
    Full,
    /// It is not an IP packet.
    #[error("not an IP packet")]
    Malformed,
    /// The packet is too long: answer with ICMP packet too big.
    #[error("the packet is too big, {mtu} octets fit")]
    TooBig {
        /// Octets that fit.
        mtu: usize,
    },
}
