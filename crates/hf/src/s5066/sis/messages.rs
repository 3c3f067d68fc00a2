//! Management messages of ours (S_MANAGEMENT_MSG, A.2.2.26): requests of clients to our nodes beyond the standard,
//! about their own U_PDUs with any rank, about rates with rank 15.
//!
//! ```text
//!  kind 0x54   client: 1 | access point | node (4) | start of the U_PDU   take it back
//!              client: 2 | node (4)                                       how is it with that node?
//!              node:   2 | node (4) | state | bit/s (4) | all (4) | own (4)
//!              client: 3 | node (4) | rate | interleaver                 let it transmit with that
//!              client: 4                                                 drop my U_PDUs if I am lost
//! ```
//!
//! A node of ours announces the messages to a client with S_SUBNET_AVAILABILITY, reason 0x54, when the client is
//! bound: the node is available, and knows the messages. Other clients see a reason unknown to them.

use super::{Sap, UnavailableReason};
use crate::s5066::Address;

/// The kind of these messages.
pub const KIND: u8 = 0x54;
/// The reason by which a node announces the messages.
pub const OURS: UnavailableReason = UnavailableReason(KIND);
const TAKE_BACK: u8 = 1;
const PEER: u8 = 2;
const RATE: u8 = 3;
const DROP_IF_LOST: u8 = 4;
const GROUP: u32 = 1 << 28;

/// A client's request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question<'a> {
    /// If the connection ends, or the node unbinds the client, drop the client's U_PDUs of which nothing was sent. A
    /// client that ends in peace says so with S_UNBIND_REQUEST, and its U_PDUs are sent.
    DropIfLost,
    /// How is it with a node?
    Peer(Address),
    /// Ask a node to transmit to us with a waveform (Annex C, section 3.11).
    Rate {
        /// Which.
        node: Address,
        /// The rate, as the order wire names it.
        rate: u8,
        /// The interleaver, likewise.
        interleaver: u8,
    },
    /// Take back a U_PDU of which nothing was sent: the oldest with this beginning.
    TakeBack {
        /// To whom it is.
        to: Address,
        /// The client there.
        to_sap: Sap,
        /// The U_PDU's first octets, as many as confirmations have.
        start: &'a [u8],
    },
}

/// How it is with another node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerStatus {
    /// Which.
    pub node: Address,
    /// The link with it.
    pub state: PeerState,
    /// The rate of this node's transmissions, in bit/s.
    pub bits_per_s: u32,
    /// Octets of unsent U_PDUs for the node, from all clients.
    pub backlog: u32,
    /// The same for the asking client alone, without U_PDUs at the layers below.
    pub own_backlog: u32,
}

/// The state of a link, for clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PeerState {
    /// There is none, and none is asked for.
    Down,
    /// The link is being requested.
    Calling,
    /// The link is up.
    Up,
    /// There is none, and the node did not answer when it was last asked for one.
    Lost,
}

/// The body is none of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a management message of ours")]
pub(crate) struct Malformed;

const STATES: [PeerState; 4] =
    [PeerState::Down, PeerState::Calling, PeerState::Up, PeerState::Lost];

impl<'a> Question<'a> {
    /// Parses the body of a management message.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        match *body {
            [TAKE_BACK, sap, a, b, c, d, ref start @ ..] if !start.is_empty() => {
                let to = address([a, b, c, d]);
                Ok(Self::TakeBack { to, to_sap: Sap::new(sap), start })
            }
            [PEER, a, b, c, d] => Ok(Self::Peer(address([a, b, c, d]))),
            [RATE, a, b, c, d, rate, interleaver] => {
                Ok(Self::Rate { node: address([a, b, c, d]), rate, interleaver })
            }
            [DROP_IF_LOST] => Ok(Self::DropIfLost),
            _ => Err(Malformed),
        }
    }

    /// Appends the body.
    pub fn emit(self, out: &mut Vec<u8>) {
        match self {
            Self::DropIfLost => out.push(DROP_IF_LOST),
            Self::TakeBack { to, to_sap, start } => {
                out.extend([TAKE_BACK, to_sap.number()]);
                out.extend(octets(to));
                out.extend(start);
            }
            Self::Peer(node) => {
                out.push(PEER);
                out.extend(octets(node));
            }
            Self::Rate { node, rate, interleaver } => {
                out.push(RATE);
                out.extend(octets(node));
                out.extend([rate, interleaver]);
            }
        }
    }
}

impl PeerStatus {
    /// Parses the body of an answer.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let Some((&[PEER, a, b, c, d, state], rest)) = body.split_first_chunk() else {
            return Err(Malformed);
        };
        let (&[bits_per_s, backlog, own_backlog], []) = rest.as_chunks::<4>() else {
            return Err(Malformed);
        };
        Ok(Self {
            node: address([a, b, c, d]),
            state: *STATES.get(usize::from(state)).ok_or(Malformed)?,
            bits_per_s: u32::from_be_bytes(bits_per_s),
            backlog: u32::from_be_bytes(backlog),
            own_backlog: u32::from_be_bytes(own_backlog),
        })
    }

    /// Appends the body.
    pub(crate) fn emit(self, out: &mut Vec<u8>) {
        let state = STATES.iter().position(|state| *state == self.state).unwrap_or_default();
        out.push(PEER);
        out.extend(octets(self.node));
        out.push(u8::try_from(state).unwrap_or_default());
        for word in [self.bits_per_s, self.backlog, self.own_backlog] {
            out.extend(word.to_be_bytes());
        }
    }
}

/// An address in the form used by messages: bit 28 marks a group.
fn address(octets: [u8; 4]) -> Address {
    let value = u32::from_be_bytes(octets);
    if value & GROUP == 0 { Address::node(value) } else { Address::group(value) }
}

fn octets(address: Address) -> [u8; 4] {
    let group = if address.is_group() { GROUP } else { 0 };
    (address.value() | group).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Address = Address::node(0x000a_141f);

    #[test]
    fn questions_and_answers_are_read_back() {
        let start = b"HELLO";
        let taken = Question::TakeBack { to: NODE, to_sap: Sap::IP_CLIENT, start };
        let rate = Question::Rate { node: NODE, rate: 5, interleaver: 1 };
        for question in [taken, Question::Peer(NODE), rate, Question::DropIfLost] {
            let mut body = Vec::new();
            question.emit(&mut body);
            assert_eq!(Question::parse(&body), Ok(question));
        }
        for state in STATES {
            let status =
                PeerStatus { node: NODE, state, bits_per_s: 9_600, backlog: 7, own_backlog: 5 };
            let mut body = Vec::new();
            status.emit(&mut body);
            assert_eq!(PeerStatus::parse(&body), Ok(status));
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_read() {
        let status = PeerStatus {
            node: NODE,
            state: PeerState::Up,
            bits_per_s: 75,
            backlog: 0,
            own_backlog: 0,
        };
        let mut body = Vec::new();
        status.emit(&mut body);
        for len in 0..body.len() {
            assert_eq!(PeerStatus::parse(&body[..len]), Err(Malformed));
        }
        assert_eq!(Question::parse(&[]), Err(Malformed));
        assert_eq!(Question::parse(&[TAKE_BACK, 9, 0, 10, 20, 31]), Err(Malformed));
        assert_eq!(Question::parse(&[PEER, 0, 10, 20]), Err(Malformed));
        assert_eq!(Question::parse(&[RATE, 0, 10, 20, 31]), Err(Malformed));
        assert_eq!(Question::parse(&[DROP_IF_LOST, 0]), Err(Malformed));
        assert_eq!(Question::parse(&[5, 0, 10, 20, 31]), Err(Malformed));
    }
}
