//! The section `tunnel`: whom we share a tunnel with, and which networks are behind them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::ip::Prefix;
use proto::secure::{
    self, MAX_PEERS, Overlap, PeerId, PresharedKey, PrivateKey, PublicKey, Routes,
};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Between, Parsed, Period, Rate, Span};
use super::{bounded, check_device};
use crate::keys::{self, KeyFile};

/// The tunnel of a gateway, to all its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// Where datagrams of peers arrive.
    pub listen: SocketAddr,
    /// The file with this gateway's private key.
    pub private_key: PathBuf,
    /// The TUN device's name.
    pub device: String,
    /// The device's addresses.
    pub addresses: Vec<Prefix>,
    /// Octets of an outer IP packet at most; `None` for what the path takes.
    pub mtu: Option<u16>,
    /// At the other ends.
    pub peers: Vec<Peer>,
}

/// A peer of the tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// What it is called here.
    pub name: String,
    /// What it is known by.
    pub public_key: PublicKey,
    /// The file with a secret that it shares with us, besides the keys.
    pub preshared_key: Option<PathBuf>,
    /// Where it is called; without, it has to call us.
    pub endpoint: Option<SocketAddr>,
    /// Networks behind it: packets to them go there, packets from it come from them.
    pub routes: Vec<Prefix>,
    /// A sign of life after so much silence of ours.
    pub keepalive: Option<Duration>,
    /// Bits per second that are never exceeded; `None` to find out.
    pub max_rate: Option<f64>,
    /// How long a packet is worth recovering.
    pub deadline: Duration,
}

/// What a gateway and its peers are known by, as read from the key files.
#[derive(Clone, Debug)]
pub struct Keys {
    /// This gateway's.
    pub private_key: PrivateKey,
    /// The peers', in the order of the configuration.
    pub peers: Vec<secure::Peer>,
}

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct BadKeyFile {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub why: KeyFile,
}

impl Tunnel {
    /// Reads the key files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn keys(&self) -> Result<Keys, BadKeyFile> {
        let bad = |file: &Path, why| BadKeyFile { file: file.to_owned(), why };
        let private_key =
            keys::read(&self.private_key).map_err(|why| bad(&self.private_key, why))?;
        let mut peers = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let read =
                |file: &PathBuf| keys::read::<PresharedKey>(file).map_err(|why| bad(file, why));
            let preshared_key = peer.preshared_key.as_ref().map(read).transpose()?;
            let Peer { public_key, endpoint, keepalive, .. } = *peer;
            peers.push(secure::Peer { public_key, preshared_key, endpoint, keepalive });
        }
        Ok(Keys { private_key, peers })
    }

    /// Which peer an inner address belongs to.
    #[must_use]
    pub fn routes(&self) -> Routes {
        Routes::new(&owned(&self.peers)).expect("a checked configuration has no overlaps")
    }
}

fn owned(peers: &[Peer]) -> Vec<(PeerId, Prefix)> {
    let numbered = peers.iter().enumerate();
    let of_peer = |(at, peer): (usize, &Peer)| {
        let id = PeerId::new(at).expect("a checked configuration has not too many");
        peer.routes.iter().map(move |route| (id, *route)).collect::<Vec<_>>()
    };
    numbered.flat_map(of_peer).collect()
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    #[serde(default)]
    listen: Option<Spanned<Parsed<SocketAddr>>>,
    private_key: Spanned<PathBuf>,
    #[serde(default)]
    device: Option<Spanned<String>>,
    addresses: Spanned<Vec<Parsed<Prefix>>>,
    #[serde(default)]
    mtu: Option<Between<1_280, 65_535>>,
    peer: Spanned<Vec<PeerSection>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerSection {
    name: Spanned<String>,
    public_key: Spanned<Parsed<PublicKey>>,
    #[serde(default)]
    preshared_key: Option<Spanned<PathBuf>>,
    #[serde(default)]
    endpoint: Option<Spanned<Parsed<SocketAddr>>>,
    routes: Spanned<Vec<Spanned<Parsed<Prefix>>>>,
    #[serde(default)]
    keepalive: Option<Spanned<Period>>,
    #[serde(default)]
    max_rate: Option<Rate>,
    #[serde(default)]
    deadline: Option<Spanned<Period>>,
}

const PORT: u16 = 51_900;
const DEVICE: &str = "trackway-nc0";
const MAX_ADDRESSES: usize = 16;
/// Routes of a peer; looking for overlaps compares each with each.
const MAX_ROUTES: usize = 64;
const DEADLINE: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

type Fault = (Span, String);

impl Section {
    /// Checks the section; with the folder of the configuration, the key files too.
    pub(super) fn check(self, folder: Option<&Path>) -> Result<Tunnel, Fault> {
        let listen = match self.listen {
            None => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
            Some(given) if given.get_ref().0.port() == 0 => {
                return Err((given.span(), "listen: the port 0 is not allowed".to_owned()));
            }
            Some(given) => given.into_inner().0,
        };
        let device = match self.device {
            None => DEVICE.to_owned(),
            Some(given) => {
                let (span, name) = (given.span(), given.into_inner());
                check_device(&name).map_err(|what| (span, format!("device: {what}")))?;
                name
            }
        };
        let (span, addresses) = (self.addresses.span(), self.addresses.into_inner());
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            let count = addresses.len();
            let what = format!("addresses: {count} of them: 1 to {MAX_ADDRESSES} are allowed");
            return Err((span, what));
        }
        let (span, sections) = (self.peer.span(), self.peer.into_inner());
        if sections.is_empty() || sections.len() > MAX_PEERS {
            let what = format!("peer: {} of them: 1 to {MAX_PEERS} are allowed", sections.len());
            return Err((span, what));
        }
        let key_file = self.private_key.span();
        let private_key = under(folder, self.private_key.get_ref());
        let own = match folder {
            None => None,
            Some(_) => {
                let read = keys::read::<PrivateKey>(&private_key);
                Some(read.map_err(|why| no_key_file(key_file, "private_key", &private_key, &why))?)
            }
        };
        let own = own.map(|key| key.public_key());
        let peers = check_peers(sections, listen, own, folder)?;
        Ok(Tunnel {
            listen,
            private_key,
            device,
            addresses: addresses.into_iter().map(|address| address.0).collect(),
            mtu: self.mtu.map(Between::as_u16),
            peers,
        })
    }
}

fn check_peers(
    sections: Vec<PeerSection>,
    listen: SocketAddr,
    own: Option<PublicKey>,
    folder: Option<&Path>,
) -> Result<Vec<Peer>, Fault> {
    let mut peers: Vec<Peer> = Vec::with_capacity(sections.len());
    let mut by_key = BTreeMap::new();
    let mut routes = Vec::new();
    let mut spans = Vec::new();
    for section in sections {
        let (name_at, key_at) = (section.name.span(), section.public_key.span());
        let of_routes: Vec<_> = section.routes.get_ref().iter().map(Spanned::span).collect();
        let peer = section.check(listen, folder)?;
        let name = &peer.name;
        if peers.iter().any(|other| other.name == *name) {
            return Err((name_at, format!("name: {name:?} is there twice")));
        }
        if own == Some(peer.public_key) {
            let what = "public_key: this is our own: each side names the other's".to_owned();
            return Err((key_at, what));
        }
        if let Some(other) = by_key.insert(peer.public_key, name.clone()) {
            return Err((key_at, format!("public_key: {other:?} has the same")));
        }
        let id = PeerId::new(peers.len()).expect("they were counted");
        routes.extend(peer.routes.iter().map(|route| (id, *route)));
        spans.extend(of_routes);
        peers.push(peer);
    }
    if let Err(Overlap { first, second }) = Routes::new(&routes) {
        let named = |at: usize| {
            let (peer, route): (PeerId, Prefix) = routes[at];
            format!("{route} of {:?}", peers[peer.index()].name)
        };
        let what = format!("routes: {} overlaps {}", named(second), named(first));
        return Err((spans[second].clone(), what));
    }
    Ok(peers)
}

impl PeerSection {
    fn check(self, listen: SocketAddr, folder: Option<&Path>) -> Result<Peer, Fault> {
        let (span, name) = (self.name.span(), self.name.into_inner());
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_letter) {
            let what = format!("name: {name:?} is not allowed: 1 to 32 letters, digits, - _ .");
            return Err((span, what));
        }
        let endpoint = match self.endpoint {
            None => None,
            Some(given) => Some(check_endpoint(given.span(), given.get_ref().0, listen)?),
        };
        let (span, routes) = (self.routes.span(), self.routes.into_inner());
        if routes.is_empty() || routes.len() > MAX_ROUTES {
            let what = format!("routes: {} of them: 1 to {MAX_ROUTES} are allowed", routes.len());
            return Err((span, what));
        }
        let mut checked = Vec::with_capacity(routes.len());
        for route in routes {
            let (span, Parsed(route)) = (route.span(), route.into_inner());
            if route != route.network() {
                let what = format!("routes: {route} has host bits: {} is meant", route.network());
                return Err((span, what));
            }
            checked.push(route);
        }
        let preshared_key = match self.preshared_key {
            None => None,
            Some(given) => {
                let span = given.span();
                let path = under(folder, given.get_ref());
                if folder.is_some() {
                    keys::read::<PresharedKey>(&path)
                        .map_err(|why| no_key_file(span, "preshared_key", &path, &why))?;
                }
                Some(path)
            }
        };
        let deadline = bounded(&self.deadline, "deadline", SECOND / 20, SECOND * 60)?;
        Ok(Peer {
            name,
            public_key: self.public_key.into_inner().0,
            preshared_key,
            endpoint,
            routes: checked,
            keepalive: bounded(&self.keepalive, "keepalive", SECOND, SECOND * 600)?,
            max_rate: self.max_rate.map(|rate| rate.0),
            deadline: deadline.unwrap_or(DEADLINE),
        })
    }
}

fn check_endpoint(
    span: Span,
    endpoint: SocketAddr,
    listen: SocketAddr,
) -> Result<SocketAddr, Fault> {
    let ip = endpoint.ip();
    let what = if endpoint.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        format!("endpoint: {endpoint} is nowhere: an address and port, such as 192.0.2.2:{PORT}")
    } else if listen.is_ipv4() && endpoint.is_ipv6() {
        format!(
            "endpoint: {endpoint} is IPv6, listen = \"{listen}\" is not: \"[::]:{PORT}\" is both"
        )
    } else if listen.is_ipv6() && !listen.ip().is_unspecified() && endpoint.is_ipv4() {
        format!(
            "endpoint: {endpoint} is IPv4, listen = \"{listen}\" is not: \"[::]:{PORT}\" is both"
        )
    } else {
        return Ok(endpoint);
    };
    Err((span, what))
}

/// Paths are meant from where the configuration is.
fn under(folder: Option<&Path>, path: &Path) -> PathBuf {
    folder.map_or_else(|| path.to_owned(), |folder| folder.join(path))
}

fn no_key_file(span: Span, key: &str, file: &Path, why: &KeyFile) -> Fault {
    let file = file.display();
    let remedy = match why {
        KeyFile::Unreadable(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("; `trackway keygen --out {file}` makes one")
        }
        KeyFile::Malformed(_) | KeyFile::Open { .. } | KeyFile::Unreadable(_) => String::new(),
    };
    (span, format!("{key}: {file}: {why}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const TEXT: &str = r#"
        [tunnel]
        private_key = "a.key"
        addresses = ["10.99.0.1/24"]

        [[tunnel.peer]]
        name = "far"
        public_key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        routes = ["10.2.0.0/16"]
    "#;

    #[test]
    fn a_key_an_address_and_a_peer_are_enough() {
        let config = Config::parse("a.toml", TEXT).unwrap();

        let tunnel = config.tunnel.unwrap();
        assert!(config.interfaces.is_empty());
        assert_eq!(tunnel.listen, "0.0.0.0:51900".parse().unwrap());
        assert_eq!(tunnel.device, "trackway-nc0");
        let [peer] = &tunnel.peers[..] else { panic!("{tunnel:?}") };
        assert_eq!((peer.endpoint, peer.keepalive, peer.max_rate), (None, None, None));
        assert_eq!(peer.deadline, Duration::from_secs(2));
        assert_eq!(tunnel.routes().peer_for("10.2.3.4".parse().unwrap()), PeerId::new(0));
    }

    #[test]
    fn both_services_may_be_there_and_one_must() {
        let both = format!("interfaces = [\"wlan0\"]\n{TEXT}");

        let config = Config::parse("a.toml", &both).unwrap();
        let neither = Config::parse("a.toml", "log = \"info\"").unwrap_err();

        assert!(config.tunnel.is_some() && config.interfaces == ["wlan0"]);
        assert_eq!(
            neither.to_string(),
            "a.toml, line 1: nothing to do: `interfaces` for HBH, or a section [tunnel], \
             [ipclient] or [s5066]"
        );
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            Config::parse(name, &text).unwrap().tunnel.unwrap()
        };

        let (a, b) = (read("tunnel-a.toml"), read("tunnel-b.toml"));

        assert_eq!(a.peers[0].endpoint, Some("192.0.2.2:51900".parse().unwrap()));
        assert_eq!(b.peers[0].endpoint, None);
        assert!(
            a.peers[0].routes.iter().any(|route| b.addresses.iter().any(|own| own.overlaps(route)))
        );
        assert_ne!(a.peers[0].public_key, b.peers[0].public_key);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("a.key\"", "a.key\"\nlisten = \"0.0.0.0:0\"", "line 4: listen: the port 0"),
            (
                "a.key\"",
                "a.key\"\nlisten = \"here\"",
                "line 4: listen: \"here\" is not allowed: invalid socket address syntax",
            ),
            ("a.key\"", "a.key\"\nmtu = 500", "line 4: mtu: 500 is not allowed: 1280 to 65535"),
            (
                "a.key\"",
                "a.key\"\ndevice = \"a b\"",
                "line 4: device: \"a b\" cannot be an interface",
            ),
            (
                "10.99.0.1/24",
                "10.99.0.1",
                "line 4: addresses: \"10.99.0.1\" is not allowed: no address with its prefix length",
            ),
            ("\"far\"", "\"far away\"", "line 7: name: \"far away\" is not allowed"),
            ("hSDw", "hS", "line 8: public_key: "),
            (
                "10.2.0.0/16",
                "10.2.0.1/16",
                "line 9: routes: 10.2.0.1/16 has host bits: 10.2.0.0/16 is meant",
            ),
            ("[\"10.2.0.0/16\"]", "[]", "line 9: routes: 0 of them: 1 to 64 are allowed"),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nendpoint = \"[fd00::1]:51900\"",
                "line 10: endpoint: [fd00::1]:51900 is IPv6",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nendpoint = \"0.0.0.0:51900\"",
                "line 10: endpoint: 0.0.0.0:51900 is nowhere",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nkeepalive = \"1ms\"",
                "line 10: keepalive = 1ms is not allowed",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nmax_rate = \"fast\"",
                "line 10: max_rate: \"fast\" is no rate",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\ndeadline = \"2h\"",
                "line 10: deadline = 7200s is not allowed",
            ),
            ("private_key", "secret_key", "line 3: unknown field `secret_key`"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let expected = format!("a.toml, {expected}");
            assert!(said.starts_with(&expected), "{said}\nnot\n{expected}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn peers_differ_in_name_key_and_routes() {
        let second = |name: &str, key: &str, route: &str| {
            let text = format!(
                "{TEXT}[[tunnel.peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\nroutes = [\"{route}\"]"
            );
            Config::parse("a.toml", &text).unwrap_err().to_string()
        };
        let (one, other) = (
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
            "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=",
        );

        assert_eq!(
            second("far", other, "10.3.0.0/16"),
            "a.toml, line 11: name: \"far\" is there twice"
        );
        assert_eq!(
            second("b", one, "10.3.0.0/16"),
            "a.toml, line 12: public_key: \"far\" has the same"
        );
        assert_eq!(
            second("b", other, "10.2.7.0/24"),
            "a.toml, line 13: routes: 10.2.7.0/24 of \"b\" overlaps 10.2.0.0/16 of \"far\""
        );
    }

    #[test]
    fn a_file_is_read_with_its_keys() {
        let folder = std::env::temp_dir().join(format!("trackway-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.toml");
        std::fs::write(&file, TEXT).unwrap();
        let own = PrivateKey::generate(&mut keys::System).unwrap();

        let missing = Config::read(&file).unwrap_err().to_string();
        keys::write_new(&folder.join("a.key"), &own.to_base64()).unwrap();
        let keys = Config::read(&file).unwrap().tunnel.unwrap().keys().unwrap();
        let (line, key) = ("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", own.public_key());
        std::fs::write(&file, TEXT.replace(line, &key.to_string())).unwrap();
        let own_key = Config::read(&file).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();

        assert!(
            missing.contains("line 3: private_key: ") && missing.contains("trackway keygen --out"),
            "{missing}"
        );
        assert_eq!((keys.private_key, keys.peers.len()), (own, 1));
        assert!(own_key.contains("line 8: public_key: this is our own"), "{own_key}");
    }
}
