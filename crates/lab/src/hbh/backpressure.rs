//! Where packets are dropped when a link inside the network is too slow.

use std::time::Duration;

use hbh::Config;

use super::chain::{self, Chain, Tcp, Traffic};
use super::{Carrier, GROUP};
use crate::prelude::*;

/// Rates of the link in the middle, in kbit/s; the others have 300.
const RATES: [u16; 5] = [30, 60, 100, 150, 220];
/// Octets of the TCP transfer: enough to fill every queue.
const OCTETS: u32 = 500_000;
/// The stream: 240 kbit/s of payload.
const STREAM: Traffic =
    Traffic::Udp { bits_per_s: 240_000, payload: 500, span: Duration::from_secs(60) };
/// Up to this share of packets, losses are "near zero".
const NEAR_ZERO: f64 = 0.005;
/// Nothing here is random.
const RUNS: u32 = 2;

/// What crosses the bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    Datagrams,
    Transfer,
}

const LOADS: [Load; 2] = [Load::Transfer, Load::Datagrams];

/// The constants of back-pressure that the paper does not give.
#[derive(Debug)]
struct Constants {
    name: &'static str,
    set: fn(&mut Config),
}

impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The chosen constants, then variants with one constant changed at a time.
static CONSTANTS: [Constants; 10] = [
    Constants { name: "as taken", set: |_| {} },
    Constants { name: "s = 5", set: |hbh| (hbh.congestion, hbh.clear) = (5, 5) },
    Constants { name: "s = 10", set: |hbh| hbh.congestion = 10 },
    Constants { name: "s = 40", set: |hbh| hbh.congestion = 40 },
    Constants { name: "L = 100", set: |hbh| hbh.queue = 100 },
    Constants { name: "L = 200", set: |hbh| hbh.queue = 200 },
    Constants { name: "p = 1 kbit/s", set: |hbh| hbh.rate_increase = 1_000.0 },
    Constants { name: "p = 100 kbit/s", set: |hbh| hbh.rate_increase = 100_000.0 },
    Constants { name: "q = 0.25", set: |hbh| hbh.rate_decrease = 0.25 },
    Constants { name: "q = 0.75", set: |hbh| hbh.rate_decrease = 0.75 },
];

pub const CLAIM: Claim = Claim {
    id: "hbh-backpressure",
    group: GROUP,
    text: "congestion inside the network is pushed back to its edge: with a bottleneck in the \
           middle of the chain, losses inside the network fall to (nearly) nothing",
    source: "sections II.B and III.B",
    experiment: || Experiment::new(squeezes(), judge),
};

/// A slow link with its traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Squeeze {
    load: Load,
    carrier: Carrier,
    constants: &'static Constants,
    /// In kbit/s.
    rate: u16,
}

fn squeezes() -> Vec<Squeeze> {
    let mut all = Vec::new();
    for load in LOADS {
        for carrier in Carrier::ALL {
            let constants = &CONSTANTS[0];
            all.extend(RATES.map(|rate| Squeeze { load, carrier, constants, rate }));
        }
    }
    for constants in &CONSTANTS[1..] {
        for load in LOADS {
            let carrier = Carrier::Paper;
            all.extend(RATES.map(|rate| Squeeze { load, carrier, constants, rate }));
        }
    }
    all
}

impl Place for Squeeze {
    fn cell(&self) -> Cell {
        let traffic = match self.load {
            Load::Datagrams => STREAM,
            Load::Transfer => Traffic::Tcp(Tcp { octets: OCTETS, ..Tcp::default() }),
        };
        let mut hbh = self.carrier.config();
        if let Some(hbh) = &mut hbh {
            (self.constants.set)(hbh);
        }
        let bottleneck = Some(u64::from(self.rate) * 1_000);
        Chain { bottleneck, traffic, ..Chain::common(0.0, hbh) }.cell().at_most(RUNS)
    }
}

impl Drawn for Squeeze {
    fn line(&self) -> Line {
        match (self.load, self.carrier) {
            (Load::Transfer, carrier) => carrier.line(),
            (Load::Datagrams, Carrier::Tcp) => Line::new("udp", "plain UDP", Ink::Tcp),
            (Load::Datagrams, carrier) => {
                let [series, title] = [carrier.series(), carrier.title()];
                Line::new(format!("{series}, udp"), format!("{title}, UDP"), carrier.ink())
            }
        }
    }

    fn x(&self) -> (f64, &'static str) {
        (f64::from(self.rate), "kbit/s")
    }

    fn limit(&self, _: Metric) -> Option<f64> {
        Some(0.0)
    }
}

/// Packets dropped inside, as a share of the packets from the source.
fn share(runs: &Runs<Squeeze>, squeeze: &Squeeze) -> Estimate {
    let offered = runs.at(squeeze, chain::OFFERED).mean;
    runs.at(squeeze, chain::DROPPED_INSIDE).times(1.0 / offered.max(1.0))
}

/// The greatest share over the rates.
fn most(
    runs: &Runs<Squeeze>,
    constants: &'static Constants,
    carrier: Carrier,
    load: Load,
) -> Estimate {
    let shares = RATES.map(|rate| share(runs, &Squeeze { load, carrier, constants, rate }));
    shares.into_iter().max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or(Estimate::UNKNOWN)
}

fn judge(runs: &Runs<Squeeze>) -> Finding {
    let near_zero = |constants, carrier| {
        Answer::all(LOADS.map(|load| most(runs, constants, carrier, load).at_most(NEAR_ZERO)))
    };
    let listed = |carrier| {
        let [tcp, udp] = LOADS.map(|load| most(runs, &CONSTANTS[0], carrier, load));
        format!("{} of TCP's and {} of UDP's packets", percent(tcp.mean), percent(udp.mean))
    };
    let plain = LOADS.map(|load| most(runs, &CONSTANTS[0], Carrier::Tcp, load));
    let plain = Answer::any(plain.map(|it| it.at_most(NEAR_ZERO).negated()));
    let tried = CONSTANTS.each_ref().map(|it| (it.name, near_zero(it, Carrier::Paper)));
    let reached = tried.iter().filter(|(_, answer)| *answer == Answer::Yes);
    let reached: Vec<&str> = reached.map(|(name, _)| *name).collect();
    let some = Answer::any(tried.map(|(_, answer)| answer));
    let limit = percent(NEAR_ZERO);
    let checks = [
        Check::new(format!("without HBH more than {limit} are dropped inside"), plain),
        Check::new(
            format!("the paper profile drops at most {limit} with constants that were tried"),
            some,
        ),
    ];
    let measured = format!(
        "dropped inside the network at the worst bottleneck: {} without HBH, {} with the paper \
         profile, {} with the default profile.",
        listed(Carrier::Tcp),
        listed(Carrier::Paper),
        listed(Carrier::Default)
    );
    let finding = runs.finding(&checks, measured);
    let is_drawn = |it: &Squeeze| *it.constants == CONSTANTS[0];
    let point = |it: &Squeeze| {
        let y = share(runs, it).times(100.0);
        runs.point(it, chain::DROPPED_INSIDE, (y, "% dropped inside"))
    };
    let points: Vec<Point> = runs.places().iter().filter(|it| is_drawn(it)).map(point).collect();
    let [tcp, udp] = LOADS.map(|load| {
        let is_of = |it: &&Point| it.line.series.ends_with("udp") == (load == Load::Datagrams);
        points.iter().filter(is_of).cloned().collect::<Vec<_>>()
    });
    Finding {
        reason: format!(
            "{}. The paper gives none of s, L, p and q: the paper profile stays below with {}; the \
             default profile {}",
            finding.reason,
            if reached.is_empty() { "none".to_owned() } else { reached.join(", ") },
            match near_zero(&CONSTANTS[0], Carrier::Default) {
                Answer::Yes => "does",
                Answer::No => "does not",
                Answer::Undecided => "may or may not",
            },
        ),
        figures: vec![
            figure(&udp, "hbh-backpressure-udp", "a stream of 240 kbit/s"),
            figure(&tcp, "hbh-backpressure", "a TCP transfer of 500 kB"),
        ],
        tables: vec![sensitivity(runs), table(runs)],
        points,
        assumptions: assumptions(),
        ..finding
    }
}

fn figure(points: &[Point], name: &str, load: &str) -> Figure {
    let x = Axis::linear("Rate of the slow link", "kbit/s");
    let y = Axis::linear("Dropped after the first hop, share of packets sent", "%");
    let title = "Packets dropped inside the network";
    Figure {
        subtitle: format!(
            "Chain of 5 nodes, 300 kbit/s, 50 ms, no loss, one slow link, {load}, {RUNS} runs"
        ),
        note: "Packets dropped where they enter the network are not counted: that is where \
               back-pressure puts them."
            .to_owned(),
        ..Figure::of(points, name, title).over(x).up(y)
    }
}

/// What the paper profile drops inside with other constants.
fn sensitivity(runs: &Runs<Squeeze>) -> Table {
    let columns = [("TCP", Load::Transfer), ("UDP", Load::Datagrams)];
    let rows = CONSTANTS.each_ref().map(|it| (it.name, it));
    let title = "Dropped inside at the worst bottleneck, paper profile, by constants";
    Table::new(title, ("", columns), rows, |load, constants| {
        percent(most(runs, constants, Carrier::Paper, load).mean)
    })
}

fn table(runs: &Runs<Squeeze>) -> Table {
    let columns = [
        ("sent", chain::OFFERED),
        ("dropped at the edge", chain::DROPPED_AT_EDGE),
        ("dropped inside", chain::DROPPED_INSIDE),
    ];
    let all = runs.places().iter().filter(|it| *it.constants == CONSTANTS[0]);
    let rows = named(all, |it| format!("{}, {} kbit/s", it.line().title, it.rate));
    Table::new("Packets, by bottleneck", ("", columns), rows, |metric, it| runs.at(it, metric))
}

fn assumptions() -> Vec<String> {
    vec![
        "The paper has no figure of this. The chain of the other claims is taken, without loss and \
         with a slower link after the middle; nothing in it is random, so all runs agree."
            .to_owned(),
        format!(
            "The load is a TCP transfer of {OCTETS} octets, or a stream of 240 kbit/s for 60 s."
        ),
        "Dropped inside are packets that a full queue refuses after the first hop, and those that \
         HBH gives up after R retries or discards because they waited too long."
            .to_owned(),
        "s = 20, L = 50 packets, p = 10 kbit/s and q = 0.5 are taken; the first table has others."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict where plain IP drops a tenth inside, and the paper's profile drops `paper`.
    fn verdict(runs: u32, paper: fn(&Squeeze) -> f64) -> Verdict {
        judge(&Runs::made_up(squeezes(), runs, |it| {
            let inside = match it.carrier {
                Carrier::Default => 0.0,
                Carrier::Paper => paper(it),
                Carrier::Tcp => 100.0,
            };
            vec![(chain::OFFERED, 1_000.0), (chain::DROPPED_INSIDE, inside)]
        }))
        .verdict
    }

    #[test]
    fn some_constants_have_to_do_at_every_bottleneck_with_every_load() {
        let with_s_10 = |it: &Squeeze| if it.constants.name == "s = 10" { 4.0 } else { 50.0 };
        let tcp_only = |it: &Squeeze| if it.load == Load::Transfer { 0.0 } else { 50.0 };

        assert_eq!(verdict(2, |_| 4.0), Verdict::Reproduced);
        assert_eq!(verdict(2, with_s_10), Verdict::Reproduced);
        assert_eq!(verdict(2, tcp_only), Verdict::Differs, "ours alone is not the paper's");
        assert_eq!(verdict(1, |_| 4.0), Verdict::Undecided);
    }
}
