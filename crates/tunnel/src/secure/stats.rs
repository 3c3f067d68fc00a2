//! Counters of the secure channel, and why datagrams are dropped.

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dropped {
    /// Too many calls: a cookie was sent back, or not even that.
    Busy,
    /// Its keys are too old.
    Expired,
    /// The sealed content fails its authentication.
    Forged,
    /// Not a datagram of ours.
    Malformed,
    /// The sender does not know our public key.
    NotForUs,
    /// Its number has come already.
    Replayed,
    /// A call that is no newer than the last: the caller was told.
    Stale,
    /// Its number is too far behind the newest.
    TooOld,
    /// The session or handshake does not exist.
    Unknown,
    /// The caller's key belongs to no known peer.
    UnknownKey,
}

base::counters! {
    /// Dropped datagrams by reason, and other counters that belong to no peer.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Totals {
        /// Calls for which there was no time.
        pub busy: counter(calls);
        /// Sealed under keys that are too old.
        pub expired: counter(times);
        /// Not sealed with the session's key.
        pub forged: counter(sessions);
        /// Not datagrams of ours.
        pub malformed: counter(datagrams);
        /// Calls and answers of those who do not know our public key.
        pub not_for_us: counter(calls);
        /// Numbers that had come.
        pub replayed: counter(datagrams);
        /// Calls with an old timestamp.
        pub stale: counter(calls);
        /// Numbers too far behind.
        pub too_old: counter(datagrams);
        /// Datagrams of sessions that do not exist.
        pub unknown: counter(datagrams);
        /// Calls of unknown keys.
        pub unknown_key: counter(calls);
        /// Cookies sent.
        pub cookies: counter(cookies);
        /// Times that this machine may have been copied: all sessions were ended.
        pub copies: counter(times);
        /// Datagrams and events for which there was no room.
        pub overflow: counter(datagrams);
    }
}

impl Totals {
    pub(crate) fn count(&mut self, dropped: Dropped) {
        let counter = match dropped {
            Dropped::Busy => &mut self.busy,
            Dropped::Expired => &mut self.expired,
            Dropped::Forged => &mut self.forged,
            Dropped::Malformed => &mut self.malformed,
            Dropped::NotForUs => &mut self.not_for_us,
            Dropped::Replayed => &mut self.replayed,
            Dropped::Stale => &mut self.stale,
            Dropped::TooOld => &mut self.too_old,
            Dropped::Unknown => &mut self.unknown,
            Dropped::UnknownKey => &mut self.unknown_key,
        };
        *counter += 1;
    }
}

base::counters! {
    /// Counters of one peer.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Calls sent, repeated ones too.
        pub calls_sent: counter(calls);
        /// Calls sent from a fresh port.
        pub calls_fresh: counter(calls);
        /// Answers of the peer that agreed on keys.
        pub answers_received: counter(answers);
        /// Answers of the peer that could not be read: another preshared key, or not the peer's.
        pub bad_answers: counter(answers);
        /// Answers of the peer that it has heard a later time of us before: a clock went back.
        pub answers_stale: counter(answers);
        /// Answers in which the peer says it is busy.
        pub cookies_received: counter(answers);
        /// Calls of the peer, each counted once.
        pub calls_received: counter(calls);
        /// Repeated calls of the peer.
        pub calls_repeated: counter(calls);
        /// Calls of the peer that were answered, repeated ones too.
        pub calls_answered: counter(calls);
        /// Calls of the peer that say an earlier time than one before: replayed, or a clock went back.
        pub calls_stale: counter(calls);
        /// Calls of the peer that were too many.
        pub calls_busy: counter(calls);
        /// Answers to the peer of which nothing came before it called anew.
        pub answers_unconfirmed: counter(answers);
        /// Sessions begun.
        pub sessions: counter(sessions);
        /// Times that the peer was found to have started anew, the first included.
        pub incarnations: counter(times);
        /// Times that its address changed.
        pub moves: counter(moves);
        /// Addresses from which the peer was heard and at which we asked for it.
        pub moves_checked: counter(addresses);
        /// Addresses from which the peer was heard and at which we did not ask: there were too many.
        pub moves_unchecked: counter(addresses);
        /// Keepalives sent.
        pub keepalives: counter(messages);
        /// Times that calls stayed unanswered for too long.
        pub gave_up: counter(times);
        /// Times that the last keys became too old.
        pub expired: counter(times);
    }
}
