//! Frames given to stations, transmissions on the air, and events for the driver.

use base::ip::Header;
use base::time::Time;

use super::config::StationId;

/// What a driver has a station send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The driver's name for the packet.
    pub token: u32,
    /// Its length.
    pub octets: u32,
    /// The destinations.
    pub to: Targets,
    /// How soon it is to leave.
    pub precedence: Precedence,
}

/// The destinations of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Targets {
    /// Every station in range, by the common group address.
    All,
    /// The first `n` stations of the array, each by its own address.
    Some([u8; Targets::MOST], u8),
}

impl Targets {
    /// How many addresses a frame has room for.
    pub const MOST: usize = 16;

    /// One station.
    ///
    /// # Panics
    /// If a net cannot have so many stations.
    #[must_use]
    pub fn one(station: StationId) -> Self {
        Self::several(&[station]).expect("one station is not too many")
    }

    /// These stations; `None` if there is none, or more than a frame has room for.
    #[must_use]
    pub fn several(stations: &[StationId]) -> Option<Self> {
        if stations.is_empty() || stations.len() > Self::MOST {
            return None;
        }
        let mut all = [0; Self::MOST];
        for (place, station) in all.iter_mut().zip(stations) {
            *place = u8::try_from(station.0).ok()?;
        }
        Some(Self::Some(all, u8::try_from(stations.len()).ok()?))
    }

    /// The stations that are named.
    #[must_use]
    pub fn named(&self) -> &[u8] {
        match self {
            Self::All => &[],
            Self::Some(all, count) => &all[..usize::from(*count)],
        }
    }

    /// How many addresses stand in the frame.
    pub(crate) fn addresses(&self) -> u64 {
        match self {
            Self::All => 1,
            Self::Some(_, count) => u64::from(*count),
        }
    }

    /// Takes a station from the list, and says whether it was there.
    pub(crate) fn remove(&mut self, station: u8) -> bool {
        let Self::Some(all, count) = self else { return false };
        let used = usize::from(*count);
        let Some(place) = all[..used].iter().position(|other| *other == station) else {
            return false;
        };
        all.copy_within(place + 1..used, place);
        *count -= 1;
        true
    }
}

/// How soon a frame is to leave, the soonest first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Precedence {
    /// Before all others.
    Urgent,
    /// Before what is routine.
    Priority,
    /// After all others.
    #[default]
    Routine,
}

impl Precedence {
    /// All, the soonest first.
    pub const ALL: [Self; 3] = [Self::Urgent, Self::Priority, Self::Routine];

    /// The precedence of an IP packet, by the first three bits of its traffic class (RFC 791):
    /// routine is routine, priority and immediate are priority, flash and above are urgent.
    #[must_use]
    pub fn of_traffic_class(class: u8) -> Self {
        match class >> 5 {
            0 => Self::Routine,
            1 | 2 => Self::Priority,
            _ => Self::Urgent,
        }
    }

    /// The precedence of an IP packet; other octets are routine.
    #[must_use]
    pub fn of_packet(packet: &[u8]) -> Self {
        let class = Header::parse(packet).map_or(0, |header| header.traffic_class);
        Self::of_traffic_class(class)
    }

    /// Its place in lists: 0 for urgent.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Events for the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// A station gives up a frame that it was given: nobody, or not everybody, acknowledged it.
    Failed {
        /// The station.
        station: StationId,
        /// What it was given.
        frame: Frame,
    },
    /// A station drops a packet that it had taken from another to pass on.
    Forsaken {
        /// The station.
        station: StationId,
        /// The packet.
        token: u32,
    },
    /// A packet arrives at a station that it is for.
    Received {
        /// The station.
        station: StationId,
        /// The station that accepted the packet from its driver.
        from: StationId,
        /// The packet.
        token: u32,
    },
    /// A station has accepted a packet for relaying: the packet has one more holder.
    Relayed {
        /// The station.
        station: StationId,
        /// The packet.
        token: u32,
    },
    /// A station is done with a frame, which it had been given or had taken to pass on.
    Sent {
        /// The station.
        station: StationId,
        /// The packet.
        token: u32,
        /// Whether any station received the packet, as far as the medium knows.
        is_received: bool,
    },
    /// Something was on the air, if the driver observes that.
    Transmitted(Transmission),
}

/// A frame that was on the air.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmission {
    /// When the sender began to key up.
    pub start: Time,
    /// When the last bit of the transmission had arrived.
    pub end: Time,
    /// What it was.
    pub kind: TransmissionKind,
    /// Who sent it.
    pub from: StationId,
    /// The first destination station; `None` for all stations.
    pub to: Option<StationId>,
    /// The packet; 0 if it carries none.
    pub token: u32,
    /// The length of the packet.
    pub octets: u32,
    /// How many of those who hear the sender could read it, and how many could not.
    pub heard: [u32; 2],
    /// Of the failed receptions, the number due to a collision or to the listener's own transmission.
    pub collided: u32,
    /// Whether it was on the air before, because no acknowledgement came.
    pub is_repeat: bool,
    /// Whether at least one destination received the frame.
    pub is_received: bool,
}

/// The kind of a transmission on the air.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TransmissionKind {
    /// An acknowledgement.
    Ack,
    /// A packet.
    Data,
    /// A topology update.
    Update,
}
