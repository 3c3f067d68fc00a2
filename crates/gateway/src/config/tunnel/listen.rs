//! Reads the addresses at which peers' datagrams arrive: one or several.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ::tunnel::secure::PORT;
use base::parameter::Written;
use settings::{Complaint, Entry, each};

use crate::config::{s5066, some};

/// Addresses at most.
pub const MAX_LISTEN: usize = 16;
/// Whether IPv4 and IPv6 are served.
type Versions = [bool; 2];

/// Reads an address, or a list of some that do not take each other's datagrams.
pub fn read(entry: &Entry<'_>) -> Result<Vec<SocketAddr>, Complaint> {
    if !matches!(entry.written(), Written::List(_)) {
        return Ok(vec![one(entry)?]);
    }
    let entries = some(entry, MAX_LISTEN)?;
    let mut all: Vec<SocketAddr> = Vec::with_capacity(entries.len());
    each(&entries, |entry| {
        let at = one(entry)?;
        if let Some(other) = all.iter().find(|other| holds(**other, at) || holds(at, **other)) {
            let what = match *other == at {
                true => format!("{at} is there twice"),
                false => format!(
                    "{at} and {other} are one: leave out that with the address of its own, or give it another port"
                ),
            };
            return Err(entry.complain(what));
        }
        all.push(at);
        Ok(())
    })?;
    Ok(all)
}

fn one(entry: &Entry<'_>) -> Result<SocketAddr, Complaint> {
    let is_link_local =
        |at: &SocketAddr| matches!(at, SocketAddr::V6(at) if at.ip().is_unicast_link_local());
    let text = entry.text()?;
    if text.contains('%') || text.parse().is_ok_and(|at| is_link_local(&at)) {
        return Err(entry.complain(format!(
            "{text:?} is not allowed: [::]:{PORT} takes what comes to link-local addresses too, by any interface"
        )));
    }
    let at = s5066::listen(entry)?;
    let canonical = at.ip().to_canonical();
    if canonical != at.ip() {
        let meant = SocketAddr::new(canonical, at.port());
        return Err(entry.complain(format!("{at} is an IPv4 address: {meant} is meant")));
    }
    if at.ip().is_multicast() {
        return Err(entry.complain(format!("{at} is no host's address, but a group's")));
    }
    Ok(at)
}

/// Whether a socket at `one` takes all that is for `other`.
fn holds(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (one == other || one.ip().is_unspecified())
}

/// The versions of IP served by a socket at one of the addresses: `[::]` serves IPv4, too, unless another socket has
/// the same port for IPv4.
pub(crate) fn versions(at: SocketAddr, all: &[SocketAddr]) -> Versions {
    let is_any = at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let has_other = all.iter().any(|other| other.is_ipv4() && other.port() == at.port());
    [at.is_ipv4() || is_any && !has_other, at.is_ipv6()]
}

/// The versions of IP served by all sockets together.
pub fn all_versions(all: &[SocketAddr]) -> Versions {
    let has = |version: usize| all.iter().any(|at| versions(*at, all)[version]);
    [has(0), has(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(listen: &str, endpoint: &str) -> Result<Vec<SocketAddr>, String> {
        let text = format!(
            "[tunnel]\nlisten = {listen}\nprivate-key = \"a.key\"\naddresses = [\"10.99.0.1/24\"]\n[[tunnel.peer]]\n\
             name = \"far\"\npublic-key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             routes = [\"10.2.0.0/16\"]\nendpoint = \"{endpoint}\"\n"
        );
        let config = Config::parse("a.toml", &text).map_err(|why| why.to_string())?;
        Ok(config.tunnel.unwrap().listen)
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn one_address_is_a_list_of_one() {
        assert_eq!(parse("\"0.0.0.0:7\"", "192.0.2.2:7"), Ok(addresses(&["0.0.0.0:7"])));
        assert_eq!(
            parse("[\"0.0.0.0:7\", \"[::]:7\", \"10.0.0.1:8\"]", "[fd00::2]:7"),
            Ok(addresses(&["0.0.0.0:7", "[::]:7", "10.0.0.1:8"]))
        );
    }

    #[test]
    fn all_of_ipv6_is_all_of_ipv4_too_unless_another_has_that() {
        let served = |all: &[&str]| {
            let all = addresses(all);
            all.iter().map(|at| versions(*at, &all)).collect::<Vec<_>>()
        };

        assert_eq!(served(&["[::]:7"]), [[true, true]]);
        assert_eq!(served(&["[::]:7", "10.0.0.1:7"]), [[false, true], [true, false]]);
        assert_eq!(served(&["[::]:7", "10.0.0.1:8"]), [[true, true], [true, false]]);
        assert_eq!(served(&["[fd00::1]:7"]), [[false, true]]);
    }

    #[test]
    fn addresses_that_take_each_others_datagrams_are_refused() {
        for (listen, expected) in [
            ("[]", "0 of them: 1 to 16 are allowed"),
            ("[\"0.0.0.0:7\", \"0.0.0.0:7\"]", "0.0.0.0:7 is there twice"),
            ("[\"0.0.0.0:7\", \"10.0.0.1:7\"]", "10.0.0.1:7 and 0.0.0.0:7 are one: "),
            ("[\"[fd00::1]:7\", \"[::]:7\"]", "[::]:7 and [fd00::1]:7 are one: "),
            ("[\"0.0.0.0:0\"]", "the port 0 is not allowed"),
            (
                "\"[::ffff:10.0.0.1]:7\"",
                "[::ffff:10.0.0.1]:7 is an IPv4 address: 10.0.0.1:7 is meant",
            ),
            ("\"224.0.0.1:7\"", "224.0.0.1:7 is no host's address"),
            ("\"[fe80::1%eth0]:7\"", "\"[fe80::1%eth0]:7\" is not allowed: [::]:51900 takes what"),
            ("\"[fe80::1]:7\"", "\"[fe80::1]:7\" is not allowed: [::]:51900 takes what"),
        ] {
            let said = parse(listen, "192.0.2.2:7").unwrap_err();
            assert!(said.starts_with(&format!("a.toml:2: tunnel.listen: {expected}")), "{said}");
        }
    }

    #[test]
    fn an_endpoint_needs_an_address_of_its_version() {
        for (listen, endpoint, expected) in [
            (
                "[\"10.0.0.1:7\"]",
                "[fd00::2]:7",
                "[fd00::2]:7 is IPv6, and no address of `listen` is: ",
            ),
            (
                "[\"[fd00::1]:7\"]",
                "192.0.2.2:7",
                "192.0.2.2:7 is IPv4, and no address of `listen` is: ",
            ),
        ] {
            let said = parse(listen, endpoint).unwrap_err();
            assert!(said.contains(&format!("tunnel.peer.endpoint: {expected}")), "{said}");
        }
    }
}
