//! A client's connection, and its queue for the layers below.

use std::collections::VecDeque;

use base::time::Time;

use super::config::Backlog;
use crate::s5066::Address;
use crate::s5066::service::{MAX_PRIORITY, PRIORITIES, RequestId};
use crate::s5066::sis::keep_alive::KeepAlive;
use crate::s5066::sis::output::OutputBuffer;
use crate::s5066::sis::stream::Stream;
use crate::s5066::sis::{Sap, Service};

/// Priorities, and one more for what is expedited.
pub(super) const CLASSES: usize = EXPEDITED + 1;
/// The class of expedited U_PDUs.
pub(super) const EXPEDITED: usize = PRIORITIES;

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) outgoing: OutputBuffer,
    /// Whether the driver knows that there is something to read.
    pub(super) is_announced: bool,
    pub(super) is_closing: bool,
    pub(super) keep_alive: KeepAlive,
    pub(super) invalid: u32,
    /// When it is closed unless it is bound.
    pub(super) bind_until: Option<Time>,
    pub(super) binding: Option<Binding>,
}

/// A client that is bound.
pub(super) struct Binding {
    pub(super) sap: Sap,
    pub(super) rank: u8,
    pub(super) service: Service,
    pub(super) queue: Queue,
    pub(super) is_flow_off: bool,
    /// U_PDUs that the layers below have, or the remote client has not confirmed.
    pub(super) undecided: usize,
    /// Expedited U_PDUs, waiting or undecided.
    pub(super) expedited: usize,
}

/// U_PDUs that wait, by class and then by age.
pub(super) struct Queue {
    classes: [VecDeque<Item>; CLASSES],
    backlog: Backlog,
}

/// A U_PDU that waits.
pub(super) struct Item {
    pub(super) id: RequestId,
    pub(super) to: Address,
    pub(super) to_sap: Sap,
    pub(super) priority: u8,
    pub(super) is_expedited: bool,
    pub(super) service: Service,
    pub(super) expires: Option<Time>,
    /// Whether the client set the time to live.
    pub(super) has_ttl: bool,
    pub(super) u_pdu: Vec<u8>,
}

impl Item {
    pub(super) fn class(&self) -> usize {
        if self.is_expedited { EXPEDITED } else { usize::from(self.priority.min(MAX_PRIORITY)) }
    }
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { classes: std::array::from_fn(|_| VecDeque::new()), backlog: Backlog::default() }
    }

    pub(super) fn push(&mut self, item: Item) {
        self.backlog.octets += item.u_pdu.len();
        self.backlog.u_pdus += 1;
        self.classes[item.class()].push_back(item);
    }

    /// Takes the oldest of the class that may go.
    pub(super) fn take(&mut self, class: usize, may_go: impl Fn(&Item) -> bool) -> Option<Item> {
        let at = self.classes[class].iter().position(may_go)?;
        let item = self.classes[class].remove(at)?;
        self.forget(&item);
        Some(item)
    }

    /// Takes one whose time to live has ended.
    pub(super) fn take_expired(&mut self, now: Time) -> Option<Item> {
        self.take_any(|item| item.expires.is_some_and(|at| at <= now))
    }

    /// Takes the oldest matching item of the first class with a match.
    pub(super) fn take_any(&mut self, is_it: impl Fn(&Item) -> bool) -> Option<Item> {
        for class in &mut self.classes {
            if let Some(item) = class.iter().position(&is_it).and_then(|at| class.remove(at)) {
                self.forget(&item);
                return Some(item);
            }
        }
        None
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.classes.iter().flatten()
    }

    fn forget(&mut self, item: &Item) {
        self.backlog.octets -= item.u_pdu.len();
        self.backlog.u_pdus -= 1;
    }
}
