//! Two sites, and the coded tunnel between them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use base::ip::Prefix;
use base::name;
use gateway::keys::System;
use tunnel::secure::{PORT, PrivateKey, PublicKey};

use super::Out;
use super::folder::{Folder, advise};
use super::question::{Networks, Question, expect_host, expect_two};
use crate::failure::misuse;

/// Two sites and a link that loses packets: a coded tunnel, encrypted.
///
/// Without --peer, files for both ends are written, with both private keys. With the line of another end, which its own
/// `trackway init tunnel` has printed, files for this end alone: no private key travels.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway init tunnel --here 192.0.2.1 --there 192.0.2.2 --networks-there 10.2.0.0/16 --out tunnel")]
pub struct Args {
    /// Where this end is reached, with a port if that is not 51900; "none" if it only calls.
    #[arg(long, value_name = "IP[:PORT]")]
    here: Option<Place>,
    /// Where the other end is reached; "none" if it only calls.
    #[arg(long, value_name = "IP[:PORT]", conflicts_with = "peer")]
    there: Option<Place>,
    /// Networks behind this end, with commas between.
    #[arg(long, value_name = "NETWORKS")]
    networks_here: Option<Networks>,
    /// Networks behind the other end.
    #[arg(long, value_name = "NETWORKS", conflicts_with = "peer")]
    networks_there: Option<Networks>,
    /// Our address inside the tunnel, in a network for all its ends.
    #[arg(long, value_name = "IP/BITS", default_value = "10.99.0.1/24")]
    inner: Prefix,
    /// What the other end calls us.
    #[arg(long, default_value = "a")]
    name: String,
    /// The line that the other end's `trackway init tunnel` has printed.
    #[arg(long, value_name = "LINE")]
    peer: Option<Line>,
    /// Make a key for this end alone, and print its line for the other one.
    #[arg(long, conflicts_with_all = ["peer", "there", "networks_there"])]
    alone: bool,
    /// Use this private key, which --alone has made before.
    #[arg(long, value_name = "FILE", requires = "peer")]
    key: Option<PathBuf>,
    #[command(flatten)]
    out: Out,
}

/// An address with a port, or nowhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place(Option<SocketAddr>);

/// Why a text is no place.
#[derive(Clone, Debug, thiserror::Error)]
#[error("an address such as 192.0.2.1 or 192.0.2.1:{PORT} is expected, or none")]
struct NoPlace;

/// The public part of an end: all that the other end's file needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    pub name: String,
    pub key: PublicKey,
    pub endpoint: Option<SocketAddr>,
    pub inner: Prefix,
    pub networks: Networks,
}

/// Why a text is no line of an end.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the line of the other end is expected, which begins with {MARK}, as `trackway init tunnel` prints it"
)]
pub struct NoLine;

const MARK: &str = "trackway-peer";
const FAR: &str = "b";

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let here = Question {
            flag: "here",
            words: "Where is this end reached (address, or none if it is behind an address translator)?",
            usual: Some("none"),
        };
        let Place(here) = here.ask(self.here)?;
        let behind = Question {
            flag: "networks-here",
            words: "Which networks are behind this end, such as 10.1.0.0/16?",
            usual: Some(""),
        };
        let networks = behind.ask(self.networks_here)?;
        let own = match &self.key {
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("cannot read {}", file.display()))?;
                text.parse().map_err(|why| misuse(format!("{}: {why}", file.display())))?
            }
            None => PrivateKey::generate(&mut System).context("cannot make a key")?,
        };
        let near = Line {
            name: self.name,
            key: own.public_key(),
            endpoint: here,
            inner: self.inner,
            networks,
        };
        let mut folder = Folder::new(&self.out.folder);
        let at = self.out.folder.display().to_string();
        if self.alone {
            folder.secret("private.key", &own.to_base64());
            folder.write()?;
            return advise(&format!(
                "This end, for the other one (no secret is in it):\n\n  {near}\n\n\
                 With the line of the other end:\n\n  {}\n",
                near.completed(&at)
            ));
        }
        if let Some(far) = self.peer {
            let near = match self.key {
                Some(_) if near.inner.address() == far.inner.address() => {
                    return Err(misuse(format!(
                        "{} is the address of both ends inside the tunnel: let one of them make its line again, with \
                         another --inner and without --key",
                        far.inner.address()
                    )));
                }
                // The other end has the address from our line.
                Some(_) => near,
                None => Line { inner: beside(near.inner, far.inner)?, ..near },
            };
            expect_apart(&near, &far)?;
            folder.secret("private.key", &own.to_base64());
            folder.config("gateway.toml", &config(&near, &far));
            folder.write()?;
            return advise(&format!(
                "This end, for the other one (no secret is in it):\n\n  {near}\n\n\
                 There, put this into the file:\n\n{}\n\
                 Here:\n\n  {}\n",
                peer(&near),
                super::here(at)
            ));
        }
        let there = Question {
            flag: "there",
            words: "Where is the other end reached (address, or none)?",
            usual: here.map(|_| "none"),
        };
        let Place(there) = there.ask(self.there)?;
        let behind = Question {
            flag: "networks-there",
            words: "Which networks are behind the other end, such as 10.2.0.0/16?",
            usual: Some(""),
        };
        let networks = behind.ask(self.networks_there)?;
        let other = PrivateKey::generate(&mut System).context("cannot make a key")?;
        let inner = beside(self.inner, self.inner)?;
        let far = Line {
            name: FAR.to_owned(),
            key: other.public_key(),
            endpoint: there,
            inner,
            networks,
        };
        if near.name == FAR {
            return Err(misuse(format!("--name: {FAR} is the other end here")));
        }
        if here.is_none() && there.is_none() {
            return Err(misuse("--here or --there: one end at least has to be reached"));
        }
        expect_apart(&near, &far)?;
        for (own, key, other) in [(&near, &own, &far), (&far, &other, &near)] {
            folder.secret(&format!("{}/private.key", own.name), &key.to_base64());
            folder.config(&format!("{}/gateway.toml", own.name), &config(own, other));
        }
        folder.write()?;
        let to = far.endpoint.map_or("the-other-end".to_owned(), |it| it.ip().to_string());
        advise(&format!(
            "Here, and there by ssh as root:\n\n  {here}\n  {there}\n\n\
             Then: ping {}, and sudo trackway status. `trackway doctor` says what a host lacks.\n\
             Remove {at}: it has both private keys.\n\n\
             A third end takes one of these lines (no secret is in them):\n\n  {near}\n  {far}\n",
            far.inner.address(),
            here = super::here(format_args!("{at}/{}", near.name)),
            there = super::there(format_args!("{at}/{}", far.name), &to),
        ))
    }
}

impl Line {
    /// The command that makes this end's file from the other end's line, with the key in folder `at`.
    pub fn completed(&self, at: &str) -> String {
        let here = self.endpoint.map_or("none".to_owned(), |at| at.to_string());
        let networks: Vec<_> = self.networks.0.iter().map(Prefix::to_string).collect();
        format!(
            "trackway init tunnel --key {at}/private.key --name {} --inner {} --here {here} \
             --networks-here '{}' --peer 'LINE' --out etc",
            self.name,
            self.inner,
            networks.join(",")
        )
    }
}

/// The last address of a network.
fn last(network: Prefix) -> IpAddr {
    let hosts = u32::from(network.bits());
    match network.address() {
        IpAddr::V4(first) => {
            (u32::from(first) | u32::MAX.checked_shr(hosts).unwrap_or(0)).to_be_bytes().into()
        }
        // IPv6 has no broadcast.
        IpAddr::V6(first) => first.into(),
    }
}

/// Checks that the ends can meet: two places, and no network named for both.
fn expect_apart(near: &Line, far: &Line) -> anyhow::Result<()> {
    for end in [near, far] {
        let (inner, network) = (end.inner.address(), end.inner.network());
        let is_whole = end.inner.bits() >= if inner.is_ipv4() { 31 } else { 127 };
        if !is_whole && (inner == network.address() || inner == last(network)) {
            return Err(misuse(format!(
                "--inner: {} is the address of a network or its broadcast address, not of a host",
                end.inner
            )));
        }
        if let Some(at) = end.endpoint {
            expect_host("the address of an end", at.ip())?;
            if at.ip() == inner {
                return Err(misuse(format!(
                    "--inner: {inner} is where an end is reached outside the tunnel"
                )));
            }
        }
    }
    if let (Some(here), Some(there)) = (near.endpoint, far.endpoint) {
        expect_two(here, there)?;
    }
    match near.networks.0.iter().find(|network| far.networks.0.contains(network)) {
        Some(network) => Err(misuse(format!(
            "{network} is behind both ends: take it out of one of --networks-here and the other end's networks"
        ))),
        None => Ok(()),
    }
}

/// The address `own`, or another address in the same network if `own` is taken.
fn beside(own: Prefix, taken: Prefix) -> anyhow::Result<Prefix> {
    if own.address() != taken.address() {
        return Ok(own);
    }
    let next = match own.address() {
        IpAddr::V4(v4) => IpAddr::from((u32::from(v4) ^ 3).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) ^ 3).to_be_bytes()),
    };
    let beside = Prefix::new(next, own.bits()).ok().filter(|it| it.network() == own.network());
    beside.ok_or_else(|| {
        misuse("--inner: a network with room for two ends is expected, such as 10.99.0.1/24")
    })
}

fn config(own: &Line, other: &Line) -> String {
    let port = own.endpoint.map_or(PORT, |at| at.port());
    let any = match own.endpoint.or(other.endpoint) {
        Some(SocketAddr::V6(_)) => format!("[::]:{port}"),
        Some(SocketAddr::V4(_)) | None => format!("0.0.0.0:{port}"),
    };
    let peers = peer(other);
    format!(
        "# One end of a coded tunnel. docs/guide/tunnel.md explains all keys.\n\n\
         [tunnel]\n\
         listen = \"{any}\"        # UDP; open it in firewalls\n\
         private-key = \"private.key\"     # from this file's folder; for its owner alone\n\
         addresses = [\"{}\"]    # of the device trackway-nc0\n\n\
         {peers}",
        own.inner
    )
}

/// The section for an end in the other end's file.
fn peer(line: &Line) -> String {
    let host = format!(
        "{}/{}",
        line.inner.address(),
        if line.inner.address().is_ipv4() { 32 } else { 128 }
    );
    let endpoint = match line.endpoint {
        Some(at) => format!("endpoint = \"{at}\"\n"),
        None => "# endpoint is not known: this end calls us\n".to_owned(),
    };
    format!(
        "[[tunnel.peer]]\nname = \"{}\"\npublic-key = \"{}\"\n{endpoint}\
         routes = {}   # what is behind it\nkeepalive = \"15s\"             # keeps address translators open\n",
        line.name,
        line.key,
        line.networks.toml(&[host])
    )
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, key, endpoint, inner, networks } = self;
        write!(f, "{MARK} name={name} key={key} inner={inner}")?;
        if let Some(endpoint) = endpoint {
            write!(f, " endpoint={endpoint}")?;
        }
        for network in &networks.0 {
            write!(f, " network={network}")?;
        }
        Ok(())
    }
}

impl FromStr for Line {
    type Err = NoLine;

    fn from_str(text: &str) -> Result<Self, NoLine> {
        let mut words = text.split_whitespace();
        if words.next() != Some(MARK) {
            return Err(NoLine);
        }
        let (mut name, mut key, mut inner, mut endpoint) = (None, None, None, None);
        let mut networks = Networks::default();
        for word in words {
            let (what, value) = word.split_once('=').ok_or(NoLine)?;
            match what {
                "name" => name = Some(value.to_owned()),
                "key" => key = Some(value.parse().map_err(|_| NoLine)?),
                "inner" => inner = Some(value.parse().map_err(|_| NoLine)?),
                "endpoint" => endpoint = Some(value.parse().map_err(|_| NoLine)?),
                "network" => networks.0.push(value.parse().map_err(|_| NoLine)?),
                _ => return Err(NoLine),
            }
        }
        let name = name.filter(|it| name::is_allowed(it));
        let (name, key) = (name.ok_or(NoLine)?, key.ok_or(NoLine)?);
        Ok(Self { name, key, endpoint, inner: inner.ok_or(NoLine)?, networks })
    }
}

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        if text == "none" {
            return Ok(Self(None));
        }
        let with_port =
            text.parse().or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT)));
        with_port.map(|at| Self(Some(at))).map_err(|_| NoPlace)
    }
}
