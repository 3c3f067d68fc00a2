//! A port: the connection of an interface to its medium.

use base::time::Time;

use crate::counters::PortCounters;
use crate::ids::{MediumId, NodeId};

/// Where an interface is attached.
#[derive(Debug)]
pub struct Port {
    pub(crate) node: NodeId,
    /// The index of the interface in its node.
    pub(crate) interface: usize,
    pub(crate) medium: MediumId,
    /// When it may transmit; [`Time::MAX`] while its medium does not know that yet.
    pub(crate) idle_at: Time,
    /// Whether the node wants to be notified when the port may transmit.
    pub(crate) awaits_idle: bool,
    pub(crate) counters: PortCounters,
    /// The captures that record the port's packets, and the port's interface number in each.
    pub(crate) captures: Vec<(usize, u32)>,
}
