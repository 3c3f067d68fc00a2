//! The endpoint of a peer: an address, or a name with its current addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use ::tunnel::secure::PORT;
use base::dns::Name;
use nix::net::if_::if_nametoindex;
use settings::{Complaint, Entry};

use super::listen::all_versions;

/// The endpoint of a peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// This address.
    Address(SocketAddr),
    /// The current addresses of a host, with this port.
    Name(Name, u16),
    /// A link-local address, the interface's name as zone (RFC 4007, 11), and the port.
    Zoned(Ipv6Addr, String, u16),
}

/// This host lacks the interface of an endpoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no interface {zone}, by which the peer at {endpoint} is called")]
pub struct NoZone {
    zone: String,
    endpoint: String,
}

impl Endpoint {
    /// The address, if the endpoint is an address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(..) => None,
            Self::Zoned(..) => self.located().ok().flatten(),
        }
    }

    /// The IP address, if it is one and no name.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip().to_canonical()),
            Self::Name(..) => None,
            Self::Zoned(ip, ..) => Some((*ip).into()),
        }
    }

    /// The address, if the endpoint is an address, with the current number of its interface.
    ///
    /// # Errors
    /// When the interface does not exist.
    pub(crate) fn located(&self) -> Result<Option<SocketAddr>, NoZone> {
        let Self::Zoned(ip, zone, port) = self else { return Ok(self.address()) };
        // A name counts for more than a number (RFC 4007, 11.2).
        let index = if_nametoindex(&zone[..]).ok().or_else(|| zone.parse().ok());
        let located = index.map(|index| SocketAddrV6::new(*ip, *port, 0, index).into());
        located.map(Some).ok_or_else(|| NoZone { zone: zone.clone(), endpoint: self.to_string() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Zoned(ip, zone, port) => write!(f, "[{ip}%{zone}]:{port}"),
        }
    }
}

/// Reads where a peer is called from here.
pub fn read(entry: &Entry<'_>, listen: Option<&[SocketAddr]>) -> Result<Endpoint, Complaint> {
    let text = entry.text()?;
    if let Some((ip, zone, port)) = zoned(text) {
        if !ip.is_unicast_link_local() || port == 0 || !is_interface(zone) {
            return Err(entry.complain(format!(
                "{text:?}: a link-local address with its interface and a port is written [fe80::1%eth0]:{PORT}, \
                 all others without %"
            )));
        }
        return match nowhere(SocketAddrV6::new(ip, port, 0, 1).into(), listen) {
            None => Ok(Endpoint::Zoned(ip, zone.to_owned(), port)),
            Some(why) => Err(entry.complain(why)),
        };
    }
    if let Ok(address) = text.parse() {
        return match nowhere(address, listen) {
            None => Ok(Endpoint::Address(address)),
            Some(why) => Err(entry.complain(why)),
        };
    }
    let wanted = format!(
        "a host or an address, and its port, such as \"vpn.example.org:{PORT}\", \"192.0.2.2:{PORT}\" or \
         \"[2001:db8::2]:{PORT}\""
    );
    let is_bare = text.parse::<std::net::IpAddr>().is_ok();
    let Some((host, port)) = text.rsplit_once(':').filter(|_| !is_bare) else {
        return Err(entry.complain(format!("{text:?} has no port: {wanted}")));
    };
    let Ok(port @ 1..) = port.parse() else {
        let what = format!("{text:?}: {port:?} is no port, 1 to 65535: {wanted}");
        return Err(entry.complain(what));
    };
    match host.parse() {
        Ok(name) => Ok(Endpoint::Name(name, port)),
        Err(why) => Err(entry.complain(format!("{text:?}: {why}: {wanted}"))),
    }
}

/// An IPv6 address with a zone, that zone, and the port.
fn zoned(text: &str) -> Option<(Ipv6Addr, &str, u16)> {
    let (inside, port) = text.strip_prefix('[')?.rsplit_once("]:")?;
    let (ip, zone) = inside.split_once('%')?;
    Some((ip.parse().ok()?, zone, port.parse().ok()?))
}

/// Whether an interface may be called so.
fn is_interface(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_graphic() && !"/%:]".contains(letter);
    (1..=15).contains(&name.len()) && name.chars().all(is_letter)
}

/// Why nobody can be called there.
fn nowhere(endpoint: SocketAddr, listen: Option<&[SocketAddr]>) -> Option<String> {
    let ip = endpoint.ip();
    if endpoint.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        return Some(format!(
            "{endpoint} is nowhere: an address and port, such as 192.0.2.2:{PORT}"
        ));
    }
    if let SocketAddr::V6(v6) = endpoint
        && v6.ip().is_unicast_link_local()
        && v6.scope_id() == 0
    {
        return Some(format!(
            "{ip} is on every link: the interface belongs to it, as in [{ip}%eth0]:{}",
            endpoint.port()
        ));
    }
    let version = if ip.to_canonical().is_ipv4() { "IPv4" } else { "IPv6" };
    listen.filter(|listen| !all_versions(listen)[usize::from(version == "IPv6")]).map(|_| {
        format!("{endpoint} is {version}, and no address of `listen` is: \"[::]:{PORT}\" is both")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(endpoint: &str) -> Result<Endpoint, String> {
        let text = format!(
            "[tunnel]\nprivate-key = \"a.key\"\naddresses = [\"10.99.0.1/24\"]\n[[tunnel.peer]]\nname = \"far\"\n\
             public-key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\nroutes = [\"10.2.0.0/16\"]\n\
             endpoint = {endpoint:?}\n"
        );
        let config = Config::parse("a.toml", &text).map_err(|why| why.to_string())?;
        Ok(config.tunnel.unwrap().peers.remove(0).endpoint.unwrap())
    }

    #[test]
    fn an_endpoint_is_an_address_or_a_name_with_a_port() {
        let named = Endpoint::Name("vpn.example.org".parse().unwrap(), 7_777);

        assert_eq!(read("192.0.2.2:7"), Ok(Endpoint::Address("192.0.2.2:7".parse().unwrap())));
        assert_eq!(read("VPN.example.org.:7777"), Ok(named.clone()));
        assert_eq!((named.address(), &named.to_string()[..]), (None, "vpn.example.org:7777"));
    }

    #[test]
    fn a_link_local_address_has_its_interface() {
        let with = |endpoint: &str| {
            let config = format!(
                "[tunnel]\nlisten = \"[::]:7\"\nprivate-key = \"a.key\"\naddresses = [\"10.99.0.1/24\"]\n\
                 [[tunnel.peer]]\nname = \"far\"\npublic-key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
                 routes = [\"10.2.0.0/16\"]\nendpoint = {endpoint:?}\n"
            );
            let config = Config::parse("a.toml", &config).map_err(|why| why.to_string())?;
            Ok::<_, String>(config.tunnel.unwrap().peers.remove(0).endpoint.unwrap())
        };
        let here = with("[fe80::1%lo]:7").unwrap();
        let away = with("[fe80::1%no-link0]:7").unwrap();
        let numbered = with("[fe80::1%1]:7").unwrap();

        assert_eq!(here.to_string(), "[fe80::1%lo]:7");
        assert_eq!(here.located(), Ok(Some("[fe80::1%1]:7".parse().unwrap())));
        assert_eq!(numbered.to_string(), "[fe80::1%1]:7");
        assert_eq!(numbered.located(), here.located());
        let said = away.located().unwrap_err().to_string();
        assert_eq!(
            said,
            "there is no interface no-link0, by which the peer at [fe80::1%no-link0]:7 is called"
        );
        for (written, expected) in [
            (
                "[fe80::1]:7",
                "fe80::1 is on every link: the interface belongs to it, as in [fe80::1%eth0]:7",
            ),
            ("[fd00::1%eth0]:7", "a link-local address with its interface and a port is written"),
            ("[fe80::1%eth 0]:7", "a link-local address with its interface and a port is written"),
            ("[fe80::1%]:7", "a link-local address with its interface and a port is written"),
        ] {
            let said = with(written).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_endpoint_is_said_with_what_is_allowed() {
        for (written, expected) in [
            (
                "vpn.example.org",
                "\"vpn.example.org\" has no port: a host or an address, and its port",
            ),
            ("fd00::2", "\"fd00::2\" has no port"),
            ("[fd00::2]", "\"[fd00::2]\": \"2]\" is no port"),
            ("vpn.example.org:0", "\"vpn.example.org:0\": \"0\" is no port, 1 to 65535"),
            ("vpn.example.org:65536", "\"vpn.example.org:65536\": \"65536\" is no port"),
            ("192.0.2.256:7", "\"192.0.2.256:7\": it ends in a number, and is no IPv4 address"),
            ("my host:7", "\"my host:7\": \"my host\" is no part of a host's name"),
            (":7", "\":7\": \"\" is no part of a host's name"),
            ("192.0.2.2:0", "192.0.2.2:0 is nowhere"),
        ] {
            let said = read(written).unwrap_err();
            assert!(
                said.starts_with(&format!("a.toml:8: tunnel.peer.endpoint: {expected}")),
                "{said}"
            );
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
