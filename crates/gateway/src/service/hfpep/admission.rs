//! Decides which connections other ends may ask for.
//!
//! ```text
//!   who asks ─▶ Auth ID: is the target for it? ─────────────────▶ where the configuration says
//!          └──▶ address: [[hfpep.allow]], or what a router would forward
//!                 └─▶ is the client behind who asks? ─▶ yes: in the client's name, no: in this gateway's own
//!                                                    └▶ behind another peer: refused
//! ```
//! The other end chooses the content of its opening: a gateway that believed every opening would connect to itself,
//! or in the name of anybody.

use std::net::{IpAddr, SocketAddr};

use base::ip::{Prefix, is_unicast};
use hf::hfpep::Target;

use crate::config::HfPep;
use crate::config::hfpep::{Allowed, Far, Mode, Peer, targets};
use crate::ends::{End, Ends};
use crate::tls::Profile;

/// Decides on the connections that other ends ask for.
#[derive(Debug)]
pub struct Admission {
    allowed: Option<Vec<Allowed>>,
    /// The peers and their networks.
    peers: Vec<Peer>,
    /// Whether connections are made in the name of clients there.
    is_transparent: bool,
    /// The Auth IDs with a target, and the ends that may use each; an empty list means all peers.
    users: Vec<(String, Ends)>,
}

/// Why a connection is not made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Forbidden {
    #[error("no [[hfpep.allow]] has the target")]
    NotAllowed,
    #[error("its client's address is behind another node or gateway")]
    Source,
    #[error("no router would forward it: the target is local to a host or link, or no host")]
    Unroutable,
    #[error("who asks is neither a [[hfpep.peer]] nor named in the Auth ID's target")]
    User,
}

impl Admission {
    pub fn new(config: &HfPep, profiles: &[Profile]) -> Self {
        let targets = targets(config.tls.as_deref(), profiles).iter();
        Self {
            allowed: config.allowed.clone(),
            peers: config.peers.clone(),
            is_transparent: config.mode == Mode::Transparent,
            users: targets.map(|it| (it.id.as_str().to_owned(), it.users.clone())).collect(),
        }
    }

    /// Checks the target that another end asks for, and returns the source address of the connection: `None` for this
    /// gateway's own.
    ///
    /// # Errors
    /// When there is to be no connection.
    pub fn check(&self, end: End, target: &Target) -> Result<Option<SocketAddr>, Forbidden> {
        let (source, destination) = match target {
            Target::Address { source, destination } => (source, destination),
            Target::AuthId(id) if self.may_use(end, id) => return Ok(None),
            Target::AuthId(_) => return Err(Forbidden::User),
        };
        // An address that the kernel treats as IPv4 is handled as IPv4.
        let canonical = |at: &SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let (source, destination) = (canonical(source), canonical(destination));
        let far = self.far_of(source.ip()).filter(|_| self.is_transparent);
        let is_behind = far.is_some_and(|far| far.is(end));
        match &self.allowed {
            None if is_routable(destination.ip()) => {}
            None => return Err(Forbidden::Unroutable),
            Some(allowed)
                if allowed.iter().any(|it| it.has(end, source.ip(), is_behind, destination)) => {}
            Some(_) => return Err(Forbidden::NotAllowed),
        }
        if far.is_some() && !is_behind {
            return Err(Forbidden::Source);
        }
        // A target would take the connection for the client's, which nobody proves for a client behind no peer. And
        // no answer finds its way to a client at its gateway's 127.0.0.1.
        Ok(Some(source).filter(|source| is_behind && is_routable(source.ip())))
    }

    /// Whether an end may have a connection to the target of an Auth ID, and so with the certificate that this
    /// gateway shows there.
    fn may_use(&self, end: End, id: &str) -> bool {
        let users = self.users.iter().find(|(its, _)| its == id).map(|(_, users)| users);
        match users {
            Some(users) if !users.is_empty() => users.has(end),
            Some(_) | None => self.peers.iter().any(|peer| peer.far.is(end)),
        }
    }

    /// The far end with this client, by the networks of peers.
    fn far_of(&self, client: IpAddr) -> Option<Far> {
        let has_it = self.peers.iter().filter(|peer| peer.to.contains(client));
        has_it.max_by_key(|peer| peer.to.bits()).map(|peer| peer.far)
    }
}

impl Allowed {
    /// Whether an end may connect to a target for a client, which is known to be behind it or not.
    fn has(&self, end: End, source: IpAddr, is_behind: bool, target: SocketAddr) -> bool {
        let hold = |networks: &[Prefix], address: IpAddr| {
            networks.iter().any(|network| network.contains(address))
        };
        let is_believed = is_behind || !self.ends.is_empty();
        (self.ends.is_empty() || self.ends.has(end))
            && (self.from.is_empty() || is_believed && hold(&self.from, source))
            && hold(&self.to, target.ip())
            && self.ports.fit(Some(target.port()))
    }
}

/// Whether a router forwards packets with this address: a unicast address that is neither loopback nor link-local.
fn is_routable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    is_unicast(address) && !is_link_local
}

#[cfg(test)]
mod tests {
    use hf::s5066::Address;

    use super::*;
    use crate::config::Config;

    const NODE: End = End::Node(Address::node(1));
    const STRANGER: End = End::Node(Address::node(9));

    fn gateway(from: &str) -> End {
        End::gateway(from.parse().unwrap())
    }

    fn read(text: &str) -> Admission {
        let config = Config::parse("a.toml", text).unwrap();
        Admission::new(&config.hf_pep.unwrap(), &config.tls)
    }

    /// Of a gateway with two nodes and another gateway as peers.
    fn admission(more: &str) -> Admission {
        admission_with(more, "")
    }

    /// The same with another section behind.
    fn admission_with(more: &str, behind: &str) -> Admission {
        read(&format!(
            "[hfpep]\n{more}\n[hfpep.bearer]\nlisten = \"192.0.2.1:5099\"\nfrom = [\"192.0.2.0/24\"]\n\
             [[hfpep.peer]]\nnode = \"0.0.0.1\"\nto = [\"10.1.0.0/16\", \"fd01::/32\"]\n\
             [[hfpep.peer]]\nnode = \"0.0.0.3\"\nto = [\"10.3.0.0/16\"]\n\
             [[hfpep.peer]]\ngateway = \"192.0.2.5:5099\"\nto = [\"10.5.0.0/16\"]\n{behind}"
        ))
    }

    /// In whose name a connection is made for a client of node 1.
    fn ask(
        admission: &Admission,
        source: &str,
        destination: &str,
    ) -> Result<Option<SocketAddr>, Forbidden> {
        ask_as(NODE, admission, source, destination)
    }

    fn ask_as(
        end: End,
        admission: &Admission,
        source: &str,
        destination: &str,
    ) -> Result<Option<SocketAddr>, Forbidden> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        admission.check(end, &Target::Address { source, destination })
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
    fn a_client_s_name_is_borrowed_only_for_who_has_the_client() {
        let transparent = admission("");
        let shore = read("[hfpep]\nmode = \"shore\"\n");
        let (its, other) = (gateway("::ffff:192.0.2.5"), gateway("192.0.2.6"));
        let named = |client: &str| Ok(Some(client.parse().unwrap()));

        for (admission, end, source, expected) in [
            (&transparent, NODE, "10.1.0.9:7", named("10.1.0.9:7")),
            (&transparent, NODE, "[::ffff:10.1.0.9]:7", named("10.1.0.9:7")),
            (&transparent, NODE, "[fd01::9]:7", named("[fd01::9]:7")),
            (&transparent, its, "10.5.0.9:7", named("10.5.0.9:7")),
            // Behind another peer, whoever asks.
            (&transparent, NODE, "10.3.0.9:7", Err(Forbidden::Source)),
            (&transparent, NODE, "[::ffff:10.3.0.9]:7", Err(Forbidden::Source)),
            (&transparent, NODE, "10.5.0.9:7", Err(Forbidden::Source)),
            (&transparent, STRANGER, "10.1.0.9:7", Err(Forbidden::Source)),
            (&transparent, its, "10.1.0.9:7", Err(Forbidden::Source)),
            (&transparent, other, "10.5.0.9:7", Err(Forbidden::Source)),
            // Behind nobody that is known, or nowhere.
            (&transparent, NODE, "10.77.0.9:7", Ok(None)),
            (&transparent, STRANGER, "10.77.0.9:7", Ok(None)),
            (&transparent, its, "10.77.0.9:7", Ok(None)),
            (&transparent, other, "10.77.0.9:7", Ok(None)),
            (&transparent, NODE, "127.0.0.1:7", Ok(None)),
            (&transparent, NODE, "0.0.0.0:7", Ok(None)),
            (&transparent, NODE, "224.0.0.9:7", Ok(None)),
            (&shore, NODE, "10.1.0.9:7", Ok(None)),
        ] {
            let to = if source.starts_with("[fd") { "[fd02::1]:80" } else { "10.2.0.1:80" };
            assert_eq!(ask_as(end, admission, source, to), expected, "{end:?} {source}");
        }
    }

    #[test]
    fn an_allowance_is_for_whom_it_names_and_for_clients_that_are_known() {
        let admission = admission(
            "allow = [{ to = \"10.2.0.1/32\", node = \"0.0.0.9\" }, \
             { to = \"10.2.0.2/32\", gateway = [\"192.0.2.6\", \"192.0.2.64/26\"] }, \
             { to = \"10.2.0.3/32\", from = \"10.0.0.0/8\" }, \
             { to = \"10.2.0.4/32\", from = \"10.77.0.0/16\", node = \"0.0.0.9\" }]",
        );
        let (third, fourth) = ("10.2.0.3:80", "10.2.0.4:80");

        for (end, source, to, is_allowed) in [
            (STRANGER, "10.77.0.9:7", "10.2.0.1:80", true),
            (NODE, "10.1.0.9:7", "10.2.0.1:80", false),
            (gateway("192.0.2.6"), "10.77.0.9:7", "10.2.0.2:80", true),
            (gateway("192.0.2.66"), "10.77.0.9:7", "10.2.0.2:80", true),
            (gateway("192.0.2.5"), "10.5.0.9:7", "10.2.0.2:80", false),
            (STRANGER, "10.77.0.9:7", "10.2.0.2:80", false),
            // Only the client's own peer proves whose connection this is.
            (NODE, "10.1.0.9:7", third, true),
            (gateway("192.0.2.5"), "10.5.0.9:7", third, true),
            (STRANGER, "10.1.0.9:7", third, false),
            (STRANGER, "10.77.0.9:7", third, false),
            (NODE, "10.77.0.9:7", third, false),
            // Or who is named.
            (STRANGER, "10.77.0.9:7", fourth, true),
            (STRANGER, "10.78.0.9:7", fourth, false),
            (NODE, "10.77.0.9:7", fourth, false),
        ] {
            let asked = ask_as(end, &admission, source, to);
            let expected = if is_allowed { asked } else { Err(Forbidden::NotAllowed) };
            assert_eq!(asked, expected, "{end:?} {source} {to}");
            assert_eq!(asked.is_ok(), is_allowed, "{end:?} {source} {to}: {asked:?}");
        }
    }

    #[test]
    fn an_auth_id_is_for_peers_or_for_whom_its_target_names() {
        let profile = "[[tls]]\nname = \"shore\"\nrole = \"client\"\ntrust-anchors = \"ca.crt\"\n\
                       target = [{ id = \"bob\", to = \"10.9.0.1:8089\" }, \
                       { id = \"eve\", to = \"10.9.0.1:8089\", node = \"0.0.0.9\" }, \
                       { id = \"zoe\", to = \"10.9.0.1:8089\", gateway = \"192.0.2.6\" }]\n";
        let admission = admission_with("tls = \"shore\"\nallow = []", profile);
        let (its, other) = (gateway("192.0.2.5"), gateway("192.0.2.6"));

        for (id, end, may) in [
            ("bob", NODE, true),
            ("bob", its, true),
            ("bob", STRANGER, false),
            ("bob", other, false),
            ("eve", STRANGER, true),
            ("eve", NODE, false),
            ("eve", other, false),
            ("zoe", other, true),
            ("zoe", its, false),
            // Strangers do not find out which targets exist.
            ("nobody", STRANGER, false),
            ("nobody", NODE, true),
        ] {
            let expected = if may { Ok(None) } else { Err(Forbidden::User) };
            assert_eq!(
                admission.check(end, &Target::AuthId(id.to_owned())),
                expected,
                "{id} {end:?}"
            );
        }
    }
}
