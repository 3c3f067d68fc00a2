//! Asking name servers for the addresses of a host: as much of a resolver as calling a peer by its name takes
//! (RFC 1035, RFC 3596, RFC 6891).
//!
//! ```text
//!   name, servers ──▶ ┌────────┐ poll_transmit ──▶ one server after the other
//!                     │ Lookup │ ◀── handle_datagram, handle_refusal
//!     outcome    ◀──  └────────┘     next_timeout, handle_timeout
//! ```
//!
//! Whoever forges an answer only has us call elsewhere: what is called proves itself with its key.

pub mod files;
mod lookup;
mod name;
#[cfg(test)]
mod tests;
pub mod wire;

pub use lookup::{Failure, Lookup, Question};
pub use name::{BadName, Name};

/// Addresses of a name that are looked at.
pub const MAX_ADDRESSES: usize = 16;
