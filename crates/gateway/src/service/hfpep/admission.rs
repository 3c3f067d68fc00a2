//! Which connections other ends may ask for.
//!
//! Whoever is at the other node decides what its opening says: this gateway would connect to itself, or
//! in the name of anybody, if it believed all of that.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proto::hfpep::Target;
use proto::ip::Prefix;
use proto::s5066::Address;

use crate::config::HfPep;
use crate::config::hfpep::{Allowed, Far, Mode, Peer};

/// Says which.
#[derive(Debug)]
pub(super) struct Admission {
    allowed: Option<Vec<Allowed>>,
    /// Who has which networks, if connections are made in the name of clients there.
    clients: Option<Vec<Peer>>,
}

/// Why a connection is not made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Forbidden {
    #[error("no [[hfpep.allow]] has the target")]
    NotAllowed,
    #[error("its client's address is behind another node")]
    Source,
    #[error("no router would forward it: the target is local to a host or link, or no host")]
    Unroutable,
}

impl Admission {
    pub(super) fn new(config: &HfPep) -> Self {
        let is_transparent = config.mode == Mode::Transparent;
        Self {
            allowed: config.allowed.clone(),
            clients: is_transparent.then(|| config.peers.clone()),
        }
    }

    /// Checks what another end asks for, and returns the address in whose name the connection is made:
    /// `None` for this gateway's own. An Auth ID leads to where the configuration says. A gateway, which
    /// is no node, may come from anywhere, and its clients too.
    ///
    /// # Errors
    /// When there is to be no connection.
    pub(super) fn check(
        &self,
        node: Option<Address>,
        target: &Target,
    ) -> Result<Option<SocketAddr>, Forbidden> {
        let Target::Address { source, destination } = target else { return Ok(None) };
        // What the kernel takes for an IPv4 address is one.
        let canonical = |at: &SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let (source, destination) = (canonical(source), canonical(destination));
        match &self.allowed {
            None if is_routable(destination.ip()) => {}
            None => return Err(Forbidden::Unroutable),
            Some(allowed) if allowed.iter().any(|it| it.has(source.ip(), destination)) => {}
            Some(_) => return Err(Forbidden::NotAllowed),
        }
        if self.clients.is_none() {
            return Ok(None);
        }
        if let (Some(node), Some(far)) = (node, self.far_of(source.ip()))
            && far != Far::Node(node)
        {
            return Err(Forbidden::Source);
        }
        // No answer finds its way to a client at its gateway's 127.0.0.1.
        Ok(is_routable(source.ip()).then_some(source))
    }

    /// Who has a client, by the networks of peers.
    fn far_of(&self, client: IpAddr) -> Option<Far> {
        let has_it = self.clients.iter().flatten().filter(|peer| peer.to.contains(client));
        has_it.max_by_key(|peer| peer.to.bits()).map(|peer| peer.far)
    }

    /// Whether a client is known to be behind a node. A datagram in anybody else's name would be taken for
    /// his, for no handshake tells who sent it.
    pub(super) fn is_behind(&self, node: Address, client: IpAddr) -> bool {
        self.far_of(client.to_canonical()) == Some(Far::Node(node))
    }
}

impl Allowed {
    fn has(&self, source: IpAddr, target: SocketAddr) -> bool {
        let hold = |networks: &[Prefix], address: IpAddr| {
            networks.iter().any(|network| network.contains(address))
        };
        (self.from.is_empty() || hold(&self.from, source))
            && hold(&self.to, target.ip())
            && self.ports.fit(Some(target.port()))
    }
}

/// Whether a router forwards packets with this address: it is of one host, and not of a host's or
/// link's own.
fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            // 0.0.0.0/8 and 240.0.0.0/4, RFC 6890.
            let first = v4.octets()[0];
            !(v4.is_loopback() || v4.is_link_local() || v4.is_multicast())
                && (1..240).contains(&first)
                && v4 != Ipv4Addr::BROADCAST
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn admission(more: &str) -> Admission {
        let text = format!(
            "[hfpep]\n{more}\n[[hfpep.peer]]\nnode = \"0.0.0.1\"\nto = [\"10.1.0.0/16\", \
             \"fd01::/32\"]\n[[hfpep.peer]]\nnode = \"0.0.0.3\"\nto = [\"10.3.0.0/16\"]\n"
        );
        Admission::new(&Config::parse("a.toml", &text).unwrap().hf_pep.unwrap())
    }

    /// In whose name a connection is made for a client behind node 1.
    fn ask(
        admission: &Admission,
        source: &str,
        destination: &str,
    ) -> Result<Option<SocketAddr>, Forbidden> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        admission.check(Some(Address::node(1)), &Target::Address { source, destination })
    }

    #[test]
    fn what_no_router_would_forward_is_not_connected_to() {
        let admission = admission("");

        for own in [
            "127.0.0.1:22",
            "127.9.9.9:22",
            "0.0.0.0:22",
            "0.1.2.3:22",
            "169.254.1.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::1]:22",
            "[::]:22",
            "[fe80::1]:22",
            "[ff02::1]:22",
            "[::ffff:127.0.0.1]:22",
            "[::ffff:0.0.0.0]:22",
        ] {
            let source = if own.starts_with('[') { "[fd01::9]:7" } else { "10.1.0.9:7" };
            assert_eq!(ask(&admission, source, own), Err(Forbidden::Unroutable), "{own}");
        }
        for (source, to) in [("10.1.0.9:7", "10.2.0.1:22"), ("[fd01::9]:7", "[fd02::1]:22")] {
            assert_eq!(ask(&admission, source, to), Ok(Some(source.parse().unwrap())));
        }
    }

    #[test]
    fn a_list_says_what_is_allowed_and_may_name_this_host() {
        let admission = admission(
            "allow = [{ to = \"10.2.0.0/16\", to-port = [80, \"8000-8009\"] }, \
             { to = \"127.0.0.1/32\", to-port = 5000, from = \"10.1.0.9/32\" }]",
        );
        let client = Ok(Some("10.1.0.9:7".parse().unwrap()));

        for (to, expected) in [
            ("10.2.0.1:80", client),
            ("10.2.0.1:8009", client),
            ("127.0.0.1:5000", client),
            ("10.2.0.1:22", Err(Forbidden::NotAllowed)),
            ("10.9.0.1:80", Err(Forbidden::NotAllowed)),
            ("127.0.0.1:22", Err(Forbidden::NotAllowed)),
        ] {
            assert_eq!(ask(&admission, "10.1.0.9:7", to), expected, "{to}");
        }
        for (admission, source, to) in [
            (admission, "10.1.0.8:7", "127.0.0.1:5000"),
            (self::admission("allow = []"), "10.1.0.9:7", "10.2.0.1:80"),
        ] {
            assert_eq!(ask(&admission, source, to), Err(Forbidden::NotAllowed), "{source} {to}");
        }
    }

    #[test]
    fn datagrams_go_in_the_name_of_a_client_only_behind_its_own_node() {
        let admission = admission("");
        let is_behind = |node: &str, client: &str| {
            admission.is_behind(node.parse().unwrap(), client.parse().unwrap())
        };

        assert!(is_behind("0.0.0.1", "10.1.0.9") && is_behind("0.0.0.1", "::ffff:10.1.0.9"));
        assert!(!is_behind("0.0.0.2", "10.1.0.9") && !is_behind("0.0.0.1", "10.77.0.9"));
    }

    #[test]
    fn nobody_speaks_in_the_name_of_a_client_of_another_or_of_this_host() {
        let transparent = admission("");
        let shore = "[hfpep]\nmode = \"shore\"\n";
        let shore = Admission::new(&Config::parse("a.toml", shore).unwrap().hf_pep.unwrap());
        let stranger = Some("10.77.0.9:7".parse().unwrap());

        for (admission, source, expected) in [
            (&transparent, "10.3.0.9:7", Err(Forbidden::Source)),
            (&transparent, "[::ffff:10.3.0.9]:7", Err(Forbidden::Source)),
            (&transparent, "127.0.0.1:7", Ok(None)),
            (&transparent, "0.0.0.0:7", Ok(None)),
            (&transparent, "224.0.0.9:7", Ok(None)),
            (&transparent, "10.77.0.9:7", Ok(stranger)),
            (&shore, "10.77.0.9:7", Ok(None)),
        ] {
            assert_eq!(ask(admission, source, "10.2.0.1:80"), expected, "{source}");
        }
    }

    #[test]
    fn an_auth_id_leads_where_the_configuration_says() {
        let target = Target::AuthId("bob".to_owned());

        assert_eq!(admission("allow = []").check(Some(Address::node(1)), &target), Ok(None));
    }
}
