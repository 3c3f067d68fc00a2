//! TCP segments (RFC 9293, 3.1).
//!
//! ```text
//!      0       2       4          8           12      13     14      16        18      20
//!      +-------+-------+----------+-----------+-------+------+-------+---------+-------+-------- - -
//!      |source |dest   | sequence | acknowl.  |offset | flags| window| checksum| urgent| options,
//!      |port   |port   |          |           |       |      |       |         |       | payload
//!      +-------+-------+----------+-----------+-------+------+-------+---------+-------+-------- - -
//!
//!      options: 0 end | 1 nothing | 2,4 MSS | 3,3 window scale | 4,2 SACK permitted
//!               5,8n+2 SACK blocks | 8,10 timestamps
//! ```

use std::net::SocketAddr;
use std::ops::BitOr;

use crate::ip::{self, ecn, protocol, pseudo_header};

/// Octets of a header without options.
pub const HEADER: usize = 20;
/// Octets that options can take.
pub const MAX_OPTIONS: usize = 40;
/// SACK blocks that fit the options of a segment (RFC 2018, 3).
pub const MAX_SACK_BLOCKS: usize = 4;

const KIND_END: u8 = 0;
const KIND_NOTHING: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;

/// Octets of a segment's header with options, according to its fixed header; the field may claim less than a header, or
/// more than the segment contains.
#[must_use]
pub fn header_len(fixed: &[u8; HEADER]) -> usize {
    usize::from(fixed[12] >> 4) * 4
}

/// The control bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push to the application.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168, 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168, 6.1).
    pub const CWR: Self = Self(0x80);

    /// Whether all of `other` are set.
    #[must_use]
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These with `other` set when `wanted`.
    #[must_use]
    pub const fn with(self, other: Self, wanted: bool) -> Self {
        if wanted { Self(self.0 | other.0) } else { self }
    }

    /// These without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The timestamps option (RFC 7323, 3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The receiver's clock, returned; counts when ACK is set.
    pub echo: u32,
}

/// The blocks of a SACK option: each from its first octet to the octet after its last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [(u32, u32); MAX_SACK_BLOCKS],
    len: u8,
}

impl SackBlocks {
    /// Adds a block; a fifth is left out.
    pub fn push(&mut self, from: u32, to: u32) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.len)) {
            *place = (from, to);
            self.len += 1;
        }
    }

    /// The blocks, the one that the receiver put first at the front.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// The options that we know; others are skipped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The longest payload accepted by the segment's sender, in octets (RFC 9293, 3.7.1).
    pub mss: Option<u16>,
    /// Bits by which the window field is shifted (RFC 7323, 2).
    pub window_scale: Option<u8>,
    /// SACK may be used (RFC 2018, 2).
    pub sack_permitted: bool,
    /// Clocks.
    pub timestamps: Option<Timestamps>,
    /// What arrived above the acknowledgement number.
    pub sack: SackBlocks,
}

/// A segment with the addresses from its IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for; of the same IP version.
    pub destination: SocketAddr,
    /// The sequence number of the first octet, or of SYN.
    pub seq: u32,
    /// The next octet expected; counts when ACK is set.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not yet scaled.
    pub window: u16,
    /// The urgent pointer; counts when URG is set.
    pub urgent: u16,
    /// Options.
    pub options: Options,
    /// What it carries.
    pub payload: &'a [u8],
    /// IP: hops left.
    pub ttl: u8,
    /// IP: DSCP and ECN.
    pub traffic_class: u8,
    /// IPv4: routers may not fragment it.
    pub dont_fragment: bool,
}

/// Why the payload of an IP packet is not a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The checksum does not match.
    #[error("wrong TCP checksum")]
    Checksum,
    /// The data offset is below 5 words or beyond the packet.
    #[error("data offset of {0} octets does not fit")]
    Offset(usize),
    /// An option has a length wrong for its kind, or extends beyond the header.
    #[error("option kind {kind} with a length of {len}")]
    Option {
        /// Its kind.
        kind: u8,
        /// What it claims.
        len: u8,
    },
    /// There are too few octets for a header.
    #[error("{have} octets are too few for a TCP header")]
    Truncated {
        /// What is there.
        have: usize,
    },
}

impl<'a> Segment<'a> {
    /// A segment without flags, options and payload, in a packet that may not be fragmented.
    #[must_use]
    pub fn bare(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            source,
            destination,
            seq: 0,
            ack: 0,
            flags: Flags::default(),
            window: 0,
            urgent: 0,
            options: Options::default(),
            payload: &[],
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
        }
    }

    /// Reads the segment that starts at `offset` of an IP packet and ends with it.
    ///
    /// # Errors
    /// When it is cut or damaged.
    pub fn parse(header: &ip::Header, packet: &'a [u8], offset: usize) -> Result<Self, Malformed> {
        let octets = packet.get(offset..header.total_len).unwrap_or_default();
        let Some(fixed) = octets.first_chunk::<HEADER>() else {
            return Err(Malformed::Truncated { have: octets.len() });
        };
        let len = header_len(fixed);
        if len < HEADER || len > octets.len() {
            return Err(Malformed::Offset(len));
        }
        let (source, destination) = (header.source, header.destination);
        if pseudo_header(source, destination, protocol::TCP, octets.len()).with(octets).finish()
            != 0
        {
            return Err(Malformed::Checksum);
        }

        Ok(Self {
            source: SocketAddr::new(source, u16_at(fixed, 0)),
            destination: SocketAddr::new(destination, u16_at(fixed, 2)),
            seq: u32_at(fixed, 4),
            ack: u32_at(fixed, 8),
            flags: Flags(fixed[13]),
            window: u16_at(fixed, 14),
            urgent: u16_at(fixed, 18),
            options: Options::parse(&octets[HEADER..len])?,
            payload: &octets[len..],
            ttl: header.ttl,
            traffic_class: header.traffic_class,
            dont_fragment: header.dont_fragment,
        })
    }

    /// Appends the segment as a whole IP packet.
    ///
    /// # Panics
    /// When the payload is longer than a packet can carry.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_with(self.payload.len(), out, |out| out.extend_from_slice(self.payload));
    }

    /// Like `emit`, except that `fill` appends `payload_len` octets instead of `payload`.
    pub fn emit_with(
        &self,
        payload_len: usize,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let (options, options_len) = self.options.emit();
        let header_len = HEADER + options_len;
        let len = header_len + payload_len;
        ip::Spec {
            ttl: self.ttl,
            traffic_class: self.traffic_class,
            dont_fragment: self.dont_fragment,
            ..ip::Spec::new(self.source.ip(), self.destination.ip(), protocol::TCP)
        }
        .emit(len, out);

        let start = out.len();
        let mut header = [0; HEADER];
        header[0..2].copy_from_slice(&self.source.port().to_be_bytes());
        header[2..4].copy_from_slice(&self.destination.port().to_be_bytes());
        header[4..8].copy_from_slice(&self.seq.to_be_bytes());
        header[8..12].copy_from_slice(&self.ack.to_be_bytes());
        header[12] = u8::try_from(header_len / 4).expect("at most 60 octets") << 4;
        header[13] = self.flags.0;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(&options[..options_len]);
        fill(out);
        debug_assert_eq!(out.len() - start, len, "the payload has the length announced");

        let sum = pseudo_header(self.source.ip(), self.destination.ip(), protocol::TCP, len);
        let sum = sum.with(&out[start..]).finish();
        out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }

    /// The reset to answer a segment without a connection (RFC 9293, 3.10.7.1).
    ///
    /// A reset is never answered.
    #[must_use]
    pub fn reset_for(&self) -> Option<Segment<'static>> {
        if self.flags.has(Flags::RST) {
            return None;
        }
        let (seq, ack, flags) = if self.flags.has(Flags::ACK) {
            (self.ack, 0, Flags::RST)
        } else {
            (0, self.seq.wrapping_add(self.len()), Flags::RST | Flags::ACK)
        };
        Some(Segment { seq, ack, flags, ..Segment::bare(self.destination, self.source) })
    }

    /// The length in sequence space: payload, SYN and FIN.
    #[must_use]
    pub fn len(&self) -> u32 {
        let payload = u32::try_from(self.payload.len()).expect("below the packet's length");
        payload + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// Whether the segment occupies no sequence space.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a router marked it (RFC 3168, 5).
    #[must_use]
    pub fn is_congestion_marked(&self) -> bool {
        self.traffic_class & ecn::CE == ecn::CE
    }
}

impl Options {
    /// Reads the options between the fixed header and the payload.
    ///
    /// # Errors
    /// When a length does not fit.
    pub fn parse(mut octets: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        while let [kind, rest @ ..] = octets {
            let kind = *kind;
            if kind == KIND_END {
                break;
            }
            if kind == KIND_NOTHING {
                octets = rest;
                continue;
            }
            let &[len, ..] = rest else { return Err(Malformed::Option { kind, len: 0 }) };
            let malformed = Malformed::Option { kind, len };
            let Some(body) = octets.get(2..usize::from(len)) else { return Err(malformed) };
            options.read(kind, body).ok_or(malformed)?;
            octets = &octets[usize::from(len)..];
        }
        Ok(options)
    }

    fn read(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            KIND_MSS => self.mss = Some(u16::from_be_bytes(body.try_into().ok()?)),
            KIND_WINDOW_SCALE => {
                let &[shift] = body else { return None };
                self.window_scale = Some(shift);
            }
            KIND_SACK_PERMITTED if body.is_empty() => self.sack_permitted = true,
            KIND_SACK_PERMITTED => return None,
            KIND_SACK => {
                let (blocks, rest) = body.as_chunks::<8>();
                if !rest.is_empty() {
                    return None;
                }
                for block in blocks {
                    self.sack.push(u32_at(block, 0), u32_at(block, 4));
                }
            }
            KIND_TIMESTAMPS => {
                let body: &[u8; 8] = body.try_into().ok()?;
                self.timestamps =
                    Some(Timestamps { value: u32_at(body, 0), echo: u32_at(body, 4) });
            }
            _ => {}
        }
        Some(())
    }

    /// The options, padded to whole words, and how many octets they take.
    #[must_use]
    pub fn emit(&self) -> ([u8; MAX_OPTIONS], usize) {
        let mut octets = [0; MAX_OPTIONS];
        let mut len = 0;
        let mut put = |option: &[u8]| {
            octets[len..len + option.len()].copy_from_slice(option);
            len += option.len();
        };
        if let Some(mss) = self.mss {
            let [hi, lo] = mss.to_be_bytes();
            put(&[KIND_MSS, 4, hi, lo]);
        }
        if let Some(shift) = self.window_scale {
            put(&[KIND_NOTHING, KIND_WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            put(&[KIND_NOTHING, KIND_NOTHING, KIND_SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            put(&[KIND_NOTHING, KIND_NOTHING, KIND_TIMESTAMPS, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        let blocks = self.sack.as_slice();
        let blocks = &blocks[..blocks.len().min(self.sack_room())];
        if !blocks.is_empty() {
            let octets = u8::try_from(blocks.len() * 8 + 2).expect("at most 34");
            put(&[KIND_NOTHING, KIND_NOTHING, KIND_SACK, octets]);
            for (from, to) in blocks {
                put(&from.to_be_bytes());
                put(&to.to_be_bytes());
            }
        }
        (octets, len)
    }

    /// Octets that `emit` gives.
    #[must_use]
    pub fn emitted_len(&self) -> usize {
        let blocks = self.sack.as_slice().len().min(self.sack_room());
        self.len_without_sack() + if blocks == 0 { 0 } else { 4 + 8 * blocks }
    }

    fn len_without_sack(&self) -> usize {
        4 * usize::from(self.mss.is_some())
            + 4 * usize::from(self.window_scale.is_some())
            + 4 * usize::from(self.sack_permitted)
            + 12 * usize::from(self.timestamps.is_some())
    }

    /// SACK blocks that the other options leave room for.
    fn sack_room(&self) -> usize {
        (MAX_OPTIONS - self.len_without_sack()).saturating_sub(4) / 8
    }
}

fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}
