//! Handles the peer's SYN, and calculates how long segments may be.

use base::ip::{V4_HEADER, V6_HEADER};
use base::tcp::{Flags, HEADER, Segment};
use base::time::Time;

use super::connection::Connection;
use super::receiver::{MAX_SHIFT, Receiver};

/// Smaller segments would be mostly header; a peer or router that asks for less gets this.
const MIN_MSS: usize = 64;
/// The maximum of the length field in an IP header.
const MAX_PACKET: usize = 65_535;
/// Octets of the timestamps option in each segment.
const TIMESTAMPS_LEN: usize = 12;

impl Connection {
    /// Handles the peer's SYN: the initial sequence number and the offered options.
    pub(super) fn take_syn(&mut self, now: Time, syn: &Segment<'_>) {
        let options = &syn.options;
        let agreed = &mut self.agreed;
        agreed.timestamps &= options.timestamps.is_some();
        agreed.sack &= options.sack_permitted;
        agreed.scaling &= options.window_scale.is_some();
        agreed.ecn &= if syn.flags.has(Flags::ACK) {
            syn.flags.has(Flags::ECE) && !syn.flags.has(Flags::CWR)
        } else {
            syn.flags.has(Flags::ECE | Flags::CWR)
        };
        let scale = options.window_scale.filter(|_| agreed.scaling);
        agreed.peer_shift = scale.unwrap_or(0).min(MAX_SHIFT);
        let shift = if agreed.scaling { Receiver::shift_for(&self.config) } else { 0 };
        self.sender.sack = agreed.sack;
        self.peer_mss = options.mss.unwrap_or(self.peer_mss);
        let mss = self.payload_limit();
        self.receiver = Receiver::new(&self.config, syn.seq, shift, mss);
        if let Some(timestamps) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.receiver.take_timestamp(now, self.receiver.next(), timestamps.value);
        }
        // The window of a SYN is never scaled.
        let seq = self.receiver.next();
        self.sender.offered.start(seq, self.sender.una, u64::from(syn.window));
    }

    /// Octets that a segment can carry to the peer, timestamps counted off.
    pub(super) fn payload_limit(&self) -> u64 {
        let path = self.path_mtu.min(MAX_PACKET).saturating_sub(self.headers());
        let own = self.config.mss.map_or(usize::MAX, usize::from);
        let mss = path.min(own).min(usize::from(self.peer_mss)).max(MIN_MSS);
        let options = if self.agreed.timestamps { TIMESTAMPS_LEN } else { 0 };
        (mss - options) as u64
    }

    /// The MSS that we announce.
    pub(super) fn announced_mss(&self) -> u16 {
        let derived = self.config.mtu.saturating_sub(self.headers()).max(MIN_MSS);
        self.config.mss.unwrap_or(u16::try_from(derived).unwrap_or(u16::MAX))
    }

    fn headers(&self) -> usize {
        HEADER + if self.local.is_ipv4() { V4_HEADER } else { V6_HEADER }
    }
}
