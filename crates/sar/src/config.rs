//! Configuration of segmentation and reassembly, with defaults.

use std::time::Duration;

use base::parameter::{Kind, MOST_MEMORY, Rule, named, names};

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
    pub(crate) const fn polls(self) -> bool {
        matches!(self, Self::Basic | Self::Default | Self::Enhanced)
    }

    /// Whether segments may follow one that was sent with P before the answer has come.
    pub(crate) const fn slides(self) -> bool {
        matches!(self, Self::Default | Self::Enhanced)
    }

    /// Whether a window bounds what is sent and not acknowledged.
    pub(crate) const fn has_window(self) -> bool {
        self.polls()
    }
}

base::words!(Profile: Profile::NAMES);

base::parameters! {
    /// The settings of segmentation and reassembly.
    pub static PARAMETERS = "sar";

    /// The parameters of a node.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config from of(profile: Profile) {
        /// Which rules the node keeps; it decides on the defaults of all the others.
        #[allowed(Kind::Word(&names(&Profile::NAMES)))]
        #[set(|it, to| *it = Config::of(named(&Profile::NAMES, to.text()).unwrap_or_default()))]
        pub profile: Profile = profile;

        /// The longest segment: 496 octets fit into an IPv4 datagram that is never fragmented.
        #[allowed(Kind::count(16..=3_078).of("octets"))]
        pub segment: u16 = 496;

        /// Whether all nodes of the net understand repairs, which one sender may then send to several destinations that
        /// lost different segments.
        #[allowed(Kind::Flag)]
        pub coding: bool = false;

        /// How often what is tried again.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub retries: flat struct Retries {
            /// How often a destination is asked for an answer until it is given up (RFARL); by profile `default` a
            /// message with a lifetime waits for it until that ends.
            #[allowed(Kind::count(1..=50))]
            pub requests: u8 = 3, Default: 5, Enhanced: 2;

            /// How often a segment is sent again that a destination says is missing (SRCL); by profile `default` one
            /// with a lifetime is then tried more and more rarely.
            #[allowed(Kind::count(0..=50))]
            pub segment as "segment-retries": u8 = 2, Default: 5, Enhanced: 1;

            /// Whether the first time that a segment is sent counts as one of these retries, as in an example of the
            /// standard.
            #[allowed(Kind::Flag)]
            pub first_counts: bool = false;

            /// How often a receiver says of its own what is missing until it gives up (RTECL).
            #[allowed(Kind::count(0..=50))]
            pub assembly as "assembly-retries": u8 = 3;
        }

        /// What may be under way.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub flow: flat struct Flow {
            /// How much of a transfer may be under way without an acknowledgement (SCL); by profile `default` only at
            /// first.
            #[allowed(Kind::count(1..=3_216).of("segments"))]
            pub credit: u16 = 5;

            /// The same at most, where it grows with success.
            #[allowed(Kind::count(1..=3_216).of("segments"))]
            pub most_credit: u16 = 5, Default: 2_048;

            /// So much under way makes a sender ask for an answer while it goes on (SCT).
            // Where segments may follow a P.
            #[allowed(Kind::count(1..=3_216).of("segments"))]
            pub ask_at: u16 = 4;

            /// After so many a receiver answers unasked (RSCT); never with 0.
            #[allowed(Kind::count(0..=3_216).of("segments"))]
            pub unasked: u16 = 0, Enhanced: 2;

            /// What all transfers may have under way, so that queues below stay short; the upper quarter is for
            /// precedence immediate and above; by profile `default` only at first.
            #[allowed(Kind::count(576..=1 << 30).of("octets"))]
            pub queue: u32 = 16 << 10;

            /// The same at most, where it grows.
            #[allowed(Kind::count(576..=1 << 30).of("octets"))]
            pub most_queue: u32 = 16 << 10, Default: 2 << 20;

            /// Between two segments (ISST).
            #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(600)))]
            pub spacing: Duration = Duration::ZERO;

            /// Transfers at a time of a precedence or higher ones.
            #[allowed(Kind::count(1..=10_000))]
            pub transfers: u16 = 256, Default: 8_192;

            /// The same to one destination; one that has never answered has 8, one that does not answer 1.
            #[allowed(Kind::count(1..=10_000))]
            pub transfers_of_peer: u16 = 64, Default: 4_096;
        }

        /// How long is waited for what.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub times: flat struct Times {
            /// The round trip to a destination of which nothing is known; by profiles `seed` and `early` the timeout
            /// itself.
            #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(2_400)))]
            pub round_trip: Duration = Duration::from_secs(10), Basic: Duration::from_secs(30), Early: Duration::from_secs(20), Seed: Duration::from_secs(20);

            /// By so much a timeout is longer than the mean round trip at least, where timeouts adapt.
            #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(2_400)))]
            pub least_timeout: Duration = Duration::from_millis(200);

            /// The longest timeout (MAX_RFAIT).
            #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(2_400)))]
            pub most_timeout: Duration = Duration::from_secs(60);

            /// Between two segments that arrive, when nothing is known (IISRIT); by profiles `seed` and `early` how
            /// long a message may take to assemble.
            #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(2_400)))]
            pub gap: Duration = Duration::from_secs(10), Basic: Duration::from_secs(30), Early: Duration::from_secs(15), Seed: Duration::from_secs(15);

            /// How long a receiver waits for the next segment at most (MAX_ISRIT).
            #[allowed(Kind::period(Duration::from_millis(1)..=Duration::from_secs(2_400)))]
            pub most_gap: Duration = Duration::from_secs(210);

            /// How long what was measured of a destination counts.
            #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(86_400)))]
            pub cache: Duration = Duration::from_secs(3_600);

            /// How long a receiver knows a finished transfer, and does not take it again.
            #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(604_800)))]
            pub remember: Duration = Duration::from_secs(3_600);

            /// How long a serial number is not used again at most; ten timeouts where those are shorter.
            #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(3_600)))]
            pub serial_rest: Duration = Duration::from_secs(120);

            /// Over how long receivers spread their answers to what was sent to a group.
            #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(600)))]
            pub spread: Duration = Duration::from_secs(1);
        }

        /// What is kept at most.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub limits: flat struct Limits {
            /// The longest message, sent or received.
            #[allowed(Kind::count(1..=33_554_432).of("octets"))]
            pub message: u32 = 1 << 20;

            /// Destinations of a message.
            #[allowed(Kind::count(1..=64))]
            pub destinations: usize = 16;

            /// Messages that wait to be sent.
            // A message to several destinations without a group counts for each.
            #[allowed(Kind::count(1..=10_000_000).of("messages"))]
            pub waiting: usize = 100_000;

            /// Their octets.
            #[allowed(Kind::count(1..=MOST_MEMORY).of("octets"))]
            pub waiting_octets: usize = 128 << 20;

            /// Messages that have arrived in part; for more of them others are given up.
            #[allowed(Kind::count(1..=1_000_000))]
            pub reassemblies: usize = 16_384;

            /// Their octets.
            #[allowed(Kind::count(4_096..=MOST_MEMORY).of("octets"))]
            pub reassembly_octets: usize = 16 << 20;

            /// Finished transfers that a receiver knows.
            #[allowed(Kind::count(1..=100_000_000).of("transfers"))]
            pub remembered: usize = 200_000;

            /// Destinations whose distance is known.
            #[allowed(Kind::count(1..=1_000_000))]
            pub peers: usize = 4_096;

            /// Answers that wait to be sent.
            #[allowed(Kind::count(16..=1_000_000))]
            pub answers: usize = 4_096;

            /// Answers about transfers that are not known.
            #[allowed(Kind::count(1..=100_000).of("a second"))]
            pub strange_answers: u32 = 20;
        }
    }

    rules [
        Rule {
            names: &["credit", "most-credit"],
            allowed: "credit is at most most-credit by profile default",
            holds: |it| it.profile != Profile::Default || it.flow.credit <= it.flow.most_credit,
        },
        Rule {
            names: &["queue", "most-queue"],
            allowed: "queue is at most most-queue by profile default",
            holds: |it| it.profile != Profile::Default || it.flow.queue <= it.flow.most_queue,
        },
        Rule {
            names: &["segment", "queue"],
            allowed: "queue has room for a segment and its header of 12 octets",
            holds: |it| it.flow.queue >= u32::from(it.segment) + 12,
        },
        Rule {
            names: &["least-timeout", "most-timeout"],
            allowed: "least-timeout is at most most-timeout",
            holds: |it| it.times.least_timeout <= it.times.most_timeout,
        },
    ]
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Profile::default())
    }
}

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::of(profile)));
    }
}
