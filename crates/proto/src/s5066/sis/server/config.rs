//! What can be set, and what is counted.

use std::time::Duration;

use serde::Serialize;

/// The parameters of a node's clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The longest U_PDU taken, in octets: 2,048, or up to 4,096 for nodes that only broadcast.
    pub mtu: u16,
    /// Connections at most, bound or not.
    pub max_clients: usize,
    /// Access points that clients may have: bit n stands for access point n.
    pub saps: u16,
    /// Whether clients may have rank 15, with which they manage the node.
    pub may_manage: bool,
    /// Whether a client takes the access point from one of lower rank.
    pub preempts: bool,
    /// Whether the node only broadcasts: no ARQ, no hard links.
    pub is_broadcast_only: bool,
    /// How long a connection may stay unbound.
    pub bind_wait: Duration,
    /// Nothing heard for this long, a client is asked whether it is there; at least 120 s. `None`
    /// leaves that to TCP.
    pub keep_alive: Option<Duration>,
    /// Unreadable or misplaced primitives after which a client is unbound and its connection closed.
    pub max_invalid: u32,
    /// Expedited U_PDUs of a client without an outcome, above which it is unbound.
    pub max_expedited: usize,
    /// What of a client waits for the layers below: beyond this its flow is off, ...
    pub flow_off: Backlog,
    /// ... from here down it is on again, ...
    pub flow_on: Backlog,
    /// ... and beyond this, the client being deaf to it, it is unbound and its connection closed.
    pub flood: Backlog,
    /// U_PDUs of a client that the layers below have, or the remote client has not confirmed; more
    /// wait here.
    pub max_undecided: usize,
    /// Octets to a client that wait for it to read; beyond, it is unbound and its connection closed.
    pub max_unread: usize,
    /// Octets of a U_PDU that are copied when a client is told what became of it.
    pub confirm_prefix: usize,
    /// Octets of a U_PDU that are copied when a remote node is told so, over the air.
    pub air_prefix: usize,
    /// Time to live of U_PDUs whose clients set no limit, and at most; `None` for no limit.
    pub max_ttl: Option<Duration>,
    /// How long a remote client may take to confirm what its node has.
    pub confirm_wait: Duration,
    /// How long a remote node may take to answer what concerns a hard link.
    pub hard_link_wait: Duration,
    /// How long a client may take to accept a hard link.
    pub hard_link_answer: Duration,
    /// Rank of remote clients that make hard links of types 0 and 1.
    pub remote_rank: u8,
    /// The time of the epoch: since 1970, GMT.
    pub epoch: Duration,
    /// Whether the time to die is sent along when a client sets a time to live.
    pub sends_ttd: bool,
    /// What clocks of nodes may differ by: so much later a U_PDU is still delivered.
    pub clock_error: Duration,
    /// Whether all nodes confirm with numbers (EP9); otherwise those that say so.
    pub compact_confirm: bool,
    /// Whether clients are told of, and may use, management messages of ours.
    pub has_messages: bool,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// Octets of U_PDUs.
    pub octets: usize,
    /// U_PDUs.
    pub u_pdus: usize,
}

impl Backlog {
    /// Whether one of the two is beyond `bound`.
    #[must_use]
    pub fn exceeds(self, bound: Self) -> bool {
        self.octets > bound.octets || self.u_pdus > bound.u_pdus
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 2_048,
            max_clients: 64,
            saps: u16::MAX,
            may_manage: true,
            preempts: true,
            is_broadcast_only: false,
            bind_wait: Duration::from_secs(60),
            keep_alive: None,
            max_invalid: 10,
            max_expedited: 16,
            flow_off: Backlog { octets: 512 << 10, u_pdus: 1_024 },
            flow_on: Backlog { octets: 256 << 10, u_pdus: 512 },
            flood: Backlog { octets: 2 << 20, u_pdus: 8_192 },
            max_undecided: 8_192,
            max_unread: 1 << 20,
            confirm_prefix: 64,
            air_prefix: 32,
            max_ttl: None,
            confirm_wait: Duration::from_secs(300),
            hard_link_wait: Duration::from_secs(120),
            hard_link_answer: Duration::from_secs(30),
            remote_rank: 0,
            epoch: Duration::ZERO,
            sends_ttd: true,
            clock_error: Duration::from_secs(10),
            compact_confirm: false,
            has_messages: true,
        }
    }
}

/// Counters of a node's clients since it started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Connections taken.
    pub connections: u64,
    /// Connections refused: as many as may be are there, and bound.
    pub connections_refused: u64,
    /// Connections closed: not bound in time, or before another one needed their place.
    pub closed_unbound: u64,
    /// Connections closed: what came could not be read, or too much of it.
    pub closed_invalid: u64,
    /// Connections closed: the client went on sending with its flow off.
    pub closed_flood: u64,
    /// Connections closed: the client does not read.
    pub closed_unread: u64,
    /// Clients bound.
    pub binds: u64,
    /// Binds refused.
    pub binds_refused: u64,
    /// Clients unbound for one of higher rank.
    pub preempted: u64,
    /// Clients unbound: they did not answer.
    pub inactive: u64,
    /// Clients unbound: too many expedited U_PDUs.
    pub expedited_floods: u64,
    /// Primitives that could not be read or were not for a client to send.
    #[serde(rename = "primitives_invalid")]
    pub invalid: u64,
    /// Requests of connections that are not bound; not taken.
    pub unbound_requests: u64,
    /// Times that a client's flow went off.
    pub flow_off: u64,
    /// U_PDUs taken from clients.
    pub u_pdus_taken: u64,
    /// Octets of them.
    pub octets_taken: u64,
    /// U_PDUs refused: larger than the MTU.
    pub too_large: u64,
    /// U_PDUs refused: no such way to deliver them.
    pub no_mode: u64,
    /// U_PDUs handed to the layers below.
    pub u_pdus_sent: u64,
    /// U_PDUs dropped: their time to live ended before they were handed down.
    #[serde(rename = "u_pdus_expired")]
    pub expired: u64,
    /// U_PDUs confirmed to clients.
    #[serde(rename = "u_pdus_confirmed")]
    pub confirmed: u64,
    /// U_PDUs that another node had confirmed, and then said that no client there took them.
    pub unreceived: u64,
    /// U_PDUs that clients took back before anything of them was sent.
    pub taken_back: u64,
    /// U_PDUs that failed after they were handed down.
    #[serde(rename = "u_pdus_failed")]
    pub failed: u64,
    /// U_PDUs that no remote client confirmed in time.
    pub unconfirmed: u64,
    /// U_PDUs dropped: their client was unbound.
    pub dropped_unbound: u64,
    /// U_PDUs delivered to clients.
    pub u_pdus_delivered: u64,
    /// Octets of them.
    pub octets_delivered: u64,
    /// U_PDUs received for an access point that is not bound.
    pub not_bound: u64,
    /// U_PDUs received after their time to die.
    pub received_late: u64,
    /// U_PDUs received with errors that their client does not take.
    pub received_damaged: u64,
    /// S_PDUs received that could not be read.
    pub malformed: u64,
    /// Confirmations received of nothing that waits for one.
    pub stray_confirms: u64,
    /// Answers to remote nodes that were not sent: too many waited.
    pub answers_dropped: u64,
    /// Hard links made, here or there.
    pub hard_links: u64,
    /// Management messages refused: not from rank 15, or too many waited.
    pub management_refused: u64,
}
