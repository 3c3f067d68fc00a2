//! The data rate of this node: requested by its peers, advised by them, or adapted to the channel
//! (Annex C, section 3.11; EP4).
//!
//! A waveform that is identified by its preamble needs no agreement: the sender just changes. The node slows down when
//! a slower rate would carry more, or when nobody answers. The node speeds up after some time without losses, and
//! waits longer after each wrong attempt. If the modem does not take the rate from its station, the node follows the
//! modem and refuses requests of peers.

use std::time::Duration;

use base::time::Time;

use super::super::dts::management::{Message, Sent};
use super::super::dts::wire::{Eow, RateRequest, Response};
use super::{Address, Node, Rate};
use crate::modem::Waveform;

/// The state of rate adaptation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// The number of successive reports with few losses.
    good: u32,
    /// The number of such reports before a faster rate is tried.
    needed: u32,
    /// Whether the rate was raised and no report has come since.
    is_new: bool,
}

/// The number of good reports before a faster rate is tried, at first and at most.
const LEAST_REPORTS: u32 = 2;
const MOST_REPORTS: u32 = 64;
/// The share of lost frames up to which a report is good.
const FEW: f64 = 0.03;
/// The least frames of a report that counts.
const LEAST_FRAMES: u32 = 5;

impl Node {
    /// Asks a peer to transmit to us with another waveform; false if that is impossible.
    pub fn request_rate(&mut self, peer: Address, waveform: Waveform) -> bool {
        let (Some(rate), Some(interleaver)) = (waveform.rate_code(), waveform.interleaver_code())
        else {
            return false;
        };
        let request = RateRequest { rate, interleaver, is_advice: false, is_tied: false };
        let message = Message { eow: Eow::RateRequest(request), extended: Vec::new() };
        self.peer_mut(peer).is_some_and(|peer| peer.messages.push(message).is_ok())
    }

    /// Takes the waveform that somebody has set at the modem, and that counts from the next
    /// transmission on; `decoding` as in [`super::Config`].
    pub fn handle_waveform(&mut self, now: Time, waveform: Waveform, decoding: Duration) {
        self.config.waveform = waveform;
        self.config.decoding = decoding;
        self.set_waveform(waveform);
        self.floor.set_times(self.config.times(waveform));
        self.settle(now);
    }

    /// Takes an acknowledgement's report of sent and lost frames.
    pub(super) fn rate_by_report(&mut self, frames: u32, lost: u32) {
        if self.config.rate != Rate::Adaptive || frames < LEAST_FRAMES {
            return;
        }
        let loss = f64::from(lost) / f64::from(frames);
        let slower = self.waveform.slower();
        let carries_more = |slower: &Waveform| {
            f64::from(slower.bits_per_s()) > f64::from(self.waveform.bits_per_s()) * (1.0 - loss)
        };
        if slower.as_ref().is_some_and(carries_more) {
            self.slow_down();
            return;
        }
        self.trial.is_new = false;
        if loss > FEW {
            self.trial.good = 0;
            return;
        }
        self.trial.good += 1;
        if self.trial.good > self.trial.needed.max(LEAST_REPORTS)
            && let Some(faster) = self.waveform.faster()
        {
            self.trial.good = 0;
            self.trial.is_new = true;
            self.set_waveform(faster);
        }
    }

    /// Transmits more slowly, if the rate may change.
    pub(super) fn slow_down(&mut self) {
        if self.config.rate != Rate::Adaptive {
            return;
        }
        let Some(slower) = self.waveform.slower() else { return };
        if self.trial.is_new {
            self.trial.needed = (self.trial.needed.max(LEAST_REPORTS) * 2).min(MOST_REPORTS);
        }
        self.trial.good = 0;
        self.trial.is_new = false;
        self.set_waveform(slower);
    }

    /// Takes a message about the rate that needs an acknowledgement.
    pub(super) fn handle_rate_message(&mut self, from: Address, eow: Eow) {
        let answer = match eow {
            Eow::RateRequest(request) if !request.is_advice => match self.waveform_of(request) {
                Some(_) => Eow::RateResponse { response: Response::Accept, reason: 0 },
                None => Eow::RateResponse { response: Response::Refuse, reason: CANNOT },
            },
            // The peer has changed to the requested rate and must learn that we hear it.
            Eow::RateResponse { response: Response::Accept, .. } => {
                Eow::RateResponse { response: Response::Confirm, reason: 0 }
            }
            Eow::Other { kind, .. } => Eow::Unrecognised { kind },
            Eow::RateRequest(request) => {
                self.take_advice(request);
                return;
            }
            Eow::Capabilities(_)
            | Eow::Extensions(_)
            | Eow::HighRateRequest { .. }
            | Eow::None
            | Eow::RateResponse { .. }
            | Eow::Unrecognised { .. } => return,
        };
        let wanted = match eow {
            Eow::RateRequest(request) if self.config.rate != Rate::Modem => {
                self.waveform_of(request)
            }
            _ => None,
        };
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.wanted_rate = wanted;
        let _ = peer.messages.push(Message { eow: answer, extended: Vec::new() });
    }

    /// Takes the outcome of our messages: once the peer knows that we accept, the rate changes.
    pub(super) fn settle_messages(&mut self, from: Address) {
        while let Some(sent) = self.peers.get_mut(&from).and_then(|it| it.messages.poll_sent()) {
            let accept = Eow::RateResponse { response: Response::Accept, reason: 0 };
            if matches!(&sent, Sent::Acknowledged(message) if message.eow == accept)
                && let Some(waveform) =
                    self.peers.get_mut(&from).and_then(|peer| peer.wanted_rate.take())
            {
                self.set_waveform(waveform);
            }
        }
    }

    /// Follows a peer's advice, if the rate may change.
    pub(super) fn take_advice(&mut self, advice: RateRequest) {
        if self.config.rate == Rate::Adaptive
            && advice.is_advice
            && let Some(waveform) = self.waveform_of(advice)
        {
            self.set_waveform(waveform);
        }
    }

    fn waveform_of(&self, request: RateRequest) -> Option<Waveform> {
        let named = Waveform::of_codes(request.rate, request.interleaver);
        named.filter(|waveform| match self.config.rate {
            Rate::Adaptive | Rate::Fixed => waveform.family() == self.waveform.family(),
            Rate::Modem => *waveform == self.waveform,
        })
    }

    fn set_waveform(&mut self, waveform: Waveform) {
        if waveform != self.waveform {
            self.waveform = waveform;
            self.floor.set_times(self.config.times(waveform));
            self.stats.rate_changes += 1;
        }
    }
}

/// The refusal that neither this rate nor this interleaver is possible.
const CANNOT: u8 = 4;
