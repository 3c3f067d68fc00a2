//! The common scenario of all claims about HBH: one flow over a chain of lossy links.
//!
//! ```text
//!  n0 ──── n1 ──── n2 ──── n3 ──── n4      300 kbit/s and 50 ms each way, loss on every link
//!  TCP or UDP                    sink
//! ```

use std::time::Duration;

use base::quantity::{BitRate, Probability, Span};
use base::time::Time;
use sim::channel::{self, GilbertElliott, Loss};
use sim::service::hbh::Hbh;
use sim::{AppId, InterfaceConfig, LinkConfig, World};

use super::limits;
use crate::prelude::*;
use crate::scenario::{Built, Flow, Plan, Stream, Transfer};
use crate::tcp::as_ns3;

/// Seconds from the first SYN until the receiver has the last octet.
pub const DELAY: Metric = "delay";
/// IP packets put on all links, lost ones and acknowledgements included; hellos, which go out with
/// or without the flow, are not.
pub const PACKETS: Metric = "packets";
/// Segments that TCP sent again.
pub const RETRANSMITTED: Metric = "retransmitted";
/// Packets dropped inside the network for want of room, or given up there.
pub const DROPPED_INSIDE: Metric = "dropped inside";
/// Packets dropped for want of room where they entered the network.
pub const DROPPED_AT_EDGE: Metric = "dropped at the edge";
/// Packets that the source sent for the flow.
pub const OFFERED: Metric = "offered";

/// Octets that a link adds to a packet: those of PPP.
const FRAMING: usize = 2;
/// Octets of TCP's timestamps option, padding included.
const TIMESTAMPS: u16 = 12;
/// Octets of an IPv4 and a TCP header.
const HEADERS: u32 = 40;
/// Octets of our SYN: MSS, window scale and timestamps.
const SYN: u32 = 60;
const PORT: u16 = 9;
/// How long a stream's last packets have time to arrive.
const UNDER_WAY: Duration = Duration::from_secs(120);
/// A transfer longer than this counts as endless.
const TIME_LIMIT: Duration = Duration::from_secs(1_000_000);
/// How much of a run happens between two looks at whether it is over.
const STRIDE: Duration = Duration::from_secs(5);

/// A chain with its traffic. All that can differ between two cells is here.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Links.
    pub hops: usize,
    /// Loss of every link in the direction of the data.
    pub forward: f64,
    /// Loss of every link in the opposite direction.
    pub backward: f64,
    /// Bits a second of a link.
    pub rate: u64,
    /// Bits a second of the link after the middle, where it is another.
    pub bottleneck: Option<u64>,
    /// Packets that wait before a link at most.
    pub queue: usize,
    /// HBH on every node.
    pub hbh: Option<hbh::Config>,
    /// What is sent.
    pub traffic: Traffic,
}

/// How links treat the packets that they would lose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Air {
    /// Links lose as many packets, but in bursts of this mean length.
    Bursts(u32),
    /// Links lose each packet independently.
    Independent,
    /// They lose none: each is sent again at once, as if the other end had told for free and
    /// without delay. No protocol of one hop repeats faster (docs/results/limits.md).
    Genie,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// One transfer.
    Tcp(Tcp),
    /// Datagrams at a constant rate.
    Udp { bits_per_s: u64, payload: usize, span: Duration },
}

/// A transfer; the default is that of the common scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    pub octets: u32,
    /// Octets of data in a full segment.
    pub segment: u16,
    pub initial_window: u32,
    pub min_rto: Duration,
    /// Which TCP.
    pub kind: Kind,
}

/// How TCP does what parameters of the scenario leave open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// TCP as in ns-3, the simulator of the paper.
    AsNs3,
    /// As current RFCs ask for, with selective acknowledgements.
    Current,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            octets: 100_000,
            segment: 536,
            initial_window: 10,
            min_rto: Duration::from_secs(1),
            kind: Kind::AsNs3,
        }
    }
}

impl Chain {
    /// The common scenario with this loss on every link, in both directions.
    pub fn common(loss: f64, hbh: Option<hbh::Config>) -> Self {
        Self {
            hops: 4,
            forward: loss,
            backward: loss,
            rate: 300_000,
            bottleneck: None,
            queue: 50,
            hbh,
            traffic: Traffic::Tcp(Tcp::default()),
        }
    }

    /// It, to be run.
    pub fn cell(&self) -> Cell {
        self.cell_over(Air::Independent)
    }

    /// It over other links, to be run.
    pub fn cell_over(&self, air: Air) -> Cell {
        let chain = self.clone();
        Cell::of(self.name(air), self.draws(air), move |seed| chain.plan(air, seed), measure)
    }

    fn name(&self, air: Air) -> Name {
        let usual = Self::common(0.0, None);
        let [forward, backward] = [self.forward, self.backward].map(rounded);
        let name = Name::of("chain").unless("hops", self.hops, usual.hops);
        let name = if forward == backward {
            name.with("loss", forward)
        } else {
            name.with("there.loss", forward).with("back.loss", backward)
        };
        let name = match air {
            Air::Bursts(length) => name.with("bursts", length),
            Air::Genie => name.word("repeated-at-once"),
            Air::Independent => name,
        };
        let name = name.unless("rate", self.rate, usual.rate);
        let name = match self.bottleneck {
            Some(rate) => name.with("bottleneck", rate),
            None => name,
        };
        let name = name.unless("queue", self.queue, usual.queue);
        let name = match &self.hbh {
            Some(config) => {
                let usual = hbh::Config::new(hbh::Profile::Default);
                name.word("hbh").parameters("hbh", &hbh::PARAMETERS, &usual, config)
            }
            None => name.when(air != Air::Genie, "plain"),
        };
        match self.traffic {
            Traffic::Tcp(Tcp { octets, segment, initial_window, min_rto, kind }) => {
                let usual = Tcp::default();
                let name = name.unless("octets", octets, usual.octets);
                let name = name.unless("segment", segment, usual.segment);
                let name = name.unless("initial-window", initial_window, usual.initial_window);
                let name = name.unless("min-rto", Span(min_rto), Span(usual.min_rto));
                name.when(kind == Kind::Current, "current-tcp")
            }
            Traffic::Udp { bits_per_s, payload, span } => {
                let name = name.with("udp", bits_per_s).with("payload", payload);
                name.with("for", Span(span))
            }
        }
    }

    /// The label of its cell: see [`Cell::new`].
    fn draws(&self, air: Air) -> String {
        let Self { hops, forward, backward, rate, bottleneck, queue, hbh, traffic } = self;
        let hbh = hbh.as_ref().map_or("None".to_owned(), |it| format!("Some({})", published(it)));
        let traffic = match traffic {
            Traffic::Tcp(Tcp { octets, segment, initial_window, min_rto, kind }) => {
                let kind = match kind {
                    Kind::AsNs3 => "AsNs3",
                    Kind::Current => "Current",
                };
                format!(
                    "Tcp(Tcp {{ octets: {octets}, segment: {segment}, initial_window: {initial_window}, \
                     min_rto: {min_rto:?}, kind: {kind} }})"
                )
            }
            Traffic::Udp { bits_per_s, payload, span } => {
                format!("Udp {{ bits_per_s: {bits_per_s}, payload: {payload}, span: {span:?} }}")
            }
        };
        let air = match air {
            Air::Bursts(length) => format!(" over Bursts({length})"),
            Air::Genie => " over Genie".to_owned(),
            Air::Independent => String::new(),
        };
        format!(
            "Chain {{ hops: {hops}, forward: {forward:?}, backward: {backward:?}, rate: {rate}, \
             bottleneck: {bottleneck:?}, queue: {queue}, hbh: {hbh}, traffic: {traffic} }}{air}"
        )
    }

    /// The least expected delay of the transfer.
    pub fn delay_limit(&self) -> Option<f64> {
        Some(limits::delay(&self.path(), &self.transfer()?))
    }

    /// The least expected packets of the transfer.
    pub fn packets_limit(&self) -> Option<f64> {
        Some(limits::packets(&self.path(), &self.transfer()?))
    }

    fn transfer(&self) -> Option<limits::Transfer> {
        let Traffic::Tcp(tcp) = self.traffic else { return None };
        Some(limits::Transfer {
            octets: tcp.octets,
            segment: u32::from(tcp.segment),
            headers: HEADERS + u32::from(TIMESTAMPS),
            syn: SYN,
            segments_per_ack: 2,
        })
    }

    fn path(&self) -> limits::Path {
        limits::Path {
            rates: (0..self.hops).map(|link| self.rate_of(link) as f64).collect(),
            delay: DELAY_OF_LINK.as_secs_f64(),
            framing: FRAMING as f64,
            loss_forward: self.forward,
            loss_backward: self.backward,
        }
    }

    fn rate_of(&self, link: usize) -> u64 {
        match self.bottleneck {
            Some(rate) if link == self.hops / 2 => rate,
            _ => self.rate,
        }
    }

    /// It with its traffic.
    fn plan(&self, air: Air, seed: u64) -> Plan {
        let mut plan = Plan::new(seed, TIME_LIMIT);
        plan.add_chain((0..self.hops).map(|link| self.link(link, air)));
        for node in &mut plan.nodes {
            node.hbh = self.hbh;
        }
        let flow = Flow::new([0, self.hops], PORT);
        match self.traffic {
            Traffic::Tcp(tcp) => {
                let octets = Some(tcp.octets.into());
                plan.transfers.push(Transfer { flow, octets, tcp: tcp.config() });
            }
            Traffic::Udp { bits_per_s, payload, span } => {
                let rate = BitRate::from_bits_per_s(bits_per_s).unwrap_or_default();
                let flow = flow.from_port(PORT + 1);
                let stream = Stream::new(flow, payload, rate.time_for(payload));
                plan.streams.push(Stream { stop: Some(Time::ZERO + span), ..stream });
                plan.duration = span + UNDER_WAY;
            }
        }
        plan
    }

    fn link(&self, link: usize, air: Air) -> LinkConfig {
        let channel = |loss: f64| channel::Config {
            rate: BitRate::from_bits_per_s(self.rate_of(link)).unwrap_or_default(),
            delay: DELAY_OF_LINK,
            loss: air.loss(Probability::new(loss).unwrap_or(Probability::ONE)),
            repeat_at_once: air == Air::Genie,
            framing: FRAMING,
            ..channel::Config::default()
        };
        let interface = InterfaceConfig { queue_packets: self.queue, ..InterfaceConfig::default() };
        LinkConfig {
            back: channel(self.backward),
            ..LinkConfig::symmetric(channel(self.forward), interface)
        }
    }
}

impl Air {
    fn loss(self, mean: Probability) -> Loss {
        match self {
            Self::Bursts(burst) if mean > Probability::ZERO => {
                let chain = GilbertElliott::from_bursts(mean, f64::from(burst));
                Loss::GilbertElliott(chain.expect("a burst is long enough for its mean"))
            }
            Self::Bursts(_) | Self::Genie | Self::Independent => Loss::random(mean),
        }
    }
}

const DELAY_OF_LINK: Duration = Duration::from_millis(50);

impl Tcp {
    fn config(&self) -> tcp::Config {
        let current = tcp::Config {
            mss: Some(self.segment + TIMESTAMPS),
            congestion: tcp::Congestion {
                initial_window: tcp::InitialWindow::Segments(self.initial_window),
                ..tcp::Congestion::default()
            },
            rto: tcp::Rto { syn: Duration::from_secs(3), min: self.min_rto, ..tcp::Rto::default() },
            // How long plain TCP takes is the question, not when it gives up.
            r2: tcp::Limit::Never,
            r2_syn: tcp::Limit::Never,
            ..tcp::Config::default()
        };
        match self.kind {
            Kind::AsNs3 => as_ns3(current),
            Kind::Current => current,
        }
    }
}

/// A configuration of HBH as it was written when the figures were drawn, whatever the order of its fields is today.
fn published(config: &hbh::Config) -> String {
    let hbh::Config {
        profile,
        protocol,
        retries,
        window,
        rto,
        congestion,
        clear,
        queue,
        rate_increase,
        rate_decrease,
        ack_delay,
        redundancy,
        hold,
        absorb,
        lifetime,
        idle,
        flows,
        packets,
    } = config;
    // The figures were drawn when a flow had a window of its own.
    let is_usual = *window == hbh::Config::new(hbh::Profile::Default).window;
    let window = if is_usual { (16, 127) } else { *window };
    let profile = match profile {
        hbh::Profile::Default => "Default",
        hbh::Profile::Paper => "Seed",
    };
    let redundancy = match redundancy {
        hbh::Redundancy::Auto => "Auto",
        hbh::Redundancy::Off => "Off",
        hbh::Redundancy::Spare => "Spare",
    };
    let hbh::Rto { gain, deviation_gain, deviations, factor, backoff, initial, minimum, maximum } =
        rto;
    let rto = format!(
        "Rto {{ gain: {gain:?}, deviation_gain: {deviation_gain:?}, deviations: {deviations:?}, factor: {factor:?}, \
         backoff: {backoff:?}, initial: {initial:?}, minimum: {minimum:?}, maximum: {maximum:?} }}"
    );
    format!(
        "Config {{ profile: {profile}, protocol: {protocol}, retries: {retries}, window: {window:?}, rto: {rto}, \
         congestion: {congestion}, clear: {clear}, queue: {queue}, rate_increase: {rate_increase:?}, \
         rate_decrease: {rate_decrease:?}, ack_delay: {ack_delay:?}, redundancy: {redundancy}, hold: {hold:?}, \
         absorb: {absorb}, lifetime: {lifetime:?}, idle: {idle:?}, flows: {flows}, packets: {packets} }}"
    )
}

/// One run.
fn measure(mut built: Built<'_>) -> Outcome {
    let end = built.end();
    match built.transfers.first().copied() {
        Some([sender, _]) => {
            built.run_until(end, STRIDE, Built::transfers_are_over);
            let mut outcome = of_transfer(&built, sender);
            // For an unfinished transfer, the drops so far are only a part.
            outcome.extend(drops(&built.world, built.last_octet(0).is_some()));
            outcome
        }
        None => {
            built.world.run_until(end);
            let sent = built.streams.first().map_or(0, |[sender, _]| built.sent(*sender));
            let sent = [(OFFERED, sent), (PACKETS, built.world.total().sent.traffic().packets)]
                .map(|(metric, count)| exact(metric, count as f64));
            sent.into_iter().chain(drops(&built.world, true)).collect()
        }
    }
}

fn of_transfer(built: &Built<'_>, sender: AppId) -> Outcome {
    let sent = built.world.transfer_sender(sender).unwrap_or_default();
    let last = built.last_octet(0);
    let delay = last.zip(sent.started).map(|(last, start)| last.since(start));
    let is_over = sent.ended.is_some() && last.is_some();
    let counted = |count: u64| Observation::counted(count, is_over);
    vec![
        (DELAY, Observation::seconds(delay, TIME_LIMIT)),
        (PACKETS, counted(built.world.total().sent.traffic().packets)),
        (RETRANSMITTED, counted(sent.tcp.sent.retransmissions)),
        (OFFERED, counted(sent.tcp.sent.segments)),
    ]
}

/// Where packets were dropped for want of room.
fn drops(world: &World, is_whole: bool) -> [(Metric, Observation); 2] {
    let report = world.report();
    let mut inside = report.total.dropped_inside.packets;
    let mut edge = report.total.dropped_at_edge.packets;
    for node in &report.nodes {
        for hbh in world.services::<Hbh>(node.node).map(Hbh::stats) {
            inside += hbh.intake.packets_full_inside
                + hbh.sent.packets_abandoned
                + hbh.sent.packets_expired;
            edge +=
                hbh.intake.packets_full - hbh.intake.packets_full_inside + hbh.sent.packets_thinned;
        }
    }
    [
        (DROPPED_INSIDE, Observation::counted(inside, is_whole)),
        (DROPPED_AT_EDGE, Observation::counted(edge, is_whole)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(outcome: &Outcome, metric: Metric) -> f64 {
        let found = outcome.iter().find(|(name, _)| *name == metric);
        found.map_or(f64::NAN, |(_, observation)| observation.value())
    }

    #[test]
    fn plain_tcp_without_loss_sends_exactly_the_least_packets() {
        for hops in [3, 4] {
            let chain = Chain { hops, ..Chain::common(0.0, None) };

            let sent = value(&chain.cell_over(Air::Independent).with_seed(1), PACKETS);

            assert!((sent - chain.packets_limit().expect("a transfer")).abs() < 1e-9, "{sent}");
        }
    }

    #[test]
    fn no_run_is_faster_than_physics() {
        for hbh in [None, Some(hbh::Config::new(hbh::Profile::Default))] {
            let chain = Chain::common(0.0, hbh);

            let delay = value(&chain.cell_over(Air::Independent).with_seed(1), DELAY);

            let limit = chain.delay_limit().expect("a transfer");
            assert!((limit..1.5 * limit).contains(&delay), "{delay}");
        }
    }

    #[test]
    fn a_chain_is_a_function_of_its_seed() {
        let chain = Chain::common(0.05, Some(hbh::Config::new(hbh::Profile::Paper)));

        let run = |seed| chain.cell_over(Air::Independent).with_seed(seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    /// A change here changes every figure of the group.
    #[test]
    fn seeds_are_those_of_the_published_figures() {
        let seed = |hbh| Chain::common(0.1, hbh).cell().seed(0, 0);
        let hbh = |profile| Some(hbh::Config::new(profile));
        let all = [None, hbh(hbh::Profile::Paper), hbh(hbh::Profile::Default)].map(seed);

        assert_eq!(all, [4498980002144340570, 14543964385138470579, 1107482778272121581]);
    }

    #[test]
    fn without_loss_the_genie_has_nothing_to_do() {
        let chain = Chain::common(0.0, None);

        assert_eq!(
            chain.cell_over(Air::Genie).with_seed(1),
            chain.cell_over(Air::Independent).with_seed(1)
        );
    }

    #[test]
    fn over_the_genie_plain_tcp_repeats_nothing_and_is_slower_than_physics() {
        let chain = Chain::common(0.2, None);

        let outcome = chain.cell_over(Air::Genie).with_seed(1);

        assert!(value(&outcome, RETRANSMITTED) < 0.5, "{outcome:?}");
        let limit = chain.delay_limit().expect("a transfer");
        // One run may be lucky with the tries, but not by this much.
        assert!((limit..1.6 * limit).contains(&value(&outcome, DELAY)), "{outcome:?}");
    }
}
