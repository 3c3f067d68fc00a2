//! Reports counters and results of a network.

use std::any::Any;
use std::net::IpAddr;

use base::ip::FlowKey;
use base::time::Time;
use tcp::{Connection, Event, State};

use super::World;
use crate::app::{App, transfer};
use crate::counters::{NodeCounters, PortCounters};
use crate::flows::{FlowCounters, Flows};
use crate::ids::{AppId, LinkId, NodeId, PortId};
use crate::medium::LinkAddress;
use crate::node::service::ServiceReport;
use crate::node::{Interface, Node};
use crate::transits::{Transit, Transits};

/// All counters of a network at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The time.
    pub now: Time,
    /// Events that happened.
    pub events: u64,
    /// A fingerprint of all transmissions: equal for equal runs.
    pub hash: u64,
    /// The nodes, in the order in which they were added.
    pub nodes: Vec<NodeReport>,
    /// Both directions of all links: forward first, then back.
    pub links: Vec<LinkReport>,
    /// All links together.
    pub total: PortCounters,
}

/// Report of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// Which.
    pub node: NodeId,
    /// The name of the node.
    pub name: String,
    /// In its IP stack.
    pub counters: NodeCounters,
    /// In its services, in the order in which they were added.
    pub services: Vec<ServiceReport>,
}

/// Report of a link in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkReport {
    /// Which.
    pub link: LinkId,
    /// The sending node's name.
    pub from: String,
    /// The receiving node's name.
    pub to: String,
    /// On the link and in the queue before it.
    pub counters: PortCounters,
}

impl World {
    /// All counters.
    #[must_use]
    pub fn report(&self) -> Report {
        let nodes = self.nodes.iter().map(|node| NodeReport {
            node: node.id(),
            name: node.name.clone(),
            counters: node.counters,
            services: node.reports().collect(),
        });
        let mut links = Vec::new();
        for (index, link) in self.links.iter().enumerate() {
            let [a, b] = *link;
            for (near, far) in [(a, b), (b, a)] {
                links.push(LinkReport {
                    link: LinkId(super::small(index)),
                    from: self.name(self.node_of(near)).to_owned(),
                    to: self.name(self.node_of(far)).to_owned(),
                    counters: self.engine.ports[near.index()].counters,
                });
            }
        }
        Report {
            now: self.engine.now,
            events: self.engine.events,
            hash: self.engine.trace.hash(),
            nodes: nodes.collect(),
            total: self.total(),
            links,
        }
    }

    /// The counters of all links together.
    #[must_use]
    pub fn total(&self) -> PortCounters {
        let counters = self.engine.ports.iter().map(|port| port.counters);
        counters.fold(PortCounters::default(), |sum, port| sum + port)
    }

    /// The counters of one port.
    #[must_use]
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        self.engine.ports[port.index()].counters
    }

    /// Packets that wait at a port now.
    #[must_use]
    pub fn queue_len(&self, port: PortId) -> usize {
        self.interface(port).queue_len()
    }

    /// Packets that wait at all interfaces of a node now.
    #[must_use]
    pub fn queued(&self, node: NodeId) -> usize {
        self.nodes[node.index()].interfaces.iter().map(Interface::queue_len).sum()
    }

    /// The counters of all ports of a node.
    #[must_use]
    pub fn sent_by(&self, node: NodeId) -> PortCounters {
        let ports = self.nodes[node.index()].interfaces.iter().map(|interface| interface.port);
        let counters = ports.map(|port| self.engine.ports[port.index()].counters);
        counters.fold(PortCounters::default(), |sum, port| sum + port)
    }

    /// The neighbour to which a node would send a packet for `destination` now.
    #[must_use]
    pub fn next_hop(&self, node: NodeId, destination: IpAddr) -> Option<NodeId> {
        let Node { table, interfaces, .. } = &self.nodes[node.index()];
        let resolve = |index: usize, via| interfaces[index].resolve(&self.engine, via);
        match table.search(destination, resolve)?.neighbour {
            LinkAddress::Broadcast => None,
            LinkAddress::Port(port) => Some(self.node_of(port)),
        }
    }

    /// Number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.engine.events
    }

    /// Packets that are in a queue or on a link, or held by a service; each HF station and each end of a tunnel
    /// that has some counts as one.
    #[must_use]
    pub fn packets_under_way(&self) -> usize {
        self.engine.packets.len() + self.held_outside()
    }

    /// Of all packets under way, the number held by media and services, outside of the engine.
    pub(crate) fn held_outside(&self) -> usize {
        let media: usize = self.engine.media().map(|medium| medium.under_way()).sum();
        media + self.nodes.iter().map(Node::under_way).sum::<usize>()
    }

    /// What happened in a node's IP stack.
    #[must_use]
    pub fn node_counters(&self, node: NodeId) -> NodeCounters {
        self.nodes[node.index()].counters
    }

    /// Traffic of each flow on the links, if flows are counted.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowCounters)> {
        self.engine.flows.iter().flat_map(Flows::iter)
    }

    /// Common traffic counters of all flows beyond the limit of flows counted singly.
    #[must_use]
    pub fn other_flows(&self) -> FlowCounters {
        self.engine.flows.as_ref().map(Flows::others).unwrap_or_default()
    }

    /// Recorded transits of packets through the observed tunnel.
    #[must_use]
    pub fn transits(&self) -> &[Transit] {
        self.engine.transits.as_ref().map_or(&[], Transits::done)
    }

    /// An application; `None` if its type differs.
    #[must_use]
    pub fn app<A: App>(&self, app: AppId) -> Option<&A> {
        let (node, index) = self.apps[app.index()];
        let app: &dyn Any = self.nodes[node.index()].app(index);
        app.downcast_ref()
    }

    /// Statistics of a transfer's sender; `None` if the application is another.
    #[must_use]
    pub fn transfer_sender(&self, app: AppId) -> Option<transfer::SenderStats> {
        let sender: &transfer::Sender = self.app(app)?;
        let open = self.connection(app);
        let tcp = open.map_or(sender.stats().tcp, |open| *open.stats());
        // In TIME-WAIT both sides have closed, and no word of the peer changes that.
        let is_closed = open.is_some_and(|open| open.state() == State::TimeWait);
        let end = sender.stats().end.or(is_closed.then_some(Event::Closed));
        Some(transfer::SenderStats { tcp, end, ..*sender.stats() })
    }

    /// Statistics of a transfer's sink; `None` if the application is another.
    #[must_use]
    pub fn transfer_sink(&self, app: AppId) -> Option<transfer::SinkStats> {
        let sink: &transfer::Sink = self.app(app)?;
        let tcp = self.connection(app).map_or(sink.stats().tcp, |open| *open.stats());
        Some(transfer::SinkStats { tcp, ..*sink.stats() })
    }

    /// The open connection of an application; the oldest if there are several.
    #[must_use]
    pub fn connection(&self, app: AppId) -> Option<&Connection> {
        let (node, index) = self.apps[app.index()];
        self.nodes[node.index()].sockets.connections(index).next()
    }
}
