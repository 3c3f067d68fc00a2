//! Reads the section `tunnel`: the peers of the coded tunnel, and the networks behind each peer.

mod endpoint;
mod further;
mod listen;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tunnel as nc;
use ::tunnel::PARAMETERS;
use ::tunnel::secure::{
    self, MAX_PEERS, PORT, PeerId, PresharedKey, PrivateKey, PublicKey, Routes, Twice,
};
use base::ip::Prefix;
use base::name;
use base::parameter::Kind;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::ipclient::network;
use super::{addresses, device, device_schema, either, file, some};
use crate::keys::{self, BadKeyFile, KeyFile};

pub use endpoint::{Endpoint, NoZone};
pub use further::Further;
pub(crate) use listen::versions;

/// The tunnel of a gateway, to all its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// Where datagrams of peers arrive.
    pub listen: Vec<SocketAddr>,
    /// The file with this gateway's private key.
    pub private_key: PathBuf,
    /// The file with our previous key, by which peers may still know us.
    pub previous_private_key: Option<PathBuf>,
    /// The TUN device's name.
    pub device: String,
    /// The device's addresses.
    pub addresses: Vec<Prefix>,
    /// Octets of an outer IP packet at most; `None` for what the path takes.
    pub mtu: Option<u16>,
    /// Whether packets for the peers' networks may leave otherwise while there is no tunnel.
    pub fail_open: bool,
    /// Whether routes of others to the peers' networks give way while the tunnel runs.
    pub replace_routes: bool,
    /// Whether IPv4, and IPv6, are refused instead of leaving in clear beside a peer for everything.
    pub blocks: [bool; 2],
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
    /// The previous key, still accepted.
    pub previous_public_key: Option<PublicKey>,
    /// The file with a secret that it shares with us, besides the keys.
    pub preshared_key: Option<PathBuf>,
    /// Where it is called; without, it has to call us.
    pub endpoint: Option<Endpoint>,
    /// Networks behind the peer: packets to these networks go to it, and packets from it have their addresses.
    pub routes: Vec<Prefix>,
    /// The further paths to it, in their order.
    pub paths: Vec<Further>,
    /// Time without packets of ours after which we send a keepalive.
    pub keepalive: Option<Duration>,
    /// The parameters of the tunnel to this peer.
    pub parameters: nc::Config,
}

/// What a gateway and its peers are known by, as read from the key files.
#[derive(Clone, Debug)]
pub struct Keys {
    /// This gateway's.
    pub private_key: PrivateKey,
    /// Our previous key.
    pub previous_private_key: Option<PrivateKey>,
    /// The peers', in the order of the configuration.
    pub peers: Vec<secure::Peer>,
}

/// Why a tunnel that is configured rightly cannot be had now.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] BadKeyFile),
    /// An endpoint's interface is not there.
    #[error(transparent)]
    Zone(#[from] NoZone),
}

/// A version of IP: the name, the prefix of all addresses, both halves of this prefix, an address that nobody has, and
/// the key to block the version.
struct Version {
    name: &'static str,
    all: &'static str,
    halves: [&'static str; 2],
    somewhere: IpAddr,
    key: &'static str,
}

static VERSIONS: [Version; 2] = [
    Version {
        name: "IPv4",
        all: "0.0.0.0/0",
        halves: ["0.0.0.0/1", "128.0.0.0/1"],
        somewhere: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        key: "block-ipv4",
    },
    Version {
        name: "IPv6",
        all: "::/0",
        halves: ["::/1", "8000::/1"],
        somewhere: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        key: "block-ipv6",
    },
];

impl Version {
    /// Whether some networks have all addresses of this version.
    fn is_whole_in<'a>(&self, networks: &(impl Iterator<Item = &'a Prefix> + Clone)) -> bool {
        let has = |wanted: &str| {
            wanted.parse().is_ok_and(|wanted: Prefix| networks.clone().any(|it| *it == wanted))
        };
        has(self.all) || self.halves.into_iter().all(has)
    }
}

/// Whether some networks have all addresses of a version of IP.
pub(crate) fn have_everything(networks: &BTreeSet<Prefix>) -> bool {
    VERSIONS.iter().any(|version| version.is_whole_in(&networks.iter()))
}

/// Peers have everything of one version of IP, and the other may leave in clear beside them.
#[derive(Clone, Copy)]
pub(crate) struct InClear {
    has: &'static Version,
    lacks: &'static Version,
}

impl InClear {
    /// The other version leaves if a route leads to this address.
    pub(crate) fn towards(&self) -> IpAddr {
        self.lacks.somewhere
    }

    /// What happens then.
    pub(crate) fn what(&self) -> String {
        let Self { has, lacks } = self;
        format!(
            "peers have everything of {}, and {} leaves in clear beside them",
            has.name, lacks.name
        )
    }

    /// What mends it.
    pub(crate) fn remedy(&self) -> String {
        let Version { all, key, .. } = self.lacks;
        format!("add \"{all}\" to a peer's routes, or refuse it by {key} = true in [tunnel]")
    }
}

impl fmt::Display for InClear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.remedy())
    }
}

impl Tunnel {
    /// Whether peers have all addresses of a version of IP.
    fn has_everything(&self, version: &Version) -> bool {
        version.is_whole_in(&self.peers.iter().flat_map(|peer| &peer.routes))
    }

    /// Whether a version of IP may leave in clear beside peers that have everything of the other.
    pub(crate) fn in_clear(&self) -> Option<InClear> {
        let [one, other] = &VERSIONS;
        let pairs = [(one, other, self.blocks[1]), (other, one, self.blocks[0])];
        pairs.into_iter().find_map(|(has, lacks, is_blocked)| {
            let leaves = self.has_everything(has) && !self.has_everything(lacks) && !is_blocked;
            leaves.then_some(InClear { has, lacks })
        })
    }

    /// The networks that lead nowhere while the tunnel runs.
    pub(crate) fn blocked(&self) -> Vec<Prefix> {
        let blocked = VERSIONS.iter().zip(self.blocks).filter(|(_, is_blocked)| *is_blocked);
        blocked.filter_map(|(version, _)| version.all.parse().ok()).collect()
    }

    /// Reads the key files, and finds the interfaces that endpoints name.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn keys(&self) -> Result<Keys, Unusable> {
        let bad = |file: &Path, why| BadKeyFile { file: file.to_owned(), why };
        let own = |file: &PathBuf| keys::read::<PrivateKey>(file).map_err(|why| bad(file, why));
        let private_key = own(&self.private_key)?;
        let previous_private_key = self.previous_private_key.as_ref().map(own).transpose()?;
        let mut peers = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let read =
                |file: &PathBuf| keys::read::<PresharedKey>(file).map_err(|why| bad(file, why));
            let preshared_key = peer.preshared_key.as_ref().map(read).transpose()?;
            let Peer { public_key, previous_public_key: previous_key, keepalive, .. } = *peer;
            let endpoint = peer.endpoint.as_ref().map(Endpoint::located).transpose()?.flatten();
            peers.push(secure::Peer {
                public_key,
                previous_key,
                preshared_key,
                endpoint,
                keepalive,
            });
        }
        Ok(Keys { private_key, previous_private_key, peers })
    }
}

const DEVICE: &str = "trackway-nc0";
const MAX_ADDRESSES: usize = 16;
/// Routes of a peer.
const MAX_ROUTES: usize = 1_000;
const KEEPALIVE: Kind =
    Kind::Period { least: Duration::from_secs(1), most: Duration::from_secs(600) };

/// Reads the section; with the folder of the configuration, the key files too.
pub(crate) fn read(section: &Section<'_>, folder: Option<&Path>) -> Result<Tunnel, Complaint> {
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let listen = either(section, "listen", vec![everywhere], listen::read);
    let device = either(section, "device", DEVICE.to_owned(), device);
    let own = |entry: &Entry<'_>| {
        let path = file(entry, folder)?;
        let own = folder.map(|_| keys::read::<PrivateKey>(&path)).transpose();
        let own = own.map_err(|why| no_key_file(entry, &path, &why))?;
        Ok((path, own))
    };
    let key = section.needed("private-key").and_then(|entry| own(&entry));
    let previous = either(section, "previous-private-key", None, |it| own(it).map(Some));
    let addresses = section.needed("addresses").and_then(|entry| addresses(&entry, MAX_ADDRESSES));
    let mtu = either(section, "mtu", None, |mtu| mtu.count(576..=65_535).map(Some));
    let fail_open = either(section, "fail-open", false, |it| it.flag());
    let replace_routes = either(section, "replace-routes", false, |it| it.flag());
    let blocks = VERSIONS.each_ref().map(|it| either(section, it.key, false, |it| it.flag()));
    let peers = section.needed("peer").and_then(|entry| {
        some(&entry, MAX_PEERS)?;
        let files = [key.as_ref().ok(), previous.as_ref().ok().and_then(Option::as_ref)];
        let own: Vec<_> = files.into_iter().flatten().filter_map(|(_, own)| own.as_ref()).collect();
        peers(&section.sections("peer")?, listen.as_deref().ok(), &own, folder)
    });
    let [block_ipv4, block_ipv6] = blocks;
    let blocks = [block_ipv4?, block_ipv6?];
    let tunnel = Tunnel {
        listen: listen?,
        private_key: key?.0,
        previous_private_key: previous?.map(|(path, _)| path),
        device: device?,
        addresses: addresses?,
        mtu: mtu?,
        fail_open: fail_open?,
        replace_routes: replace_routes?,
        blocks,
        peers: peers?,
    };
    for (version, is_blocked) in VERSIONS.iter().zip(blocks) {
        if is_blocked && tunnel.has_everything(version) {
            let what = format!("peers have everything of {}: remove one of both", version.name);
            return Err(section.needed(version.key)?.complain(what));
        }
    }
    Ok(tunnel)
}

/// What is allowed, and probably not meant.
pub(crate) fn warnings(
    section: &Section<'_>,
    tunnel: &Tunnel,
) -> Result<Vec<Complaint>, Complaint> {
    let Some(what) = tunnel.in_clear() else { return Ok(Vec::new()) };
    Ok(vec![section.needed("peer")?.remark(what.to_string())])
}

/// Reads the peers; `listen` and `own` are there if they could be read.
fn peers(
    sections: &[Section<'_>],
    listen: Option<&[SocketAddr]>,
    own: &[&PrivateKey],
    folder: Option<&Path>,
) -> Result<Vec<Peer>, Complaint> {
    let mut peers: Vec<Peer> = Vec::with_capacity(sections.len());
    let mut by_key = BTreeMap::new();
    let (mut routes, mut places) = (Vec::new(), Vec::new());
    each(sections, |section| {
        let peer = peer(section, listen, folder)?;
        let name = &peer.name;
        if peers.iter().any(|other| other.name == *name) {
            return Err(section.needed("name")?.complain(format!("{name:?} is there twice")));
        }
        let previous = peer.previous_public_key.map(|key| ("previous-public-key", key));
        for (name, public_key) in [("public-key", peer.public_key)].into_iter().chain(previous) {
            let key = section.needed(name)?;
            if own.iter().any(|own| own.public_key() == public_key) {
                return Err(key.complain("this is our own: each side names the other's"));
            }
            if own.iter().any(|own| key.parsed_public().as_ref() == Ok(*own)) {
                return Err(key.complain(
                "this is our private key: `trackway keygen --public` prints the public one, which the peer's administrator \
                 gives; make another key if others have seen this one",
            ));
            }
            if let Some(other) = by_key.insert(public_key, peer.name.clone()) {
                return Err(key.complain(format!("{other:?} has the same")));
            }
        }
        let id = PeerId::new(peers.len()).expect("they were counted");
        routes.extend(peer.routes.iter().map(|route| (id, *route)));
        places.extend(section.needed("routes")?.list()?);
        peers.push(peer);
        Ok(())
    })?;
    if let Err(Twice { first, second }) = Routes::new(&routes) {
        let (other, route): (PeerId, Prefix) = routes[first];
        let other = &peers[other.index()].name;
        let what = format!("{route} is among the routes of {other:?} already");
        return Err(places[second].complain(what));
    }
    Ok(peers)
}

fn peer(
    section: &Section<'_>,
    listen: Option<&[SocketAddr]>,
    folder: Option<&Path>,
) -> Result<Peer, Complaint> {
    let name = section.needed("name").and_then(|entry| {
        let name = entry.text()?;
        name::check(name).map_err(|what| entry.complain(what))?;
        Ok(name.to_owned())
    });
    let public_key = section.needed("public-key").and_then(|entry| entry.parsed_public());
    let previous_public_key =
        either(section, "previous-public-key", None, |it| it.parsed_public().map(Some));
    let preshared_key = either(section, "preshared-key", None, |entry| {
        let path = file(entry, folder)?;
        if folder.is_some() {
            keys::read::<PresharedKey>(&path).map_err(|why| no_key_file(entry, &path, &why))?;
        }
        Ok(Some(path))
    });
    let endpoint = either(section, "endpoint", None, |it| endpoint::read(it, listen).map(Some));
    let whole = endpoint.as_ref().ok().map(Option::as_ref);
    let paths = further::read(section, whole, listen);
    let routes =
        section.needed("routes").and_then(|entry| each(&some(&entry, MAX_ROUTES)?, network));
    let keepalive =
        either(section, "keepalive", None, |it| Ok(Some(it.read(&KEEPALIVE)?.period())));
    let mut parameters = nc::Config::default();
    let applied = section.apply(&PARAMETERS, &mut parameters);
    let (name, public_key, preshared_key) = (name?, public_key?, preshared_key?);
    let (endpoint, routes, keepalive) = (endpoint?, routes?, keepalive?);
    let (previous_public_key, paths) = (previous_public_key?, paths?);
    applied?;
    Ok(Peer {
        name,
        public_key,
        previous_public_key,
        preshared_key,
        endpoint,
        routes,
        paths,
        keepalive,
        parameters,
    })
}

fn no_key_file(entry: &Entry<'_>, file: &Path, why: &KeyFile) -> Complaint {
    let file = file.display();
    let remedy = match why {
        KeyFile::Unreadable(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let kind = if entry.name().ends_with("preshared-key") { "--group " } else { "" };
            format!("; `trackway keygen {kind}--out {file}` makes one")
        }
        KeyFile::Forbidden { .. }
        | KeyFile::Foreign { .. }
        | KeyFile::Long
        | KeyFile::Malformed(_)
        | KeyFile::Open { .. }
        | KeyFile::Unreadable(_) => String::new(),
    };
    entry.complain(format!("{file}: {why}{remedy}"))
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    let peer = Shape::new()
        .needed("name", "What the peer is called here.", schema::like(name::PATTERN))
        .needed("public-key", "What `trackway keygen` printed at the peer.", schema::text())
        .key(
            "previous-public-key",
            "The one before, which counts as well while the peer changes its key.",
            schema::text(),
        )
        .key("preshared-key", "A file with a secret that both have besides.", schema::text())
        .key(
            "endpoint",
            "Where the peer is called; without, it calls us.",
            schema::like(":[+0-9]+$"),
        )
        .needed(
            "routes",
            "The networks behind the peer, and its own addresses.",
            schema::list(schema::prefix(), 1, MAX_ROUTES),
        )
        .key(
            "path",
            "The further paths to the peer, in the order of both ends.",
            schema::list(further::schema().table(), 1, further::MAX_PATHS),
        )
        .key("keepalive", "Silence after which a keepalive is sent.", schema::of_kind(&KEEPALIVE))
        .parameters(&PARAMETERS.describe(&[("tunnel", nc::Config::default())]));
    Shape::new()
        .key(
            "listen",
            "Where datagrams of peers arrive: an address and port, or several.",
            schema::any([schema::socket(), schema::list(schema::socket(), 1, listen::MAX_LISTEN)]),
        )
        .key("device", "The name of the TUN device.", device_schema())
        .needed("private-key", "The file with our private key.", schema::text())
        .key(
            "previous-private-key",
            "The file with the one before, which counts as well while peers learn the new one.",
            schema::text(),
        )
        .needed(
            "addresses",
            "Those of the device.",
            schema::list(schema::prefix(), 1, MAX_ADDRESSES),
        )
        .key("mtu", "Octets of an outer packet at most.", schema::count(576, 65_535))
        .key(
            "fail-open",
            "Whether packets leave otherwise while there is no tunnel.",
            schema::flag(),
        )
        .key("replace-routes", "Whether routes of others give way meanwhile.", schema::flag())
        .key("block-ipv4", "Whether IPv4 is refused beside a peer for all of IPv6.", schema::flag())
        .key("block-ipv6", "Whether IPv6 is refused beside a peer for all of IPv4.", schema::flag())
        .needed("peer", "The gateways at the other ends.", schema::list(peer.table(), 1, MAX_PEERS))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const TEXT: &str = r#"
        [tunnel]
        private-key = "a.key"
        addresses = ["10.99.0.1/24"]

        [[tunnel.peer]]
        name = "far"
        public-key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        routes = ["10.2.0.0/16"]
    "#;

    #[test]
    fn a_key_an_address_and_a_peer_are_enough() {
        let config = Config::parse("a.toml", TEXT).unwrap();

        let tunnel = config.tunnel.unwrap();
        assert_eq!(config.hbh, None);
        assert_eq!(tunnel.listen, ["0.0.0.0:51900".parse().unwrap()]);
        assert_eq!(tunnel.device, "trackway-nc0");
        assert!(!tunnel.fail_open && !tunnel.replace_routes);
        let [peer] = &tunnel.peers[..] else { panic!("{tunnel:?}") };
        assert_eq!((&peer.endpoint, peer.keepalive, peer.parameters.max_rate), (&None, None, None));
        assert_eq!(peer.parameters.deadline, None);
        assert_eq!(peer.routes, ["10.2.0.0/16".parse().unwrap()]);
    }

    #[test]
    fn a_key_may_have_one_before_it_that_nobody_else_has() {
        let with = |more: &str| TEXT.replace("routes =", &format!("{more}\nroutes ="));
        let before = "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=";
        let its = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let text = with(&format!("previous-public-key = {before:?}"));
        let text = text.replace("addresses =", "previous-private-key = \"old.key\"\naddresses =");
        let config = Config::parse("a.toml", &text).unwrap().tunnel.unwrap();
        let same = Config::parse("a.toml", &with(&format!("previous-public-key = {its:?}")));
        let another = format!(
            "{text}\n[[tunnel.peer]]\nname = \"b\"\npublic-key = {before:?}\nroutes = [\"10.3.0.0/16\"]"
        );
        let another = Config::parse("a.toml", &another);

        assert_eq!(config.previous_private_key, Some("old.key".into()));
        assert_eq!(config.peers[0].previous_public_key, Some(before.parse().unwrap()));
        for refused in [same, another] {
            assert!(refused.unwrap_err().to_string().contains("has the same"));
        }
    }

    #[test]
    fn a_version_of_ip_that_leaves_in_clear_is_warned_of_until_it_is_blocked() {
        let read = |routes: &str, more: &str| {
            let text = TEXT.replace("\"10.2.0.0/16\"", routes);
            let text = text.replace("addresses =", &format!("{more}\naddresses ="));
            Config::parse("a.toml", &text)
        };
        let warnings = |routes: &str, more: &str| {
            let config = read(routes, more).unwrap();
            config.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
        };

        for (routes, said) in [
            ("\"0.0.0.0/0\"", "IPv6 leaves in clear"),
            ("\"0.0.0.0/1\", \"128.0.0.0/1\", \"fd00::/8\"", "block-ipv6 = true"),
            ("\"::/0\", \"10.0.0.0/8\"", "IPv4 leaves in clear"),
        ] {
            let warnings = warnings(routes, "");
            assert!(warnings.len() == 1 && warnings[0].contains(said), "{routes}: {warnings:?}");
        }
        for (routes, more) in [
            ("\"0.0.0.0/0\", \"::/0\"", ""),
            ("\"0.0.0.0/0\", \"::/1\", \"8000::/1\"", ""),
            ("\"0.0.0.0/0\"", "block-ipv6 = true"),
            ("\"::/0\"", "block-ipv4 = true"),
            ("\"10.2.0.0/16\"", ""),
        ] {
            assert_eq!(warnings(routes, more), [] as [String; 0], "{routes} {more}");
        }
        let twice = read("\"0.0.0.0/0\", \"::/0\"", "block-ipv6 = true").unwrap_err();
        assert!(
            twice.to_string().contains("tunnel.block-ipv6: peers have everything of IPv6"),
            "{twice}"
        );
        let blocked = read("\"0.0.0.0/0\"", "block-ipv6 = true").unwrap().tunnel.unwrap().blocked();
        assert_eq!(blocked, ["::/0".parse().unwrap()]);
    }

    #[test]
    fn both_services_may_be_there_and_one_must() {
        let both = format!("hbh.interfaces = [\"wlan0\"]\n{TEXT}");

        let config = Config::parse("a.toml", &both).unwrap();
        let neither = Config::parse("a.toml", "log = \"info\"").unwrap_err();

        assert!(config.tunnel.is_some() && config.hbh.unwrap().interfaces == ["wlan0"]);
        assert_eq!(
            neither.to_string(),
            "a.toml: nothing to do: a section [hbh], [tunnel], [ipclient], [hfpep], [s5066], [sar], [routing] or [[gre]] is needed"
        );
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tunnel");
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            Config::parse(name, &text).unwrap().tunnel.unwrap()
        };

        let (a, b) = (read("tunnel-a.toml"), read("tunnel-b.toml"));

        let endpoint = Endpoint::Address("192.0.2.2:51900".parse().unwrap());
        assert_eq!(a.peers[0].endpoint, Some(endpoint));
        assert_eq!(b.peers[0].endpoint, None);
        assert!(
            a.peers[0].routes.iter().any(|route| b.addresses.iter().any(|own| own.overlaps(route)))
        );
        assert_ne!(a.peers[0].public_key, b.peers[0].public_key);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("a.key\"", "a.key\"\nlisten = \"0.0.0.0:0\"", "4: tunnel.listen: the port 0"),
            (
                "a.key\"",
                "a.key\"\nlisten = \"here\"",
                "4: tunnel.listen: \"here\" is not allowed: an address and a port",
            ),
            ("a.key\"", "a.key\"\nmtu = 500", "4: tunnel.mtu: 500 is not allowed: 576 to 65535"),
            (
                "a.key\"",
                "a.key\"\ndevice = \"a b\"",
                "4: tunnel.device: \"a b\" cannot be an interface",
            ),
            (
                "10.99.0.1/24",
                "10.99.0.1",
                "4: tunnel.addresses: \"10.99.0.1\" is not allowed: no address with its prefix length",
            ),
            ("\"far\"", "\"far away\"", "7: tunnel.peer.name: \"far away\" is not allowed"),
            ("hSDw", "hS", "8: tunnel.peer.public-key: "),
            (
                "10.2.0.0/16",
                "10.2.0.1/16",
                "9: tunnel.peer.routes: 10.2.0.1/16 has host bits: 10.2.0.0/16 is meant",
            ),
            ("[\"10.2.0.0/16\"]", "[]", "9: tunnel.peer.routes: 0 of them: 1 to 1000 are allowed"),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nendpoint = \"[fd00::1]:51900\"",
                "10: tunnel.peer.endpoint: [fd00::1]:51900 is IPv6",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nendpoint = \"0.0.0.0:51900\"",
                "10: tunnel.peer.endpoint: 0.0.0.0:51900 is nowhere",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nkeepalive = \"1ms\"",
                "10: tunnel.peer.keepalive: \"1ms\" is not allowed",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\nmax-rate = \"fast\"",
                "10: tunnel.peer.max-rate: \"fast\" is not a bit rate",
            ),
            (
                "[\"10.2.0.0/16\"]",
                "[\"10.2.0.0/16\"]\ndeadline = \"2h\"",
                "10: tunnel.peer.deadline: \"2h\" is not allowed",
            ),
            ("private-key", "secret_key", "2: tunnel: private-key is missing"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let expected = format!("a.toml:{expected}");
            let is_told = said.lines().any(|line| line.starts_with(&expected));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }

    #[test]
    fn peers_differ_in_name_key_and_routes() {
        let second = |name: &str, key: &str, route: &str| {
            let text = format!(
                "{TEXT}[[tunnel.peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nroutes = [\"{route}\"]"
            );
            Config::parse("a.toml", &text).unwrap_err().to_string()
        };
        let (one, other) = (
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
            "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=",
        );

        assert_eq!(
            second("far", other, "10.3.0.0/16"),
            "a.toml:11: tunnel.peer.name: \"far\" is there twice"
        );
        assert_eq!(
            second("b", one, "10.3.0.0/16"),
            "a.toml:12: tunnel.peer.public-key: \"far\" has the same"
        );
        assert_eq!(
            second("b", other, "10.2.0.0/16"),
            "a.toml:13: tunnel.peer.routes: 10.2.0.0/16 is among the routes of \"far\" already"
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
            missing.contains("3: tunnel.private-key: ")
                && missing.contains("trackway keygen --out"),
            "{missing}"
        );
        assert_eq!((keys.private_key, keys.peers.len()), (own, 1));
        assert!(own_key.contains("8: tunnel.peer.public-key: this is our own"), "{own_key}");
    }
}
