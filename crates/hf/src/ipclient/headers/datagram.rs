//! Datagrams with compressed headers.
//!
//! ```text
//!   bits  2    1        2      0, 8      2, 10   1, 9         1, 18
//!       +----+--------+------+----------+------+-------+----------------+
//!       | 11 | IPv6   | kind | protocol | TTL  | class | ident (IPv4),  |
//!       |    |        |      | if other |      |       | label (IPv6)   |
//!       +----+--------+------+----------+------+-------+----------------+
//!         1..36 or 1..134 each    0 to some             8 to 15
//!       +--------+-------------+-----------+-------------------------+------ - -
//!       | source | destination | transport | check, fills the octet  | payload
//!       +--------+-------------+-----------+-------------------------+------ - -
//! ```
//!
//! Left out is what follows from the rest: lengths, checksums, and values that are usual. The check is over
//! the restored datagram and the tables of both ends.

use std::hash::Hasher as _;
use std::net::{IpAddr, Ipv4Addr};

use base::ip::{
    Checksum, Header, Spec, V4_HEADER, V6_HEADER, protocol, pseudo_header, rewrite_v4_checksum,
};
use siphasher::sip::SipHasher24;

use super::coder::{Coder, Cut, Reader, Writer};
use super::table::{self, Table};

/// The first bits.
const MARK: u8 = 0b11;
/// Bits of the check, and as many more as the octet has left.
const CHECK_BITS: u32 = 8;
/// Octets of a UDP header.
const UDP: usize = base::ip::udp::HEADER;
/// Octets of a TCP header without options.
const TCP: usize = 20;
/// Octets of the ICMP header common to all messages, and of an echo's header.
const ICMP: usize = 4;
const ECHO: usize = 8;

/// Usual times to live: from hosts that are gateways, and from one hop behind gateways.
const TTLS: [u32; 3] = [64, 63, 127];
/// Flags that are usual: ACK, PSH ACK, FIN ACK.
const FLAGS: [u32; 3] = [0x10, 0x18, 0x11];
const FLAG_ACK: u32 = 0x10;
const FLAG_URG: u32 = 0x20;
/// Don't fragment, before an identification.
const ATOMIC: u32 = 0x1_0000;
/// No operation, no operation, timestamps (RFC 7323, appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMPS_LEN: usize = 12;
/// The most words of options.
const OPTION_WORDS: u32 = 4;
/// Client ports begin at `HIGH`; ports of known services have `LOW_BITS` bits.
const HIGH: u16 = 0x8000;
const HIGH_BITS: u32 = 15;
const LOW_BITS: u32 = 10;

/// What both ends know of each other, for datagrams in one direction.
#[derive(Debug)]
pub struct Context<'a> {
    /// The networks behind the receiver, as the sender routes them.
    destinations: &'a Table,
    /// The networks behind the sender, as the receiver routes them.
    sources: &'a Table,
    key: (u64, u64),
}

/// Why a datagram could not be restored.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Undone {
    /// It was compressed with other tables, or is damaged.
    #[error("the check is wrong")]
    Check,
    /// It would be longer than a datagram can be.
    #[error("it is too long")]
    TooLong,
    /// Nothing is agreed with the sender.
    #[error("nothing is agreed with its sender")]
    Unknown,
    /// It ends within its headers, or names a network that is in no table.
    #[error("its headers cannot be read")]
    Unreadable,
}

/// Header fields of a datagram that do not follow from its length.
#[derive(Clone, Debug)]
struct Fields {
    is_v4: bool,
    protocol: u8,
    ttl: u32,
    class: u32,
    /// Don't fragment and identification of IPv4, or the flow label of IPv6.
    label: u32,
    source: IpAddr,
    destination: IpAddr,
    transport: Transport,
}

/// What of a transport's header does not follow from the rest.
#[derive(Clone, Debug)]
enum Transport {
    /// An echo has an identifier and a sequence number, and no code.
    Icmp {
        kind: u8,
        code: u8,
        echo: Option<(u16, u16)>,
    },
    /// As it is.
    Other,
    Tcp {
        ports: [u16; 2],
        seq: u32,
        ack: u32,
        flags: u32,
        window: u16,
        urgent: u16,
        options: Vec<u8>,
    },
    Udp {
        ports: [u16; 2],
        has_checksum: bool,
    },
}

impl<'a> Context<'a> {
    /// With the networks behind the receiver as the sender routes them, and the other way round.
    #[must_use]
    pub fn new(destinations: &'a Table, sources: &'a Table) -> Self {
        Self { destinations, sources, key: table::key(&[destinations, sources]) }
    }

    /// Whether a U_PDU with this first half octet is a compressed datagram.
    #[must_use]
    pub fn is_compressed(first: u8) -> bool {
        first >> 2 == MARK
    }

    /// The compressed form of a datagram, if there is a shorter one. [`Self::restore`] returns the same datagram but
    /// for the identification of an atomic IPv4 datagram of UDP, TCP or ICMP, which becomes 0 (RFC 6864, 4.1).
    #[must_use]
    pub fn compress(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let header = Header::parse(packet).ok()?;
        // A fragment header of IPv6 is carried as payload.
        let is_cut = header.is_v4() && header.fragment.is_some();
        if is_cut || header.total_len != packet.len() {
            return None;
        }
        let packet = without_ident(&header, packet.to_vec());
        // A datagram with an unusual or wrong transport header keeps that header unchanged.
        [true, false].into_iter().find_map(|knows_transport| {
            let (fields, payload) = Fields::of(&header, &packet, knows_transport)?;
            let out = self.emit(&fields, &packet, payload)?;
            let is_same = self.restore(&out).is_ok_and(|restored| restored == packet);
            (is_same && out.len() < packet.len()).then_some(out)
        })
    }

    fn emit(&self, fields: &Fields, packet: &[u8], payload: usize) -> Option<Vec<u8>> {
        let mut writer = Writer::default();
        writer.octet(MARK, 2).ok()?;
        self.code(&mut writer, fields).ok()?;
        let width = CHECK_BITS + writer.free();
        writer.bits(self.check(packet, width), width).ok()?;
        let mut out = writer.into_octets();
        out.extend_from_slice(&packet[payload..]);
        Some(out)
    }

    /// The datagram whose compressed form fills `octets`.
    ///
    /// # Errors
    /// When there is none, or it was compressed with other tables.
    pub fn restore(&self, octets: &[u8]) -> Result<Vec<u8>, Undone> {
        let mut reader = Reader::new(octets);
        let (fields, width, check) = self.read(&mut reader).map_err(|_: Cut| Undone::Unreadable)?;
        let packet = fields.restore(reader.rest()).ok_or(Undone::TooLong)?;
        if self.check(&packet, width) == check { Ok(packet) } else { Err(Undone::Check) }
    }

    /// The fields, and the check in so many bits.
    fn read(&self, reader: &mut Reader<'_>) -> Result<(Fields, u32, u128), Cut> {
        if reader.octet(0, 2)? != MARK {
            return Err(Cut);
        }
        let fields = self.code(reader, &Fields::UNKNOWN)?;
        let width = CHECK_BITS + reader.free();
        Ok((fields, width, reader.bits(0, width)?))
    }

    /// The first bits of a hash over the tables and the datagram.
    fn check(&self, packet: &[u8], width: u32) -> u128 {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hasher.write(packet);
        u128::from(hasher.finish() >> (u64::BITS - width))
    }

    /// Writes the given fields, or reads them, in the order of the format.
    fn code(&self, coder: &mut impl Coder, it: &Fields) -> Result<Fields, Cut> {
        let is_v4 = !coder.flag(!it.is_v4)?;
        let icmp = if is_v4 { protocol::ICMP } else { protocol::ICMPV6 };
        let known = [protocol::UDP, protocol::TCP, icmp];
        let kind = match it.transport {
            Transport::Udp { .. } => 0,
            Transport::Tcp { .. } => 1,
            Transport::Icmp { .. } => 2,
            Transport::Other => known.len(),
        };
        let kind = coder.small(kind, 2)?;
        let protocol = match known.get(kind) {
            Some(protocol) => *protocol,
            None => coder.octet(it.protocol, 8)?,
        };
        let ttl = coder.one_of(&TTLS, it.ttl, 8)?;
        let class = coder.one_of(&[0], it.class, 8)?;
        let label = match is_v4 {
            true => coder.one_of(&[ATOMIC], it.label, 17)?,
            false => coder.one_of(&[0], it.label, 20)?,
        };
        let source = self.sources.code(coder, is_v4, it.source)?;
        let destination = self.destinations.code(coder, is_v4, it.destination)?;
        let transport = match kind {
            0 => it.transport.code_udp(coder)?,
            1 => it.transport.code_tcp(coder)?,
            2 => it.transport.code_icmp(coder, echoes(is_v4))?,
            _ => Transport::Other,
        };
        Ok(Fields { is_v4, protocol, ttl, class, label, source, destination, transport })
    }
}

impl Transport {
    fn code_udp(&self, coder: &mut impl Coder) -> Result<Self, Cut> {
        let (ports, has_checksum) = match self {
            Self::Udp { ports, has_checksum } => (*ports, *has_checksum),
            Self::Icmp { .. } | Self::Other | Self::Tcp { .. } => ([0; 2], false),
        };
        let ports = code_ports(coder, ports)?;
        Ok(Self::Udp { ports, has_checksum: coder.flag(has_checksum)? })
    }

    fn code_tcp(&self, coder: &mut impl Coder) -> Result<Self, Cut> {
        let unknown = ([0; 2], 0, 0, 0, 0, 0, &Vec::new());
        let (ports, seq, ack, flags, window, urgent, options) = match self {
            Self::Tcp { ports, seq, ack, flags, window, urgent, options } => {
                (*ports, *seq, *ack, *flags, *window, *urgent, options)
            }
            Self::Icmp { .. } | Self::Other | Self::Udp { .. } => unknown,
        };
        let ports = code_ports(coder, ports)?;
        let seq = coder.number(seq, 32)?;
        let flags = coder.one_of(&FLAGS, flags, 12)?;
        let ack = if flags & FLAG_ACK != 0 { coder.number(ack, 32)? } else { 0 };
        let window = coder.word(window, 16)?;
        let urgent = if flags & FLAG_URG != 0 { coder.word(urgent, 16)? } else { 0 };
        let options = code_options(coder, options)?;
        Ok(Self::Tcp { ports, seq, ack, flags, window, urgent, options })
    }

    fn code_icmp(&self, coder: &mut impl Coder, echoes: [u32; 2]) -> Result<Self, Cut> {
        let (kind, code, echo) = match self {
            Self::Icmp { kind, code, echo } => (*kind, *code, *echo),
            Self::Other | Self::Tcp { .. } | Self::Udp { .. } => (0, 0, None),
        };
        let kind = coder.one_of(&echoes, kind.into(), 8)?;
        let is_echo = echoes.contains(&kind);
        let kind = u8::try_from(kind).map_err(|_| Cut)?;
        if !is_echo {
            return Ok(Self::Icmp { kind, code: coder.octet(code, 8)?, echo: None });
        }
        let (ident, seq) = echo.unwrap_or_default();
        let ident = coder.word(ident, 16)?;
        let width = if coder.flag(seq < 256)? { 8 } else { 16 };
        Ok(Self::Icmp { kind, code: 0, echo: Some((ident, coder.word(seq, width)?)) })
    }
}

/// Both ports: the same twice, one of a client and one of a known service, or any.
fn code_ports(coder: &mut impl Coder, [source, destination]: [u16; 2]) -> Result<[u16; 2], Cut> {
    let is_low = |port: u16| port < 1 << LOW_BITS;
    let form = match (source >= HIGH, destination >= HIGH) {
        _ if source == destination => 0,
        (true, _) if is_low(destination) => 1,
        (_, true) if is_low(source) => 2,
        _ => 3,
    };
    match coder.small(form, 2)? {
        0 => Ok([coder.word(source, 16)?; 2]),
        1 => {
            Ok([HIGH | coder.word(source & !HIGH, HIGH_BITS)?, coder.word(destination, LOW_BITS)?])
        }
        2 => {
            let low = coder.word(source, LOW_BITS)?;
            Ok([low, HIGH | coder.word(destination & !HIGH, HIGH_BITS)?])
        }
        _ => Ok([coder.word(source, 16)?, coder.word(destination, 16)?]),
    }
}

/// The options of TCP: none, timestamps alone, or any.
fn code_options(coder: &mut impl Coder, options: &[u8]) -> Result<Vec<u8>, Cut> {
    let has_timestamps = options.starts_with(&TIMESTAMPS) && options.len() == TIMESTAMPS_LEN;
    if coder.flag(options.is_empty())? {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    let rest = if coder.flag(has_timestamps)? {
        out.extend_from_slice(&TIMESTAMPS);
        TIMESTAMPS_LEN - TIMESTAMPS.len()
    } else {
        coder.small(options.len() / 4, OPTION_WORDS)? * 4
    };
    let from = out.len();
    for place in from..from + rest {
        out.push(coder.octet(options.get(place).copied().unwrap_or_default(), 8)?);
    }
    Ok(out)
}

/// The types of an echo request and its answer.
fn echoes(is_v4: bool) -> [u32; 2] {
    if is_v4 { [8, 0] } else { [128, 129] }
}

impl Fields {
    /// What a reader starts from.
    const UNKNOWN: Self = Self {
        is_v4: true,
        protocol: 0,
        ttl: 0,
        class: 0,
        label: 0,
        source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        transport: Transport::Other,
    };

    /// The fields of a datagram, and where its payload begins.
    fn of(header: &Header, packet: &[u8], knows_transport: bool) -> Option<(Self, usize)> {
        let is_v4 = header.is_v4();
        let (transport, payload) = match knows_transport {
            true => transport(header, &packet[header.len..])?,
            false => (Transport::Other, 0),
        };
        let label = match packet {
            [_, _, _, _, high, low, ..] if is_v4 => {
                let ident = u32::from(u16::from_be_bytes([*high, *low]));
                ident + u32::from(header.dont_fragment) * ATOMIC
            }
            [_, high, mid, low, ..] => u32::from_be_bytes([0, high & 0x0f, *mid, *low]),
            _ => return None,
        };
        let fields = Self {
            is_v4,
            protocol: header.protocol,
            ttl: header.ttl.into(),
            class: header.traffic_class.into(),
            label,
            source: header.source,
            destination: header.destination,
            transport,
        };
        Some((fields, header.len + payload))
    }

    /// The datagram with this payload; `None` if it would be too long.
    fn restore(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut transport = Vec::new();
        let checksum = self.transport.emit(payload.len(), &mut transport);
        let len = transport.len() + payload.len();
        if V4_HEADER.max(V6_HEADER) + len > usize::from(u16::MAX) {
            return None;
        }
        let narrow = |value: u32| u8::try_from(value).unwrap_or(u8::MAX);
        let spec = Spec {
            protocol: self.protocol,
            ttl: narrow(self.ttl),
            traffic_class: narrow(self.class),
            dont_fragment: self.label & ATOMIC != 0,
            ident: u16::try_from(self.label & (ATOMIC - 1)).unwrap_or_default(),
            ..Spec::new(self.source, self.destination, self.protocol)
        };
        let mut packet = Vec::with_capacity(spec.header_len() + len);
        spec.emit(len, &mut packet);
        if !self.is_v4 {
            let label = self.label.to_be_bytes();
            packet[1] |= label[1] & 0x0f;
            packet[2..4].copy_from_slice(&label[2..]);
        }
        let start = packet.len();
        packet.extend_from_slice(&transport);
        packet.extend_from_slice(payload);
        if let Some(place) = checksum {
            let sum = match self.protocol {
                protocol::ICMP => Checksum::default(),
                number => pseudo_header(self.source, self.destination, number, len),
            };
            let sum = match sum.with(&packet[start..]).finish() {
                // RFC 768: zero would mean that there is no checksum.
                0 if self.protocol == protocol::UDP => u16::MAX,
                sum => sum,
            };
            packet[start + place..start + place + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Some(packet)
    }
}

/// The transport of a datagram, and the octets of its header.
fn transport(header: &Header, octets: &[u8]) -> Option<(Transport, usize)> {
    let word = |place: usize| Some(u16::from_be_bytes(*octets.get(place..)?.first_chunk()?));
    let number = |place: usize| Some(u32::from_be_bytes(*octets.get(place..)?.first_chunk()?));
    match header.protocol {
        protocol::UDP => {
            let has_checksum = word(UDP - 2)? != 0;
            Some((Transport::Udp { ports: [word(0)?, word(2)?], has_checksum }, UDP))
        }
        protocol::TCP => {
            let len = usize::from(octets.get(12)? >> 4) * 4;
            let options = octets.get(TCP..len)?.to_vec();
            let transport = Transport::Tcp {
                ports: [word(0)?, word(2)?],
                seq: number(4)?,
                ack: number(8)?,
                flags: u32::from(word(12)? & 0x0fff),
                window: word(14)?,
                urgent: word(18)?,
                options,
            };
            Some((transport, len))
        }
        number if number == (if header.is_v4() { protocol::ICMP } else { protocol::ICMPV6 }) => {
            let &[kind, code, _, _] = octets.first_chunk::<ICMP>()?;
            if !echoes(header.is_v4()).contains(&kind.into()) {
                return Some((Transport::Icmp { kind, code, echo: None }, ICMP));
            }
            Some((Transport::Icmp { kind, code, echo: Some((word(4)?, word(6)?)) }, ECHO))
        }
        _ => None,
    }
}

impl Transport {
    /// Appends the header for a payload of this length; returns where the checksum belongs, if there is one.
    fn emit(&self, payload: usize, out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Icmp { kind, code, echo } => {
                out.extend_from_slice(&[*kind, *code, 0, 0]);
                if let Some((ident, seq)) = echo {
                    out.extend_from_slice(&ident.to_be_bytes());
                    out.extend_from_slice(&seq.to_be_bytes());
                }
                Some(2)
            }
            Self::Other => None,
            Self::Tcp { ports, seq, ack, flags, window, urgent, options } => {
                out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
                out.extend_from_slice(&seq.to_be_bytes());
                out.extend_from_slice(&ack.to_be_bytes());
                let words = u16::try_from((TCP + options.len()) / 4).unwrap_or_default();
                let flags = u16::try_from(*flags).unwrap_or_default();
                out.extend_from_slice(&(words << 12 | flags).to_be_bytes());
                out.extend_from_slice(&window.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&urgent.to_be_bytes());
                out.extend_from_slice(options);
                Some(16)
            }
            Self::Udp { ports, has_checksum } => {
                out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
                let len = u16::try_from(UDP + payload).unwrap_or(u16::MAX);
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                has_checksum.then_some(UDP - 2)
            }
        }
    }
}

/// A datagram that is never fragmented needs no identification (RFC 6864, 4.1). Unknown transports may protect the
/// identification (RFC 4302, 3.3.3.1.1).
fn without_ident(header: &Header, mut packet: Vec<u8>) -> Vec<u8> {
    let is_known = matches!(header.protocol, protocol::ICMP | protocol::TCP | protocol::UDP);
    if header.is_v4() && header.dont_fragment && is_known {
        packet[4..6].fill(0);
        rewrite_v4_checksum(&mut packet[..header.len]);
    }
    packet
}
