//! The connections that HF-PEP carries, for an operator.

use proto::hfpep::{self, Phase, Target};
use proto::slep::Waiting;
use serde::Serialize;

/// Connections that are told of at most, the oldest first.
pub(super) const MOST: usize = 100;

/// A connection.
#[derive(Serialize)]
pub(super) struct Session {
    /// The other node.
    node: String,
    /// `out` if it was opened here, `in` otherwise.
    direction: &'static str,
    client: Option<String>,
    target: Option<String>,
    state: &'static str,
    /// What it waits for.
    waits_for: &'static str,
    age_s: u64,
    /// Octets that the program here wrote, and data of them that went into U_PDUs.
    octets_written: u64,
    octets_sent: u64,
    /// Octets that the program here was given, and data that arrived in U_PDUs for it.
    octets_read: u64,
    octets_arrived: u64,
    /// Octets that wait to be sent, or for the other end to say that it has them.
    octets_unacknowledged: usize,
}

impl Session {
    pub(super) fn new(status: &hfpep::Status) -> Self {
        let (client, target) = match status.opening.as_ref().map(|opening| &opening.target) {
            Some(Target::Address { source, destination }) => {
                (Some(source.to_string()), Some(destination.to_string()))
            }
            Some(Target::AuthId(id)) => (None, Some(id.clone())),
            None => (None, None),
        };
        let stream = status.stream.as_ref();
        let traffic = stream.map(|stream| stream.traffic).unwrap_or_default();
        Self {
            node: status.peer.to_string(),
            direction: if status.is_initiator { "out" } else { "in" },
            client,
            target,
            state: match status.phase {
                Phase::Gathering => "gathering",
                Phase::Arriving => "arriving",
                Phase::Connecting => "connecting",
                Phase::Open => "open",
            },
            waits_for: stream.map_or("first data", |stream| match stream.waits_for {
                Waiting::User => "a program",
                Waiting::Node => "its turn",
                Waiting::Confirmation => "the node's confirmation",
                Waiting::Peer => "the other node",
                Waiting::Word => "word of the other end",
                Waiting::Credit => "the far program to read",
            }),
            age_s: status.age.as_secs(),
            octets_written: traffic.written,
            octets_sent: traffic.sent,
            octets_read: traffic.read,
            octets_arrived: traffic.arrived,
            octets_unacknowledged: stream.map_or(0, |stream| stream.unacknowledged),
        }
    }
}
