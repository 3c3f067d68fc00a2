//! Authenticates neighbours by a group key, and each packet between two holders of the key by a
//! proof.
//!
//! ```text
//!   group key, 32 octets ─┬─▶ id (2): told in hellos, so that another key is noticed
//!                         ├─▶ tags of hellos (16)
//!                         └─▶ a key for each direction of each conversation (16) ─▶ Channel
//!
//!      IP header, HBH messages        trailer, TRAILER octets
//!  +----------------- - - ------+-----------+-----------------------+
//!  | ...                        |  number   |          tag          |
//!  +----------------- - - ------+-----------+-----------------------+
//!                                     3                 8
//! ```
//! The number is the low 24 bits of how many packets were sealed before in this conversation and
//! direction. The tag is SipHash-2-4 over the whole number and the packet as it goes over the hop,
//! without what the sender's own queues may still change: traffic class (DSCP, ECN) and the
//! checksum of an IPv4 header. Keys are derived by keyed BLAKE2s (RFC 7693).
//!
//! SipHash was made to authenticate short packets: its 64 bits need no nonce, so that nothing but
//! one tag is lost if a number were ever used twice, and they need not be cut. An attacker who sends
//! 100,000 packets a second guesses one tag in three million years.

use std::hash::Hasher as _;

use base::ip::{self, Header, rewrite_v4_checksum};
use base::replay::{self, Window};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};
use siphasher::sip::SipHasher24;

/// Octets of a group key.
pub const KEY: usize = 32;
/// Octets of a digest of BLAKE2s (RFC 7693, 2.1).
const DIGEST: usize = 32;
/// Octets of the fixed IPv6 header, not counted in IPv6's payload length (RFC 8200, 3).
const V6_HEADER: u16 = 40;
/// Octets that sealing adds to a packet.
pub const TRAILER: usize = NUMBER + 8;
/// Octets in the tag of a hello.
pub const HELLO_TAG: usize = 16;
/// How far behind the newest packet a packet may arrive.
pub const REORDERING: u64 = Window::<WINDOW_WORDS>::BITS - 1;

const NUMBER: usize = 3;
const WINDOW_WORDS: usize = 17;
/// IPv4 with all options, IPv6 is shorter.
const LONGEST_HEADER: usize = 60;

/// The key shared by the gateways of a network.
#[derive(Clone, Eq, PartialEq)]
pub struct GroupKey {
    id: [u8; 2],
    hello: [u8; KEY],
    pair: [u8; KEY],
}

/// One end of a conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// Drawn when it started.
    pub boot: u64,
    /// Its number of the conversation.
    pub session: u32,
}

/// One neighbour's keys and counters for a conversation with another neighbour.
#[derive(Clone)]
pub struct Channel {
    out: SipHasher24,
    /// Packets sealed.
    sealed: u64,
    back: SipHasher24,
    window: Window<WINDOW_WORDS>,
}

/// Why a packet was not sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsealed {
    /// It is none.
    #[error("not an IP packet: {0}")]
    Malformed(#[from] ip::Malformed),
    /// IP cannot tell its length.
    #[error("too long")]
    TooLong,
}

/// Why a packet is not believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Untrusted {
    /// No holder of the key sent the packet to us in this conversation.
    #[error("forged")]
    Forged,
    /// No IP packet, or one without a trailer.
    #[error("not an IP packet with a trailer")]
    Malformed,
    /// The packet came before, or far too late.
    #[error("{0}")]
    Replayed(#[from] replay::Stale),
}

impl GroupKey {
    /// Makes the group key with the secret `octets`.
    #[must_use]
    pub fn new(octets: &[u8; KEY]) -> Self {
        let id = keyed(octets, &[b"trackway hbh 2 id"]);
        Self {
            // 0 means no key.
            id: if id == [0; 2] { [0, 1] } else { id },
            hello: keyed(octets, &[b"trackway hbh 2 hello"]),
            pair: keyed(octets, &[b"trackway hbh 2 pair"]),
        }
    }

    /// An identifier that distinguishes this key from others and reveals nothing about it; never 0.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16::from_be_bytes(self.id)
    }

    /// The tag of a hello.
    #[must_use]
    pub fn tag(&self, hello: &[u8]) -> [u8; HELLO_TAG] {
        keyed(&self.hello, &[hello])
    }

    /// Whether a hello has this tag.
    #[must_use]
    pub fn is_tag(&self, hello: &[u8], tag: &[u8; HELLO_TAG]) -> bool {
        // It compares in constant time.
        blake2s(&self.hello).chain_update(hello).verify_truncated_left(tag).is_ok()
    }

    /// The conversation between us and a neighbour.
    #[must_use]
    pub fn channel(&self, ours: End, theirs: End) -> Channel {
        let direction = |from: End, to: End| {
            let [from, to] = [from, to].map(End::octets);
            SipHasher24::new_with_key(&keyed(&self.pair, &[&from, &to]))
        };
        Channel {
            out: direction(ours, theirs),
            sealed: 0,
            back: direction(theirs, ours),
            window: Window::new(),
        }
    }
}

impl std::fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupKey({:04x}, secret)", self.id())
    }
}

impl End {
    fn octets(self) -> [u8; 12] {
        let mut octets = [0; 12];
        octets[..8].copy_from_slice(&self.boot.to_be_bytes());
        octets[8..].copy_from_slice(&self.session.to_be_bytes());
        octets
    }
}

impl Channel {
    /// Appends the trailer to an IP packet and includes the trailer in the packet's length and
    /// checksum.
    ///
    /// # Errors
    /// When the packet cannot have a trailer; the packet is unchanged.
    pub fn seal(&mut self, packet: &mut Vec<u8>) -> Result<(), Unsealed> {
        let header = Header::parse(packet)?;
        let Ok(len) = u16::try_from(header.total_len + TRAILER) else {
            return Err(Unsealed::TooLong);
        };
        packet.truncate(header.total_len);
        set_len(packet, &header, len);
        let number = self.sealed;
        self.sealed += 1;
        let tag = tag(&self.out, number, &header, packet);
        packet.extend_from_slice(&number.to_be_bytes()[8 - NUMBER..]);
        packet.extend_from_slice(&tag.to_be_bytes());
        Ok(())
    }

    /// Writes the original packet, before sealing, to `out`.
    ///
    /// # Errors
    /// When the packet cannot be trusted; `out` is then unchanged.
    pub fn open(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Untrusted> {
        let header = Header::parse(packet).map_err(|_| Untrusted::Malformed)?;
        let sealed = &packet[..header.total_len];
        let Some((inner, &[n0, n1, n2, ref theirs @ ..])) = sealed.split_last_chunk::<TRAILER>()
        else {
            return Err(Untrusted::Malformed);
        };
        if inner.len() < header.len {
            return Err(Untrusted::Malformed);
        }
        let low = u32::from_be_bytes([0, n0, n1, n2]);
        let len = u16::try_from(inner.len()).map_err(|_| Untrusted::Malformed)?;
        let number = self.window.rebuild(0, 8 * 3, low);
        // First what costs less.
        self.window.check(number)?;
        if tag(&self.back, number, &header, inner) != u64::from_be_bytes(*theirs) {
            return Err(Untrusted::Forged);
        }
        self.window.take(number)?;
        out.clear();
        out.extend_from_slice(inner);
        set_len(out, &header, len);
        Ok(())
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({} sealed, secret)", self.sealed)
    }
}

/// The tag of a packet; the length in the packet's header includes the trailer.
fn tag(key: &SipHasher24, number: u64, header: &Header, packet: &[u8]) -> u64 {
    let mut start = [0; 8 + LONGEST_HEADER];
    start[..8].copy_from_slice(&number.to_be_bytes());
    let end = 8 + header.len;
    let (fixed, rest) = packet.split_at(header.len);
    start[8..end].copy_from_slice(fixed);
    if header.is_v4() {
        start[8 + 1] = 0;
        start[8 + 10..8 + 12].fill(0);
    } else {
        start[8] &= 0xf0;
        start[8 + 1] &= 0x0f;
    }
    let mut hasher = *key;
    hasher.write(&start[..end]);
    hasher.write(rest);
    hasher.finish()
}

/// Changes the length field of a packet; its header must be unchanged since `header` was parsed.
fn set_len(packet: &mut [u8], header: &Header, len: u16) {
    if header.is_v4() {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        rewrite_v4_checksum(&mut packet[..header.len]);
    } else {
        packet[4..6].copy_from_slice(&len.saturating_sub(V6_HEADER).to_be_bytes());
    }
}

/// Keyed BLAKE2s of the concatenated `parts`; shorter secrets are the first octets of the digest.
fn keyed<const N: usize>(key: &[u8; KEY], parts: &[&[u8]]) -> [u8; N] {
    const { assert!(N <= DIGEST) };
    let mac = parts.iter().fold(blake2s(key), |mac, part| mac.chain_update(part));
    let digest: [u8; DIGEST] = mac.finalize().into_bytes().into();
    std::array::from_fn(|at| digest[at])
}

fn blake2s(key: &[u8; KEY]) -> Blake2sMac256 {
    <Blake2sMac256 as KeyInit>::new(key.into())
}

#[cfg(test)]
mod tests;
