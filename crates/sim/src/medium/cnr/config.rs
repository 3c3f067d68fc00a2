//! Configuration of a combat net radio, and counters of its stations.

use std::time::Duration;

use base::parameter::{Kind, Rule, named, names};
use base::quantity::BitRate;

use super::layout::{MOST_HOPS, MOST_MTU};

/// A station, identified by its index in the net.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

base::parameters! {
    /// Parameters of a combat net. The preset comes first, as it sets all others.
    pub static PARAMETERS = "net";

    /// The properties of a net and its stations.
    ///
    /// `docs/protocols/channels.md` says where each default comes from and how sure it is.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from new(preset: Preset) {
        /// Which radio; it decides on the rate.
        #[allowed(Kind::Word(&names(&Preset::NAMES)))]
        #[set(|it, to| *it = Config::new(named(&Preset::NAMES, to.text()).unwrap_or_default()))]
        pub preset: Preset = preset;

        /// Bits a second on the air.
        #[allowed(Kind::Rate { may_be_unlimited: false })]
        pub rate: BitRate = bits_per_s(16_000), Sincgars1200: bits_per_s(1_200), Sincgars4800: bits_per_s(4_800);

        /// Timing of the equipment.
        pub timing: flat struct Timing {
            /// From the decision to transmit to the first bit (EPRE).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub key_up: Duration = Duration::from_millis(200);

            /// Bits before the transmission header by which receivers get into step (PHASING).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub phasing: Duration = Duration::from_millis(40);

            /// By how much bits leave a receiver later than they entered the sender (ELAG).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub lag: Duration = Duration::from_millis(10);

            /// What a radio needs between receiving and transmitting (TURN).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub turn: Duration = Duration::from_millis(50);

            /// From the end of a frame to the arrival of its packet (DTEPROC).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub dte_processing: Duration = Duration::from_millis(10);

            /// What a terminal needs before it acknowledges at once (DTEACK).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub dte_ack: Duration = Duration::from_millis(20);

            /// By how much the slots behind the second are further apart (DTETURN).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub dte_turn: Duration = Duration::from_millis(10);

            /// The inexactness of clocks that waits allow for (TOL).
            #[allowed(Kind::period(Duration::ZERO..=TEN_SECONDS))]
            pub tolerance: Duration = Duration::from_millis(10);

            /// When a radio notices that another transmits, after it began (NBDT); unless given, that follows from
            /// key-up, phasing, lag and the rate.
            #[allowed(Kind::period(Duration::from_millis(1)..=TEN_SECONDS))]
            pub busy_detect: Option<Duration> = None;

            /// Whether the channel between radio and terminal is synchronous, which halves the bits that a busy net is
            /// noticed by.
            #[allowed(Kind::Flag)]
            pub is_synchronous as "synchronous": bool = true;
        }

        /// What protects frames: nothing, the Golay code of half rate, or that interleaved.
        #[allowed(Kind::Word(&names(&CODINGS)))]
        pub coding: Coding = Coding::Interleaved;

        /// The transmission header with its own protection.
        #[allowed(Kind::count(0..=10_000).of("bits"))]
        pub header_bits: u32 = 192;

        /// The network access delay: as the radio has it, at random, by the rank of stations, at random within a band
        /// of the precedence, or in a rotation.
        #[allowed(Kind::Word(&names(&METHODS)))]
        pub access: AccessMethod = AccessMethod::RadioEmbedded;

        /// Traffic mix expected by H-NAD.
        pub hybrid: struct HybridShares {
            /// The share of urgent frames that H-NAD expects.
            #[allowed(Kind::share(0.0..=1.0))]
            #[only("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid)]
            pub urgent: f64 = 0.1;

            /// The share of frames with priority that H-NAD expects.
            #[allowed(Kind::share(0.0..=1.0))]
            #[only("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid)]
            pub priority: f64 = 0.3;

            /// By which the bands of H-NAD are wider than the number of stations asks for.
            #[allowed(Kind::number(0.1..=10.0))]
            #[only("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid)]
            pub load_factor: f64 = 1.0;
        }

        /// How RE-NAD schedules.
        pub scheduling: struct Scheduling {
            /// The longest interval of RE-NAD, in transmissions of all stations at full load (k).
            #[allowed(Kind::number(0.0..=10.0))]
            #[only("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded)]
            pub factor: f64 = 0.5;

            /// The probability that a radio takes a slot of RE-NAD (p).
            #[allowed(Kind::share(0.001..=1.0))]
            #[only("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded)]
            pub persistence: f64 = 0.25;

            /// Over which time RE-NAD averages the load.
            #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
            #[only("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded)]
            pub memory: Duration = Duration::from_secs(30);
        }

        /// How packets to one station are acknowledged: not at all (type 1), at once behind the transmission (type 3),
        /// or each by a frame of its own (type 4).
        #[allowed(Kind::Word(&names(&LINK_TYPES)))]
        pub link_type as "acknowledgement": LinkType = LinkType::Unacknowledged;

        /// How often a frame that is not acknowledged is sent again.
        #[allowed(Kind::count(0..=20))]
        pub retries: u8 = 2;

        /// How long an acknowledgement of type 4 is waited for.
        #[allowed(Kind::period(Duration::from_millis(100)..=Duration::from_secs(600)))]
        pub ack_timer: Duration = Duration::from_secs(20);

        /// Frames of type 4 that a station may have sent and not had acknowledged.
        #[allowed(Kind::count(1..=16).of("frames"))]
        pub window: u8 = 7;

        /// Packets that share a transmission have so many octets together at most; with 0 each has its own.
        #[allowed(Kind::count(0..=65_535).of("octets"))]
        pub concatenate: u32 = 1_500;

        /// The probability that a station does not get a frame that no other transmission disturbed.
        #[allowed(Kind::share(0.0..=1.0))]
        pub loss: f64 = 0.02;

        /// Packets of each precedence that may wait in a station.
        #[allowed(Kind::count(1..=100_000).of("packets"))]
        pub queue: usize = 50;

        /// The longest IP packet.
        #[allowed(Kind::count(576..=MOST_MTU).of("octets"))]
        pub mtu: usize = 576;

        /// How many hops a packet may take, relays included.
        #[allowed(Kind::count(1..=MOST_HOPS as u64).of("hops"))]
        pub max_hops: u8 = 6;

        /// The least time between two topology updates of a station; with 0s there are none.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(7_200)))]
        pub topology_spacing: Duration = Duration::from_mins(2);

        /// Metres up to which stations with places hear each other.
        #[allowed(Kind::number(1.0..=1e6))]
        pub range: f64 = 8_000.0;

        /// How many dB a transmission must be above another to survive it, where stations have places.
        #[allowed(Kind::number(0.0..=100.0))]
        pub capture: f64 = 6.0;
    }

    rules [Rule {
        names: &["hybrid.urgent", "hybrid.priority"],
        allowed: "`hybrid.urgent` and `hybrid.priority` are at most 1 together",
        holds: |it: &Config| it.hybrid.urgent + it.hybrid.priority <= 1.0,
    }]
}

/// When a station may transmit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AccessMethod {
    /// DAP-NAD: in a rotation.
    DeterministicAdaptive,
    /// H-NAD: at random within the band of the precedence.
    Hybrid,
    /// P-NAD: by the rank of the station.
    Prioritised,
    /// RE-NAD: as the radio has it.
    #[default]
    RadioEmbedded,
    /// R-NAD: at random.
    Random,
}

/// How packets to one station are acknowledged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LinkType {
    /// Type 1: not at all.
    #[default]
    Unacknowledged,
    /// Type 3: at once, in a slot behind the transmission.
    Coupled,
    /// Type 4: each frame by a frame that its receiver sends in its own time.
    Decoupled,
}

/// Error protection of the frames in a transmission.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Coding {
    /// The Golay code of half rate.
    Golay,
    /// The same, interleaved over sixteen code words (TDC).
    #[default]
    Interleaved,
    /// Nothing.
    Plain,
}

/// Radios with known figures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Preset {
    /// SINCGARS with 1200 bit/s, where range counts.
    Sincgars1200,
    /// SINCGARS with 16 kbit/s.
    #[default]
    Sincgars16k,
    /// SINCGARS with 4800 bit/s.
    Sincgars4800,
}

impl Preset {
    /// The names used in files.
    pub const NAMES: [(&str, Self); 3] = [
        ("sincgars-16k", Self::Sincgars16k),
        ("sincgars-4800", Self::Sincgars4800),
        ("sincgars-1200", Self::Sincgars1200),
    ];
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Preset::default())
    }
}

/// Counters of a station.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Transmissions with packets or type 4 acknowledgements.
    pub transmissions: u64,
    /// Frames with packets transmitted, repeats included.
    pub frames: u64,
    /// Of those, repeats.
    pub repeats: u64,
    /// Acknowledgements transmitted.
    pub acks: u64,
    /// Topology updates transmitted.
    pub updates: u64,
    /// Packets received for its node.
    pub received: u64,
    /// Packets received to be passed on.
    pub relayed: u64,
    /// Frames received again, because the acknowledgement was lost.
    pub duplicates: u64,
    /// Audible transmissions of other stations destroyed by collisions.
    pub collisions: u64,
    /// Transmissions of other stations missed while the station itself transmitted.
    pub missed: u64,
    /// Frames for the station destroyed by noise alone.
    pub residual_losses: u64,
    /// Packets given up after the last attempt.
    pub given_up: u64,
    /// Packets of each precedence dropped because the queue was full: urgent, priority, routine.
    pub dropped: [u64; 3],
    /// Packets dropped because no way leads to their receiver within the hops allowed.
    pub no_way: u64,
    /// Packets refused because a frame cannot carry so many octets.
    pub too_long: u64,
    /// Acknowledgements of type 4 dropped because too many waited.
    pub acks_dropped: u64,
    /// How long it transmitted.
    pub keyed: Duration,
    /// How long it transmitted or noticed others.
    pub busy: Duration,
}

impl Stats {
    /// Adds what another station counted.
    pub fn add(&mut self, other: &Self) {
        self.transmissions += other.transmissions;
        self.frames += other.frames;
        self.repeats += other.repeats;
        self.acks += other.acks;
        self.updates += other.updates;
        self.received += other.received;
        self.relayed += other.relayed;
        self.duplicates += other.duplicates;
        self.collisions += other.collisions;
        self.missed += other.missed;
        self.residual_losses += other.residual_losses;
        self.given_up += other.given_up;
        for (own, other) in self.dropped.iter_mut().zip(other.dropped) {
            *own += other;
        }
        self.no_way += other.no_way;
        self.too_long += other.too_long;
        self.acks_dropped += other.acks_dropped;
        self.keyed += other.keyed;
        self.busy += other.busy;
    }
}

base::words!(AccessMethod: METHODS, Coding: CODINGS, LinkType: LINK_TYPES, Preset: Preset::NAMES);

const METHODS: [(&str, AccessMethod); 5] = [
    ("re-nad", AccessMethod::RadioEmbedded),
    ("r-nad", AccessMethod::Random),
    ("p-nad", AccessMethod::Prioritised),
    ("h-nad", AccessMethod::Hybrid),
    ("dap-nad", AccessMethod::DeterministicAdaptive),
];

const CODINGS: [(&str, Coding); 3] =
    [("none", Coding::Plain), ("golay", Coding::Golay), ("golay-tdc", Coding::Interleaved)];

const LINK_TYPES: [(&str, LinkType); 3] = [
    ("none", LinkType::Unacknowledged),
    ("coupled", LinkType::Coupled),
    ("decoupled", LinkType::Decoupled),
];

fn bits_per_s(bits: u64) -> BitRate {
    BitRate::from_bits_per_s(bits).expect("it is more than 0")
}

const TEN_SECONDS: Duration = Duration::from_secs(10);
