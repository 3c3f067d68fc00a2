//! The kernel's routing table, asked for each destination and remembered until it changes.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use nix::libc;

use crate::netlink::{self, Message, Netlink, Request};

const FIXED: usize = 12;

/// Where a packet goes from here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// To this node, to nowhere, or in any other way that is the kernel's business.
    Kernel,
    /// To a neighbour.
    Neighbour {
        /// The number of the interface that leads there.
        interface: u32,
        /// Its address, or the destination's on a network that both are in.
        address: IpAddr,
    },
}

/// What the kernel answered, for a bounded number of destinations.
#[derive(Debug)]
pub struct Routes {
    netlink: Netlink,
    known: HashMap<IpAddr, NextHop>,
    limit: usize,
    /// Questions asked.
    pub asked: u64,
    /// Times that all answers were forgotten because there were too many.
    pub overflows: u64,
}

impl Routes {
    /// An empty memory of at most `limit` destinations.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open(limit: usize) -> io::Result<Self> {
        let netlink = Netlink::open()?;
        Ok(Self { netlink, known: HashMap::new(), limit, asked: 0, overflows: 0 })
    }

    /// Forgets all answers, because something changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The next hop towards `destination`.
    pub fn next_hop(&mut self, destination: IpAddr) -> NextHop {
        if let Some(&known) = self.known.get(&destination) {
            return known;
        }
        if self.known.len() >= self.limit {
            self.known.clear();
            self.overflows += 1;
        }
        self.asked += 1;
        let next_hop = self.ask(destination).unwrap_or(NextHop::Kernel);
        self.known.insert(destination, next_hop);
        next_hop
    }

    fn ask(&mut self, destination: IpAddr) -> io::Result<NextHop> {
        let mut fixed = [0; FIXED];
        fixed[0] = netlink::family(destination);
        fixed[1] = if destination.is_ipv4() { 32 } else { 128 };
        let request =
            Request::get(libc::RTM_GETROUTE, &fixed).with_address(libc::RTA_DST, destination);
        let mut next_hop = NextHop::Kernel;
        self.netlink.ask(&request, |message| next_hop = parse(message, destination))?;
        Ok(next_hop)
    }
}

fn parse(message: Message<'_>, destination: IpAddr) -> NextHop {
    let Some(fixed) = message.fixed::<FIXED>() else { return NextHop::Kernel };
    if message.kind != libc::RTM_NEWROUTE || fixed[7] != libc::RTN_UNICAST {
        return NextHop::Kernel;
    }
    let (mut interface, mut address) = (None, destination);
    for (kind, value) in message.attributes(FIXED) {
        match kind {
            libc::RTA_OIF => interface = netlink::number(value),
            libc::RTA_GATEWAY => address = netlink::address(value).unwrap_or(address),
            // An IPv4 route by an IPv6 neighbour: a family, then the address.
            libc::RTA_VIA => {
                address = value.get(2..).and_then(netlink::address).unwrap_or(address);
            }
            _ => {}
        }
    }
    interface.map_or(NextHop::Kernel, |interface| NextHop::Neighbour { interface, address })
}
