//! Counters of the IP client: datagrams, octets, and compressed headers.

use base::ip::BadSources;
use serde::Serialize;

/// Counters of an IP client since it started; the last three are levels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Stats {
    /// Datagrams of the stack, until the node has them.
    #[serde(flatten)]
    pub taken: Taken,
    /// Datagrams that the node was given.
    #[serde(flatten)]
    pub handed: Handed,
    /// Datagrams that the node delivered.
    #[serde(flatten)]
    pub received: Received,
    /// Compressed headers.
    #[serde(flatten)]
    pub headers: Headers,
    /// Octets that wait.
    #[serde(rename = "octets_queued")]
    pub queued: u64,
    /// Octets that the node has without having confirmed them.
    #[serde(rename = "octets_unconfirmed")]
    pub unconfirmed: u64,
    /// Octets that the node may have unconfirmed.
    #[serde(rename = "octets_window")]
    pub window: u64,
}

/// Datagrams of the stack, until the node has them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Taken {
    /// Datagrams taken from the stack.
    pub packets_in: u64,
    /// Octets of them.
    pub octets_in: u64,
    /// Datagrams dropped: not IP.
    pub malformed: u64,
    /// Datagrams dropped: no node has the address.
    pub no_route: u64,
    /// Datagrams dropped: too long, and not to be fragmented.
    pub too_big: u64,
    /// Datagrams cut into fragments.
    pub fragmented: u64,
    /// Datagrams dropped: the queue was full.
    pub queue_full: u64,
    /// Datagrams dropped: they waited for too long, here or at the node.
    pub expired: u64,
    /// TCP segments dropped: the same is on its way.
    pub absorbed: u64,
    /// TCP acknowledgements dropped: a later one took their place.
    pub superseded: u64,
}

/// Datagrams handed to the node, and the node's reports about them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Handed {
    /// Datagrams handed to the node.
    #[serde(rename = "handed")]
    pub packets: u64,
    /// Octets of them.
    #[serde(rename = "octets_handed")]
    pub octets: u64,
    /// Datagrams confirmed by the other node.
    pub confirmed: u64,
    /// Of those that were confirmed: datagrams that no client at the other node took.
    pub unreceived: u64,
    /// Datagrams dropped: the other node did not respond.
    pub unreachable: u64,
    /// Datagrams that the node refused for another reason.
    pub refused: u64,
    /// Datagrams whose fate is not known: the client was unbound or the link lost first.
    pub forsaken: u64,
    /// Times that the client was bound.
    pub binds: u64,
}

/// Datagrams that the node delivered, and errors for the stack.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Datagrams received and given to the stack.
    pub packets_out: u64,
    /// Octets of them.
    pub octets_out: u64,
    /// U_PDUs received that are no datagram.
    pub received_malformed: u64,
    /// Datagrams received and dropped: the stack takes none.
    pub received_full: u64,
    /// Datagrams received and dropped: their source cannot be true.
    #[serde(flatten)]
    pub bad_sources: BadSources,
    /// ICMP errors given to the stack.
    pub icmp_sent: u64,
    /// TCP resets given to the stack.
    pub resets_sent: u64,
    /// ICMP errors and resets not given: too many.
    pub icmp_limited: u64,
}

/// Datagrams with compressed headers, and announcements by clients that read compressed headers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Headers {
    /// Datagrams handed to the node with compressed headers.
    #[serde(rename = "headers_compressed")]
    pub compressed: u64,
    /// Octets of them before.
    #[serde(rename = "headers_octets_before")]
    pub octets_before: u64,
    /// Octets of them after.
    #[serde(rename = "headers_octets_after")]
    pub octets_after: u64,
    /// Datagrams received with compressed headers and restored.
    #[serde(rename = "headers_restored")]
    pub restored: u64,
    /// Received and dropped: compressed by a node that did not tell by what, in time.
    #[serde(rename = "headers_unknown")]
    pub unknown: u64,
    /// Received and dropped: compressed with other tables, or damaged.
    #[serde(rename = "headers_mismatched")]
    pub mismatched: u64,
    /// Announcements handed to the node.
    pub announcements_sent: u64,
    /// Announcements received.
    pub announcements_received: u64,
    /// Received and dropped: announcements that cannot be read, or come from where no route leads.
    pub announcements_refused: u64,
}
