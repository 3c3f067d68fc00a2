//! A radio of a station and its modem: half duplex, in blocks, deaf while it transmits or while two others do at once.
//!
//! ```text
//!  Keying ─▶ start ─ switching, preamble ─ block ─ block ─ end ─▶ signals to all other radios
//!                                            each signal may be lost; a block may arrive with flipped bits
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::rng::Rng;
use base::time::{Time, earliest};
use hf::modem::{Event, Keying, Waveform};
use hf::s5066::Node;

use crate::course::choice;

/// How long a radio takes from the command to transmit to its preamble.
const SWITCHING: Duration = Duration::from_millis(100);
/// A station that falls silent without an end stops to disturb others after two blocks and this time.
const FADING: Duration = Duration::from_secs(2);
/// The most flipped bits of a block: checksums of 16 bits find this many in any frame.
const FLIPS: usize = 3;

/// The first octet of a signal.
const START: u8 = 0;
const BLOCK: u8 = 1;
const END: u8 = 2;

/// A radio with its modem.
#[derive(Debug)]
pub struct Radio {
    is_on: bool,
    sending: Option<Sending>,
    outbox: VecDeque<Vec<u8>>,
    heard: BTreeMap<usize, Heard>,
    /// The station that the modem follows.
    follows: Option<usize>,
}

/// A transmission of this radio.
#[derive(Debug)]
struct Sending {
    waveform: Waveform,
    /// When the current block has left, or the preamble has.
    next_at: Time,
    block: Vec<u8>,
    is_over: bool,
}

/// A transmission of another radio.
#[derive(Debug)]
struct Heard {
    waveform: Waveform,
    /// When its preamble ends, until then.
    detected_at: Option<Time>,
    /// How long it disturbs others if nothing more is heard.
    until: Time,
}

impl Radio {
    pub fn new() -> Self {
        Self {
            is_on: true,
            sending: None,
            outbox: VecDeque::new(),
            heard: BTreeMap::new(),
            follows: None,
        }
    }

    /// Switches the modem off or on; what it sends breaks off.
    pub fn switch(&mut self, now: Time, is_on: bool, node: &mut Node) {
        self.is_on = is_on;
        self.break_off();
        self.follows = None;
        node.handle_modem_available(now, is_on);
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What it sends breaks off: others only hear the end.
    pub fn break_off(&mut self) {
        self.outbox.clear();
        if self.sending.take().is_some() {
            self.outbox.push_back(vec![END]);
        }
    }

    /// Takes a signal of another station, with flipped bits in this share of blocks.
    pub fn arrive(
        &mut self,
        now: Time,
        from: usize,
        signal: &[u8],
        (rng, errors): (&mut Rng, f64),
        node: &mut Node,
    ) {
        let Some((&kind, rest)) = signal.split_first() else { return };
        match kind {
            START => {
                let name = std::str::from_utf8(rest).ok();
                let Some(waveform) = name.and_then(|name| name.parse::<Waveform>().ok()) else {
                    return;
                };
                let detected_at = now + SWITCHING + waveform.preamble();
                let until = detected_at + waveform.block_time() * 2 + FADING;
                self.heard.insert(from, Heard { waveform, detected_at: Some(detected_at), until });
            }
            BLOCK => {
                let is_alone = self.is_alone(now, from);
                let Some(heard) = self.heard.get_mut(&from) else { return };
                heard.until = now + heard.waveform.block_time() * 2 + FADING;
                if self.follows != Some(from) || !is_alone {
                    return;
                }
                let mut octets = rest.to_vec();
                if rng.chance(errors) && !octets.is_empty() {
                    for _ in 0..=choice(rng, FLIPS) {
                        let bit = choice(rng, octets.len() * 8);
                        octets[bit / 8] ^= 1 << (bit % 8);
                    }
                }
                node.handle_modem(now, Event::Received(octets));
            }
            _ => {
                self.heard.remove(&from);
                if self.follows.take_if(|it| *it == from).is_some() {
                    node.handle_modem(now, Event::CarrierLost);
                }
            }
        }
    }

    /// Takes a whole transmission of a stranger, if the radio hears nobody else.
    pub fn hear(&mut self, now: Time, waveform: Waveform, octets: &[u8], node: &mut Node) {
        if self.is_on && self.sending.is_none() && self.follows.is_none() {
            node.handle_modem(now, Event::CarrierDetected { waveform: Some(waveform) });
            node.handle_modem(now, Event::Received(octets.to_vec()));
            node.handle_modem(now, Event::CarrierLost);
        }
    }

    /// Whether nobody but `from` is on the air here.
    fn is_alone(&self, now: Time, from: usize) -> bool {
        let others = self.heard.iter().filter(|(other, _)| **other != from);
        self.is_on
            && self.sending.is_none()
            && others.fold(true, |is, (_, it)| is && it.until <= now)
    }

    /// Detects preambles that are over, and sends the next block.
    pub fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        let over = |heard: &Heard| heard.detected_at.is_some_and(|at| at <= now);
        let detected: Vec<usize> =
            self.heard.iter().filter(|(_, heard)| over(heard)).map(|(from, _)| *from).collect();
        for from in detected {
            let is_free = self
                .follows
                .and_then(|other| self.heard.get(&other))
                .is_none_or(|other| other.until <= now);
            let is_alone = self.is_alone(now, from);
            let Some(heard) = self.heard.get_mut(&from) else { continue };
            heard.detected_at = None;
            if is_free && is_alone {
                self.follows = Some(from);
                let waveform = Some(heard.waveform);
                node.handle_modem(now, Event::CarrierDetected { waveform });
            }
        }
        let Some(sending) = self.sending.as_mut().filter(|sending| sending.next_at <= now) else {
            return;
        };
        let block = std::mem::take(&mut sending.block);
        if !block.is_empty() {
            self.outbox.push_back([&[BLOCK], &block[..]].concat());
        }
        if sending.is_over {
            self.sending = None;
            self.outbox.push_back(vec![END]);
            node.handle_modem(now, Event::Sent);
            return;
        }
        let bits = sending.waveform.block_bits() as usize;
        let room = bits / 8;
        while !sending.is_over && sending.block.len() < room {
            let left = room - sending.block.len();
            match node.poll_transmit(now, left, &mut sending.block) {
                Some(Keying::Octets) => {}
                Some(Keying::End) => sending.is_over = true,
                Some(Keying::Start(_)) | None => break,
            }
        }
        // The end of a message may be longer than a block.
        let used = sending.block.len() * 8 + sending.waveform.end_bits() as usize;
        let blocks = if sending.is_over { used.div_ceil(bits) } else { 1 };
        let blocks = u32::try_from(blocks).expect("a few blocks");
        sending.next_at = now + sending.waveform.block_time() * blocks;
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let detected = self.heard.values().filter_map(|heard| heard.detected_at).min();
        earliest(detected, self.sending.as_ref().map(|sending| sending.next_at))
    }

    /// The next signal to all other radios; begins a transmission if the node wants one.
    pub fn poll_transmit(&mut self, now: Time, node: &mut Node) -> Option<Vec<u8>> {
        if let Some(signal) = self.outbox.pop_front() {
            return Some(signal);
        }
        if self.sending.is_some() || !self.is_on {
            return None;
        }
        let mut none = Vec::new();
        let Some(Keying::Start(waveform)) = node.poll_transmit(now, 0, &mut none) else {
            return None;
        };
        if self.follows.take().is_some() {
            node.handle_modem(now, Event::CarrierLost);
        }
        self.sending = Some(Sending {
            waveform,
            next_at: now + SWITCHING + waveform.preamble(),
            block: Vec::new(),
            is_over: false,
        });
        Some([&[START], waveform.to_string().as_bytes()].concat())
    }
}

/// The octets of a block; `None` for other signals.
pub fn block(signal: &[u8]) -> Option<&[u8]> {
    signal.split_first().filter(|(kind, _)| **kind == BLOCK).map(|(_, octets)| octets)
}

/// Whether a signal begins a transmission.
pub fn is_start(signal: &[u8]) -> bool {
    signal.first() == Some(&START)
}
