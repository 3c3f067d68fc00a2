//! Configuration of radios on one channel, and counters of their stations.

use std::time::Duration;

use base::parameter::{Kind, Rule};
use base::quantity::BitRate;

/// A station, identified by its index in the medium.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

base::parameters! {
    /// Parameters of a radio channel.
    pub static PARAMETERS = "radio";

    /// The properties of a radio channel and its stations.
    ///
    /// The defaults are those of ns-2's model of a 914 MHz WaveLAN card with basic frames at 1 Mbit/s;
    /// `docs/protocols/channels.md` says where each comes from.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from default() {
        /// The rate of RTS, CTS, ACK and broadcast frames.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        pub basic_rate: BitRate = bits_per_s(1_000_000);

        /// The rate of data frames to one station.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        pub data_rate: BitRate = bits_per_s(2_000_000);

        /// Metres up to which a frame can be read.
        #[allowed(Kind::number(1.0..=1e6))]
        pub receive_range as "range": f64 = 250.0;

        /// Metres up to which a frame keeps others from sending and disturbs them.
        #[allowed(Kind::number(1.0..=1e6))]
        pub sense_range: f64 = 550.0;

        /// Metres beyond which power falls with the fourth power of the distance.
        #[allowed(Kind::number(1.0..=1e6))]
        pub crossover: f64 = 86.1;

        /// How many dB a frame must be above another to survive it.
        #[allowed(Kind::number(0.0..=100.0))]
        pub capture: f64 = 10.0;

        /// The longest data frame, its header included, that is sent without RTS and CTS.
        #[allowed(Kind::count(0..=65_535).of("octets"))]
        pub rts_threshold: u32 = 0;

        /// The longest first back-off.
        #[allowed(Kind::count(0..=32_767).of("slots"))]
        pub cw_min: u32 = 31;

        /// The longest back-off after failures.
        #[allowed(Kind::count(0..=32_767).of("slots"))]
        pub cw_max: u32 = 1_023;

        /// How often an RTS, or a data frame without one, is sent before the packet is given up.
        #[allowed(Kind::count(1..=255).of("attempts"))]
        pub short_retries: u8 = 7;

        /// How often a data frame behind an RTS is sent before the packet is given up.
        #[allowed(Kind::count(1..=255).of("attempts"))]
        pub long_retries: u8 = 4;

        /// A slot of the back-off.
        #[allowed(Kind::period(MICROSECOND..=MILLISECOND))]
        pub slot: Duration = Duration::from_micros(20);

        /// The gap before an answer; before other frames the gap is two slots longer.
        #[allowed(Kind::period(MICROSECOND..=MILLISECOND))]
        pub sifs: Duration = Duration::from_micros(10);

        /// The gap behind a frame that could not be read.
        #[allowed(Kind::period(MICROSECOND..=SECOND))]
        pub eifs: Duration = Duration::from_micros(364);

        /// The preamble and header of the physical layer before each frame.
        #[allowed(Kind::period(Duration::ZERO..=SECOND))]
        pub preamble: Duration = Duration::from_micros(192);

        /// How much later than due an answer is waited for.
        #[allowed(Kind::period(MICROSECOND..=SECOND))]
        pub patience: Duration = Duration::from_micros(4);

        /// The header and check sequence of a data frame.
        #[allowed(Kind::count(0..=1_000).of("octets"))]
        pub header: u32 = 34;

        /// What the link layer adds in each of the two stations.
        #[allowed(Kind::period(Duration::ZERO..=SECOND))]
        pub link_delay: Duration = Duration::from_micros(25);

        /// Whether a packet that finds the channel free waits a random back-off, as in ns-2.
        #[allowed(Kind::Flag)]
        pub always_back_off: bool = true;
    }

    rules [
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
    ]
}

fn bits_per_s(bits: u64) -> BitRate {
    BitRate::from_bits_per_s(bits).expect("it is more than 0")
}

const MICROSECOND: Duration = Duration::from_micros(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

base::counters! {
    /// Counters of a station.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// RTS frames sent.
        pub rts: counter(frames);
        /// CTS frames sent.
        pub cts: counter(frames);
        /// ACK frames sent.
        pub acks: counter(frames);
        /// Data frames sent to one station, repeats included.
        pub data: counter(frames);
        /// Broadcast frames sent.
        pub broadcasts: counter(frames);
        /// RTS frames that no CTS answered.
        pub rts_failures: counter(frames);
        /// Data frames that no ACK answered.
        pub data_failures: counter(frames);
        /// Packets given up after the last attempt.
        pub given_up: counter(packets);
        /// Data frames received for this station, broadcasts included, repeats not.
        pub received: counter(frames);
        /// Data frames received again, because the ACK was lost.
        pub duplicates: counter(frames);
        /// Frames strong enough to be read that others destroyed.
        pub collisions: counter(frames);
        /// Frames strong enough to be read that were missed while this station transmitted.
        pub missed: counter(frames);
        /// RTS frames not answered because the channel was taken.
        pub refused: counter(frames);
        /// How long the station transmitted or sensed others.
        pub busy as "busy_ms": counter(ms) in Duration;
    }
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
