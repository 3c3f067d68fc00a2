//! Counters of UDP flows and their datagrams.

use serde::Serialize;

/// Counters of UDP flows since creation; the last two are levels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Flows opened here.
    #[serde(rename = "udp_flows_opened")]
    pub opened: u64,
    /// Flows that other ends have opened.
    #[serde(rename = "udp_flows_received")]
    pub received: u64,
    /// Flows forgotten because nothing went either way.
    #[serde(rename = "udp_flows_idle")]
    pub idle: u64,
    /// Flows refused for want of room, opened here or there.
    #[serde(rename = "udp_flows_refused")]
    pub refused: u64,
    /// Flows of other ends with another client or target now, or no longer known there.
    #[serde(rename = "udp_flows_closed")]
    pub closed: u64,
    /// Datagrams accepted from clients.
    #[serde(rename = "udp_sent")]
    pub sent: u64,
    /// Datagrams from clients that named their flow's client and target.
    #[serde(rename = "udp_opening")]
    pub opening: u64,
    /// Datagrams from clients sent again because the other end no longer knew their flow.
    #[serde(rename = "udp_again")]
    pub again: u64,
    /// Answers accepted from targets.
    #[serde(rename = "udp_answered")]
    pub answered: u64,
    /// Messages about flows that are no datagrams.
    #[serde(rename = "udp_words")]
    pub words: u64,
    /// Datagrams for targets that arrived.
    #[serde(rename = "udp_requests")]
    pub requests: u64,
    /// Answers for clients that arrived.
    #[serde(rename = "udp_answers")]
    pub answers: u64,
    /// Datagrams dropped: longer than what is carried.
    #[serde(rename = "udp_too_long")]
    pub too_long: u64,
    /// Datagrams dropped: too much waits, in their flow or in all.
    #[serde(rename = "udp_full")]
    pub full: u64,
    /// Datagrams of clients dropped: the other end refuses their flow.
    #[serde(rename = "udp_blocked")]
    pub blocked: u64,
    /// Datagrams that arrived and were dropped: their flow is not known here.
    #[serde(rename = "udp_unknown")]
    pub unknown: u64,
    /// Messages that cannot be read.
    #[serde(rename = "udp_malformed")]
    pub malformed: u64,
    /// Current flows opened at this end.
    #[serde(rename = "udp_flows_here")]
    pub opened_here: u64,
    /// Current flows opened by other ends.
    #[serde(rename = "udp_flows_there")]
    pub opened_there: u64,
}
