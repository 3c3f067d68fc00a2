//! Reads the group key of stations on HF, and the list of nodes without a key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::keys::GroupSecret;
use hf::s5066::{Address, seal};
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::{neighbours, node_schema, some};
use crate::keys::{self, BadKeyFile};

/// The group key of a service on HF.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// The file with its key.
    pub key: PathBuf,
    /// The address of our node.
    pub own: Address,
    /// Nodes accepted without a seal.
    pub unauthenticated: BTreeSet<Address>,
}

/// Nodes without a seal at most.
const MAX_UNAUTHENTICATED: usize = 256;

impl Group {
    /// Reads the file of the key; the clock says this much at time zero of the core, since 1970.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub(crate) fn core(&self, clock: Duration) -> Result<seal::Config, BadKeyFile> {
        let read = keys::read::<GroupSecret>(&self.key);
        let secret = read.map_err(|why| BadKeyFile { file: self.key.clone(), why })?;
        Ok(seal::Config {
            key: seal::Key::new(secret.octets()),
            own: self.own,
            unauthenticated: self.unauthenticated.clone(),
            clock,
        })
    }
}

/// Reads `group-key`, `own-node` and `unauthenticated` of a section; `node` is the address in `[s5066]`, if there is one.
pub(crate) fn read(
    section: &Section<'_>,
    folder: Option<&Path>,
    node: impl Fn() -> Result<Option<Address>, Complaint>,
) -> Result<Option<Group>, Complaint> {
    let own_entry = section.get("own-node");
    let listed = section.get("unauthenticated");
    let file = section.get("group-key");
    let (own_entry, listed) = (own_entry?, listed?);
    let Some(file) = file? else {
        return match own_entry.or(listed) {
            Some(entry) => Err(entry.complain("it says nothing without group-key")),
            None => Ok(None),
        };
    };
    let key = neighbours::group_key(&file, folder);
    let own = match own_entry {
        Some(entry) => station(&entry, "a node is 0.0.0.0 to 15.255.255.255"),
        None => node().and_then(|node| {
            node.ok_or_else(|| {
                file.complain(
                    "own-node is needed with it: the address of the node at `server`, which seals name and a node \
                     does not tell its clients",
                )
            })
        }),
    };
    let mut unauthenticated = BTreeSet::new();
    let entries = listed.map(|entry| some(&entry, MAX_UNAUTHENTICATED)).transpose();
    let read = |entry: &Entry<'_>| {
        let node = station(entry, "what is for all is for members")?;
        if own.as_ref() == Ok(&node) || !unauthenticated.insert(node) {
            return Err(entry.complain(format!("{node} is this gateway's node, or there twice")));
        }
        Ok(())
    };
    let listed = entries.and_then(|entries| each(&entries.unwrap_or_default(), read));
    let (key, _) = (key?, listed?);
    Ok(Some(Group { key, own: own?, unauthenticated }))
}

/// Reads the address of a single station, and refuses groups; `why` says what a group would mean.
fn station(entry: &Entry<'_>, why: &str) -> Result<Address, Complaint> {
    let node: Address = entry.parsed()?;
    if node.is_group() {
        return Err(entry.complain(format!("{node} is a group: {why}")));
    }
    Ok(node)
}

/// Adds the group's keys to a section.
pub(crate) fn schema(keys: Shape) -> Shape {
    keys.key("group-key", "The file with the key of the stations' group.", schema::text())
        .key("own-node", "The address of the node at `server`.", node_schema())
        .key(
            "unauthenticated",
            "Nodes that are believed without a seal.",
            schema::list(node_schema(), 1, MAX_UNAUTHENTICATED),
        )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use base::keys::GroupSecret;

    use super::super::Config;
    use super::super::hfpep::Far;
    use super::*;

    const IP: &str = "[ipclient]\naddresses = [\"10.66.0.1/24\"]\nMORE\n\
                      [[ipclient.route]]\nnode = \"0.10.20.31\"\nto = [\"10.2.0.0/16\"]\n";
    const PEP: &str =
        "[hfpep]\nMORE\n[[hfpep.peer]]\nnode = \"0.10.20.31\"\nto = [\"10.2.0.0/16\"]\n";
    const NODE: &str = "[s5066]\naddress = \"0.10.20.30\"\nmodem = \"192.0.2.7:3000\"\n\
                        waveform = \"9600/short\"\n";

    fn groups(text: &str) -> Result<[Option<Group>; 2], String> {
        let config = Config::parse("a.toml", text).map_err(|why| why.to_string())?;
        Ok([config.ip_client.and_then(|it| it.group), config.hf_pep.and_then(|it| it.group)])
    }

    #[test]
    fn a_group_has_a_key_and_knows_its_own_node() {
        let more = "group-key = \"group.key\"\nown-node = \"0.10.20.30\"\n\
                    unauthenticated = [\"0.10.20.40\"]";
        let expected = Group {
            key: "group.key".into(),
            own: "0.10.20.30".parse().unwrap(),
            unauthenticated: ["0.10.20.40".parse().unwrap()].into(),
        };

        let text = format!("{IP}{PEP}").replace("MORE", more);
        assert_eq!(groups(&text), Ok([Some(expected.clone()), Some(expected)]));
        assert_eq!(groups(&format!("{IP}{PEP}").replace("MORE", "")), Ok([None, None]));
        // A node of the same gateway tells its own address.
        let own = groups(&format!("{IP}{NODE}").replace("MORE", "group-key = \"a\"")).unwrap();
        assert_eq!(own[0].as_ref().unwrap().own.to_string(), "0.10.20.30");
    }

    #[test]
    fn what_makes_no_group_is_refused() {
        for (more, expected) in [
            ("group-key = \"a\"", "3: ipclient.group-key: own-node is needed with it"),
            (
                "own-node = \"0.10.20.30\"",
                "3: ipclient.own-node: it says nothing without group-key",
            ),
            (
                "unauthenticated = [\"0.10.20.30\"]",
                "3: ipclient.unauthenticated: it says nothing without group-key",
            ),
            (
                "group-key = \"a\"\nown-node = \"16.0.0.1\"",
                "4: ipclient.own-node: 16.0.0.1 is a group",
            ),
            (
                "group-key = \"a\"\nown-node = \"0.0.0.1\"\nunauthenticated = [\"16.0.0.1\"]",
                "5: ipclient.unauthenticated: 16.0.0.1 is a group",
            ),
            (
                "group-key = \"a\"\nown-node = \"0.0.0.1\"\nunauthenticated = [\"0.0.0.1\"]",
                "5: ipclient.unauthenticated: 0.0.0.1 is this gateway's node",
            ),
            (
                "group-key = \"a\"\nown-node = \"0.0.0.1\"\nmtu = 1291\n\
                 addresses6 = 1",
                "ipclient.addresses6: there is no such key",
            ),
        ] {
            let said = groups(&IP.replace("MORE", more)).unwrap_err();
            assert!(
                said.starts_with("a.toml:") && said.contains(expected),
                "{said}\nnot\n{expected}"
            );
        }
        let bearer = "[hfpep]\ngroup-key = \"a\"\nown-node = \"0.0.0.1\"\n[[hfpep.peer]]\n\
                      gateway = \"192.0.2.2:5099\"\nto = [\"10.2.0.0/16\"]\n";
        let said = groups(bearer).unwrap_err();
        assert!(said.starts_with("a.toml:2: hfpep.group-key: nothing goes over HF"), "{said}");
        let small = "group-key = \"a\"\nown-node = \"0.0.0.1\"\nmtu = 1291";
        let text = IP.replace("10.66.0.1/24", "fd66::1/64").replace("MORE", small);
        let said = groups(&text).unwrap_err();
        let expected = "a.toml:5: ipclient.mtu: 1291 is not allowed: IPv6 needs 1292 at least";
        assert_eq!(said, expected);
    }

    #[test]
    fn its_key_is_read_from_a_file_and_is_the_same_for_all_services() {
        let folder = std::env::temp_dir().join(format!("trackway-seal-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [config, key] = ["a.toml", "group.key"].map(|name| folder.join(name));
        let more = "group-key = \"group.key\"\nown-node = \"0.10.20.30\"";
        fs::write(&config, format!("{IP}{PEP}").replace("MORE", more)).unwrap();
        let read = || Config::read(&config).map_err(|why| why.to_string());

        let missing = read().unwrap_err();
        let secret = GroupSecret::generate(&mut keys::System).unwrap();
        keys::write_new(&key, &secret.to_base64()).unwrap();
        let config = read().unwrap();
        let clock = Duration::from_secs(7);
        let cores = [config.ip_client.unwrap().group, config.hf_pep.unwrap().group];
        let cores = cores.map(|group| group.unwrap().core(clock).unwrap());
        fs::remove_dir_all(&folder).unwrap();

        assert!(missing.contains("a.toml:3: ipclient.group-key: "), "{missing}");
        assert!(missing.contains("`trackway keygen --group --out "), "{missing}");
        assert_eq!(cores[0], cores[1]);
        assert_eq!(cores[0].key, seal::Key::new(secret.octets()));
        assert_eq!(cores[0].clock, clock);
    }

    #[test]
    fn the_examples_are_valid_and_a_pair() {
        let read = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hf");
            // Without its key, which each network makes for itself.
            let config =
                Config::parse(name, &fs::read_to_string(folder.join(name)).unwrap()).unwrap();
            assert_eq!(config.warnings().len(), 0, "{:?}", config.warnings());
            config
        };

        let both = ["hf-group-a.toml", "hf-group-b.toml"].map(read);

        for [near, far] in [[&both[0], &both[1]], [&both[1], &both[0]]] {
            let (ip, pep) = (near.ip_client.as_ref().unwrap(), near.hf_pep.as_ref().unwrap());
            let own = ip.group.as_ref().unwrap().own;
            assert_eq!(ip.group, pep.group);
            assert!(far.ip_client.as_ref().unwrap().routes.iter().all(|route| route.node == own));
            let peers = &far.hf_pep.as_ref().unwrap().peers;
            assert!(peers.iter().all(|peer| peer.far == Far::Node(own)), "{peers:?}");
        }
    }

    #[test]
    fn a_check_warns_of_what_rests_on_addresses_that_nobody_proves() {
        let warnings = |text: &str| {
            let config = Config::parse("a.toml", text).unwrap();
            config.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let group = "group-key = \"a\"\nown-node = \"0.10.20.30\"";
        let tls = "[[tls]]\nname = \"shore\"\nrole = \"client\"\ntrust-anchors = \"ca.crt\"\n\
                   target = [{ id = \"bob\", to = \"10.9.0.1:8089\", node = \"0.0.0.9\" }]\n";
        let shore = format!("[hfpep]\nmode = \"shore\"\ntls = \"shore\"\nMORE\n{tls}");

        let transparent = warnings(&PEP.replace("MORE", ""));
        assert_eq!(transparent.len(), 1);
        let expected = "a.toml:1: hfpep: targets see the client addresses that far nodes tell";
        assert!(transparent[0].starts_with(expected), "{transparent:?}");
        let auth = warnings(&shore.replace("MORE", ""));
        assert_eq!(auth.len(), 1);
        assert!(auth[0].starts_with("a.toml:3: hfpep.tls: "), "{auth:?}");
        assert!(auth[0].contains("Auth ID"), "{auth:?}");
        for text in [
            PEP.replace("MORE", group),
            shore.replace("MORE", group),
            IP.replace("MORE", ""),
            "[hfpep]\n[[hfpep.peer]]\ngateway = \"192.0.2.2:5099\"\nto = [\"10.2.0.0/16\"]\n"
                .into(),
        ] {
            assert_eq!(warnings(&text), [] as [String; 0], "{text}");
        }
        let allow = "allow = [{ to = \"10.2.0.0/16\", node = \"0.0.0.9\" }]";
        let let_in = warnings(&format!("[hfpep]\nmode = \"shore\"\n{allow}\n"));
        assert!(let_in[0].starts_with("a.toml:3: hfpep.allow: nodes are let in by"), "{let_in:?}");
        let listed = format!("{group}\nunauthenticated = [\"0.10.20.40\"]");
        let some = warnings(&PEP.replace("MORE", &listed));
        assert!(some[0].contains("0.10.20.40 are not authenticated"), "{some:?}");
    }
}
