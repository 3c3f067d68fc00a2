//! The gateway's configuration: one TOML file, checked as a whole before anything starts.

pub mod bearer;
pub mod edit;
mod ends;
mod gre;
pub mod group;
mod hbh;
pub mod hfpep;
pub mod ipclient;
mod neighbours;
pub mod routing;
mod rules;
pub mod s5066;
pub mod sar;
#[cfg(test)]
mod tests;
mod tls;
pub(crate) mod traffic;
pub mod tunnel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::tunnel as nc;
use base::ip::Prefix;
use base::parameter::{Description, Written};
use hf::ipclient::CLASS;
use hf::s5066::cas::Access;
use hf::s5066::node::SLOT;
use hf::s5066::{Address, node};
use host::numbers::{self, Numbers};
use nix::net::if_::if_nametoindex;
use settings::kind::Kind;
use settings::schema::{self, Shape};
use settings::{Complaint, Complaints, Document, Entry, Section, Source, each};

use crate::files;
pub use crate::keys::BadKeyFile;
use crate::tls::Profile as TlsProfile;
pub use gre::Gre;
pub use hbh::{Hbh, PARAMETERS};
pub use hfpep::HfPep;
pub use ipclient::IpClient;
pub use routing::Routing;
pub(crate) use rules::NO_RULE;
pub use rules::Rules;
pub use s5066::S5066;
pub use sar::Sar;
pub use tunnel::{Endpoint, Further, Keys, NoZone, Peer, Tunnel, Unusable};
pub(crate) use tunnel::{InClear, have_everything, versions};

/// A configuration that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// HBH with neighbours, if it is spoken.
    pub hbh: Option<Hbh>,
    /// The coded tunnel, if configured.
    pub tunnel: Option<Tunnel>,
    /// IP over a STANAG 5066 server, if there is one.
    pub ip_client: Option<IpClient>,
    /// TCP connections that are split, if there are any.
    pub hf_pep: Option<HfPep>,
    /// A STANAG 5066 node on a modem outside, if there is one.
    pub s5066: Option<S5066>,
    /// Messages over UDP for programs, if there are any.
    pub sar: Option<Sar>,
    /// A routing protocol of MANETs, if one is spoken.
    pub routing: Option<Routing>,
    /// Routers that hand over packets in GRE.
    pub gre: Vec<Gre>,
    /// The rules: the service and the options for each flow.
    pub rules: Rules,
    /// TLS profiles of this gateway, for use by rules.
    pub tls: Vec<TlsProfile>,
    /// Numbers that identify our objects to the kernel.
    pub numbers: Numbers,
    /// Networks next to this host, also while no interface has them.
    pub networks: BTreeSet<Prefix>,
    /// The process.
    pub process: Process,
    /// What is allowed and probably not meant.
    pub(crate) warnings: Vec<Complaint>,
}

/// What holds for all services together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Process {
    /// As whom it runs: an account's name or number; `None` for what it finds.
    pub user: Option<String>,
    /// The group whose members may ask how the gateway is: a name or a number.
    pub status_group: Option<String>,
    /// What is logged.
    pub log: Level,
    /// Where the counters are written every few seconds.
    pub metrics: Option<PathBuf>,
}

/// What is logged: this and what is graver.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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

/// A configuration has this many octets at most.
const MAX_OCTETS: u64 = 4 << 20;
/// Most values under a key that takes one value or a list.
const MAX_VALUES: usize = 64;
const LEVELS: [(&str, Level); 5] = [
    ("trace", Level::Trace),
    ("debug", Level::Debug),
    ("info", Level::Info),
    ("warn", Level::Warn),
    ("error", Level::Error),
];
/// Keys that once were elsewhere.
const MOVED: [(&str, &str); 11] = [
    ("interfaces", "hbh.interfaces"),
    ("profile", "hbh.profile"),
    ("protocol", "hbh.protocol"),
    ("neighbours", "hbh.neighbours"),
    ("group_key", "hbh.group-key"),
    ("hello", "hbh.hello"),
    ("intercept", "hbh.intercept"),
    ("limits.flows", "hbh.flows"),
    ("limits.packets", "hbh.packets"),
    ("limits.send_buffer", "hbh.limits.send-buffer"),
    ("limits", "hbh.limits"),
];

impl Config {
    /// Reads and checks a file, and the key files that it names.
    ///
    /// # Errors
    /// When it cannot be read, or with all values in it that are not allowed.
    pub fn read(path: &Path) -> Result<Self, Complaints> {
        let source = Source::take(path, files::open(path), MAX_OCTETS)?;
        Self::from_source(&source, Some(path.parent().unwrap_or(Path::new(""))))
    }

    /// Reads and checks a file, and no other file: the key files that it names are on another host.
    ///
    /// # Errors
    /// As [`Self::read`], but for errors in key files.
    pub fn read_alone(path: &Path) -> Result<Self, Complaints> {
        Self::from_source(&Source::take(path, files::open(path), MAX_OCTETS)?, None)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn text(path: &Path) -> Result<String, Complaints> {
        let source = Source::take(path, files::open(path), MAX_OCTETS)?;
        Ok(source.text().to_owned())
    }

    /// Checks a text as if it stood in this file, and reads the key files that it names.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn with_text(path: &Path, text: String) -> Result<Self, Complaints> {
        let source = Source::new(&path.display().to_string(), text);
        Self::from_source(&source, Some(path.parent().unwrap_or(Path::new(""))))
    }

    /// Checks the text of a file, and no other file.
    ///
    /// # Errors
    /// With all values in it that are not allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, Complaints> {
        Self::from_source(&Source::new(file, text.to_owned()), None)
    }

    fn from_source(source: &Source, folder: Option<&Path>) -> Result<Self, Complaints> {
        let read = source
            .parse_whole()
            .and_then(|document| Self::from_document(&document, source, folder));
        read.map_err(|complaints| {
            let other = Kind::Gateway.instead(source);
            other.map_or(complaints, Complaints::from)
        })
    }

    fn from_document(
        document: &Document<'_>,
        source: &Source,
        folder: Option<&Path>,
    ) -> Result<Self, Complaints> {
        let config = document.conclude(Self::from_root(&document.root(), folder))?;
        if !config.has_services() {
            let what = "nothing to do: a section [hbh], [tunnel], [ipclient], [hfpep], [s5066], [sar], [routing] or \
                        [[gre]] is needed";
            return Err(source.about(what).into());
        }
        Ok(config)
    }

    /// Reads every section, also after one that is wrong.
    fn from_root(root: &Section<'_>, folder: Option<&Path>) -> Result<Self, Complaint> {
        let moved = root.refuse_moved(&MOVED);
        let hbh = optional(root, "hbh", |section| hbh::read(section, folder));
        let tunnel = optional(root, "tunnel", |section| {
            let is_free = not_an_interface(section, folder);
            let tunnel = tunnel::read(section, folder)?;
            is_free.map(|()| tunnel)
        });
        let s5066 = optional(root, "s5066", s5066::read);
        let node = || match &s5066 {
            Ok(s5066) => Ok(s5066.as_ref().map(|it| it.node.address)),
            Err(complaint) => Err(complaint.clone()),
        };
        let ip_client = optional(root, "ipclient", |section| {
            let is_free = not_an_interface(section, folder);
            let ip_client = ipclient::read(section, group::read(section, folder, node))?;
            is_free.map(|()| ip_client)
        });
        let tls = tls::read(root, folder);
        let profiles = tls.as_deref().ok();
        let hf_pep = optional(root, "hfpep", |section| {
            hfpep::read(section, profiles, group::read(section, folder, node))
        });
        let sar = optional(root, "sar", sar::read);
        let routing = optional(root, "routing", routing::read);
        let names = root.sections("gre").and_then(|sections| {
            sections.iter().try_for_each(|section| not_an_interface(section, folder))
        });
        let gre = gre::read(root);
        let rules = rules::read(root, profiles, hf_pep.as_ref().ok().and_then(Option::as_ref));
        let process = Process::read(root);
        let host = optional(root, "host", |section| {
            let mut numbers = Numbers::default();
            let applied = section.apply(&numbers::PARAMETERS, &mut numbers);
            let networks = values(section, "networks", beside)?;
            applied?;
            match numbers.fault() {
                Some(why) => Err(section.complain(why)),
                None => Ok((numbers, networks.into_iter().collect())),
            }
        });
        moved?;
        names?;
        let (numbers, networks) = host?.unwrap_or_default();
        let (rules, mut warnings) = rules?;
        let mut config = Self {
            hbh: hbh?,
            tunnel: tunnel?,
            ip_client: ip_client?,
            hf_pep: hf_pep?,
            s5066: s5066?,
            sar: sar?,
            routing: routing?,
            gre: gre?,
            rules,
            tls: tls?,
            numbers,
            networks,
            process: process?,
            warnings: Vec::new(),
        };
        if let (Some(section), Some(hf_pep)) = (root.section("hfpep")?, &config.hf_pep) {
            config.warnings = hfpep::warnings(&section, hf_pep, &config.tls)?;
        }
        if let (Some(section), Some(tunnel)) = (root.section("tunnel")?, &config.tunnel) {
            config.warnings.extend(tunnel::warnings(&section, tunnel)?);
        }
        config.warnings.append(&mut warnings);
        Ok(config)
    }

    /// What is allowed and probably not meant, with file and line.
    #[must_use]
    pub fn warnings(&self) -> &[Complaint] {
        &self.warnings
    }

    /// Names of all MANET interfaces, whichever services use them.
    #[must_use]
    pub fn radios(&self) -> BTreeSet<String> {
        let routed = self.routing.iter().flat_map(|it| &it.interfaces);
        self.of_hbh().iter().chain(routed).cloned().collect()
    }

    /// The MANET interfaces used by HBH, by name; empty without HBH.
    pub(crate) fn of_hbh(&self) -> &[String] {
        self.hbh.as_ref().map_or(&[], |it| &it.interfaces)
    }

    fn has_services(&self) -> bool {
        self.hbh.is_some()
            || self.tunnel.is_some()
            || self.ip_client.is_some()
            || self.hf_pep.is_some()
            || self.s5066.is_some()
            || self.sar.is_some()
            || self.routing.is_some()
            || !self.gre.is_empty()
    }
}

impl Process {
    fn read(root: &Section<'_>) -> Result<Self, Complaint> {
        let text = |key| root.get(key)?.map(|entry| Ok(entry.text()?.to_owned())).transpose();
        let log = either(root, "log", Level::default(), |level| level.word(&LEVELS));
        let [user, status_group, metrics] = ["user", "status-group", "metrics"].map(text);
        let metrics = metrics?.map(PathBuf::from);
        Ok(Self { user: user?, status_group: status_group?, log: log?, metrics })
    }
}

/// The parameters of a gateway's services, besides the parameters of HBH itself.
#[must_use]
pub fn parameters() -> Vec<Description> {
    let (address, waveform) = (Address::node(1), s5066::WAVEFORM.parse().expect("a waveform"));
    let simulated = node::Config::new(address, waveform);
    let client = hf::ipclient::Config::new(Vec::new());
    let gateway = node::Config::behind_tcp(address, waveform);
    let slotted = Access::Slotted { position: 0, stations: 2 };
    vec![
        PARAMETERS.describe(&[("gateway", Hbh::new(Vec::new()))]),
        numbers::PARAMETERS.describe(&[("[host]", Numbers::default())]),
        nc::PARAMETERS.describe(&[("tunnel", nc::Config::default())]),
        CLASS.describe(&[("class", client.classes[0])]),
        ::rules::PARAMETERS.describe(&[("rule", ::rules::Options::default())]),
        hf::ipclient::PARAMETERS
            .describe(&[("[ipclient]", ipclient::defaults()), ("[[hf]]", client)]),
        hf::hfpep::PARAMETERS.describe(&[("[hfpep]", hf::hfpep::Config::default())]),
        bearer::PARAMETERS.describe(&[("[hfpep.bearer]", bearer::Bearer::default())]),
        hf::slep::PARAMETERS.describe(&[("[hfpep]", hf::slep::Config::default())]),
        hf::s5066::node::PARAMETERS
            .describe(&[("[s5066]", gateway.clone()), ("[[hf]]", simulated)]),
        sar::SERVICE.describe(&[("[sar]", sar::Service::default())]),
        SLOT.describe(&[("slot", node::Config { access: slotted, ..gateway })]),
    ]
}

/// A JSON schema of the file, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    let keys = Shape::new()
        .key("user", "As whom the gateway runs: a name or a number.", schema::text())
        .key(
            "status-group",
            "The group that may ask for the status, and nothing else.",
            schema::text(),
        )
        .key("log", "What is logged: this and what is graver.", schema::words(&LEVELS))
        .key("metrics", "A file with the counters, for Prometheus.", schema::text())
        .key("hbh", "Hop-by-hop reliability with neighbours.", hbh::schema().table())
        .key("tunnel", "The coded tunnel to other sites.", tunnel::schema().table())
        .key("s5066", "A STANAG 5066 node on a modem.", s5066::schema().table())
        .key("ipclient", "IP over a STANAG 5066 node.", ipclient::schema().table())
        .key("hfpep", "TCP that is split, over HF or to other gateways.", hfpep::schema().table())
        .key("sar", "Reliable messages over UDP.", sar::schema().table())
        .key("routing", "A routing protocol of MANETs.", routing::schema())
        .key(
            "host",
            "The numbers by which the kernel knows what is ours, and networks next to this host.",
            Shape::new()
                .key(
                    "networks",
                    "Networks next to this host, also while no interface has them.",
                    schema::one_or_more(schema::prefix(), MAX_VALUES),
                )
                .parameters(&numbers::PARAMETERS.describe(&[("[host]", Numbers::default())]))
                .table(),
        )
        .key("gre", "Routers that hand over packets in GRE.", gre::schema())
        .key(
            "rule",
            "Which service carries which flows; the first that matches decides.",
            rules::schema(),
        )
        .key("tls", "Profiles of TLS at this gateway.", tls::schema());
    schema::document("Configuration of a Trackway gateway", keys, Vec::new())
}

/// The name of an interface, for editors.
fn device_schema() -> serde_json::Value {
    schema::like(r#"^[^/"\;{}%:\s]{1,15}$"#)
}

/// The address of a STANAG 5066 node, for editors.
fn node_schema() -> serde_json::Value {
    schema::like(r"^[0-9]+([.][0-9]+){3}$")
}

/// The name of an interface.
fn device(entry: &Entry<'_>) -> Result<String, Complaint> {
    let name = entry.text()?;
    // The kernel counts up what `%d` stands for, and other names mean all interfaces, or none.
    let is_letter = |letter: char| letter.is_ascii_graphic() && !"/\"\\;{}%:".contains(letter);
    let is_taken = [".", "..", "all", "default"].contains(&name);
    if name.is_empty() || name.len() > 15 || is_taken || !name.chars().all(is_letter) {
        return Err(entry.complain(format!(
            "{name:?} cannot be an interface: 1 to 15 letters or digits, such as \"wlan0\""
        )));
    }
    Ok(name.to_owned())
}

/// Refuses a device name already in use on this host. A TUN device may be our own, of a running gateway. Looks at the
/// host only when the configuration comes from a file.
fn not_an_interface(section: &Section<'_>, folder: Option<&Path>) -> Result<(), Complaint> {
    let (Some(_), Some(entry)) = (folder, section.get("device")?) else { return Ok(()) };
    let name = device(&entry)?;
    let state = Path::new("/sys/class/net").join(&name);
    let is_here = if_nametoindex(name.as_str()).is_ok() && state.exists();
    if is_here && !state.join("tun_flags").exists() {
        return Err(entry.complain(format!(
            "{name:?} is an interface of this host already: the gateway makes a device of its own, under a name that \
             nothing has"
        )));
    }
    Ok(())
}

/// The values of a list of 1 to `most` values.
fn some<'d>(entry: &Entry<'d>, most: usize) -> Result<Vec<Entry<'d>>, Complaint> {
    let list = entry.list()?;
    if list.is_empty() || list.len() > most {
        let what = format!("{} of them: 1 to {most} are allowed", list.len());
        return Err(entry.complain(what));
    }
    Ok(list)
}

/// The values under a key: a single value or a list; empty if the key is missing.
fn values<T>(
    section: &Section<'_>,
    key: &str,
    read: impl Fn(&Entry<'_>) -> Result<T, Complaint>,
) -> Result<Vec<T>, Complaint> {
    match section.get(key)? {
        None => Ok(Vec::new()),
        Some(entry) if matches!(entry.written(), Written::List(_)) => {
            each(&some(&entry, MAX_VALUES)?, read)
        }
        Some(entry) => Ok(vec![read(&entry)?]),
    }
}

/// A network next to this host.
fn beside(entry: &Entry<'_>) -> Result<Prefix, Complaint> {
    let network = ipclient::network(entry)?;
    // Default routes lead there: it would not be kept from leaving by them.
    if network.bits() <= 1 {
        return Err(entry.complain(format!("{network} is no network of one interface")));
    }
    Ok(network)
}

/// The section under a key, if there is one.
fn optional<'d, T>(
    root: &Section<'d>,
    key: &str,
    read: impl FnOnce(&Section<'d>) -> Result<T, Complaint>,
) -> Result<Option<T>, Complaint> {
    root.section(key)?.map(|section| read(&section)).transpose()
}

/// The addresses of a device, with the lengths of their prefixes.
fn addresses(entry: &Entry<'_>, most: usize) -> Result<Vec<Prefix>, Complaint> {
    each(&some(entry, most)?, Entry::parsed)
}

/// Names of interfaces, each once.
fn devices(entry: &Entry<'_>, most: usize) -> Result<Vec<String>, Complaint> {
    let mut names = Vec::new();
    each(&some(entry, most)?, |entry| {
        let name = device(entry)?;
        if names.contains(&name) {
            return Err(entry.complain(format!("{name} is there twice")));
        }
        names.push(name.clone());
        Ok(name)
    })
}

/// The value under a key, or another.
fn either<T>(
    section: &Section<'_>,
    key: &str,
    otherwise: T,
    read: impl Fn(&Entry<'_>) -> Result<T, Complaint>,
) -> Result<T, Complaint> {
    section.get(key)?.map_or(Ok(otherwise), |entry| read(&entry))
}

/// A file that is meant from where the configuration is.
fn file(entry: &Entry<'_>, folder: Option<&Path>) -> Result<PathBuf, Complaint> {
    let path = Path::new(entry.text()?);
    Ok(folder.map_or_else(|| path.to_owned(), |folder| folder.join(path)))
}
