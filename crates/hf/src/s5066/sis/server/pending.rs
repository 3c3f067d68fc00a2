//! U_PDUs at the layers below, and S_PDUs of the node's own waiting to get there.

use std::collections::{BTreeMap, VecDeque};

use base::time::Time;

use super::ClientId;
use super::connection::EXPEDITED;
use crate::s5066::Address;
use crate::s5066::service::Request;
use crate::s5066::sis::{Confirmation, Sap};

/// S_PDUs of the node's own that wait at most.
const MAX_OWN: usize = 1_024;

/// A U_PDU that was handed down.
pub(super) struct Pending {
    pub(super) client: ClientId,
    pub(super) to: Address,
    pub(super) to_sap: Sap,
    pub(super) is_arq: bool,
    pub(super) is_expedited: bool,
    pub(super) confirmation: Confirmation,
    /// Whether the layers below are done with it.
    pub(super) is_done: bool,
    /// When the remote client has to have confirmed it.
    pub(super) until: Option<Time>,
    /// The start of the U_PDU; empty when nobody is told the outcome.
    pub(super) start: Vec<u8>,
}

/// How a confirmation says what it is about.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    /// By its number.
    Id(u32),
    /// By how it starts.
    Start(&'a [u8]),
}

/// S_PDUs of the node's own: sent before S_PDUs of clients in the same class.
#[derive(Default)]
pub(super) struct Own {
    classes: BTreeMap<usize, VecDeque<Request>>,
    len: usize,
}

impl Own {
    pub(super) fn is_full(&self) -> bool {
        self.len >= MAX_OWN
    }

    pub(super) fn push(&mut self, request: Request) {
        let class = if request.is_expedited { EXPEDITED } else { usize::from(request.priority) };
        self.len += 1;
        self.classes.entry(class).or_default().push_back(request);
    }

    pub(super) fn take(&mut self, class: usize) -> Option<Request> {
        let request = self.classes.get_mut(&class)?.pop_front()?;
        self.len -= 1;
        Some(request)
    }
}
