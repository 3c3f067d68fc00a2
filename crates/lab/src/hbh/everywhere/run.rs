//! One run of a scenario under one carrier.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use proto::rng::Rng;
use proto::tcp;
use proto::time::Time;
use sim::app::{stream, transfer};
use sim::channel::{self, Outages};
use sim::units::BitRate;
use sim::{AppId, InterfaceConfig, LinkConfig, NodeId, World};

use super::super::Carrier;
use super::scenario::{Host, Jitter, Outage, Scenario};
use crate::claim::{Metric, Outcome};
use crate::stats::Observation;
use crate::tcp::{as_linux, as_ns3};

/// Seconds from the first SYN until the receiver has the last octet of the last flow.
pub(super) const DELAY: Metric = "delay";
/// IP packets put on all links.
pub(super) const PACKETS: Metric = "packets";
/// Seconds from the link's return until the slowest flow goes on.
pub(super) const RESUME: Metric = "resume";

/// Later, a transfer counts as one that does not end.
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
/// Octets of TCP's timestamps option, as padded.
const TIMESTAMPS: u16 = 12;
const PORT: u16 = 9;

impl Scenario {
    /// One run.
    pub(super) fn run(&self, carrier: Carrier, seed: u64) -> Outcome {
        let mut rng = Rng::stream(seed, "scenario");
        let down = self.outage.map(|outage| self.span_of(outage, &mut rng));
        let (mut world, from, to) = self.build(carrier, seed, down.as_ref());
        let Some(address) = world.address(to) else { return Outcome::new() };
        let flows = self.add_flows(&mut world, from, to, address, &mut rng);
        let stream_end = self.has_stream.then(|| {
            let start = Time::ZERO + rng.within(DATAGRAM_EVERY);
            self.add_stream(&mut world, from, to, address, start)
        });

        let (limit, octets) = (Time::ZERO + TIME_LIMIT, u64::from(self.octets));
        let resumed = down.map(|down| resume(&mut world, &flows, octets, down.end, limit));
        while world.now() < limit && flows.iter().any(|flow| !flow.has_ended(&world)) {
            let Some(next) = world.next_event() else { break };
            world.run_until((world.now() + STRIDE).max(next).min(limit));
        }
        let last = world.now().max(stream_end.unwrap_or(Time::ZERO));
        world.run_until(last + TAIL);

        let delays: Option<Vec<Duration>> =
            flows.iter().map(|flow| flow.delay(&world, octets)).collect();
        let finish = delays.and_then(|delays| delays.into_iter().max());
        let sent = world.total().sent.total().packets as f64;
        let mut outcome = vec![
            (
                DELAY,
                finish.map_or(Observation::AtLeast(TIME_LIMIT.as_secs_f64()), |finish| {
                    Observation::Exact(finish.as_secs_f64())
                }),
            ),
            (
                PACKETS,
                if flows.iter().all(|flow| flow.has_ended(&world)) {
                    Observation::Exact(sent)
                } else {
                    Observation::AtLeast(sent)
                },
            ),
        ];
        outcome.extend(resumed.map(|resumed| (RESUME, resumed)));
        outcome
    }

    /// When the middle is down: somewhere in what the transfer takes at least, so it is not over.
    fn span_of(&self, outage: Outage, rng: &mut Rng) -> Range<Time> {
        let least = self.least_delay();
        let start = Time::ZERO + least.mul_f64(0.3) + rng.within(least.mul_f64(0.4));
        start..start + Duration::from_secs(u64::from(outage.seconds))
    }

    fn build(
        &self,
        carrier: Carrier,
        seed: u64,
        down: Option<&Range<Time>>,
    ) -> (World, NodeId, NodeId) {
        let mut world = World::new(seed);
        let nodes: Vec<NodeId> =
            (0..=self.hops).map(|index| world.add_node(&format!("n{index}"))).collect();
        for (link, pair) in nodes.windows(2).enumerate() {
            world.connect(pair[0], pair[1], &self.link_config(link, down));
        }
        world.auto_routes();
        if let Some(config) = carrier.config() {
            for node in &nodes {
                world.enable_hbh(*node, config);
            }
        }
        (world, nodes[0], nodes[self.hops])
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

    fn add_flows(
        &self,
        world: &mut World,
        from: NodeId,
        to: NodeId,
        address: IpAddr,
        rng: &mut Rng,
    ) -> Vec<Flow> {
        let tcp = self.tcp();
        let flow = |index: u16| {
            let port = PORT + index;
            let sender = transfer::SenderConfig {
                port: 40_000 + index,
                start: if index == 0 { Time::ZERO } else { Time::ZERO + rng.within(START) },
                tcp,
                ..transfer::SenderConfig::new(
                    SocketAddr::new(address, port),
                    u64::from(self.octets),
                )
            };
            let sink = transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(port) };
            let sink = world.add_app(to, transfer::Sink::new(sink));
            Flow { sink, sender: world.add_app(from, transfer::Sender::new(sender)) }
        };
        (0..self.flows).map(flow).collect()
    }

    /// Adds the stream of datagrams; when it ends.
    fn add_stream(
        &self,
        world: &mut World,
        from: NodeId,
        to: NodeId,
        address: IpAddr,
        start: Time,
    ) -> Time {
        let span = (self.least_delay() * STREAM_SPAN).max(Duration::from_secs(1));
        let end = start + span;
        let port = PORT + self.flows;
        world.add_app(to, stream::Sink::new(port));
        world.add_app(
            from,
            stream::Sender::new(stream::SenderConfig {
                port,
                destination: SocketAddr::new(address, port),
                payload: DATAGRAM,
                interval: DATAGRAM_EVERY,
                start,
                stop: Some(end),
                count: None,
                dscp: 0,
            }),
        );
        end
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
                initial_window: tcp::InitialWindow::Segments(10),
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

/// One transfer of a run.
struct Flow {
    sink: AppId,
    sender: AppId,
}

impl Flow {
    fn has_ended(&self, world: &World) -> bool {
        world.transfer_sender(self.sender).is_none_or(|stats| stats.ended.is_some())
    }

    fn received(&self, world: &World) -> u64 {
        world.transfer_sink(self.sink).map_or(0, |stats| stats.octets)
    }

    /// From the start of the run to its last octet.
    fn delay(&self, world: &World, octets: u64) -> Option<Duration> {
        let received = world.transfer_sink(self.sink).filter(|stats| stats.octets >= octets)?;
        Some(received.last?.since(Time::ZERO))
    }
}

/// Runs until the link is back and every flow that has more to come has gone on; seconds from one
/// to the other.
fn resume(world: &mut World, flows: &[Flow], octets: u64, back: Time, limit: Time) -> Observation {
    world.run_until(back);
    let had = flows.iter().map(|flow| (flow, flow.received(world)));
    let waiting: Vec<(&Flow, u64)> = had.filter(|(_, had)| *had < octets).collect();
    let have_gone_on =
        |world: &World| waiting.iter().all(|(flow, had)| flow.received(world) > *had);
    world.run(limit, have_gone_on);
    let seconds = world.now().since(back).as_secs_f64();
    if have_gone_on(world) {
        Observation::Exact(seconds)
    } else {
        Observation::AtLeast(TIME_LIMIT.as_secs_f64())
    }
}
