//! Counters of SLEP: streams, datagrams and U_PDUs.

use serde::Serialize;

/// Counters of a SLEP since it started; the last ones are levels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Streams.
    #[serde(flatten)]
    pub streams: Streams,
    /// U_PDUs that the node was given.
    #[serde(flatten)]
    pub handed: Handed,
    /// U_PDUs that the node delivered.
    #[serde(flatten)]
    pub received: Received,
    /// Datagrams.
    #[serde(flatten)]
    pub datagrams: Datagrams,
    /// Streams that are there.
    #[serde(rename = "streams_live")]
    pub live: u64,
    /// Octets waiting to be sent or to be acknowledged by the other end.
    #[serde(rename = "octets_unacknowledged")]
    pub unacknowledged: u64,
    /// Octets that arrived and were not read.
    #[serde(rename = "octets_unread")]
    pub unread: u64,
    /// Octets with the node and not yet confirmed.
    #[serde(rename = "octets_unconfirmed")]
    pub unconfirmed: u64,
    /// The window: most octets that may be with the node unconfirmed.
    #[serde(rename = "octets_window")]
    pub window: u64,
}

/// Streams.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Streams {
    /// Streams opened here.
    #[serde(rename = "streams_opened")]
    pub opened: u64,
    /// Streams taken from other nodes.
    #[serde(rename = "streams_taken")]
    pub taken: u64,
    /// Streams that both ends finished.
    #[serde(rename = "streams_finished")]
    pub finished: u64,
    /// Streams that the user reset.
    #[serde(rename = "streams_cancelled")]
    pub cancelled: u64,
    /// Streams reset by the user before the node had been given anything: the other end was not told.
    #[serde(rename = "streams_cancelled_unsent")]
    pub cancelled_unsent: u64,
    /// Streams that the other end reset, or does not know any more.
    #[serde(rename = "streams_broken")]
    pub broken: u64,
    /// Streams given up because the other end did not answer.
    #[serde(rename = "streams_unreachable")]
    pub unreachable: u64,
    /// Broken streams whose user did not read all data received before the break.
    #[serde(rename = "streams_broken_unread")]
    pub unread_at_break: u64,
    /// Streams refused to the user or to another node: too many.
    #[serde(rename = "streams_refused")]
    pub refused: u64,
    /// Octets taken from users.
    #[serde(rename = "stream_octets_in")]
    pub octets_in: u64,
    /// Octets given to users.
    #[serde(rename = "stream_octets_out")]
    pub octets_out: u64,
}

/// Datagrams.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Datagrams {
    /// Datagrams taken from users.
    #[serde(rename = "datagrams_taken")]
    pub taken: u64,
    /// Datagrams refused to users: too long, too many, or reliable and to a group.
    #[serde(rename = "datagrams_refused")]
    pub refused: u64,
    /// Datagrams taken from users and compressed.
    #[serde(rename = "datagrams_coded")]
    pub coded: u64,
    /// Octets saved by compressing datagrams.
    #[serde(rename = "datagram_octets_saved")]
    pub saved: u64,
    /// Datagrams handed to the node, each time counted.
    #[serde(rename = "datagrams_handed")]
    pub handed: u64,
    /// Reliable datagrams repeated because nothing was heard of them.
    #[serde(rename = "datagrams_repeated")]
    pub repeated: u64,
    /// Reliable datagrams that the other end has acknowledged.
    #[serde(rename = "datagrams_delivered")]
    pub delivered: u64,
    /// Datagrams given up: too old.
    #[serde(rename = "datagrams_expired")]
    pub expired: u64,
    /// Datagrams that arrived.
    #[serde(rename = "datagrams_received")]
    pub received: u64,
    /// Reliable datagrams that had come before.
    #[serde(rename = "datagrams_again")]
    pub received_again: u64,
    /// Datagrams dropped that arrived: the user takes none.
    #[serde(rename = "datagrams_full")]
    pub received_full: u64,
}

/// U_PDUs that the node was given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Handed {
    /// U_PDUs handed to the node.
    #[serde(rename = "handed")]
    pub u_pdus: u64,
    /// Octets of the U_PDUs handed to the node.
    #[serde(rename = "octets_handed")]
    pub octets: u64,
    /// Parts of streams among them.
    #[serde(rename = "parts_handed")]
    pub parts: u64,
    /// Parts sent again although the node had confirmed them.
    pub parts_repaired: u64,
    /// U_PDUs confirmed by the other node.
    pub confirmed: u64,
    /// U_PDUs that the node gave back.
    pub rejected: u64,
    /// U_PDUs whose fate is not known: the client was unbound or the connection lost first.
    pub forsaken: u64,
    /// Questions to other nodes about what they have received.
    pub asked: u64,
    /// Times that the client was bound.
    pub binds: u64,
    /// Answers to unknown streams that were not given: too many.
    pub unanswered: u64,
}

/// U_PDUs that the node delivered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// U_PDUs received.
    #[serde(rename = "received")]
    pub u_pdus: u64,
    /// U_PDUs that are no valid PDUs of SLEP.
    pub received_malformed: u64,
    /// U_PDUs dropped: from one node more than can be remembered.
    pub received_stranger: u64,
    /// Parts that had come before.
    pub parts_again: u64,
    /// Parts dropped: there was no room. They will be sent again.
    pub parts_full: u64,
    /// Parts dropped: not allowed, or of a stream of an earlier process.
    pub parts_stray: u64,
    /// Parts dropped: the first of their stream did not come in time, or too many waited for it.
    pub parts_early: u64,
}
