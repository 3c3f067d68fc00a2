//! Configuration of OLSR, with defaults.

use std::time::Duration;

use base::ip::Prefix;
use base::parameter::{Kind, Rule};

base::parameters! {
    /// The settings of OLSR. Networks behind a node are a separate list.
    pub static PARAMETERS = "olsr";

    /// The parameters of a node's OLSR. The default is what RFC 3626, 18, proposes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from default() {
        /// How often a node says on each interface whom it hears.
        #[allowed(PERIOD)]
        pub hello_interval: Duration = Duration::from_secs(2);

        /// How often a node that others chose as a relay tells all nodes so.
        #[allowed(PERIOD)]
        pub tc_interval: Duration = Duration::from_secs(5);

        /// How often a node with several interfaces tells all nodes their addresses.
        #[allowed(PERIOD)]
        pub mid_interval: Duration = Duration::from_secs(5);

        /// How often a node announces the networks behind it.
        #[allowed(PERIOD)]
        pub hna_interval: Duration = Duration::from_secs(5);

        /// How long a link holds without a further HELLO.
        #[allowed(PERIOD)]
        pub neighbour_hold: Duration = Duration::from_secs(6);

        /// How long other nodes keep what a TC message says.
        #[allowed(PERIOD)]
        pub topology_hold: Duration = Duration::from_secs(15);

        /// How long other nodes keep what a MID message says.
        #[allowed(PERIOD)]
        pub mid_hold: Duration = Duration::from_secs(15);

        /// How long other nodes keep what an HNA message says.
        #[allowed(PERIOD)]
        pub hna_hold: Duration = Duration::from_secs(15);

        /// How long a message is remembered, so that its copies are known.
        #[allowed(PERIOD)]
        pub duplicate_hold: Duration = Duration::from_secs(30);

        /// By how much at most messages are sent early and forwarded late, each by chance.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(60)))]
        pub max_jitter: Duration = Duration::from_millis(500);

        /// How willing the node is to carry for others, from 0 for never to 7 for always.
        #[allowed(Kind::count(0..=7))]
        pub willingness: u8 = 3;

        /// How many relays are to reach each node that is two hops away.
        #[allowed(Kind::count(1..=16))]
        pub mpr_coverage: usize = 1;

        /// Which neighbours TC messages tell of: 0 those that chose the node as a relay, 1 its own relays as well, 2
        /// all.
        #[allowed(Kind::count(0..=2))]
        #[get(|it| (it.tc_redundancy as usize).into())]
        #[set(|it, to| it.tc_redundancy = TcRedundancy::ALL[to.count::<usize>().min(2)])]
        pub tc_redundancy: TcRedundancy = TcRedundancy::Selectors;

        /// When a link is good enough (RFC 3626, 14): the quality is a mean over packets, with 1 for each received and
        /// 0 for each lost.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub hysteresis: flat struct Hysteresis {
            /// Whether a link is used only while enough of the neighbour's packets arrive.
            #[allowed(Kind::Flag)]
            pub is_on as "hysteresis": bool = false;

            /// The quality above which a link is used.
            #[allowed(SHARE)]
            #[only("hysteresis = true", |it| it.hysteresis.is_on)]
            pub high as "hysteresis-high": f64 = 0.8;

            /// The quality below which a link is not used any more.
            #[allowed(SHARE)]
            #[only("hysteresis = true", |it| it.hysteresis.is_on)]
            pub low as "hysteresis-low": f64 = 0.3;

            /// The weight of the latest packet in the quality of a link.
            #[allowed(SHARE)]
            #[only("hysteresis = true", |it| it.hysteresis.is_on)]
            pub scaling as "hysteresis-scaling": f64 = 0.5;
        }

        /// How much a node remembers of each kind, and keeps waiting. What does not fit is left out and counted; of
        /// duplicates the oldest are forgotten.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub bounds: flat struct Bounds {
            /// Links to neighbours that a node remembers.
            #[allowed(ENTRIES)]
            pub links: usize = 256;

            /// Links of its neighbours that a node remembers.
            #[allowed(ENTRIES)]
            pub two_hop: usize = 8_192;

            /// Links between other nodes that a node remembers.
            #[allowed(ENTRIES)]
            pub topology: usize = 16_384;

            /// Further addresses of other nodes that a node remembers.
            #[allowed(ENTRIES)]
            pub aliases: usize = 2_048;

            /// Networks behind other nodes that a node remembers.
            #[allowed(ENTRIES)]
            pub networks: usize = 2_048;

            /// Messages that a node remembers, so that it knows their copies.
            #[allowed(ENTRIES)]
            pub duplicates: usize = 8_192;

            /// Messages that wait to be sent on an interface.
            #[allowed(ENTRIES)]
            pub queue: usize = 512;
        }

        /// Networks behind this node, announced to others; 0.0.0.0/0 stands for the Internet. IPv6 prefixes are left
        /// out.
        pub attached: Vec<Prefix> = Vec::new();
    }

    rules [
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
    ]
}

/// Neighbours that a node announces to all nodes (RFC 3626, 15.1).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum TcRedundancy {
    /// The MPR selectors of this node.
    #[default]
    Selectors,
    /// The MPR selectors and the MPRs of this node.
    Relays,
    /// All neighbours. Daemons that use a link only if both ends announce it need this.
    All,
}

impl TcRedundancy {
    /// As the RFC numbers them.
    pub const ALL: [Self; 3] = [Self::Selectors, Self::Relays, Self::All];
}

impl Config {
    /// Settings for a network with other daemons: TC messages announce all neighbours, so that daemons which use a link
    /// only if both ends announce it find all routes. Both ways are accepted.
    #[must_use]
    pub fn live() -> Self {
        Self { tc_redundancy: TcRedundancy::All, ..Self::default() }
    }
}

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
