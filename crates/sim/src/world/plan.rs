//! Planned changes of a network during a run.

use base::ip::Prefix;

use super::World;
use crate::channel;
use crate::engine::Port;
use crate::ids::{LinkId, NodeId, PortId};
use crate::medium::wire::Wire;

/// A change at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Every node learns the shortest paths over the links that are up.
    AutoRoutes,
    /// A link gets other channels, there and back. What is on the link arrives as it would have.
    Channels(LinkId, Box<[channel::Config; 2]>),
    /// Both ends notice that the link is down.
    LinkDown(LinkId),
    /// Both ends notice that the link is up.
    LinkUp(LinkId),
    /// The radio behind this port is switched off, and its node notices.
    RadioOff(PortId),
    /// The radio behind this port is switched on, and its node notices.
    RadioOn(PortId),
    /// A node gets a route through a neighbour.
    Route {
        /// Whose route.
        node: NodeId,
        /// To which destinations.
        prefix: Prefix,
        /// Through which neighbour.
        via: NodeId,
        /// How good; lower is better.
        metric: u32,
    },
    /// A node loses its routes to exactly this prefix.
    Unroute {
        /// Whose routes.
        node: NodeId,
        /// To which destinations.
        prefix: Prefix,
    },
}

impl World {
    pub(crate) fn apply(&mut self, index: usize) {
        match self.changes[index].clone() {
            Change::AutoRoutes => self.auto_routes(),
            Change::Channels(link, configs) => {
                let [near, _] = self.links[link.index()];
                let medium = self.engine.ports[near.index()].medium;
                self.engine.on_medium(medium, |wire: &mut Wire, _| wire.change(*configs));
            }
            Change::LinkDown(link) => self.set_link(link, false),
            Change::LinkUp(link) => self.set_link(link, true),
            Change::RadioOff(port) => self.set_radio(port, false),
            Change::RadioOn(port) => self.set_radio(port, true),
            Change::Route { node, prefix, via, metric } => {
                self.route(node, prefix, via, metric);
            }
            Change::Unroute { node, prefix } => {
                let node = &mut self.nodes[node.index()];
                node.table.remove(prefix, None);
                node.handle_routes_changed(&mut self.engine);
            }
        }
    }

    fn set_link(&mut self, link: LinkId, is_up: bool) {
        for end in self.links[link.index()] {
            let Port { node, interface, .. } = self.engine.ports[end.index()];
            self.nodes[node.index()].handle_link(&mut self.engine, interface, is_up);
        }
    }
}
