//! Lists the hooks on each path of a packet through this host, and the interfaces visible at each hook.

use super::{Culprit, Fate, Firewalls, Hook, Packet};

/// The loopback interface.
pub const LOOPBACK: &str = "lo";

/// The path of a packet through this host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From another host to a local program; also to a service that intercepts connections.
    In,
    /// From a local program to another host.
    Out,
    /// Between local programs; also to a service that intercepts connections.
    Within,
    /// From another host to another: forwarded.
    Through,
    /// ARP, arriving.
    ArpIn,
    /// ARP, leaving.
    ArpOut,
}

/// The interface visible at a hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    Nothing,
    Loopback,
    /// The packet's own interface.
    Own,
}

impl Way {
    /// The hooks in order, each with the incoming and the outgoing interface that it sees.
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
    /// The first hook on the path that certainly drops the packet, and the rule or policy.
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
