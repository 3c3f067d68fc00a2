//! Questions and answers of DNS as octets (RFC 1035, 4.1).
//!
//! ```text
//!  octet 0    2       4       6       8       10      12
//!       +----+-------+-------+-------+-------+-------+----------+---------- - -
//!       | id | flags | questions, answers, ...       | question | answers
//!       +----+-------+-------+-------+-------+-------+----------+---------- - -
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{MAX_ADDRESSES, Name};

const HEADER: usize = 12;
/// Octets of the longest name in wire format.
const LONGEST: usize = 255;
/// Most records considered in an answer.
const MAX_RECORDS: u16 = 64;
/// Names that lead to others, one after the other, at most.
const MAX_ALIASES: usize = 8;
/// Octets of an answer that pass every path unfragmented (RFC 9715).
const PAYLOAD: u16 = 1_232;

const RESPONSE: u16 = 1 << 15;
const OPCODE: u16 = 0xf << 11;
const TRUNCATED: u16 = 1 << 9;
const RECURSION_DESIRED: u16 = 1 << 8;
const RCODE: u16 = 0xf;
const NO_SUCH_NAME: u16 = 3;

const CLASS_IN: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_OPT: u16 = 41;

/// What is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
}

/// What a server says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The addresses of the requested kind, possibly none.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoSuchName,
    /// No answer, for this reason (the RCODE), or because the answer does not fit a datagram.
    Refused(Refusal),
}

/// Why a server does not say.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It gives a reason.
    #[error("{}", reason(*.0))]
    Code(u16),
    /// The answer does not fit a datagram.
    #[error("its answer does not fit a datagram")]
    TooLong,
}

/// Octets that are no answer to the question.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no answer to what was asked")]
pub struct Foreign;

impl Kind {
    fn number(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 28,
        }
    }

    fn address(self, octets: &[u8]) -> Option<IpAddr> {
        match self {
            Self::V4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?))),
            Self::V6 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))),
        }
    }
}

/// Appends a question. With `is_extended` the answer may have more than 512 octets, which very old servers do not
/// understand.
pub fn emit(id: u16, name: &Name, kind: Kind, is_extended: bool, out: &mut Vec<u8>) {
    for word in [id, RECURSION_DESIRED, 1, 0, 0, u16::from(is_extended)] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for label in name.labels() {
        out.push(u8::try_from(label.len()).expect("a label has 63 octets at most"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    if is_extended {
        out.push(0);
        for word in [TYPE_OPT, PAYLOAD, 0, 0, 0] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

/// Reads the answer to a question.
///
/// # Errors
/// When it is none: forged, or broken.
pub fn parse(id: u16, name: &Name, kind: Kind, octets: &[u8]) -> Result<Answer, Foreign> {
    let word = |at: usize| word(octets, at).ok_or(Foreign);
    let (flags, questions, records) = (word(2)?, word(4)?, word(6)?);
    if word(0)? != id || flags & (RESPONSE | OPCODE) != RESPONSE {
        return Err(Foreign);
    }
    let mut at = HEADER;
    // Some refuse without repeating the question; the id and where it comes from have to do then.
    if questions == 1 {
        let asked = read_name(octets, &mut at).ok_or(Foreign)?;
        if asked != name.as_str() || (word(at)?, word(at + 2)?) != (kind.number(), CLASS_IN) {
            return Err(Foreign);
        }
        at += 4;
    } else if questions != 0 || flags & RCODE == 0 {
        return Err(Foreign);
    }
    match flags & RCODE {
        0 => {}
        NO_SUCH_NAME => return Ok(Answer::NoSuchName),
        code => return Ok(Answer::Refused(Refusal::Code(code))),
    }
    let is_truncated = flags & TRUNCATED != 0;
    let mut said = Said::default();
    for _ in 0..records.min(MAX_RECORDS) {
        if said.read_record(octets, &mut at, kind).is_none() {
            if is_truncated {
                break;
            }
            return Err(Foreign);
        }
    }
    let addresses = said.addresses_of(name.as_str());
    if addresses.is_empty() && is_truncated {
        return Ok(Answer::Refused(Refusal::TooLong));
    }
    Ok(Answer::Addresses(addresses))
}

/// The records of an answer.
#[derive(Default)]
struct Said {
    aliases: BTreeMap<String, String>,
    addresses: Vec<(String, IpAddr)>,
}

impl Said {
    /// Reads a record; `None` when it is broken.
    fn read_record(&mut self, octets: &[u8], at: &mut usize, kind: Kind) -> Option<()> {
        let owner = read_name(octets, at)?;
        let (its_kind, class) = (word(octets, *at)?, word(octets, *at + 2)?);
        let data = *at + 10;
        let end = data + usize::from(word(octets, *at + 8)?);
        let value = octets.get(data..end)?;
        *at = end;
        if class != CLASS_IN {
            return Some(());
        }
        if its_kind == TYPE_CNAME {
            let mut within = data;
            let target = read_name(octets, &mut within)?;
            self.aliases.insert(owner, target);
        } else if its_kind == kind.number() {
            self.addresses.push((owner, kind.address(value)?));
        }
        Some(())
    }

    fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        let mut name = name;
        for _ in 0..MAX_ALIASES {
            let Some(target) = self.aliases.get(name) else { break };
            name = target;
        }
        let mut addresses = Vec::new();
        for (owner, address) in &self.addresses {
            if owner == name && !addresses.contains(address) && addresses.len() < MAX_ADDRESSES {
                addresses.push(*address);
            }
        }
        addresses
    }
}

/// Reads a name, in small letters, and moves `at` behind it.
fn read_name(octets: &[u8], at: &mut usize) -> Option<String> {
    let mut name = String::new();
    // A pointer must point backwards, so that following pointers ends.
    let (mut position, mut start, mut has_jumped) = (*at, *at, false);
    loop {
        let len = *octets.get(position)?;
        match len {
            0 => {
                if !has_jumped {
                    *at = position + 1;
                }
                return Some(name);
            }
            1..=63 => {
                let label = octets.get(position + 1..position + 1 + usize::from(len))?;
                if !name.is_empty() {
                    name.push('.');
                }
                // Whatever else there may be in a name, it is not ours.
                name.extend(label.iter().map(|octet| char::from(octet.to_ascii_lowercase())));
                if name.len() > LONGEST {
                    return None;
                }
                position += 1 + usize::from(len);
            }
            0xc0.. => {
                let target = usize::from(word(octets, position)? & 0x3fff);
                if target >= start {
                    return None;
                }
                if !has_jumped {
                    *at = position + 2;
                    has_jumped = true;
                }
                (position, start) = (target, target);
            }
            64..0xc0 => return None,
        }
    }
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

/// What a code says (RFC 1035, 4.1.1).
fn reason(code: u16) -> String {
    match code {
        1 => "it does not understand the question (FORMERR)".to_owned(),
        2 => "it cannot find out (SERVFAIL)".to_owned(),
        4 => "it does not do that (NOTIMP)".to_owned(),
        5 => "it does not serve us (REFUSED)".to_owned(),
        code => format!("code {code}"),
    }
}
