//! The report of a scenario's run, for programs (JSON) and people (text).

use std::fmt;

use base::readable;
use base::time::Time;
use serde::Serialize;
use sim::app::{ping, stream, transfer};
use sim::service::hbh::Hbh;
use sim::service::tunnel::Tunnel;
use sim::{LinkReport as LinkCounters, NodeReport as NodeCounters, World};

use super::hf::{FrequencyReport, HfReport};
use super::net::NetReport;
use super::radio::RadioReport;
use super::routing::RoutingReport;
use super::table::section;
use super::tactical::{BgpReport, MessagesReport};

/// What happened in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// When the run ended, in simulated seconds since the flows could begin.
    pub ended_s: f64,
    /// Events of the simulator.
    pub events: u64,
    /// A fingerprint of all transmissions: equal for equal runs.
    pub hash: String,
    /// The flows, as in the file.
    pub flows: Vec<FlowReport>,
    /// Radio channels, as in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<RadioReport>,
    /// Combat nets, as in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nets: Vec<NetReport>,
    /// Stations on HF.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hf: Vec<HfReport>,
    /// HF frequencies, as in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<FrequencyReport>,
    /// BGP sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<BgpReport>,
    /// Messages from anybody to anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesReport>,
    /// Both directions of all links.
    pub links: Vec<LinkReport>,
    /// The nodes.
    pub nodes: Vec<NodeReport>,
}

/// A flow: either `tcp` or `udp` is present.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// What TCP did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TransferReport>,
    /// What became of the datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<StreamReport>,
}

/// A TCP transfer.
#[derive(Clone, Debug, Serialize)]
pub struct TransferReport {
    /// Octets to send; null if there is no end to them.
    pub octets: Option<u64>,
    /// Octets received in order.
    pub octets_received: u64,
    /// Seconds from the first SYN to the last octet; null if that did not arrive.
    pub delay_s: Option<f64>,
    /// Octets received, in bits, over the time that it had: to the last of them if all came, else to the end of
    /// `duration`, however early the connection died.
    pub goodput_bits_per_s: Option<f64>,
    /// Seconds from the first SYN to the connection; null if there was none.
    pub connect_s: Option<f64>,
    /// Whether it failed: not all octets came, or, where there is no end to them, the connection ended or was never
    /// there.
    pub failed: bool,
    /// How the connection ended; null if it did not.
    pub end: Option<String>,
    /// Segments sent by the sender.
    pub segments: u64,
    /// Of those, sent again.
    pub retransmissions: u64,
    /// How often its timer expired.
    pub timeouts: u64,
    /// How often TCP reduced its window because of marks (ECN).
    pub ecn_reductions: u64,
    /// Segments that arrived again at the receiver.
    pub duplicates: u64,
}

/// A stream of datagrams; for an answered stream, the answers that the sender received and the times there and back.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    /// Datagrams sent.
    pub sent: u64,
    /// Different datagrams received.
    pub received: u64,
    /// Received again.
    pub duplicates: u64,
    /// Received after a later datagram; for answers, repeated answers count too.
    pub reordered: u64,
    /// Mean seconds under way.
    pub delay_s: Option<f64>,
    /// The longest.
    pub longest_delay_s: Option<f64>,
    /// The variation of the delay, calculated as in RFC 3550.
    pub jitter_s: Option<f64>,
}

/// One direction of a link. Packets are IP packets, acknowledgements of HBH included.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// Packets put on the link.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Of the packets, lost by the link.
    pub lost: u64,
    /// Dropped before the link because its queue was full.
    pub dropped: u64,
    /// Dropped because the link was down.
    pub dropped_down: u64,
    /// TCP acknowledgements that left the queue because a newer one took their place.
    pub thinned_acks: u64,
    /// Marked by the queue (ECN).
    pub marked: u64,
    /// The most packets that waited.
    pub longest_queue: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Packets passed on.
    pub forwarded: u64,
    /// Packets dropped for want of a route.
    pub no_route: u64,
    /// Packets longer than the next link carries.
    pub too_big: u64,
    /// Packets whose hops were used up.
    pub hops_exceeded: u64,
    /// Fragments, which hosts here do not put together.
    pub fragments: u64,
    /// Packets with an unreadable header, of IP or of the protocol above.
    pub malformed: u64,
    /// Packets that no application waits for.
    pub unwanted: u64,
    /// Broadcasts for others, as their list said (RFC 1770).
    pub not_listed: u64,
    /// Connections not made because there were too many, or one with the same ends.
    pub connections_refused: u64,
    /// Connections refused because all passive opens of their port were taken.
    pub passive_opens_missing: u64,
    /// The node's HBH, if HBH runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hbh: Option<HopReport>,
    /// The node's routing protocol, if one runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingReport>,
    /// The tunnel ends of the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<TunnelReport>,
}

/// One end of a tunnel.
#[derive(Clone, Debug, Serialize)]
pub struct TunnelReport {
    /// The node at the other end.
    pub peer: String,
    /// Packets taken to be sent to it.
    pub packets_in: u64,
    /// Of those, sent.
    pub sources_sent: u64,
    /// Sent again.
    pub sources_resent: u64,
    /// Coded repairs sent.
    pub repairs_sent: u64,
    /// Messages with nothing but a report.
    pub reports_sent: u64,
    /// Packets from the other end that came out.
    pub packets_out: u64,
    /// Of those, recovered from repairs.
    pub sources_recovered: u64,
    /// Packets from the other end that were given up.
    pub sources_given_up: u64,
    /// Packets dropped because its queue was full or they waited too long.
    pub queue_dropped: u64,
    /// Packets refused because the path was down or there were no keys.
    pub down: u64,
    /// Packets refused as too long.
    pub too_big: u64,
    /// Packets refused as no IP packets.
    pub malformed: u64,
    /// Datagrams of its own that were too long for the interface.
    pub outer_too_big: u64,
    /// Own datagrams without keys to seal them.
    pub unsealed: u64,
    /// Datagrams of the other end that could not be opened.
    pub unreadable: u64,
}

/// A node's HBH.
#[derive(Clone, Debug, Serialize)]
pub struct HopReport {
    /// Packets taken to be sent to a neighbour.
    pub packets: u64,
    /// Data messages sent, repeats included.
    pub data_sent: u64,
    /// Data messages repeated because they were lost or presumed lost.
    pub data_repeated: u64,
    /// Data messages sent again over an idle link without being asked.
    pub data_spare: u64,
    /// Repairs sent over idle links.
    pub repairs_sent: u64,
    /// Packets that repairs gave.
    pub recovered: u64,
    /// Messages that carried nothing but acknowledgements.
    pub acks_sent: u64,
    /// Acknowledgements that rode on data.
    pub acks_ridden: u64,
    /// Packets given up after R retries.
    pub abandoned: u64,
    /// Packets discarded because they waited too long.
    pub expired: u64,
    /// Packets dropped where they enter: their queue was full, or stayed long.
    pub full: u64,
    /// Repeats of a TCP segment that was still on its way.
    pub absorbed: u64,
    /// Requests of neighbours to slow down.
    pub congested: u64,
    /// Neighbours that speak HBH too.
    pub neighbours: usize,
    /// Times that one fell silent or started anew.
    pub neighbours_down: u64,
}

impl Report {
    pub(crate) fn new(
        seed: u64,
        flows: Vec<FlowReport>,
        (radios, nets): (Vec<RadioReport>, Vec<NetReport>),
        (hf, frequencies): (Vec<HfReport>, Vec<FrequencyReport>),
        (bgp, messages): (Option<BgpReport>, Option<MessagesReport>),
        (world, begin): (&World, Time),
    ) -> Self {
        let counted = world.report();
        Self {
            seed,
            ended_s: counted.now.since(begin).as_secs_f64(),
            events: counted.events,
            hash: format!("{:016x}", counted.hash),
            flows,
            radios,
            nets,
            hf,
            frequencies,
            bgp,
            messages,
            links: counted.links.iter().map(LinkReport::new).collect(),
            nodes: counted.nodes.iter().map(|node| NodeReport::new(world, node)).collect(),
        }
    }
}

impl TransferReport {
    pub(crate) fn new(
        octets: Option<u64>,
        sent: &transfer::SenderStats,
        received: &transfer::SinkStats,
        [planned, end]: [Time; 2],
    ) -> Self {
        let since = |end: Option<Time>| Some(end?.since(sent.started?).as_secs_f64());
        let is_whole = octets.is_some_and(|octets| received.octets >= octets);
        let delay = if octets == Some(0) { sent.acked } else { received.last };
        let delay_s = since(delay).filter(|_| is_whole);
        // A transfer that fails, or never ends, had all the available time.
        let had =
            delay_s.unwrap_or_else(|| end.since(sent.started.unwrap_or(planned)).as_secs_f64());
        Self {
            octets,
            octets_received: received.octets,
            delay_s,
            goodput_bits_per_s: (had > 0.0).then(|| received.octets as f64 * 8.0 / had),
            connect_s: since(sent.established),
            failed: match octets {
                Some(_) => delay_s.is_none(),
                None => sent.end.is_some() || sent.established.is_none(),
            },
            end: sent.end.map(|end| ended(end).to_owned()),
            segments: sent.tcp.sent.segments,
            retransmissions: sent.tcp.sent.retransmissions,
            timeouts: sent.tcp.feedback.timeouts,
            ecn_reductions: sent.tcp.feedback.ecn_reductions,
            duplicates: received.tcp.received.duplicates,
        }
    }
}

/// How a connection ended, in words.
fn ended(end: tcp::Event) -> &'static str {
    match end {
        tcp::Event::Closed => "closed",
        tcp::Event::Reset => "reset by the peer",
        tcp::Event::TimedOut(tcp::TimedOut::Connecting) => "no answer to the SYN",
        tcp::Event::TimedOut(tcp::TimedOut::Data) => "no acknowledgement",
        tcp::Event::TimedOut(tcp::TimedOut::KeepAlive) => "no answer to keep-alives",
        tcp::Event::Connected
        | tcp::Event::PeerClosed
        | tcp::Event::Readable
        | tcp::Event::SoftError(_)
        | tcp::Event::Unresponsive
        | tcp::Event::Writable => "open",
    }
}

impl StreamReport {
    pub(crate) fn new(sent: &stream::SenderStats, received: &stream::SinkStats) -> Self {
        let some = |value: f64| (received.received > 0).then_some(value);
        Self {
            sent: sent.sent,
            received: received.received,
            duplicates: received.duplicates,
            reordered: received.reordered,
            delay_s: some(received.delay.mean()),
            longest_delay_s: some(received.delay.max().as_secs_f64()),
            jitter_s: some(received.jitter),
        }
    }
}

impl From<ping::Stats> for StreamReport {
    fn from(seen: ping::Stats) -> Self {
        let some = |value: f64| (seen.answered > 0).then_some(value);
        Self {
            sent: seen.sent,
            received: seen.answered,
            duplicates: 0,
            reordered: seen.late,
            delay_s: some(seen.rtt.mean()),
            longest_delay_s: some(seen.rtt.max().as_secs_f64()),
            jitter_s: None,
        }
    }
}

impl LinkReport {
    fn new(link: &LinkCounters) -> Self {
        let counters = &link.counters;
        let sent = counters.sent.total();
        Self {
            from: link.from.clone(),
            to: link.to.clone(),
            packets: sent.packets,
            octets: sent.octets,
            lost: counters.lost.packets,
            dropped: counters.dropped_at_edge.packets + counters.dropped_inside.packets,
            dropped_down: counters.dropped_down.packets,
            thinned_acks: counters.thinned_acks.packets,
            marked: counters.marked.packets,
            longest_queue: counters.longest_queue,
        }
    }
}

impl HopReport {
    fn new(hbh: &Hbh) -> Self {
        let stats = hbh.stats();
        Self {
            packets: stats.intake.packets_taken,
            data_sent: stats.sent.data_sent,
            data_repeated: stats.sent.data_repeated,
            data_spare: stats.sent.data_spare,
            repairs_sent: stats.sent.repairs_sent,
            recovered: stats.received.packets_recovered,
            acks_sent: stats.received.acks_sent,
            acks_ridden: stats.received.acks_ridden,
            abandoned: stats.sent.packets_abandoned,
            expired: stats.sent.packets_expired,
            full: stats.intake.packets_full + stats.sent.packets_thinned,
            absorbed: stats.intake.packets_absorbed,
            congested: stats.sent.congestion_received,
            neighbours: hbh.peers(),
            neighbours_down: hbh.hellos().neighbours_down,
        }
    }
}

impl NodeReport {
    fn new(world: &World, node: &NodeCounters) -> Self {
        Self {
            name: node.name.clone(),
            forwarded: node.counters.forwarded,
            no_route: node.counters.no_route,
            too_big: node.counters.too_big,
            hops_exceeded: node.counters.hops_exceeded,
            fragments: node.counters.fragments,
            malformed: node.counters.malformed + node.counters.malformed_transport,
            unwanted: node.counters.unwanted,
            not_listed: node.counters.not_listed,
            connections_refused: node.counters.connections_refused,
            passive_opens_missing: node.counters.passive_opens_missing,
            hbh: world.services::<Hbh>(node.node).next().map(HopReport::new),
            routing: RoutingReport::new(world, node.node),
            tunnels: world.services::<Tunnel>(node.node).map(TunnelReport::new).collect(),
        }
    }
}

impl TunnelReport {
    fn new(tunnel: &Tunnel) -> Self {
        let sim::TunnelReport { peer, stats, counters, .. } = tunnel.report();
        Self {
            peer,
            packets_in: stats.inner.packets_in,
            sources_sent: stats.sent.sources_sent,
            sources_resent: stats.sent.sources_resent,
            repairs_sent: stats.sent.repairs_sent,
            reports_sent: stats.sent.reports_sent,
            packets_out: stats.inner.packets_out,
            sources_recovered: stats.received.sources_recovered,
            sources_given_up: stats.received.sources_given_up,
            queue_dropped: stats.inner.queue_dropped,
            down: counters.down,
            too_big: counters.too_big,
            malformed: counters.malformed,
            outer_too_big: counters.outer_too_big,
            unsealed: counters.unsealed,
            unreadable: counters.unreadable,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, ended_s, events, .. } = self;
        writeln!(f, "{ended_s:.3} s simulated in {events} events, seed {seed}")?;
        section(f, "Flows", &FLOW_HEAD, self.flows.iter().map(FlowReport::row))?;
        section(f, "BGP", &BgpReport::HEAD, self.bgp.iter().map(BgpReport::row))?;
        let messages = self.messages.iter().map(MessagesReport::row);
        section(f, "Messages", &MessagesReport::HEAD, messages)?;
        let stations = self.radios.iter().flat_map(RadioReport::rows);
        section(f, "Radios", &RadioReport::HEAD, stations)?;
        let nets = self.nets.iter().flat_map(NetReport::rows);
        section(f, "Nets", &NetReport::HEAD, nets)?;
        section(f, "HF, octets of D_PDUs", &HfReport::HEAD, self.hf.iter().map(HfReport::row))?;
        let frequencies = self.frequencies.iter().map(FrequencyReport::row);
        section(f, "HF frequencies", &FrequencyReport::HEAD, frequencies)?;
        section(f, "Links", &LINK_HEAD, self.links.iter().map(LinkReport::row))?;
        let drops = self.nodes.iter().filter_map(NodeReport::drops);
        section(f, "Dropped by nodes", &DROP_HEAD, drops)?;
        let hops = self.nodes.iter().filter_map(NodeReport::row);
        section(f, "HBH", &HOP_HEAD, hops)?;
        let routers = || self.nodes.iter().filter_map(|it| Some((&*it.name, it.routing.as_ref()?)));
        let rows = routers().map(|(node, it)| it.row(node));
        section(f, "Routing", &RoutingReport::HEAD, rows)?;
        let counters = RoutingReport::totals(routers().map(|(_, it)| it));
        section(f, "Routing, all nodes", &["counter", "count"], counters)?;
        let ends = self.nodes.iter().flat_map(NodeReport::tunnel_rows);
        section(f, "Tunnels", &TUNNEL_HEAD, ends)?;
        let drops = self.nodes.iter().flat_map(NodeReport::tunnel_drops);
        section(f, "Dropped by tunnels", &TUNNEL_DROP_HEAD, drops)
    }
}

const FLOW_HEAD: [&str; 6] = ["flow", "received", "delay", "goodput", "sent again", ""];
const LINK_HEAD: [&str; 10] = [
    "from",
    "to",
    "packets",
    "octets",
    "lost",
    "queue full",
    "down",
    "thinned",
    "marked",
    "longest queue",
];
const DROP_HEAD: [&str; 10] = [
    "node",
    "no route",
    "too big",
    "hops exceeded",
    "fragments",
    "malformed",
    "unwanted",
    "not listed",
    "connections refused",
    "no passive open",
];
const TUNNEL_DROP_HEAD: [&str; 9] = [
    "from",
    "to",
    "queue",
    "path down",
    "too big",
    "malformed",
    "too big outside",
    "no keys",
    "unreadable",
];
const HOP_HEAD: [&str; 8] =
    ["node", "packets", "sent", "repeated", "spare", "acks", "given up", "refused"];

const TUNNEL_HEAD: [&str; 8] =
    ["from", "to", "packets", "sent again", "repairs", "reports", "recovered", "given up"];

impl FlowReport {
    fn row(&self) -> Vec<String> {
        let seconds =
            |value: Option<f64>| value.map_or("never".to_owned(), |value| format!("{value:.3} s"));
        if let Some(tcp) = &self.tcp {
            return vec![
                self.name.clone(),
                match tcp.octets {
                    Some(octets) => format!("{} of {octets} octets", tcp.octets_received),
                    None => format!("{} octets", tcp.octets_received),
                },
                seconds(tcp.delay_s),
                readable::rate(tcp.goodput_bits_per_s.unwrap_or_default()),
                format!("{} of {}", tcp.retransmissions, tcp.segments),
                match (&tcp.end, tcp.failed) {
                    (end, false) => end.clone().unwrap_or_else(|| "still open".to_owned()),
                    (Some(end), true) => format!("failed: {end}"),
                    (None, true) => "failed: out of time".to_owned(),
                },
            ];
        }
        let Some(udp) = &self.udp else { return Vec::new() };
        vec![
            self.name.clone(),
            format!("{} of {} datagrams", udp.received, udp.sent),
            seconds(udp.delay_s),
            String::new(),
            String::new(),
            format!("{} duplicates, {} reordered", udp.duplicates, udp.reordered),
        ]
    }
}

impl LinkReport {
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.from.clone(), self.to.clone()];
        let counts = [
            self.packets,
            self.octets,
            self.lost,
            self.dropped,
            self.dropped_down,
            self.thinned_acks,
            self.marked,
        ];
        row.extend(counts.map(|count| count.to_string()));
        row.push(self.longest_queue.to_string());
        row
    }
}

impl NodeReport {
    fn row(&self) -> Option<Vec<String>> {
        let hbh = self.hbh.as_ref()?;
        let counts = [
            hbh.packets,
            hbh.data_sent,
            hbh.data_repeated,
            hbh.data_spare + hbh.repairs_sent,
            hbh.acks_sent,
            hbh.abandoned + hbh.expired,
            hbh.full,
        ];
        let mut row = vec![self.name.clone()];
        row.extend(counts.map(|count| count.to_string()));
        Some(row)
    }

    /// Why packets ended here, if any did.
    fn drops(&self) -> Option<Vec<String>> {
        let counts = [
            self.no_route,
            self.too_big,
            self.hops_exceeded,
            self.fragments,
            self.malformed,
            self.unwanted,
            self.not_listed,
            self.connections_refused,
            self.passive_opens_missing,
        ];
        let row = [self.name.clone()].into_iter().chain(counts.map(|count| count.to_string()));
        counts.iter().any(|count| *count > 0).then(|| row.collect())
    }

    /// Why packets ended at tunnels, of those where any did.
    fn tunnel_drops(&self) -> impl Iterator<Item = Vec<String>> {
        self.tunnels.iter().filter_map(|end| {
            let counts = [
                end.queue_dropped,
                end.down,
                end.too_big,
                end.malformed,
                end.outer_too_big,
                end.unsealed,
                end.unreadable,
            ];
            let ends = [self.name.clone(), end.peer.clone()].into_iter();
            let row = ends.chain(counts.map(|count| count.to_string()));
            counts.iter().any(|count| *count > 0).then(|| row.collect())
        })
    }

    fn tunnel_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.tunnels.iter().map(|end| {
            let counts = [
                end.sources_sent,
                end.sources_resent,
                end.repairs_sent,
                end.reports_sent,
                end.sources_recovered,
                end.sources_given_up,
            ];
            let mut row = vec![self.name.clone(), end.peer.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row
        })
    }
}
