//! Airtime: bits and duration of a transmission, and the waiting times around it.
//!
//! ```text
//!  EPRE │ PHASING │ transmission header │ flag │ frame │ flag │ frame │ flag │ ELAG
//!                                        └──────── FEC, TDC ────────────┘
//!  frame: source, destinations (8 bits each), control (8 or 16), information, CRC-32
//! ```

use std::time::Duration;

use base::quantity::BitRate;
use base::time::nanos;

use super::config::{Coding, Config, LinkType};
use super::layout::INTRANET;

/// How long everything takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct AirTime {
    rate: BitRate,
    coding: Coding,
    header_bits: u64,
    before: u64,
    lag: u64,
    busy_detect: u64,
    /// TOL and the longer of DTEACK and TURN.
    after: u64,
    /// The longer of DTEACK and TURN.
    first_answer: u64,
    /// RHD0.
    answer_slot: u64,
    dte_turn: u64,
}

const ADDRESS: u64 = 8;
const FLAG: u64 = 8;
const CHECK: u64 = 32;
/// A zero is stuffed behind five ones, on average after so many random bits.
const STUFFED_EVERY: u64 = 62;
/// Sixteen code words of 24 bits.
const INTERLEAVER: u64 = 384;

impl AirTime {
    /// Computes the times of a net from its configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let timing = &config.timing;
        let before = nanos(timing.key_up) + nanos(timing.phasing);
        let first_answer = nanos(timing.dte_ack).max(nanos(timing.turn));
        let mut own = Self {
            rate: config.rate,
            coding: config.coding,
            header_bits: config.header_bits.into(),
            before,
            lag: nanos(timing.lag),
            busy_detect: 0,
            after: nanos(timing.tolerance) + first_answer,
            first_answer,
            answer_slot: 0,
            dte_turn: nanos(timing.dte_turn),
        };
        let noticed = own.bits(if timing.is_synchronous { 32 } else { 64 });
        let formula = before + own.lag + noticed;
        own.busy_detect = timing.busy_detect.map_or(formula, nanos).max(1);
        let answer = own.bits(own.coded(Self::frame_bits(1, 8, 0) + FLAG) + own.header_bits);
        let turn = nanos(timing.turn) + nanos(timing.tolerance);
        own.answer_slot = before + answer + own.lag + turn;
        own
    }

    /// Bits of a frame with so many destinations, its closing flag included, before coding: the expected
    /// number of stuffed zeros, rounded up.
    pub(crate) fn frame_bits(destinations: u64, control: u64, octets: u32) -> u64 {
        let body = ADDRESS * (1 + destinations) + control + 8 * u64::from(octets) + CHECK;
        body + body.div_ceil(STUFFED_EVERY) + FLAG
    }

    /// Bits of the control field.
    pub(crate) fn control(link_type: LinkType) -> u64 {
        match link_type {
            LinkType::Coupled | LinkType::Unacknowledged => 8,
            LinkType::Decoupled => 16,
        }
    }

    /// A transmission of frames with so many bits together, from its begin to the last bit's arrival.
    pub(crate) fn transmission(&self, frame_bits: u64) -> u64 {
        self.before + self.bits(self.header_bits + self.coded(frame_bits + FLAG)) + self.lag
    }

    /// When others notice a transmission, after its begin (NBDT).
    pub(crate) fn busy_detect(&self) -> u64 {
        self.busy_detect
    }

    /// The timeout period after a transmission that so many stations answer (TP).
    pub(crate) fn timeout_period(&self, answers: u64) -> u64 {
        answers * self.answer_slot + self.after
    }

    /// When the answer in this place (from 0) begins, after the end of what it answers (RHD).
    pub(crate) fn response_hold(&self, place: u64) -> u64 {
        place * self.answer_slot + self.first_answer
    }

    /// The network access delay of so many slots (NAD).
    pub(crate) fn access_delay(&self, slots: u64) -> u64 {
        slots * self.busy_detect + slots.saturating_sub(1) * self.dte_turn
    }

    /// The first slot that does not begin before `after`.
    pub(crate) fn slot_after(&self, after: u64) -> u64 {
        if after == 0 {
            return 0;
        }
        (after + self.dte_turn).div_ceil(self.busy_detect + self.dte_turn).max(1)
    }

    /// Time to transmit one packet over one hop, from the start to the arrival of the last bit.
    #[must_use]
    pub fn packet(&self, link_type: LinkType, destinations: usize, octets: u32) -> Duration {
        let control = Self::control(link_type);
        let bits = Self::frame_bits(destinations as u64, control, octets + INTRANET);
        Duration::from_nanos(self.transmission(bits))
    }

    /// Time of a type 3 acknowledgement, overhead included (RHD0).
    #[must_use]
    pub fn answer_slot(&self) -> Duration {
        Duration::from_nanos(self.answer_slot)
    }

    /// The net busy detect time.
    #[must_use]
    pub fn net_busy_detect(&self) -> Duration {
        Duration::from_nanos(self.busy_detect)
    }

    /// How long a whole access takes that nobody answers, without its access delay.
    #[must_use]
    pub fn cycle(&self, link_type: LinkType, octets: u32) -> Duration {
        self.packet(link_type, 1, octets) + Duration::from_nanos(self.timeout_period(0))
    }

    fn coded(&self, bits: u64) -> u64 {
        match self.coding {
            Coding::Golay => 2 * bits,
            Coding::Interleaved => INTERLEAVER * (2 * bits).div_ceil(INTERLEAVER),
            Coding::Plain => bits,
        }
    }

    fn bits(&self, bits: u64) -> u64 {
        let BitRate::PerSecond(rate) = self.rate else { return 0 };
        let time = (u128::from(bits) * 1_000_000_000).div_ceil(u128::from(rate.get()));
        u64::try_from(time).unwrap_or(u64::MAX / 4)
    }
}
