//! Peers know each other by their keys; all datagrams between peers are sealed and never accepted
//! twice.
//!
//! ```text
//!   number, payload   ┌────────┐  data                    data  ┌────────┐  number, payload
//!  ─────────────────▶ │ Sealer │ ─────────────▶ ─────────────▶ │ Opener │ ─────────────────▶
//!                     └───▲────┘                                └───▲────┘
//!                         │ keys, endpoint                          │ keys by index
//!                     ┌───┴─────────────────────────────────────────┴───┐
//!   handle_datagram ─▶│ Peers: handshakes, rekeying, roaming, keepalives│─▶ poll_transmit
//!     handle_heard ─▶ └─────────────────────────────────────────────────┘─▶ poll_event
//!                            next_timeout / handle_timeout
//! ```
//!
//! The handshake is `Noise_IKpsk2_25519_AESGCM_BLAKE2s` by the crate `snow`. Data are sealed by
//! ring's AES-256-GCM with the two keys that Noise splits off, the datagram's number as nonce: what
//! Noise's own transport does, without its copies. Nothing here opens a socket or reads a clock;
//! secrets come from an [`Entropy`](base::entropy::Entropy) that
//! is handed in, the operating system's in a gateway. `docs/guide/tunnel.md` has the reasons.
//!
//! [`Peers`] belongs to one thread. A [`Sealer`] and an [`Opener`] may live on others. Calls go from left to right:
//!
//! ```text
//!   peers ─┬▶ guard ──▶ shares ─▶ mac           refuses calls cheaply
//!          ├▶ peer ─┬▶ handshake ─▶ noise       a call, repeated until it is answered
//!          │        ├▶ sessions ─┬▶ seal ─┐
//!          │        │            └▶ open ─┴▶ data, activity ─▶ secret     keys, numbers, the replay window
//!          └────────┴▶ local                    clock, randomness, and what waits to be sent or told
//!
//!   below all: wire (octets), keys, stats;  beside them: routes, which finds the peer of an inner address
//! ```

mod activity;
mod data;
mod guard;
mod handshake;
mod keys;
mod local;
mod mac;
mod noise;
mod open;
mod peer;
mod peers;
mod routes;
mod seal;
mod secret;
mod sessions;
mod shares;
mod stats;
#[cfg(test)]
mod tests;
pub mod wire;

use std::fmt;

pub use keys::{PresharedKey, PrivateKey, PublicKey};
pub use local::{Event, Fresh, Outgoing, Trouble};
pub(crate) use mac::mac;
pub use open::{Heard, Opened, Opener};
pub use peer::Peer;
pub use peers::{Incoming, Peers, Unusable};
pub use routes::{Routes, Twice};
pub use seal::{Sealer, Unsealed};
pub use secret::TAG;
pub use stats::{Dropped, Stats, Totals};
pub use wire::{HEADER, OUTER_V4, OUTER_V6, OVERHEAD};

/// The UDP port of gateways that are given no other.
pub const PORT: u16 = 51_900;
/// The most peers of a gateway.
pub const MAX_PEERS: usize = 1_024;

/// Identifies a peer: its position in the list given to [`Peers::new`], or the number from [`Peers::add_peer`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PeerId(u16);

impl PeerId {
    /// The peer at this position, below [`MAX_PEERS`].
    #[must_use]
    pub fn new(position: usize) -> Option<Self> {
        let position = u16::try_from(position).ok()?;
        (usize::from(position) < MAX_PEERS).then_some(Self(position))
    }

    /// Its position.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One life of a peer: since its program started, or since the peer forgot its knowledge of us.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Incarnation(u64);

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
