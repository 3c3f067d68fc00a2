//! Packets between a station and its modem (A.5.1.1).
//!
//! ```text
//!  octet 0      1      2      3      4      5      6      7      8 ...
//!      +------+------+------+------+-------------+-------------+------- - - -+-------------+
//!      |  49     50     55  | type |    size     | header CRC  |   payload   | payload CRC |
//!      +------+------+------+------+-------------+-------------+------- - - -+-------------+
//!      type 00 data, 01 CONNECT, 02 CONNECT ACK, ff ERROR        nothing of these if size = 0
//!
//!      payload of data: a command, then
//!      00 transfer    order, 12 octets of id, 0 to 4,072 octets     order 1 first, 2 only,
//!      01 arm                                                             3 more, 4 last
//!      02 start
//!      03 request status
//!      04 NAK         cause, id
//!      05 status      state, FIFO space, FIFO fill, critical ms, critical octets
//!      06 abort reception
//!      08 carrier     state, bit/s, bits of a block
//!      09 transmit    bit/s, bits of a block
//!      0a setup       round trip ms, least ms, most ms, sync, 4 octets for asynchronous use
//!      0b probe
//! ```
//!
//! Numbers are big-endian. The CRCs are those of the headers of STANAG 5066 with the high octet
//! first; each covers what stands before it, the second only the payload.

use crate::s5066::dts::crc;

/// The version of the protocol.
pub const VERSION: u8 = 12;
/// Octets of the longest payload.
pub const MAX_PAYLOAD: usize = 4_086;
/// Octets of the longest data in a transfer.
pub const MAX_DATA: usize = 4_072;

const PREAMBLE: [u8; 3] = [0x49, 0x50, 0x55];
const HEADER: usize = 8;
const CRC: usize = 2;
const TYPE_DATA: u8 = 0x00;
const TYPE_CONNECT: u8 = 0x01;
const TYPE_CONNECT_ACK: u8 = 0x02;
const TYPE_ERROR: u8 = 0xff;

const TRANSFER: u8 = 0x00;
const ARM: u8 = 0x01;
const START: u8 = 0x02;
const REQUEST_STATUS: u8 = 0x03;
const NAK: u8 = 0x04;
const STATUS: u8 = 0x05;
const ABORT_RECEPTION: u8 = 0x06;
const CARRIER: u8 = 0x08;
const TRANSMIT_SETUP: u8 = 0x09;
const INITIAL_SETUP: u8 = 0x0a;
const PROBE: u8 = 0x0b;

/// The name of a transfer.
pub type Id = [u8; 12];

/// A packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Packet<'a> {
    /// From the station: forget what is being received.
    AbortReception,
    /// From the station: get ready to transmit.
    Arm,
    /// From the modem: whether something is received, at which rate and block size in bits.
    Carrier {
        /// Whether there is a carrier.
        is_on: bool,
        /// Bits a second, 0 without a carrier.
        bits_per_s: u32,
        /// Bits of a block, 0 without a carrier.
        block_bits: u32,
    },
    /// The first packet of both.
    Connect {
        /// 12.
        version: u8,
    },
    /// The answer to it.
    ConnectAck {
        /// 12.
        version: u8,
    },
    /// The other end has made a mistake; the session is over.
    Error,
    /// From the modem: what it is set up for.
    InitialSetup(Setup),
    /// Nothing to say.
    KeepAlive,
    /// From the modem: a transfer was not taken.
    Nak {
        /// Why.
        cause: Cause,
        /// Which.
        id: Id,
    },
    /// From the modem, and back.
    Probe,
    /// From the station: tell your status.
    RequestStatus,
    /// From the station: transmit.
    Start,
    /// From the modem: what its transmitter does.
    Status(Status),
    /// Octets for the air or from it.
    Transfer {
        /// Where in the transmission they stand.
        order: Order,
        /// Their name in a NAK.
        id: Id,
        /// The octets, at most [`MAX_DATA`].
        octets: &'a [u8],
    },
    /// From the modem: rate and block size in bits of transmissions.
    TransmitSetup {
        /// Bits a second.
        bits_per_s: u32,
        /// Bits of a block.
        block_bits: u32,
    },
}

/// Where a transfer stands in a transmission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// More follow.
    First,
    /// No other.
    Only,
    /// Others before and after.
    Continuation,
    /// Nothing follows.
    Last,
}

/// Why a transfer was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The modem was not told to arm.
    NotArmed,
    /// The modem had nothing left to send and ended the transmission.
    Underrun,
    /// No first one came before.
    NoFirst,
    /// A first one came before.
    SecondFirst,
}

/// What a transmitter does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Nothing.
    Flushed,
    /// It takes octets, but cannot start now.
    ArmedNotReady,
    /// It takes octets and can start.
    ArmedReady,
    /// It transmits.
    Started,
    /// It transmits its last octets.
    Draining,
    /// It transmits its last octets, because no others came in time.
    DrainingForced,
}

/// The status of a transmitter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// What it does.
    pub state: State,
    /// Octets that it can take.
    pub space: u32,
    /// Octets that it has.
    pub fill: u32,
    /// Milliseconds until it has to end for want of octets.
    pub critical_ms: u32,
    /// Octets that it needs by then; 0 if it needs none.
    pub critical_octets: u32,
}

/// What a modem is set up for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setup {
    /// What the probe took, in milliseconds.
    pub round_trip_ms: u32,
    /// The least delay of the connection that is reckoned with, in milliseconds.
    pub least_ms: u32,
    /// The greatest delay that is allowed, in milliseconds.
    pub most_ms: u32,
    /// Whether octets go on the air as they are, one after the other without a gap.
    pub is_synchronous: bool,
    /// Data bits, stop bits, parity and mode where they do not.
    pub asynchronous: [u8; 4],
}

/// What stands at the head of a stream of octets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// Not a whole packet.
    Nothing,
    /// Octets that belong to no packet.
    Noise(usize),
    /// A packet of this many octets whose payload is damaged.
    Damaged(usize),
    /// A packet of this many octets that says nothing that is allowed.
    Wrong(usize),
    /// A packet and its octets.
    Packet(usize, Packet<'a>),
}

/// Looks for a packet at the head of `octets`.
#[must_use]
pub fn scan(octets: &[u8]) -> Found<'_> {
    let known = octets.iter().zip(PREAMBLE).take_while(|(octet, known)| *octet == known).count();
    if known < octets.len().min(PREAMBLE.len()) {
        return Found::Noise(noise(octets));
    }
    let Some((header, rest)) = octets.split_first_chunk::<HEADER>() else { return Found::Nothing };
    let [covered @ .., high, low] = header;
    let size = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if u16::from_be_bytes([*high, *low]) != crc::header(covered) || size > MAX_PAYLOAD {
        return Found::Noise(noise(octets));
    }
    if size == 0 {
        return found(HEADER, Packet::parse(header[3], &[]));
    }
    let Some((payload, rest)) = rest.split_at_checked(size) else { return Found::Nothing };
    let Some(&[high, low]) = rest.first_chunk() else { return Found::Nothing };
    let len = HEADER + size + CRC;
    if u16::from_be_bytes([high, low]) != crc::header(payload) {
        return Found::Damaged(len);
    }
    found(len, Packet::parse(header[3], payload))
}

fn found(len: usize, packet: Option<Packet<'_>>) -> Found<'_> {
    packet.map_or(Found::Wrong(len), |packet| Found::Packet(len, packet))
}

/// Octets before the next one that may begin a packet.
fn noise(octets: &[u8]) -> usize {
    let next = octets.iter().skip(1).position(|octet| *octet == PREAMBLE[0]);
    next.map_or(octets.len(), |next| next + 1)
}

impl<'a> Packet<'a> {
    fn parse(kind: u8, payload: &'a [u8]) -> Option<Self> {
        match (kind, payload) {
            (TYPE_CONNECT, &[version]) => Some(Self::Connect { version }),
            (TYPE_CONNECT_ACK, &[version]) => Some(Self::ConnectAck { version }),
            (TYPE_ERROR, _) => Some(Self::Error),
            (TYPE_DATA, []) => Some(Self::KeepAlive),
            (TYPE_DATA, [command, arguments @ ..]) => Self::parse_command(*command, arguments),
            _ => None,
        }
    }

    fn parse_command(command: u8, arguments: &'a [u8]) -> Option<Self> {
        match (command, arguments) {
            (TRANSFER, [order, rest @ ..]) => {
                let (id, octets) = rest.split_first_chunk()?;
                Some(Self::Transfer { order: Order::parse(*order)?, id: *id, octets })
            }
            (ARM, []) => Some(Self::Arm),
            (START, []) => Some(Self::Start),
            (REQUEST_STATUS, []) => Some(Self::RequestStatus),
            (NAK, [cause, id @ ..]) => {
                Some(Self::Nak { cause: Cause::parse(*cause)?, id: id.try_into().ok()? })
            }
            (STATUS, [state, numbers @ ..]) => {
                let [space, fill, critical_ms, critical_octets] = words(numbers)?;
                let state = State::parse(*state)?;
                Some(Self::Status(Status { state, space, fill, critical_ms, critical_octets }))
            }
            (ABORT_RECEPTION, []) => Some(Self::AbortReception),
            (CARRIER, [state @ 0..=1, numbers @ ..]) => {
                let [bits_per_s, block_bits] = words(numbers)?;
                Some(Self::Carrier { is_on: *state == 1, bits_per_s, block_bits })
            }
            (TRANSMIT_SETUP, numbers) => {
                let [bits_per_s, block_bits] = words(numbers)?;
                Some(Self::TransmitSetup { bits_per_s, block_bits })
            }
            (INITIAL_SETUP, [numbers @ .., sync @ 0..=1, a, b, c, d]) => {
                let [round_trip_ms, least_ms, most_ms] = words(numbers)?;
                Some(Self::InitialSetup(Setup {
                    round_trip_ms,
                    least_ms,
                    most_ms,
                    is_synchronous: *sync == 1,
                    asynchronous: [*a, *b, *c, *d],
                }))
            }
            (PROBE, []) => Some(Self::Probe),
            _ => None,
        }
    }

    /// Appends the packet.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&PREAMBLE);
        out.extend_from_slice(&[self.kind(), 0, 0, 0, 0]);
        self.emit_payload(out);
        let size = out.len() - start - HEADER;
        let len = u16::try_from(size).expect("at most 4,086 octets").to_be_bytes();
        out[start + 4..start + 6].copy_from_slice(&len);
        let check = crc::header(&out[start..start + 6]).to_be_bytes();
        out[start + 6..start + HEADER].copy_from_slice(&check);
        if size > 0 {
            let check = crc::header(&out[start + HEADER..]).to_be_bytes();
            out.extend_from_slice(&check);
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Connect { .. } => TYPE_CONNECT,
            Self::ConnectAck { .. } => TYPE_CONNECT_ACK,
            Self::Error => TYPE_ERROR,
            Self::AbortReception
            | Self::Arm
            | Self::Carrier { .. }
            | Self::InitialSetup(_)
            | Self::KeepAlive
            | Self::Nak { .. }
            | Self::Probe
            | Self::RequestStatus
            | Self::Start
            | Self::Status(_)
            | Self::Transfer { .. }
            | Self::TransmitSetup { .. } => TYPE_DATA,
        }
    }

    fn emit_payload(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Connect { version } | Self::ConnectAck { version } => out.push(version),
            Self::Error | Self::KeepAlive => {}
            Self::AbortReception => out.push(ABORT_RECEPTION),
            Self::Arm => out.push(ARM),
            Self::Probe => out.push(PROBE),
            Self::RequestStatus => out.push(REQUEST_STATUS),
            Self::Start => out.push(START),
            Self::Carrier { is_on, bits_per_s, block_bits } => {
                out.extend_from_slice(&[CARRIER, is_on.into()]);
                emit_words(&[bits_per_s, block_bits], out);
            }
            Self::InitialSetup(setup) => {
                out.push(INITIAL_SETUP);
                emit_words(&[setup.round_trip_ms, setup.least_ms, setup.most_ms], out);
                out.push(setup.is_synchronous.into());
                out.extend_from_slice(&setup.asynchronous);
            }
            Self::Nak { cause, id } => {
                out.extend_from_slice(&[NAK, cause as u8]);
                out.extend_from_slice(&id);
            }
            Self::Status(status) => {
                out.extend_from_slice(&[STATUS, status.state as u8 + 1]);
                let Status { space, fill, critical_ms, critical_octets, .. } = status;
                emit_words(&[space, fill, critical_ms, critical_octets], out);
            }
            Self::Transfer { order, id, octets } => {
                out.extend_from_slice(&[TRANSFER, order as u8 + 1]);
                out.extend_from_slice(&id);
                out.extend_from_slice(octets);
            }
            Self::TransmitSetup { bits_per_s, block_bits } => {
                out.push(TRANSMIT_SETUP);
                emit_words(&[bits_per_s, block_bits], out);
            }
        }
    }
}

impl Order {
    fn parse(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::First),
            2 => Some(Self::Only),
            3 => Some(Self::Continuation),
            4 => Some(Self::Last),
            _ => None,
        }
    }
}

impl Cause {
    fn parse(octet: u8) -> Option<Self> {
        match octet {
            0 => Some(Self::NotArmed),
            1 => Some(Self::Underrun),
            2 => Some(Self::NoFirst),
            3 => Some(Self::SecondFirst),
            _ => None,
        }
    }
}

impl State {
    fn parse(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Flushed),
            2 => Some(Self::ArmedNotReady),
            3 => Some(Self::ArmedReady),
            4 => Some(Self::Started),
            5 => Some(Self::Draining),
            6 => Some(Self::DrainingForced),
            _ => None,
        }
    }
}

/// The numbers that fill `octets`.
fn words<const N: usize>(octets: &[u8]) -> Option<[u32; N]> {
    let (words, []) = octets.as_chunks::<4>() else { return None };
    let words: &[[u8; 4]; N] = words.try_into().ok()?;
    Some(words.map(u32::from_be_bytes))
}

fn emit_words(words: &[u32], out: &mut Vec<u8>) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_are_the_octets_of_the_standard() {
        let id = *b"abcdefghijkl";
        let cases = [
            (Packet::Connect { version: 12 }, "01 0001", "0c"),
            (Packet::ConnectAck { version: 12 }, "02 0001", "0c"),
            (Packet::Error, "ff 0000", ""),
            (Packet::KeepAlive, "00 0000", ""),
            (Packet::Arm, "00 0001", "01"),
            (Packet::Start, "00 0001", "02"),
            (Packet::RequestStatus, "00 0001", "03"),
            (Packet::AbortReception, "00 0001", "06"),
            (Packet::Probe, "00 0001", "0b"),
            (
                Packet::Transfer { order: Order::Only, id, octets: &[0xaa, 0xbb] },
                "00 0010",
                "00 02 6162636465666768696a6b6c aabb",
            ),
            (
                Packet::Nak { cause: Cause::Underrun, id },
                "00 000e",
                "04 01 6162636465666768696a6b6c",
            ),
            (
                Packet::Status(Status {
                    state: State::ArmedReady,
                    space: 0x100,
                    fill: 2,
                    critical_ms: 3,
                    critical_octets: 4,
                }),
                "00 0012",
                "05 03 00000100 00000002 00000003 00000004",
            ),
            (
                Packet::Carrier { is_on: true, bits_per_s: 9_600, block_bits: 10_368 },
                "00 000a",
                "08 01 00002580 00002880",
            ),
            (
                Packet::TransmitSetup { bits_per_s: 9_600, block_bits: 10_368 },
                "00 0009",
                "09 00002580 00002880",
            ),
            (
                Packet::InitialSetup(Setup {
                    round_trip_ms: 1,
                    least_ms: 2,
                    most_ms: 3,
                    is_synchronous: true,
                    asynchronous: [0; 4],
                }),
                "00 0012",
                "0a 00000001 00000002 00000003 01 00000000",
            ),
        ];
        for (packet, header, payload) in cases {
            let mut expected = hex("49 50 55");
            expected.extend(hex(header));
            expected.extend(crc::header(&expected).to_be_bytes());
            let payload = hex(payload);
            expected.extend(&payload);
            if !payload.is_empty() {
                expected.extend(crc::header(&payload).to_be_bytes());
            }
            let mut out = Vec::new();

            packet.emit(&mut out);

            assert_eq!(out, expected, "{packet:?}");
            assert_eq!(scan(&out), Found::Packet(out.len(), packet));
            for len in 0..out.len() {
                assert_eq!(scan(&out[..len]), Found::Nothing, "{packet:?} {len}");
            }
        }
    }

    #[test]
    fn the_crc_has_its_high_octet_first() {
        let mut out = Vec::new();

        Packet::Connect { version: 12 }.emit(&mut out);

        // By the bit by bit code of A.5.3.
        let bitwise = |octets: &[u8]| {
            octets.iter().fold(0_u16, |mut register, octet| {
                for bit in 0..8 {
                    let is_set = (register ^ u16::from(octet >> bit)) & 1 == 1;
                    register = register >> 1 ^ if is_set { 0x9299 } else { 0 };
                }
                register
            })
        };
        assert_eq!(out[6..8], bitwise(&out[..6]).to_be_bytes());
        assert_eq!(out[9..11], bitwise(&[12]).to_be_bytes());
    }

    #[test]
    fn damage_costs_as_little_as_it_can() {
        let mut good = Vec::new();
        Packet::Arm.emit(&mut good);
        let flip = |index: usize| {
            let mut bad = good.clone();
            bad[index] ^= 1;
            bad.extend(&good);
            bad
        };

        assert_eq!(scan(&flip(0)), Found::Noise(good.len()));
        assert_eq!(scan(&flip(3)), Found::Noise(good.len()));
        assert_eq!(scan(&flip(8)), Found::Damaged(good.len()));
        assert_eq!(scan(b"xyz\x49\x50"), Found::Noise(3));
    }

    #[test]
    fn what_is_not_allowed_is_wrong() {
        for (kind, payload) in [
            (0x03, ""),
            (0x01, ""),
            (0x01, "0c0c"),
            (0x00, "07"),
            (0x00, "0c"),
            (0x00, "0100"),
            (0x00, "00"),
            (0x00, "00 05 6162636465666768696a6b6c"),
            (0x00, "05 07 00000000 00000000 00000000 00000000"),
            (0x00, "08 02 00000000 00000000"),
            (0x00, "09 00000000"),
        ] {
            let payload = hex(payload);
            let mut octets = PREAMBLE.to_vec();
            octets.push(kind);
            octets.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
            octets.extend(crc::header(&octets).to_be_bytes());
            if !payload.is_empty() {
                octets.extend(&payload);
                octets.extend(crc::header(&payload).to_be_bytes());
            }

            assert_eq!(scan(&octets), Found::Wrong(octets.len()), "{kind} {payload:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_scanned_to_their_end(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &octets[..];
            loop {
                match scan(rest) {
                    Found::Nothing => break,
                    Found::Noise(len)
                    | Found::Damaged(len)
                    | Found::Wrong(len)
                    | Found::Packet(len, _) => {
                        prop_assert!(len > 0);
                        rest = &rest[len..];
                    }
                }
            }
            prop_assert!(rest.len() <= HEADER + MAX_PAYLOAD + CRC);
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        let pairs = (0..digits.len() / 2).map(|pair| &digits[2 * pair..2 * pair + 2]);
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }
}
