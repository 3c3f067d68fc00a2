//! Configuration parameters of a combat net.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value, named, names, word};

use super::airtime::{AirTime, MOST_INFORMATION};
use super::config::{AccessMethod, Coding, Config, LinkType, Preset};
use super::hearing::MOST_HOPS;

/// Parameters of a combat net. The preset comes first, as it sets all others.
pub static PARAMETERS: Table<Config> = Table {
    name: "net",
    parameters: &[
        Parameter::new(
            "preset",
            Kind::Word(&names(&Preset::NAMES)),
            "Which radio; it decides on the rate.",
            |it| word(&Preset::NAMES, &it.preset),
            |it, to| *it = Config::new(named(&Preset::NAMES, to.text()).unwrap_or_default()),
        ),
        Parameter::new(
            "rate",
            Kind::Rate { may_be_unlimited: false },
            "Bits a second on the air.",
            |it| it.rate.into(),
            |it, to| it.rate = to.rate(),
        ),
        Parameter::new(
            "key-up",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "From the decision to transmit to the first bit (EPRE).",
            |it| it.timing.key_up.into(),
            |it, to| it.timing.key_up = to.period(),
        ),
        Parameter::new(
            "phasing",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "Bits before the transmission header by which receivers get into step (PHASING).",
            |it| it.timing.phasing.into(),
            |it, to| it.timing.phasing = to.period(),
        ),
        Parameter::new(
            "lag",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "By how much bits leave a receiver later than they entered the sender (ELAG).",
            |it| it.timing.lag.into(),
            |it, to| it.timing.lag = to.period(),
        ),
        Parameter::new(
            "turn",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "What a radio needs between receiving and transmitting (TURN).",
            |it| it.timing.turn.into(),
            |it, to| it.timing.turn = to.period(),
        ),
        Parameter::new(
            "dte-processing",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "From the end of a frame to the arrival of its packet (DTEPROC).",
            |it| it.timing.dte_processing.into(),
            |it, to| it.timing.dte_processing = to.period(),
        ),
        Parameter::new(
            "dte-ack",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "What a terminal needs before it acknowledges at once (DTEACK).",
            |it| it.timing.dte_ack.into(),
            |it, to| it.timing.dte_ack = to.period(),
        ),
        Parameter::new(
            "dte-turn",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "By how much the slots behind the second are further apart (DTETURN).",
            |it| it.timing.dte_turn.into(),
            |it, to| it.timing.dte_turn = to.period(),
        ),
        Parameter::new(
            "tolerance",
            Kind::Period { least: Duration::ZERO, most: TEN_SECONDS },
            "The inexactness of clocks that waits allow for (TOL).",
            |it| it.timing.tolerance.into(),
            |it, to| it.timing.tolerance = to.period(),
        ),
        Parameter::new(
            "busy-detect",
            Kind::Period { least: Duration::from_millis(1), most: TEN_SECONDS },
            "When a radio notices that another transmits, after it began (NBDT); unless given, that follows \
             from key-up, phasing, lag and the rate.",
            |it| it.timing.busy_detect.map_or(Value::Absent, Into::into),
            |it, to| it.timing.busy_detect = Some(to.period()),
        ),
        Parameter::new(
            "synchronous",
            Kind::Flag,
            "Whether the channel between radio and terminal is synchronous, which halves the bits that a \
             busy net is noticed by.",
            |it| it.timing.is_synchronous.into(),
            |it, to| it.timing.is_synchronous = to.flag(),
        ),
        Parameter::new(
            "coding",
            Kind::Word(&names(&CODINGS)),
            "What protects frames: nothing, the Golay code of half rate, or that interleaved.",
            |it| word(&CODINGS, &it.coding),
            |it, to| it.coding = named(&CODINGS, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "header-bits",
            Kind::Count { least: 0, most: 10_000, unit: "bits" },
            "The transmission header with its own protection.",
            |it| it.header_bits.into(),
            |it, to| it.header_bits = to.count(),
        ),
        Parameter::new(
            "access",
            Kind::Word(&names(&METHODS)),
            "The network access delay: as the radio has it, at random, by the rank of stations, at random \
             within a band of the precedence, or in a rotation.",
            |it| word(&METHODS, &it.access),
            |it, to| it.access = named(&METHODS, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "hybrid.urgent",
            Kind::Share { least: 0.0, most: 1.0 },
            "The share of urgent frames that H-NAD expects.",
            |it: &Config| Value::Share(it.hybrid.urgent),
            |it, to| it.hybrid.urgent = to.number(),
        )
        .only_with("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid),
        Parameter::new(
            "hybrid.priority",
            Kind::Share { least: 0.0, most: 1.0 },
            "The share of frames with priority that H-NAD expects.",
            |it: &Config| Value::Share(it.hybrid.priority),
            |it, to| it.hybrid.priority = to.number(),
        )
        .only_with("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid),
        Parameter::new(
            "hybrid.load-factor",
            Kind::Number { least: 0.1, most: 10.0 },
            "By which the bands of H-NAD are wider than the number of stations asks for.",
            |it: &Config| it.hybrid.load_factor.into(),
            |it, to| it.hybrid.load_factor = to.number(),
        )
        .only_with("access = \"h-nad\"", |it| it.access == AccessMethod::Hybrid),
        Parameter::new(
            "scheduling.factor",
            Kind::Number { least: 0.0, most: 10.0 },
            "The longest interval of RE-NAD, in transmissions of all stations at full load (k).",
            |it: &Config| it.scheduling.factor.into(),
            |it, to| it.scheduling.factor = to.number(),
        )
        .only_with("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded),
        Parameter::new(
            "scheduling.persistence",
            Kind::Share { least: 0.001, most: 1.0 },
            "The probability that a radio takes a slot of RE-NAD (p).",
            |it: &Config| Value::Share(it.scheduling.persistence),
            |it, to| it.scheduling.persistence = to.number(),
        )
        .only_with("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded),
        Parameter::new(
            "scheduling.memory",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(3_600) },
            "Over which time RE-NAD averages the load.",
            |it: &Config| it.scheduling.memory.into(),
            |it, to| it.scheduling.memory = to.period(),
        )
        .only_with("access = \"re-nad\"", |it| it.access == AccessMethod::RadioEmbedded),
        Parameter::new(
            "acknowledgement",
            Kind::Word(&names(&LINK_TYPES)),
            "How packets to one station are acknowledged: not at all (type 1), at once behind the \
             transmission (type 3), or each by a frame of its own (type 4).",
            |it| word(&LINK_TYPES, &it.link_type),
            |it, to| it.link_type = named(&LINK_TYPES, to.text()).unwrap_or_default(),
        ),
        Parameter::new(
            "retries",
            Kind::Count { least: 0, most: 20, unit: "" },
            "How often a frame that is not acknowledged is sent again.",
            |it| it.retries.into(),
            |it, to| it.retries = to.count(),
        ),
        Parameter::new(
            "ack-timer",
            Kind::Period { least: Duration::from_millis(100), most: Duration::from_secs(600) },
            "How long an acknowledgement of type 4 is waited for.",
            |it| it.ack_timer.into(),
            |it, to| it.ack_timer = to.period(),
        ),
        Parameter::new(
            "window",
            Kind::Count { least: 1, most: 16, unit: "frames" },
            "Frames of type 4 that a station may have sent and not had acknowledged.",
            |it| it.window.into(),
            |it, to| it.window = to.count(),
        ),
        Parameter::new(
            "concatenate",
            Kind::Count { least: 0, most: 65_535, unit: "octets" },
            "Packets that share a transmission have so many octets together at most; with 0 each has its own.",
            |it| it.concatenate.into(),
            |it, to| it.concatenate = to.count(),
        ),
        Parameter::new(
            "loss",
            Kind::Share { least: 0.0, most: 1.0 },
            "The probability that a station does not get a frame that no other transmission disturbed.",
            |it: &Config| Value::Share(it.loss),
            |it, to| it.loss = to.number(),
        ),
        Parameter::new(
            "queue",
            Kind::Count { least: 1, most: 100_000, unit: "packets" },
            "Packets of each precedence that may wait in a station.",
            |it| it.queue.into(),
            |it, to| it.queue = to.count(),
        ),
        Parameter::new(
            "mtu",
            Kind::Count { least: 576, most: MOST_MTU, unit: "octets" },
            "The longest IP packet.",
            |it| it.mtu.into(),
            |it, to| it.mtu = to.count(),
        ),
        Parameter::new(
            "max-hops",
            Kind::Count { least: 1, most: MOST_HOPS as u64, unit: "hops" },
            "How many hops a packet may take, relays included.",
            |it| it.max_hops.into(),
            |it, to| it.max_hops = to.count(),
        ),
        Parameter::new(
            "topology-spacing",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(7_200) },
            "The least time between two topology updates of a station; with 0s there are none.",
            |it| it.topology_spacing.into(),
            |it, to| it.topology_spacing = to.period(),
        ),
        Parameter::new(
            "range",
            Kind::Number { least: 1.0, most: 1e6 },
            "Metres up to which stations with places hear each other.",
            |it| it.range.into(),
            |it, to| it.range = to.number(),
        ),
        Parameter::new(
            "capture",
            Kind::Number { least: 0.0, most: 100.0 },
            "How many dB a transmission must be above another to survive it, where stations have places.",
            |it| it.capture.into(),
            |it, to| it.capture = to.number(),
        ),
    ],
    rules: &[Rule {
        names: &["hybrid.urgent", "hybrid.priority"],
        allowed: "`hybrid.urgent` and `hybrid.priority` are at most 1 together",
        holds: |it: &Config| it.hybrid.urgent + it.hybrid.priority <= 1.0,
    }],
};

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

/// What the information field has room for behind the longest intranet header.
const MOST_MTU: u64 = (MOST_INFORMATION - AirTime::MOST_INTRANET) as u64;

const TEN_SECONDS: Duration = Duration::from_secs(10);
