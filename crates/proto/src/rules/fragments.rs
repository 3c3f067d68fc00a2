//! Which rule decided on the first fragment of a packet: it decides on the others too.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::flow::Flow;
use crate::ip::Fragment;

/// First fragments that are remembered; one more takes the place of the oldest.
const LIMIT: usize = 128;

#[derive(Clone, Debug, Default)]
pub(super) struct Fragments {
    /// The youngest last.
    decided: VecDeque<(Packet, Option<usize>)>,
}

/// A packet that was cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ident: u32,
}

impl Packet {
    fn of(flow: &Flow<'_>, fragment: Fragment) -> Self {
        let Flow { source, destination, protocol, .. } = *flow;
        Self { source, destination, protocol, ident: fragment.ident }
    }
}

impl Fragments {
    /// Remembers what was decided on a first fragment.
    pub(super) fn handle_first(
        &mut self,
        flow: &Flow<'_>,
        fragment: Fragment,
        rule: Option<usize>,
    ) {
        let packet = Packet::of(flow, fragment);
        self.decided.retain(|(other, _)| *other != packet);
        if self.decided.len() == LIMIT {
            self.decided.pop_front();
        }
        self.decided.push_back((packet, rule));
    }

    /// What was decided on the first of these fragments, if that was seen.
    pub(super) fn find(&self, flow: &Flow<'_>, fragment: Fragment) -> Option<Option<usize>> {
        let packet = Packet::of(flow, fragment);
        self.decided.iter().rev().find(|(other, _)| *other == packet).map(|(_, rule)| *rule)
    }
}
