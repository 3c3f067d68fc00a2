//! Logs the protocol's notices about other nodes, each once, and keeps a fault while it lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;
use host::fault::{self, Fault};
use manet::Notice;
use tracing::warn;

/// How long an address counts as another node's too after the last sign of that node.
const LASTS: Duration = Duration::from_secs(60);
/// Most nodes remembered after a complaint about their messages: a sender in radio range can claim any name.
const NAMED: usize = 64;

/// What was said.
#[derive(Debug, Default)]
pub struct Notices {
    /// Our addresses that other nodes have too, and until when.
    disputed: BTreeMap<Ipv4Addr, Time>,
    /// Nodes with messages that cannot be read whole.
    unreadable: BTreeSet<Ipv4Addr>,
}

impl Notices {
    /// Takes a notice of the protocol; returns whether the notice was new and therefore logged.
    pub fn take(&mut self, now: Time, notice: Notice, interface: &str) -> bool {
        match notice {
            Notice::AddressDisputed { address, from } => {
                self.disputed.retain(|_, until| *until > now);
                let is_new = self.disputed.insert(address, now + LASTS).is_none();
                if is_new {
                    warn!(
                        %address, heard_from = %from.address, interface,
                        "another node has this address too, or somebody forges it: routes lead now to \
                         one, now to the other; each node needs an address of its own"
                    );
                }
                is_new
            }
            Notice::Unreadable { from, originator } => {
                let has_room = self.unreadable.len() < NAMED;
                let is_new = has_room && self.unreadable.insert(originator);
                if is_new {
                    warn!(
                        node = %originator, heard_from = %from.address, interface,
                        "parts of this node's messages cannot be read and are skipped; the rest \
                         counts, and other nodes get them as they came"
                    );
                }
                is_new
            }
        }
    }

    /// What is wrong now.
    pub fn faults(&self, now: Time) -> Vec<Fault> {
        let disputed = self.disputed.iter().filter(|(_, until)| **until > now);
        let fault = |address| {
            let said = format!(
                "another node has the address {address} too, or somebody forges it: each node needs \
                 one of its own"
            );
            Fault::new(&fault::DISPUTED, said)
        };
        disputed.map(|(address, _)| fault(address)).collect()
    }
}

#[cfg(test)]
mod tests {
    use manet::Neighbour;

    use super::*;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    const FROM: Neighbour = Neighbour { interface: 0, address: Ipv4Addr::new(10, 0, 0, 9) };

    #[test]
    fn a_disputed_address_is_said_once_and_is_a_fault_while_there_are_signs() {
        let mut notices = Notices::default();
        let notice = Notice::AddressDisputed { address: address(1), from: FROM };

        let news = [1, 2, 50, 109].map(|second| notices.take(at(second), notice, "radio0"));

        assert_eq!(news, [true, false, false, false]);
        assert_eq!(notices.faults(at(168)).len(), 1);
        assert!(notices.faults(at(168))[0].said.contains("10.0.0.1"));
        assert_eq!(notices.faults(at(169)), []);
        assert!(notices.take(at(200), notice, "radio0"), "it is said anew when it begins anew");
    }

    #[test]
    fn each_node_with_strange_messages_is_named_once_and_a_few_at_most() {
        let mut notices = Notices::default();
        let mut take = |last| {
            let notice = Notice::Unreadable { from: FROM, originator: address(last) };
            notices.take(at(1), notice, "radio0")
        };

        let said = (0..=255).chain(0..=255).filter(|last| take(*last)).count();

        assert_eq!(said, NAMED);
    }
}
