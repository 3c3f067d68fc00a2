//! Counters of segmentation and reassembly.

use serde::Serialize;

/// Counters of a node since its start; the last fields are levels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Messages that programs handed in.
    #[serde(flatten)]
    pub messages: Messages,
    /// What was sent.
    #[serde(flatten)]
    pub sent: Sent,
    /// Answers to that.
    #[serde(flatten)]
    pub answered: Answered,
    /// Segments and questions that arrived.
    #[serde(flatten)]
    pub received: Received,
    /// What is there now.
    #[serde(flatten)]
    pub levels: Levels,
}

/// Messages that programs handed in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Messages {
    /// Messages taken.
    #[serde(rename = "messages_taken")]
    pub taken: u64,
    /// Messages refused: no room.
    #[serde(rename = "messages_full")]
    pub full: u64,
    /// Messages refused because of their content.
    #[serde(rename = "messages_refused")]
    pub refused: u64,
    /// Destinations that have theirs.
    #[serde(rename = "outcomes_delivered")]
    pub delivered: u64,
    /// Destinations for which the lifetime ended first.
    #[serde(rename = "outcomes_expired")]
    pub expired: u64,
    /// Destinations that refused.
    #[serde(rename = "outcomes_aborted")]
    pub aborted: u64,
    /// Destinations that lacked a segment to the end.
    #[serde(rename = "outcomes_lost")]
    pub lost: u64,
    /// Destinations that did not answer.
    #[serde(rename = "outcomes_silent")]
    pub silent: u64,
    /// Destinations of cancelled messages.
    #[serde(rename = "outcomes_cancelled")]
    pub cancelled: u64,
    /// Destinations that were not asked for an acknowledgement.
    #[serde(rename = "outcomes_sent")]
    pub unacknowledged: u64,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Sent {
    /// Segments sent for the first time.
    #[serde(rename = "sent_segments")]
    pub segments: u64,
    /// Segments sent again.
    #[serde(rename = "sent_again")]
    pub again: u64,
    /// Repairs.
    #[serde(rename = "sent_repairs")]
    pub repairs: u64,
    /// Acknowledgement requests.
    #[serde(rename = "sent_requests")]
    pub requests: u64,
    /// Answers: acknowledgements, aborts and confirmations.
    #[serde(rename = "sent_answers")]
    pub answers: u64,
    /// Octets of all, without UDP and IP.
    #[serde(rename = "sent_octets")]
    pub octets: u64,
    /// Silent destinations tried at once after a sign of life.
    #[serde(rename = "sent_tried")]
    pub tried: u64,
    /// Timeouts.
    #[serde(rename = "timeouts")]
    pub timeouts: u64,
    /// Answers that were not given: too many waited.
    #[serde(rename = "answers_full")]
    pub answers_full: u64,
    /// Answers about unknown transfers withheld: too many in one second.
    #[serde(rename = "answers_limited")]
    pub answers_limited: u64,
}

/// Answers that arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Answered {
    /// Partial acknowledgements.
    #[serde(rename = "answered_partial")]
    pub partial: u64,
    /// Complete acknowledgements.
    #[serde(rename = "answered_complete")]
    pub complete: u64,
    /// Aborts of a destination.
    #[serde(rename = "answered_abort")]
    pub aborts: u64,
    /// Answers dropped: the transfer is not known, or over.
    #[serde(rename = "answered_unknown")]
    pub unknown: u64,
    /// Answers dropped: not from a destination, for other ports, or about what was never sent.
    #[serde(rename = "answered_forged")]
    pub forged: u64,
    /// Destinations that had forgotten their segments.
    #[serde(rename = "answered_forgotten")]
    pub forgotten: u64,
}

/// Segments and questions that arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Datagrams that are no PDU.
    #[serde(rename = "received_malformed")]
    pub malformed: u64,
    /// Segments.
    #[serde(rename = "received_segments")]
    pub segments: u64,
    /// Repairs.
    #[serde(rename = "received_repairs")]
    pub repairs: u64,
    /// Segments that repairs gave.
    #[serde(rename = "received_repaired")]
    pub repaired: u64,
    /// Repairs dropped: redundant, or coding is off.
    #[serde(rename = "received_repairs_useless")]
    pub repairs_useless: u64,
    /// Messages delivered.
    #[serde(rename = "received_messages")]
    pub messages: u64,
    /// Their octets.
    #[serde(rename = "received_octets")]
    pub octets: u64,
    /// Segments that had come before.
    #[serde(rename = "received_again")]
    pub again: u64,
    /// Segments of finished transfers.
    #[serde(rename = "received_late")]
    pub late: u64,
    /// Segments dropped: they contradict earlier segments.
    #[serde(rename = "received_odd")]
    pub odd: u64,
    /// Segments dropped: the transfer is not known.
    #[serde(rename = "received_stray")]
    pub stray: u64,
    /// Segments dropped: the message is too long.
    #[serde(rename = "received_too_large")]
    pub too_large: u64,
    /// Segments dropped: there is no room, and their own transfer would be the first to give way.
    #[serde(rename = "received_full")]
    pub full: u64,
    /// Transfers given up for others: there was no room for all.
    #[serde(rename = "received_evicted")]
    pub evicted: u64,
    /// Acknowledgement requests.
    #[serde(rename = "received_requests")]
    pub requests: u64,
    /// Aborts of an originator.
    #[serde(rename = "received_aborts")]
    pub aborts: u64,
    /// Transfers given up: no more segments came.
    #[serde(rename = "received_given_up")]
    pub given_up: u64,
    /// Finished transfers forgotten before their time: there is no room.
    #[serde(rename = "received_forgotten")]
    pub forgotten: u64,
}

/// What is there now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Levels {
    /// Messages that wait to be sent.
    #[serde(rename = "waiting")]
    pub waiting: u64,
    /// Their octets.
    #[serde(rename = "waiting_octets")]
    pub waiting_octets: u64,
    /// Transfers that are being sent.
    #[serde(rename = "transfers")]
    pub transfers: u64,
    /// Octets that are under way.
    #[serde(rename = "in_flight")]
    pub in_flight: u64,
    /// Octets that may be.
    #[serde(rename = "room")]
    pub room: u64,
    /// Transfers that are being received.
    #[serde(rename = "reassemblies")]
    pub reassemblies: u64,
    /// Their octets.
    #[serde(rename = "reassembly_octets")]
    pub reassembly_octets: u64,
    /// Finished transfers that are known.
    #[serde(rename = "remembered")]
    pub remembered: u64,
    /// Destinations that are known.
    #[serde(rename = "peers")]
    pub peers: u64,
    /// Answers that wait to be sent.
    #[serde(rename = "answers_waiting")]
    pub answers: u64,
}
