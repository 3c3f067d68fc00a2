//! The peer's offered window (RFC 9293, 3.10.7.4).

use super::seq::Seq;

/// How much the peer takes.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    /// Octets from the oldest unacknowledged place on.
    pub(super) wnd: u64,
    /// The largest window offered so far.
    pub(super) max_wnd: u64,
    /// The segment that last set `wnd`: its sequence number and its acknowledgement number.
    wl: (Seq, Seq),
}

impl Offered {
    /// Nothing offered yet; `iss` is the place of our SYN.
    pub(super) fn new(iss: Seq) -> Self {
        Self { wnd: 0, max_wnd: 0, wl: (iss, iss) }
    }

    /// Takes the first window, which is never compared with an older one.
    pub(super) fn start(&mut self, seq: Seq, ack: Seq, wnd: u64) {
        self.wl = (seq, ack);
        self.wnd = wnd;
        self.max_wnd = self.max_wnd.max(wnd);
    }

    /// Takes the window of a segment at `seq` that acknowledges `ack`, unless it is older than the one
    /// before; returns whether the window changed.
    pub(super) fn update(&mut self, seq: Seq, ack: Seq, wnd: u64) -> Option<bool> {
        if seq < self.wl.0 || (seq == self.wl.0 && ack < self.wl.1) {
            return None;
        }
        let is_change = wnd != self.wnd;
        self.start(seq, ack, wnd);
        Some(is_change)
    }
}
