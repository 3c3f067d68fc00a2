//! Speakers and messengers in a network, and what became of what they said.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use proto::ip::protocol;
use sim::Summary;
use sim::app::bgp::{self, Ends, Record};
use sim::app::messages;

use super::super::network::Built;
use super::{Apps, BgpReport, MessagesReport};

/// Flows that are counted each: connections that are opened again and again are others.
const MOST_FLOWS: usize = 100_000;

impl Built<'_> {
    /// Starts speakers and messengers.
    pub(in super::super) fn add_tactical(&mut self) -> anyhow::Result<Apps> {
        let mut apps = Apps::default();
        let plan = self.plan();
        for node in self.nodes.clone() {
            self.world.set_passive_opens(node, plan.passive_opens);
        }
        if let Some(planned) = &plan.bgp {
            self.world.count_flows(MOST_FLOWS);
            for (place, node) in planned.nodes.iter().enumerate() {
                let peers = planned.peers_of(place).into_iter().map(|peer| self.address(peer));
                let config = bgp::Config {
                    local: self.address(*node)?,
                    peers: peers.collect::<Result<_, _>>()?,
                    start: planned.start + self.before,
                    stop: planned.stop.map(|stop| stop + self.before),
                    keepalive_interval: planned.keepalive_interval,
                    update_interval: planned.update_interval,
                    retry: planned.retry,
                    sizes: planned.sizes,
                    tcp: planned.tcp,
                };
                let rng = self.world.stream(&format!("bgp {}", plan.nodes[*node].name));
                let speaker = bgp::Speaker::new(config, rng);
                apps.speakers.push(self.world.add_app(self.nodes[*node], speaker));
            }
        }
        if let Some(planned) = &plan.messages {
            let count = u32::try_from(planned.nodes.len()).unwrap_or(u32::MAX);
            for node in &planned.nodes {
                let others = planned.nodes.iter().filter(|other| *other != node);
                let config = messages::Config {
                    local: self.address(*node)?,
                    others: others.map(|it| self.address(*it)).collect::<Result<_, _>>()?,
                    port: planned.port,
                    payload: planned.payload,
                    interval: planned.interval * count,
                    start: planned.start + self.before,
                    stop: planned.stop.map(|stop| stop + self.before),
                };
                let rng = self.world.stream(&format!("messages {}", plan.nodes[*node].name));
                let messenger = messages::Messenger::new(config, rng);
                apps.messengers.push(self.world.add_app(self.nodes[*node], messenger));
            }
        }
        Ok(apps)
    }

    /// The IPv4 address that others know a node by.
    fn address(&self, node: usize) -> anyhow::Result<Ipv4Addr> {
        let planned = &self.plan().nodes[node];
        let own = self.world.addresses(self.nodes[node]);
        let mut all = planned.addresses.iter().copied().chain(own);
        let address = all.find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        address.ok_or_else(|| anyhow::anyhow!("node \"{}\" has no IPv4 address", planned.name))
    }

    /// What became of the BGP sessions, if there are any.
    #[must_use]
    pub fn bgp(&self) -> Option<BgpReport> {
        self.plan().bgp.as_ref()?;
        let apps = self.apps.speakers.iter();
        let speakers: Vec<&bgp::Speaker> =
            apps.filter_map(|speaker| self.world.app(*speaker)).collect();
        let sum =
            |of: fn(&bgp::Stats) -> u64| speakers.iter().map(|it| of(&it.stats())).sum::<u64>();
        let (made, delay) = matched(&speakers);
        let messages = made + sum(|it| it.unsent);
        let flows = self.world.flows().filter(|(key, _)| key.protocol == protocol::TCP);
        let (mut tcp_packets, mut tcp_octets) = (0, 0);
        for (_, counters) in flows {
            tcp_packets += counters.sent.packets;
            tcp_octets += counters.sent.octets;
        }
        let nodes = self.nodes.iter();
        Some(BgpReport {
            connects: sum(|it| it.connects),
            established: sum(|it| it.established),
            timed_out: sum(|it| it.timed_out),
            reset: sum(|it| it.reset),
            warnings: sum(|it| it.warnings),
            no_passive_open: nodes
                .map(|node| self.world.node_counters(*node).passive_opens_missing)
                .sum(),
            messages,
            delivered: delay.count(),
            completion: share(delay.count(), messages),
            delay_s: some(&delay, delay.mean()),
            longest_delay_s: some(&delay, delay.max().as_secs_f64()),
            tcp_packets,
            tcp_octets,
        })
    }

    /// What became of the messages, if there are any.
    #[must_use]
    pub fn messages(&self) -> Option<MessagesReport> {
        self.plan().messages.as_ref()?;
        let apps = self.apps.messengers.iter();
        let all: Vec<messages::Stats> = apps
            .filter_map(|app| self.world.app(*app).map(|it: &messages::Messenger| *it.stats()))
            .collect();
        let sum = |of: fn(&messages::Stats) -> u64| all.iter().map(of).sum::<u64>();
        let (sent, received): (u64, u64) = (sum(|it| it.sent), sum(|it| it.received));
        let seconds: f64 = all.iter().map(|it| it.delay.mean() * it.delay.count() as f64).sum();
        let longest = all.iter().map(|it| it.delay.max().as_secs_f64()).fold(0.0, f64::max);
        let has_any = |value: f64| (received > 0).then_some(value);
        Some(MessagesReport {
            sent,
            received,
            completion: share(received, sent),
            delay_s: has_any(seconds / received as f64),
            longest_delay_s: has_any(longest),
            errors: sum(|it| it.errors),
        })
    }
}

/// How many messages were made, and how long those were under way that came: on each connection the first
/// that came is the first that was sent.
fn matched(speakers: &[&bgp::Speaker]) -> (u64, Summary) {
    let mut came: BTreeMap<Ends, Vec<&Record>> = BTreeMap::new();
    for record in speakers.iter().flat_map(|speaker| speaker.received()) {
        // As the sender saw the connection.
        let (local, remote) = record.ends;
        came.entry((remote, local)).or_default().push(record);
    }
    let mut made = 0;
    let mut delay = Summary::default();
    let mut places: BTreeMap<Ends, usize> = BTreeMap::new();
    for record in speakers.iter().flat_map(|speaker| speaker.sent()) {
        made += 1;
        let place = places.entry(record.ends).or_default();
        if let Some(end) = came.get(&record.ends).and_then(|came| came.get(*place)) {
            delay.add(end.at.since(record.at));
        }
        *place += 1;
    }
    (made, delay)
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn some(summary: &Summary, value: f64) -> Option<f64> {
    (summary.count() > 0).then_some(value)
}
