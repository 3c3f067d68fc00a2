//! The radio itself: stations that always have something to send, beside models of them.

use std::net::SocketAddr;
use std::time::Duration;

use base::time::Time;
use sim::app::stream;
use sim::mobility::{Motion, Position};
use sim::radio::bianchi::{Counting, saturation};
use sim::{InterfaceConfig, NodeId, World, radio};

use super::{GROUP, KBIT_S, RUNS};
use crate::prelude::*;

const STATIONS: [u32; 5] = [1, 2, 5, 10, 20];
/// Octets of an IP packet, and of its IPv4 and UDP headers.
const PACKET: u32 = 1_500;
const HEADERS: u32 = 28;
/// Sooner than the channel takes one, so that a packet always waits.
const INTERVAL: Duration = Duration::from_millis(4);
const BEGIN: Duration = Duration::from_secs(2);
const END: Duration = Duration::from_secs(62);
/// How far from a model may be measured, as a part.
const NEAR: f64 = 0.05;
/// A threshold that no frame reaches.
const NO_RTS: u32 = 65_535;

/// Octets of packets that arrive, in kbit/s.
const THROUGHPUT: Metric = "throughput";

pub const CLAIM: Claim = Claim {
    id: "manet-dcf",
    group: GROUP,
    text: "stations that all hear each other and always have something to send get together what Bianchi's model \
           says, and what it says with counters that stand still while the channel is busy, within 5 %",
    source: "Bianchi, IEEE JSAC 18(3), 2000",
    experiment: || Experiment::new(crowds(), judge),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Crowd {
    stations: u32,
    has_rts: bool,
}

impl Place for Crowd {
    fn cell(&self) -> Cell {
        let crowd = *self;
        let Self { stations, has_rts } = crowd;
        let rts = if has_rts { "rts" } else { "basic" };
        let name = Name::of("dcf").with("stations", stations).word(rts);
        let draws = format!("manet-dcf Crowd {{ stations: {stations}, has_rts: {has_rts} }}");
        Cell::new(name, draws, move |seed| run(crowd, seed)).at_most(RUNS)
    }
}

fn crowds() -> Vec<Crowd> {
    let of = |has_rts| STATIONS.map(|stations| Crowd { stations, has_rts });
    [true, false].into_iter().flat_map(of).collect()
}

impl Crowd {
    fn config(self) -> radio::Config {
        let usual = radio::Config::default();
        let rts_threshold = if self.has_rts { usual.rts_threshold } else { NO_RTS };
        radio::Config { rts_threshold, ..usual }
    }

    /// What a model says, in kbit/s.
    fn model(self, counting: Counting) -> f64 {
        saturation(&self.config(), self.stations, PACKET, counting).octets_per_s * 8.0 / 1e3
    }
}

fn run(crowd: Crowd, seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let radio = world.add_radio(crowd.config());
    let nodes: Vec<NodeId> = (0..=crowd.stations)
        .map(|number| {
            let node = world.add_node(&format!("n{number}"));
            let motion = Motion::at_rest(Position::new(0.0, 0.0));
            world.add_radio_station(radio, node, motion, InterfaceConfig::default());
            node
        })
        .collect();
    world.auto_routes();
    let (to, from) = nodes.split_last().expect("there is a receiver");
    let address = world.address(*to).expect("it has a radio");
    let mut sinks = Vec::new();
    // A sink follows one stream.
    for (node, port) in from.iter().zip(9..) {
        let sender = stream::SenderConfig {
            interval: INTERVAL,
            ..stream::SenderConfig::new(SocketAddr::new(address, port), (PACKET - HEADERS) as usize)
        };
        world.add_app(*node, stream::Sender::new(sender));
        sinks.push(world.add_app(*to, stream::Sink::new(port)));
    }
    let received = |world: &World| -> u64 {
        let of = |sink| world.app(sink).map_or(0, |it: &stream::Sink| it.stats().received);
        sinks.iter().map(|sink| of(*sink)).sum()
    };
    world.run_until(Time::ZERO + BEGIN);
    let before = received(&world);
    world.run_until(Time::ZERO + END);
    let packets = (received(&world) - before) as f64;
    let kbit_s = packets * f64::from(PACKET) * 8.0 / 1e3 / (END - BEGIN).as_secs_f64();
    vec![exact(THROUGHPUT, kbit_s)]
}

fn judge(runs: &Runs<Crowd>) -> Finding {
    let (mut checks, mut points, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut farthest = [0.0_f64; 2];
    for crowd in crowds() {
        let measured = runs.at(&crowd, THROUGHPUT);
        let models = [Counting::Frozen, Counting::Down].map(|counting| crowd.model(counting));
        let how = if crowd.has_rts { "with RTS" } else { "without RTS" };
        for ((model, name), most) in models.into_iter().zip(MODELS).zip(&mut farthest) {
            let off = measured.mean / model - 1.0;
            *most = most.max(off.abs());
            let what = format!("{} stations {how}: {} from {name}", crowd.stations, percent(off));
            checks.push(Check::new(
                what,
                measured.within([1.0 - NEAR, 1.0 + NEAR].map(|it| it * model)),
            ));
        }
        rows.push(vec![
            format!("{}, {how}", crowd.stations),
            mean(&measured),
            number(models[0]),
            number(models[1]),
        ]);
        let (series, ink) = if crowd.has_rts { ("rts", Ink::Default) } else { ("basic", Ink::Tcp) };
        points.push(Point {
            limit: Some(models[0]),
            ..Point::new(
                Line::new(series, format!("ours, {how}"), ink),
                (crowd.stations.into(), "stations"),
                (measured, KBIT_S),
            )
        });
    }
    let curve = |has_rts, counting, name: &str, ink| {
        let marks = (1..=20).map(|stations| {
            Mark::exact(stations.into(), Crowd { stations, has_rts }.model(counting))
        });
        Series::new(name, ink, marks)
    };
    let below = vec![
        curve(true, Counting::Frozen, "counters stand still, with RTS", Ink::Trace(0)),
        curve(true, Counting::Down, "Bianchi, with RTS", Ink::Trace(1)),
        curve(false, Counting::Frozen, "counters stand still, without RTS", Ink::Trace(2)),
        curve(false, Counting::Down, "Bianchi, without RTS", Ink::Trace(3)),
    ];
    let figure = Figure::of(&points, "manet-dcf", "Saturated stations on one channel")
        .under("IP packets of 1500 octets at 2 Mbit/s")
        .over(Axis::linear("Stations", "").with_ticks([1.0, 5.0, 10.0, 15.0, 20.0]))
        .up(Axis { from_zero: false, ..Axis::linear("Throughput of all", KBIT_S) })
        .above(below);
    let measured = format!(
        "At most {} from the model with counters that stand still, {} from Bianchi's own.",
        percent(farthest[0]),
        percent(farthest[1])
    );
    let head = ["stations", "ours", "counters stand still", "Bianchi"].map(str::to_owned).to_vec();
    Finding {
        figures: vec![figure],
        points,
        tables: vec![Table::list("Throughput of all stations, kbit/s", head, rows)],
        assumptions: vec![
            "Stations stand at one place and send UDP in IP packets of 1,500 octets to one that sends nothing, 60 s \
             each; 2 Mbit/s for data, 1 Mbit/s for the rest."
                .to_owned(),
        ],
        ..runs.finding(&checks, measured)
    }
}

/// The models, the nearer one first.
const MODELS: [&str; 2] = ["counters that stand still", "Bianchi's model"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_must_be_near_both_models() {
        let verdict = |factor: f64| {
            let runs = Runs::made_up(crowds(), 3, |crowd| {
                vec![(THROUGHPUT, factor * crowd.model(Counting::Frozen))]
            });
            judge(&runs).verdict
        };

        assert_eq!(verdict(1.0), Verdict::Reproduced);
        assert_eq!(verdict(1.08), Verdict::Differs);
        assert_eq!(verdict(0.92), Verdict::Differs);
    }

    #[test]
    fn a_lone_station_gets_what_its_exchange_takes() {
        let outcome = run(Crowd { stations: 1, has_rts: true }, 1);

        // 7,678 µs for 1,500 octets.
        assert!((outcome[0].1.value() / 1_562.9 - 1.0).abs() < 0.01, "{outcome:?}");
    }
}
