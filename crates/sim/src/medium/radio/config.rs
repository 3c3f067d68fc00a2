//! Configuration of radios on one channel, and counters of their stations.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table};
use base::quantity::BitRate;

/// A station, identified by its index in the medium.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

/// The properties of a radio channel and its stations.
///
/// The defaults are those of ns-2's model of a 914 MHz WaveLAN card with basic frames at 1 Mbit/s;
/// `docs/protocols/channels.md` says where each comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Bit rate of control frames and broadcasts.
    pub basic_rate: BitRate,
    /// Bit rate of data frames to one station.
    pub data_rate: BitRate,
    /// A slot of the back-off.
    pub slot: Duration,
    /// Before an answer.
    pub sifs: Duration,
    /// Before the back-off when the last frame could not be read.
    pub eifs: Duration,
    /// The preamble and header of the physical layer, before each frame.
    pub preamble: Duration,
    /// The longest first back-off, in slots.
    pub cw_min: u32,
    /// The longest back-off, in slots.
    pub cw_max: u32,
    /// Attempts for RTS frames, and for data frames without an RTS.
    pub short_retries: u8,
    /// Attempts of data frames behind an RTS.
    pub long_retries: u8,
    /// Octets of the longest data frame, its header included, that is sent without an RTS before it.
    pub rts_threshold: u32,
    /// How much later than due an answer is waited for.
    pub patience: Duration,
    /// Octets of the header and the check sequence of a data frame.
    pub header: u32,
    /// Between IP and the MAC, in each of the two stations.
    pub link_delay: Duration,
    /// Metres up to which frames can be read.
    pub receive_range: f64,
    /// Metres up to which frames are sensed.
    pub sense_range: f64,
    /// Metres from which on power falls with the fourth power of the distance, and not the second.
    pub crossover: f64,
    /// How many dB a frame must be stronger than another to be read all the same.
    pub capture: f64,
    /// Whether a frame that finds the channel free waits a random back-off too.
    pub always_back_off: bool,
}

impl Default for Config {
    fn default() -> Self {
        let rate = |bits| BitRate::from_bits_per_s(bits).expect("it is more than 0");
        Self {
            basic_rate: rate(1_000_000),
            data_rate: rate(2_000_000),
            slot: Duration::from_micros(20),
            sifs: Duration::from_micros(10),
            eifs: Duration::from_micros(364),
            preamble: Duration::from_micros(192),
            cw_min: 31,
            cw_max: 1_023,
            short_retries: 7,
            long_retries: 4,
            rts_threshold: 0,
            patience: Duration::from_micros(4),
            header: 34,
            link_delay: Duration::from_micros(25),
            receive_range: 250.0,
            sense_range: 550.0,
            crossover: 86.1,
            capture: 10.0,
            always_back_off: true,
        }
    }
}

/// Parameters of a radio channel.
pub static PARAMETERS: Table<Config> = Table {
    name: "radio",
    parameters: &[
        Parameter::new(
            "basic-rate",
            Kind::Rate { may_be_unlimited: false },
            "The rate of RTS, CTS, ACK and broadcast frames.",
            |it| it.basic_rate.into(),
            |it, to| it.basic_rate = to.rate(),
        ),
        Parameter::new(
            "data-rate",
            Kind::Rate { may_be_unlimited: false },
            "The rate of data frames to one station.",
            |it| it.data_rate.into(),
            |it, to| it.data_rate = to.rate(),
        ),
        Parameter::new(
            "range",
            Kind::Number { least: 1.0, most: 1e6 },
            "Metres up to which a frame can be read.",
            |it| it.receive_range.into(),
            |it, to| it.receive_range = to.number(),
        ),
        Parameter::new(
            "sense-range",
            Kind::Number { least: 1.0, most: 1e6 },
            "Metres up to which a frame keeps others from sending and disturbs them.",
            |it| it.sense_range.into(),
            |it, to| it.sense_range = to.number(),
        ),
        Parameter::new(
            "crossover",
            Kind::Number { least: 1.0, most: 1e6 },
            "Metres beyond which power falls with the fourth power of the distance.",
            |it| it.crossover.into(),
            |it, to| it.crossover = to.number(),
        ),
        Parameter::new(
            "capture",
            Kind::Number { least: 0.0, most: 100.0 },
            "How many dB a frame must be above another to survive it.",
            |it| it.capture.into(),
            |it, to| it.capture = to.number(),
        ),
        Parameter::new(
            "rts-threshold",
            Kind::Count { least: 0, most: 65_535, unit: "octets" },
            "The longest data frame, its header included, that is sent without RTS and CTS.",
            |it| it.rts_threshold.into(),
            |it, to| it.rts_threshold = to.count(),
        ),
        Parameter::new(
            "cw-min",
            Kind::Count { least: 0, most: 32_767, unit: "slots" },
            "The longest first back-off.",
            |it| it.cw_min.into(),
            |it, to| it.cw_min = to.count(),
        ),
        Parameter::new(
            "cw-max",
            Kind::Count { least: 0, most: 32_767, unit: "slots" },
            "The longest back-off after failures.",
            |it| it.cw_max.into(),
            |it, to| it.cw_max = to.count(),
        ),
        Parameter::new(
            "short-retries",
            Kind::Count { least: 1, most: 255, unit: "attempts" },
            "How often an RTS, or a data frame without one, is sent before the packet is given up.",
            |it| it.short_retries.into(),
            |it, to| it.short_retries = to.count(),
        ),
        Parameter::new(
            "long-retries",
            Kind::Count { least: 1, most: 255, unit: "attempts" },
            "How often a data frame behind an RTS is sent before the packet is given up.",
            |it| it.long_retries.into(),
            |it, to| it.long_retries = to.count(),
        ),
        Parameter::new(
            "slot",
            Kind::Period { least: MICROSECOND, most: MILLISECOND },
            "A slot of the back-off.",
            |it| it.slot.into(),
            |it, to| it.slot = to.period(),
        ),
        Parameter::new(
            "sifs",
            Kind::Period { least: MICROSECOND, most: MILLISECOND },
            "The gap before an answer; before other frames the gap is two slots longer.",
            |it| it.sifs.into(),
            |it, to| it.sifs = to.period(),
        ),
        Parameter::new(
            "eifs",
            Kind::Period { least: MICROSECOND, most: SECOND },
            "The gap behind a frame that could not be read.",
            |it| it.eifs.into(),
            |it, to| it.eifs = to.period(),
        ),
        Parameter::new(
            "preamble",
            Kind::Period { least: Duration::ZERO, most: SECOND },
            "The preamble and header of the physical layer before each frame.",
            |it| it.preamble.into(),
            |it, to| it.preamble = to.period(),
        ),
        Parameter::new(
            "patience",
            Kind::Period { least: MICROSECOND, most: SECOND },
            "How much later than due an answer is waited for.",
            |it| it.patience.into(),
            |it, to| it.patience = to.period(),
        ),
        Parameter::new(
            "header",
            Kind::Count { least: 0, most: 1_000, unit: "octets" },
            "The header and check sequence of a data frame.",
            |it| it.header.into(),
            |it, to| it.header = to.count(),
        ),
        Parameter::new(
            "link-delay",
            Kind::Period { least: Duration::ZERO, most: SECOND },
            "What the link layer adds in each of the two stations.",
            |it| it.link_delay.into(),
            |it, to| it.link_delay = to.period(),
        ),
        Parameter::new(
            "always-back-off",
            Kind::Flag,
            "Whether a packet that finds the channel free waits a random back-off, as in ns-2.",
            |it| it.always_back_off.into(),
            |it, to| it.always_back_off = to.flag(),
        ),
    ],
    rules: &[
        Rule {
            names: &["range", "sense-range"],
            allowed: "`sense-range` is at least `range`",
            holds: |it| it.sense_range >= it.receive_range,
        },
        Rule {
            names: &["cw-min", "cw-max"],
            allowed: "`cw-max` is at least `cw-min`",
            holds: |it| it.cw_max >= it.cw_min,
        },
    ],
};

const MICROSECOND: Duration = Duration::from_micros(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Counters of a station.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// RTS frames sent.
    pub rts: u64,
    /// CTS frames sent.
    pub cts: u64,
    /// ACK frames sent.
    pub acks: u64,
    /// Data frames sent to one station, repeats included.
    pub data: u64,
    /// Broadcast frames sent.
    pub broadcasts: u64,
    /// RTS frames that no CTS answered.
    pub rts_failures: u64,
    /// Data frames that no ACK answered.
    pub data_failures: u64,
    /// Packets given up after the last attempt.
    pub given_up: u64,
    /// Data frames received for this station, broadcasts included, repeats not.
    pub received: u64,
    /// Data frames received again, because the ACK was lost.
    pub duplicates: u64,
    /// Frames strong enough to be read that others destroyed.
    pub collisions: u64,
    /// Frames strong enough to be read that were missed while this station transmitted.
    pub missed: u64,
    /// RTS frames not answered because the channel was taken.
    pub refused: u64,
    /// How long the station transmitted or sensed others.
    pub busy: Duration,
}

impl Stats {
    /// Adds what another station counted.
    pub fn add(&mut self, other: &Self) {
        self.rts += other.rts;
        self.cts += other.cts;
        self.acks += other.acks;
        self.data += other.data;
        self.broadcasts += other.broadcasts;
        self.rts_failures += other.rts_failures;
        self.data_failures += other.data_failures;
        self.given_up += other.given_up;
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.collisions += other.collisions;
        self.missed += other.missed;
        self.refused += other.refused;
        self.busy += other.busy;
    }
}
