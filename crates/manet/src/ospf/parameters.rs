//! The table of OSPF's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table};

use super::config::Config;

/// The settings of OSPF. Networks behind a router are a separate list.
pub static PARAMETERS: Table<Config> = Table {
    name: "ospf",
    parameters: &[
        Parameter::new(
            "area",
            Kind::Count { least: 0, most: 0xffff_ffff, unit: "" },
            "The area of all links.",
            |it| it.area.into(),
            |it, to| it.area = to.count(),
        ),
        Parameter::new(
            "hello-interval",
            Kind::Period { least: SECOND, most: Duration::from_secs(65_535) },
            "How often a router says on each link whom it hears, in whole seconds.",
            |it| it.hello_interval.into(),
            |it, to| it.hello_interval = to.period(),
        ),
        Parameter::new(
            "dead-interval",
            Kind::Period { least: SECOND, most: Duration::from_secs(1_000_000) },
            "How long a neighbour may be silent until it is given up, in whole seconds.",
            |it| it.dead_interval.into(),
            |it, to| it.dead_interval = to.period(),
        ),
        Parameter::new(
            "retransmit-interval",
            PERIOD,
            "After how long descriptions, requests and updates are sent again that nobody answered.",
            |it| it.retransmit_interval.into(),
            |it, to| it.retransmit_interval = to.period(),
        ),
        Parameter::new(
            "transmit-delay",
            Kind::Period { least: SECOND, most: HOUR },
            "By how much an LSA ages on a link, in whole seconds.",
            |it| it.transmit_delay.into(),
            |it, to| it.transmit_delay = to.period(),
        ),
        Parameter::new(
            "ack-delay",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "How long an acknowledgement may wait for others.",
            |it| it.ack_delay.into(),
            |it, to| it.ack_delay = to.period(),
        ),
        Parameter::new(
            "min-ls-interval",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "The least time between two instances of a router's own LSA.",
            |it| it.min_ls_interval.into(),
            |it, to| it.min_ls_interval = to.period(),
        ),
        Parameter::new(
            "min-ls-arrival",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "The least time between two instances of another router's LSA that are taken.",
            |it| it.min_ls_arrival.into(),
            |it, to| it.min_ls_arrival = to.period(),
        ),
        Parameter::new(
            "refresh-interval",
            Kind::Period { least: SECOND, most: Duration::from_secs(3_000) },
            "After how long a router sends its own LSA anew though nothing has changed.",
            |it| it.refresh_interval.into(),
            |it, to| it.refresh_interval = to.period(),
        ),
        Parameter::new(
            "start-jitter",
            Kind::Period { least: Duration::ZERO, most: HOUR },
            "The first hello on a link is sent within this time.",
            |it| it.start_jitter.into(),
            |it, to| it.start_jitter = to.period(),
        ),
        Parameter::new(
            "cost",
            Kind::Count { least: 1, most: 65_535, unit: "" },
            "What each link costs: the way with the least sum is taken.",
            |it| it.cost.into(),
            |it, to| it.cost = to.count(),
        ),
        Parameter::new(
            "link-bits",
            Kind::Count { least: 1, most: 32, unit: "bits" },
            "How much the addresses at both ends of a link have in common: its network, which is \
             announced.",
            |it| it.link_bits.into(),
            |it, to| it.link_bits = to.count(),
        ),
        Parameter::new(
            "lsas",
            Kind::Count { least: 1, most: 1_000_000, unit: "" },
            "LSAs that a router remembers besides its own.",
            |it| it.bounds.lsas.into(),
            |it, to| it.bounds.lsas = to.count(),
        ),
        Parameter::new(
            "octets",
            Kind::Count { least: 1, most: 1 << 32, unit: "octets" },
            "What these LSAs may have together.",
            |it| it.bounds.octets.into(),
            |it, to| it.bounds.octets = to.count(),
        ),
    ],
    rules: &[
        Rule {
            names: &["hello-interval", "dead-interval"],
            allowed: "dead-interval is more than hello-interval",
            holds: |it| it.hello_interval < it.dead_interval,
        },
        Rule {
            names: &["ack-delay", "retransmit-interval"],
            allowed: "ack-delay is less than retransmit-interval",
            holds: |it| it.ack_delay < it.retransmit_interval,
        },
        Rule {
            names: &["hello-interval", "dead-interval", "transmit-delay"],
            allowed: "hello-interval, dead-interval and transmit-delay are whole seconds",
            holds: |it| {
                let whole = [it.hello_interval, it.dead_interval, it.transmit_delay];
                whole.iter().all(|period| period.subsec_nanos() == 0)
            },
        },
        Rule {
            names: &["min-ls-interval", "refresh-interval"],
            allowed: "min-ls-interval is less than refresh-interval",
            holds: |it| it.min_ls_interval < it.refresh_interval,
        },
    ],
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const PERIOD: Kind = Kind::Period { least: Duration::from_millis(100), most: HOUR };

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }

    #[test]
    fn what_hellos_say_is_whole_seconds() {
        let given = |name| (name == "hello-interval").then_some(Written::Text("1500 ms"));

        let refused = PARAMETERS.apply(&mut Config::default(), given).unwrap_err();

        assert!(refused.names.contains(&"hello-interval"), "{refused:?}");
    }
}
