//! The section `s5066`: a STANAG 5066 node of our own, on a modem outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use proto::modem::Waveform;
use proto::s5066::Address;
use proto::s5066::cas::Access;
use proto::s5066::node::Rate;
use serde::Deserialize;
use toml::Spanned;

use super::value::{Between, Parsed, Period, Span};

/// A node, its clients and its modem.
#[derive(Clone, Debug, PartialEq)]
pub struct S5066 {
    /// The node's address.
    pub address: Address,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The modem's socket, MIL-STD-188-110D appendix A.
    pub modem: SocketAddr,
    /// How the modem sends.
    pub waveform: Waveform,
    /// Clients at a time.
    pub clients: usize,
    /// Whether the data rate follows the channel; only where the modem's preambles tell it.
    pub rate: Rate,
    /// How the frequency is shared.
    pub access: Access,
    /// Whether nothing beyond Edition 3 is used.
    pub is_edition_3: bool,
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
    rate: RateName,
    #[serde(default)]
    access: AccessName,
    #[serde(default)]
    jitter: Option<Spanned<Period>>,
    #[serde(default)]
    slot: Option<Spanned<Between<1, 64>>>,
    #[serde(default)]
    stations: Option<Spanned<Between<2, 64>>>,
    #[serde(default)]
    edition_3: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RateName {
    Adaptive,
    #[default]
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

/// The longest random wait unless told otherwise: some slots of the slowest waveforms.
const JITTER: Duration = Duration::from_secs(5);

/// Registered for STANAG 5066.
const PORT: u16 = 5_066;
/// More than the standard's five, and than the fifty that we promise.
const CLIENTS: usize = 64;

type Fault = (Span, String);

impl Section {
    pub(super) fn check(self) -> Result<S5066, Fault> {
        let access = self.access()?;
        let (span, address) = (self.address.span(), self.address.into_inner().0);
        if address.is_group() {
            let what = format!("address: {address} is a group: 0.0.0.0 to 15.255.255.255 are not");
            return Err((span, what));
        }
        let listen = match self.listen {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            Some(given) if given.get_ref().0.port() == 0 => {
                return Err((given.span(), "listen: the port 0 is not allowed".to_owned()));
            }
            Some(given) => given.into_inner().0,
        };
        let (span, modem) = (self.modem.span(), self.modem.into_inner().0);
        if modem.port() == 0 || modem.ip().is_unspecified() {
            let what =
                format!("modem: {modem} is nowhere: an address and port, such as 192.0.2.7:3000");
            return Err((span, what));
        }
        if modem == listen {
            return Err((span, format!("modem: {modem} is where we listen for clients")));
        }
        let clients = self.clients.map_or(CLIENTS, Between::as_usize);
        let rate = match self.rate {
            RateName::Adaptive => Rate::Adaptive,
            RateName::Fixed => Rate::Fixed,
        };
        let (waveform, is_edition_3) = (self.waveform.0, self.edition_3);
        Ok(S5066 { address, listen, modem, waveform, clients, rate, access, is_edition_3 })
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

        assert_eq!(node.address.to_string(), "0.10.20.30");
        assert_eq!(node.listen, "127.0.0.1:5066".parse().unwrap());
        assert_eq!((node.waveform.bits_per_s(), node.clients), (9_600, 64));
    }

    #[test]
    fn the_frequency_is_shared_as_told() {
        let access = |added: &str| {
            Config::parse("a.toml", &format!("{TEXT}{added}")).map(|it| it.s5066.unwrap().access)
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
    fn the_example_is_valid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/s5066.toml");

        let node = Config::read(path.as_ref()).unwrap().s5066.unwrap();

        assert_eq!(node.modem, "127.0.0.1:3000".parse().unwrap());
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        for (from, to, expected) in [
            ("0.10.20.30", "16.0.0.1", "line 3: address: 16.0.0.1 is a group"),
            ("0.10.20.30", "10.20.30", "line 3: address: \"10.20.30\" is not allowed: a node"),
            ("192.0.2.7:3000", "0.0.0.0:3000", "line 4: modem: 0.0.0.0:3000 is nowhere"),
            ("192.0.2.7:3000", "127.0.0.1:5066", "line 4: modem: 127.0.0.1:5066 is where we"),
            ("9600/short", "9601", "line 5: waveform: \"9601\" is not allowed: no 9601 bit/s"),
            ("wave", "clients = 0\nwave", "line 5: clients: 0 is not allowed: 1 to 256"),
            ("wave", "listen = \"[::1]:0\"\nwave", "line 5: listen: the port 0"),
            ("modem", "modme", "line 4: unknown field `modme`"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("a.toml, {expected}")), "{said}\nnot\n{expected}");
        }
    }
}
