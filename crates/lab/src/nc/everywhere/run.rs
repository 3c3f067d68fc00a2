//! One run of a scenario.
//!
//! ```text
//!  source ── near ── left ═════ bottleneck ═════ right ── far ── sink
//!           gateway    │                           │    gateway
//!                    rival                     rival sink
//! ```
//!
//! The bottleneck begins a hop beyond the gateways, so no gateway sees its queue. All else is fast.

use std::time::Duration;

use base::quantity::BitRate;
use base::rng::Rng;
use base::time::Time;
use sim::app::stream;
use sim::channel;
use sim::{AppId, InterfaceConfig, LinkConfig};
use tunnel as nc;

use super::super::network::LONG_PACKET;
use super::Way;
use super::scenario::{Jitter, Path, Scenario};
use crate::everywhere;
use crate::prelude::*;
use crate::scenario::{Built, Flow, Plan, Stream, Transfer, Tunnel};
use crate::stats::Observation::{self, AtLeast, Exact};
use crate::tcp::as_linux;

/// Mbit/s that all downloads of both directions get together.
pub const GOODPUT: Metric = "goodput";
/// Seconds from the first SYN to the last octet of a page, in the mean.
pub const PAGE: Metric = "page";
/// The same of the slowest page.
pub const SLOWEST_PAGE: Metric = "slowest page";
/// Seconds within which half of the sent voice arrives.
pub const VOICE_P50: Metric = "voice p50";
/// Seconds within which 99 % of the sent voice arrives.
pub const VOICE_P99: Metric = "voice p99";
/// Octets on the bottleneck, both ways, for each that an application received.
pub const OCTETS: Metric = "octets";
/// Mbit/s of the download past the tunnel.
pub const RIVAL: Metric = "rival";

/// Flows begin within this.
const START: Duration = Duration::from_millis(100);
/// From one page to the next: the path is quiet in between.
const PAGE_EVERY: Duration = Duration::from_mins(1);
const PAGES: u16 = 6;
/// So long is waited for pages, from the first on.
const PAGE_LIMIT: Duration = Duration::from_mins(20);
/// 160 octets every 20 ms: 64 kbit/s.
const VOICE: usize = 160;
const VOICE_EVERY: Duration = Duration::from_millis(20);
/// Voice later than this is as good as lost, and voice sent within this time of the end does not count.
const VOICE_LIMIT: Duration = Duration::from_secs(3);
/// Octets of an IP packet without the tunnel.
const PACKET: usize = 1_500;
/// Octets of IPv4 and TCP headers.
const HEADERS: usize = 40;
/// The buffer of hosts for a connection, large enough for the longest path.
const BUFFER: usize = 8 << 20;
const PORT: u16 = 9_000;
const BACK_PORT: u16 = 9_100;
const VOICE_PORT: u16 = 7_000;
const RIVAL_PORT: u16 = 8_000;
/// The place of the bottleneck in the list of links.
const BOTTLENECK: usize = 2;

impl Way {
    /// The TCP of hosts.
    fn tcp(self) -> tcp::Config {
        let packet = match self {
            Self::Bbr | Self::Cubic => PACKET,
            Self::Ours => LONG_PACKET,
        };
        let linux = as_linux(tcp::Config::default());
        let congestion = match self {
            // Whoever paces needs no small window after a silence.
            Self::Bbr => tcp::Congestion {
                algorithm: tcp::Algorithm::Bbr,
                restart_after_idle: false,
                ..linux.congestion
            },
            Self::Cubic | Self::Ours => linux.congestion,
        };
        let mss = u16::try_from(packet - HEADERS).expect("a packet is shorter");
        tcp::Config {
            mss: Some(mss),
            send_buffer: BUFFER,
            receive_buffer: BUFFER,
            // How long it takes is the question, not when it gives up.
            r2: tcp::Limit::Never,
            r2_syn: tcp::Limit::Never,
            congestion,
            // Linux has RFC 8985, and the tunnel is to be compared with the best that there is.
            recovery: tcp::LossRecovery { lost_repairs: true, ..linux.recovery },
            ..linux
        }
    }
}

impl everywhere::Scenario for Scenario {
    type Way = Way;

    const WAYS: &'static [Way] = &Way::ALL;

    fn called(way: Way) -> &'static str {
        way.name()
    }

    fn most_runs(&self) -> u32 {
        Self::most_runs(self)
    }

    /// It, crossed in this way. When flows begin is drawn here.
    fn plan(&self, way: Way, seed: u64) -> Plan {
        let Self { path, load } = self;
        let is_of_pages = load.page.is_some();
        let length = if is_of_pages { PAGE_LIMIT } else { self.length() };
        let mut plan = Plan::new(seed, length);
        let [near, far, left, right] =
            ["near", "far", "left", "right"].map(|name| plan.add_node(name));
        plan.connect(near, left, fast());
        plan.connect(right, far, fast());
        plan.connect(left, right, path.link());
        let [source, sink] = ["source", "sink"].map(|name| plan.add_node(name));
        plan.connect(source, near, fast());
        plan.connect(far, sink, fast());
        if way == Way::Ours {
            let config = nc::Config { base_mtu: PACKET, ..nc::Config::default() };
            let behind = [vec![source], vec![sink]];
            plan.tunnels.push(Tunnel { ends: [near, far], behind, config });
        }

        let mut rng = Rng::stream(seed, "start");
        let tcp = way.tcp();
        for (ends, flows, port) in
            [([source, sink], load.down, PORT), ([sink, source], load.up, BACK_PORT)]
        {
            for port in (port..).take(flows.into()) {
                let start = Time::ZERO + rng.within(START);
                let flow = Flow::new(ends, port).from_port(port).starting(start);
                plan.transfers.push(Transfer { flow, octets: None, tcp });
            }
        }
        if load.has_rival {
            let [rival, rival_sink] = ["rival", "rival sink"].map(|name| plan.add_node(name));
            plan.connect(rival, left, fast());
            plan.connect(right, rival_sink, fast());
            let start = Time::ZERO + rng.within(START);
            let flow = Flow::new([rival, rival_sink], RIVAL_PORT).starting(start);
            plan.transfers.push(Transfer { flow, octets: None, tcp: Way::Cubic.tcp() });
        }
        if let Some(octets) = load.page {
            for (page, port) in (0..PAGES).zip(PORT..) {
                let start = Time::ZERO + PAGE_EVERY * page.into() + rng.within(START);
                let flow = Flow::new([source, sink], port).from_port(port).starting(start);
                plan.transfers.push(Transfer { flow, octets: Some(octets.into()), tcp });
            }
        }
        if load.has_voice {
            let flow = Flow::new([source, sink], VOICE_PORT).from_port(VOICE_PORT);
            let flow = flow.starting(Time::ZERO + rng.within(START));
            let stop = Some(Time::ZERO + (length - VOICE_LIMIT));
            plan.streams.push(Stream { stop, ..Stream::new(flow, VOICE, VOICE_EVERY) });
        }
        plan
    }

    fn measure(&self, mut built: Built<'_>) -> Outcome {
        let begin = built.begin() + self.warm_up();
        built.world.run_until(begin);
        let before = Counts::of(self, &built);
        let end = built.end();
        match self.load.page {
            Some(_) => built.run_until(end, Duration::from_secs(1), Built::transfers_are_over),
            None => built.world.run_until(end),
        }
        let after = Counts::of(self, &built);

        let seconds = built.world.now().since(begin).as_secs_f64();
        let mbit = |before: u64, after: u64| (after - before) as f64 * 8.0 / seconds / 1e6;
        let mut outcome = Vec::new();
        let mut add = |metric, value| outcome.push((metric, Exact(value)));
        if self.load.down > 0 {
            add(GOODPUT, mbit(before.received, after.received));
        }
        if self.load.has_rival {
            add(RIVAL, mbit(before.rival, after.rival));
        } else {
            let (link, all) = (after.link - before.link, after.all - before.all);
            let octets = link as f64 / all.max(1) as f64;
            outcome.push((OCTETS, if all > 0 { Exact(octets) } else { AtLeast(octets) }));
        }
        outcome.extend(self.pages(&built));
        outcome.extend(self.voice(&built));
        outcome
    }
}

impl Scenario {
    fn pages(&self, built: &Built<'_>) -> Outcome {
        if self.load.page.is_none() {
            return Vec::new();
        }
        let flows = built.plan().transfers.iter().map(|transfer| &transfer.flow);
        let ends: Vec<Option<Time>> =
            (0..built.transfers.len()).map(|it| built.last_octet(it)).collect();
        // An unfinished page counts with the time for which the run waited.
        let took = flows.zip(&ends).map(|(flow, end)| {
            let start = built.begin() + flow.start.since(Time::ZERO);
            end.unwrap_or(built.end()).since(start)
        });
        let count = u32::try_from(ends.len()).unwrap_or(1).max(1);
        let is_whole = ends.iter().all(Option::is_some);
        let mean = took.clone().sum::<Duration>() / count;
        let slowest = took.max().unwrap_or_default();
        [(PAGE, mean), (SLOWEST_PAGE, slowest)]
            .map(|(metric, took)| (metric, observed(took, is_whole)))
            .into()
    }

    fn voice(&self, built: &Built<'_>) -> Outcome {
        let Some([sender, sink]) = built.streams.first().copied() else { return Vec::new() };
        let sent = built.sent(sender);
        let Some(sink) = built.world.app::<stream::Sink>(sink) else { return Vec::new() };
        [(VOICE_P50, 50), (VOICE_P99, 99)]
            .map(|(metric, percent)| {
                let rank = (sent * percent).div_ceil(100);
                let delay = sink.delays().ranked(rank).filter(|delay| *delay < VOICE_LIMIT);
                (metric, observed(delay.unwrap_or(VOICE_LIMIT), delay.is_some()))
            })
            .into()
    }
}

/// How long something took, or at least took.
fn observed(took: Duration, is_over: bool) -> Observation {
    Observation::seconds(is_over.then_some(took), took)
}

/// A link that never holds anybody back, nor drops anything.
fn fast() -> LinkConfig {
    let interface = InterfaceConfig { queue_packets: 100_000, ..InterfaceConfig::default() };
    LinkConfig::symmetric(channel::Config::default(), interface)
}

impl Path {
    fn link(&self) -> LinkConfig {
        let millis = |millis: u32| Duration::from_millis(u64::from(millis));
        let (jitter, reorder) = match self.jitter {
            Jitter::InOrder(by) => (millis(by), false),
            Jitter::None => (Duration::ZERO, false),
            Jitter::Reordering(by) => (millis(by), true),
        };
        let rate = u64::from(self.kbit_per_s) * 1_000;
        let channel = channel::Config {
            rate: BitRate::from_bits_per_s(rate).unwrap_or_default(),
            delay: self.round_trip() / 2,
            jitter,
            reorder,
            loss: self.loss().expect("the matrix has no impossible losses"),
            ..channel::Config::default()
        };
        let queue_packets = usize::try_from(self.buffer).unwrap_or(usize::MAX);
        let interface = InterfaceConfig { queue_packets, ..InterfaceConfig::default() };
        LinkConfig::symmetric(channel, interface)
    }
}

/// Octets so far.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Of all downloads but the rival's.
    received: u64,
    rival: u64,
    /// Of all applications.
    all: u64,
    /// On the bottleneck, both ways.
    link: u64,
}

impl Counts {
    fn of(scenario: &Scenario, built: &Built<'_>) -> Self {
        let of = |flows: &[[AppId; 2]]| flows.iter().map(|[_, sink]| built.received(*sink)).sum();
        let flows = built.transfers.len() - usize::from(scenario.load.has_rival);
        let (ours, rival) = built.transfers.split_at(flows);
        let (received, rival, voice): (u64, u64, u64) = (of(ours), of(rival), of(&built.streams));
        let ports = built.world.ends(built.links[BOTTLENECK]);
        let sent = ports.map(|port| built.world.port_counters(port).sent.total().octets);
        Self { received, rival, all: received + rival + voice, link: sent.iter().sum() }
    }
}
