//! Runs BGP speakers and messengers in a network and reports the result of their messages.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::ip::protocol;
use sar::Sar;
use sim::app::bgp::{self, Ends, Record};
use sim::app::messages;
use sim::{Prefix, Summary};

use super::super::network::Built;
use super::{Apps, BgpReport, MessagesReport};

/// All on a link (RFC 1112).
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Flows that are counted each: connections that are opened again and again are others.
const MOST_FLOWS: usize = 100_000;

impl Built<'_> {
    /// Starts speakers and messengers.
    pub(crate) fn add_tactical(&mut self) -> anyhow::Result<Apps> {
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
                    start: self.at(planned.start),
                    stop: planned.stop.map(|stop| self.at(stop)),
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
                    destinations: planned.destinations,
                    group: planned.group.then_some(GROUP),
                    port: planned.port,
                    payload: planned.payload,
                    precedence: planned.precedence,
                    lifetime: planned.lifetime,
                    carrier: planned.carrier(),
                    interval: planned.interval * count,
                    start: self.at(planned.start),
                    stop: planned.stop.map(|stop| self.at(stop)),
                };
                if planned.group {
                    self.reach_all(*node);
                }
                let rng = self.world.stream(&format!("messages {}", plan.nodes[*node].name));
                let messenger = messages::Messenger::new(config, rng);
                apps.messengers.push(self.world.add_app(self.nodes[*node], messenger));
            }
        }
        Ok(apps)
    }

    /// Has a node send what is for all to its first net, radio or link.
    fn reach_all(&mut self, node: usize) {
        let plan = self.plan();
        let nets = plan.nets.iter().zip(&self.nets).filter_map(|(net, id)| {
            let place = net.stations.iter().position(|it| *it == node)?;
            self.world.cnr_ports(*id).get(place).copied()
        });
        let radios = plan.radios.iter().zip(&self.radios).filter_map(|(radio, id)| {
            let place = radio.stations.iter().position(|it| it.node == node)?;
            self.world.radio_ports(*id).get(place).copied()
        });
        let links = plan.links.iter().zip(&self.links).filter_map(|(link, id)| {
            let place = link.ends.iter().position(|end| *end == node)?;
            Some(self.world.ends(*id)[place])
        });
        let first = nets.chain(radios).chain(links).next();
        let all = Prefix::new(GROUP.into(), 32).ok();
        if let (Some(port), Some(all)) = (first, all) {
            self.world.add_route(port, all, None, 0);
        }
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

    /// The result of the BGP sessions, if there are any.
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

    /// The result of the messages, if there are any.
    #[must_use]
    pub fn messages(&self) -> Option<MessagesReport> {
        self.plan().messages.as_ref()?;
        let all: Vec<&messages::Messenger> = self.messengers().collect();
        let sum =
            |of: fn(&messages::Stats) -> u64| all.iter().map(|it| of(it.stats())).sum::<u64>();
        let mean = |of: fn(&messages::Stats) -> &Summary| {
            Summaries::of(all.iter().map(|it| of(it.stats())))
        };
        let delay = mean(|it| &it.delay);
        let (expected, received, told) =
            (sum(|it| it.expected), sum(|it| it.received), sum(|it| it.told));
        Some(MessagesReport {
            sent: sum(|it| it.sent),
            expected,
            received,
            completion: share(received, expected),
            delay_s: delay.mean(),
            delay_90_s: nine_of_ten(&all, expected),
            longest_delay_s: delay.longest(),
            told,
            told_share: share(told, expected),
            told_after_s: mean(|it| &it.told_after).mean(),
            failed: sum(|it| it.failed) + sum(|it| it.refused),
            set_up: mean(|it| &it.set_up).count,
            set_up_s: mean(|it| &it.set_up).mean(),
            again: sum(|it| it.again),
            errors: sum(|it| it.errors),
            sar: all.iter().filter_map(|it| it.sar()).map(Sar::stats).collect(),
        })
    }

    /// What sends and takes the messages.
    pub fn messengers(&self) -> impl Iterator<Item = &messages::Messenger> {
        self.apps.messengers.iter().filter_map(|app| self.world.app(*app))
    }
}

/// The time within which nine of ten of the `expected` messages arrived.
fn nine_of_ten(all: &[&messages::Messenger], expected: u64) -> Option<f64> {
    let mut delays: Vec<Duration> = all.iter().flat_map(|it| it.delays()).copied().collect();
    delays.sort_unstable();
    let place = usize::try_from((expected * 9).div_ceil(10)).ok()?.checked_sub(1)?;
    delays.get(place).map(Duration::as_secs_f64)
}

/// Several summaries together.
#[derive(Clone, Copy, Debug, Default)]
struct Summaries {
    count: u64,
    seconds: f64,
    longest: f64,
}

impl Summaries {
    fn of<'a>(all: impl Iterator<Item = &'a Summary>) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            count: sum.count + it.count(),
            seconds: sum.seconds + it.mean() * it.count() as f64,
            longest: sum.longest.max(it.max().as_secs_f64()),
        })
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.seconds / self.count as f64)
    }

    fn longest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.longest)
    }
}

/// Counts the messages made, and measures the delays of the messages that arrived: on each connection, the first
/// message to arrive is the first one sent.
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
