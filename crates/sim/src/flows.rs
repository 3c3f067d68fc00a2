//! Optional counters of the traffic of each flow on the links.

use std::collections::BTreeMap;

use base::ip::{FlowKey, Header};

use crate::counters::Tally;

/// Counters of a flow's packets, over all links together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FlowCounters {
    /// Put on a link: once for each link on the way, and again for each repeat.
    pub sent: Tally,
    /// Of the packets sent, the packets lost by a link.
    pub lost: Tally,
}

/// Counters for each flow, up to so many flows.
#[derive(Debug)]
pub struct Flows {
    limit: usize,
    flows: BTreeMap<FlowKey, FlowCounters>,
    others: FlowCounters,
}

impl Flows {
    pub fn new(limit: usize) -> Self {
        Self { limit, flows: BTreeMap::new(), others: FlowCounters::default() }
    }

    pub fn add_sent(&mut self, packet: &[u8]) {
        if let Some(counters) = self.counters(packet) {
            counters.sent.add(packet.len());
        }
    }

    pub fn add_lost(&mut self, packet: &[u8]) {
        if let Some(counters) = self.counters(packet) {
            counters.lost.add(packet.len());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, &FlowCounters)> {
        self.flows.iter()
    }

    pub fn others(&self) -> FlowCounters {
        self.others
    }

    /// Counters of the packet's flow; once there are too many flows, the common counters of all others.
    fn counters(&mut self, packet: &[u8]) -> Option<&mut FlowCounters> {
        let header = Header::parse(packet).ok()?;
        let (key, _) = FlowKey::of(&header, packet);
        let has_room = self.flows.len() < self.limit || self.flows.contains_key(&key);
        Some(if has_room { self.flows.entry(key).or_default() } else { &mut self.others })
    }
}
