//! The table of OLSR's parameters: ranges and defaults, for users.

use std::time::Duration;

use base::parameter::{Kind, Parameter, Rule, Table, Value};

use super::config::{Config, TcRedundancy};

/// The settings of OLSR. Networks behind a node are a separate list.
pub static PARAMETERS: Table<Config> = Table {
    name: "olsr",
    parameters: &[
        Parameter::new(
            "hello-interval",
            PERIOD,
            "How often a node says on each interface whom it hears.",
            |it| it.hello_interval.into(),
            |it, to| it.hello_interval = to.period(),
        ),
        Parameter::new(
            "tc-interval",
            PERIOD,
            "How often a node that others chose as a relay tells all nodes so.",
            |it| it.tc_interval.into(),
            |it, to| it.tc_interval = to.period(),
        ),
        Parameter::new(
            "mid-interval",
            PERIOD,
            "How often a node with several interfaces tells all nodes their addresses.",
            |it| it.mid_interval.into(),
            |it, to| it.mid_interval = to.period(),
        ),
        Parameter::new(
            "hna-interval",
            PERIOD,
            "How often a node announces the networks behind it.",
            |it| it.hna_interval.into(),
            |it, to| it.hna_interval = to.period(),
        ),
        Parameter::new(
            "neighbour-hold",
            PERIOD,
            "How long a link holds without a further HELLO.",
            |it| it.neighbour_hold.into(),
            |it, to| it.neighbour_hold = to.period(),
        ),
        Parameter::new(
            "topology-hold",
            PERIOD,
            "How long other nodes keep what a TC message says.",
            |it| it.topology_hold.into(),
            |it, to| it.topology_hold = to.period(),
        ),
        Parameter::new(
            "mid-hold",
            PERIOD,
            "How long other nodes keep what a MID message says.",
            |it| it.mid_hold.into(),
            |it, to| it.mid_hold = to.period(),
        ),
        Parameter::new(
            "hna-hold",
            PERIOD,
            "How long other nodes keep what an HNA message says.",
            |it| it.hna_hold.into(),
            |it, to| it.hna_hold = to.period(),
        ),
        Parameter::new(
            "duplicate-hold",
            PERIOD,
            "How long a message is remembered, so that its copies are known.",
            |it| it.duplicate_hold.into(),
            |it, to| it.duplicate_hold = to.period(),
        ),
        Parameter::new(
            "max-jitter",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) },
            "By how much at most messages are sent early and forwarded late, each by chance.",
            |it| it.max_jitter.into(),
            |it, to| it.max_jitter = to.period(),
        ),
        Parameter::new(
            "willingness",
            Kind::Count { least: 0, most: 7, unit: "" },
            "How willing the node is to carry for others, from 0 for never to 7 for always.",
            |it| it.willingness.into(),
            |it, to| it.willingness = to.count(),
        ),
        Parameter::new(
            "mpr-coverage",
            Kind::Count { least: 1, most: 16, unit: "" },
            "How many relays are to reach each node that is two hops away.",
            |it| it.mpr_coverage.into(),
            |it, to| it.mpr_coverage = to.count(),
        ),
        Parameter::new(
            "tc-redundancy",
            Kind::Count { least: 0, most: 2, unit: "" },
            "Which neighbours TC messages tell of: 0 those that chose the node as a relay, 1 its own \
             relays as well, 2 all.",
            |it| (it.tc_redundancy as usize).into(),
            |it, to| it.tc_redundancy = TcRedundancy::ALL[to.count::<usize>().min(2)],
        ),
        Parameter::new(
            "hysteresis",
            Kind::Flag,
            "Whether a link is used only while enough of the neighbour's packets arrive.",
            |it| it.hysteresis.is_on.into(),
            |it, to| it.hysteresis.is_on = to.flag(),
        ),
        Parameter::<Config>::new(
            "hysteresis-high",
            SHARE,
            "The quality above which a link is used.",
            |it| Value::Share(it.hysteresis.high),
            |it, to| it.hysteresis.high = to.number(),
        )
        .only_with("hysteresis = true", |it| it.hysteresis.is_on),
        Parameter::<Config>::new(
            "hysteresis-low",
            SHARE,
            "The quality below which a link is not used any more.",
            |it| Value::Share(it.hysteresis.low),
            |it, to| it.hysteresis.low = to.number(),
        )
        .only_with("hysteresis = true", |it| it.hysteresis.is_on),
        Parameter::<Config>::new(
            "hysteresis-scaling",
            SHARE,
            "The weight of the latest packet in the quality of a link.",
            |it| Value::Share(it.hysteresis.scaling),
            |it, to| it.hysteresis.scaling = to.number(),
        )
        .only_with("hysteresis = true", |it| it.hysteresis.is_on),
        Parameter::new(
            "links",
            ENTRIES,
            "Links to neighbours that a node remembers.",
            |it| it.bounds.links.into(),
            |it, to| it.bounds.links = to.count(),
        ),
        Parameter::new(
            "two-hop",
            ENTRIES,
            "Links of its neighbours that a node remembers.",
            |it| it.bounds.two_hop.into(),
            |it, to| it.bounds.two_hop = to.count(),
        ),
        Parameter::new(
            "topology",
            ENTRIES,
            "Links between other nodes that a node remembers.",
            |it| it.bounds.topology.into(),
            |it, to| it.bounds.topology = to.count(),
        ),
        Parameter::new(
            "aliases",
            ENTRIES,
            "Further addresses of other nodes that a node remembers.",
            |it| it.bounds.aliases.into(),
            |it, to| it.bounds.aliases = to.count(),
        ),
        Parameter::new(
            "networks",
            ENTRIES,
            "Networks behind other nodes that a node remembers.",
            |it| it.bounds.networks.into(),
            |it, to| it.bounds.networks = to.count(),
        ),
        Parameter::new(
            "duplicates",
            ENTRIES,
            "Messages that a node remembers, so that it knows their copies.",
            |it| it.bounds.duplicates.into(),
            |it, to| it.bounds.duplicates = to.count(),
        ),
        Parameter::new(
            "queue",
            ENTRIES,
            "Messages that wait to be sent on an interface.",
            |it| it.bounds.queue.into(),
            |it, to| it.bounds.queue = to.count(),
        ),
    ],
    rules: &[
        Rule {
            names: &["hello-interval", "neighbour-hold"],
            allowed: "neighbour-hold is at least hello-interval",
            holds: |it| it.hello_interval <= it.neighbour_hold,
        },
        Rule {
            names: &["tc-interval", "topology-hold"],
            allowed: "topology-hold is at least tc-interval",
            holds: |it| it.tc_interval <= it.topology_hold,
        },
        Rule {
            names: &["mid-interval", "mid-hold"],
            allowed: "mid-hold is at least mid-interval",
            holds: |it| it.mid_interval <= it.mid_hold,
        },
        Rule {
            names: &["hna-interval", "hna-hold"],
            allowed: "hna-hold is at least hna-interval",
            holds: |it| it.hna_interval <= it.hna_hold,
        },
        Rule {
            names: &["max-jitter", "hello-interval", "tc-interval", "mid-interval", "hna-interval"],
            allowed: "max-jitter is at most half of the shortest interval",
            holds: |it| {
                let intervals =
                    [it.hello_interval, it.tc_interval, it.mid_interval, it.hna_interval];
                intervals.iter().all(|interval| it.max_jitter * 2 <= *interval)
            },
        },
        Rule {
            names: &["hysteresis-low", "hysteresis-high"],
            allowed: "hysteresis-low is at most hysteresis-high",
            holds: |it| it.hysteresis.low <= it.hysteresis.high,
        },
    ],
};

/// The range of a time field in a message (RFC 3626, 18.3).
const PERIOD: Kind =
    Kind::Period { least: Duration::from_micros(62_500), most: Duration::from_secs(3_968) };
const SHARE: Kind = Kind::Share { least: 0.01, most: 0.99 };
const ENTRIES: Kind = Kind::Count { least: 1, most: 1_000_000, unit: "" };

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;
    use crate::olsr::Hysteresis;

    #[test]
    fn each_row_sets_what_it_says() {
        let hysteresis = Hysteresis { is_on: true, ..Hysteresis::default() };
        prove(
            &PARAMETERS,
            &[Config::default(), Config::live(), Config { hysteresis, ..Config::default() }],
        );
    }

    #[test]
    fn a_link_holds_no_shorter_than_from_one_hello_to_the_next() {
        let given = |name| (name == "hello-interval").then_some(Written::Text("7 s"));

        let refused = PARAMETERS.apply(&mut Config::default(), given).unwrap_err();

        assert_eq!(refused.names, ["hello-interval", "neighbour-hold"]);
    }
}
