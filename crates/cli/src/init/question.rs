//! Asks on the terminal for values that no flag gives.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::Context as _;

use crate::failure::misuse;
use crate::terminal;

/// A question whose answer may be given by a flag.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The flag without its hyphens.
    pub flag: &'a str,
    /// The question, such as `The other end's address`.
    pub words: &'a str,
    /// The value for an empty answer, or without a terminal. `None` if an answer is needed.
    pub usual: Option<&'a str>,
}

impl Question<'_> {
    /// The value of the flag, or the answer, or the usual value.
    ///
    /// # Errors
    /// When an answer is needed and nobody can be asked, or the answer is no such value.
    pub fn ask<T: FromStr<Err: Display>>(&self, given: Option<T>) -> anyhow::Result<T> {
        if let Some(given) = given {
            return Ok(given);
        }
        let Self { flag, words, usual } = *self;
        if !io::stdin().is_terminal() {
            let Some(usual) = usual else {
                return Err(misuse(format!("--{flag} is needed: {words}")));
            };
            return self.read(usual);
        }
        loop {
            let mut out = terminal::err();
            match usual {
                Some("") => write!(out, "{words} (none): ")?,
                Some(usual) => write!(out, "{words} ({usual}): ")?,
                None => write!(out, "{words}: ")?,
            }
            out.flush()?;
            let mut line = String::new();
            let len = io::stdin().lock().read_line(&mut line).context("the answer")?;
            let answer = match line.trim() {
                "" => usual,
                answer => Some(answer),
            };
            match answer.map(|answer| self.read(answer)) {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(why)) => writeln!(out, "{why}")?,
                None if len == 0 => return Err(misuse(format!("--{flag} is needed: {words}"))),
                None => {}
            }
        }
    }

    fn read<T: FromStr<Err: Display>>(&self, text: &str) -> anyhow::Result<T> {
        text.parse().map_err(|why| misuse(format!("--{}: {text:?}: {why}", self.flag)))
    }
}

/// Checks that two ends may reach each other by these addresses.
///
/// # Errors
/// When both addresses are equal, or one is IPv4 and the other IPv6.
pub fn expect_two(here: SocketAddr, there: SocketAddr) -> anyhow::Result<()> {
    if here == there {
        return Err(misuse("--here and --there: both ends have the same address"));
    }
    if here.is_ipv4() != there.is_ipv4() {
        let (here, there) = (here.ip(), there.ip());
        return Err(misuse(format!(
            "{here} and {there}: both ends need addresses of one version of IP"
        )));
    }
    Ok(())
}

/// Checks that an address may be a host's.
///
/// # Errors
/// When it is many hosts' or nobody's.
pub fn expect_host(what: &str, address: IpAddr) -> anyhow::Result<()> {
    if address.is_unspecified() || address.is_multicast() {
        return Err(misuse(format!("{what}: {address} is no host's address")));
    }
    Ok(())
}

/// Networks with commas between, or none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks(pub Vec<base::ip::Prefix>);

/// Why a text is no list of networks.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoNetworks {
    #[error("{0} has host bits: {network} is meant", network = .0.network())]
    Host(base::ip::Prefix),
    #[error("networks such as 10.2.0.0/16 are expected, with commas between")]
    Unreadable,
}

impl FromStr for Networks {
    type Err = NoNetworks;

    fn from_str(text: &str) -> Result<Self, NoNetworks> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let all = parts.map(|part| part.parse().map_err(|_| NoNetworks::Unreadable));
        let all: Vec<base::ip::Prefix> = all.collect::<Result<_, _>>()?;
        match all.iter().find(|it| **it != it.network()) {
            Some(host) => Err(NoNetworks::Host(*host)),
            None => Ok(Self(all)),
        }
    }
}

impl Networks {
    /// Formats the networks as a list in TOML, behind these first values.
    pub fn toml(&self, first: &[String]) -> String {
        let own = self.0.iter().map(ToString::to_string);
        let all = first.iter().cloned().chain(own).map(|it| format!("{it:?}"));
        format!("[{}]", all.collect::<Vec<_>>().join(", "))
    }
}
