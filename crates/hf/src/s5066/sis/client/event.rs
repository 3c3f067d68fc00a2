//! Events that an SIS client reports to its user.

use std::time::Duration;

use super::SendId;
use crate::s5066::Address;
use crate::s5066::seal::Trouble;
use crate::s5066::sis::messages::PeerStatus;
use crate::s5066::sis::primitive::{Arrival, HardLink};
use crate::s5066::sis::stream::Broken;
use crate::s5066::sis::{
    BindReason, LinkReason, NodeStatus, Sap, TerminateReason, UnavailableReason, UnbindReason,
    UnidataReason,
};

/// Events for the user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The node becomes available or unavailable; at the bind it is available, unless it says otherwise.
    Availability {
        /// The node's abilities.
        status: NodeStatus,
        /// Why.
        reason: UnavailableReason,
    },
    /// U_PDUs can be sent.
    Bound {
        /// The longest U_PDU, in octets.
        mtu: u16,
    },
    /// The connection is to be closed, and perhaps made again.
    Close(Fault),
    /// A U_PDU was delivered.
    Confirmed(SendId),
    /// The node takes no more until the flow is on again.
    FlowOff,
    /// The flow is on again after it was off.
    FlowOn,
    /// Something about a hard link.
    HardLink(HardLinkEvent),
    /// The node tells something.
    Management {
        /// The type of message.
        kind: u8,
        /// The message.
        body: Vec<u8>,
    },
    /// How it is with another node, as asked.
    Peer(PeerStatus),
    /// A U_PDU arrived.
    Received(Received),
    /// The node does not bind the client.
    Refused(BindReason),
    /// A U_PDU was not delivered.
    Rejected {
        /// The U_PDU; `None` if no confirmation was requested, or if it was confirmed before.
        id: Option<SendId>,
        /// To whom it was.
        to: Address,
        /// Its first octets.
        start: Vec<u8>,
        /// Why.
        reason: UnidataReason,
    },
    /// A U_PDU of a node was dropped because of its seal, or that node drops ours.
    Sealing {
        /// Which node.
        node: Address,
        /// The fault.
        trouble: Trouble,
    },
    /// The node has unbound the client; what waited for confirmation will get none.
    Unbound(UnbindReason),
}

/// Why a node is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// It took the connection, and then said nothing to the bind.
    #[error("the node has not answered the bind request within {}", base::readable::span(within.as_secs_f64()))]
    BindUnanswered {
        /// How long it had.
        within: Duration,
    },
    /// It takes U_PDUs that are too short to be of use.
    #[error("the node takes U_PDUs of {mtu} octets at most and {least} are needed{}", likely(*mtu, *least))]
    Mtu {
        /// The node's MTU.
        mtu: u16,
        /// The MTU that the user needs.
        least: u16,
    },
    /// It was asked whether it is there, and did not answer.
    #[error("the node does not answer any more")]
    Silent,
    /// The node's octets are no stream of primitives.
    #[error("the node cannot be read: {0}")]
    Unreadable(Broken),
}

/// The longest U_PDU that the standard knows.
const MAX_MTU: u16 = 4_096;

/// Why a node may have said so few octets.
fn likely(mtu: u16, least: u16) -> String {
    let swapped = mtu.swap_bytes();
    if (least..=MAX_MTU).contains(&swapped) {
        format!(
            ": with its two octets swapped it would be {swapped}, so the node probably sends numbers \
             low octet first"
        )
    } else {
        ": more can be set at the node".to_owned()
    }
}

/// Events of hard links.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HardLinkEvent {
    /// The link is established.
    Established(HardLink),
    /// A remote client asks for it.
    Indicated(HardLink),
    /// The link cannot be had.
    Rejected(LinkReason, HardLink),
    /// The link has ended.
    Terminated(TerminateReason, HardLink),
}

/// A U_PDU that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received {
    /// The node that sent it.
    pub from: Address,
    /// The client that sent it.
    pub from_sap: Sap,
    /// The node or group that it was sent to.
    pub to: Address,
    /// 0 to 15, the highest.
    pub priority: u8,
    /// Whether it went before all others.
    pub is_expedited: bool,
    /// How it came.
    pub arrival: Arrival,
    /// The octets.
    pub u_pdu: Vec<u8>,
}
