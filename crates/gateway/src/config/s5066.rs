//! Reads the section `s5066`: our own STANAG 5066 node, on an external modem.

use std::net::{Ipv4Addr, SocketAddr};

use hf::s5066::Address;
use hf::s5066::cas::Access;
use hf::s5066::node::{self, Rate};
use hf::s5066::node::{PARAMETERS, SLOT};
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each};

use super::{either, node_schema, some};
use crate::bearer::Allow;

/// A node with its clients and modem.
#[derive(Clone, Debug, PartialEq)]
pub struct S5066 {
    /// The address at which clients connect.
    pub listen: SocketAddr,
    /// Networks with allowed clients; this host is always allowed.
    pub allow: Allow,
    /// The modem's socket, MIL-STD-188-110D appendix A.
    pub modem: SocketAddr,
    /// The node itself.
    pub node: node::Config,
}

/// What documentation takes for the modem's.
pub(crate) const WAVEFORM: &str = "9600/short";
/// Registered for STANAG 5066.
const PORT: u16 = 5_066;
const MAX_NETWORKS: usize = 256;
/// Nobody but its operator can change what a modem behind TCP transmits with.
const RATES: [(&str, Rate); 2] = [("fixed", Rate::Modem), ("adaptive", Rate::Adaptive)];

/// Reads the section.
pub(crate) fn read(section: &Section<'_>) -> Result<S5066, Complaint> {
    let address = section.needed("address").and_then(|entry| {
        let own: Address = entry.parsed()?;
        if own.is_group() {
            let what = format!("{own} is a group: 0.0.0.0 to 15.255.255.255 are not");
            return Err(entry.complain(what));
        }
        Ok(own)
    });
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let listen = either(section, "listen", local, listen);
    let modem = section.needed("modem").and_then(|it| modem(&it, listen.as_ref().ok()));
    let waveform = section.needed("waveform").and_then(|it| it.parsed());
    let rate = either(section, "rate", (), |rate| match rate.word(&RATES)? {
        Rate::Adaptive => Err(rate.complain(
            "\"adaptive\" is not allowed here, only \"fixed\": the protocol of a modem behind TCP \
             tells the rate and takes none, so set it at the modem",
        )),
        Rate::Fixed | Rate::Modem => Ok(()),
    });
    let allow = either(section, "allow", Allow::default(), allow);
    // What is said of parameters does not depend on the station.
    let of = |address: &Result<_, _>, waveform: &Result<_, _>| {
        let usual = || WAVEFORM.parse().expect("a waveform");
        let address = address.as_ref().map_or(Address::node(1), |it| *it);
        node::Config::behind_tcp(address, waveform.as_ref().map_or_else(|_| usual(), |it| *it))
    };
    let mut node = of(&address, &waveform);
    let applied = section.apply(&PARAMETERS, &mut node);
    let slot = section.apply(&SLOT, &mut node);
    address?;
    waveform?;
    applied.and(slot).and(rate)?;
    if let Access::Slotted { .. } = node.access
        && section.get("slot")?.is_none()
    {
        let what = "slot is needed with access = \"slotted\": this station's, from 1";
        return Err(section.complain(what));
    }
    Ok(S5066 { listen: listen?, allow: allow?, modem: modem?, node })
}

/// The networks that clients may come from.
fn allow(entry: &Entry<'_>) -> Result<Allow, Complaint> {
    each(&some(entry, MAX_NETWORKS)?, Entry::parsed).map(Allow::networks)
}

/// Where to listen.
pub(crate) fn listen(entry: &Entry<'_>) -> Result<SocketAddr, Complaint> {
    let listen = entry.socket()?;
    if listen.port() == 0 {
        return Err(entry.complain("the port 0 is not allowed"));
    }
    Ok(listen)
}

fn modem(entry: &Entry<'_>, listen: Option<&SocketAddr>) -> Result<SocketAddr, Complaint> {
    let modem = entry.socket()?;
    let what = if modem.port() == 0 || modem.ip().is_unspecified() {
        format!("{modem} is nowhere: an address and port, such as 192.0.2.7:3000")
    } else if Some(&modem) == listen {
        format!("{modem} is where we listen for clients")
    } else {
        return Ok(modem);
    };
    Err(entry.complain(what))
}

/// Describes the section for editors.
pub(crate) fn schema() -> Shape {
    let (address, waveform) = (Address::node(1), WAVEFORM.parse().expect("a waveform"));
    let node = node::Config::behind_tcp(address, waveform);
    let slotted = Access::Slotted { position: 0, stations: 2 };
    let in_slots = node::Config { access: slotted, ..node.clone() };
    Shape::new()
        .parameters(&PARAMETERS.describe(&[("[s5066]", node)]))
        .parameters(&SLOT.describe(&[("slot", in_slots)]))
        .needed("address", "The address of this node.", node_schema())
        .key("listen", "Where clients connect.", schema::socket())
        .key(
            "allow",
            "The networks of clients, besides this host.",
            schema::list(schema::prefix(), 1, MAX_NETWORKS),
        )
        .needed("modem", "The modem's socket.", schema::socket())
        .needed(
            "waveform",
            "What the modem transmits with, such as \"9600/short\".",
            schema::text(),
        )
        .key("rate", "Who sets the modem's rate: its operator.", schema::like("^fixed$"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hf::s5066::node::Extensions;

    use super::super::Config;
    use super::*;

    const TEXT: &str = r#"
        [s5066]
        address = "0.10.20.30"
        modem = "192.0.2.7:3000"
        waveform = "9600/short"
    "#;

    #[test]
    fn an_address_a_modem_and_a_waveform_are_enough() {
        let node = Config::parse("a.toml", TEXT).unwrap().s5066.unwrap();

        assert_eq!(node.listen, "127.0.0.1:5066".parse().unwrap());
        assert_eq!(node.allow, Allow::default(), "this host alone");
        let node = node.node;
        assert_eq!(node.address.to_string(), "0.10.20.30");
        assert_eq!((node.waveform.bits_per_s(), node.sis.limits.max_clients), (9_600, 64));
        let default = node::Config::new(node.address, node.waveform);
        assert_eq!((node.longest, node.exchange), (default.longest, default.exchange));
        assert_eq!((node.link, node.extensions), (default.link, default.extensions));
        assert_eq!((node.rate, node.sis.is_broadcast_only), (Rate::Modem, false));
    }

    #[test]
    fn clients_come_from_the_networks_told() {
        let read = |allow: &str| {
            let text = format!("{TEXT}\nallow = {allow}");
            Config::parse("a.toml", &text).map(|config| config.s5066.unwrap().allow)
        };
        let networks = ["192.0.2.0/24", "2001:db8::/32"];

        let expected = networks.map(|it| it.parse().unwrap());
        assert_eq!(read(&format!("{networks:?}")), Ok(Allow::networks(expected.into())));
        for wrong in ["[]", "[\"192.0.2.1\"]", "\"everybody\""] {
            let said = read(wrong).unwrap_err().to_string();
            assert!(said.contains("s5066.allow"), "{said}");
        }
    }

    #[test]
    fn the_frequency_is_shared_as_told() {
        let access = |added: &str| {
            Config::parse("a.toml", &format!("{TEXT}{added}"))
                .map(|it| it.s5066.unwrap().node.access)
        };

        assert_eq!(access(""), Ok(Access::PointToPoint));
        assert_eq!(
            access("access = \"jitter\"\njitter = \"3s\""),
            Ok(Access::Jitter { limit: Duration::from_secs(3) })
        );
        assert_eq!(
            access("access = \"slotted\"\nslot = 2\nstations = 4"),
            Ok(Access::Slotted { position: 1, stations: 4 })
        );
        for (added, expected) in [
            ("slot = 2", "slot: it is for access = \"slotted\""),
            ("access = \"slotted\"", "slot is needed with"),
            ("access = \"slotted\"\nslot = 3", "slot = 3, stations = 2 are not allowed together"),
        ] {
            let said = access(added).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn the_node_is_as_the_keys_say() {
        let added = r#"
            longest = "30s"
            exchange = "20s"
            longest-beside-urgent = "10s"
            switching = "0s"
            calls = 9
            idle = "1min"
            ack-copies = 3
            edition-3 = true
            broadcast-only = true
            rate = "fixed"
        "#;

        let node = Config::parse("a.toml", &format!("{TEXT}{added}")).unwrap().s5066.unwrap().node;

        let seconds = [node.longest, node.exchange, node.longest_beside_urgent, node.switching];
        assert_eq!(seconds.map(|it| it.as_secs()), [30, 20, 10, 0]);
        assert_eq!((node.link.calls, node.link.idle.as_secs(), node.ack_copies), (9, 60, 3));
        assert_eq!(node.extensions, Extensions::NONE);
        assert!(node.sis.is_broadcast_only);
        assert!(!node.sis.has_messages);
    }

    #[test]
    fn the_example_is_valid_and_says_the_defaults() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hf/s5066.toml");

        let example = Config::read(path.as_ref()).unwrap().s5066.unwrap();

        assert_eq!(example.modem, "127.0.0.1:3000".parse().unwrap());
        let default = Config::parse("a.toml", TEXT).unwrap().s5066.unwrap();
        assert_eq!(example.node, default.node);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("0.10.20.30", "16.0.0.1", "3: s5066.address: 16.0.0.1 is a group"),
            ("0.10.20.30", "10.20.30", "3: s5066.address: \"10.20.30\" is not allowed: a node"),
            ("192.0.2.7:3000", "0.0.0.0:3000", "4: s5066.modem: 0.0.0.0:3000 is nowhere"),
            ("192.0.2.7:3000", "127.0.0.1:5066", "4: s5066.modem: 127.0.0.1:5066 is where we"),
            ("9600/short", "9601", "5: s5066.waveform: \"9601\" is not allowed: no 9601 bit/s"),
            (
                "wave",
                "rate = \"adaptive\"\nwave",
                "5: s5066.rate: \"adaptive\" is not allowed here, only \"fixed\": the protocol of",
            ),
            (
                "wave",
                "rate = \"slow\"\nwave",
                "5: s5066.rate: \"slow\" is not allowed: \"fixed\", ",
            ),
            ("wave", "clients = 0\nwave", "5: s5066.clients: 0 is not allowed: 1 to 256"),
            ("wave", "listen = \"[::1]:0\"\nwave", "5: s5066.listen: the port 0"),
            (
                "wave",
                "longest = \"900ms\"\nwave",
                "5: s5066.longest: \"900ms\" is not allowed: 1s to 127.5s",
            ),
            (
                "wave",
                "exchange = \"4s\"\nwave",
                "5: s5066.exchange: \"4s\" is not allowed: 5s to 10min",
            ),
            (
                "wave",
                "longest = \"9s\"\nlongest-beside-urgent = \"10s\"\nwave",
                "6: s5066.longest-beside-urgent: longest-beside-urgent = \"10s\", longest = \"9s\" are not",
            ),
            (
                "wave",
                "switching = \"11s\"\nwave",
                "5: s5066.switching: \"11s\" is not allowed: 0s to 10s",
            ),
            (
                "wave",
                "switching = 1\nwave",
                "5: s5066.switching: \"1\" is not a time with its unit",
            ),
            ("wave", "calls = 0\nwave", "5: s5066.calls: 0 is not allowed: 1 to 20"),
            ("wave", "idle = \"0s\"\nwave", "5: s5066.idle: \"0s\" is not allowed: 1s to 1h"),
            ("wave", "ack-copies = 6\nwave", "5: s5066.ack-copies: 6 is not allowed: 1 to 5"),
            ("modem", "modme", "4: s5066.modme: there is no such key; modem is probably meant"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }
}
