//! The table of DSDV's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Table, Value};

use super::config::Config;

/// The settings of DSDV.
pub static PARAMETERS: Table<Config> = Table {
    name: "dsdv",
    parameters: &[
        Parameter::new(
            "update-interval",
            Kind::Period { least: Duration::from_millis(100), most: HOUR },
            "The longest time from one full update to the next.",
            |it| it.update_interval.into(),
            |it, to| it.update_interval = to.period(),
        ),
        Parameter::new(
            "update-spread",
            Kind::Share { least: 0.0, most: 0.9 },
            "The part of that time that is random.",
            |it| Value::Share(it.update_spread),
            |it, to| it.update_spread = to.number(),
        ),
        Parameter::new(
            "hold",
            Kind::Count { least: 1, most: 100, unit: "intervals" },
            "How long nothing may be heard of a neighbour until its routes are given up.",
            |it| u64::from(it.hold).into(),
            |it, to| it.hold = to.count(),
        ),
        Parameter::new(
            "trigger-spacing",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "The least time from an update to one that tells of changes.",
            |it| it.trigger_spacing.into(),
            |it, to| it.trigger_spacing = to.period(),
        ),
        Parameter::new(
            "settling",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "How long the best route is taken to come after the first, until that was measured; \
             twice as long passes until others are told of it.",
            |it| it.settling.into(),
            |it, to| it.settling = to.period(),
        ),
        Parameter::new(
            "settling-weight",
            Kind::Share { least: 0.0, most: 1.0 },
            "How much of the settling time that was known remains when another one was measured.",
            |it| Value::Share(it.settling_weight),
            |it, to| it.settling_weight = to.number(),
        ),
        Parameter::new(
            "start-jitter",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "The first update is sent within this time.",
            |it| it.start_jitter.into(),
            |it, to| it.start_jitter = to.period(),
        ),
        Parameter::new(
            "jitter",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) },
            "Updates are sent up to this much later than they are due.",
            |it| it.jitter.into(),
            |it, to| it.jitter = to.period(),
        ),
        Parameter::new(
            "link-breaks",
            Kind::Flag,
            "Whether a neighbour is given up that the link layer cannot reach.",
            |it| Value::Flag(it.link_breaks),
            |it, to| it.link_breaks = to.flag(),
        ),
        Parameter::new(
            "gateway",
            Kind::Flag,
            "Whether others are told of a default route through this node.",
            |it| Value::Flag(it.is_gateway),
            |it, to| it.is_gateway = to.flag(),
        ),
        Parameter::new(
            "destinations",
            Kind::Count { least: 2, most: 100_000, unit: "" },
            "Destinations that are remembered.",
            |it| it.destinations.into(),
            |it, to| it.destinations = to.count(),
        ),
        Parameter::new(
            "neighbours",
            Kind::Count { least: 1, most: 10_000, unit: "" },
            "Neighbours that are remembered.",
            |it| it.neighbours.into(),
            |it, to| it.neighbours = to.count(),
        ),
    ],
    rules: &[],
};

const HOUR: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }
}
