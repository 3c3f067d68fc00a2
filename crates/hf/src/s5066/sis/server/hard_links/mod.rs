//! Hard links: at most one, for clients of the highest rank and priority (A.3.2.2).
//!
//! ```text
//!  caller  client asks ─▶ Making ─made─▶ Asking ─confirm─▶ Up ─▶ Ending ─▶ none
//!                            └─ not made ─┴─ rejected, too late ─▶ none
//!  called  request ─▶ Indicated (type 2) ─accept─▶ Up;   types 0 and 1: Up at once
//! ```
//!
//! A request that goes first ends the current link, and waits for this as `next`.
//!
//! Nodes whose requests cross decide alike, from facts known to both ([`goes_first`]):
//!
//! ```text
//!  whose request goes first   Asking, the other's request held ─confirm─▶ Up, the other's rejected
//!                                                             └─rejected─▶ the other's is answered
//!  the other                  Asking ─its client told─▶ Up, or Indicated
//! ```

mod client;
mod course;
mod peer;

use std::cmp::{Ordering, Reverse};

use base::time::Time;

use super::connection::Item;
use crate::s5066::Address;
use crate::s5066::service::{ClientId, RequestId};
use crate::s5066::sis::Sap;
use crate::s5066::sis::primitive::{HardLink, LinkKind};

#[derive(Default)]
pub(super) struct HardLinks {
    /// The current link, up or about to be.
    current: Option<Claim>,
    /// The request that waits for the current link to end.
    next: Option<Wanted>,
}

/// A hard link that is up, or about to be.
struct Claim {
    link: HardLink,
    rank: u8,
    side: Side,
    /// The client here that asked or was asked, and is told the outcome.
    client: Option<ClientId>,
    state: State,
    /// The S_PDU whose answer is awaited.
    asked: Option<RequestId>,
    /// The other node's request, which crossed ours and goes first, and the access point called.
    held: Option<(HardLink, Sap)>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    /// A client here asked for it.
    Caller { sap: Sap },
    /// A client of the other node did, for type 2 with one here.
    Called { sap: Option<Sap> },
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    Asking { until: Time },
    Ending { until: Time },
    Indicated { until: Time },
    Making,
    Up,
}

/// A hard link that waits for the end of another.
struct Wanted {
    client: ClientId,
    sap: Sap,
    rank: u8,
    link: HardLink,
}

impl HardLinks {
    /// Whether a client's U_PDU ends the hard link, because that keeps it out and is of lower rank.
    pub(super) fn gives_way_to(&self, rank: u8, from: Sap, item: &Item) -> bool {
        let is_arq = item.service.mode.is_arq();
        self.is_below(rank) && !self.permits(from, item.to_sap, item.to, is_arq)
    }

    /// Whether there is a hard link of a client of lower rank.
    fn is_below(&self, rank: u8) -> bool {
        self.current.as_ref().is_some_and(|current| current.rank < rank)
    }

    /// Whether a U_PDU may go now: a hard link keeps others out, by its type (A.1.1.2).
    pub(super) fn permits(&self, from: Sap, to_sap: Sap, to: Address, is_arq: bool) -> bool {
        let Some(current) = self.current.as_ref().filter(|current| current.state == State::Up)
        else {
            return true;
        };
        let HardLink { kind, remote, remote_sap, .. } = current.link;
        if to != remote {
            return !is_arq && kind == LinkKind::Shared;
        }
        match (kind, current.side) {
            (LinkKind::Shared, _) => true,
            (LinkKind::Reserved, Side::Caller { sap }) => from == sap,
            (LinkKind::Reserved, Side::Called { .. }) => to_sap == remote_sap,
            (LinkKind::Exclusive, Side::Caller { sap }) => from == sap && to_sap == remote_sap,
            (LinkKind::Exclusive, Side::Called { sap }) => {
                Some(from) == sap && to_sap == remote_sap
            }
        }
    }
}

impl Claim {
    /// Whether it is asked for here, and the other node has not answered.
    fn is_asked_of(&self, node: Address) -> bool {
        let is_asked = matches!(self.state, State::Making | State::Asking { .. });
        is_asked && matches!(self.side, Side::Caller { .. }) && self.link.remote == node
    }
}

/// Whether one of two crossing requests goes first, each with the requesting node. Other nodes are not told the ranks
/// of clients (A.3.2.2.1), so only facts known to both count.
fn goes_first(one: (HardLink, Address), other: (HardLink, Address)) -> bool {
    let key = |(link, by): (HardLink, Address)| (link.priority, link.kind, Reverse(by));
    key(one) > key(other)
}

/// Which of two hard links goes first, each with the rank of its client (A.3.2.2.1).
fn compare(one: (u8, HardLink), other: (u8, HardLink)) -> Ordering {
    let ((rank, link), (other_rank, other)) = (one, other);
    let order = rank.cmp(&other_rank).then(link.priority.cmp(&other.priority));
    if link.remote == other.remote { order.then(link.kind.cmp(&other.kind)) } else { order }
}
