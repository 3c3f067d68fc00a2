//! Configuration of segmentation and reassembly, with defaults.

use std::time::Duration;

/// The rules of a node. The wire format is the same, so nodes of different profiles can communicate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Profile {
    /// S/R Basic of MIL-STD-2045-47001D.
    Basic,
    /// Adaptive timeouts and windows, flow control, coded repairs.
    #[default]
    Default,
    /// MIL-STD-2045-47001B and C.
    Early,
    /// S/R Enhanced of MIL-STD-2045-47001D.
    Enhanced,
    /// As described by Liu for MIL-STD-2045-14502-1A: fixed timers, all is sent again.
    Seed,
}

impl Profile {
    /// As users call them.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("default", Self::Default),
        ("seed", Self::Seed),
        ("early", Self::Early),
        ("basic", Self::Basic),
        ("enhanced", Self::Enhanced),
    ];

    /// Whether answers are asked for by P.
    pub(super) const fn polls(self) -> bool {
        matches!(self, Self::Basic | Self::Default | Self::Enhanced)
    }

    /// Whether segments may follow one that was sent with P before the answer has come.
    pub(super) const fn slides(self) -> bool {
        matches!(self, Self::Default | Self::Enhanced)
    }

    /// Whether a window bounds what is sent and not acknowledged.
    pub(super) const fn has_window(self) -> bool {
        self.polls()
    }
}

/// The parameters of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which rules it keeps.
    pub profile: Profile,
    /// Octets of a segment: what fits without being fragmented.
    pub segment: u16,
    /// Whether all nodes of the net understand repairs, so that this node may send repairs.
    pub coding: bool,
    /// How often what is tried again.
    pub retries: Retries,
    /// What may be under way.
    pub flow: Flow,
    /// How long is waited for what.
    pub times: Times,
    /// What is kept at most.
    pub limits: Limits,
}

/// How often what is tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retries {
    /// Times that a destination is asked for an answer, the first one included (RFARL).
    pub requests: u8,
    /// How often to resend a segment that a destination reports missing (SRCL).
    pub segment: u8,
    /// Whether the first transmission of a segment counts too, as in the standard's example but not in its pseudo-code.
    pub first_counts: bool,
    /// Partial acknowledgements that a receiver sends of its own when segments stay away (RTECL).
    pub assembly: u8,
}

/// What may be under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// Segments of a transfer without acknowledgement (SCL); where windows adapt, at first.
    pub credit: u16,
    /// The same at most, where windows adapt.
    pub most_credit: u16,
    /// At so many of them an answer is asked for (SCT), where segments may follow a P.
    pub ask_at: u16,
    /// A receiver answers unasked when so many segments have come; 0 is never (RSCT).
    pub unasked: u16,
    /// Octets of all transfers without acknowledgement; where windows adapt, at least.
    pub queue: u32,
    /// The same at most, where windows adapt.
    pub most_queue: u32,
    /// Between two segments (ISST).
    pub spacing: Duration,
    /// Transfers of a precedence or higher ones at a time.
    pub transfers: u16,
    /// The same to one destination.
    pub transfers_of_peer: u16,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// The round trip to a destination of which nothing is known; the timeout itself where timers are fixed.
    pub round_trip: Duration,
    /// By so much a timeout is longer than the mean round trip at least, where timeouts adapt.
    pub least_timeout: Duration,
    /// The longest timeout (`MAX_RFAIT`).
    pub most_timeout: Duration,
    /// Between two segments of a transfer when nothing is known (IISRIT); the whole assembly where timers are fixed.
    pub gap: Duration,
    /// How long a receiver waits for the next segment at most (`MAX_ISRIT`).
    pub most_gap: Duration,
    /// How long measurements of a destination count.
    pub cache: Duration,
    /// How long a receiver knows a finished transfer.
    pub remember: Duration,
    /// How long a serial number is not used again at most.
    pub serial_rest: Duration,
    /// Over how long answers to what was sent to a group are spread.
    pub spread: Duration,
}

/// What is kept at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Octets of a message, sent or received.
    pub message: u32,
    /// Destinations of a message.
    pub destinations: usize,
    /// Messages that wait; one to several destinations without a group counts for each.
    pub waiting: usize,
    /// Their octets.
    pub waiting_octets: usize,
    /// Transfers that are being received.
    pub reassemblies: usize,
    /// Their octets.
    pub reassembly_octets: usize,
    /// Finished transfers that a receiver knows.
    pub remembered: usize,
    /// Most destinations whose distance is remembered.
    pub peers: usize,
    /// Answers that wait to be sent.
    pub answers: usize,
    /// Answers a second about transfers that are not known.
    pub strange_answers: u32,
}

impl Config {
    /// The parameters that a profile starts with.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let seconds = Duration::from_secs;
        let usual = Self {
            profile,
            segment: 496,
            coding: false,
            retries: Retries { requests: 3, segment: 2, first_counts: false, assembly: 3 },
            flow: Flow {
                credit: 5,
                most_credit: 5,
                ask_at: 4,
                unasked: 0,
                queue: 16 << 10,
                most_queue: 16 << 10,
                spacing: Duration::ZERO,
                transfers: 256,
                transfers_of_peer: 64,
            },
            times: Times {
                round_trip: seconds(10),
                least_timeout: Duration::from_millis(200),
                most_timeout: seconds(60),
                gap: seconds(10),
                most_gap: seconds(210),
                cache: seconds(3_600),
                remember: seconds(3_600),
                serial_rest: seconds(120),
                spread: seconds(1),
            },
            limits: Limits {
                message: 1 << 20,
                destinations: 16,
                waiting: 100_000,
                waiting_octets: 128 << 20,
                reassemblies: 16_384,
                reassembly_octets: 16 << 20,
                remembered: 200_000,
                peers: 4_096,
                answers: 4_096,
                strange_answers: 20,
            },
        };
        match profile {
            Profile::Basic => Self {
                times: Times { round_trip: seconds(30), gap: seconds(30), ..usual.times },
                ..usual
            },
            Profile::Default => Self {
                retries: Retries { requests: 5, segment: 5, ..usual.retries },
                flow: Flow {
                    most_credit: 2_048,
                    most_queue: 2 << 20,
                    transfers: 8_192,
                    transfers_of_peer: 4_096,
                    ..usual.flow
                },
                ..usual
            },
            Profile::Early | Profile::Seed => Self {
                times: Times { round_trip: seconds(20), gap: seconds(15), ..usual.times },
                ..usual
            },
            Profile::Enhanced => Self {
                retries: Retries { requests: 2, segment: 1, ..usual.retries },
                flow: Flow { unasked: 2, ..usual.flow },
                ..usual
            },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Profile::default())
    }
}
