//! Services: protocols that run in a node beside its IP stack.
//!
//! ```text
//!            Prerouting              Diverted, Forward            Postrouting
//!  medium ──────▶ + ─────▶ route? ───────────▶ + ──────────────────────▶ + ──▶ queue ──▶ medium
//!                            │ Input           ▲ Diverted                   ▲
//!                            ▼                 │ (packets of the node)      │
//!                        transport, applications                            │
//!                                                                           │
//!  poll_packet: back to one of these ways    poll_datagram: Postrouting    poll_frame
//! ```
//!
//! The hooks have the same places as in Linux. A service is a file here with an implementation of [`Service`];
//! the node knows no service by name.

pub mod hbh;
pub mod hf;
pub mod routing;
pub mod tcpnc;
pub mod tunnel;

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;

use base::ip::icmp::Error;
use base::ip::udp::Datagram;
use base::ip::{FlowKey, Header, Prefix};
use base::time::Time;
use manet::Route;
use serde::Serialize;
use serde_json::Value;

use super::NextHop;
use crate::counters::Class;
use crate::engine::{Engine, PacketId};
use crate::ids::PortId;
use crate::medium::LinkAddress;

/// A protocol that runs in a node beside its IP stack.
///
/// The node calls, for each packet at a hook, `claims` of one service after the other, and `handle` of the first
/// that claims it. After any of the `handle` methods it settles the service: `settle`, `handle_routes` if a
/// [`RouteWatcher`] needs routes, `poll_route`, `poll_recall`, then `poll_packet` until `None`, then `poll_frame`
/// and `poll_datagram` while the interfaces that the service sends over have room, then `next_timeout`.
///
/// What only some services do stands in traits of its own; a service returns itself from the `as_` method of
/// each that it implements.
pub trait Service: Any + Debug + Send {
    /// Whether the service takes a packet with these octets at this hook.
    fn claims(&self, _hook: &Hook<'_>, _octets: &[u8]) -> bool {
        false
    }

    /// Takes a packet claimed by the service, or with a destination prefix routed into the service.
    ///
    /// The service owns a taken packet and removes it from the engine later.
    fn handle(&mut self, engine: &mut Engine, _hook: &Hook<'_>, packet: PacketId) -> Verdict {
        engine.remove(packet);
        Verdict::Taken
    }

    /// Takes an ICMP error about a packet of this flow and this many octets; false if the packet was
    /// not the service's.
    fn handle_error(
        &mut self,
        _now: Time,
        _flow: &FlowKey,
        _octets: usize,
        _error: Option<Error>,
    ) -> bool {
        false
    }

    /// Acts on what is due.
    fn handle_timeout(&mut self, _now: Time) {}

    /// Collects events of the service's cores, and passes data between the cores.
    fn settle(&mut self, _engine: &mut Engine) {}

    /// The next packet that goes on its way from here.
    fn poll_packet(&mut self, _engine: &mut Engine) -> Option<(PacketId, Way)> {
        None
    }

    /// When to call `handle_timeout` at the latest.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// The traffic class of a packet of the service's own protocol, given the payload behind the IP header.
    fn class_of(&self, _protocol: u8, _payload: &[u8]) -> Option<Class> {
        None
    }

    /// The service's part of [`crate::World::report`].
    fn report(&self) -> Option<ServiceReport> {
        None
    }

    /// Number of held packets invisible to [`crate::World::packets_under_way`].
    fn under_way(&self) -> usize {
        0
    }

    /// Itself, if it follows the node's interfaces and failed transmissions.
    fn as_link_feedback(&mut self) -> Option<&mut dyn LinkFeedback> {
        None
    }

    /// Itself, if it sends frames of its own.
    fn as_frames(&mut self) -> Option<&mut dyn Frames> {
        None
    }

    /// Itself, if it sends datagrams to a far end.
    fn as_datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        None
    }

    /// Itself, if it finds routes; a service does so always or never.
    fn as_route_finder(&mut self) -> Option<&mut dyn RouteFinder> {
        None
    }

    /// Itself, if packets that it holds depend on the node's routes.
    fn as_route_watcher(&mut self) -> Option<&mut dyn RouteWatcher> {
        None
    }
}

/// A service that follows the node's interfaces, and the packets that their media could not deliver.
pub trait LinkFeedback {
    /// Takes what is now known of an interface of the node: when the service starts, and when
    /// something of it changes.
    fn handle_interface(&mut self, _now: Time, _index: usize, _attachment: &Attachment<'_>) {}

    /// Learns that an interface's medium could not bring a packet to a neighbour, whichever service takes the
    /// packet afterwards; not called if one [vouches](Self::vouches) for the neighbour.
    fn handle_break(&mut self, _now: Time, _interface: usize, _to: LinkAddress) {}

    /// Whether a packet of its own that a medium could not bring to a neighbour says little about this one: it
    /// was heard lately, and the service will try again before the neighbour counts as gone.
    fn vouches(&self, _interface: usize, _to: LinkAddress, _packet: &[u8]) -> bool {
        false
    }

    /// Takes back a packet that an interface's medium could not bring to a neighbour. If the service returns
    /// false, the node drops the packet; otherwise the service owns it. Services that [use](Frames::uses) the
    /// interface are asked first, as the packet may be one of their frames.
    fn handle_unsent(
        &mut self,
        _engine: &mut Engine,
        _interface: usize,
        _to: LinkAddress,
        _packet: PacketId,
    ) -> bool {
        false
    }

    /// The next interface and neighbour whose queued packets are to be taken back: they count as unsent.
    fn poll_recall(&mut self) -> Option<(usize, LinkAddress)> {
        None
    }
}

/// A service that sends its own frames over some interfaces, past all hooks.
pub trait Frames {
    /// Whether it sends over this interface.
    fn uses(&self, interface: usize) -> bool;

    /// The next packet for an idle interface that it uses; services that hand packets to their medium
    /// themselves have none.
    fn poll_frame(
        &mut self,
        _engine: &mut Engine,
        _interface: usize,
    ) -> Option<(PacketId, LinkAddress)> {
        None
    }
}

/// A service that sends datagrams to another node.
pub trait Datagrams {
    /// Where they go, by each path.
    fn far_ends(&self) -> FarEnds;

    /// The next one to the far end at `place` of at most `mtu` octets, as late as can be: it is asked for when the
    /// interface towards that far end has room. Services that send through [`Service::poll_packet`] have none.
    fn poll_datagram(
        &mut self,
        _engine: &mut Engine,
        _place: usize,
        _mtu: usize,
    ) -> Option<PacketId> {
        None
    }
}

/// The far ends of a service's paths.
pub type FarEnds = [Option<IpAddr>; ::tunnel::PATHS];

/// A routing protocol; packets without a route may be left to it until there is one.
pub trait RouteFinder {
    /// The next route of the node that changes; asked for before `poll_packet`, until `None`.
    fn poll_route(&mut self) -> Option<RouteChange>;

    /// Learns that a packet is about to leave.
    fn handle_passage(&mut self, now: Time, passage: &Passage<'_>);
}

/// A service that holds packets which may have to take another way when routes change.
pub trait RouteWatcher {
    /// Learns of the next hop of a packet that no service took. Returns whether the service is to be settled.
    fn handle_next_hop(&mut self, _now: Time, _next: NextHop) -> bool {
        false
    }

    /// Whether `handle_routes` is to be called though no route has changed.
    fn needs_routes(&self) -> bool;

    /// Reconsiders held packets: `route` gives the current next hop for a destination, `has_finder` whether the
    /// node runs a [`RouteFinder`].
    fn handle_routes(
        &mut self,
        now: Time,
        route: &dyn Fn(IpAddr) -> Option<NextHop>,
        has_finder: bool,
    );
}

/// State of a node's interface, passed to services.
#[derive(Clone, Copy, Debug)]
pub struct Attachment<'a> {
    /// Its port at the medium.
    pub port: PortId,
    /// Its addresses.
    pub addresses: &'a [IpAddr],
    /// Octets of the longest IP packet.
    pub mtu: usize,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether its medium has others for HBH to speak with.
    pub has_neighbours: bool,
    /// Whether the medium repeats unicast packets until they are acknowledged, or reports a failure.
    pub is_acknowledged: bool,
}

/// Report of one service: its name and state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceReport {
    /// Which service.
    pub service: &'static str,
    /// Counters and levels by name.
    pub state: Value,
}

impl ServiceReport {
    /// Creates the report of the service called `service`.
    ///
    /// # Panics
    /// When the state has keys that are not text.
    pub fn new(service: &'static str, state: impl Serialize) -> Self {
        let state = serde_json::to_value(state).expect("fields have names");
        Self { service, state }
    }
}

/// Where a packet is on its way through a node.
#[derive(Clone, Copy, Debug)]
pub enum Hook<'a> {
    /// It was routed into the service by a prefix, whatever other routes say.
    Diverted,
    /// It is for somebody else, and about to be passed on.
    Forward {
        /// Whether it goes the same way as packets for the service's far end.
        is_towards: bool,
    },
    /// It is for this node.
    Input {
        /// Its addresses, ports and protocol.
        flow: &'a FlowKey,
        /// Its IP header.
        header: &'a Header,
        /// Where its transport header begins.
        offset: usize,
    },
    /// It is about to leave to this neighbour.
    Postrouting {
        /// The neighbour.
        next: NextHop,
    },
    /// It has come in and is not yet routed.
    Prerouting {
        /// The incoming interface.
        interface: usize,
        /// The port of the sending neighbour.
        from: PortId,
        /// Its IP header.
        header: &'a Header,
    },
    /// No route exists for the packet.
    Unrouted {
        /// Its IP header.
        header: &'a Header,
        /// How it came to be sent.
        origin: Origin,
    },
}

impl<'a> Hook<'a> {
    /// The UDP datagram for this node in a packet with these octets.
    #[must_use]
    pub fn datagram(&self, octets: &'a [u8]) -> Option<Datagram<'a>> {
        let Hook::Input { header, offset, .. } = self else { return None };
        Datagram::parse(header, octets, *offset).ok()
    }
}

/// How a packet came to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A neighbour sent the packet, under HBH or not: its port, if known.
    Link(Option<PortId>),
    /// This node made it.
    Local,
}

/// A packet that is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Its IP header.
    pub header: &'a Header,
    /// How it came to be sent.
    pub origin: Origin,
    /// Where it goes.
    pub next: NextHop,
}

/// A route that a service gives or takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RouteChange {
    /// Which destinations.
    pub prefix: Prefix,
    /// The route from now on; `None` if there is none any more.
    pub route: Option<Route>,
}

/// Outcome of handing a packet to a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The node counts the packet as malformed and drops it.
    Malformed,
    /// The node drops it and tells its sender why.
    Refused(Error),
    /// The service has it.
    Taken,
}

/// Where a packet from a service enters the IP stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The packet enters the node by this interface.
    In(usize),
    /// The packet originates at this node.
    Out,
    /// No route was found: the node drops the packet and tells its sender.
    Refused,
    /// It was carried here, by the neighbour with this port if that is known: it is for this node, or
    /// passed on.
    Released(Option<PortId>),
    /// It was passed on already and takes another way now.
    Rerouted(Origin),
    /// It is a message of a protocol between neighbours, and goes out by this interface past all hooks.
    Sent {
        /// The index of the interface.
        interface: usize,
        /// Whom it is for.
        to: LinkAddress,
    },
}
