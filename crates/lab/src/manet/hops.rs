//! Measures TCP over chains of 1 to 6 radio hops, with given routes and with AODV.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use manet::aodv;
use sim::app::transfer;
use sim::mobility::{Motion, Position};
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{NodeId, World};

use super::trial::{Assumed, Carrier, PAPER_TCPS, Tcp};
use super::{GOODPUT, GROUP, KBIT_S, RUNS, ours};
use crate::prelude::*;

const HOPS: [u8; 6] = [1, 2, 3, 4, 5, 6];
const BEGIN: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(70);
/// Packets that the link layer gave up and routing heard of.
const BREAKS: Metric = "breaks";
/// The TCPs that are carried by HBH.
const CARRIED: [Tcp; 2] = [Tcp::NewReno, Tcp::Cubic];
/// The least ratio that counts as not worse.
const NOT_WORSE: f64 = 0.95;
/// Hops from which on the ends of the chain do not sense each other.
const HIDDEN: u8 = 3;
/// Hops of which one sends at a time where radios disturb each other up to 550 m.
const REACH: u8 = 4;
/// The range for the measured part of the bound; slightly above 1 for slots that count at the same time.
const NEAR: [f64; 2] = [0.7, 1.02];

pub const CLAIMS: [Claim; 2] = [CHAIN_CLAIM, BREAKS_CLAIM];

const BREAKS_CLAIM: Claim = Claim {
    id: "manet-breaks",
    group: GROUP,
    text: "on a chain whose ends do not sense each other radios give up packets to neighbours that are there, and AODV \
           looks for ways that it has; HBH hides that: no TCP gets less than 0.95 of what it gets over plain IP, \
           and CUBIC gets more over 3 hops and more",
    source: "goals of this project; the paper's section II.B names the cause",
    experiment: || Experiment::new(carried(), judge_breaks),
};

fn carried() -> Vec<Chain> {
    let of = |tcp| {
        HOPS.into_iter().flat_map(move |hops| {
            [Carrier::Plain, Carrier::Hbh].map(|it| Chain { hops, tcp, over_aodv: Some(it) })
        })
    };
    CARRIED.into_iter().flat_map(of).collect()
}

fn judge_breaks(runs: &Runs<Chain>) -> Finding {
    let at = |hops, tcp, carrier, metric| {
        runs.at(&Chain { hops, tcp, over_aodv: Some(carrier) }, metric)
    };
    let (mut checks, mut points, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for tcp in CARRIED {
        let mut ratios = Vec::new();
        for hops in HOPS {
            let [plain, hbh] = [Carrier::Plain, Carrier::Hbh].map(|it| at(hops, tcp, it, GOODPUT));
            let ratio = hbh.over(&plain);
            let what = format!("{} over {hops} hops: {ratio} of plain", tcp.title());
            let is_to_gain = tcp == Tcp::Cubic && hops >= HIDDEN;
            checks.push(Check::new(what, ratio.at_least(if is_to_gain { 1.0 } else { NOT_WORSE })));
            ratios.push(number(ratio.mean));
            for (carrier, goodput) in [(Carrier::Plain, plain), (Carrier::Hbh, hbh)] {
                let series = format!("{}-{}", tcp.line().series, ours::line(carrier).series);
                let title = format!("{}, {}", tcp.title(), carrier.title());
                let ink = match (tcp, carrier) {
                    (Tcp::Cubic, Carrier::Hbh) => Ink::Default,
                    (Tcp::Cubic, _) => Ink::Tcp,
                    (_, Carrier::Hbh) => Ink::Other(0),
                    _ => Ink::Paper,
                };
                points.push(Point {
                    cell: Some(format!("{hops} hops")),
                    ..Point::new(
                        Line { series, title, ink },
                        (hops.into(), "hops"),
                        (goodput, KBIT_S),
                    )
                });
            }
        }
        told.push(format!("{} {}", tcp.title(), ratios.join(", ")));
    }
    let breaks = [Carrier::Plain, Carrier::Hbh]
        .map(|it| HOPS.map(|hops| number(at(hops, Tcp::Cubic, it, BREAKS).mean)).join(", "));
    let measured = format!(
        "Goodput over HBH in that over plain IP, 1 to 6 hops: {}. Under CUBIC AODV hears of {} packets that were given up \
         over plain IP, and of {} over HBH.",
        told.join("; "),
        breaks[0],
        breaks[1]
    );
    let figure = Figure::of(&points, "manet-breaks", "TCP over hops that AODV finds")
        .under("Radios 200 m apart at rest")
        .over(Axis::linear("Hops", "").with_ticks(HOPS.map(f64::from)))
        .up(Axis::linear("Goodput", KBIT_S));
    Finding {
        figures: vec![figure],
        tables: vec![Table::of("Goodput over hops that AODV finds, kbit/s", &points)],
        points,
        assumptions: vec![
            "Radios are those of the other experiments; goodput is that of 60 s, after 10 s. CUBIC is Linux's, NewReno ns-2's; HBH \
             has its default profile with queues of 50."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

const CHAIN_CLAIM: Claim = Claim {
    id: "manet-chain",
    group: GROUP,
    text: "over h hops of a chain at rest TCP gets 1/h of what it gets over one, up to 4, since one of so many hops \
           sends at a time; NewReno and Vegas get 0.7 of that bound at least",
    source: "section II.C.3; Li et al., MobiCom 2001",
    experiment: || Experiment::new(chains(), judge),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Chain {
    hops: u8,
    tcp: Tcp,
    /// Over AODV, and carried so; otherwise over given routes and plain IP.
    over_aodv: Option<Carrier>,
}

impl Place for Chain {
    fn cell(&self) -> Cell {
        let chain = *self;
        let name = Name::of("hops").with("hops", chain.hops).with("tcp", chain.tcp.title());
        let name = match chain.over_aodv {
            Some(carrier) => name.with("routing", "aodv").with("carrier", carrier.title()),
            None => name.with("routing", "given"),
        };
        let draws = format!("manet-chain {}", chain.hops);
        Cell::new(name, draws, move |seed| run(chain, seed)).at_most(RUNS)
    }
}

fn chains() -> Vec<Chain> {
    PAPER_TCPS
        .into_iter()
        .flat_map(|tcp| HOPS.map(|hops| Chain { hops, tcp, over_aodv: None }))
        .collect()
}

fn run(chain: Chain, seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let radio = world.add_radio(Assumed::Usual.radio());
    let nodes: Vec<NodeId> = (0..=chain.hops)
        .map(|number| {
            let node = world.add_node(&format!("n{number}"));
            let motion = Motion::at_rest(Position::new(200.0 * f64::from(number), 0.0));
            world.add_radio_station(radio, node, motion, Assumed::Usual.interface(false));
            if chain.over_aodv.is_some() {
                let aodv = RoutingProtocol::Aodv(aodv::Config::link_layer_feedback());
                world.enable_routing(node, &RoutingConfig::new(aodv), &[]);
            }
            if chain.over_aodv == Some(Carrier::Hbh) {
                world.enable_hbh(node, super::scene::hbh());
            }
            node
        })
        .collect();
    if chain.over_aodv.is_none() {
        world.auto_routes();
    }
    let (from, to) = (nodes[0], nodes[usize::from(chain.hops)]);
    let destination = SocketAddr::new(world.address(to).expect("it has a radio"), 9);
    let tcp = Assumed::Usual.tcp(chain.tcp, 0);
    let config =
        transfer::SenderConfig { octets: None, tcp, ..transfer::SenderConfig::new(destination, 0) };
    world.add_app(from, transfer::Sender::new(config));
    let sink = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
    let sink = world.add_app(to, transfer::Sink::new(sink));
    let octets = |world: &World| world.transfer_sink(sink).map_or(0, |it| it.octets);
    world.run_until(Time::ZERO + BEGIN);
    let before = octets(&world);
    world.run_until(Time::ZERO + END);
    let kbit_s = (octets(&world) - before) as f64 * 8.0 / 1e3 / (END - BEGIN).as_secs_f64();
    let breaks: u64 = nodes.iter().map(|node| world.routing_counters(*node).unsent).sum();
    vec![exact(GOODPUT, kbit_s), exact(BREAKS, breaks as f64)]
}

fn judge(runs: &Runs<Chain>) -> Finding {
    let at = |tcp, hops| runs.at(&Chain { hops, tcp, over_aodv: None }, GOODPUT);
    let bound = |hops: u8| at(Tcp::NewReno, 1).mean / f64::from(hops.min(REACH));
    let mut checks = Vec::new();
    for tcp in [Tcp::NewReno, Tcp::Vegas] {
        for hops in &HOPS[1..] {
            let share = at(tcp, *hops).times(1.0 / bound(*hops));
            let title = tcp.title();
            let text = number(share.mean);
            let what = format!("{title}: {hops} hops give {text} of the bound");
            checks.push(Check::new(what, share.within(NEAR)));
            let what = format!("{title}: {hops} hops give less than {}", hops - 1);
            checks.push(Check::new(what, at(tcp, *hops).below(&at(tcp, hops - 1))));
        }
    }
    let mut points = Vec::new();
    for chain in chains() {
        let goodput = runs.at(&chain, GOODPUT);
        points.push(Point {
            limit: Some(bound(chain.hops)),
            ..Point::new(chain.tcp.line(), (chain.hops.into(), "hops"), (goodput, KBIT_S))
        });
    }
    let told = PAPER_TCPS.map(|tcp| {
        let all = HOPS.map(|hops| number(at(tcp, hops).mean));
        format!("{} {}", tcp.title(), all.join(", "))
    });
    let measured = format!("{} {KBIT_S} over 1 to 6 hops.", told.join("; "));
    let limit = Series::limit(&points, "one of min(h, 4) hops sends at a time", Ink::Limit, 1.0);
    let figure = Figure::of(&points, "manet-chain", "TCP over hops")
        .under("Radios 200 m apart at rest, given routes")
        .over(Axis::linear("Hops", "").with_ticks(HOPS.map(f64::from)))
        .up(Axis::linear("Goodput", KBIT_S))
        .above(vec![limit]);
    Finding {
        figures: vec![figure],
        tables: vec![Table::of("Goodput over hops, kbit/s", &points)],
        points,
        assumptions: vec![
            "TCPs and radios are those of the other experiments; goodput is that of 60 s, after 10 s. The bound \
             divides what NewReno gets over one hop."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_must_fall_as_the_bound_does() {
        let verdict = |fall: &dyn Fn(f64) -> f64| {
            let runs = Runs::made_up(chains(), 3, |chain| {
                vec![(GOODPUT, 1_200.0 * fall(chain.hops.into()))]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(&|hops| 1.0 / hops.min(4.0) - hops / 1e3 + 1e-3), Verdict::Reproduced);
        assert_eq!(verdict(&|hops| 1.0 / hops), Verdict::Differs);
        assert_eq!(verdict(&|hops| 1.0 / hops.sqrt()), Verdict::Differs);
    }

    #[test]
    fn hbh_must_gain_where_ends_are_hidden_and_lose_nowhere() {
        let verdict = |near: f64, far: f64| {
            let runs = Runs::made_up(carried(), 3, |chain| {
                let gain = if chain.hops < HIDDEN { near } else { far };
                let gain = if chain.over_aodv == Some(Carrier::Hbh) { gain } else { 1.0 };
                vec![(GOODPUT, 600.0 * gain), (BREAKS, 1.0)]
            });
            judge_breaks(&runs).verdict
        };

        assert_eq!(verdict(0.97, 1.1), Verdict::Reproduced);
        assert_eq!(verdict(0.9, 1.1), Verdict::Differs);
        assert_eq!(verdict(0.97, 0.97), Verdict::Differs);
    }
}
