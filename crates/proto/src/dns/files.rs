//! The files that say whom to ask, and what need not be asked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use super::{MAX_ADDRESSES, Name};

/// Where name servers are asked.
const PORT: u16 = 53;
/// Name servers that are asked, as by every resolver.
const MAX_SERVERS: usize = 3;

/// The name servers that `/etc/resolv.conf` has, or this host if it has none. `scope` is the number of an interface by
/// its name.
#[must_use]
pub fn servers(resolv_conf: &str, scope: impl Fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|key| *key == "nameserver").and(words.next())?;
        match address.split_once('%') {
            None => Some(SocketAddr::new(address.parse().ok()?, PORT)),
            Some((address, interface)) => {
                let number = interface.parse().ok().or_else(|| scope(interface))?;
                Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, number).into())
            }
        }
    };
    let mut servers: Vec<_> = resolv_conf.lines().filter_map(server).take(MAX_SERVERS).collect();
    if servers.is_empty() {
        servers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    }
    servers
}

/// The addresses that `/etc/hosts` has for a name.
#[must_use]
pub fn addresses(hosts: &str, name: &Name) -> Vec<IpAddr> {
    let of_line = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        let is_it = |word: &str| word.trim_end_matches('.').eq_ignore_ascii_case(name.as_str());
        words.any(is_it).then_some(address)
    };
    hosts.lines().filter_map(of_line).take(MAX_ADDRESSES).collect()
}
