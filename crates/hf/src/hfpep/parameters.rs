//! Parameters that users may set for HF-PEP, beside the parameters of [SLEP](crate::slep).

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table};

use super::config::Config;

/// Parameters of HF-PEP that users may set.
pub static PARAMETERS: Table<Config> = Table {
    name: "hfpep",
    parameters: &[
        Parameter::new(
            "first-data",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) },
            "How long a new connection may be silent until its stream is opened without data; data \
             that comes before goes in the same transmission, which saves a turn there and back.",
            |it| it.first_data.into(),
            |it, to| it.first_data = to.period(),
        ),
        Parameter::new(
            "magic",
            Kind::Count { least: 0, most: 255, unit: "" },
            "The first octet of each stream, which is not published: both ends must have the same.",
            |it| it.magic.into(),
            |it, to| it.magic = to.count(),
        ),
        Parameter::new(
            "udp-idle",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(604_800) },
            "How long a flow of UDP is remembered in which no datagram goes either way, and none can be under way any \
             more",
            |it| it.flows.idle.into(),
            |it, to| it.flows.idle = to.period(),
        ),
        Parameter::new(
            "udp-lifetime",
            Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(604_800) },
            "How long a datagram of UDP is worth sending, waiting and repetitions included, unless a rule says `ttl`",
            |it| it.flows.lifetime.into(),
            |it, to| it.flows.lifetime = to.period(),
        ),
        Parameter::new(
            "udp-flows",
            Kind::Count { least: 1, most: 65_536, unit: "" },
            "Flows of UDP at a time that were opened here, and as many that others opened; a datagram of one more is \
             dropped",
            |it| it.flows.flows.into(),
            |it, to| it.flows.flows = to.count(),
        ),
        Parameter::new(
            "udp-queue",
            Kind::Count { least: 2_048, most: 1_048_576, unit: "octets" },
            "What of a flow of UDP waits to be sent, 64 octets more for each datagram; one without room is dropped",
            |it| it.flows.queue.into(),
            |it, to| it.flows.queue = to.count(),
        ),
    ],
    rules: &[],
};
