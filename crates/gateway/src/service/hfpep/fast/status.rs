//! The connections to and from other gateways, for an operator.

use std::net::SocketAddr;

use base::time::Time;

use super::link::{Link, Stage};
use super::pool::Pool;
use crate::service::hfpep::status::{Gateway, Session, direction, ends};
use crate::sys::tcp::unacknowledged;

/// A gateway that connections go to.
pub fn gateway(gateway: SocketAddr, pool: &Pool) -> Gateway {
    let state = if pool.is_up() { "up" } else { "down" };
    Gateway { gateway, state, spare: pool.ready() }
}

/// A connection that is carried.
pub fn session(now: Time, link: &Link) -> Session {
    let (client, target) = ends(link.opening.as_ref());
    let waits_at_program = link.stage.local().is_some_and(|local| local.has_unsent());
    let (state, waits_for) = match &link.stage {
        Stage::Arriving { .. } => ("arriving", "the opening"),
        Stage::Asked { .. } if link.is_dialling() => ("connecting", "the other gateway"),
        Stage::Asked { .. } => ("connecting", "word of the other end"),
        Stage::Connecting { .. } => ("connecting", "the target"),
        Stage::Cut { .. } => ("cut off", "what came before to be read"),
        Stage::Held { .. } if link.is_dialling() => ("confirming", "the other gateway"),
        Stage::Held { until: Some(_), .. } => ("confirming", "word of the other end"),
        Stage::Held { until: None, .. } => ("confirmed", "the client"),
        Stage::Open { .. } if waits_at_program => ("open", "the program here to read"),
        Stage::Open { .. } if link.bearer.has_unsent() => ("open", "the path"),
        Stage::Open { .. } => ("open", "a program"),
        Stage::Refused { .. } => ("refused", "the other end to read it"),
        Stage::Spare => ("spare", "a client"),
    };
    Session {
        node: None,
        gateway: Some(link.far.to_string()),
        direction: direction(link.is_initiator),
        client,
        target,
        state,
        waits_for,
        age_s: now.since(link.since).as_secs(),
        octets_written: link.written,
        octets_sent: link.written,
        octets_read: link.read,
        octets_arrived: link.read,
        octets_unacknowledged: unacknowledged(&link.bearer).unwrap_or(0),
    }
}
