//! Acts on silence in a flow: declares packets lost, and probes the peer.

use std::time::Duration;

use base::time::Time;

use super::super::config::{Config, PROBE_INTERVAL, Profile};
use super::super::peer::{Learned, PeerState};
use super::super::pool::Pool;
use super::super::wire::Seq;
use super::Sender;
use super::flight::State;

/// How many packets are sent after a first silence.
const PROBES: u8 = 4;
/// Each silence lasts longer than the one before, this many times.
const BACKOFFS: u8 = 3;

impl Sender {
    /// Declares lost what has been silent for too long; returns whether a silence has ended.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Time,
        peer: &PeerState,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) -> bool {
        if let Some(mean) = peer.rtt.mean() {
            self.pacer.advance(now, mean);
        }
        if self.silence_ends(peer, config).is_none_or(|at| at > now) {
            return false;
        }
        self.expiries = self.expiries.saturating_add(1);
        let mut probes = match config.profile {
            Profile::Default if peer.is_silent() => 1,
            Profile::Default => self.probes().into(),
            Profile::Paper => usize::MAX,
        };
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            let is_due = match config.profile {
                Profile::Default => true,
                Profile::Paper => slot.sent_at() + peer.rtt.timeout(slot.retries) <= now,
            };
            if probes > 0 && is_due && matches!(slot.state, State::Flying(_)) {
                if peer.is_silent() && config.profile == Profile::Default {
                    // The link is away: the timeout says nothing about this packet.
                    slot.retries = slot.retries.saturating_sub(1);
                }
                self.lose(now, index, config, pool, learned);
                probes -= usize::from(matches!(self.flight.slots[index].state, State::Lost(_)));
            }
        }
        self.last_sent = now;
        self.repairs.clear();
        self.flight.slide();
        true
    }

    /// A peer that was silent is heard again: what was sent to it meanwhile is lost.
    pub(crate) fn handle_revival(
        &mut self,
        now: Time,
        config: &Config,
        pool: &mut Pool,
        learned: &mut Learned,
    ) {
        self.expiries = 0;
        self.repairs.clear();
        for index in 0..self.flight.slots.len() {
            let slot = &mut self.flight.slots[index];
            if matches!(slot.state, State::Flying(_)) {
                slot.retries = slot.retries.saturating_sub(1);
                self.lose(now, index, config, pool, learned);
            }
        }
        self.flight.slide();
    }

    /// The link layer gave this transmission up: it is lost.
    pub(crate) fn handle_unsent(
        &mut self,
        now: Time,
        (seq, copy): (Seq, u8),
        config: &Config,
        pool: &mut Pool,
    ) -> Learned {
        let mut learned = Learned::default();
        let Ok(index) = usize::try_from(seq.since(self.flight.base())) else { return learned };
        let Some(slot) = self.flight.slots.get_mut(index) else { return learned };
        // If other copies are in flight, one may still arrive.
        if slot.copy() == copy && slot.flying_copies == 1 {
            slot.retries = slot.retries.saturating_sub(1);
            self.lose(now, index, config, pool, &mut learned);
            self.flight.slide();
        }
        learned
    }

    /// How many packets are sent at once after a silence, to hear from the peer. When even these were
    /// not heard of, losses seem to come in runs.
    pub(super) fn probes(&self) -> u8 {
        if self.expiries < 2 { PROBES } else { 2 * PROBES }
    }

    /// How long a silent peer is left alone between two probes.
    pub(crate) fn probe_interval(&self, peer: &PeerState, config: &Config) -> Duration {
        PROBE_INTERVAL.max(peer.rtt.timeout(0) + longest_patience(peer, config))
    }

    /// When nothing has been heard for too long.
    pub(super) fn silence_ends(&self, peer: &PeerState, config: &Config) -> Option<Time> {
        if self.flight.flying == 0 {
            return None;
        }
        let rtt = &peer.rtt;
        match config.profile {
            Profile::Default => {
                let backoffs = self.expiries.min(BACKOFFS);
                let usual = rtt.timeout(backoffs) + longest_patience(peer, config);
                Some(self.last_sent + usual.min(self.probe_interval(peer, config)))
            }
            Profile::Paper => self
                .flight
                .slots
                .iter()
                .filter(|slot| matches!(slot.state, State::Flying(_)))
                .map(|slot| slot.sent_at() + rtt.timeout(slot.retries))
                .min(),
        }
    }
}

/// How long a peer's acknowledgement may wait.
///
/// The peer goes by the round trip that it has measured itself, which may be longer than ours. If
/// the peer waits for many round trips, the difference counts.
fn longest_patience(peer: &PeerState, config: &Config) -> Duration {
    let is_patient = peer.is_patient(config);
    let ours = config.patience(peer.rtt.known(is_patient), is_patient);
    if is_patient { ours + ours / 4 } else { ours }
}
