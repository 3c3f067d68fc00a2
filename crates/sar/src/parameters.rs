//! The table of parameters of segmentation and reassembly: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, named, names, word};

use super::config::{Config, Profile};

/// The settings of segmentation and reassembly.
pub static PARAMETERS: Table<Config> = Table {
    name: "sar",
    parameters: &[
        Parameter::new(
            "profile",
            Kind::Word(&names(&Profile::NAMES)),
            "Which rules the node keeps; it decides on the defaults of all the others.",
            |it| word(&Profile::NAMES, &it.profile),
            |it, to| *it = Config::of(named(&Profile::NAMES, to.text()).unwrap_or_default()),
        ),
        Parameter::new(
            "segment",
            Kind::Count { least: 16, most: 3_078, unit: "octets" },
            "The longest segment: 496 octets fit into an IPv4 datagram that is never fragmented.",
            |it| it.segment.into(),
            |it, to| it.segment = to.count(),
        ),
        Parameter::new(
            "coding",
            Kind::Flag,
            "Whether all nodes of the net understand repairs, which one sender may then send to \
             several destinations that lost different segments.",
            |it| it.coding.into(),
            |it, to| it.coding = to.flag(),
        ),
        Parameter::new(
            "requests",
            Kind::Count { least: 1, most: 50, unit: "" },
            "How often a destination is asked for an answer until it is given up (RFARL); by profile `default` a message with a \
             lifetime waits for it until that ends.",
            |it| it.retries.requests.into(),
            |it, to| it.retries.requests = to.count(),
        ),
        Parameter::new(
            "segment-retries",
            Kind::Count { least: 0, most: 50, unit: "" },
            "How often a segment is sent again that a destination says is missing (SRCL); by profile `default` one with a \
             lifetime is then tried more and more rarely.",
            |it| it.retries.segment.into(),
            |it, to| it.retries.segment = to.count(),
        ),
        Parameter::new(
            "first-counts",
            Kind::Flag,
            "Whether the first time that a segment is sent counts as one of these retries, as in \
             an example of the standard.",
            |it| it.retries.first_counts.into(),
            |it, to| it.retries.first_counts = to.flag(),
        ),
        Parameter::new(
            "assembly-retries",
            Kind::Count { least: 0, most: 50, unit: "" },
            "How often a receiver says of its own what is missing until it gives up (RTECL).",
            |it| it.retries.assembly.into(),
            |it, to| it.retries.assembly = to.count(),
        ),
        Parameter::new(
            "credit",
            Kind::Count { least: 1, most: 3_216, unit: "segments" },
            "How much of a transfer may be under way without an acknowledgement (SCL); by \
             profile `default` only at first.",
            |it| it.flow.credit.into(),
            |it, to| it.flow.credit = to.count(),
        ),
        Parameter::new(
            "most-credit",
            Kind::Count { least: 1, most: 3_216, unit: "segments" },
            "The same at most, where it grows with success.",
            |it| it.flow.most_credit.into(),
            |it, to| it.flow.most_credit = to.count(),
        ),
        Parameter::new(
            "ask-at",
            Kind::Count { least: 1, most: 3_216, unit: "segments" },
            "So much under way makes a sender ask for an answer while it goes on (SCT).",
            |it| it.flow.ask_at.into(),
            |it, to| it.flow.ask_at = to.count(),
        ),
        Parameter::new(
            "unasked",
            Kind::Count { least: 0, most: 3_216, unit: "segments" },
            "After so many a receiver answers unasked (RSCT); never with 0.",
            |it| it.flow.unasked.into(),
            |it, to| it.flow.unasked = to.count(),
        ),
        Parameter::new(
            "queue",
            Kind::Count { least: 576, most: 1 << 30, unit: "octets" },
            "What all transfers may have under way, so that queues below stay short; the upper \
             quarter is for precedence immediate and above; by profile `default` only at first.",
            |it| it.flow.queue.into(),
            |it, to| it.flow.queue = to.count(),
        ),
        Parameter::new(
            "most-queue",
            Kind::Count { least: 576, most: 1 << 30, unit: "octets" },
            "The same at most, where it grows.",
            |it| it.flow.most_queue.into(),
            |it, to| it.flow.most_queue = to.count(),
        ),
        Parameter::new(
            "spacing",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(600) },
            "Between two segments (ISST).",
            |it| it.flow.spacing.into(),
            |it, to| it.flow.spacing = to.period(),
        ),
        Parameter::new(
            "transfers",
            Kind::Count { least: 1, most: 10_000, unit: "" },
            "Transfers at a time of a precedence or higher ones.",
            |it| it.flow.transfers.into(),
            |it, to| it.flow.transfers = to.count(),
        ),
        Parameter::new(
            "transfers-of-peer",
            Kind::Count { least: 1, most: 10_000, unit: "" },
            "The same to one destination; one that has never answered has 8, one that does not answer 1.",
            |it| it.flow.transfers_of_peer.into(),
            |it, to| it.flow.transfers_of_peer = to.count(),
        ),
        Parameter::new(
            "round-trip",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(2_400) },
            "The round trip to a destination of which nothing is known; by profiles `seed` and \
             `early` the timeout itself.",
            |it| it.times.round_trip.into(),
            |it, to| it.times.round_trip = to.period(),
        ),
        Parameter::new(
            "least-timeout",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(2_400) },
            "By so much a timeout is longer than the mean round trip at least, where timeouts adapt.",
            |it| it.times.least_timeout.into(),
            |it, to| it.times.least_timeout = to.period(),
        ),
        Parameter::new(
            "most-timeout",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(2_400) },
            "The longest timeout (MAX_RFAIT).",
            |it| it.times.most_timeout.into(),
            |it, to| it.times.most_timeout = to.period(),
        ),
        Parameter::new(
            "gap",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(2_400) },
            "Between two segments that arrive, when nothing is known (IISRIT); by profiles \
             `seed` and `early` how long a message may take to assemble.",
            |it| it.times.gap.into(),
            |it, to| it.times.gap = to.period(),
        ),
        Parameter::new(
            "most-gap",
            Kind::Period { least: Duration::from_millis(1), most: Duration::from_secs(2_400) },
            "How long a receiver waits for the next segment at most (MAX_ISRIT).",
            |it| it.times.most_gap.into(),
            |it, to| it.times.most_gap = to.period(),
        ),
        Parameter::new(
            "cache",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(86_400) },
            "How long what was measured of a destination counts.",
            |it| it.times.cache.into(),
            |it, to| it.times.cache = to.period(),
        ),
        Parameter::new(
            "remember",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(604_800) },
            "How long a receiver knows a finished transfer, and does not take it again.",
            |it| it.times.remember.into(),
            |it, to| it.times.remember = to.period(),
        ),
        Parameter::new(
            "serial-rest",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(3_600) },
            "How long a serial number is not used again at most; ten timeouts where those are \
             shorter.",
            |it| it.times.serial_rest.into(),
            |it, to| it.times.serial_rest = to.period(),
        ),
        Parameter::new(
            "spread",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(600) },
            "Over how long receivers spread their answers to what was sent to a group.",
            |it| it.times.spread.into(),
            |it, to| it.times.spread = to.period(),
        ),
        Parameter::new(
            "message",
            Kind::Count { least: 1, most: 33_554_432, unit: "octets" },
            "The longest message, sent or received.",
            |it| it.limits.message.into(),
            |it, to| it.limits.message = to.count(),
        ),
        Parameter::new(
            "destinations",
            Kind::Count { least: 1, most: 64, unit: "" },
            "Destinations of a message.",
            |it| it.limits.destinations.into(),
            |it, to| it.limits.destinations = to.count(),
        ),
        Parameter::new(
            "waiting",
            Kind::Count { least: 1, most: 10_000_000, unit: "messages" },
            "Messages that wait to be sent.",
            |it| it.limits.waiting.into(),
            |it, to| it.limits.waiting = to.count(),
        ),
        Parameter::new(
            "waiting-octets",
            Kind::Count { least: 1, most: 1 << 40, unit: "octets" },
            "Their octets.",
            |it| it.limits.waiting_octets.into(),
            |it, to| it.limits.waiting_octets = to.count(),
        ),
        Parameter::new(
            "reassemblies",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Messages that have arrived in part; for more of them others are given up.",
            |it| it.limits.reassemblies.into(),
            |it, to| it.limits.reassemblies = to.count(),
        ),
        Parameter::new(
            "reassembly-octets",
            Kind::Count { least: 4_096, most: 1 << 40, unit: "octets" },
            "Their octets.",
            |it| it.limits.reassembly_octets.into(),
            |it, to| it.limits.reassembly_octets = to.count(),
        ),
        Parameter::new(
            "remembered",
            Kind::Count { least: 1, most: 100_000_000, unit: "transfers" },
            "Finished transfers that a receiver knows.",
            |it| it.limits.remembered.into(),
            |it, to| it.limits.remembered = to.count(),
        ),
        Parameter::new(
            "peers",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "Destinations whose distance is known.",
            |it| it.limits.peers.into(),
            |it, to| it.limits.peers = to.count(),
        ),
        Parameter::new(
            "answers",
            Kind::Count { least: 16, most: 1_000_000, unit: "" },
            "Answers that wait to be sent.",
            |it| it.limits.answers.into(),
            |it, to| it.limits.answers = to.count(),
        ),
        Parameter::new(
            "strange-answers",
            Kind::Count { least: 1, most: 100_000, unit: "a second" },
            "Answers about transfers that are not known.",
            |it| it.limits.strange_answers.into(),
            |it, to| it.limits.strange_answers = to.count(),
        ),
    ],
    rules: &[
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
    ],
};

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &Profile::NAMES.map(|(_, profile)| Config::of(profile)));
    }
}
