//! Runs the coded tunnel on a network of one's choice and prints what came of it.
//!
//! ```text
//! cargo run --release -p trackway-lab --example nc_tune -- seed sessions=2 loss=10%
//! cargo run --release -p trackway-lab --example nc_tune -- long loss='gilbert-elliott(mean=10%,burst=4)'
//! ```
//!
//! The first word is a topology, `seed` or `long`; each other word is `key=value`, and a value may be
//! several, `sessions=1,2,3,5 loss=0,10%,20%`, of which every combination is run. See `KEYS`.

use std::time::Duration;

use anyhow::{Context, bail};
use lab::nc::measure::{Measured, Span};
use lab::nc::network::{Carrier, Kind, Network, Traffic};
use lab::runner;
use proto::nc;
use sim::channel::Loss;

const KEYS: &str = "\
  sessions=1     pairs of a source and a sink
  loss=0         on the middle there: 10%, gilbert-elliott(mean=10%,burst=4)
  back=0         on the middle back
  carrier=coded  or plain, tcpnc, tcpnc-tunnel
  traffic=...    tcp (the seed's NewReno), current (SACK, large windows), current-ecn, cubic,
                 udp:0.95 (of the limit)
  runs=3         seeds
  warm=10        seconds that do not count
  window=60      seconds that count
  hidden=no      yes: the middle starts a hop beyond the gateways
  both=no        yes: every sink is a source too
  rival=no       yes: a plain CUBIC flow beside the tunnel; hidden too
  queue=         packets before every link
  rate=          bit/s of the middle: 10mbit
  delay=         ms of the middle, one way
  packet=        octets of a full inner packet
  max-rate=      bit/s that the tunnel does not exceed
  buffer=        octets that wait to enter the tunnel at most
  deadline=      ms that a packet is worth recovering
  stats=no       yes: counters of both ends, of the last run
  seed=0         the first of them
  trace=no       yes: a line each second, of the first run";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((topology, settings)) = arguments.split_first() else {
        println!("nc_tune seed|long key=value ...\n\n{KEYS}");
        return Ok(());
    };
    println!("{}", HEAD.join("  "));
    for choice in combinations(settings)? {
        Experiment::new(topology, &choice)?.run();
    }
    Ok(())
}

const HEAD: [&str; 11] = [
    "sessions",
    "              loss",
    "goodput",
    "  limit",
    " ratio",
    "  worst",
    "  Jain",
    " p50 ms",
    " p99 ms",
    "out/in",
    "repeats",
];

/// Every combination of the settings' values.
fn combinations(settings: &[String]) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let mut combinations = vec![Vec::new()];
    for setting in settings {
        let (key, values) =
            setting.split_once('=').with_context(|| format!("{setting}: key=value"))?;
        let values = split_outside_brackets(values);
        combinations = combinations
            .into_iter()
            .flat_map(|choice: Vec<(String, String)>| {
                values.iter().map(move |value| {
                    let mut choice = choice.clone();
                    choice.push((key.to_owned(), value.clone()));
                    choice
                })
            })
            .collect();
    }
    Ok(combinations)
}

fn split_outside_brackets(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match parts.last_mut() {
            Some(last) if letter != ',' || depth > 0 => last.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts
}

/// A network, and how to run it.
struct Experiment {
    network: Network,
    span: Span,
    runs: u32,
    first: u32,
    has_stats: bool,
    has_trace: bool,
}

impl Experiment {
    fn new(topology: &str, choice: &[(String, String)]) -> anyhow::Result<Self> {
        // The search for the path MTU is not what is tuned here.
        let coded = Carrier::Coded(nc::Config { base_mtu: 1_500, ..nc::Config::default() });
        let network = match topology {
            "long" => Network::long(Loss::None, coded),
            "seed" => Network::seed(1, Loss::None, coded),
            other => bail!("{other}: seed or long"),
        };
        let span = Span { warm_up: Duration::from_secs(10), window: Duration::from_secs(60) };
        let mut it = Self { network, span, runs: 3, first: 0, has_stats: false, has_trace: false };
        for (key, value) in choice {
            it.set(key, value).with_context(|| format!("{key}={value}"))?;
        }
        Ok(it)
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let network = &mut self.network;
        match key {
            "back" => network.loss_back = value.parse()?,
            "buffer" => coded(network)?.queue = value.parse()?,
            "both" => network.is_both_ways = is_yes(value)?,
            "carrier" if value == "plain" => network.carrier = Carrier::Plain,
            "carrier" if value == "coded" => {}
            "carrier" if value == "tcpnc" => network.carrier = Carrier::TcpNc,
            "carrier" if value == "tcpnc-tunnel" => {
                network.carrier = Carrier::TcpNcTunnel { min_rto: Duration::from_millis(400) };
            }
            "deadline" => coded(network)?.deadline = Duration::from_millis(value.parse()?),
            "delay" => network.middle.delay = Duration::from_secs_f64(value.parse::<f64>()? / 1e3),
            "hidden" => network.is_hidden = is_yes(value)?,
            "loss" => network.loss = value.parse()?,
            "max-rate" => coded(network)?.max_rate = Some(value.parse()?),
            "packet" => network.packet = value.parse()?,
            "queue" => network.queue = value.parse()?,
            "rate" => network.middle.rate = value.parse()?,
            "rival" if is_yes(value)? => {
                network.is_hidden = true;
                network.rival = Some(Kind::Cubic);
            }
            "rival" => {}
            "runs" => self.runs = value.parse()?,
            "seed" => self.first = value.parse()?,
            "sessions" => network.sessions = value.parse()?,
            "stats" => self.has_stats = is_yes(value)?,
            "trace" => self.has_trace = is_yes(value)?,
            "traffic" => network.traffic = traffic(value)?,
            "warm" => self.span.warm_up = Duration::from_secs(value.parse()?),
            "window" => self.span.window = Duration::from_secs(value.parse()?),
            _ => bail!("no such setting:\n{KEYS}"),
        }
        Ok(())
    }

    fn run(&self) {
        let mut all = Vec::new();
        for run in self.first..self.first + self.runs {
            let seed = runner::seed("nc_tune", run);
            let (mut octets, mut outer) = (0, 0);
            all.push(Measured::run(&self.network, seed, self.span, |world, built| {
                if !self.has_trace || run > self.first {
                    return;
                }
                let received: u64 = built.flows.iter().map(|flow| flow.received(world)).sum();
                let sent = built.outer_octets();
                let waiting = world.queue_len(world.ends(built.middle)[0]);
                println!(
                    "{:8.3} s  goodput {:8.3} Mbit/s  outer {:8.3} Mbit/s  queue {waiting:4}",
                    world.now().as_secs_f64(),
                    (received - octets) as f64 * 8e-6,
                    (sent - outer) as f64 * 8e-6,
                );
                (octets, outer) = (received, sent);
            }));
        }
        self.print(&all);
    }

    fn print(&self, all: &[Measured]) {
        let mean =
            |of: &dyn Fn(&Measured) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let limit = self.network.limit();
        let worst = all.iter().map(|it| it.goodput() / limit).fold(f64::INFINITY, f64::min);
        let millis =
            |share: f64| mean(&|it| it.delay(share).unwrap_or_default().as_secs_f64() * 1e3);
        println!(
            "{:8}  {:>18}  {:7.3}  {:7.3}  {:6.4}  {:7.4}  {:6.4}  {:7.1}  {:7.1}  {:6.3}  {:7.1}{}",
            self.network.sessions,
            short(&self.network.loss),
            mean(&Measured::goodput) / 1e6,
            limit / 1e6,
            mean(&Measured::goodput) / limit,
            worst,
            mean(&Measured::fairness),
            millis(0.5),
            millis(0.99),
            mean(&|it| it.cost().unwrap_or_default()),
            mean(&|it| it.retransmissions as f64),
            self.network.rival.map_or(String::new(), |_| format!(
                "  rival {:.3} Mbit/s",
                mean(&|it| it.rival.unwrap_or_default()) / 1e6
            )),
        );
        if self.has_stats
            && let Some(last) = all.last()
        {
            for end in &last.ends {
                println!("to {}, mtu {}: {:#?}", end.peer, end.mtu, end.stats);
                println!("{:?}\n{:?}", end.estimates, end.counters);
            }
            println!("{} events", last.events);
        }
    }
}

fn short(loss: &Loss) -> String {
    match loss {
        Loss::GilbertElliott(model) => {
            format!("{:.3} x{:.1}", loss.mean(), 1.0 / model.r.get())
        }
        Loss::Fades(_) | Loss::None | Loss::Random(_) | Loss::Trace(_) => {
            format!("{:.3}", loss.mean())
        }
    }
}

fn coded(network: &mut Network) -> anyhow::Result<&mut nc::Config> {
    match &mut network.carrier {
        Carrier::Coded(config) => Ok(config),
        Carrier::Plain | Carrier::TcpNc | Carrier::TcpNcTunnel { .. } => {
            bail!("only our tunnel has such a setting")
        }
    }
}

fn is_yes(value: &str) -> anyhow::Result<bool> {
    match value {
        "no" => Ok(false),
        "yes" => Ok(true),
        _ => bail!("yes or no"),
    }
}

fn traffic(value: &str) -> anyhow::Result<Traffic> {
    Ok(match (value, value.strip_prefix("udp:")) {
        ("current", _) => Traffic::Tcp(Kind::Current),
        ("current-ecn", _) => Traffic::Tcp(Kind::CurrentEcn),
        ("cubic", _) => Traffic::Tcp(Kind::Cubic),
        ("tcp", _) => Traffic::Tcp(Kind::Seed),
        (_, Some(load)) => Traffic::Udp { load: load.parse()? },
        _ => bail!("tcp, current, current-ecn, cubic or udp:0.95"),
    })
}
