//! Seals the U_PDUs of a client, and drops received ones without the seal of its group.

use std::collections::BTreeMap;
use std::time::Duration;

use base::time::Time;

use super::Seals;
use crate::s5066::Address;
use crate::s5066::seal::{self, Envelope, Member, Notice, OVERHEAD, Refusal, Sealing};
use crate::s5066::sis::Sap;

/// The shortest time between two notices to one node.
const SILENCE: Duration = Duration::from_secs(600);
/// Most nodes that get a notice within this time.
const MOST_TOLD: usize = 16;

/// Seals and opens for one client, and limits its notices.
#[derive(Debug)]
pub(super) struct Guard {
    kind: Kind,
    /// When each node got its last notice.
    told: BTreeMap<Address, Time>,
}

#[derive(Debug)]
enum Kind {
    Ignored,
    Keyless,
    Member(Box<Member>),
}

impl Guard {
    pub(super) fn new(sealing: Sealing) -> Self {
        let kind = match sealing {
            Sealing::Ignored => Kind::Ignored,
            Sealing::Keyless => Kind::Keyless,
            Sealing::Member(config) => Kind::Member(Box::new(Member::new(config))),
        };
        Self { kind, told: BTreeMap::new() }
    }

    pub(super) fn start(&mut self, now: Time) {
        if let Some(member) = self.member() {
            member.start(now);
        }
    }

    pub(super) fn handle_clock(&mut self, now: Time, clock: Duration) {
        if let Some(member) = self.member() {
            member.handle_clock(now, clock);
        }
    }

    pub(super) fn overhead(&self) -> u16 {
        match self.kind {
            Kind::Ignored | Kind::Keyless => 0,
            Kind::Member(_) => OVERHEAD,
        }
    }

    /// The sealed U_PDU; `None` if it goes to the node without a seal.
    pub(super) fn seal(
        &mut self,
        now: Time,
        from_sap: Sap,
        to: Address,
        to_sap: Sap,
        u_pdu: &[u8],
    ) -> Option<Vec<u8>> {
        let member = self.member().filter(|member| !member.is_unauthenticated(to))?;
        Some(member.seal(now, from_sap, to, to_sap, u_pdu))
    }

    /// Reads a U_PDU as a notice, unless this client knows nothing of seals.
    pub(super) fn notice(&self, u_pdu: &[u8]) -> Option<Notice> {
        match self.kind {
            Kind::Ignored => None,
            Kind::Keyless | Kind::Member(_) => Notice::parse(u_pdu),
        }
    }

    /// The octets for the user.
    ///
    /// # Errors
    /// When it is not to be believed.
    pub(super) fn open<'a>(
        &mut self,
        now: Time,
        envelope: Envelope,
        u_pdu: &'a [u8],
        seals: &mut Seals,
    ) -> Result<&'a [u8], Refusal> {
        let opened = match &mut self.kind {
            Kind::Keyless if seal::is_sealed(u_pdu) => Err(Refusal::Keyless),
            Kind::Ignored | Kind::Keyless => return Ok(u_pdu),
            Kind::Member(member) => member.open(now, envelope, u_pdu),
        };
        match opened {
            Ok(inner) => {
                seals.opened += u64::from(inner.len() < u_pdu.len());
                return Ok(inner);
            }
            Err(Refusal::Ahead { .. } | Refusal::Behind { .. }) => seals.untimely += 1,
            Err(Refusal::Crowded) => seals.crowded += 1,
            Err(Refusal::Forged) => seals.forged += 1,
            Err(Refusal::Keyless) => seals.keyless += 1,
            Err(Refusal::Misnamed { .. }) => seals.misnamed += 1,
            Err(Refusal::Replayed) => seals.replayed += 1,
            Err(Refusal::Unsealed) => seals.unauthenticated += 1,
        }
        opened
    }

    /// The user's octets in the start of a U_PDU, as the node tells it.
    pub(super) fn start_of<'a>(&self, to: Address, start: &'a [u8]) -> &'a [u8] {
        match &self.kind {
            Kind::Member(member) if !member.is_unauthenticated(to) => seal::behind(start),
            Kind::Ignored | Kind::Keyless | Kind::Member(_) => start,
        }
    }

    /// Whether to send a node a notice now; a positive answer counts as a sent notice.
    pub(super) fn may_notify(&mut self, now: Time, node: Address) -> bool {
        self.told.retain(|_, told| now.since(*told) < SILENCE);
        let may = !node.is_group() && !self.told.contains_key(&node) && self.told.len() < MOST_TOLD;
        if may {
            self.told.insert(node, now);
        }
        may
    }

    fn member(&mut self) -> Option<&mut Member> {
        match &mut self.kind {
            Kind::Ignored | Kind::Keyless => None,
            Kind::Member(member) => Some(member),
        }
    }
}
