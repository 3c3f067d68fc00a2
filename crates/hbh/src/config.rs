//! Configuration of HBH, and the values that the two profiles set.

use std::time::Duration;

use base::ip::protocol;
use base::parameter::{Kind, Rule, named, names};

use super::wire::Layout;

/// Between two packets that ask a peer how it is, at most, or once a round trip if that is longer: so
/// that the end of an outage or of congestion is noticed within a second.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How long an acknowledgement waits on a hop whose round trip is not known yet.
const UNKNOWN_ACK_WAIT: Duration = Duration::from_millis(20);

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

    /// How its messages are laid out.
    #[must_use]
    pub fn layout(self) -> Layout {
        match self {
            Self::Default => Layout::Wide,
            Self::Paper => Layout::Paper,
        }
    }
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

base::words!(Profile: Profile::NAMES, Redundancy: Redundancy::NAMES);

impl std::str::FromStr for Redundancy {
    type Err = String;

    /// # Errors
    /// When it is none of the three, with what is allowed.
    fn from_str(name: &str) -> Result<Self, String> {
        named(&Self::NAMES, name)
            .ok_or_else(|| format!("\"{name}\" is not allowed: \"off\", \"spare\" or \"auto\""))
    }
}

impl Redundancy {
    /// What users call them.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("auto", Self::Auto), ("off", Self::Off), ("spare", Self::Spare)];

    /// How likely it may be that a loss is left over, for which a repeat has to be asked.
    pub(crate) fn residual(self) -> f64 {
        match self {
            Self::Auto => 0.05,
            Self::Off => 1.0,
            Self::Spare => 0.1,
        }
    }

    /// The same for a lone packet, which nothing behind it tells of: its loss costs a silence.
    pub(crate) fn residual_alone(self) -> f64 {
        match self {
            Self::Auto => 0.02,
            Self::Off => 1.0,
            Self::Spare => 0.1,
        }
    }

    /// For what part of the shortest round trip a link is idle before repairs of data go out.
    pub(crate) fn quiet_data(self) -> f64 {
        match self {
            Self::Auto | Self::Off => 0.15,
            Self::Spare => 0.3,
        }
    }

    /// The same before an acknowledgement is copied, which others may soon supersede.
    pub(crate) fn quiet_ack(self) -> f64 {
        match self {
            Self::Auto | Self::Off => 0.4,
            Self::Spare => 1.0,
        }
    }
}

base::parameters! {
    /// The table of HBH's parameters. A profile sets all the others, so it is first.
    ///
    /// R = 4 and the timer's constants are the paper's, sections III and IV; W, s, L, p and q are not in the paper.
    pub static PARAMETERS = "hbh";

    /// The parameters of a node's HBH.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from new(profile: Profile) {
        /// Which of the two protocols runs, the same at all nodes: ours, or what the paper says and no more.
        #[allowed(Kind::Word(&names(&Profile::NAMES)))]
        #[set(|it, to| *it = Config::new(named(&Profile::NAMES, to.text()).unwrap_or_default()))]
        pub profile: Profile = profile;

        /// The IP protocol number of HBH packets, the same at all nodes.
        #[allowed(Kind::count(1..=255))]
        pub protocol: u8 = protocol::EXPERIMENT;

        /// How often a hop sends a packet again before it gives up (R).
        #[allowed(Kind::count(0..=255))]
        pub retries: u8 = 15, Paper: 4;

        /// Bounds on the packets to a neighbour that are sent and not acknowledged, with the paper profile on those of a
        /// flow (W); one number fixes it.
        // The numbers of the paper's layout allow 127.
        #[allowed(Kind::span(1..=16_384).of("packets"))]
        pub window: (u16, u16) = (4, 16_384), Paper: (8, 8);

        /// Packets waiting in a flow's output queue at which its sender is told of congestion (s).
        #[allowed(Kind::count(1..=MOST_PACKETS).of("packets"))]
        pub congestion: usize = 20;

        /// Packets waiting at which the sender is told that congestion is over.
        #[allowed(Kind::count(1..=MOST_PACKETS).of("packets"))]
        pub clear: usize = 10;

        /// Packets that a flow's output queue holds (L).
        #[allowed(Kind::count(1..=MOST_PACKETS).of("packets"))]
        // Enough for the packets of a transfer of a hundred kilobytes, so that its last packets
        // are not refused: no later packet would reveal the loss.
        pub queue: usize = 200, Paper: 50;

        /// What the rate of a congested flow gains at each round trip (p).
        // In bit/s.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        pub rate_increase: f64 = 10_000.0;

        /// What the rate of a flow is multiplied by at each congestion notification (q).
        #[allowed(Kind::share(0.01..=0.99))]
        // The peer says when congestion is over, so its queue need not empty before.
        pub rate_decrease: f64 = 0.8, Paper: 0.5;

        /// How long an acknowledgement waits for a packet to ride on; with the default profile only.
        // At most: three quarters of the hop's round trip if that is shorter, and five times as long where nothing is lost.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(10)))]
        pub ack_delay: Duration = Duration::from_millis(100), Paper: Duration::ZERO;

        /// How much of a link's idle time goes into repairs: as much as keeps delay low, nothing, or less where energy
        /// or the air counts more; with the default profile only.
        #[allowed(Kind::Word(&names(&Redundancy::NAMES)))]
        pub redundancy: Redundancy = Redundancy::Auto;

        /// How long the last hop keeps a TCP segment back for one before it; with the default profile only.
        // At most: eight silences of the hop, and at least half a second, where its round trip is known.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(60)))]
        pub hold: Duration = Duration::from_secs(3), Paper: Duration::ZERO;

        /// Whether a TCP segment that is still on its way is not sent again when TCP repeats it.
        #[allowed(Kind::Flag)]
        pub absorb: bool = true, Paper: false;

        /// How long a packet may wait in one node before it is discarded.
        #[allowed(Kind::period(Duration::from_millis(100)..=DAY))]
        pub lifetime: Duration = Duration::from_secs(30), Paper: Duration::from_secs(3600);

        /// How long a flow without packets is remembered.
        #[allowed(Kind::period(Duration::from_secs(1)..=DAY))]
        pub idle: Duration = Duration::from_secs(60);

        /// Flows in each direction, over all neighbours.
        #[allowed(Kind::count(1..=1_000_000))]
        pub flows: usize = 4_096;

        /// Packets waiting or unacknowledged, over all flows.
        #[allowed(Kind::count(16..=1_000_000))]
        pub packets: usize = 65_536;

        /// The retransmission timer, if it is always the same.
        #[allowed(Kind::period(SHORTEST..=HOUR))]
        #[get(|it| fixed(&it.rto).into())]
        #[set(|it, to| it.rto = Rto::fixed(to.period()))]
        "rto.fixed";

        /// The retransmission timer of a hop: RTO = m * (srtt + n * rttvar).
        pub rto: struct Rto {
            /// The weight of a new sample in the mean round trip (g).
            #[allowed(GAIN)]
            pub gain: f64 = 0.125, Paper: 1.0 / 3.0;

            /// The weight of a new sample in the deviation of the round trip (h).
            #[allowed(GAIN)]
            pub deviation_gain: f64 = 0.25, Paper: 1.0 / 3.0;

            /// How many deviations are added to the mean (n).
            #[allowed(Kind::number(0.0..=1_000.0))]
            pub deviations: f64 = 4.0, Paper: 10.0;

            /// What the sum of mean and deviations is multiplied by (m).
            #[allowed(Kind::number(0.1..=1_000.0))]
            pub factor: f64 = 1.0, Paper: 2.0;

            /// What the timer is multiplied by each time it expires on a packet.
            #[allowed(Kind::number(1.0..=100.0))]
            pub backoff: f64 = 1.5, Paper: 1.0;

            /// The timer before the first sample.
            #[allowed(Kind::period(SHORTEST..=HOUR))]
            pub initial: Duration = Duration::from_millis(200), Paper: Duration::from_secs(1);

            /// The shortest that the timer gets.
            #[allowed(Kind::period(SHORTEST..=HOUR))]
            pub minimum: Duration = Duration::from_millis(2), Paper: Duration::from_millis(1);

            /// The longest that the timer gets.
            #[allowed(Kind::period(SHORTEST..=HOUR))]
            pub maximum: Duration = Duration::from_secs(60);
        }
    }

    rules [
        Rule {
            names: &["clear", "congestion", "queue"],
            allowed: "clear is at most congestion, which is at most queue",
            holds: |it| it.clear <= it.congestion && it.congestion <= it.queue,
        },
        Rule {
            names: &["rto.minimum", "rto.maximum"],
            allowed: "rto.minimum is at most rto.maximum",
            holds: |it| it.rto.minimum <= it.rto.maximum,
        },
    ]
}

impl Rto {
    /// A timer that never changes.
    #[must_use]
    pub fn fixed(rto: Duration) -> Self {
        Self {
            backoff: 1.0,
            initial: rto,
            minimum: rto,
            maximum: rto,
            ..Config::new(Profile::Paper).rto
        }
    }
}

/// The most packets in flight in a flow of the paper, where numbers have eight bits.
const MOST_OF_PAPER: usize = 127;
/// The window of the paper if only bounds are given.
const USUAL_OF_PAPER: u16 = 64;

impl Config {
    /// The window of a flow of the paper, which never changes.
    pub(crate) fn fixed_window(&self) -> usize {
        let (least, most) = self.window;
        usize::from(least.max(most.min(USUAL_OF_PAPER))).min(MOST_OF_PAPER)
    }

    /// How long an acknowledgement waits for a packet to ride on, on a hop with this round trip.
    ///
    /// Where nothing is lost, it may be longer: what answers a packet comes back from the end of the
    /// path, several hops away.
    pub(crate) fn ack_wait(&self, round_trip: Option<Duration>, is_patient: bool) -> Duration {
        let usual = round_trip.map_or(UNKNOWN_ACK_WAIT, |mean| mean * 3 / 4).min(self.ack_delay);
        match round_trip {
            Some(mean) if is_patient => (mean * 8).clamp(self.ack_delay, self.ack_delay * 5),
            _ => usual,
        }
    }
}

const MOST_PACKETS: u64 = 100_000;
const GAIN: Kind = Kind::Share { least: 0.001, most: 1.0 };
const SHORTEST: Duration = Duration::from_micros(100);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The timer, if nothing changes it.
fn fixed(rto: &Rto) -> Option<Duration> {
    (*rto == Rto::fixed(rto.initial)).then_some(rto.initial)
}

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::new(profile)));
    }

    #[test]
    fn a_profile_comes_first_whatever_else_is_given() {
        let mut config = Config { queue: 77, ..Config::new(Profile::Default) };

        let given = |name| match name {
            "retries" => Some(Written::Integer(9)),
            "profile" => Some(Written::Text("paper")),
            _ => None,
        };
        PARAMETERS.apply(&mut config, given).unwrap();

        assert_eq!(config, Config { retries: 9, ..Config::new(Profile::Paper) });
    }

    #[test]
    fn thresholds_keep_their_order() {
        let mut config = Config::new(Profile::Default);

        let given = |name| match name {
            "clear" => Some(Written::Integer(50)),
            "congestion" => Some(Written::Integer(10)),
            _ => None,
        };
        let refused = PARAMETERS.apply(&mut config, given).unwrap_err();

        assert_eq!(
            refused.what,
            "clear = 50, congestion = 10, queue = 200 are not allowed together: clear is at most \
             congestion, which is at most queue"
        );
    }
}
