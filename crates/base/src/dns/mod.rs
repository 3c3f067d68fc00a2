//! Asks name servers for the addresses of a host: a resolver just large enough to call a peer by name (RFC 1035, RFC
//! 3596, RFC 6891).
//!
//! ```text
//!   name, servers ──▶ ┌────────┐ poll_transmit ──▶ one server after the other
//!                     │ Lookup │ ◀── handle_datagram, handle_refusal
//!     outcome    ◀──  └────────┘     next_timeout, handle_timeout
//! ```
//!
//! A forged answer only makes us call a wrong host: the called peer has to prove itself with its key.

pub mod files;
mod lookup;
mod name;
#[cfg(test)]
mod tests;
pub mod wire;

pub use lookup::{Failure, Lookup, Question};
pub use name::{BadName, Name};

/// Most addresses considered for a name.
pub const MAX_ADDRESSES: usize = 16;
