//! Asks the kernel's routing where a packet would go.

use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};

use base::ip::{FlowKey, Prefix, protocol};
use nix::libc;

use crate::entry::{FIXED, Found, Owner, Table, everything, family, or_no_table};
use crate::links;
use crate::netlink::{self, Kernel, Message, Request};

/// Asks for the route as configured, without values learnt since (`linux/rtnetlink.h`).
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTA_VIA: u16 = 18;
const RTA_UID: u16 = 25;
const RTA_NH_ID: u16 = 30;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;

/// Where a packet goes from here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// To this node itself.
    Here,
    /// To a neighbour.
    Neighbour {
        /// The number of the interface towards the destination.
        interface: u32,
        /// Address of the neighbour, or of the destination itself on a shared network.
        address: IpAddr,
    },
    /// Nowhere: there is no route, or the route refuses packets.
    Nowhere,
}

impl NextHop {
    /// The number of the interface towards a neighbour.
    #[must_use]
    pub fn interface(&self) -> Option<u32> {
        match self {
            Self::Neighbour { interface, .. } => Some(*interface),
            Self::Here | Self::Nowhere => None,
        }
    }
}

/// The properties of packets by which rules choose a route, besides the destination.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Packets {
    /// The number of the incoming interface; `None` for this node's own packets.
    pub came_by: Option<u32>,
    /// The source address.
    pub source: Option<IpAddr>,
    /// The octet of the type of service (IPv4), or of the traffic class (IPv6).
    pub tos: u8,
    /// The protocol number: the kernel answers for TCP, UDP and its version's ICMP.
    pub protocol: Option<u8>,
    /// The source port.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
    /// The number of the sending program's user.
    pub user: Option<u32>,
    /// The firewall mark.
    pub mark: u32,
}

impl Packets {
    /// The packets of a flow, which came by the interface numbered `came_by` or is this node's.
    #[must_use]
    pub fn of(flow: &FlowKey, came_by: Option<u32>) -> Self {
        let has_ports = matches!(flow.protocol, protocol::TCP | protocol::UDP);
        let of_version = if flow.destination.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let is_asked = has_ports || flow.protocol == of_version;
        Self {
            came_by,
            source: Some(flow.source),
            protocol: is_asked.then_some(flow.protocol),
            source_port: has_ports.then_some(flow.source_port),
            destination_port: has_ports.then_some(flow.destination_port),
            ..Self::default()
        }
    }

    /// The question for their route, with flags, `RTM_F_…`.
    fn request(&self, destination: IpAddr, flags: u32) -> Request {
        let bits = if destination.is_ipv4() { 32 } else { 128 };
        let mut fixed = [0; FIXED];
        fixed[0] = netlink::family(destination);
        fixed[1] = bits;
        fixed[2] = self.source.map_or(0, |_| bits);
        fixed[3] = self.tos;
        fixed[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut request = Request::get(libc::RTM_GETROUTE, &fixed)
            .with_address(libc::RTA_DST, destination)
            .with(libc::RTA_MARK, &self.mark.to_ne_bytes());
        if let Some(source) = self.source {
            request = request.with_address(libc::RTA_SRC, source);
        }
        let ports = [(RTA_SPORT, self.source_port), (RTA_DPORT, self.destination_port)];
        let ports = ports.map(|(kind, port)| (kind, port.map(|it| it.to_be_bytes().to_vec())));
        let number = |it: u32| it.to_ne_bytes().to_vec();
        let others = [
            (libc::RTA_IIF, self.came_by.map(number)),
            (RTA_IP_PROTO, self.protocol.map(|it| vec![it])),
            (RTA_UID, self.user.map(number)),
        ];
        for (kind, value) in ports.into_iter().chain(others) {
            if let Some(value) = value {
                request = request.with(kind, &value);
            }
        }
        request
    }
}

/// In the words of `ip route get`.
impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(came_by) = self.came_by {
            write!(f, " iif {}", links::name(came_by))?;
        }
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        let numbers = [
            ("ipproto", self.protocol.map(u32::from)),
            ("sport", self.source_port.map(u32::from)),
            ("dport", self.destination_port.map(u32::from)),
            ("uid", self.user),
        ];
        for (word, number) in numbers {
            if let Some(number) = number {
                write!(f, " {word} {number}")?;
            }
        }
        if self.mark == 0 { Ok(()) } else { write!(f, " mark {:#x}", self.mark) }
    }
}

/// Asks the kernel for routes.
#[derive(Debug)]
pub struct Routes {
    netlink: Kernel,
    /// Questions asked.
    pub asked: u64,
}

impl Routes {
    /// Opens a socket.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Kernel::open()?, asked: 0 })
    }

    /// The next hop of packets; nowhere if the kernel refuses them, as a rule, a filter or forwarding switched off says.
    pub fn next_hop(&mut self, destination: IpAddr, packets: &Packets) -> NextHop {
        let answer = match (self.ask(destination, packets), packets.came_by) {
            // The source is not this node's own; kernels answer with either error.
            (Err(error), None)
                if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENETUNREACH)) =>
            {
                self.ask(destination, &Packets { source: None, ..*packets })
            }
            (answer, _) => answer,
        };
        answer.unwrap_or(NextHop::Nowhere)
    }

    /// The next hop of this node's own packets to an address.
    pub fn towards(&mut self, destination: IpAddr) -> NextHop {
        self.next_hop(destination, &Packets::default())
    }

    /// The next hop of packets to an address, and the length of the prefix whose route decides: 0 where there is no
    /// route, or a rule or route refuses.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn decided(&mut self, destination: IpAddr, packets: &Packets) -> io::Result<(NextHop, u8)> {
        let request = packets.request(destination, RTM_F_FIB_MATCH);
        let (mut next_hop, mut bits) = (NextHop::Nowhere, 0);
        let mut is_untold = false;
        self.asked += 1;
        let answer = self.netlink.ask(&request, |message| {
            next_hop = parse(message, destination);
            bits = message.fixed::<FIXED>().map_or(0, |fixed| fixed[1]);
            // With `nexthop_compat_mode` 0 the kernel does not say what a next hop object stands for.
            is_untold =
                next_hop == NextHop::Nowhere && message.attribute(FIXED, RTA_NH_ID).is_some();
        });
        match answer.as_ref().map_err(io::Error::raw_os_error) {
            // No route, `unreachable`, `prohibit` and `blackhole`.
            Err(Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL)) => {}
            _ => answer?,
        }
        if is_untold {
            next_hop = self.next_hop(destination, packets);
        }
        Ok((next_hop, bits))
    }

    /// Whether a default route leads to an interface, or one to half of everything.
    pub fn has_default(&mut self, interface: u32, is_v4: bool) -> bool {
        probes(everything(!is_v4)).into_iter().any(|to| {
            let request = Packets::default().request(to, RTM_F_FIB_MATCH);
            let request = request.with(libc::RTA_OIF, &interface.to_ne_bytes());
            let mut bits = None;
            self.asked += 1;
            let answer = self.netlink.ask(&request, |message| {
                bits = message.fixed::<FIXED>().map(|fixed| fixed[1]);
            });
            answer.is_ok() && bits.is_some_and(|bits| bits <= 1)
        })
    }

    /// Whether a route by an interface leads this node's own packets with a firewall mark to an address.
    pub fn leads_by(&mut self, interface: u32, destination: IpAddr, mark: u32) -> bool {
        let packets = Packets { mark, ..Packets::default() };
        // As configured: without a route, the kernel sends by an interface that is asked for all the same.
        let request = packets.request(destination, RTM_F_FIB_MATCH);
        let request = request.with(libc::RTA_OIF, &interface.to_ne_bytes());
        let mut next_hop = NextHop::Nowhere;
        self.asked += 1;
        let answer = self.netlink.ask(&request, |message| next_hop = parse(message, destination));
        answer.is_ok() && next_hop != NextHop::Nowhere
    }

    /// The next hop of this node's own packets to an address with a firewall mark.
    pub fn marked(&mut self, destination: IpAddr, mark: u32) -> NextHop {
        self.next_hop(destination, &Packets { mark, ..Packets::default() })
    }

    /// The address from which this node's own packets with a firewall mark go to another one, unless their program has
    /// chosen.
    pub fn source(&mut self, destination: IpAddr, mark: u32) -> Option<IpAddr> {
        let request = Packets { mark, ..Packets::default() }.request(destination, 0);
        let mut source = None;
        self.asked += 1;
        let answer = self.netlink.ask(&request, |message| {
            source = message.attribute(FIXED, libc::RTA_PREFSRC).and_then(netlink::address);
        });
        answer.ok().and(source)
    }

    /// Octets of the longest packet for the first link towards an address, for packets with a firewall mark: the MTU
    /// of the interface, or a smaller one of the route; with `by`, of a route by the interface of this number. Reports of
    /// routers about the path do not count, because anybody can forge them.
    ///
    /// # Errors
    /// When there is no route, or the kernel does not answer.
    pub fn first_link_mtu(
        &mut self,
        to: SocketAddr,
        by: Option<u32>,
        mark: u32,
    ) -> io::Result<usize> {
        let ip = to.ip().to_canonical();
        let zone = match to {
            SocketAddr::V6(to) => Some(to.scope_id()).filter(|zone| *zone != 0),
            SocketAddr::V4(_) => None,
        };
        let question = |flags: u32| {
            let request = Packets { mark, ..Packets::default() }.request(ip, flags);
            match zone.or(by) {
                Some(interface) => request.with(libc::RTA_OIF, &interface.to_ne_bytes()),
                None => request,
            }
        };
        let mut interface = None;
        self.asked += 2;
        self.netlink.ask(&question(0), |message| {
            interface = message.attribute(FIXED, libc::RTA_OIF).and_then(netlink::number);
        })?;
        let interface = interface.ok_or_else(|| io::Error::other("a route to no interface"))?;
        let of_link = links::mtu(&mut self.netlink, interface)?;
        let mut of_route = None;
        // Routes to this host itself, and older kernels, have no such answer.
        let _ = self.netlink.ask(&question(RTM_F_FIB_MATCH), |message| {
            of_route = Found::parse(message).and_then(|it| it.mtu).filter(|mtu| *mtu > 0);
        });
        let of_route = of_route.and_then(|mtu| usize::try_from(mtu).ok());
        Ok(of_route.map_or(of_link, |mtu| of_link.min(mtu)))
    }

    fn ask(&mut self, destination: IpAddr, packets: &Packets) -> io::Result<NextHop> {
        self.asked += 1;
        let mut next_hop = NextHop::Nowhere;
        let request = packets.request(destination, 0);
        self.netlink.ask(&request, |message| next_hop = parse(message, destination))?;
        Ok(next_hop)
    }
}

/// The networks of other programs' routes in the main table that refuse packets: `blackhole`, `unreachable` and
/// `prohibit`.
///
/// # Errors
/// When the kernel does not tell.
pub fn refusing(netlink: &mut Kernel, is_v6: bool) -> io::Result<Vec<Prefix>> {
    let mut found = Vec::new();
    for kind in [libc::RTN_BLACKHOLE, libc::RTN_UNREACHABLE, libc::RTN_PROHIBIT] {
        let mut fixed = [0; FIXED];
        (fixed[0], fixed[4], fixed[7]) = (family(is_v6), libc::RT_TABLE_MAIN, kind);
        let request = Request::dump(libc::RTM_GETROUTE, &fixed);
        found.extend(or_no_table(netlink.dump(&request, |message, found| {
            let Some(route) = Found::parse(message) else { return };
            // Older kernels answer with all routes.
            let is_asked = route.kind == kind && route.table == Table::Main;
            found.extend((is_asked && Owner::of(route.protocol).is_none()).then_some(route.to));
        }))?);
    }
    Ok(found)
}

/// Addresses to try the routes of a network with: its first, or several for documentation, because the kernel takes
/// 0.0.0.0 for this host, and one address for documentation may be on a link of this host.
#[must_use]
pub fn probes(network: Prefix) -> Vec<IpAddr> {
    match network.network().address() {
        IpAddr::V4(first) if first.is_unspecified() => {
            [[192, 0, 2, 1], [198, 51, 100, 1], [203, 0, 113, 1]].map(IpAddr::from).to_vec()
        }
        IpAddr::V6(first) if first.is_unspecified() => {
            [[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], [0x3fff, 0, 0, 0, 0, 0, 0, 1]]
                .map(IpAddr::from)
                .to_vec()
        }
        first => vec![first],
    }
}

fn parse(message: Message<'_>, destination: IpAddr) -> NextHop {
    let Some(fixed) = message.fixed::<FIXED>() else { return NextHop::Nowhere };
    if message.kind != libc::RTM_NEWROUTE {
        return NextHop::Nowhere;
    }
    match fixed[7] {
        libc::RTN_UNICAST => {}
        libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST => {
            return NextHop::Here;
        }
        _ => return NextHop::Nowhere,
    }
    let interface = message.attribute(FIXED, libc::RTA_OIF).and_then(netlink::number);
    let router = message.attribute(FIXED, libc::RTA_GATEWAY).and_then(netlink::address);
    // An IPv4 route by an IPv6 neighbour: a family, then the address.
    let other = || netlink::address(message.attribute(FIXED, RTA_VIA)?.get(2..)?);
    let address = router.or_else(other).unwrap_or(destination);
    interface.map_or(NextHop::Nowhere, |interface| NextHop::Neighbour { interface, address })
}
