//! Detects endless chains of events at one instant, with simulated time standing still.

use std::collections::BTreeSet;
use std::fmt;

use base::ip::{FlowKey, Header};
use base::time::Time;

use super::World;
use crate::engine::{Event, Kind};
use crate::ids::NodeId;

/// Most events allowed at one instant. A transfer of 1 GB over three links without delay has three million.
const MOST: u64 = 5_000_000;
/// The last events before that limit are watched: they name the nodes involved.
const WATCHED: u64 = 1_000;

/// How many events happen at an instant.
#[derive(Debug)]
pub struct Instant {
    at: Time,
    events: u64,
    most: u64,
    nodes: BTreeSet<NodeId>,
    flow: Option<FlowKey>,
}

impl Default for Instant {
    fn default() -> Self {
        Self { at: Time::ZERO, events: 0, most: MOST, nodes: BTreeSet::new(), flow: None }
    }
}

/// A run that cannot go on: without end something happens at one instant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standstill {
    /// The instant.
    pub at: Time,
    /// How many events it had.
    pub events: u64,
    /// The nodes that acted last, by name.
    pub nodes: Vec<String>,
    /// The packet that arrived last.
    pub flow: Option<FlowKey>,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, events, nodes, flow } = self;
        let seconds = at.as_secs_f64();
        write!(
            f,
            "time stands still at {seconds:.9} s: {events} events at one instant, the last of them"
        )?;
        match nodes.len() {
            0 => write!(f, " of a medium")?,
            1..=8 => write!(f, " at {}", nodes.join(", "))?,
            many => write!(f, " at {} and {} more nodes", nodes[..8].join(", "), many - 8)?,
        }
        if let Some(flow) = flow {
            let FlowKey { source, destination, source_port, destination_port, .. } = flow;
            write!(
                f,
                ", by packets from {source} port {source_port} to {destination} port {destination_port}"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Standstill {}

impl World {
    /// Why the run cannot go on, if it cannot: nothing more happens then, and the time stays as it is.
    #[must_use]
    pub fn standstill(&self) -> Option<&Standstill> {
        self.standstill.as_ref()
    }

    /// Lets an instant have fewer events.
    #[cfg(test)]
    pub(crate) fn limit_instants(&mut self, most: u64) {
        self.instant.most = most;
    }

    /// Counts an event; false if its instant has had too many.
    pub(crate) fn counts(&mut self, event: &Event) -> bool {
        if event.time > self.instant.at {
            let Instant { at, events, .. } = &mut self.instant;
            (*at, *events) = (event.time, 0);
        }
        self.instant.events += 1;
        let Instant { at, events, most, .. } = self.instant;
        if events + WATCHED > most {
            self.watch(event);
        }
        if events <= most {
            return true;
        }
        let Instant { nodes, flow, .. } = &self.instant;
        let nodes = nodes.iter().map(|node| self.name(*node).to_owned()).collect();
        self.standstill = Some(Standstill { at, events: most, nodes, flow: *flow });
        false
    }

    fn watch(&mut self, event: &Event) {
        if self.instant.events + WATCHED == self.instant.most + 1 {
            self.instant.nodes.clear();
            self.instant.flow = None;
        }
        match event.kind {
            Kind::Arrive { port, packet, .. } => {
                let octets = self.engine.octets(packet);
                let flow = Header::parse(octets).map(|header| FlowKey::of(&header, octets).0);
                self.instant.flow = flow.ok().or(self.instant.flow);
                self.instant.nodes.insert(self.node_of(port));
            }
            Kind::Idle { port } => {
                self.instant.nodes.insert(self.node_of(port));
            }
            Kind::Wake { node } => {
                self.instant.nodes.insert(node);
            }
            Kind::Change { .. } | Kind::Medium { .. } => {}
        }
    }
}
