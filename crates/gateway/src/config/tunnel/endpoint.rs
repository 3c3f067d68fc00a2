//! Where a peer is called: at an address, or at those that a name has.

use std::fmt;
use std::net::SocketAddr;

use proto::dns::Name;
use proto::secure::PORT;
use settings::{Complaint, Entry};

use super::listen::all_versions;

/// Where a peer is called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// At this address.
    Address(SocketAddr),
    /// At the addresses of a host, whichever they are then, at this port.
    Name(Name, u16),
}

impl Endpoint {
    /// The address, if it is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(..) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// Reads where a peer is called from here.
pub(super) fn read(entry: &Entry<'_>, listen: &[SocketAddr]) -> Result<Endpoint, Complaint> {
    let text = entry.text()?;
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

/// Why nobody can be called there.
fn nowhere(endpoint: SocketAddr, listen: &[SocketAddr]) -> Option<String> {
    let ip = endpoint.ip();
    if endpoint.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        return Some(format!(
            "{endpoint} is nowhere: an address and port, such as 192.0.2.2:{PORT}"
        ));
    }
    let version = if ip.to_canonical().is_ipv4() { "IPv4" } else { "IPv6" };
    (!all_versions(listen)[usize::from(version == "IPv6")]).then(|| {
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
