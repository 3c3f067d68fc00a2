//! Reads the system's files of name servers and of known hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use super::{MAX_ADDRESSES, Name};

/// Where name servers are asked.
const PORT: u16 = 53;
/// Most name servers asked, as in every resolver.
const MAX_SERVERS: usize = 3;
/// Where systemd-resolved listens on each host that runs it (systemd-resolved.service(8)): it asks others in turn.
const STUBS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 53), Ipv4Addr::new(127, 0, 0, 54)];

/// The name servers in `/etc/resolv.conf`, or this host if the file has none. `scope` is the number of an interface by
/// its name.
#[must_use]
pub fn servers(resolv_conf: &str, scope: impl Fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
    let mut servers = name_servers(resolv_conf, scope);
    if servers.is_empty() {
        servers.push(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    }
    servers
}

/// Whether any server only forwards questions, like the stub of systemd-resolved.
#[must_use]
pub fn has_stub(servers: &[SocketAddr]) -> bool {
    servers.iter().any(is_stub)
}

/// The given servers, with the servers asked by a stub inserted before it. `behind` is the file of the same form with
/// their addresses, `/run/systemd/resolve/resolv.conf`. By asking the returned servers directly, a program chooses
/// the route of its questions.
#[must_use]
pub fn behind_stub(
    servers: &[SocketAddr],
    behind: &str,
    scope: impl Fn(&str) -> Option<u32>,
) -> Vec<SocketAddr> {
    let behind: Vec<_> =
        name_servers(behind, scope).into_iter().filter(|it| !is_stub(it)).collect();
    let mut all: Vec<SocketAddr> = Vec::new();
    for server in servers {
        let asked = if is_stub(server) { &behind[..] } else { &[] };
        for server in asked.iter().chain([server]) {
            if !all.contains(server) {
                all.push(*server);
            }
        }
    }
    all
}

fn is_stub(server: &SocketAddr) -> bool {
    STUBS.iter().any(|stub| IpAddr::from(*stub) == server.ip())
}

fn name_servers(resolv_conf: &str, scope: impl Fn(&str) -> Option<u32>) -> Vec<SocketAddr> {
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
    resolv_conf.lines().filter_map(server).take(MAX_SERVERS).collect()
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
