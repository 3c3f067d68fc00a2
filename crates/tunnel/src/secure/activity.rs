//! Records when a peer was last spoken to and last heard.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use base::time::Time;

/// When a peer was last spoken to and heard, in nanoseconds; 0 is never.
#[derive(Debug, Default)]
pub struct Activity {
    sent: AtomicU64,
    heard: AtomicU64,
    heard_data: AtomicU64,
    unanswered: AtomicU64,
}

impl Activity {
    /// Data went out.
    pub fn sent(&self, now: Time) {
        let now = now.as_nanos().max(1);
        self.sent.store(now, Relaxed);
        if self.unanswered.load(Relaxed) == 0 {
            self.unanswered.store(now, Relaxed);
        }
    }

    /// A keepalive went out: it asks for no answer.
    pub fn sent_keepalive(&self, now: Time) {
        self.sent.store(now.as_nanos().max(1), Relaxed);
    }

    /// Something came.
    pub fn heard(&self, now: Time, is_data: bool) {
        let nanos = now.as_nanos().max(1);
        self.heard.store(nanos, Relaxed);
        if is_data {
            self.heard_data.store(nanos, Relaxed);
        }
        if self.unanswered.load(Relaxed) != 0 {
            self.unanswered.store(0, Relaxed);
        }
    }

    /// Since when the peer has not answered, though it was sent something.
    pub fn unanswered_since(&self) -> Option<Time> {
        match self.unanswered.load(Relaxed) {
            0 => None,
            nanos => Some(Time::from_nanos(nanos)),
        }
    }

    pub fn forget_unanswered(&self) {
        self.unanswered.store(0, Relaxed);
    }

    /// When the peer was heard last.
    pub fn last_heard(&self) -> Option<Time> {
        let nanos = self.heard.load(Relaxed);
        (nanos != 0).then(|| Time::from_nanos(nanos))
    }

    pub fn last_sent(&self) -> Time {
        Time::from_nanos(self.sent.load(Relaxed))
    }

    /// Whether data came after the last that was sent.
    pub fn has_unanswered_data(&self) -> bool {
        self.heard_data.load(Relaxed) > self.sent.load(Relaxed)
    }
}
