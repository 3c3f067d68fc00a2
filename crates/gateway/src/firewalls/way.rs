//! The ways of packets through this host: the hooks in their order, and what each sees of the interfaces.

use super::{Culprit, Fate, Firewalls, Hook, Packet};

/// The name of the interface by which this host sends to itself.
pub const LOOPBACK: &str = "lo";

/// How packets pass this host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// To a program of this host, or to a service that takes packets in their destination's name.
    In,
    /// From this host to others.
    Out,
    /// From this host to itself, or to such a service.
    Within,
    /// Between others.
    Through,
    /// ARP, arriving.
    ArpIn,
    /// ARP, leaving.
    ArpOut,
}

/// An interface as a firewall's hook sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    Nothing,
    Loopback,
    /// The packet's own interface.
    Own,
}

impl Way {
    /// The firewall hooks in the order of the packet, each with the incoming and the outgoing interface there.
    pub fn hooks(self) -> &'static [(Hook, Seen, Seen)] {
        use Seen::{Loopback, Nothing, Own};
        match self {
            Self::In => &[
                (Hook::Ingress, Own, Nothing),
                (Hook::Prerouting, Own, Nothing),
                (Hook::Input, Own, Nothing),
            ],
            Self::Out => &[
                (Hook::Output, Nothing, Own),
                (Hook::Postrouting, Nothing, Own),
                (Hook::Egress, Nothing, Own),
            ],
            Self::ArpIn => &[(Hook::Ingress, Own, Nothing), (Hook::ArpInput, Own, Nothing)],
            Self::ArpOut => &[(Hook::ArpOutput, Nothing, Own), (Hook::Egress, Nothing, Own)],
            Self::Within => &[
                (Hook::Output, Nothing, Own),
                (Hook::Postrouting, Nothing, Loopback),
                (Hook::Prerouting, Loopback, Nothing),
                (Hook::Input, Loopback, Nothing),
            ],
            Self::Through => &[
                (Hook::Ingress, Own, Nothing),
                (Hook::Prerouting, Own, Nothing),
                (Hook::Forward, Own, Own),
                (Hook::Postrouting, Own, Own),
                (Hook::Egress, Own, Own),
            ],
        }
    }
}

impl Seen {
    /// The interface's name at the hook; `own` is the packet's interface.
    pub fn seen(self, own: Option<String>) -> Option<String> {
        match self {
            Self::Nothing => Some(String::new()),
            Self::Loopback => Some(LOOPBACK.to_owned()),
            Self::Own => own,
        }
    }
}

impl Firewalls {
    /// The first hook on the way that drops a packet for certain, and the chain or rule there.
    pub fn dropped(&self, packet: &Packet, way: Way) -> Option<(Hook, Culprit)> {
        way.hooks().iter().find_map(|(hook, has_come, leaves)| {
            let packet = Packet {
                came_by: has_come.seen(packet.came_by.clone()),
                leaves_by: leaves.seen(packet.leaves_by.clone()),
                ..packet.clone()
            };
            match self.judge(&packet, *hook) {
                Fate::Dropped(culprit) => Some((*hook, culprit)),
                Fate::Passes | Fate::MayBeDropped(_) => None,
            }
        })
    }
}
