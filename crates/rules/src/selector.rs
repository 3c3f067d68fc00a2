//! The selector of a rule, and the fields of a flow compared with the selector.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use base::ip::{Header, Prefix, protocol};

use super::ports::Ports;

/// One direction of a conversation: the fields that rules look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same IP version as `source`.
    pub destination: IpAddr,
    /// The transport protocol, behind any IPv6 extension headers.
    pub protocol: u8,
    /// The source and the destination port, where they can be seen: TCP and UDP, whole packets and
    /// first fragments.
    pub ports: Option<(u16, u16)>,
    /// The code point of the IP header, 0 to 63.
    pub dscp: u8,
    /// The interface by which the flow enters, if known.
    pub interface: Option<&'a str>,
}

impl<'a> Flow<'a> {
    /// The flow that a packet belongs to.
    pub(crate) fn of(header: &Header, packet: &[u8], interface: Option<&'a str>) -> Self {
        Self {
            source: header.source,
            destination: header.destination,
            protocol: header.transport.protocol,
            ports: header.ports(packet),
            dscp: header.traffic_class >> 2,
            interface,
        }
    }
}

/// Selects the flows of a rule: a flow has to fit every field. An empty field fits all flows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selector {
    /// The transport protocol.
    pub protocol: Option<Protocol>,
    /// Interfaces by which a flow may enter.
    pub interfaces: Vec<String>,
    /// Networks allowed as the flow's source.
    pub sources: Vec<Prefix>,
    /// Networks allowed as the flow's destination.
    pub destinations: Vec<Prefix>,
    /// Allowed source ports; a packet without ports does not fit.
    pub source_ports: Ports,
    /// Allowed destination ports; a packet without ports does not fit.
    pub destination_ports: Ports,
    /// Allowed code points.
    pub dscps: Vec<u8>,
}

/// A transport protocol, or ICMP of both versions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// ICMP over IPv4 and ICMPv6 over IPv6.
    Icmp,
    /// The protocol of this number.
    Number(u8),
}

/// A field of a [`Selector`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// The transport protocol.
    Protocol,
    /// The interface.
    Interface,
    /// The source address.
    From,
    /// The destination address.
    To,
    /// The source port.
    FromPort,
    /// The destination port.
    ToPort,
    /// The code point.
    Dscp,
}

/// Whether a packet fits for sure, when some fields of the packet are unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Certainty {
    Sure,
    Perhaps,
}

/// Why a text is no protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("\"tcp\", \"udp\", \"icmp\", or a number, 0 to 255")]
pub struct NoProtocol;

/// Why no flow can fit a selector.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Impossible {
    /// The selector asks for ports and for a protocol without ports.
    #[error("only tcp and udp have ports")]
    NoPorts,
    /// IPv4 on one side, IPv6 on the other.
    #[error("no packet has IPv4 on one side and IPv6 on the other")]
    Versions,
}

impl Selector {
    /// The first field that a flow does not fit; `None` when it fits all.
    #[must_use]
    pub fn misfit(&self, flow: &Flow<'_>) -> Option<Field> {
        Field::ALL.into_iter().find(|field| !self.fits(*field, flow))
    }

    fn fits(&self, field: Field, flow: &Flow<'_>) -> bool {
        let (source_port, destination_port) = flow.ports.unzip();
        let has = |name: &String| flow.interface == Some(name);
        match field {
            Field::Protocol => self.protocol.is_none_or(|own| own.fits(flow.protocol)),
            Field::Interface => self.interfaces.is_empty() || self.interfaces.iter().any(has),
            Field::From => holds(&self.sources, flow.source),
            Field::To => holds(&self.destinations, flow.destination),
            Field::FromPort => self.source_ports.fit(source_port),
            Field::ToPort => self.destination_ports.fit(destination_port),
            Field::Dscp => self.dscps.is_empty() || self.dscps.contains(&flow.dscp),
        }
    }

    /// Whether the packet of a later fragment, with unknown ports, fits: surely, perhaps, or not. For IPv6 the protocol
    /// is unknown too: the next header field of later fragments does not count (RFC 8200, 4.5).
    pub(crate) fn fits_unseen(&self, fragment: &Flow<'_>) -> Option<Certainty> {
        let mut certainty = Certainty::Sure;
        for field in Field::ALL {
            let (is_asked, is_known) = match field {
                Field::FromPort => (!self.source_ports.is_any(), false),
                Field::ToPort => (!self.destination_ports.is_any(), false),
                Field::Protocol => (self.protocol.is_some(), fragment.source.is_ipv4()),
                Field::Interface | Field::From | Field::To | Field::Dscp => (true, true),
            };
            if is_asked && !is_known {
                certainty = Certainty::Perhaps;
            } else if !self.fits(field, fragment) {
                return None;
            }
        }
        Some(certainty)
    }

    /// Whether every flow that fits `other` fits `self`: a later rule with `other` then never decides.
    ///
    /// The check does not notice if several networks together cover a larger one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let protocols = match (self.protocol, other.protocol) {
            (None, _) => true,
            (Some(Protocol::Icmp), Some(Protocol::Number(number))) => Protocol::Icmp.fits(number),
            (own, other) => own == other,
        };
        protocols
            && all_in(&self.interfaces, &other.interfaces)
            && all_within(&self.sources, &other.sources)
            && all_within(&self.destinations, &other.destinations)
            && self.source_ports.cover(&other.source_ports)
            && self.destination_ports.cover(&other.destination_ports)
            && all_in(&self.dscps, &other.dscps)
    }

    /// Whether any flow can fit.
    ///
    /// # Errors
    /// When no flow can fit, with the reason.
    pub fn check(&self) -> Result<(), Impossible> {
        let has_ports = !self.source_ports.is_any() || !self.destination_ports.is_any();
        let may_have_ports =
            [None, Some(Protocol::TCP), Some(Protocol::UDP)].contains(&self.protocol);
        if has_ports && !may_have_ports {
            return Err(Impossible::NoPorts);
        }
        let has = |networks: &[Prefix], is_v4: bool| {
            networks.is_empty()
                || networks.iter().any(|network| network.address().is_ipv4() == is_v4)
        };
        let meet = |is_v4| has(&self.sources, is_v4) && has(&self.destinations, is_v4);
        if meet(true) || meet(false) { Ok(()) } else { Err(Impossible::Versions) }
    }
}

fn holds(networks: &[Prefix], address: IpAddr) -> bool {
    networks.is_empty() || networks.iter().any(|network| network.contains(address))
}

fn all_in<T: PartialEq>(own: &[T], others: &[T]) -> bool {
    own.is_empty() || (!others.is_empty() && others.iter().all(|other| own.contains(other)))
}

fn all_within(own: &[Prefix], others: &[Prefix]) -> bool {
    let is_within = |other: &Prefix| {
        own.iter().any(|own| own.bits() <= other.bits() && own.contains(other.address()))
    };
    own.is_empty() || (!others.is_empty() && others.iter().all(is_within))
}

impl Protocol {
    /// TCP.
    pub const TCP: Self = Self::Number(protocol::TCP);
    /// UDP.
    pub const UDP: Self = Self::Number(protocol::UDP);
    const NAMES: [(&str, Self); 3] = [("tcp", Self::TCP), ("udp", Self::UDP), ("icmp", Self::Icmp)];

    /// Whether a packet with this protocol number fits.
    #[must_use]
    pub fn fits(self, number: u8) -> bool {
        match self {
            Self::Icmp => matches!(number, protocol::ICMP | protocol::ICMPV6),
            Self::Number(own) => own == number,
        }
    }

    /// The protocol number in packets of IPv4 or IPv6.
    #[must_use]
    pub fn number(self, is_v4: bool) -> u8 {
        match self {
            Self::Icmp if is_v4 => protocol::ICMP,
            Self::Icmp => protocol::ICMPV6,
            Self::Number(number) => number,
        }
    }
}

impl FromStr for Protocol {
    type Err = NoProtocol;

    fn from_str(text: &str) -> Result<Self, NoProtocol> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, it)| *it);
        let number = || text.parse().map(Self::Number).map_err(|_| NoProtocol);
        named.map_or_else(number, Ok)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Self::NAMES.iter().find(|(_, own)| own == self), self) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Self::Number(number)) => write!(f, "protocol {number}"),
            (None, Self::Icmp) => f.write_str("icmp"),
        }
    }
}

impl Field {
    /// All fields in the order of comparison: the cheapest first.
    const ALL: [Self; 7] = [
        Self::Protocol,
        Self::ToPort,
        Self::FromPort,
        Self::Dscp,
        Self::Interface,
        Self::From,
        Self::To,
    ];

    /// The field's key in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Interface => "interface",
            Self::From => "from",
            Self::To => "to",
            Self::FromPort => "from-port",
            Self::ToPort => "to-port",
            Self::Dscp => "dscp",
        }
    }
}
