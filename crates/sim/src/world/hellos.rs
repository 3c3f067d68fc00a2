//! What neighbours that run HBH know of their link when a run begins.
//!
//! Gateways say hello all the time, and so have measured the link before the first packet. In a
//! simulation this is over before the run: each direction of the link is there a second time, with a
//! random stream of its own and without outages, and hellos cross it.

use std::time::Duration;

use proto::hbh::LinkReport;
use proto::rng::Rng;
use proto::time::Time;

use super::World;
use crate::channel::{self, Channel, Outages};
use crate::engine::Port;
use crate::ids::PortId;
use crate::medium::wire::Wire;
use crate::node::service::hbh::Hbh;

/// How many hellos each of two neighbours has sent.
const HELLOS: u32 = 32;
/// Between two of them: the gateway's default.
const INTERVAL: Duration = Duration::from_secs(2);
/// Octets of a hello as an IP packet, with one address and one neighbour.
const OCTETS: usize = 85;

impl World {
    /// Lets the nodes at both ends of a link say hello for a minute.
    pub(super) fn greet(&mut self, a: PortId, b: PortId) {
        let (Some(there), Some(back)) = (self.say_hello(a), self.say_hello(b)) else { return };
        let round_trip = there.took.zip(back.took).map(|(there, back)| there + back);
        for (near, far, Heard { arrived, .. }) in [(a, b, there), (b, a, back)] {
            let report = LinkReport { arrived, lost: HELLOS - arrived, round_trip };
            let node = self.node_of(near);
            let node = &mut self.nodes[node.index()];
            node.with_service(
                &mut self.engine,
                |_: &Hbh| true,
                |hbh| {
                    hbh.handle_link_report(far, report);
                },
            );
        }
    }

    /// What the far end hears of the hellos that leave by a port of a wire.
    fn say_hello(&self, port: PortId) -> Option<Heard> {
        let Port { node, interface, medium, .. } = self.engine.ports[port.index()];
        let config = self.medium::<Wire>(medium)?.channel(port).clone();
        let config = channel::Config { outages: Outages::default(), ..config };
        let name = format!("hellos {} {interface}", self.name(node));
        let mut channel = Channel::new(config, Rng::stream(self.seed, &name));

        let mut heard = Heard { arrived: 0, took: None };
        for hello in 0..HELLOS {
            let now = Time::ZERO + INTERVAL * hello;
            if let Some(at) = channel.transmit(now, OCTETS).arrives_at {
                heard = Heard { arrived: heard.arrived + 1, took: Some(at.since(now)) };
            }
        }
        Some(heard)
    }
}

/// What is heard of the hellos in one direction.
struct Heard {
    arrived: u32,
    /// How long the last of them took.
    took: Option<Duration>,
}
