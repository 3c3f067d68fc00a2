//! A world: a chain of links between two gateways, what happens to it, and its traffic, all drawn from a seed.
//!
//! ```text
//!  source ── gateway ═ hop 0 ═ router ═ hop 1 ═ ... ═ gateway ── sink
//!                                │  bottleneck │
//!                            neighbour    its sink
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use base::quantity::{BitRate, Probability, whole};
use base::rng::Rng;
use base::time::Time;
use sim::channel::{self, GilbertElliott, Loss, Outages};
use sim::{InterfaceConfig, LinkConfig};
use tcp::Algorithm;

use crate::tcp::LINUX_RENO;
use crate::words::number;

/// Bits a second of the bottleneck.
const RATES: Range<f64> = 0.05e6..100e6;
/// Seconds one way, all hops together.
const DELAYS: Range<f64> = 0.001..0.4;
/// Hops between the gateways.
const MOST_HOPS: usize = 8;
/// Packets that wait before a hop at most.
const QUEUES: Range<f64> = 4.0..1000.0;
/// Share of packets lost by the only lossy hop.
const LOSS_OF_ONE: Range<f64> = 0.002..0.2;
/// Share of packets lost by each of several hops.
const LOSS_OF_ALL: Range<f64> = 0.001..0.1;
/// Packets of a mean burst.
const BURSTS: Range<f64> = 2.0..20.0;
/// Packets that HBH hands to a queue ahead of time where it does not see the queue: more than any holds.
const UNSEEN: usize = 1_000_000;
/// The jitter either way as a share of the delay.
const JITTERS: Range<f64> = 0.05..0.9;
/// How many times slower the way back is.
const ASYMMETRIES: Range<f64> = 2.0..30.0;
/// The slowest way back, in bits a second.
const SLOWEST_BACK: f64 = 20e3;
/// The factor by which a rate or delay changes.
const CHANGES: Range<f64> = 0.2..5.0;
/// The longest delay of a hop after a change, in seconds.
const LONGEST_HOP: f64 = 0.8;
/// Seconds of an outage.
const OUTAGES: Range<f64> = 0.5..60.0;
/// In worlds with an outage the flows have data for at least this long, if the budget allows.
const LAST_BESIDE_OUTAGE: f64 = 30.0;
/// Long flows of a world.
const FLOWS: Range<f64> = 1.0..21.0;
/// Bandwidth-delay products of a long flow.
const PRODUCTS: Range<f64> = 10.0..30.0;
/// The fewest octets of a long flow.
const SHORTEST_LONG: f64 = 60e3;
/// Octets of a request's answer.
pub const REQUEST: u64 = 10_000;
/// Packets times hops of all long flows together: what a run costs.
const BUDGET: f64 = 300e3;
/// Octets of data in a packet.
pub const SEGMENT: f64 = 1_448.0;
/// Octets of a packet with all headers.
pub const PACKET: f64 = 1_500.0;

/// A property that worlds are grouped by. A world can have several.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// None of the impairments below.
    Clean,
    /// One hop loses packets, each on its own.
    LossOnOne,
    /// All hops lose packets, each on its own.
    LossOnAll,
    /// Packets are lost in bursts, on one hop or all.
    Bursts,
    /// All hops lose packets in one direction only.
    LossOneWay,
    /// The delay varies and the order stays.
    Jitter,
    /// The delay varies and packets overtake each other.
    Reordering,
    /// The way back is slower.
    Asymmetric,
    /// The rate or the delay of a hop changes while data flows.
    Changing,
    /// A hop loses everything for a while, in one direction or both.
    Outage,
    /// HBH does not see its hops' queues, as where radios stand behind cables.
    UnseenQueues,
    /// Some routers between the gateways run plain IP only.
    PlainNodes,
    /// A plain CUBIC flow of others shares the queue of the bottleneck.
    Neighbour,
    /// Long flows in both directions.
    BothWays,
    /// Answers of 10 kB beside the long flows.
    Requests,
    /// Voice over UDP.
    Voice,
    /// A bulk flow over UDP.
    Udp,
    /// At least five long flows.
    Many,
    /// All flows use BBR.
    Bbr,
    /// All flows use CUBIC.
    Cubic,
    /// All flows use NewReno.
    NewReno,
    /// Flows differ in their congestion control.
    MixedTcp,
}

impl Kind {
    /// All kinds, as tables list them.
    pub const ALL: [Self; 22] = [
        Self::Clean,
        Self::LossOnOne,
        Self::LossOnAll,
        Self::Bursts,
        Self::LossOneWay,
        Self::Jitter,
        Self::Reordering,
        Self::Asymmetric,
        Self::Changing,
        Self::Outage,
        Self::UnseenQueues,
        Self::PlainNodes,
        Self::Neighbour,
        Self::BothWays,
        Self::Requests,
        Self::Voice,
        Self::Udp,
        Self::Many,
        Self::Bbr,
        Self::Cubic,
        Self::NewReno,
        Self::MixedTcp,
    ];

    /// The name on the command line and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asymmetric => "asymmetric",
            Self::Bbr => "bbr",
            Self::BothWays => "both-ways",
            Self::Bursts => "bursts",
            Self::Changing => "changing",
            Self::Clean => "clean",
            Self::Cubic => "cubic",
            Self::Jitter => "jitter",
            Self::LossOnAll => "loss-on-all",
            Self::LossOnOne => "loss-on-one",
            Self::LossOneWay => "loss-one-way",
            Self::Many => "many-flows",
            Self::MixedTcp => "mixed-tcp",
            Self::Neighbour => "neighbour",
            Self::NewReno => "newreno",
            Self::Outage => "outage",
            Self::PlainNodes => "plain-nodes",
            Self::Reordering => "reordering",
            Self::Requests => "requests",
            Self::Udp => "udp",
            Self::UnseenQueues => "unseen-queues",
            Self::Voice => "voice",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("the kinds are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The congestion control of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Control {
    Bbr,
    Cubic,
    NewReno,
}

impl Control {
    const ALL: [Self; 3] = [Self::Bbr, Self::Cubic, Self::NewReno];

    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Bbr => Algorithm::Bbr,
            Self::Cubic => Algorithm::CUBIC,
            Self::NewReno => LINUX_RENO,
        }
    }
}

/// A TCP flow between source and sink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub(crate) octets: u64,
    /// After the network's begin.
    pub(crate) start: Duration,
    /// Whether the sink sends.
    pub(crate) is_back: bool,
    pub(crate) control: Control,
}

/// Datagrams from the source to the sink at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    pub(crate) payload: usize,
    pub(crate) interval: Duration,
}

/// A hop that loses everything for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    pub(crate) hop: usize,
    /// After the network's begin.
    pub(crate) span: Range<Duration>,
    pub(crate) is_one_way: bool,
}

/// A hop that changes while data flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub(crate) at: Duration,
    pub(crate) hop: usize,
    rate: f64,
    delay: f64,
}

/// A network drawn at random, with its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The family of seeds.
    pub family: u32,
    /// The place in the family.
    pub index: u32,
    /// The hops between the gateways.
    pub(crate) hops: Vec<LinkConfig>,
    /// The routers without services, by their place in the chain; gateways are never among them.
    pub(crate) plain: BTreeSet<usize>,
    /// The hop whose queue a neighbour shares.
    pub(crate) neighbour: Option<usize>,
    pub(crate) shifts: Vec<Shift>,
    pub(crate) outage: Option<Outage>,
    pub(crate) long: Vec<Flow>,
    pub(crate) requests: Vec<Flow>,
    pub(crate) voice: Option<Stream>,
    pub(crate) udp: Option<Stream>,
    /// How long the bottleneck takes at least for all long flows.
    pub(crate) least: Duration,
    kinds: Vec<Kind>,
    summary: String,
}

impl World {
    /// The world with this index in a family of seeds.
    #[must_use]
    pub fn draw(family: u32, index: u32) -> Self {
        let seed = Self::seed_of(family, index);
        let stream = |name: &str| Rng::stream(seed, &format!("worlds {name}"));
        let mut kinds = Vec::new();

        let rng = &mut stream("size");
        let count = 1 + choice(rng, MOST_HOPS);
        let (mut rate, delay) = (log(rng, RATES), log(rng, DELAYS));
        let queue = log(rng, QUEUES);
        let (mut flows, products) = (log(rng, FLOWS).floor(), log(rng, PRODUCTS));
        // A world beyond the budget has fewer flows, and if a single one is too much, a slower bottleneck.
        let most_octets = BUDGET / count as f64 * SEGMENT;
        let each = |rate: f64| (rate * delay * 2.0 / 8.0 * products).max(SHORTEST_LONG);
        flows = flows.min((most_octets / each(rate)).floor()).max(1.0);
        rate = rate.min(most_octets / (delay * 2.0 / 8.0 * products)).max(RATES.start);
        let bottleneck = choice(rng, count);

        let rng = &mut stream("outage");
        let has_outage = rng.chance(0.15);
        let mut octets = each(rate);
        if has_outage {
            let most = most_octets.min(rate * LAST_BESIDE_OUTAGE / 8.0);
            octets = octets.max(most / flows);
        }

        let rng = &mut stream("flows");
        let goes_both_ways = rng.chance(0.15);
        let is_mixed = rng.chance(0.2);
        let common = Control::ALL[choice(rng, 3)];
        let mut controls = Vec::new();
        let mut control = |rng: &mut Rng| {
            let control = if is_mixed { Control::ALL[choice(rng, 3)] } else { common };
            controls.push(control);
            control
        };
        let stagger = Duration::from_secs_f64(delay * 4.0);
        let mut long = Vec::new();
        for flow in 0..places(flows) {
            let is_back = goes_both_ways && (flow == 0 || rng.chance(0.5)) && flows > 1.0;
            let start = if flow == 0 { Duration::ZERO } else { rng.within(stagger) };
            long.push(Flow { octets: floor(octets), start, is_back, control: control(rng) });
        }

        let rng = &mut stream("asymmetry");
        let slower = if rng.chance(0.2) { log(rng, ASYMMETRIES) } else { 1.0 };
        let back_of = |rate: f64| (rate / slower).max(SLOWEST_BACK.min(rate));
        let needed = |is_back: bool, rate: f64| {
            let flows = long.iter().filter(|flow| flow.is_back == is_back);
            flows.map(|flow| flow.octets as f64).sum::<f64>() / SEGMENT * PACKET * 8.0 / rate
        };
        let least = needed(false, rate).max(needed(true, back_of(rate))) + delay * 3.0;
        let least = Duration::from_secs_f64(least);

        let rng = &mut stream("hops");
        let weights: Vec<f64> = (0..count).map(|_| 0.2 + 0.8 * rng.uniform()).collect();
        let whole: f64 = weights.iter().sum();
        let mut hops = Vec::new();
        for (hop, weight) in weights.iter().enumerate() {
            let is_slow = rng.chance(0.5) || hop == bottleneck;
            let faster = log(rng, 1.0..10.0);
            let its = if is_slow { rate } else { (rate * faster).min(RATES.end) };
            let channel = |rate: f64| channel::Config {
                rate: bits(rate),
                delay: Duration::from_secs_f64(delay * weight / whole),
                ..channel::Config::default()
            };
            let interface =
                InterfaceConfig { queue_packets: places(queue), ..InterfaceConfig::default() };
            let there = channel(its);
            hops.push(LinkConfig {
                back: channel(back_of(its)),
                ..LinkConfig::symmetric(there, interface)
            });
        }

        let rng = &mut stream("losses");
        let losses = draw_losses(rng, count, &mut hops, &mut kinds);
        let rng = &mut stream("jitter");
        let jitter = draw_jitter(rng, count, &mut hops, &mut kinds);
        if slower > 1.0 {
            kinds.push(Kind::Asymmetric);
        }

        let rng = &mut stream("shifts");
        let mut shifts = Vec::new();
        if rng.chance(0.15) {
            for _ in 0..=choice(rng, 3) {
                let at = least.mul_f64(0.1 + 0.8 * rng.uniform());
                let (hop, factor) = (choice(rng, count), log(rng, CHANGES));
                let [rate, delay] = if rng.chance(0.5) { [factor, 1.0] } else { [1.0, factor] };
                shifts.push(Shift { at, hop, rate, delay });
            }
            shifts.sort_by_key(|shift| shift.at);
            kinds.push(Kind::Changing);
        }

        let rng = &mut stream("span of outage");
        let mut outage = None;
        if has_outage {
            let start = least.mul_f64(0.1 + 0.4 * rng.uniform());
            let span = start..start + Duration::from_secs_f64(log(rng, OUTAGES));
            let (hop, is_one_way) = (choice(rng, count), rng.chance(0.3));
            outage = Some(Outage { hop, span, is_one_way });
            kinds.push(Kind::Outage);
        }
        if kinds.is_empty() {
            kinds.push(Kind::Clean);
        }

        let rng = &mut stream("unseen queues");
        if rng.chance(0.25) {
            for hop in &mut hops {
                (hop.near.hop_backlog, hop.far.hop_backlog) = (UNSEEN, UNSEEN);
            }
            kinds.push(Kind::UnseenQueues);
        }

        let rng = &mut stream("nodes");
        let mut plain = BTreeSet::new();
        if rng.chance(0.25) && count > 1 {
            plain.extend((1..count).filter(|_| rng.chance(0.5)));
            plain.insert(1 + choice(rng, count - 1));
        }
        let neighbour = rng.chance(0.2).then_some(bottleneck);
        if rng.chance(0.5) && neighbour.is_some() && bottleneck > 0 {
            plain.insert(bottleneck);
        }
        if !plain.is_empty() {
            kinds.push(Kind::PlainNodes);
        }
        if neighbour.is_some() {
            kinds.push(Kind::Neighbour);
        }

        let rng = &mut stream("other traffic");
        let mut requests = Vec::new();
        if rng.chance(0.3) {
            for _ in 0..10 + choice(rng, 21) {
                let start = rng.within(least);
                requests.push(Flow {
                    octets: REQUEST,
                    start,
                    is_back: false,
                    control: control(rng),
                });
            }
            kinds.push(Kind::Requests);
        }
        let voice = rng.chance(0.25).then(|| {
            kinds.push(Kind::Voice);
            // 64 kbit/s, or 5 kbit/s where the path is slow, both without headers.
            let (payload, millis) = if rate > 300e3 { (160, 20) } else { (40, 60) };
            Stream { payload, interval: Duration::from_millis(millis) }
        });
        let udp = rng.chance(0.15).then(|| {
            kinds.push(Kind::Udp);
            let share = if rng.chance(0.2) { 1.2 } else { 0.05 + 0.45 * rng.uniform() };
            let interval = Duration::from_secs_f64((1_200.0 + 28.0) * 8.0 / (rate * share));
            Stream { payload: 1_200, interval }
        });

        if long.iter().any(|flow| flow.is_back) {
            kinds.push(Kind::BothWays);
        }
        if long.len() >= 5 {
            kinds.push(Kind::Many);
        }
        let same = controls.iter().all(|other| *other == controls[0]).then(|| controls[0]);
        kinds.push(match same {
            Some(Control::Bbr) => Kind::Bbr,
            Some(Control::Cubic) => Kind::Cubic,
            Some(Control::NewReno) => Kind::NewReno,
            None => Kind::MixedTcp,
        });
        kinds.sort_unstable();
        kinds.dedup();

        let mut summary = format!(
            "{count} hops, {} Mbit/s, {} ms, queue {}, {} x {} kB",
            number(rate / 1e6),
            number(delay * 1e3),
            floor(queue),
            long.len(),
            number(octets / 1e3),
        );
        for part in [losses, jitter].into_iter().flatten() {
            summary.push_str(", ");
            summary.push_str(&part);
        }
        if let Some(Outage { span, is_one_way, .. }) = &outage {
            let seconds = number((span.end - span.start).as_secs_f64());
            let how = if *is_one_way { " one way" } else { "" };
            summary.push_str(&format!(", out {seconds} s{how}"));
        }
        Self {
            family,
            index,
            hops,
            plain,
            neighbour,
            shifts,
            outage,
            long,
            requests,
            voice,
            udp,
            least,
            kinds,
            summary,
        }
    }

    /// What the world is like, in the order of [`Kind::ALL`].
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The seed of all that is random in a run: each `turn` in the same world has other losses and jitter.
    #[must_use]
    pub fn seed(&self, turn: u32) -> u64 {
        let seed = Self::seed_of(self.family, self.index);
        if turn == 0 { seed } else { Rng::stream(seed, &format!("turn {turn}")).bits() }
    }

    fn seed_of(family: u32, index: u32) -> u64 {
        u64::from(family) << 32 | u64::from(index)
    }

    /// The outages of a hop, there and back.
    pub(crate) fn outages(&self, hop: usize) -> [Outages; 2] {
        let Some(outage) = self.outage.as_ref().filter(|outage| outage.hop == hop) else {
            return [Outages::default(), Outages::default()];
        };
        let span = Time::ZERO + outage.span.start..Time::ZERO + outage.span.end;
        let there = Outages::new(vec![span]).expect("one span that is not empty is in order");
        let back = if outage.is_one_way { Outages::default() } else { there.clone() };
        [there, back]
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        write!(f, "{} [{}]", self.summary, kinds.join(" "))
    }
}

impl Shift {
    /// The direction of a hop after the change.
    pub fn applied(&self, to: &channel::Config) -> channel::Config {
        let BitRate::PerSecond(rate) = to.rate else { return to.clone() };
        let delay = to.delay.as_secs_f64();
        let longer = (delay * self.delay).min(LONGEST_HOP.max(delay)) / delay.max(1e-9);
        channel::Config {
            rate: bits((rate.get() as f64 * self.rate).clamp(SLOWEST_BACK, RATES.end)),
            delay: to.delay.mul_f64(longer),
            jitter: to.jitter.mul_f64(longer),
            ..to.clone()
        }
    }
}

/// Draws the losses of all hops; a description of them.
fn draw_losses(
    rng: &mut Rng,
    count: usize,
    hops: &mut [LinkConfig],
    kinds: &mut Vec<Kind>,
) -> Option<String> {
    if rng.chance(0.5) {
        return None;
    }
    let (which, only, is_there) = (choice(rng, 4), choice(rng, count), rng.chance(0.5));
    let (of_one, of_all) = (log(rng, LOSS_OF_ONE), log(rng, LOSS_OF_ALL));
    let (burst, hits_all) = (log(rng, BURSTS), rng.chance(0.5));
    let (kind, is_on_all, ways) = match which {
        0 => (Kind::LossOnOne, false, [true; 2]),
        1 => (Kind::LossOnAll, true, [true; 2]),
        2 => (Kind::Bursts, hits_all, [true; 2]),
        _ => (Kind::LossOneWay, true, [is_there, !is_there]),
    };
    let share = if is_on_all { of_all } else { of_one };
    let mean = Probability::new(share).expect("the ranges are below one");
    let loss = if kind == Kind::Bursts {
        let chain = GilbertElliott::from_bursts(mean, burst);
        Loss::GilbertElliott(chain.expect("such a mean allows bursts of two"))
    } else {
        Loss::random(mean)
    };
    for (hop, config) in hops.iter_mut().enumerate() {
        for (way, direction) in ways.iter().zip([&mut config.there, &mut config.back]) {
            if *way && (is_on_all || hop == only) {
                direction.loss = loss.clone();
            }
        }
    }
    kinds.push(kind);
    Some(format!(
        "loss {} % on {} hops",
        number(share * 100.0),
        if is_on_all { "all" } else { "1 of the" }
    ))
}

/// Draws the jitter of all hops; a description of it.
fn draw_jitter(
    rng: &mut Rng,
    count: usize,
    hops: &mut [LinkConfig],
    kinds: &mut Vec<Kind>,
) -> Option<String> {
    if rng.chance(0.6) {
        return None;
    }
    let (reorder, share) =
        (rng.chance(0.5), JITTERS.start + (JITTERS.end - JITTERS.start) * rng.uniform());
    let (is_on_all, only) = (rng.chance(0.5), choice(rng, count));
    for (hop, config) in hops.iter_mut().enumerate() {
        for direction in [&mut config.there, &mut config.back] {
            if is_on_all || hop == only {
                direction.jitter = direction.delay.mul_f64(share);
                direction.reorder = reorder;
            }
        }
    }
    kinds.push(if reorder { Kind::Reordering } else { Kind::Jitter });
    Some(format!("jitter {} of the delay", number(share)))
}

/// A number from a range, uniform in its logarithm.
fn log(rng: &mut Rng, range: Range<f64>) -> f64 {
    range.start * libm::exp(rng.uniform() * libm::log(range.end / range.start))
}

/// A number below `bound`.
fn choice(rng: &mut Rng, bound: usize) -> usize {
    let drawn = rng.below(u64::try_from(bound).expect("bounds are small"));
    usize::try_from(drawn).expect("bounds are small")
}

/// The largest whole number up to `value`.
fn floor(value: f64) -> u64 {
    whole(value.floor()).expect("all that is drawn is positive and below 2^53")
}

/// The same as a count of things.
fn places(value: f64) -> usize {
    usize::try_from(floor(value)).expect("counts are small")
}

fn bits(rate: f64) -> BitRate {
    BitRate::from_bits_per_s(floor(rate)).expect("rates are at least some kbit/s")
}
