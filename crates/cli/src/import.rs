//! The command `trackway import`: turns the file of a WireGuard interface into a configuration of the tunnel.

use std::fmt::{self, Write as _};
use std::fs::DirBuilder;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use base::ip::Prefix;
use base::name;
use gateway::config::edit::quoted;
use gateway::{Config, keys};
use settings::Source;
use settings::kind::Kind;
use tunnel::secure::{PORT, PresharedKey, PrivateKey, PublicKey};

use crate::failure;
use crate::terminal;

/// Print the configuration equal to a `wg-quick` file.
///
/// The TOML goes to standard output; what it does not take over is said in its first lines. Both ends change together:
/// the tunnel has keys of WireGuard's form, and does not speak WireGuard. Secrets are not printed: --keys writes them to
/// files, and without it, the files that the TOML names have to be made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway import /etc/wireguard/wg0.conf --keys /etc/trackway > /etc/trackway/trackway.toml")]
pub struct Args {
    /// The file of `wg-quick`.
    file: PathBuf,
    /// Write the private key and the preshared keys to new files in this folder, which only their owner can read.
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
}

/// A longer file is none of `wg-quick`.
const MAX_OCTETS: u64 = 1 << 20;
/// Seconds of the longest keepalive that a peer of ours may have.
const MAX_KEEPALIVE: u16 = 600;
/// What WireGuard takes for no preshared key.
const NO_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Reads the file, and prints the configuration.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { file, keys: folder } = args;
    let shown = file.display().to_string();
    let mut octets = Vec::new();
    settings::file::open(&file)
        .and_then(|file| file.take(MAX_OCTETS + 1).read_to_end(&mut octets))
        .map_err(|error| failure::misuse(format!("{shown}: cannot be read: {error}")))?;
    if octets.len() as u64 > MAX_OCTETS {
        return Err(failure::misuse(format!("{shown}: longer than {MAX_OCTETS} octets")));
    }
    let text = String::from_utf8(octets)
        .map_err(|_| failure::misuse(format!("{shown}: it is no text in UTF-8")))?;
    let source = Source::new(&shown, text.clone());
    if let Some(kind) = Kind::of(&source).filter(|kind| *kind == Kind::Gateway) {
        return Err(failure::misuse(kind.complain(&source)));
    }
    let wireguard = WireGuard::parse(&text)
        .map_err(|Wrong { line, what }| failure::misuse(format!("{shown}:{line}: {what}")))?;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("wireguard");
    let names = Names { stem, folder: folder.as_deref() };
    let toml = wireguard.toml(&names);
    Config::parse("the configuration made of it", &toml).map_err(failure::misuse)?;
    if folder.is_some() {
        wireguard.write_keys(&names)?;
    } else {
        let mut err = terminal::err();
        writeln!(err, "no key was written: `trackway import {shown} --keys FOLDER` writes them")?;
    }
    failure::print(&toml)?;
    Ok(ExitCode::SUCCESS)
}

/// An interface of WireGuard.
struct WireGuard {
    private_key: PrivateKey,
    addresses: Vec<Prefix>,
    port: Option<u16>,
    peers: Vec<Peer>,
    /// What is not taken over, and why.
    notes: Vec<String>,
}

struct Peer {
    name: String,
    public_key: PublicKey,
    preshared_key: Option<PresharedKey>,
    endpoint: Option<String>,
    routes: Vec<Prefix>,
    /// In seconds.
    keepalive: Option<u16>,
}

/// How key files are called.
struct Names<'a> {
    stem: &'a str,
    folder: Option<&'a Path>,
}

/// Why a file is none of `wg-quick`.
#[derive(Debug, Eq, PartialEq)]
struct Wrong {
    /// From 1 on.
    line: usize,
    what: String,
}

/// A section of the file.
struct Section<'a> {
    /// The line where it begins.
    line: usize,
    is_peer: bool,
    /// The name in a comment in its first lines.
    comment: Option<&'a str>,
    /// Each with its line.
    settings: Vec<(usize, &'a str, &'a str)>,
}

impl WireGuard {
    fn parse(text: &str) -> Result<Self, Wrong> {
        let sections = sections(text)?;
        let mut notes = Vec::new();
        let mut interfaces = sections.iter().filter(|section| !section.is_peer);
        let Some(interface) = interfaces.next() else {
            return Err(Wrong { line: 1, what: "there is no section [Interface]".to_owned() });
        };
        if let Some(Section { line, .. }) = interfaces.next() {
            return Err(Wrong { line: *line, what: "a second section [Interface]".to_owned() });
        }
        let mut private_key = None;
        let (mut addresses, mut port) = (Vec::new(), None);
        for &(line, key, value) in &interface.settings {
            let wrong = |what: &dyn fmt::Display| Wrong { line, what: format!("{key}: {what}") };
            match key.to_ascii_lowercase().as_str() {
                "privatekey" => {
                    private_key = Some(value.parse::<PrivateKey>().map_err(|why| wrong(&why))?);
                }
                "address" => {
                    for address in list(value) {
                        addresses.push(prefix(address).ok_or_else(|| wrong(&NoNetwork(address)))?);
                    }
                }
                "listenport" => port = Some(value.parse().map_err(|why| wrong(&why))?),
                "mtu" => notes.push(format!("MTU = {value}: the path is measured")),
                "dns" => notes.push(format!("DNS = {value}: set it by the system's own means")),
                "table" => notes.push(format!("Table = {value}: routes are in a table of ours")),
                "fwmark" => notes.push("FwMark: datagrams have a mark of ours".to_owned()),
                "saveconfig" => notes.push("SaveConfig: the file stays as it is".to_owned()),
                "preup" | "postup" | "predown" | "postdown" => {
                    notes.push(format!("{key} = {value}: no commands are run"));
                }
                _ => return Err(wrong(&"not a setting of [Interface]")),
            }
        }
        let Some(private_key) = private_key else {
            let what = "there is no PrivateKey in it".to_owned();
            return Err(Wrong { line: interface.line, what });
        };
        if addresses.is_empty() {
            let what = "there is no Address in it".to_owned();
            return Err(Wrong { line: interface.line, what });
        }
        let mut peers: Vec<Peer> = Vec::new();
        for (number, section) in sections.iter().filter(|section| section.is_peer).enumerate() {
            let mut peer = Peer::parse(section, number + 1, &mut notes)?;
            if peers.iter().any(|other| other.name == peer.name) {
                peer.name = format!("peer{}", number + 1);
            }
            // As WireGuard does it: the later one takes a network away from the earlier one.
            for other in &mut peers {
                other.routes.retain(|route| {
                    let is_taken = peer.routes.contains(route);
                    if is_taken {
                        notes.push(format!(
                            "AllowedIPs = {route} of {}: {} has it too, and takes it",
                            other.name, peer.name
                        ));
                    }
                    !is_taken
                });
            }
            peers.push(peer);
        }
        peers.retain(|peer| {
            if peer.routes.is_empty() {
                notes.push(format!("the peer {}: no network is left for it", peer.name));
            }
            !peer.routes.is_empty()
        });
        if peers.is_empty() {
            let what = "there is no [Peer] with AllowedIPs".to_owned();
            return Err(Wrong { line: interface.line, what });
        }
        Ok(Self { private_key, addresses, port, peers, notes })
    }

    /// The configuration, without secrets.
    fn toml(&self, names: &Names<'_>) -> String {
        let mut toml = String::from("# Made from a file of WireGuard by `trackway import`.\n");
        for note in &self.notes {
            let note: String =
                note.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
            let _ = writeln!(toml, "# Not taken over: {note}.");
        }
        let own_key = names.private_key();
        let _ = writeln!(toml, "\n[tunnel]");
        let is_v6 = |peer: &Peer| {
            let endpoint = peer.endpoint.as_ref();
            endpoint.is_some_and(|it| it.parse().is_ok_and(|it: SocketAddr| it.is_ipv6()))
        };
        let calls_v6 = self.peers.iter().any(is_v6);
        if self.port.is_some() || calls_v6 {
            let port = self.port.unwrap_or(PORT);
            let v6 = if calls_v6 { format!(", \"[::]:{port}\"") } else { String::new() };
            let _ = writeln!(toml, "listen = [\"0.0.0.0:{port}\"{v6}]");
        }
        let _ = writeln!(toml, "private-key = {}", quoted(&own_key.display().to_string()));
        let _ = writeln!(toml, "addresses = [{}]", quoted_list(&self.addresses));
        for peer in &self.peers {
            let _ = writeln!(toml, "\n[[tunnel.peer]]");
            let _ = writeln!(toml, "name = {}", quoted(&peer.name));
            let _ = writeln!(toml, "public-key = {}", quoted(&peer.public_key.to_string()));
            if peer.preshared_key.is_some() {
                let file = names.preshared_key(peer).display().to_string();
                let _ = writeln!(toml, "preshared-key = {}", quoted(&file));
            }
            if let Some(endpoint) = &peer.endpoint {
                let _ = writeln!(toml, "endpoint = {}", quoted(endpoint));
            }
            let _ = writeln!(toml, "routes = [{}]", quoted_list(&peer.routes));
            if let Some(keepalive) = peer.keepalive {
                let _ = writeln!(toml, "keepalive = \"{keepalive}s\"");
            }
        }
        toml
    }

    /// Writes the key files, none over another.
    fn write_keys(&self, names: &Names<'_>) -> anyhow::Result<()> {
        let write = |file: &Path, key: &str| {
            keys::write_new(file, key).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => failure::misuse(format!(
                    "{}: there is such a file already; keys are never overwritten",
                    file.display()
                )),
                _ => anyhow::Error::new(error).context(format!("cannot write {}", file.display())),
            })
        };
        if let Some(folder) = names.folder {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        write(&names.private_key(), &self.private_key.to_base64())?;
        for peer in &self.peers {
            if let Some(key) = &peer.preshared_key {
                write(&names.preshared_key(peer), &key.to_base64())?;
            }
        }
        Ok(())
    }
}

impl Peer {
    fn parse(section: &Section<'_>, number: usize, notes: &mut Vec<String>) -> Result<Self, Wrong> {
        let name = section.comment.filter(|name| name::is_allowed(name));
        let name = name.map_or_else(|| format!("peer{number}"), str::to_owned);
        let (mut public_key, mut preshared_key, mut endpoint) = (None, None, None);
        let (mut routes, mut keepalive) = (Vec::<Prefix>::new(), None);
        for &(line, key, value) in &section.settings {
            let wrong = |what: &dyn fmt::Display| Wrong { line, what: format!("{key}: {what}") };
            match key.to_ascii_lowercase().as_str() {
                "publickey" => public_key = Some(value.parse().map_err(|why| wrong(&why))?),
                "presharedkey" if value == NO_KEY => preshared_key = None,
                "presharedkey" => preshared_key = Some(value.parse().map_err(|why| wrong(&why))?),
                "endpoint" => endpoint = Some(value.to_owned()),
                "allowedips" => {
                    for network in list(value) {
                        let network = prefix(network).ok_or_else(|| wrong(&NoNetwork(network)))?;
                        if !routes.contains(&network.network()) {
                            routes.push(network.network());
                        }
                    }
                }
                "persistentkeepalive" if value == "off" || value == "0" => keepalive = None,
                "persistentkeepalive" => {
                    let seconds: u16 = value.parse().map_err(|why| wrong(&why))?;
                    if seconds > MAX_KEEPALIVE {
                        notes.push(format!("{key} = {value}: {MAX_KEEPALIVE} s is the longest"));
                    }
                    keepalive = Some(seconds.min(MAX_KEEPALIVE));
                }
                _ => return Err(wrong(&"not a setting of [Peer]")),
            }
        }
        let Some(public_key) = public_key else {
            let what = "there is no PublicKey in it".to_owned();
            return Err(Wrong { line: section.line, what });
        };
        Ok(Self { name, public_key, preshared_key, endpoint, routes, keepalive })
    }
}

impl Names<'_> {
    fn private_key(&self) -> PathBuf {
        self.file(&format!("{}.key", self.stem))
    }

    fn preshared_key(&self, peer: &Peer) -> PathBuf {
        self.file(&format!("{}-{}.psk", self.stem, peer.name))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }
}

/// No address, with or without the number of bits that count.
struct NoNetwork<'a>(&'a str);

impl fmt::Display for NoNetwork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no network", self.0)
    }
}

/// Cuts the file into its sections.
fn sections(text: &str) -> Result<Vec<Section<'_>>, Wrong> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut above = None;
    for (line, whole) in (1..).zip(text.lines()) {
        let (said, comment) = whole.split_once('#').unwrap_or((whole, ""));
        let (said, comment) = (said.trim(), comment.trim());
        let comment = comment.strip_prefix("Name =").unwrap_or(comment).trim();
        match said {
            "" => {
                let is_first = sections.last().is_some_and(|last| last.settings.is_empty());
                match sections.last_mut().filter(|_| is_first && !comment.is_empty()) {
                    Some(last) => last.comment = last.comment.or(Some(comment)),
                    None => above = Some(comment).filter(|comment| !comment.is_empty()),
                }
                continue;
            }
            _ if said.starts_with('[') => {
                let is_peer = match said.to_ascii_lowercase().as_str() {
                    "[interface]" => false,
                    "[peer]" => true,
                    _ => return Err(Wrong { line, what: format!("{said:?} is no section") }),
                };
                let comment = Some(comment).filter(|it| !it.is_empty()).or(above);
                sections.push(Section { line, is_peer, comment, settings: Vec::new() });
            }
            _ => {
                let Some((key, value)) = said.split_once('=') else {
                    return Err(Wrong { line, what: "there is no = in it".to_owned() });
                };
                let Some(last) = sections.last_mut() else {
                    let what = "it stands before the first section".to_owned();
                    return Err(Wrong { line, what });
                };
                last.settings.push((line, key.trim(), value.trim()));
            }
        }
        above = None;
    }
    Ok(sections)
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// An address, of which all bits count unless it says how many.
fn prefix(text: &str) -> Option<Prefix> {
    match text.contains('/') {
        true => text.parse().ok(),
        false => Some(Prefix::host(text.parse().ok()?)),
    }
}

fn quoted_list(items: &[Prefix]) -> String {
    items.iter().map(|item| quoted(&item.to_string())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = [
        "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=",
        "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=",
        "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=",
    ];

    fn names() -> Names<'static> {
        Names { stem: "wg0", folder: None }
    }

    #[test]
    fn a_file_of_wg_quick_becomes_a_configuration_that_is_read() {
        let [own, first, second] = KEYS;
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.8.0.1/24, fd00:8::1/64\n\
             ListenPort = 51820\nMTU = 1380\nPostUp = iptables -A FORWARD -i %i -j ACCEPT\n\n\
             [Peer] # office\nPublicKey={first}\nPresharedKey = {second}\n\
             AllowedIPs = 10.8.0.2/32,192.168.7.9/24\nEndpoint = vpn.example.org:51820\n\
             PersistentKeepalive = 25\n\n# Name = laptop\n[peer]\npublickey = {second}\n\
             allowedips = 10.8.0.3\nallowedIPs = fd00:8::3/128\nPersistentKeepalive = off\n"
        );

        let wireguard = WireGuard::parse(&text).unwrap();
        let toml = wireguard.toml(&names());

        assert_eq!(
            toml,
            format!(
                "# Made from a file of WireGuard by `trackway import`.\n\
                 # Not taken over: MTU = 1380: the path is measured.\n\
                 # Not taken over: PostUp = iptables -A FORWARD -i %i -j ACCEPT: no commands are run.\n\
                 \n[tunnel]\nlisten = [\"0.0.0.0:51820\"]\nprivate-key = \"wg0.key\"\n\
                 addresses = [\"10.8.0.1/24\", \"fd00:8::1/64\"]\n\
                 \n[[tunnel.peer]]\nname = \"office\"\npublic-key = \"{first}\"\n\
                 preshared-key = \"wg0-office.psk\"\nendpoint = \"vpn.example.org:51820\"\n\
                 routes = [\"10.8.0.2/32\", \"192.168.7.0/24\"]\nkeepalive = \"25s\"\n\
                 \n[[tunnel.peer]]\nname = \"laptop\"\npublic-key = \"{second}\"\n\
                 routes = [\"10.8.0.3/32\", \"fd00:8::3/128\"]\n"
            )
        );
        assert!(!toml.contains(own), "a secret");
        Config::parse("test", &toml).unwrap();
    }

    #[test]
    fn a_network_of_two_peers_is_the_later_ones_as_in_wireguard() {
        let [own, first, second] = KEYS;
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.8.0.1\n[Peer]\nPublicKey = {first}\n\
             AllowedIPs = 10.9.0.0/16\n[Peer]\nPublicKey = {second}\nAllowedIPs = 10.9.0.0/16\n\
             Endpoint = [2001:db8::1]:7\nPersistentKeepalive = 900\n"
        );

        let wireguard = WireGuard::parse(&text).unwrap();
        let toml = wireguard.toml(&names());

        let peers: Vec<_> = wireguard.peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(peers, ["peer2"]);
        assert_eq!(wireguard.notes.len(), 3, "{:?}", wireguard.notes);
        assert!(toml.contains("listen = [\"0.0.0.0:51900\", \"[::]:51900\"]"), "{toml}");
        assert!(toml.contains("keepalive = \"600s\""), "{toml}");
        Config::parse("test", &toml).unwrap();
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let [own, first, _] = KEYS;
        let interface = format!("[Interface]\nPrivateKey = {own}\nAddress = 10.8.0.1/24\n");
        let cases = [
            ("".to_owned(), 1, "there is no section [Interface]"),
            ("Address = 10.0.0.1".to_owned(), 1, "it stands before the first section"),
            ("[Interface]\nAddress 10.0.0.1".to_owned(), 2, "there is no = in it"),
            ("[Interface]\nAddress = 10.0.0.1".to_owned(), 1, "there is no PrivateKey in it"),
            (format!("{interface}Adress = 1"), 4, "Adress: not a setting of [Interface]"),
            (interface.clone(), 1, "there is no [Peer] with AllowedIPs"),
            (format!("{interface}[Peer]\n"), 4, "there is no PublicKey in it"),
            (
                format!("{interface}[Peer]\nPublicKey = {first}\nAllowedIPs = 10.0.0.0/40"),
                6,
                "AllowedIPs: \"10.0.0.0/40\" is no network",
            ),
            (format!("{interface}[Pear]\n"), 4, "\"[Pear]\" is no section"),
        ];

        for (text, line, what) in cases {
            let wrong = WireGuard::parse(&text).err();
            assert_eq!(wrong, Some(Wrong { line, what: what.to_owned() }), "{text}");
        }
    }

    #[test]
    fn no_text_can_forge_a_line_of_the_configuration() {
        let [own, first, _] = KEYS;
        let text = format!(
            "[Interface]\nPrivateKey = {own}\nAddress = 10.8.0.1\nPostUp = a\rb = \"c\"\n\
             [Peer]\nPublicKey = {first}\nAllowedIPs = 10.9.0.0/16\nEndpoint = a\":7\\\n"
        );

        let toml = WireGuard::parse(&text).unwrap().toml(&names());

        assert!(toml.contains("# Not taken over: PostUp = a b = \"c\": no commands are run."));
        assert!(Config::parse("test", &toml).is_err(), "the endpoint is no endpoint: {toml}");
        assert!(toml.parse::<toml::Table>().is_ok(), "{toml}");
    }
}
