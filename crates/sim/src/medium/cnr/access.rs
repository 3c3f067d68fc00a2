//! Network access: in which slot behind the timeout period a station transmits.

use base::rng::Rng;

use super::airtime::AirTime;
use super::config::{AccessMethod, Config};
use super::frame::Precedence;
use super::station::Turn;

/// Inputs for computing the slots of a net.
pub struct Access<'a> {
    pub config: &'a Config,
    pub times: &'a AirTime,
    pub stations: usize,
}

/// The slot of a station.
pub enum Slot {
    /// Counted from now on, or from when the net allows it.
    FromNow(u64),
    /// Counted from the end of the timeout period, and not yet over.
    OfGrid(u64),
}

impl Access<'_> {
    /// Computes a station's slot (F), available `after` the end of its timeout period.
    pub fn slots(
        &self,
        station: usize,
        precedence: Precedence,
        turn: &Turn,
        after: u64,
        rng: &mut Rng,
    ) -> Slot {
        let stations = self.stations as u64;
        let blocks = precedence.index() as u64;
        match self.config.access {
            AccessMethod::DeterministicAdaptive => {
                let place = (station + self.stations - turn.first()) % self.stations;
                let late = blocks.saturating_sub(turn.mode().index() as u64);
                let first = late * stations + place as u64;
                let next = self.times.slot_after(after).saturating_sub(first);
                Slot::OfGrid(first + next.div_ceil(stations) * stations)
            }
            AccessMethod::Hybrid => {
                let [begin, width] = self.band(precedence);
                Slot::FromNow(begin + rng.below(width))
            }
            AccessMethod::Prioritised => {
                let rank = station as u64 + 1;
                let last = if turn.was_last() { stations } else { 0 };
                Slot::FromNow(rank + blocks * (stations + 1) + last)
            }
            AccessMethod::RadioEmbedded => Slot::OfGrid(self.persistent(after, rng)),
            AccessMethod::Random => Slot::FromNow(rng.below(stations * 3 / 4 + 1)),
        }
    }

    /// Where the band of a precedence begins in H-NAD, and how many slots it has.
    fn band(&self, precedence: Precedence) -> [u64; 2] {
        let shares = &self.config.hybrid;
        let routine = (1.0 - shares.urgent - shares.priority).max(0.0);
        let width = |share: f64| {
            let slots = (share * self.stations as f64 * shares.load_factor).ceil().max(1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "some hundreds at most"
            )]
            let slots = slots as u64;
            slots
        };
        let widths = [width(shares.urgent), width(shares.priority), width(routine)];
        let place = precedence.index();
        [widths[..place].iter().sum(), widths[place]]
    }

    /// Draws the slot of a radio that takes each slot with a fixed probability.
    fn persistent(&self, after: u64, rng: &mut Rng) -> u64 {
        let mut slot = self.times.slot_after(after);
        let most = slot + MOST_SLOTS;
        while slot < most && !rng.chance(self.config.scheduling.persistence) {
            slot += 1;
        }
        slot
    }
}

/// The longest RE-NAD interval for a precedence: full for routine frames, a fraction for higher ones.
pub fn schedule(
    config: &Config,
    stations: usize,
    transmission: u64,
    load: f64,
    precedence: Precedence,
) -> u64 {
    let part = (precedence.index() + 1) as f64 / Precedence::ALL.len() as f64;
    let turns = config.scheduling.factor * stations as f64 * load * part;
    share(transmission, turns)
}

pub fn share(time: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product that is not negative; what is too long is the longest"
    )]
    let product = (time as f64 * factor) as u64;
    product
}

/// Slots that a radio lets pass at most.
const MOST_SLOTS: u64 = 1_000;
