//! Congestion control: one small trait for everything that decides how much may be in flight.
//!
//! To add one, write its file, give it a variant in [`Algorithm`](super::Algorithm) and one in `Controller`.

use std::time::Duration;

use base::time::Time;

/// How acknowledgements open the window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Growth {
    /// By what is acknowledged: in slow start at most `limit` segments for one acknowledgement
    /// (RFC 3465; 1 is RFC 5681), in congestion avoidance one segment for a window's octets.
    Octets {
        /// L of RFC 3465, 2.2; at least 1.
        limit: u32,
    },
    /// One segment, or S * S / cwnd, for an acknowledgement, whatever it covers (RFC 5681, (3)).
    PerAck,
}

/// What a controller sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Octets that may be in flight.
    pub cwnd: u64,
    /// Below this window slow start, above it congestion avoidance.
    pub ssthresh: u64,
    /// Octets of a full segment.
    pub mss: u64,
    /// No new data before this; what is lost is not held back.
    pub next_send: Option<Time>,
}

/// Data that left the network, and data in flight.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Delivery {
    /// Octets that the peer has, acknowledged or reported by SACK, since the beginning.
    pub total: u64,
    /// Octets in flight now: neither arrived nor lost.
    pub in_flight: u64,
    /// When the newest segment that this acknowledgement reports for the first time was last sent.
    pub sent_at: Option<Time>,
    /// Whether everything written was sent: less may be in flight than there is room for.
    pub is_app_limited: bool,
}

/// An acknowledgement of new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Octets that it acknowledged.
    pub octets: u64,
    /// Octets in flight before the acknowledgement.
    pub flight: u64,
    /// Octets in flight now.
    pub flight_after: u64,
    /// The time since the last covered segment was sent, if every covered segment was sent only once.
    pub rtt: Option<Duration>,
    /// The same, even if other segments that it covers were sent more than once.
    pub newest_rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Whether the window, not the application or the peer, held the sender back.
    pub is_window_limited: bool,
    /// Whether a loss is being repaired; NewReno's window is then not the controller's to grow.
    pub in_recovery: bool,
    /// Hops left in the packet with the acknowledgement.
    pub ttl: u8,
    /// The oldest segment still in flight.
    pub head: Option<Head>,
    /// After it.
    pub delivery: Delivery,
}

/// An acknowledgement of nothing new, while something is in flight.
#[derive(Clone, Copy, Debug)]
pub struct Duplicate {
    /// Duplicates in a row, including the present one.
    pub count: u32,
    /// Whether so many mean a loss.
    pub is_enough: bool,
    /// Whether fast recovery is under way.
    pub in_recovery: bool,
    /// Whether the peer reports out-of-order data (RFC 2018): the window then needs no inflating.
    pub has_sack: bool,
    /// The oldest segment in flight.
    pub head: Option<Head>,
    /// After it.
    pub delivery: Delivery,
}

/// The oldest segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// When it was last sent.
    pub sent_at: Time,
    /// Whether that was not the first time.
    pub is_retransmission: bool,
}

/// What a controller requests besides its window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Continue,
    /// The oldest segment is to be sent again now, without waiting for more signs of its loss.
    Retransmit,
}

/// A congestion control.
pub trait CongestionControl {
    /// New data was acknowledged.
    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Ack) -> Verdict;

    /// A duplicate acknowledgement came.
    fn on_duplicate(
        &mut self,
        _now: Time,
        _window: &mut Window,
        _duplicate: &Duplicate,
    ) -> Verdict {
        Verdict::Continue
    }

    /// Whether the controller alone decides, without SACK, about retransmissions and their effect on the window: fast
    /// recovery (RFC 6582) then never starts, nor is `on_loss` called.
    fn repairs_alone(&self) -> bool {
        false
    }

    /// A segment is lost, and fast recovery starts; `flight` octets are outstanding.
    ///
    /// Sets `ssthresh`, and `cwnd` to what recovery shall run with.
    fn on_loss(&mut self, now: Time, window: &mut Window, flight: u64);

    /// Fast recovery ends with `flight` octets outstanding.
    fn on_recovered(&mut self, _now: Time, _window: &mut Window, _flight: u64) {}

    /// The retransmission timer expired; `is_first` for this segment.
    fn on_timeout(&mut self, now: Time, window: &mut Window, flight: u64, is_first: bool);

    /// A router marked a packet of the last window (RFC 3168, 6.1.2).
    fn on_mark(&mut self, now: Time, window: &mut Window, flight: u64) {
        self.on_loss(now, window, flight);
    }

    /// Data was sent; a controller that paces sets `next_send` here.
    fn on_sent(&mut self, _now: Time, _window: &mut Window, _octets: u64) {}
}
