//! A run of an area of a brigade: 20 routers on EPLRS needlines, with OSPF, BGP and messages.

use std::path::Path;
use std::time::Duration;

use base::quantity::Probability;
use base::time::Time;
use sim::channel::{GilbertElliott, Loss};
use sim::service::routing::RoutingProtocol;
use tcp::Limit;

use super::topology::{self, ROUTERS};
use super::{COMPLETION, RUNS, bgp_of};
use crate::prelude::*;
use crate::scenario::{Built, Link, Peers, Plan, Routing};

/// c / (d t): the share of BGP's messages that arrived, over their mean delay in seconds and TCP's load on all
/// needlines in Mbit/s.
pub const M: Metric = "m";
pub const M_UNIT: &str = "1/Mbit";
/// The same by that of another TCP in the same run.
pub const BESIDE: Metric = "m by that beside";
/// Mean seconds from sending to arrival, over the BGP messages that arrived.
pub const DELAY: Metric = "delay";
/// Bits that TCP put on all needlines in a second, with all headers, repeats and acknowledgements.
pub const RATE: Metric = "TCP data rate";
/// Connections given up (R2).
pub const GIVEN_UP: Metric = "given up";
/// The share of C2 messages that came, in per cent.
pub const C2_COMPLETION: Metric = "C2 completion";
/// Mean seconds that one took.
pub const C2_DELAY: Metric = "C2 delay";

/// A run of the brigade.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    pub tcp: Tcp,
    /// How many of all packets each needline loses.
    pub failure: f64,
    pub assumed: Assumed,
    /// Another TCP that is run with the same chance, for [`BESIDE`].
    pub beside: Option<Tcp>,
}

/// The seven parameters that are varied, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    /// The retransmission timeout before any round-trip time is known.
    pub initial: f64,
    /// The gain of the mean round-trip time.
    pub a: f64,
    /// The gain of its deviation.
    pub b: f64,
    /// The coefficient of the deviation.
    pub c: f64,
    pub ack_delay: f64,
    /// Repeats before the application is warned.
    pub r1: u32,
    /// From then to the end of the connection.
    pub r2: f64,
}

impl Tcp {
    /// The gains of RFC 6298, and R1 and R2 as the paper has them at first.
    pub const STANDARD: Self =
        Self { initial: 35.0, a: 0.125, b: 0.25, c: 4.0, ack_delay: 0.2, r1: 3, r2: 240.0 };

    fn apply(self, config: &mut tcp::Config) {
        let seconds = Duration::from_secs_f64;
        let initial = seconds(self.initial);
        config.rto.initial = initial;
        config.rto.syn = initial;
        config.rto.after_syn_timeout = initial;
        config.rto.alpha = self.a;
        config.rto.beta = self.b;
        config.rto.k = self.c;
        config.delayed_ack.delay = seconds(self.ack_delay);
        config.r1 = Limit::Retransmissions(self.r1);
        config.r2 = Limit::ElapsedSinceR1(seconds(self.r2));
        config.r2_syn = config.r2;
    }
}

/// What is taken where the paper gives no number: what the example has, or one thing else.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Assumed {
    #[default]
    Usual,
    /// So many routers have BGP sessions with each other.
    Speakers(usize),
    /// All routers have them with two others, as a ring.
    Ring,
    /// Needlines are a command tree.
    Tree,
    /// Routers lie anywhere, and needlines lead to all that are near.
    Scattered,
    /// Seconds from one hello of OSPF to the next; a neighbour may miss three.
    Hello(u32),
    /// C2 messages in an hour.
    Messages(u32),
    /// BGP begins with OSPF, so the first segments find no routes.
    Together,
    /// Each 128 octets of a packet have 9 octets of X.25.
    Framed,
    /// Needlines send whenever there is something.
    WithoutSlots,
    /// Losses come in bursts of four packets.
    Bursts,
    /// The gains and the ACK delay of the standards where those of the experiment are others.
    Standard,
    /// Any acknowledgement of new data ends backing off, not only one that gives a round-trip time.
    Forgiving,
}

impl Assumed {
    /// In the words of a table.
    pub fn title(self) -> String {
        let text = match self {
            Self::Usual => "as in all other experiments",
            Self::Speakers(count) => return format!("{count} BGP speakers, not 12"),
            Self::Ring => "BGP in a ring of all 20",
            Self::Tree => "a tree of 19 needlines",
            Self::Scattered => "routers anywhere in a square",
            Self::Hello(seconds) => return format!("hellos every {seconds} s, not 60"),
            Self::Messages(count) => return format!("{count} C2 messages an hour, not 240"),
            Self::Together => "BGP begins with OSPF",
            Self::Framed => "9 octets of X.25 for each 128",
            Self::WithoutSlots => "no slots",
            Self::Bursts => "losses in bursts of 4",
            Self::Standard => "the gains of RFC 6298",
            Self::Forgiving => "any ACK ends backing off",
        };
        text.to_owned()
    }
}

/// The brigade of the examples, which all experiments begin with.
pub fn example() -> Plan {
    // By a link inside this crate: a package of the crate holds the file.
    let text = include_str!("../../files/tactical-brigade.toml");
    Plan::parse(Path::new("tactical-brigade.toml"), text.to_owned()).expect("a test reads it")
}

impl Trial {
    /// A run without failures, of what is usual.
    pub fn new(tcp: Tcp) -> Self {
        Self { tcp, failure: 0.0, assumed: Assumed::Usual, beside: None }
    }

    pub fn failing(self, failure: f64) -> Self {
        Self { failure, ..self }
    }

    pub fn with(self, assumed: Assumed) -> Self {
        Self { assumed, ..self }
    }

    /// The same with another TCP beside it.
    pub fn beside(self, beside: Tcp) -> Self {
        Self { beside: Some(beside), ..self }
    }

    pub fn plan(self, seed: u64) -> Plan {
        let mut plan = example();
        plan.seed = seed;
        self.assumed.apply(&mut plan);
        for link in &mut plan.links {
            let loss = self.loss();
            link.config.there.loss = loss.clone();
            link.config.back.loss = loss;
        }
        let mut tcp = self.tcp;
        if self.assumed == Assumed::Standard {
            let Tcp { a, b, c, ack_delay, .. } = Tcp::STANDARD;
            tcp = Tcp { a, b, c, ack_delay, ..tcp };
        }
        let bgp = plan.bgp.as_mut().expect("the example has it");
        tcp.apply(&mut bgp.tcp);
        bgp.tcp.rto.forgive = self.assumed == Assumed::Forgiving;
        plan
    }

    fn loss(self) -> Loss {
        let mean = Probability::new(self.failure).unwrap_or(Probability::ONE);
        match self.assumed {
            _ if self.failure == 0.0 => Loss::None,
            Assumed::Bursts => {
                GilbertElliott::from_bursts(mean, 4.0).map_or(Loss::None, Loss::GilbertElliott)
            }
            _ => Loss::random(mean),
        }
    }

    /// Measures a run, and the TCP beside it.
    pub fn measure(self, built: Built<'_>) -> Outcome {
        let seed = built.plan().seed;
        let mut outcome = measure(built);
        if self.beside == Some(self.tcp) {
            outcome.push(exact(BESIDE, 1.0));
        } else if let Some(tcp) = self.beside {
            let plan = Self { tcp, beside: None, ..self }.plan(seed);
            let beside = measure(plan.build(seed).expect("it has the same links"));
            let m = |outcome: &Outcome| value(outcome, M);
            let by = m(&outcome) / m(&beside).max(f64::MIN_POSITIVE);
            outcome.push(exact(BESIDE, by));
        }
        outcome
    }
}

impl Place for Trial {
    /// All trials meet the same chance, run by run.
    fn cell(&self) -> Cell {
        let trial = *self;
        let name = name(self.failure, self.assumed).tcp("", self.tcp);
        let name = match self.beside {
            Some(beside) => name.tcp("beside-", beside),
            None => name,
        };
        Cell::of(name, DRAWS, move |seed| trial.plan(seed), move |built| trial.measure(built))
            .at_most(RUNS)
    }
}

/// What every trial of the brigade draws.
pub const DRAWS: &str = "tactical brigade";

/// The name of a brigade with such needlines.
pub fn name(failure: f64, assumed: Assumed) -> Name {
    let name = Name::of("brigade").with("failure", failure);
    name.unless("assumed", assumed.title(), Assumed::Usual.title())
}

impl Name {
    /// The parameters of a TCP that differ from the standard.
    fn tcp(self, which: &str, tcp: Tcp) -> Self {
        let Tcp { initial, a, b, c, ack_delay, r1, r2 } = tcp;
        let usual = Tcp::STANDARD;
        let axis = |name: &str| format!("{which}{name}");
        let name = self.with(&axis("initial-rto"), initial);
        let name = name.unless(&axis("a"), a, usual.a).unless(&axis("b"), b, usual.b);
        let name = name.unless(&axis("c"), c, usual.c);
        let name = name.unless(&axis("ack-delay"), ack_delay, usual.ack_delay);
        name.unless(&axis("r1"), r1, usual.r1).unless(&axis("r2"), r2, usual.r2)
    }
}

impl Assumed {
    fn apply(self, plan: &mut Plan) {
        match self {
            Self::Usual | Self::Bursts | Self::Standard | Self::Forgiving => {}
            Self::Speakers(count) => {
                let bgp = plan.bgp.as_mut().expect("the example has it");
                let others = (0..ROUTERS).filter(|it| !bgp.nodes.contains(it)).collect::<Vec<_>>();
                // Fewer are as far apart as the others: every so many of them.
                let all: Vec<usize> = bgp.nodes.iter().copied().chain(others).collect();
                bgp.nodes = match all.get(..count) {
                    Some(more) if count >= bgp.nodes.len() => more.to_vec(),
                    _ => (0..count).map(|it| bgp.nodes[it * bgp.nodes.len() / count]).collect(),
                };
            }
            Self::Ring => {
                let bgp = plan.bgp.as_mut().expect("the example has it");
                bgp.nodes = (0..ROUTERS).collect();
                bgp.peers = Peers::Ring;
            }
            Self::Tree => connect(plan, &topology::tree()),
            Self::Scattered => connect(plan, &topology::scattered()),
            Self::Hello(seconds) => {
                if let Routing::Protocol(protocol) = &mut plan.routing
                    && let RoutingProtocol::Ospf(ospf) = &mut **protocol
                {
                    ospf.hello_interval = Duration::from_secs(seconds.into());
                    ospf.dead_interval = 4 * ospf.hello_interval;
                }
            }
            Self::Messages(count) => {
                let messages = plan.messages.as_mut().expect("the example has them");
                messages.interval = Duration::from_secs(3_600) / count;
            }
            Self::Together => {
                let bgp = plan.bgp.as_mut().expect("the example has it");
                let messages = plan.messages.as_mut().expect("the example has them");
                let before = bgp.start.since(Time::ZERO);
                plan.duration -= before;
                for (start, stop) in
                    [(&mut bgp.start, &mut bgp.stop), (&mut messages.start, &mut messages.stop)]
                {
                    *start = Time::ZERO;
                    *stop = stop.map(|stop| Time::ZERO + stop.since(Time::ZERO + before));
                }
            }
            Self::Framed => {
                for link in &mut plan.links {
                    for channel in [&mut link.config.there, &mut link.config.back] {
                        (channel.framing, channel.frame) = (9, Some(128));
                    }
                }
            }
            Self::WithoutSlots => {
                for link in &mut plan.links {
                    link.config.there.slots = Duration::ZERO;
                    link.config.back.slots = Duration::ZERO;
                }
            }
        }
    }
}

/// The same routers with other needlines between them.
fn connect(plan: &mut Plan, needlines: &[[usize; 2]]) {
    let like = plan.links[0].clone();
    plan.links = needlines.iter().map(|ends| Link { ends: *ends, ..like.clone() }).collect();
}

/// Runs it to its end.
fn measure(mut built: Built<'_>) -> Outcome {
    let bgp = bgp_of(&mut built);
    let start = built.plan().bgp.as_ref().map_or(Time::ZERO, |it| it.start);
    let span = built.plan().duration.saturating_sub(start.since(Time::ZERO));
    let rate = bgp.tcp_octets as f64 * 8.0 / span.as_secs_f64();
    let share = bgp.completion.unwrap_or_default();
    // Where nothing came, nothing was quick.
    let never = Observation::AtLeast(span.as_secs_f64());
    let took = |delay: Option<f64>| delay.map_or(never, Observation::Exact);
    let m = bgp.delay_s.filter(|delay| *delay > 0.0);
    let m = m.map_or(0.0, |delay| share / (delay * rate / 1e6));
    let mut outcome = vec![
        exact(M, m),
        exact(COMPLETION, 100.0 * share),
        (DELAY, took(bgp.delay_s)),
        exact(RATE, rate),
        exact(GIVEN_UP, bgp.timed_out as f64),
    ];
    if let Some(messages) = built.messages().filter(|messages| messages.expected > 0) {
        outcome.push(exact(C2_COMPLETION, 100.0 * messages.completion.unwrap_or_default()));
        outcome.push((C2_DELAY, took(messages.delay_s)));
    }
    outcome
}

/// The value of a metric in a run.
pub fn value(outcome: &Outcome, metric: Metric) -> f64 {
    let found = outcome.iter().find(|(name, _)| *name == metric);
    found.map_or(f64::NAN, |(_, observation)| observation.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_assumption_changes_the_plan_and_only_it() {
        let usual = Trial::new(Tcp::STANDARD).failing(0.05);
        let all = [
            Assumed::Speakers(6),
            Assumed::Speakers(16),
            Assumed::Ring,
            Assumed::Tree,
            Assumed::Scattered,
            Assumed::Hello(10),
            Assumed::Messages(480),
            Assumed::Together,
            Assumed::Framed,
            Assumed::WithoutSlots,
            Assumed::Bursts,
            Assumed::Forgiving,
        ];
        for assumed in all {
            assert_ne!(usual.with(assumed).plan(1), usual.plan(1), "{assumed:?}");
        }
        let speakers = |assumed| usual.with(assumed).plan(1).bgp.expect("some").nodes.len();
        assert_eq!([6, 16, 20].map(|it| speakers(Assumed::Speakers(it))), [6, 16, 20]);
        let tuned = Trial::new(Tcp { c: 2.0, ..Tcp::STANDARD }).failing(0.05);
        assert_eq!(tuned.with(Assumed::Standard).plan(1), usual.plan(1));
    }

    #[test]
    fn a_run_beside_itself_is_as_good_as_itself() {
        let trial = Trial::new(Tcp::STANDARD).with(Assumed::Ring).beside(Tcp::STANDARD);

        let outcome = trial.cell().run(0, 0);

        assert_eq!(value(&outcome, BESIDE), 1.0);
        let m = value(&outcome, M);
        let [share, delay, rate] = [COMPLETION, DELAY, RATE].map(|it| value(&outcome, it));
        assert!((m - share / 100.0 / delay / rate * 1e6).abs() < 1e-9 * m, "{outcome:?}");
        assert!((50.0..500.0).contains(&rate), "{rate}");
    }
}
