//! Encodes radio frames for Wireshark.
//!
//! ```text
//!  ┌──────────┬─────┬─────┬────────────┬─────────┬─────────┬────────┬─────────┬───┬──────────┐
//!  │ radiotap │ FC  │ dur │ receiver   │ sender  │ receiver│ seq    │ sender  │SNAP│ packet  │ data
//!  ├──────────┼─────┼─────┼────────────┼─────────┼─────────┴────────┴─────────┴───┴──────────┘
//!  │ radiotap │ FC  │ dur │ receiver   │ sender  │ RTS
//!  ├──────────┼─────┼─────┼────────────┼─────────┘
//!  │ radiotap │ FC  │ dur │ receiver   │ CTS, ACK
//!  └──────────┴─────┴─────┴────────────┘
//! ```
//!
//! The air time of data counts the four addresses and the check sequence, as ns-2 does, but no SNAP
//! header, which is here so that the packet behind it is understood. The check sequence is left out.

use base::quantity::BitRate;

use super::config::{Config, StationId};
use super::frame::{FrameKind, Transmission};

/// Appends a frame; `packet` is what a data frame carries.
pub fn write_frame(
    frame: &Transmission,
    config: &Config,
    channel: u8,
    packet: &[u8],
    out: &mut Vec<u8>,
) {
    let rate = if frame.kind == FrameKind::Data { config.data_rate } else { config.basic_rate };
    out.extend_from_slice(&[0, 0, RADIOTAP_LEN, 0, RADIOTAP_RATE, 0, 0, 0, half_megabits(rate)]);
    let (from, to) = (mac(channel, frame.from), frame.to.map_or([0xff; 6], |to| mac(channel, to)));
    let (subtype, flags) = match frame.kind {
        FrameKind::Ack => (ACK, 0),
        FrameKind::Cts => (CTS, 0),
        FrameKind::Rts => (RTS, 0),
        FrameKind::Broadcast | FrameKind::Data if frame.is_repeat => (DATA, FOUR_ADDRESSES | RETRY),
        FrameKind::Broadcast | FrameKind::Data => (DATA, FOUR_ADDRESSES),
    };
    out.extend_from_slice(&[subtype, flags]);
    out.extend_from_slice(&frame.duration.to_le_bytes());
    out.extend_from_slice(&to);
    match frame.kind {
        FrameKind::Ack | FrameKind::Cts => {}
        FrameKind::Rts => out.extend_from_slice(&from),
        FrameKind::Broadcast | FrameKind::Data => {
            out.extend_from_slice(&from);
            out.extend_from_slice(&to);
            out.extend_from_slice(&(frame.sequence << 4).to_le_bytes());
            out.extend_from_slice(&from);
            out.extend_from_slice(&SNAP);
            let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
            out.extend_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
            out.extend_from_slice(packet);
        }
    }
}

/// The header that says the rate and nothing else (radiotap.org).
const RADIOTAP_LEN: u8 = 9;
/// Bit 2 of the presence mask: the rate field is present.
const RADIOTAP_RATE: u8 = 1 << 2;

/// The first octet of frame control: subtype, type and version (IEEE 802.11, 9.2.4.1).
const RTS: u8 = 0xb4;
const CTS: u8 = 0xc4;
const ACK: u8 = 0xd4;
const DATA: u8 = 0x08;
/// The second octet: to and from a distribution system.
const FOUR_ADDRESSES: u8 = 0x03;
const RETRY: u8 = 0x08;

/// LLC for SNAP, and Ethernet's numbers of protocols in it (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];

/// A locally administered address.
fn mac(channel: u8, StationId(station): StationId) -> [u8; 6] {
    let [_, _, _, _, _, b, c, d] = (station as u64 + 1).to_be_bytes();
    [0x02, 0x80, channel, b, c, d]
}

fn half_megabits(rate: BitRate) -> u8 {
    let BitRate::PerSecond(bits) = rate else { return u8::MAX };
    u8::try_from(bits.get() / 500_000).unwrap_or(u8::MAX)
}
