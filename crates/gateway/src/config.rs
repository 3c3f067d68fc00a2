//! The gateway's configuration: one TOML file, checked as a whole before anything starts.

mod hbh;
pub mod ipclient;
mod neighbours;
pub mod s5066;
pub mod tunnel;
mod value;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::hbh::Profile;
use proto::hbh::auth::GroupKey;
use proto::hbh::neighbours::Listed;
use proto::secure::GroupSecret;
use serde::Deserialize;
use toml::Spanned;

use crate::keys;
use hbh::Parameters;
pub use ipclient::IpClient;
pub use s5066::S5066;
pub use tunnel::{BadKeyFile, Keys, Peer, Tunnel};
use value::{Between, Span};

/// A configuration that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Names of the MANET interfaces; none without HBH.
    pub interfaces: Vec<String>,
    /// The coded tunnel, if there is one.
    pub tunnel: Option<Tunnel>,
    /// IP over a STANAG 5066 server, if there is one.
    pub ip_client: Option<IpClient>,
    /// A STANAG 5066 node on a modem outside, if there is one.
    pub s5066: Option<S5066>,
    /// The parameters of HBH.
    pub hbh: proto::hbh::Config,
    /// The only neighbours that HBH is spoken with; `None` for all that speak it.
    pub neighbours: Option<Vec<Listed>>,
    /// The file with the key of those that HBH is spoken with; `None` for everybody.
    pub group_key: Option<PathBuf>,
    /// Between two hellos.
    pub hello_interval: Duration,
    /// How long a neighbour may be silent.
    pub hello_hold: Duration,
    /// IP protocols that stay plain: routing daemons that talk by unicast.
    pub plain_protocols: Vec<u8>,
    /// UDP ports that stay plain: the same.
    pub plain_udp: Vec<u16>,
    /// Whether the segment size that TCP asks for is lowered to what fits.
    pub clamp_mss: bool,
    /// Octets that may wait in a device.
    pub send_buffer: usize,
    /// Neighbours at most.
    pub neighbour_limit: usize,
    /// What is logged.
    pub log: Level,
    /// Where the counters are written every few seconds.
    pub metrics: Option<PathBuf>,
}

/// What is logged: this and what is graver.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every packet.
    Trace,
    /// Every decision.
    Debug,
    /// What an operator would want to know.
    #[default]
    Info,
    /// What may need a person.
    Warn,
    /// Why the gateway stopped.
    Error,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// A value, a key or the syntax is wrong.
    #[error("{file}, line {line}: {what}")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key, what is wrong and what is allowed.
        what: String,
    },
    /// The file cannot be read.
    #[error("{file}: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
}

impl Config {
    /// Reads and checks a file, and the key files that it names.
    ///
    /// # Errors
    /// When it cannot be read or a value in it is not allowed.
    pub fn read(path: &Path) -> Result<Self, Invalid> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Invalid::Unreadable { file: file.clone(), why: error.to_string() })?;
        Self::parse_in(&file, &text, Some(path.parent().unwrap_or(Path::new(""))))
    }

    /// Checks the text of a file, and no other file.
    ///
    /// # Errors
    /// When a value in it is not allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, Invalid> {
        Self::parse_in(file, text, None)
    }

    /// Reads the file of the group key, if there is one.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn read_group_key(&self) -> Result<Option<GroupKey>, BadKeyFile> {
        let Some(file) = &self.group_key else { return Ok(None) };
        let read = keys::read::<GroupSecret>(file);
        let key = read.map_err(|why| BadKeyFile { file: file.clone(), why })?;
        Ok(Some(key.derive()))
    }

    fn parse_in(file: &str, text: &str, folder: Option<&Path>) -> Result<Self, Invalid> {
        let invalid = |span: &Span, what: String| {
            let line = line_of(text, span.start);
            Invalid::Line { file: file.to_owned(), line, what }
        };
        let raw: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let message = error.message().trim().replace('\n', ", ");
            let what = match key_at(text, span.start) {
                Some(key) if !message.starts_with("unknown field") => format!("{key}: {message}"),
                _ => message,
            };
            invalid(&span, what)
        })?;
        raw.check(folder).map_err(|(span, what)| invalid(&span, what))
    }
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    interfaces: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    tunnel: Option<tunnel::Section>,
    #[serde(default)]
    ipclient: Option<ipclient::Section>,
    #[serde(default)]
    s5066: Option<s5066::Section>,
    #[serde(default)]
    profile: ProfileName,
    #[serde(default)]
    protocol: Option<Between<1, 255>>,
    #[serde(default)]
    neighbours: Option<Spanned<neighbours::Choice>>,
    #[serde(default)]
    group_key: Option<Spanned<PathBuf>>,
    #[serde(default)]
    hbh: Parameters,
    #[serde(default)]
    hello: Hello,
    #[serde(default)]
    intercept: Intercept,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    log: Level,
    #[serde(default)]
    metrics: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProfileName {
    #[default]
    Default,
    Seed,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    #[serde(default)]
    interval: Option<Spanned<value::Period>>,
    #[serde(default)]
    hold: Option<Spanned<value::Period>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Intercept {
    #[serde(default)]
    plain_protocols: Option<Vec<Between<0, 255>>>,
    #[serde(default)]
    plain_udp: Option<Vec<Between<1, 65_535>>>,
    #[serde(default)]
    clamp_mss: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default)]
    neighbours: Option<Between<1, 4_096>>,
    #[serde(default)]
    send_buffer: Option<Between<4_096, 4_194_304>>,
    #[serde(default)]
    flows: Option<Between<1, 1_000_000>>,
    #[serde(default)]
    packets: Option<Between<16, 1_000_000>>,
}

/// Interfaces at most; each costs descriptors and a part of the table.
const MAX_INTERFACES: usize = 16;
/// IGMP, EIGRP, OSPF, PIM, VRRP, and the MANET protocols' own (RFC 5498): neighbours to each other.
const PLAIN_PROTOCOLS: [u8; 6] = [2, 88, 89, 103, 112, 138];
/// The same by UDP: the MANET protocols' own, RIP, RIPng, AODV, OLSR, TBRPF, BFD and its echo, Babel.
const PLAIN_UDP: [u16; 9] = [269, 520, 521, 654, 698, 712, 3784, 3785, 6696];

impl File {
    fn check(self, folder: Option<&Path>) -> Result<Config, (Span, String)> {
        let interfaces = match self.interfaces {
            Some(names) => check_interfaces(names)?,
            None => Vec::new(),
        };
        let tunnel = self.tunnel.map(|tunnel| tunnel.check(folder)).transpose()?;
        let ip_client = self.ipclient.map(ipclient::Section::check).transpose()?;
        let s5066 = self.s5066.map(s5066::Section::check).transpose()?;
        if interfaces.is_empty() && tunnel.is_none() && ip_client.is_none() && s5066.is_none() {
            let what = "nothing to do: `interfaces` for HBH, or a section [tunnel], [ipclient] or \
                        [s5066]";
            return Err((0..0, what.to_owned()));
        }
        let profile = match self.profile {
            ProfileName::Default => Profile::Default,
            ProfileName::Seed => Profile::Paper,
        };
        let mut hbh = self.hbh.check(proto::hbh::Config::new(profile))?;
        hbh.protocol = self.protocol.map_or(hbh.protocol, Between::as_u8);
        hbh.flows = self.limits.flows.map_or(hbh.flows, Between::as_usize);
        hbh.packets = self.limits.packets.map_or(hbh.packets, Between::as_usize);

        let hello_interval = bounded(&self.hello.interval, "interval", SHORTEST, LONGEST)?
            .unwrap_or(Duration::from_secs(2));
        let hello_hold = bounded(&self.hello.hold, "hold", SHORTEST, LONGEST * 20)?
            .unwrap_or(hello_interval * 10);
        if let Some(hold) = &self.hello.hold
            && hello_hold < hello_interval * 2
        {
            let what = format!(
                "hold = {hello_hold:?} is too short: at least twice `interval`, \
                 which is {hello_interval:?}"
            );
            return Err((hold.span(), what));
        }
        let plain_protocols = self.intercept.plain_protocols;
        let neighbours = self.neighbours.map(neighbours::check_list).transpose()?.flatten();
        let check_key = |file: &Spanned<PathBuf>| neighbours::check_group_key(file, folder);
        let group_key = self.group_key.as_ref().map(check_key).transpose()?;
        let plain_udp = self.intercept.plain_udp;
        Ok(Config {
            interfaces,
            tunnel,
            ip_client,
            s5066,
            hbh,
            neighbours,
            group_key,
            hello_interval,
            hello_hold,
            plain_protocols: plain_protocols.map_or(PLAIN_PROTOCOLS.to_vec(), |protocols| {
                protocols.into_iter().map(Between::as_u8).collect()
            }),
            plain_udp: plain_udp.map_or(PLAIN_UDP.to_vec(), |ports| {
                ports.into_iter().map(Between::as_u16).collect()
            }),
            clamp_mss: self.intercept.clamp_mss.unwrap_or(true),
            send_buffer: self.limits.send_buffer.map_or(32_768, Between::as_usize),
            neighbour_limit: self.limits.neighbours.map_or(256, Between::as_usize),
            log: self.log,
            metrics: self.metrics,
        })
    }
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(600);

fn bounded(
    period: &Option<Spanned<value::Period>>,
    key: &str,
    from: Duration,
    to: Duration,
) -> Result<Option<Duration>, (Span, String)> {
    let Some(period) = period else { return Ok(None) };
    let value = period.get_ref().0;
    if value < from || value > to {
        let what = format!("{key} = {value:?} is not allowed: {from:?} to {to:?}");
        return Err((period.span(), what));
    }
    Ok(Some(value))
}

fn check_interfaces(names: Spanned<Vec<Spanned<String>>>) -> Result<Vec<String>, (Span, String)> {
    let span = names.span();
    let names = names.into_inner();
    if names.is_empty() || names.len() > MAX_INTERFACES {
        let what = format!("interfaces: {} names: 1 to {MAX_INTERFACES} are allowed", names.len());
        return Err((span, what));
    }
    let mut checked: Vec<String> = Vec::new();
    for name in names {
        let span = name.span();
        let name = name.into_inner();
        check_device(&name).map_err(|what| (span.clone(), format!("interfaces: {what}")))?;
        if checked.contains(&name) {
            return Err((span, format!("interfaces: {name} is there twice")));
        }
        checked.push(name);
    }
    Ok(checked)
}

fn check_device(name: &str) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_graphic() && !"/\"\\;{}".contains(letter);
    if name.is_empty() || name.len() > 15 || !name.chars().all(is_letter) {
        return Err(format!(
            "{name:?} cannot be an interface: 1 to 15 letters or digits, such as \"wlan0\""
        ));
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&octet| octet == b'\n').count()
}

/// The key of the line that a value stands on.
fn key_at(text: &str, at: usize) -> Option<&str> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?;
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    (!key.is_empty() && !key.starts_with('#')).then_some(key)
}

#[cfg(test)]
mod tests {
    use proto::ethernet::Mac;

    use super::*;

    #[test]
    fn interfaces_alone_are_enough() {
        let config = Config::parse("a.toml", "interfaces = [\"wlan0\"]").unwrap();

        assert_eq!(config.interfaces, ["wlan0"]);
        assert_eq!(config.hbh, proto::hbh::Config::new(Profile::Default));
        assert_eq!((config.neighbours, config.log), (None, Level::Info));
        assert_eq!(config.hello_hold, Duration::from_secs(20));
    }

    #[test]
    fn the_example_is_valid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hbh.toml");

        let config = Config::read(Path::new(path)).unwrap();

        assert_eq!(config, Config { interfaces: config.interfaces.clone(), ..defaults() });
    }

    #[test]
    fn everything_can_be_set() {
        let text = r#"
            interfaces = ["wlan0", "wlan1"]
            profile = "seed"
            protocol = 254
            neighbours = ["10.0.0.2", "fe80::1 at 02:11:22:33:44:55"]
            group_key = "group.key"
            log = "debug"
            metrics = "/tmp/trackway.prom"
            [hbh]
            retries = 3
            window = [2, 16]
            congestion = 30
            clear = 5
            queue = 60
            [hbh.rto]
            initial = "2s"
            [hello]
            interval = "500ms"
            hold = "3s"
            [intercept]
            plain_udp = []
            clamp_mss = false
            [limits]
            flows = 10
        "#;

        let config = Config::parse("a.toml", text).unwrap();

        assert_eq!(config.interfaces, ["wlan0", "wlan1"]);
        assert_eq!(config.hbh.profile, Profile::Paper);
        assert_eq!((config.hbh.protocol, config.hbh.retries, config.hbh.window), (254, 3, (2, 16)));
        assert_eq!((config.hbh.queue, config.hbh.flows), (60, 10));
        assert_eq!(config.hbh.rto.initial, Duration::from_secs(2));
        let station = Some(Mac([2, 0x11, 0x22, 0x33, 0x44, 0x55]));
        assert_eq!(
            config.neighbours.unwrap(),
            [
                Listed { address: "10.0.0.2".parse().unwrap(), station: None },
                Listed { address: "fe80::1".parse().unwrap(), station },
            ]
        );
        assert_eq!(config.group_key, Some("group.key".into()));
        assert_eq!(config.hello_interval, Duration::from_millis(500));
        assert!(config.plain_udp.is_empty() && !config.clamp_mss);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        let with = |line: &str| {
            let text = format!("interfaces = [\"wlan0\"]\n{line}\n");
            Config::parse("a.toml", &text).unwrap_err().to_string()
        };
        for (line, expected) in [
            ("protocol = 0", "a.toml, line 2: protocol: 0 is not allowed: 1 to 255"),
            (
                "profile = \"best\"",
                "a.toml, line 2: profile: unknown variant `best`, expected `default` or `seed`",
            ),
            (
                "neighbours = []",
                "a.toml, line 2: neighbours: the list is empty: \"discover\", or at least one address",
            ),
            (
                "neighbours = [\"10.0.0.2\", \"b\"]",
                "a.toml, line 2: neighbours: \"b\" is not allowed: invalid IP address syntax; an address",
            ),
            (
                "neighbours = [\"10.0.0.2 at 2\"]",
                "a.toml, line 2: neighbours: \"10.0.0.2 at 2\" is not allowed: no hardware address: six",
            ),
            (
                "neighbours = \"all\"",
                "a.toml, line 2: neighbours: expected \"discover\" or a list of addresses",
            ),
            ("[hbh]\nretires = 3", "a.toml, line 3: unknown field `retires`"),
            (
                "[hbh]\nwindow = [8, 4]",
                "a.toml, line 3: window = [8, 4] is not allowed: the first is at most the second",
            ),
            (
                "[hbh]\nrate_decrease = 1.5",
                "a.toml, line 3: rate_decrease: 1.5 is not allowed: more than 0 and less than 1",
            ),
            (
                "[hbh]\nlifetime = \"fast\"",
                "a.toml, line 3: lifetime: \"fast\" is no duration: a number and ms, s or min, such as \"250ms\"",
            ),
            (
                "[hello]\ninterval = \"1ms\"",
                "a.toml, line 3: interval = 1ms is not allowed: 100ms to 600s",
            ),
            (
                "metrics = 7",
                "a.toml, line 2: metrics: invalid type: integer `7`, expected path string",
            ),
            ("x", "a.toml, line 2: "),
        ] {
            let said = with(line);
            assert!(said.starts_with(expected), "{line}:\n{said}\nnot\n{expected}");
            assert!(!said.contains('\n'), "{said}");
        }
        for (text, expected) in [
            ("", "a.toml, line 1: nothing to do: `interfaces` for HBH"),
            ("interfaces = []", "a.toml, line 1: interfaces: 0 names: 1 to 16 are allowed"),
            (
                "interfaces = [\"a b\"]",
                "a.toml, line 1: interfaces: \"a b\" cannot be an interface",
            ),
            ("\ninterfaces = [\"a\", \"a\"]", "a.toml, line 2: interfaces: a is there twice"),
        ] {
            let said = Config::parse("a.toml", text).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    fn defaults() -> Config {
        Config::parse("a.toml", "interfaces = [\"wlan0\"]").unwrap()
    }
}
