//! The section `s5066`: a STANAG 5066 node of our own, on a modem outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use proto::modem::Waveform;
use proto::s5066::cas::Access;
use proto::s5066::node::{self, Extensions, Rate};
use proto::s5066::parameters::{Choices, JITTER, Parameter, Unfit};
use proto::s5066::{Address, sis};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Between, Parsed, Period, Span};

/// A node, its clients and its modem.
#[derive(Clone, Debug, PartialEq)]
pub struct S5066 {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The modem's socket, MIL-STD-188-110D appendix A.
    pub modem: SocketAddr,
    /// The node itself.
    pub node: node::Config,
}

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    address: Spanned<Parsed<Address>>,
    #[serde(default)]
    listen: Option<Spanned<Parsed<SocketAddr>>>,
    modem: Spanned<Parsed<SocketAddr>>,
    waveform: Parsed<Waveform>,
    #[serde(default)]
    clients: Option<Between<1, 256>>,
    #[serde(default)]
    rate: Option<Spanned<RateName>>,
    #[serde(default)]
    access: AccessName,
    #[serde(default)]
    jitter: Option<Spanned<Period>>,
    #[serde(default)]
    slot: Option<Spanned<Between<1, 64>>>,
    #[serde(default)]
    stations: Option<Spanned<Between<2, 64>>>,
    #[serde(default)]
    longest: Option<Spanned<Period>>,
    #[serde(default)]
    exchange: Option<Spanned<Period>>,
    #[serde(default)]
    longest_beside_urgent: Option<Spanned<Period>>,
    #[serde(default)]
    switching: Option<Spanned<Period>>,
    #[serde(default)]
    calls: Option<Spanned<i64>>,
    #[serde(default)]
    idle: Option<Spanned<Period>>,
    #[serde(default)]
    ack_copies: Option<Spanned<i64>>,
    #[serde(default)]
    broadcast_only: bool,
    #[serde(default)]
    edition_3: bool,
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum RateName {
    Adaptive,
    Fixed,
}

#[derive(Clone, Copy, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum AccessName {
    Jitter,
    #[default]
    PointToPoint,
    Slotted,
}

/// How long a modem may take from the command to transmit to its preamble, unless told otherwise:
/// one behind TCP fills buffers before it transmits.
const MODEM_START: Duration = Duration::from_millis(500);
/// Registered for STANAG 5066.
const PORT: u16 = 5_066;
/// More than the standard's five, and than the fifty that we promise.
const CLIENTS: usize = 64;

type Fault = (Span, String);

impl Section {
    pub(super) fn check(self) -> Result<S5066, Fault> {
        let address = self.address.get_ref().0;
        if address.is_group() {
            let what = format!("address: {address} is a group: 0.0.0.0 to 15.255.255.255 are not");
            return Err((self.address.span(), what));
        }
        let listen = match &self.listen {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            Some(given) if given.get_ref().0.port() == 0 => {
                return Err((given.span(), "listen: the port 0 is not allowed".to_owned()));
            }
            Some(given) => given.get_ref().0,
        };
        let modem = self.modem.get_ref().0;
        if modem.port() == 0 || modem.ip().is_unspecified() {
            let what =
                format!("modem: {modem} is nowhere: an address and port, such as 192.0.2.7:3000");
            return Err((self.modem.span(), what));
        }
        if modem == listen {
            let what = format!("modem: {modem} is where we listen for clients");
            return Err((self.modem.span(), what));
        }
        let is_adaptive = |rate: &&Spanned<RateName>| *rate.get_ref() == RateName::Adaptive;
        if let Some(rate) = self.rate.as_ref().filter(is_adaptive) {
            let what = "rate: \"adaptive\" is not allowed here, only \"fixed\": the protocol of a \
                        modem behind TCP tells the rate and takes none, so set it at the modem";
            return Err((rate.span(), what.to_owned()));
        }
        Ok(S5066 { listen, modem, node: self.node(address)? })
    }

    fn node(&self, address: Address) -> Result<node::Config, Fault> {
        let default = node::Config::new(address, self.waveform.0);
        let extensions = if self.edition_3 { Extensions::NONE } else { default.extensions };
        let mut node = node::Config {
            // Nobody but its operator can change what a modem behind TCP transmits with.
            rate: Rate::Modem,
            access: self.access()?,
            sis: sis::Config {
                max_clients: self.clients.map_or(CLIENTS, Between::as_usize),
                has_messages: !self.edition_3,
                is_broadcast_only: self.broadcast_only,
                ..default.sis
            },
            switching: MODEM_START,
            // A modem behind TCP hands on whole blocks.
            decoding: self.waveform.0.block_time(),
            extensions,
            ..default
        };
        self.choices().apply(&mut node).map_err(|unfit| self.fault(unfit))?;
        Ok(node)
    }

    fn choices(&self) -> Choices {
        let period = |key: &Option<Spanned<Period>>| key.as_ref().map(|it| it.get_ref().0);
        let number = |key: &Option<Spanned<i64>>| key.as_ref().map(|it| *it.get_ref());
        Choices {
            ack_copies: number(&self.ack_copies),
            calls: number(&self.calls),
            exchange: period(&self.exchange),
            idle: period(&self.idle),
            longest: period(&self.longest),
            longest_beside_urgent: period(&self.longest_beside_urgent),
            switching: period(&self.switching),
        }
    }

    /// What is wrong with a choice, and where it stands.
    fn fault(&self, unfit: Unfit) -> Fault {
        let of_period = |key: &Option<Spanned<Period>>| key.as_ref().map(Spanned::span);
        let of_number = |key: &Option<Spanned<i64>>| key.as_ref().map(Spanned::span);
        let (key, span) = match unfit.parameter {
            Parameter::AckCopies => ("ack_copies", of_number(&self.ack_copies)),
            Parameter::Calls => ("calls", of_number(&self.calls)),
            Parameter::Exchange => ("exchange", of_period(&self.exchange)),
            Parameter::Idle => ("idle", of_period(&self.idle)),
            Parameter::Longest => ("longest", of_period(&self.longest)),
            Parameter::LongestBesideUrgent => {
                ("longest_beside_urgent", of_period(&self.longest_beside_urgent))
            }
            Parameter::Switching => ("switching", of_period(&self.switching)),
        };
        (span.unwrap_or_else(|| self.address.span()), format!("{key}: {unfit}"))
    }

    fn access(&self) -> Result<Access, Fault> {
        let wrong = |span: Span, key: &str, needs: &str| {
            Err((span, format!("{key}: it is for access = \"{needs}\"")))
        };
        match (&self.jitter, &self.slot, &self.stations) {
            (Some(given), _, _) if self.access != AccessName::Jitter => {
                wrong(given.span(), "jitter", "jitter")
            }
            (_, Some(given), _) if self.access != AccessName::Slotted => {
                wrong(given.span(), "slot", "slotted")
            }
            (_, _, Some(given)) if self.access != AccessName::Slotted => {
                wrong(given.span(), "stations", "slotted")
            }
            (jitter, slot, stations) => match self.access {
                AccessName::PointToPoint => Ok(Access::PointToPoint),
                AccessName::Jitter => {
                    let limit = jitter.as_ref().map_or(JITTER, |given| given.get_ref().0);
                    Ok(Access::Jitter { limit })
                }
                AccessName::Slotted => {
                    let number = |given: usize| u8::try_from(given).unwrap_or(u8::MAX);
                    let stations = stations.as_ref().map_or(2, |given| given.get_ref().as_usize());
                    let Some(slot) = slot else {
                        let what = "slot: needed with access = \"slotted\": this station's, from 1";
                        return Err((self.address.span(), what.to_owned()));
                    };
                    let own = slot.get_ref().as_usize();
                    if own > stations {
                        let what =
                            format!("slot: {own} is not allowed: 1 to {stations}, the stations");
                        return Err((slot.span(), what));
                    }
                    Ok(Access::Slotted { position: number(own - 1), stations: number(stations) })
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
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
        let node = node.node;
        assert_eq!(node.address.to_string(), "0.10.20.30");
        assert_eq!((node.waveform.bits_per_s(), node.sis.max_clients), (9_600, 64));
        let default = node::Config::new(node.address, node.waveform);
        assert_eq!((node.longest, node.exchange), (default.longest, default.exchange));
        assert_eq!((node.link, node.extensions), (default.link, default.extensions));
        assert_eq!((node.rate, node.sis.is_broadcast_only), (Rate::Modem, false));
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
            ("access = \"slotted\"", "slot: needed with"),
            ("access = \"slotted\"\nslot = 3", "slot: 3 is not allowed: 1 to 2"),
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
            longest_beside_urgent = "10s"
            switching = "0s"
            calls = 9
            idle = "1min"
            ack_copies = 3
            edition_3 = true
            broadcast_only = true
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/s5066.toml");

        let example = Config::read(path.as_ref()).unwrap().s5066.unwrap();

        assert_eq!(example.modem, "127.0.0.1:3000".parse().unwrap());
        let default = Config::parse("a.toml", TEXT).unwrap().s5066.unwrap();
        assert_eq!(example.node, default.node);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("0.10.20.30", "16.0.0.1", "line 3: address: 16.0.0.1 is a group"),
            ("0.10.20.30", "10.20.30", "line 3: address: \"10.20.30\" is not allowed: a node"),
            ("192.0.2.7:3000", "0.0.0.0:3000", "line 4: modem: 0.0.0.0:3000 is nowhere"),
            ("192.0.2.7:3000", "127.0.0.1:5066", "line 4: modem: 127.0.0.1:5066 is where we"),
            ("9600/short", "9601", "line 5: waveform: \"9601\" is not allowed: no 9601 bit/s"),
            (
                "wave",
                "rate = \"adaptive\"\nwave",
                "line 5: rate: \"adaptive\" is not allowed here, only \"fixed\": the protocol of",
            ),
            ("wave", "rate = \"slow\"\nwave", "line 5: rate: unknown variant `slow`"),
            ("wave", "clients = 0\nwave", "line 5: clients: 0 is not allowed: 1 to 256"),
            ("wave", "listen = \"[::1]:0\"\nwave", "line 5: listen: the port 0"),
            (
                "wave",
                "longest = \"900ms\"\nwave",
                "line 5: longest: 900ms is not allowed: 1s to 127.5s",
            ),
            ("wave", "exchange = \"4s\"\nwave", "line 5: exchange: 4s is not allowed: 5s to 600s"),
            (
                "wave",
                "longest = \"9s\"\nlongest_beside_urgent = \"10s\"\nwave",
                "line 6: longest_beside_urgent: 10s is not allowed: 1s to 9s, which is the longest",
            ),
            (
                "wave",
                "switching = \"11s\"\nwave",
                "line 5: switching: 11s is not allowed: 0s to 10s",
            ),
            ("wave", "switching = 1\nwave", "line 5: switching: invalid type"),
            ("wave", "calls = 0\nwave", "line 5: calls: 0 is not allowed: 1 to 20"),
            ("wave", "idle = \"0s\"\nwave", "line 5: idle: 0s is not allowed: 1s to 3600s"),
            ("wave", "ack_copies = 6\nwave", "line 5: ack_copies: 6 is not allowed: 1 to 5"),
            ("modem", "modme", "line 4: unknown field `modme`"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("a.toml, {expected}")), "{said}\nnot\n{expected}");
        }
    }
}
