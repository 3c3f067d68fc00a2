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

#[cfg(test)]
mod tests;

use base::crc;

/// The version of the protocol.
pub const VERSION: u8 = 12;
/// Octets of the longest payload.
pub const MAX_PAYLOAD: usize = 4_086;
/// Octets of the longest data in a transfer.
pub const MAX_DATA: usize = 4_072;

pub(crate) const PREAMBLE: [u8; 3] = [0x49, 0x50, 0x55];
pub(crate) const HEADER: usize = 8;
pub(crate) const CRC: usize = 2;
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
    /// From the modem: its setup.
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

/// The activity of a transmitter.
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
    /// The transmitter's activity.
    pub state: State,
    /// Octets that it can take.
    pub space: u32,
    /// Octets that it has.
    pub fill: u32,
    /// Milliseconds until it has to end for want of octets.
    pub critical_ms: u32,
    /// Octets the modem needs by then; 0 if it needs none.
    pub critical_octets: u32,
}

/// The setup of a modem.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setup {
    /// Round trip measured by the probe, in milliseconds.
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

impl<'a> Packet<'a> {
    /// Reads a packet from its type and payload.
    pub(crate) fn of(kind: u8, payload: &'a [u8]) -> Option<Self> {
        match (kind, payload) {
            (TYPE_CONNECT, &[version]) => Some(Self::Connect { version }),
            (TYPE_CONNECT_ACK, &[version]) => Some(Self::ConnectAck { version }),
            (TYPE_ERROR, _) => Some(Self::Error),
            (TYPE_DATA, []) => Some(Self::KeepAlive),
            (TYPE_DATA, [command, arguments @ ..]) => Self::of_command(*command, arguments),
            _ => None,
        }
    }

    fn of_command(command: u8, arguments: &'a [u8]) -> Option<Self> {
        match (command, arguments) {
            (TRANSFER, [order, rest @ ..]) => {
                let (id, octets) = rest.split_first_chunk()?;
                Some(Self::Transfer { order: Order::of(*order)?, id: *id, octets })
            }
            (ARM, []) => Some(Self::Arm),
            (START, []) => Some(Self::Start),
            (REQUEST_STATUS, []) => Some(Self::RequestStatus),
            (NAK, [cause, id @ ..]) => {
                Some(Self::Nak { cause: Cause::of(*cause)?, id: id.try_into().ok()? })
            }
            (STATUS, [state, numbers @ ..]) => {
                let [space, fill, critical_ms, critical_octets] = words(numbers)?;
                let state = State::of(*state)?;
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
    fn of(octet: u8) -> Option<Self> {
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
    fn of(octet: u8) -> Option<Self> {
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
    fn of(octet: u8) -> Option<Self> {
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
