//! Log of route changes, for experiments that count hops and changes over time.

use base::ip::Prefix;
use base::time::Time;
use manet::Route;

use crate::ids::NodeId;

/// A route that a routing protocol gave or took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RouteRecord {
    /// When.
    pub time: Time,
    /// Whose.
    pub node: NodeId,
    /// Which destinations.
    pub prefix: Prefix,
    /// The route from then on; `None` if there was none any more.
    pub route: Option<Route>,
}

/// Changes of routes, up to a limit.
#[derive(Debug)]
pub struct RouteLog {
    limit: usize,
    records: Vec<RouteRecord>,
    missed: u64,
}

impl RouteLog {
    pub fn new(limit: usize) -> Self {
        Self { limit, records: Vec::new(), missed: 0 }
    }

    pub fn add(&mut self, record: RouteRecord) {
        if self.records.len() < self.limit {
            self.records.push(record);
        } else {
            self.missed += 1;
        }
    }

    pub fn records(&self) -> &[RouteRecord] {
        &self.records
    }

    /// Changes that were not recorded, for want of room.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
