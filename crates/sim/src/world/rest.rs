//! Tells whether applications still have work to do.

use super::World;
use crate::counters::Class;

/// Where something was found to be pending the last time: what is asked first the next time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pending {
    node: usize,
    place: usize,
}

impl World {
    /// Whether all that applications do is over for good: none has anything planned, their connections wait for
    /// nothing but the end of TIME-WAIT, services hold no packet of theirs, and none is in a queue or on its way.
    ///
    /// Services go on for ever: hellos and messages of routing protocols do not count.
    #[must_use]
    pub fn is_at_rest(&self, pending: &mut Pending) -> bool {
        let Pending { node, place } = *pending;
        if self.nodes.get(node).is_some_and(|node| node.is_pending(place)) {
            return false;
        }
        let first = self.nodes.iter().enumerate().find_map(|(index, node)| {
            let place = node.first_pending()?;
            Some(Pending { node: index, place })
        });
        if let Some(first) = first {
            *pending = first;
            return false;
        }
        self.held_outside() == 0
            && !self.engine.packets.iter().any(|packet| self.is_traffic(packet))
    }

    fn is_traffic(&self, packet: &[u8]) -> bool {
        let class = Class::of(packet, |protocol, payload| {
            self.nodes.iter().find_map(|node| node.own_class(protocol, payload))
        });
        !matches!(class, Class::Hello | Class::Routing)
    }
}
