//! The connections that are carried, for an operator.

use std::net::SocketAddr;

use base::time::Time;
use hf::hfpep::{self, Opening, Phase, Target, flows};
use hf::slep::Waiting;
use serde::Serialize;

use super::Pep;
use crate::bearer::dial::Dial;

/// Most connections in the report, and most UDP flows. Connections over HF come first, then others, each oldest
/// first.
const MOST: usize = 100;

/// What an operator is told.
#[derive(Serialize)]
pub struct Status {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<SocketAddr>,
    /// Messages of the server that were malformed or not allowed at the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<u64>,
    /// Why the server was left, until it has bound us again.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    connections: usize,
    /// Clients whose TLS handshake is not complete.
    handshakes: usize,
    /// Clients that are not answered yet: the far end is asked, or has accepted just now.
    held: usize,
    /// The gateways that connections go to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<Gateway>,
    sessions: Vec<Session>,
    /// Of UDP.
    flows: Vec<Flow>,
}

/// A gateway that connections go to.
#[derive(Serialize)]
pub struct Gateway {
    pub gateway: SocketAddr,
    /// `up` if it has taken the last connection.
    pub state: &'static str,
    /// Connections ready for the next client.
    pub spare: usize,
}

/// A connection.
#[derive(Serialize)]
pub struct Session {
    /// The other node, or the other gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// `out` if it was opened here, `in` otherwise.
    pub direction: &'static str,
    pub client: Option<String>,
    pub target: Option<String>,
    pub state: &'static str,
    /// What it waits for.
    pub waits_for: &'static str,
    pub age_s: u64,
    /// Octets written by the program here, and octets of this data sent in U_PDUs.
    pub octets_written: u64,
    pub octets_sent: u64,
    /// Octets given to the program here, and octets of its data received in U_PDUs.
    pub octets_read: u64,
    pub octets_arrived: u64,
    /// Octets waiting to be sent or to be acknowledged by the other end.
    pub octets_unacknowledged: usize,
}

/// A flow of UDP.
#[derive(Serialize)]
struct Flow {
    node: String,
    /// `out` if it was opened here, `in` otherwise.
    direction: &'static str,
    client: SocketAddr,
    target: SocketAddr,
    state: &'static str,
    age_s: u64,
    idle_s: u64,
    /// Datagrams, and their octets.
    sent: u64,
    octets_sent: u64,
    arrived: u64,
    octets_arrived: u64,
}

impl Status {
    pub fn new(now: Time, pep: &Pep) -> Self {
        let state = match (pep.dial.as_ref().map(Dial::is_up), pep.pep.is_bound()) {
            (None, _) => "ready",
            (Some(false), _) => "no connection",
            (Some(true), false) => "not bound",
            (Some(true), true) => "bound",
        };
        let of_server = pep.pep.slep().client_stats();
        let over_hf = pep.pep.status(now).map(|it| Session::over_hf(&it));
        Self {
            state,
            server: pep.config.server,
            invalid: pep.dial.as_ref().map(|_| of_server.invalid + of_server.misplaced),
            trouble: pep.pep.slep().fault().map(|fault| fault.to_string()),
            connections: pep.connections.len() + pep.fast.len(),
            handshakes: pep.handshakes.len(),
            held: pep.held.len(),
            gateways: pep.fast.gateways(),
            sessions: over_hf.chain(pep.fast.status(now)).take(MOST).collect(),
            flows: pep.pep.flows(now).map(|it| Flow::of(&it)).take(MOST).collect(),
        }
    }
}

impl Session {
    fn over_hf(status: &hfpep::Status) -> Self {
        let (client, target) = ends(status.opening.as_ref());
        let stream = status.stream.as_ref();
        let traffic = stream.map(|stream| stream.traffic).unwrap_or_default();
        Self {
            node: Some(status.peer.to_string()),
            gateway: None,
            direction: direction(status.is_initiator),
            client,
            target,
            state: match status.phase {
                Phase::Gathering => "gathering",
                Phase::Arriving => "arriving",
                Phase::Confirming => "confirming",
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

impl Flow {
    fn of(status: &flows::Status) -> Self {
        let flows::Status { peer, is_initiator, client, target, phase, traffic, .. } = *status;
        Self {
            node: peer.to_string(),
            direction: direction(is_initiator),
            client,
            target,
            state: match phase {
                flows::Phase::Opening => "opening",
                flows::Phase::Open => "open",
                flows::Phase::Refused => "refused",
            },
            age_s: status.age.as_secs(),
            idle_s: status.idle.as_secs(),
            sent: traffic.sent,
            octets_sent: traffic.octets_sent,
            arrived: traffic.arrived,
            octets_arrived: traffic.octets_arrived,
        }
    }
}

pub fn direction(is_initiator: bool) -> &'static str {
    if is_initiator { "out" } else { "in" }
}

/// The client and the target that an opening names.
pub fn ends(opening: Option<&Opening>) -> (Option<String>, Option<String>) {
    match opening.map(|opening| &opening.target) {
        Some(Target::Address { source, destination }) => {
            (Some(source.to_string()), Some(destination.to_string()))
        }
        Some(Target::AuthId(id)) => (None, Some(id.clone())),
        None => (None, None),
    }
}
