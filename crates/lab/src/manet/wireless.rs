//! HBH over a wireless network with OLSR below it: TCP and datagrams, alone and at the same time.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use manet::olsr;
use sim::app::{stream, transfer};
use sim::mobility::{Motion, paper};
use sim::service::routing::{RoutingConfig, RoutingProtocol};
use sim::{InterfaceConfig, NodeId, QueueDiscipline, World, radio};

use super::{GROUP, RUNS};
use crate::prelude::*;
use crate::tcp::as_ns2;

/// When traffic starts: OLSR has found its routes, HBH its neighbours.
const BEGIN: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(330);
/// A datagram of so many octets each 50 ms: 80 kbit/s.
const PAYLOAD: usize = 500;
const INTERVAL: Duration = Duration::from_millis(50);
const RATE: f64 = 80.0;
/// The least ratio that counts as not worse.
const NOT_WORSE: f64 = 0.95;

/// Octets that TCP brought, in kbit/s.
const TCP: Metric = "TCP goodput";
/// Octets of datagrams that arrived, in kbit/s.
const UDP: Metric = "UDP goodput";
/// The part of the datagrams that did not arrive.
const LOSS: Metric = "UDP loss";
/// From sending to receiving, in ms.
const DELAY: Metric = "UDP delay";

pub const CLAIM: Claim = Claim {
    id: "hbh-wireless",
    group: GROUP,
    text: "HBH runs over a wireless network with OLSR below it and carries TCP and UDP; fairness between them was \
           left open",
    source: "Marques et al., sections V and VI",
    experiment: || Experiment::new(trials(), judge),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Trial {
    /// Whether a sixth node passes along the chain, and is the source.
    moves: bool,
    load: Load,
    is_hbh: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Tcp,
    Udp,
    Both,
}

impl Place for Trial {
    fn cell(&self) -> Cell {
        let trial = *self;
        let load = match trial.load {
            Load::Tcp => "tcp",
            Load::Udp => "udp",
            Load::Both => "both",
        };
        let network = if trial.moves { "chain-5+1" } else { "chain-5" };
        let name = Name::of("wireless").with("network", network).with("load", load);
        let name = name.word(line(trial.is_hbh).series);
        let draws = format!("hbh-wireless {}", trial.moves);
        Cell::new(name, draws, move |seed| run(trial, seed)).at_most(RUNS)
    }
}

fn trials() -> Vec<Trial> {
    let mut all = Vec::new();
    for moves in [false, true] {
        for load in [Load::Tcp, Load::Udp, Load::Both] {
            all.extend([false, true].map(|is_hbh| Trial { moves, load, is_hbh }));
        }
    }
    all
}

fn run(trial: Trial, seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let radio = world.add_radio(radio::Config::default());
    let queue_discipline = QueueDiscipline::RoutingFirst;
    let interface = InterfaceConfig { queue_discipline, ..InterfaceConfig::default() };
    let mut motions: Vec<Motion> = paper::chain().map(Motion::at_rest).to_vec();
    motions.extend(trial.moves.then(paper::passer));
    let mut nodes: Vec<NodeId> = Vec::new();
    for (number, motion) in motions.into_iter().enumerate() {
        let node = world.add_node(&format!("n{number}"));
        world.add_radio_station(radio, node, motion, interface);
        let olsr = RoutingProtocol::Olsr(olsr::Config::default());
        world.enable_routing(node, &RoutingConfig::new(olsr), &[]);
        if trial.is_hbh {
            world.enable_hbh(node, super::scene::hbh());
        }
        nodes.push(node);
    }
    let (from, to) = (nodes[nodes.len() - 1], nodes[0]);
    let address = world.address(to).expect("a station has an address");
    let (start, stop) = (Time::ZERO + BEGIN, Time::ZERO + END);
    let bulk = (trial.load != Load::Udp).then(|| {
        let tcp = as_ns2(tcp::Config::default());
        let config = transfer::SenderConfig {
            octets: None,
            start,
            stop: Some(stop),
            tcp,
            ..transfer::SenderConfig::new(SocketAddr::new(address, 9), 0)
        };
        world.add_app(from, transfer::Sender::new(config));
        let sink = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) };
        world.add_app(to, transfer::Sink::new(sink))
    });
    let datagrams = (trial.load != Load::Tcp).then(|| {
        let config = stream::SenderConfig {
            interval: INTERVAL,
            start,
            stop: Some(stop),
            ..stream::SenderConfig::new(SocketAddr::new(address, 10), PAYLOAD)
        };
        let sender = world.add_app(from, stream::Sender::new(config));
        (sender, world.add_app(to, stream::Sink::new(10)))
    });
    world.run_until(stop);

    let kbit_s = |octets: u64| octets as f64 * 8.0 / 1_000.0 / (END - BEGIN).as_secs_f64();
    let mut outcome = Outcome::new();
    let mut tell = |metric, value| outcome.push(exact(metric, value));
    if let Some(sink) = bulk {
        tell(TCP, kbit_s(world.transfer_sink(sink).map_or(0, |sink| sink.octets)));
    }
    if let Some((sender, sink)) = datagrams
        && let Some(sent) = world.app::<stream::Sender>(sender).map(stream::Sender::stats)
        && let Some(sink) = world.app::<stream::Sink>(sink).map(stream::Sink::stats)
    {
        tell(UDP, kbit_s(sink.octets));
        tell(LOSS, 1.0 - sink.received as f64 / (sent.sent + sent.unsent).max(1) as f64);
        if sink.received > 0 {
            tell(DELAY, sink.delay.mean() * 1e3);
        } else {
            // None came while they were sent.
            outcome.push((DELAY, Observation::AtLeast((END - BEGIN).as_secs_f64() * 1e3)));
        }
    }
    outcome
}

/// Jain's index of both flows' shares of their max-min fair rates: the datagrams' fair rate is their own rate, or
/// half of TCP's goodput alone over plain IP if less; TCP's fair rate is the rest.
fn fairness(runs: &Runs<Trial>, moves: bool, is_hbh: bool) -> Estimate {
    let alone = runs.at(&Trial { moves, load: Load::Tcp, is_hbh: false }, TCP).mean;
    let both = Trial { moves, load: Load::Both, is_hbh };
    let udp = RATE.min(alone / 2.0);
    let shares = [runs.at(&both, TCP).mean / (alone - udp), runs.at(&both, UDP).mean / udp]
        .map(|it| it.min(1.0));
    let [a, b] = shares;
    Estimate::exact((a + b) * (a + b) / (2.0 * (a * a + b * b)))
}

fn judge(runs: &Runs<Trial>) -> Finding {
    let (mut checks, mut points, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut told = Vec::new();
    for moves in [false, true] {
        let place = if moves { "Chain 5+1" } else { "Chain 5" };
        let at = |load, is_hbh, metric| runs.at(&Trial { moves, load, is_hbh }, metric);
        for (load, metric, what) in [
            (Load::Tcp, TCP, "TCP alone"),
            (Load::Udp, UDP, "datagrams alone"),
            (Load::Both, TCP, "TCP beside datagrams"),
            (Load::Both, UDP, "datagrams beside TCP"),
        ] {
            let ratio = at(load, true, metric).over(&at(load, false, metric));
            let text = format!("{place}: {what}: {ratio} of plain");
            checks.push(Check::new(text, ratio.at_least(NOT_WORSE)));
        }
        let [plain, hbh] = [false, true].map(|is_hbh| fairness(runs, moves, is_hbh));
        told.push(format!("{place}: plain IP {plain}, HBH {hbh}"));
        for (is_hbh, jain) in [(false, plain), (true, hbh)] {
            let x = if moves { 2.0 } else { 1.0 };
            points.push(Point {
                cell: Some(place.to_owned()),
                ..Point::new(line(is_hbh), (x, "network"), (jain, "Jain's index"))
            });
            for (load, name) in [(Load::Tcp, "TCP"), (Load::Udp, "datagrams"), (Load::Both, "both")]
            {
                let value = |metric| match load {
                    Load::Tcp if metric != TCP => String::new(),
                    Load::Udp if metric == TCP => String::new(),
                    _ if metric == LOSS => percent(at(load, is_hbh, metric).mean),
                    _ => mean(&at(load, is_hbh, metric)),
                };
                let jain = if load == Load::Both { mean(&jain) } else { String::new() };
                let place = format!("{place}, {name}, {}", line(is_hbh).title);
                rows.push(vec![place, value(TCP), value(UDP), value(LOSS), value(DELAY), jain]);
            }
        }
    }
    let table = Table::list(
        "TCP and datagrams of 80 kbit/s over OLSR; goodput in kbit/s",
        ["case", TCP, UDP, LOSS, "UDP delay, ms", "Jain's index"],
        rows,
    );
    let measured = format!(
        "Jain's index of the parts that TCP and datagrams get of their fair shares: {}.",
        told.join("; ")
    );
    Finding {
        points,
        tables: vec![table],
        assumptions: assumptions(),
        ..runs.finding(&checks, measured)
    }
}

fn assumptions() -> Vec<String> {
    [
        "The paper gives neither radio nor places: the radio is ns-2's 802.11 at 2 Mbit/s, the places are those of \
         the MANET claims. Both flows go from one end to the other of a chain of five, or from the node that \
         passes along it to its first node, for 300 s.",
        "TCP is NewReno as ns-2 has it. Fair shares are max-min fair: datagrams are to have their 80 kbit/s, or half \
         of what TCP gets alone over plain IP if that is less, and TCP the rest of that. More than the share \
         counts as the share.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn line(is_hbh: bool) -> Line {
    let (series, title, ink) =
        if is_hbh { ("hbh", "HBH", Ink::Default) } else { ("plain", "plain IP", Ink::Tcp) };
    Line::new(series, title, ink)
}
