//! Configuration of HBH, and the values that the two profiles set.

use std::time::Duration;

use base::ip::protocol;

use super::wire::MAX_SPAN;

/// Between two packets that ask a peer how it is, at most, or once a round trip if that is longer: so
/// that the end of an outage or of congestion is noticed within a second.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How long an acknowledgement waits on a hop whose round trip is not known yet.
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(20);

/// Which HBH.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Profile {
    /// Ours.
    #[default]
    Default,
    /// What the paper says, no more (Marques et al., "Transparent IP Proxy for Tactical Ad hoc
    /// Networks").
    Paper,
}

impl Profile {
    /// What users call them.
    pub const NAMES: [(&str, Self); 2] = [("default", Self::Default), ("paper", Self::Paper)];
}

/// How a lossy link uses its idle time: for sums of the TCP segments in flight, from which the peer
/// recovers lost segments without asking.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Redundancy {
    /// As much as keeps delay low.
    #[default]
    Auto,
    /// Nothing is sent without need.
    Off,
    /// Less: where energy, or the air that others share, counts more than delay.
    Spare,
}

impl std::str::FromStr for Redundancy {
    type Err = String;

    /// # Errors
    /// When it is none of the three, with what is allowed.
    fn from_str(name: &str) -> Result<Self, String> {
        base::parameter::named(&Self::NAMES, name)
            .ok_or_else(|| format!("\"{name}\" is not allowed: \"off\", \"spare\" or \"auto\""))
    }
}

impl Redundancy {
    /// What users call them.
    pub(super) const NAMES: [(&str, Self); 3] =
        [("auto", Self::Auto), ("off", Self::Off), ("spare", Self::Spare)];

    /// How likely it may be that a loss is left over, for which a repeat has to be asked.
    pub(super) fn residual(self) -> f64 {
        match self {
            Self::Auto => 0.05,
            Self::Off => 1.0,
            Self::Spare => 0.1,
        }
    }

    /// The same for a lone packet, which nothing behind it tells of: its loss costs a silence.
    pub(super) fn residual_alone(self) -> f64 {
        match self {
            Self::Auto => 0.02,
            Self::Off => 1.0,
            Self::Spare => 0.1,
        }
    }

    /// For what part of the shortest round trip a link is idle before repairs of data go out.
    pub(super) fn quiet_data(self) -> f64 {
        match self {
            Self::Auto | Self::Off => 0.15,
            Self::Spare => 0.3,
        }
    }

    /// The same before an acknowledgement is copied, which others may soon supersede.
    pub(super) fn quiet_ack(self) -> f64 {
        match self {
            Self::Auto | Self::Off => 0.4,
            Self::Spare => 1.0,
        }
    }
}

/// The parameters of a node's HBH.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The protocol to run, of the two; both ends of a hop run the same.
    pub profile: Profile,
    /// The IP protocol number of HBH packets, 253 unless changed.
    pub protocol: u8,
    /// R: how often a hop sends a packet again before it gives up, 0 to 255.
    pub retries: u8,
    /// W: bounds on the packets sent and not acknowledged, each 1 to 127. Equal bounds fix it.
    pub window: (u8, u8),
    /// When to send again.
    pub rto: Rto,
    /// s: packets waiting in a flow's output queue at which its sender is told of congestion.
    pub congestion: usize,
    /// Packets waiting at which the sender is told that congestion is over.
    pub clear: usize,
    /// L: packets that a flow's output queue holds at most.
    pub queue: usize,
    /// p: what the rate of a congested flow gains at each round trip, in bit/s.
    pub rate_increase: f64,
    /// q: what it is multiplied by at each congestion notification, below 1.
    pub rate_decrease: f64,
    /// How long an acknowledgement waits for a packet to ride on, at most. Three quarters of
    /// the hop's round trip if that is shorter; up to five times as long where nothing is lost. Only the default profile waits.
    pub ack_delay: Duration,
    /// How much of a link's idle time goes into repairs. Only the default profile.
    pub redundancy: Redundancy,
    /// How long the last hop keeps a TCP segment back for one before it; zero for not at all.
    /// Only the default profile.
    pub hold: Duration,
    /// Whether a TCP segment that is still on its way is not sent again when TCP repeats it.
    pub absorb: bool,
    /// How long a packet may wait in one node; older ones are discarded.
    pub lifetime: Duration,
    /// How long a flow without packets is remembered.
    pub idle: Duration,
    /// Flows at most, in each direction.
    pub flows: usize,
    /// Packets waiting or unacknowledged at most, over all flows.
    pub packets: usize,
}

/// The retransmission timer of a hop: RTO = m * (srtt + n * rttvar).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rto {
    /// g: weight of a new sample in the mean.
    pub gain: f64,
    /// h: weight of a new sample in the deviation.
    pub deviation_gain: f64,
    /// n: how many deviations are added to the mean.
    pub deviations: f64,
    /// m: what the sum is multiplied by.
    pub factor: f64,
    /// What it is multiplied by each time it expires on a packet.
    pub backoff: f64,
    /// Before the first sample.
    pub initial: Duration,
    /// At least this.
    pub minimum: Duration,
    /// At most this.
    pub maximum: Duration,
}

impl Rto {
    /// A timer that never changes.
    #[must_use]
    pub fn fixed(rto: Duration) -> Self {
        Self { backoff: 1.0, initial: rto, minimum: rto, maximum: rto, ..Config::paper().rto }
    }
}

impl Config {
    /// The parameters of `profile`.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self::ours(),
            Profile::Paper => Self::paper(),
        }
    }

    /// How long an acknowledgement waits for a packet to ride on, on a hop with this round trip.
    ///
    /// Where nothing is lost, it may be longer: what answers a packet comes back from the end of the
    /// path, several hops away.
    pub(super) fn patience(&self, round_trip: Option<Duration>, is_patient: bool) -> Duration {
        let usual = round_trip.map_or(UNKNOWN_PATIENCE, |mean| mean * 3 / 4).min(self.ack_delay);
        match round_trip {
            Some(mean) if is_patient => (mean * 8).clamp(self.ack_delay, self.ack_delay * 5),
            _ => usual,
        }
    }

    fn ours() -> Self {
        Self {
            profile: Profile::Default,
            retries: 15,
            window: (16, MAX_SPAN),
            rto: Rto {
                gain: 0.125,
                deviation_gain: 0.25,
                deviations: 4.0,
                factor: 1.0,
                backoff: 1.5,
                initial: Duration::from_millis(200),
                minimum: Duration::from_millis(2),
                maximum: Duration::from_secs(60),
            },
            ack_delay: Duration::from_millis(100),
            hold: Duration::from_secs(3),
            absorb: true,
            lifetime: Duration::from_secs(30),
            // Enough for the packets of a transfer of a hundred kilobytes, so that its last packets
            // are not refused: no later packet would reveal the loss.
            queue: 200,
            // The peer says when congestion is over, so its queue need not empty before.
            rate_decrease: 0.8,
            ..Self::paper()
        }
    }

    /// R = 4 and the timer's constants are the paper's, section III and IV; it does not give W, s,
    /// L, p and q.
    fn paper() -> Self {
        Self {
            profile: Profile::Paper,
            protocol: protocol::EXPERIMENT,
            retries: 4,
            window: (8, 8),
            rto: Rto {
                gain: 1.0 / 3.0,
                deviation_gain: 1.0 / 3.0,
                deviations: 10.0,
                factor: 2.0,
                backoff: 1.0,
                initial: Duration::from_secs(1),
                minimum: Duration::from_millis(1),
                maximum: Duration::from_secs(60),
            },
            congestion: 20,
            clear: 10,
            queue: 50,
            rate_increase: 10_000.0,
            rate_decrease: 0.5,
            ack_delay: Duration::ZERO,
            redundancy: Redundancy::Auto,
            hold: Duration::ZERO,
            absorb: false,
            lifetime: Duration::from_secs(3600),
            idle: Duration::from_secs(60),
            flows: 4_096,
            packets: 65_536,
        }
    }
}
