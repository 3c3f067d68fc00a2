//! Runs a scenario once under one carrier.

use std::ops::Range;
use std::time::Duration;

use base::quantity::BitRate;
use base::rng::Rng;
use base::time::Time;
use sim::channel::{self, Outages};
use sim::{AppId, InterfaceConfig, LinkConfig, World};

use super::super::Carrier;
use super::scenario::{Host, Jitter, Outage, Scenario};
use crate::everywhere;
use crate::prelude::*;
use crate::scenario::{Built, Flow, Plan, Stream, Transfer};
use crate::tcp::{as_linux, as_ns3};

/// Seconds from the first SYN until the receiver has the last octet of the last flow.
pub const DELAY: Metric = "delay";
/// IP packets put on all links, but for hellos.
pub const PACKETS: Metric = "packets";
/// Seconds from the link's return until the slowest flow goes on.
pub const RESUME: Metric = "resume";

/// A transfer longer than this counts as endless.
const TIME_LIMIT: Duration = Duration::from_secs(1_000_000);
/// How much of a run happens between two looks at whether it is over.
const STRIDE: Duration = Duration::from_secs(1);
/// After the last flow: what is still under way is counted too.
const TAIL: Duration = Duration::from_secs(5);
/// Flows after the first begin within this.
const START: Duration = Duration::from_millis(500);
/// The datagrams beside TCP: 100 kbit/s with their headers.
const DATAGRAM: usize = 500;
const DATAGRAM_EVERY: Duration = Duration::from_micros(42_240);
/// The stream takes so many times what the transfers take at least, but no less than a second.
const STREAM_SPAN: u32 = 3;
/// Octets of TCP's timestamps option, padding included.
const TIMESTAMPS: u16 = 12;
const PORT: u16 = 9;

impl everywhere::Scenario for Scenario {
    type Way = Carrier;

    const WAYS: &'static [Carrier] = &Carrier::ALL;

    fn called(carrier: Carrier) -> &'static str {
        carrier.series()
    }

    fn most_runs(&self) -> u32 {
        Self::most_runs(self)
    }

    /// It with a carrier. What else chance decides is drawn here: when the middle is down, and when
    /// flows begin.
    fn plan(&self, carrier: Carrier, seed: u64) -> Plan {
        let mut rng = Rng::stream(seed, "scenario");
        let down = self.outage.map(|outage| self.span_of(outage, &mut rng));
        let mut plan = Plan::new(seed, TIME_LIMIT);
        plan.add_chain((0..self.hops).map(|link| self.link_config(link, down.as_ref())));
        // Nobody is told of an outage.
        plan.links.iter_mut().for_each(|link| link.is_noticed = false);
        plan.nodes.iter_mut().for_each(|node| node.hbh = carrier.config());
        let (tcp, ends) = (self.tcp(), [0, self.hops]);
        for index in 0..self.flows {
            let start = if index == 0 { Duration::ZERO } else { rng.within(START) };
            let flow = Flow::new(ends, PORT + index).starting(Time::ZERO + start);
            plan.transfers.push(Transfer { flow, octets: Some(self.octets.into()), tcp });
        }
        if self.has_stream {
            let (start, port) = (Time::ZERO + rng.within(DATAGRAM_EVERY), PORT + self.flows);
            let span = (self.least_delay() * STREAM_SPAN).max(Duration::from_secs(1));
            let flow = Flow::new(ends, port).from_port(port).starting(start);
            let stream = Stream::new(flow, DATAGRAM, DATAGRAM_EVERY);
            plan.streams.push(Stream { stop: Some(start + span), ..stream });
        }
        plan
    }

    fn measure(&self, built: Built<'_>) -> Outcome {
        measure(built)
    }
}

impl Scenario {
    /// When the middle is down: somewhere in what the transfer takes at least, so it is not over.
    fn span_of(&self, outage: Outage, rng: &mut Rng) -> Range<Time> {
        let least = self.least_delay();
        let start = Time::ZERO + least.mul_f64(0.3) + rng.within(least.mul_f64(0.4));
        start..start + Duration::from_secs(u64::from(outage.seconds))
    }

    fn link_config(&self, link: usize, down: Option<&Range<Time>>) -> LinkConfig {
        let delay = Duration::from_millis(u64::from(self.link.millis));
        let (jitter, reorder) = match self.jitter {
            Jitter::InOrder => (delay / 2, false),
            Jitter::None => (Duration::ZERO, false),
            Jitter::Reordering => (delay / 10, true),
        };
        let outages = down.filter(|_| link == self.middle()).map(|down| {
            Outages::new(vec![down.clone()]).expect("one span that is not empty is in order")
        });
        let is_one_way = self.outage.is_some_and(|outage| outage.is_one_way);
        let outages_back = outages.clone().filter(|_| !is_one_way);
        let rate = u64::from(self.link.kbit_per_s) * 1_000;
        let [there, back] = self.losses_of(link).expect("the matrix has no impossible bursts");
        let channel = |loss, outages: Option<Outages>| channel::Config {
            rate: BitRate::from_bits_per_s(rate).unwrap_or_default(),
            delay,
            jitter,
            reorder,
            loss,
            outages: outages.unwrap_or_default(),
            ..channel::Config::default()
        };
        let interface = InterfaceConfig { queue_packets: self.queue, ..InterfaceConfig::default() };
        LinkConfig {
            back: channel(back, outages_back),
            ..LinkConfig::symmetric(channel(there, outages), interface)
        }
    }

    fn tcp(&self) -> tcp::Config {
        let base = tcp::Config {
            mss: self.segment().map(|segment| segment + TIMESTAMPS),
            ..tcp::Config::default()
        };
        let host = match self.host {
            Host::Current => base,
            Host::Linux => as_linux(base),
            Host::Ns3 => as_ns3(tcp::Config {
                congestion: tcp::Congestion {
                    initial_window: tcp::InitialWindow::Segments(10),
                    ..base.congestion
                },
                rto: tcp::Rto {
                    syn: Duration::from_secs(3),
                    min: Duration::from_secs(1),
                    ..tcp::Rto::default()
                },
                ..base
            }),
        };
        // How long it takes is the question, not when it gives up.
        tcp::Config { r2: tcp::Limit::Never, r2_syn: tcp::Limit::Never, ..host }
    }
}

/// One run.
fn measure(mut built: Built<'_>) -> Outcome {
    let limit = built.end();
    let middle = &built.plan().links[built.links.len() / 2].config;
    let back = middle.there.outages.spans().first().map(|down| down.end);
    let begin = built.begin();
    let of_plan = |time: Time| begin + time.since(Time::ZERO);
    let resumed = back.map(|back| resume(&mut built, of_plan(back), limit));
    built.run_until(limit, STRIDE, Built::transfers_are_over);
    let stop = built.plan().streams.iter().filter_map(|stream| stream.stop).max();
    let last = built.world.now().max(stop.map_or(Time::ZERO, of_plan));
    built.world.run_until(last + TAIL);

    let delays = (0..built.transfers.len()).map(|flow| built.last_octet(flow));
    let finish = delays.collect::<Option<Vec<Time>>>().and_then(|all| all.into_iter().max());
    let delay = finish.map(|finish| finish.since(begin));
    let sent = built.world.total().sent.traffic().packets;
    let mut outcome = vec![
        (DELAY, Observation::seconds(delay, TIME_LIMIT)),
        (PACKETS, Observation::counted(sent, built.transfers_are_over())),
    ];
    outcome.extend(resumed.map(|resumed| (RESUME, resumed)));
    outcome
}

/// Runs until the link is back and every flow that has more to come has gone on; seconds from one
/// to the other.
fn resume(built: &mut Built<'_>, back: Time, limit: Time) -> Observation {
    built.world.run_until(back);
    let flows = 0..built.transfers.len();
    let unfinished = flows.filter(|flow| built.last_octet(*flow).is_none());
    let sinks = unfinished.map(|flow| built.transfers[flow][1]);
    let received = |world: &World, sink| world.transfer_sink(sink).map_or(0, |stats| stats.octets);
    let waiting: Vec<(AppId, u64)> =
        sinks.map(|sink| (sink, received(&built.world, sink))).collect();
    let have_gone_on =
        |world: &World| waiting.iter().all(|(sink, had)| received(world, *sink) > *had);
    built.world.run(limit, have_gone_on);
    let took = built.world.now().since(back);
    Observation::seconds(Some(took).filter(|_| have_gone_on(&built.world)), TIME_LIMIT)
}
