//! Options that the two SYNs agree on.

use std::net::SocketAddr;

use super::config::Config;

/// The payload that every host takes when it does not say (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1_220;

/// What the two SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// The shift of the peer's window field.
    pub(super) peer_shift: u8,
    pub(super) scaling: bool,
}

impl Agreed {
    /// What our SYN asks for.
    pub(super) fn offered(config: &Config) -> Self {
        Self {
            timestamps: config.offer.timestamps,
            sack: config.offer.sack,
            ecn: config.offer.ecn,
            peer_shift: 0,
            scaling: config.offer.window_scaling,
        }
    }
}

/// The payload that the peer takes when it does not say.
pub(super) fn default_mss(local: SocketAddr) -> u16 {
    if local.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 }
}
