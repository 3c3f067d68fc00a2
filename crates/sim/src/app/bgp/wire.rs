//! Messages of BGP-4 (RFC 4271, 4), padded to the requested sizes.
//!
//! ```text
//!  octet 0          16       18     19
//!        +----------+--------+------+----- - -
//!        | all ones | length | kind | body
//!        +----------+--------+------+----- - -
//! ```
//!
//! An OPEN grows by capabilities, an UPDATE by networks, and a KEEPALIVE by zeros. The RFC defines exactly
//! 19 octets for a KEEPALIVE; networks measured with 20 octets need one octet of filling.

use std::net::Ipv4Addr;

/// Octets before the body.
pub const HEADER: usize = 19;
/// The longest message.
pub const LONGEST: usize = 4_096;
/// The port that speakers listen on.
pub const PORT: u16 = 179;

/// The kinds of messages.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Opens a session and introduces the speaker.
    Open,
    /// Announces networks reachable through the speaker.
    Update,
    /// Shows that the speaker is alive and has accepted the OPEN.
    Keepalive,
}

/// How long messages are, their headers included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sizes {
    /// An OPEN, 47 to 284 octets.
    pub open: usize,
    /// An UPDATE, 43 to 4,096 octets.
    pub update: usize,
    /// A KEEPALIVE, 19 octets and filling.
    pub keepalive: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { open: 50, update: 110, keepalive: 20 }
    }
}

/// How a speaker describes itself in its OPEN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Speaker {
    /// The BGP identifier, also the address of the speaker.
    pub id: Ipv4Addr,
    /// Its autonomous system.
    pub system: u16,
    /// Hold time: seconds of silence after which a peer gives the session up.
    pub hold: u16,
}

impl Kind {
    /// The kind that is written in a message.
    #[must_use]
    pub fn parse(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Open),
            2 => Some(Self::Update),
            4 => Some(Self::Keepalive),
            _ => None,
        }
    }

    /// Appends one message of the given kind to `out`.
    pub fn emit(self, speaker: Speaker, sizes: Sizes, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0xff; 16]);
        let (kind, len) = match self {
            Self::Open => (1, sizes.open),
            Self::Update => (2, sizes.update),
            Self::Keepalive => (4, sizes.keepalive),
        };
        let len = len.clamp(HEADER, LONGEST);
        out.extend(u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
        out.push(kind);
        let left = len - HEADER;
        match self {
            Self::Open => open(speaker, left, out),
            Self::Update => update(speaker, left, out),
            Self::Keepalive => {}
        }
        // Fills the message with zeros up to the length in its header.
        out.resize(start + len, 0);
    }
}

/// The message that `octets` begin with; its kind and length. `None` while it is not whole.
///
/// # Errors
/// When it is none.
pub fn split_first(octets: &[u8]) -> Result<Option<(Kind, usize)>, Malformed> {
    let Some((header, _)) = octets.split_first_chunk::<HEADER>() else { return Ok(None) };
    let (marker, rest) = header.split_at(16);
    let &[high, low, kind] = rest else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let kind = Kind::parse(kind).filter(|_| marker == [0xff; 16]).ok_or(Malformed)?;
    if !(HEADER..=LONGEST).contains(&len) {
        return Err(Malformed);
    }
    Ok((octets.len() >= len).then_some((kind, len)))
}

/// Error: the octets are not a BGP message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no message of BGP-4 that is spoken here")]
pub struct Malformed;

/// The body of an OPEN (RFC 4271, 4.2), with capabilities (RFC 5492) up to its length.
fn open(speaker: Speaker, left: usize, out: &mut Vec<u8>) {
    const FIXED: usize = 10;
    out.push(4);
    out.extend(speaker.system.to_be_bytes());
    out.extend(speaker.hold.to_be_bytes());
    out.extend(speaker.id.octets());
    let parameters = left.saturating_sub(FIXED).min(255);
    out.push(u8::try_from(parameters).unwrap_or(u8::MAX));
    let Some(mut left) = parameters.checked_sub(2) else { return };
    // One parameter holds all capabilities.
    out.extend([2, u8::try_from(left).unwrap_or(u8::MAX)]);
    let system = u32::from(speaker.system).to_be_bytes();
    let fixed: [&[u8]; 2] = [
        &[65, 4, system[0], system[1], system[2], system[3]],
        // IPv4, unicast.
        &[1, 4, 0, 1, 0, 1],
    ];
    for capability in fixed {
        if left >= capability.len() {
            out.extend(capability);
            left -= capability.len();
        }
    }
    // A name of the length that is left.
    if let Some(name) = left.checked_sub(4) {
        let [all, name] = [name + 2, name].map(|len| u8::try_from(len).unwrap_or(u8::MAX));
        out.extend([73, all, name]);
        out.extend(std::iter::repeat_n(b'i', name.into()));
        out.push(0);
    } else if left >= 2 {
        // Route refresh.
        out.extend([2, 0]);
    }
}

/// The body of an UPDATE (RFC 4271, 4.3), filled with networks up to its length.
fn update(speaker: Speaker, left: usize, out: &mut Vec<u8>) {
    const ATTRIBUTES: u16 = 20;
    let system = u32::from(speaker.system).to_be_bytes();
    out.extend([0, 0]);
    out.extend(ATTRIBUTES.to_be_bytes());
    out.extend([0x40, 1, 1, 0]);
    out.extend([0x40, 2, 6, 2, 1, system[0], system[1], system[2], system[3]]);
    out.extend([0x40, 3, 4]);
    out.extend(speaker.id.octets());
    let networks = left.saturating_sub(4 + usize::from(ATTRIBUTES));
    for network in 0..networks / 4 {
        let [high, low] = u16::try_from(network).unwrap_or(u16::MAX).to_be_bytes();
        out.extend([24, 100, high, low]);
    }
    out.extend(match networks % 4 {
        3 => [16, 101, 1].as_slice(),
        2 => &[8, 102],
        1 => &[0],
        _ => &[],
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEAKER: Speaker =
        Speaker { id: Ipv4Addr::new(10, 0, 0, 1), system: 64_512, hold: 1_440 };

    #[test]
    fn messages_have_the_sizes_that_are_asked_for() {
        let sizes = Sizes::default();
        let mut octets = Vec::new();

        for kind in [Kind::Open, Kind::Keepalive, Kind::Update] {
            kind.emit(SPEAKER, sizes, &mut octets);
        }

        assert_eq!(octets.len(), 50 + 20 + 110);
        let mut rest = &octets[..];
        for expected in [(Kind::Open, 50), (Kind::Keepalive, 20), (Kind::Update, 110)] {
            assert_eq!(split_first(&rest[..expected.1 - 1]), Ok(None));
            assert_eq!(split_first(rest), Ok(Some(expected)));
            rest = &rest[expected.1..];
        }
    }

    #[test]
    fn an_open_is_filled_to_its_last_octet() {
        for open in [29, 47, 48, 49, 50, 51, 52, 90, 284] {
            let sizes = Sizes { open, ..Sizes::default() };
            let mut octets = Vec::new();

            Kind::Open.emit(SPEAKER, sizes, &mut octets);

            assert_eq!(octets.len(), open);
            let parameters = usize::from(octets[28]);
            assert_eq!(29 + parameters, open);
            if parameters > 0 {
                assert_eq!(octets[29..31], [2, u8::try_from(parameters - 2).unwrap()]);
                let mut left = &octets[31..];
                while let [_, len, ..] = left {
                    left = &left[2 + usize::from(*len)..];
                }
                assert_eq!(left, [0_u8; 0], "{open}: whole capabilities");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let mut octets = Vec::new();
        Kind::Keepalive.emit(SPEAKER, Sizes::default(), &mut octets);
        for (at, to) in [(0, 0), (15, 0xfe), (16, 0x11), (17, 18), (18, 3)] {
            let mut changed = octets.clone();
            changed[at] = to;
            assert_eq!(split_first(&changed), Err(Malformed), "{at}");
        }
    }
}
