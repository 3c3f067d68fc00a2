//! Configuration of a combat net radio, and counters of its stations.

use std::time::Duration;

use base::quantity::BitRate;

/// A station, identified by its index in the net.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StationId(pub usize);

/// The properties of a net and its stations.
///
/// `docs/protocols/channels.md` says where each default comes from and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which radio the other defaults describe.
    pub preset: Preset,
    /// Bits a second on the air.
    pub rate: BitRate,
    /// Timing of the equipment.
    pub timing: Timing,
    /// Error protection of the frames in a transmission.
    pub coding: Coding,
    /// Bits of the transmission header, its own protection included.
    pub header_bits: u32,
    /// When a station may transmit.
    pub access: AccessMethod,
    /// Expected traffic mix for [`AccessMethod::Hybrid`].
    pub hybrid: HybridShares,
    /// How [`AccessMethod::RadioEmbedded`] schedules.
    pub scheduling: Scheduling,
    /// How packets to one station are acknowledged.
    pub link_type: LinkType,
    /// How often a frame without an acknowledgement is sent again.
    pub retries: u8,
    /// How long an acknowledgement of type 4 is waited for.
    pub ack_timer: Duration,
    /// Frames of type 4 that may be on their way unacknowledged.
    pub window: u8,
    /// Octets of packets up to which frames share a transmission.
    pub concatenate: u32,
    /// The probability of losing a frame at a station without any interference.
    pub loss: f64,
    /// Packets of each precedence that may wait in a station.
    pub queue: usize,
    /// The longest IP packet.
    pub mtu: usize,
    /// How many hops a packet may take.
    pub max_hops: u8,
    /// The least time between two topology updates of a station; zero for no updates.
    pub topology_spacing: Duration,
    /// Metres up to which stations with positions hear each other.
    pub range: f64,
    /// How many dB a transmission must be above another to survive it, where stations have places.
    pub capture: f64,
}

/// Timing of the equipment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From the decision to transmit to the first bit (EPRE).
    pub key_up: Duration,
    /// Bits before the transmission header by which receivers get into step (PHASING).
    pub phasing: Duration,
    /// Delay of bits from entering the sender to leaving a receiver, caused by equipment (ELAG).
    pub lag: Duration,
    /// From receiving to transmitting and back (TURN).
    pub turn: Duration,
    /// From the end of a frame to its packet at the receiver's network layer (DTEPROC).
    pub dte_processing: Duration,
    /// What a terminal needs to acknowledge (DTEACK).
    pub dte_ack: Duration,
    /// What a terminal needs to turn round (DTETURN).
    pub dte_turn: Duration,
    /// The inexactness of clocks (TOL).
    pub tolerance: Duration,
    /// When a radio notices that another transmits, after its begin; unless it follows from the others.
    pub busy_detect: Option<Duration>,
    /// Whether the channel between radio and terminal is synchronous.
    pub is_synchronous: bool,
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

/// Traffic mix expected by H-NAD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HybridShares {
    /// The share of urgent frames.
    pub urgent: f64,
    /// The share of frames with priority.
    pub priority: f64,
    /// Factor on the width of all bands: 1.2 for heavy, 0.8 for light load.
    pub load_factor: f64,
}

/// How RE-NAD schedules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheduling {
    /// The longest interval, in transmissions of all stations at full load (k).
    pub factor: f64,
    /// The probability that a radio takes a slot.
    pub persistence: f64,
    /// Over which time the load is averaged.
    pub memory: Duration,
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

impl Config {
    /// Creates the configuration for a net of such radios.
    #[must_use]
    pub fn new(preset: Preset) -> Self {
        let bits_per_s = match preset {
            Preset::Sincgars1200 => 1_200,
            Preset::Sincgars16k => 16_000,
            Preset::Sincgars4800 => 4_800,
        };
        let millis = Duration::from_millis;
        Self {
            preset,
            rate: BitRate::from_bits_per_s(bits_per_s).expect("it is more than 0"),
            timing: Timing {
                key_up: millis(200),
                phasing: millis(40),
                lag: millis(10),
                turn: millis(50),
                dte_processing: millis(10),
                dte_ack: millis(20),
                dte_turn: millis(10),
                tolerance: millis(10),
                busy_detect: None,
                is_synchronous: true,
            },
            coding: Coding::Interleaved,
            header_bits: 192,
            access: AccessMethod::RadioEmbedded,
            hybrid: HybridShares { urgent: 0.1, priority: 0.3, load_factor: 1.0 },
            scheduling: Scheduling {
                factor: 0.5,
                persistence: 0.25,
                memory: Duration::from_secs(30),
            },
            link_type: LinkType::Unacknowledged,
            retries: 2,
            ack_timer: Duration::from_secs(20),
            window: 7,
            concatenate: 1_500,
            loss: 0.02,
            queue: 50,
            mtu: 576,
            max_hops: 6,
            topology_spacing: Duration::from_mins(2),
            range: 8_000.0,
            capture: 6.0,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Preset::default())
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
