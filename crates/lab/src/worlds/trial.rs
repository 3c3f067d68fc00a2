//! One run of a world, over plain IP or with a service.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use base::quantity::BitRate;
use base::time::Time;
use sim::app::stream;
use sim::channel;
use sim::{Change, InterfaceConfig, LinkConfig, PortCounters};
use tunnel as nc;

use super::world::{Control, Flow, PACKET, SEGMENT, World};
use crate::nc::network::LONG_PACKET;
use crate::scenario::{self, Built, Plan, Transfer, Tunnel};
use crate::tcp::as_linux;

/// A run ends after this many times what its flows need at least, whatever has arrived.
const PATIENCE: u32 = 20;
/// A run lasts at least this long if flows have not ended.
const SHORTEST_LIMIT: Duration = Duration::from_secs(120);
/// How much of a run happens between two looks at whether it is over.
const STRIDE: Duration = Duration::from_millis(500);
/// After the last flow: what is still under way is counted too.
const TAIL: Duration = Duration::from_secs(5);
/// Octets that arrive within this time after an outage are counted.
const AFTER_OUTAGE: Duration = Duration::from_secs(15);
/// Voice later than this is as good as lost.
const VOICE_LIMIT: Duration = Duration::from_secs(10);
/// Shortest and longest stream of datagrams.
const STREAMS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(120)];
/// The buffer of hosts for a connection, larger than any bandwidth-delay product drawn.
const BUFFER: usize = 16 << 20;
/// Octets of IPv4 and TCP headers.
const HEADERS: usize = 40;
const PORT: u16 = 9_000;
const RIVAL_PORT: u16 = 8_000;
const VOICE_PORT: u16 = 7_000;
const UDP_PORT: u16 = 7_001;

/// A service that carries the traffic between the gateways.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// HBH on both gateways and on all routers that are not plain.
    Hbh,
    /// A coded tunnel from gateway to gateway.
    Tunnel,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 2] = [Self::Hbh, Self::Tunnel];

    /// The name on the command line and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hbh => "hbh",
            Self::Tunnel => "tunnel",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|service| service.name() == text);
        found.ok_or_else(|| format!("the services are {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// A quantity that a service is compared by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// Until the last octet of the last long flow.
    Time,
    /// Octets of long flows in the 15 s after an outage.
    AfterOutage,
    /// The slowest of a hundred answers of 10 kB, or the slowest of fewer.
    Requests,
    /// The delay that 99 % of the sent voice keeps.
    Voice,
    /// Delivered octets of bulk UDP.
    Udp,
    /// Octets of the plain neighbour on the same queue.
    Neighbour,
    /// The same up to an equal part of the link: what it has beyond that is at the cost of the others.
    Share,
    /// Packets on all links, for each octet that applications received.
    Packets,
    /// Octets on all links, for each octet that applications received.
    Octets,
}

impl Measure {
    /// All, as tables list them.
    pub const ALL: [Self; 9] = [
        Self::Time,
        Self::AfterOutage,
        Self::Requests,
        Self::Voice,
        Self::Udp,
        Self::Neighbour,
        Self::Share,
        Self::Packets,
        Self::Octets,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfterOutage => "after outage",
            Self::Neighbour => "neighbour",
            Self::Octets => "octets",
            Self::Packets => "packets",
            Self::Requests => "requests p99",
            Self::Share => "neighbour's part",
            Self::Time => "time",
            Self::Udp => "udp delivered",
            Self::Voice => "voice p99",
        }
    }

    /// Whether more is worse.
    const fn is_cost(self) -> bool {
        match self {
            Self::AfterOutage | Self::Neighbour | Self::Share | Self::Udp => false,
            Self::Octets | Self::Packets | Self::Requests | Self::Time | Self::Voice => true,
        }
    }
}

/// What one run measured. Absent is what the world does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Seconds for each octet of the long flows times their octets: the time they took, or would take at the same pace.
    pub time: f64,
    /// Whether all long flows ended.
    pub is_whole: bool,
    /// Octets of long flows in the 15 s after an outage.
    pub after_outage: Option<f64>,
    /// Seconds.
    pub requests: Option<f64>,
    /// Seconds.
    pub voice: Option<f64>,
    /// Octets.
    pub udp: Option<f64>,
    /// Octets.
    pub neighbour: Option<f64>,
    /// Octets that the neighbour would have if all flows on its link had the same rate.
    pub equal_part: Option<f64>,
    /// On all links for each octet that applications received.
    pub packets: f64,
    /// On all links for each octet that applications received.
    pub octets: f64,
    /// Events of the simulator.
    pub events: u64,
    /// The fingerprint of all transmissions.
    pub hash: u64,
}

impl Measured {
    /// The mean of one or more runs in the same world.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        let mean_if_had = |of: fn(&Self) -> Option<f64>| -> Option<f64> {
            let values = runs.iter().map(of).collect::<Option<Vec<f64>>>()?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            time: mean(|run| run.time),
            is_whole: runs.iter().all(|run| run.is_whole),
            after_outage: mean_if_had(|run| run.after_outage),
            requests: mean_if_had(|run| run.requests),
            voice: mean_if_had(|run| run.voice),
            udp: mean_if_had(|run| run.udp),
            neighbour: mean_if_had(|run| run.neighbour),
            equal_part: mean_if_had(|run| run.equal_part),
            packets: mean(|run| run.packets),
            octets: mean(|run| run.octets),
            events: runs.iter().map(|run| run.events).sum(),
            hash: runs.iter().fold(0, |hash: u64, run| hash.rotate_left(1) ^ run.hash),
        }
    }

    /// The value of a measure, if the world has it.
    #[must_use]
    pub fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::AfterOutage => self.after_outage,
            Measure::Neighbour => self.neighbour,
            Measure::Octets => Some(self.octets),
            Measure::Packets => Some(self.packets),
            Measure::Requests => self.requests,
            Measure::Share => {
                self.neighbour.zip(self.equal_part).map(|(octets, part)| octets.min(part))
            }
            Measure::Time => Some(self.time),
            Measure::Udp => self.udp,
            Measure::Voice => self.voice,
        }
    }

    /// How many times worse than `plain` this is; below 1 it is better. A thousand is the most, either way.
    #[must_use]
    pub fn ratio(&self, plain: &Self, measure: Measure) -> Option<f64> {
        let (ours, plain) = (self.value(measure)?, plain.value(measure)?);
        let (worse, better) = if measure.is_cost() { (ours, plain) } else { (plain, ours) };
        // A packet more on both sides: nothing beside nothing is no difference.
        let least = if measure.is_cost() { 1e-9 } else { 1_500.0 };
        Some(((worse + least) / (better + least)).clamp(1e-3, 1e3))
    }
}

impl World {
    /// Runs the world as often as asked over plain IP, or with a service; the result is the mean.
    ///
    /// # Errors
    /// When the network cannot be built.
    pub fn measure(
        &self,
        service: Option<Service>,
        repeats: NonZeroU32,
    ) -> anyhow::Result<Measured> {
        let runs = (0..repeats.get()).map(|turn| self.measure_once(service, turn));
        Ok(Measured::mean(&runs.collect::<anyhow::Result<Vec<_>>>()?))
    }

    fn measure_once(&self, service: Option<Service>, turn: u32) -> anyhow::Result<Measured> {
        let seed = self.seed(turn);
        let plan = self.plan(service, seed);
        let mut built = plan.build(seed)?;
        self.plan_changes(&mut built);
        let begin = built.begin();
        let before = built.world.total();
        let long = self.long.len();
        let octets_of = |built: &Built<'_>, flows: std::ops::Range<usize>| {
            built.transfers[flows].iter().map(|[_, sink]| built.received(*sink)).sum::<u64>()
        };

        let mut measured = Measured::default();
        let rival = self.neighbour.map(|_| built.transfers.len() - 1);
        measured.equal_part = self.neighbour.map(|hop| self.equal_part(hop));
        let mut stops = vec![begin + self.least];
        if let Some(outage) = &self.outage {
            stops.extend([begin + outage.span.end, begin + outage.span.end + AFTER_OUTAGE]);
        }
        stops.sort_unstable();
        let mut at_end_of_outage = 0;
        for stop in stops {
            built.world.run_until(stop);
            if stop == begin + self.least
                && let Some(rival) = rival
            {
                measured.neighbour = Some(octets_of(&built, rival..rival + 1) as f64);
            }
            if let Some(outage) = &self.outage {
                if stop == begin + outage.span.end {
                    at_end_of_outage = octets_of(&built, 0..long);
                } else if stop == begin + outage.span.end + AFTER_OUTAGE {
                    let octets = octets_of(&built, 0..long) - at_end_of_outage;
                    measured.after_outage = Some(octets as f64);
                }
            }
        }

        let own = 0..long + self.requests.len();
        let end = built.end();
        built.run_until(end, STRIDE, |built| {
            own.clone().all(|flow| built.last_octet(flow).is_some())
        });
        let over = built.world.now();
        let streams_end = built.plan().streams.iter().filter_map(|stream| stream.stop).max();
        let last =
            streams_end.map_or(over, |stop| over.max(begin + stop.since(Time::ZERO) + VOICE_LIMIT));
        built.world.run_until(last + TAIL);

        let ends: Option<Vec<Time>> = (0..long).map(|flow| built.last_octet(flow)).collect();
        let ended = ends.and_then(|ends| ends.into_iter().max());
        let wanted: u64 = self.long.iter().map(|flow| flow.octets).sum();
        measured.is_whole = ended.is_some();
        measured.time = match ended {
            Some(ended) => ended.since(begin).as_secs_f64(),
            None => {
                let pace = octets_of(&built, 0..long).max(1) as f64 / wanted as f64;
                over.since(begin).as_secs_f64() / pace
            }
        };
        measured.requests = self.slowest_request(&built, over);
        let mut streams = built.streams.iter();
        if self.voice.is_some()
            && let Some([sender, sink]) = streams.next()
        {
            let rank = (built.sent(*sender) * 99).div_ceil(100);
            let sink = built.world.app::<stream::Sink>(*sink);
            let delay = sink.and_then(|sink| sink.delays().ranked(rank));
            measured.voice = Some(delay.unwrap_or(VOICE_LIMIT).min(VOICE_LIMIT).as_secs_f64());
        }
        if self.udp.is_some()
            && let Some([_, sink]) = streams.next()
        {
            measured.udp = Some(built.received(*sink) as f64);
        }
        let all: u64 = octets_of(&built, 0..built.transfers.len())
            + built.streams.iter().map(|[_, sink]| built.received(*sink)).sum::<u64>();
        let [packets, octets] = traffic(&built.world.total());
        let [packets_before, octets_before] = traffic(&before);
        measured.packets = (packets - packets_before) as f64 / all.max(1) as f64;
        measured.octets = (octets - octets_before) as f64 / all.max(1) as f64;
        let report = built.world.report();
        (measured.events, measured.hash) = (report.events, report.hash);
        Ok(measured)
    }

    /// The network and its traffic: long flows first, then requests, then the neighbour.
    fn plan(&self, service: Option<Service>, seed: u64) -> Plan {
        let streams = (self.least * 3).clamp(STREAMS[0], STREAMS[1]);
        let limit = (self.least * PATIENCE).max(SHORTEST_LIMIT);
        let outage = self.outage.as_ref().map_or(Duration::ZERO, |it| it.span.end + AFTER_OUTAGE);
        let mut plan = Plan::new(seed, limit.max(outage));
        let links = self.hops.iter().enumerate().map(|(hop, config)| {
            let mut config = config.clone();
            [config.there.outages, config.back.outages] = self.outages(hop);
            config
        });
        plan.add_chain(links);
        let (near, far) = (0, self.hops.len());
        let [source, sink] = ["source", "sink"].map(|name| plan.add_node(name));
        plan.connect(source, near, fast());
        plan.connect(far, sink, fast());
        let rival = self.neighbour.map(|hop| {
            let [rival, its_sink] = ["neighbour", "its sink"].map(|name| plan.add_node(name));
            plan.connect(rival, hop, fast());
            plan.connect(hop + 1, its_sink, fast());
            [rival, its_sink]
        });
        // Nobody is told of an outage.
        plan.links.iter_mut().for_each(|link| link.is_noticed = false);
        match service {
            Some(Service::Hbh) => {
                for node in (near..=far).filter(|node| !self.plain.contains(node)) {
                    plan.nodes[node].hbh = Some(hbh::Config::new(hbh::Profile::Default));
                }
            }
            Some(Service::Tunnel) => plan.tunnels.push(Tunnel {
                ends: [near, far],
                behind: [vec![source], vec![sink]],
                uses_all_links: false,
                config: nc::Config::default(),
            }),
            None => {}
        }

        let transfer = |flow: &Flow, ends, port| Transfer {
            flow: scenario::Flow::new(ends, port).from_port(port).starting(Time::ZERO + flow.start),
            octets: Some(flow.octets),
            tcp: tcp(flow.control, service),
        };
        for (flow, port) in self.long.iter().chain(&self.requests).zip(PORT..) {
            let ends = if flow.is_back { [sink, source] } else { [source, sink] };
            plan.transfers.push(transfer(flow, ends, port));
        }
        if let Some(ends) = rival {
            let octets = self.long.iter().map(|flow| flow.octets).sum();
            let flow =
                Flow { octets, start: Duration::ZERO, is_back: false, control: Control::Cubic };
            let rival = transfer(&flow, ends, RIVAL_PORT);
            plan.transfers.push(Transfer { tcp: tcp(Control::Cubic, None), ..rival });
        }
        for (stream, port) in [(self.voice, VOICE_PORT), (self.udp, UDP_PORT)] {
            let Some(stream) = stream else { continue };
            let flow = scenario::Flow::new([source, sink], port).from_port(port);
            let stop = Some(Time::ZERO + streams);
            let stream = scenario::Stream::new(flow, stream.payload, stream.interval);
            plan.streams.push(scenario::Stream { stop, ..stream });
        }
        plan
    }

    /// Plans the changes of hops, each on top of the changes before.
    fn plan_changes(&self, built: &mut Built<'_>) {
        let before = built.begin().since(Time::ZERO);
        let mut hops = self.hops.clone();
        for shift in &self.shifts {
            let LinkConfig { there, back, .. } = &mut hops[shift.hop];
            [*there, *back] = [&*there, &*back].map(|direction| shift.applied(direction));
            let outages = self.outages(shift.hop).map(|outages| outages.later(before));
            let directions = [(&*there, 0), (&*back, 1)].map(|(direction, way)| channel::Config {
                outages: outages[way].clone(),
                ..direction.clone()
            });
            let change = Change::Channels(built.links[shift.hop], Box::new(directions));
            built.world.at(built.begin() + shift.at, change);
        }
    }

    /// Octets of each flow in the neighbour's direction over a hop, until the long flows could have ended.
    pub(crate) fn equal_part(&self, hop: usize) -> f64 {
        let (mut bits, mut since, mut direction) =
            (0.0, Duration::ZERO, self.hops[hop].there.clone());
        let mut pass = |until: Duration, direction: &channel::Config| {
            if let BitRate::PerSecond(rate) = direction.rate {
                bits += rate.get() as f64 * until.saturating_sub(since).as_secs_f64();
            }
            since = until;
        };
        for shift in self.shifts.iter().filter(|shift| shift.hop == hop) {
            pass(shift.at, &direction);
            direction = shift.applied(&direction);
        }
        pass(self.least, &direction);
        let long = self.long.iter().filter(|flow| !flow.is_back).count();
        let streams = [self.voice, self.udp].iter().flatten().count();
        let payload = bits / 8.0 * SEGMENT / PACKET;
        payload / (long + streams + 1) as f64
    }

    /// Seconds of the slowest of a hundred requests; a request without an end counts up to `over`.
    fn slowest_request(&self, built: &Built<'_>, over: Time) -> Option<f64> {
        let first = self.long.len();
        let mut all: Vec<Duration> = Vec::new();
        for (at, flow) in self.requests.iter().enumerate() {
            let end = built.last_octet(first + at).unwrap_or(over);
            all.push(end.since(built.begin() + flow.start));
        }
        all.sort_unstable();
        let rank = (all.len() * 99).div_ceil(100);
        all.get(rank.checked_sub(1)?).map(Duration::as_secs_f64)
    }
}

/// The TCP of hosts like Linux, whose segments fit through the tunnel as a gateway clamps them.
fn tcp(control: Control, service: Option<Service>) -> tcp::Config {
    let linux = as_linux(tcp::Config::default());
    let mss = u16::try_from(LONG_PACKET - HEADERS).expect("a packet is shorter");
    tcp::Config {
        mss: (service == Some(Service::Tunnel)).then_some(mss),
        send_buffer: BUFFER,
        receive_buffer: BUFFER,
        // The question is how long it takes, not when it gives up.
        r2: tcp::Limit::Never,
        r2_syn: tcp::Limit::Never,
        congestion: tcp::Congestion {
            algorithm: control.algorithm(),
            restart_after_idle: control != Control::Bbr && linux.congestion.restart_after_idle,
            ..linux.congestion
        },
        recovery: tcp::LossRecovery { lost_repairs: true, ..linux.recovery },
        ..linux
    }
}

/// A link that never holds anybody back, nor drops anything.
fn fast() -> LinkConfig {
    let interface = InterfaceConfig { queue_packets: 100_000, ..InterfaceConfig::default() };
    let channel =
        channel::Config { delay: Duration::from_micros(10), ..channel::Config::default() };
    LinkConfig::symmetric(channel, interface)
}

/// Packets and octets on all links, hellos included.
fn traffic(counters: &PortCounters) -> [u64; 2] {
    let total = counters.sent.total();
    [total.packets, total.octets]
}
