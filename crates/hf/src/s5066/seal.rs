//! Seals on U_PDUs: they tell the members of a group from strangers, who may use any node address.
//!
//! ```text
//!        4       28               64 bits
//!     +------+--------+---------------------+--------- - -
//!     | 1001 | number |         tag         | U_PDU               a sealed U_PDU: OVERHEAD octets more
//!     +------+--------+---------------------+--------- - -
//!
//!     +------+------+--------+
//!     | 1001 | 1111 | reason |            a notice, in clear: its sender drops what the receiver sends
//!     +------+------+--------+
//! ```
//! The number is the low 28 bits of the sender's clock in 1,024ths of a second since 1970, or one more than the last
//! number, whichever is greater. So a restarted sender goes on above all its former numbers, and a restarted receiver
//! knows which U_PDUs were sealed before its start.
//!
//! The tag is the first 64 bits of keyed BLAKE2s (RFC 7693) over the sender's and the receiver's address, both access
//! points, the whole number and the U_PDU. It needs no nonce: a number that is used twice costs the second U_PDU.
//!
//! No U_PDU of SLEP or the IP client begins with these four bits: older stations drop sealed U_PDUs as unreadable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use base::serial;
use base::time::Time;
use blake2::Blake2sMac256;
use blake2::digest::Mac;

use super::Address;
use super::sis::Sap;

/// Octets that a sealed U_PDU is longer.
pub const OVERHEAD: u16 = 12;
/// How far the clocks of members may differ.
pub const CLOCKS: Duration = Duration::from_secs(300);
/// Members that are remembered at most. More are refused: to forget one would let its U_PDUs be repeated.
pub const MEMBERS: usize = 1_024;
/// Numbers of a member that are remembered at most: a U_PDU that so many others have overtaken is lost.
pub const NUMBERS: usize = 4_096;

/// Octets of a key.
const KEY: usize = 32;
/// Octets of the mark and the number.
const HEAD: usize = 4;
const TAG: usize = 8;
/// The first half octet of sealed U_PDUs, and of notices.
const MARK: u8 = 0x90;
const MARK_BITS: u8 = 0xf0;
/// Bits of the number that are transmitted.
const TOLD: u32 = 28;
/// Numbers in a second.
const PER_SECOND: u64 = 1_024;
const NOTICE: u8 = 0x9f;

/// The key for seals: all members of a group have the same.
#[derive(Clone, Eq, PartialEq)]
pub struct Key([u8; KEY]);

/// Whether a client seals its U_PDUs, and which ones it believes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Sealing {
    /// Its user alone reads U_PDUs, whatever they begin with.
    #[default]
    Ignored,
    /// It has no key: sealed U_PDUs are dropped, and their senders are told.
    Keyless,
    /// The client belongs to a group.
    Member(Config),
}

/// A member of a group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The key of the group.
    pub key: Key,
    /// The address of the own node, which the subnetwork interface does not tell.
    pub own: Address,
    /// Nodes without a key: nothing from them or for them is sealed.
    pub unauthenticated: BTreeSet<Address>,
    /// What the wall clock said at [`Time::ZERO`], since 1970.
    pub clock: Duration,
}

/// Between whom a U_PDU is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// The node that sends it.
    pub from: Address,
    /// Its client.
    pub from_sap: Sap,
    /// The node or group that it is for.
    pub to: Address,
    /// The client there.
    pub to_sap: Sap,
}

/// Why a U_PDU is not believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The sender's clock is ahead of ours.
    #[error("its clock is {} s ahead of ours: {} s are allowed", by.as_secs(), CLOCKS.as_secs())]
    Ahead {
        /// By how much.
        by: Duration,
    },
    /// It was sealed before we started: by a clock that is late, or this is a repetition.
    #[error(
        "what it sent was sealed {} s before we started, {} s are allowed: its clock is late, or somebody repeats \
         what it said", by.as_secs(), CLOCKS.as_secs()
    )]
    Behind {
        /// How long before.
        by: Duration,
    },
    /// No more members can be remembered.
    #[error("there are {MEMBERS} members already")]
    Crowded,
    /// No member of the group has sealed it for us.
    #[error(
        "it seals with another group key, or for another node than ours, or its clock is more than a day wrong, or \
         it is somebody else"
    )]
    Forged,
    /// It is sealed, and we have no key.
    #[error("it seals with a group key, and none is set here (group-key)")]
    Keyless,
    /// Our own address is not what was configured.
    #[error("our node is {said}, and own-node says otherwise: no member believes what we send")]
    Misnamed {
        /// What it is.
        said: Address,
    },
    /// It came before, or too many others came since it was sealed.
    #[error("it was taken before, or is too old: somebody repeats what that node said")]
    Replayed,
    /// Nothing was sealed, though all have to that are not listed.
    #[error("it does not seal with the group key, and is not listed as unauthenticated")]
    Unsealed,
}

/// Why another station drops our U_PDUs, by its own account and without a proof.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// It has no key.
    Keyless,
    /// It does not recognise our seal.
    Forged,
    /// It takes nothing without a seal.
    Unsealed,
    /// Our clock differs from its own.
    Clock,
    /// For a reason that is not known here.
    Other(u8),
}

/// A fault of seals that a driver should tell its operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// A U_PDU of the node was dropped here.
    Refused(Refusal),
    /// The node says, without a proof, why it drops our U_PDUs.
    Told(Notice),
}

/// A member of a group: seals the U_PDUs of its station and opens U_PDUs from other members.
#[derive(Debug)]
pub struct Member {
    config: Config,
    started: Option<Time>,
    /// The number that was used last.
    last: u64,
    others: BTreeMap<Address, Taken>,
}

/// The numbers that were taken of a member.
#[derive(Debug, Default)]
struct Taken {
    /// In order.
    numbers: VecDeque<u64>,
    /// All numbers below this count as taken.
    floor: u64,
}

impl Key {
    /// The key for seals that belongs to the secret of a group.
    #[must_use]
    pub fn new(secret: &[u8; KEY]) -> Self {
        let mac = mac(secret).chain_update(b"trackway s5066 1 seal");
        Self(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl Notice {
    /// The notice to the sender of a refused U_PDU, if its operator can do anything about the refusal.
    #[must_use]
    pub fn of(refusal: Refusal) -> Option<Self> {
        match refusal {
            Refusal::Ahead { .. } | Refusal::Behind { .. } => Some(Self::Clock),
            Refusal::Forged => Some(Self::Forged),
            Refusal::Keyless => Some(Self::Keyless),
            Refusal::Unsealed => Some(Self::Unsealed),
            Refusal::Crowded | Refusal::Misnamed { .. } | Refusal::Replayed => None,
        }
    }

    /// Reads a U_PDU that is a notice.
    #[must_use]
    pub fn parse(u_pdu: &[u8]) -> Option<Self> {
        let &[NOTICE, reason] = u_pdu else { return None };
        Some(match reason {
            1 => Self::Keyless,
            2 => Self::Forged,
            3 => Self::Unsealed,
            4 => Self::Clock,
            other => Self::Other(other),
        })
    }

    /// The U_PDU.
    #[must_use]
    pub fn octets(self) -> [u8; 2] {
        let reason = match self {
            Self::Keyless => 1,
            Self::Forged => 2,
            Self::Unsealed => 3,
            Self::Clock => 4,
            Self::Other(other) => other,
        };
        [NOTICE, reason]
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyless => "it has no group key, and we seal what we send",
            Self::Forged => {
                "it does not recognise our seal: its group key is another, own-node here is wrong, or the \
                 clocks differ by more than a day"
            }
            Self::Unsealed => "it takes only what is sealed with its group key, and we do not seal for it",
            Self::Clock => "our clocks differ by more than it allows",
            Self::Other(_) => "for a reason that is not known here",
        })
    }
}

/// Whether a U_PDU claims to be sealed.
#[must_use]
pub fn is_sealed(u_pdu: &[u8]) -> bool {
    u_pdu.len() > usize::from(OVERHEAD) && u_pdu[0] & MARK_BITS == MARK
}

/// The octets behind the seal.
#[must_use]
pub fn behind(u_pdu: &[u8]) -> &[u8] {
    u_pdu.get(usize::from(OVERHEAD)..).unwrap_or_default()
}

impl Member {
    /// A member that has heard nobody yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, started: None, last: 0, others: BTreeMap::new() }
    }

    /// The member begins to hear others; later calls change nothing.
    pub fn start(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// The wall clock says this much since 1970.
    pub fn handle_clock(&mut self, now: Time, clock: Duration) {
        self.config.clock = clock.saturating_sub(now.since(Time::ZERO));
    }

    /// Whether a node does not seal, nor wants what is sealed.
    #[must_use]
    pub fn is_unauthenticated(&self, node: Address) -> bool {
        self.config.unauthenticated.contains(&node)
    }

    /// Seals a U_PDU of ours.
    pub fn seal(
        &mut self,
        now: Time,
        from_sap: Sap,
        to: Address,
        to_sap: Sap,
        u_pdu: &[u8],
    ) -> Vec<u8> {
        let number = self.number(now).max(self.last + 1);
        self.last = number;
        let envelope = Envelope { from: self.config.own, from_sap, to, to_sap };
        let tag = self.tag(envelope, number, u_pdu).finalize().into_bytes();
        let mut sealed = Vec::with_capacity(usize::from(OVERHEAD) + u_pdu.len());
        let low = serial::low32(number) & ((1 << TOLD) - 1);
        sealed.extend((low | u32::from(MARK) << 24).to_be_bytes());
        sealed.extend_from_slice(&tag[..TAG]);
        sealed.extend_from_slice(u_pdu);
        sealed
    }

    /// The U_PDU behind a seal; one without is taken from nodes that do not seal.
    ///
    /// # Errors
    /// When it is not to be believed.
    pub fn open<'a>(
        &mut self,
        now: Time,
        envelope: Envelope,
        u_pdu: &'a [u8],
    ) -> Result<&'a [u8], Refusal> {
        let head = u_pdu.split_first_chunk::<HEAD>().filter(|_| is_sealed(u_pdu));
        let parts = head.and_then(|(head, rest)| Some((head, rest.split_first_chunk::<TAG>()?)));
        let Some((head, (tag, inner))) = parts else {
            let is_let = self.is_unauthenticated(envelope.from);
            return if is_let { Ok(u_pdu) } else { Err(Refusal::Unsealed) };
        };
        let low = u32::from_be_bytes(*head) & ((1 << TOLD) - 1);
        let wall = self.number(now);
        let number = serial::expand(low, TOLD, wall);
        // It compares in constant time.
        if self.tag(envelope, number, inner).verify_truncated_left(tag).is_err() {
            return Err(Refusal::Forged);
        }
        let Envelope { from, to, .. } = envelope;
        if !to.is_group() && to != self.config.own {
            return Err(Refusal::Misnamed { said: to });
        }
        if from == self.config.own {
            // What we said to a group comes back.
            return Err(Refusal::Replayed);
        }
        let allowed = number_of(CLOCKS);
        if number > wall + allowed {
            return Err(Refusal::Ahead { by: time_of(number - wall) });
        }
        let is_full = self.others.len() >= MEMBERS;
        if let Some(taken) = self.others.get_mut(&from) {
            taken.take(number)?;
            return Ok(inner);
        }
        let started = self.number(self.started.unwrap_or(now));
        if number + allowed < started {
            return Err(Refusal::Behind { by: time_of(started - number) });
        }
        if is_full {
            return Err(Refusal::Crowded);
        }
        // Earlier numbers of this member stay refused from now on.
        let mut taken = Taken { floor: started.saturating_sub(allowed), ..Taken::default() };
        taken.take(number)?;
        self.others.insert(from, taken);
        Ok(inner)
    }

    fn number(&self, now: Time) -> u64 {
        number_of(self.config.clock + now.since(Time::ZERO))
    }

    fn tag(&self, envelope: Envelope, number: u64, u_pdu: &[u8]) -> Blake2sMac256 {
        let Envelope { from, from_sap, to, to_sap } = envelope;
        let address = |address: Address| {
            (address.value() | u32::from(address.is_group()) << Address::BITS).to_be_bytes()
        };
        mac(&self.config.key.0)
            .chain_update(address(from))
            .chain_update(address(to))
            .chain_update([from_sap.number(), to_sap.number()])
            .chain_update(number.to_be_bytes())
            .chain_update(u_pdu)
    }
}

impl Taken {
    fn take(&mut self, number: u64) -> Result<(), Refusal> {
        if number < self.floor {
            return Err(Refusal::Replayed);
        }
        let Err(mut at) = self.numbers.binary_search(&number) else {
            return Err(Refusal::Replayed);
        };
        if self.numbers.len() == NUMBERS {
            if at == 0 {
                return Err(Refusal::Replayed);
            }
            if let Some(oldest) = self.numbers.pop_front() {
                self.floor = oldest + 1;
                at -= 1;
            }
        }
        self.numbers.insert(at, number);
        Ok(())
    }
}

/// The number that belongs to a time since 1970.
fn number_of(time: Duration) -> u64 {
    let rest = u64::from(time.subsec_nanos()) * PER_SECOND / 1_000_000_000;
    time.as_secs().saturating_mul(PER_SECOND).saturating_add(rest)
}

/// Converts a count of numbers to a duration.
fn time_of(numbers: u64) -> Duration {
    Duration::from_millis(numbers.saturating_mul(1_000) / PER_SECOND)
}

fn mac(key: &[u8; KEY]) -> Blake2sMac256 {
    <Blake2sMac256 as Mac>::new_from_slice(key).expect("as long as a key may be")
}

#[cfg(test)]
mod tests;
