//! Hearing between stations: audibility, received power, and routes over relays.

use base::time::Time;

use super::config::{Config, StationId};
use super::layout::MOST_HOPS;
use crate::mobility::{Motion, Position};

/// Who hears whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Hearing {
    /// Everybody everybody.
    #[default]
    All,
    /// Both stations of each pair each other, and nobody else.
    Pairs(Vec<[StationId; 2]>),
    /// Stations whose places are within the range of each other.
    Places,
}

impl Hearing {
    /// Checks that the pairs are of a net with so many stations.
    ///
    /// # Errors
    /// With the first pair that is not.
    pub fn check(&self, stations: usize) -> Result<(), NoSuchHearing> {
        let Self::Pairs(pairs) = self else { return Ok(()) };
        for [a, b] in pairs {
            for StationId(station) in [a, b] {
                if *station >= stations {
                    return Err(NoSuchHearing::Unknown(*station, stations));
                }
            }
            if a == b {
                return Err(NoSuchHearing::Itself(a.0));
            }
        }
        Ok(())
    }
}

/// Why stations cannot hear each other like this.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoSuchHearing {
    /// No station with this number exists in the net.
    #[error("station {0} of a net with {1} stations")]
    Unknown(usize, usize),
    /// A station hears itself.
    #[error("station {0} and itself")]
    Itself(usize),
}

/// Stations of a net at most: the individual addresses of its link layer are 4 to 95.
pub const MOST_STATIONS: usize = 92;

/// The stations, and for each pair whether one hears the other.
#[derive(Debug)]
pub struct Ground {
    hearing: Hearing,
    motions: Vec<Motion>,
    /// For pairs: bit `b` of entry `a`.
    pairs: Vec<u128>,
    range_squared: f64,
    /// As a factor.
    capture: f64,
}

/// The stations behind the one that sends, up to the last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Way {
    hops: [u8; Way::MOST],
    len: u8,
    at: u8,
}

impl Way {
    pub const MOST: usize = MOST_HOPS as usize;

    /// Who is next.
    pub fn next(&self) -> Option<u8> {
        self.hops[..usize::from(self.len)].get(usize::from(self.at)).copied()
    }

    /// The same for the next station; `None` if that is the last.
    pub fn onward(self) -> Option<Self> {
        let at = self.at + 1;
        if at < self.len { Some(Self { at, ..self }) } else { None }
    }

    /// How many hops it has, those behind included.
    pub fn hops(&self) -> u8 {
        self.len
    }
}

impl Ground {
    pub fn new(hearing: Hearing, config: &Config) -> Self {
        let mut pairs = vec![0_u128; MOST_STATIONS];
        if let Hearing::Pairs(list) = &hearing {
            for [StationId(a), StationId(b)] in list.iter().copied() {
                if a < MOST_STATIONS && b < MOST_STATIONS && a != b {
                    pairs[a] |= 1 << b;
                    pairs[b] |= 1 << a;
                }
            }
        }
        Self {
            hearing,
            motions: Vec::new(),
            pairs,
            range_squared: config.range * config.range,
            capture: 10_f64.powf(config.capture / 10.0),
        }
    }

    pub fn add(&mut self, motion: Motion) {
        self.motions.push(motion);
    }

    pub fn motion(&self, station: usize) -> &Motion {
        &self.motions[station]
    }

    pub fn has_places(&self) -> bool {
        self.hearing == Hearing::Places
    }

    /// Whether hearing between stations may change with time.
    pub fn changes(&self) -> bool {
        self.has_places() && self.motions.iter().any(|motion| !motion.legs().is_empty())
    }

    /// The power with which one station hears another; `None` if out of range.
    pub fn power(&self, now: u64, from: usize, to: usize) -> Option<f64> {
        if from == to {
            return None;
        }
        match &self.hearing {
            Hearing::All => Some(1.0),
            Hearing::Pairs(_) => (self.pairs[from] >> to & 1 == 1).then_some(1.0),
            Hearing::Places => {
                let place = |station: usize| -> Position {
                    self.motions[station].position(Time::from_nanos(now))
                };
                let squared = place(from).distance_squared(place(to));
                // Over the ground power falls with the fourth power of the distance; nearer than a metre
                // nothing changes.
                let close = squared.max(1.0);
                (squared <= self.range_squared).then(|| 1.0 / (close * close))
            }
        }
    }

    /// Whether a transmission is read although another of this power disturbs it.
    pub fn survives(&self, power: f64, other: f64) -> bool {
        power > self.capture * other
    }

    /// The stations that one hears, a bit for each.
    pub fn neighbours(&self, now: u64, station: usize) -> u128 {
        let others = 0..self.motions.len();
        others
            .filter(|other| self.power(now, station, *other).is_some())
            .fold(0, |all, other| all | 1 << other)
    }

    /// The way with the fewest hops, over the stations with the least numbers; empty if it is direct.
    pub fn way(&self, now: u64, from: usize, to: usize, most: u8) -> Option<Way> {
        if self.power(now, from, to).is_some() {
            return Some(Way::default());
        }
        let most = usize::from(most).min(Way::MOST);
        // Rings around the far end, so that the way is read off from the near one on.
        let mut rings = [0_u128; Way::MOST + 1];
        let (mut known, mut depth) = (1_u128 << to, 0);
        rings[0] = known;
        while known >> from & 1 == 0 {
            if depth == most {
                return None;
            }
            let ring = members(rings[depth]).fold(0, |all, it| all | self.neighbours(now, it));
            depth += 1;
            rings[depth] = ring & !known;
            if rings[depth] == 0 {
                return None;
            }
            known |= ring;
        }
        let mut way = Way { len: u8::try_from(depth).ok()?, ..Way::default() };
        let mut here = from;
        for (place, ring) in (0..depth).rev().enumerate() {
            let next = rings[ring] & self.neighbours(now, here);
            way.hops[place] = u8::try_from(next.trailing_zeros()).ok()?;
            here = next.trailing_zeros() as usize;
        }
        Some(way)
    }
}

/// The places of the bits that are set.
pub fn members(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(first)
    })
}
