//! A scenario as it stands in its file.

use std::net::IpAddr;

use serde::Deserialize;
use sim::channel::Loss;
use sim::units::{BitRate, Span};
use std::collections::BTreeMap;
use toml::Spanned;

use super::human::{Human, Switch};
use super::{hf, hop, tcp};

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) duration: Option<Spanned<Human<Span>>>,
    pub(super) seed: Option<u64>,
    #[serde(default)]
    pub(super) routing: Routing,
    pub(super) nodes: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) node: BTreeMap<Spanned<String>, Node>,
    /// HBH on every node.
    #[serde(default)]
    pub(super) hbh: Option<Spanned<Switch<hop::Options>>>,
    #[serde(default)]
    pub(super) defaults: Defaults,
    #[serde(default)]
    pub(super) link: Vec<Spanned<Link>>,
    #[serde(default)]
    pub(super) route: Vec<Spanned<Route>>,
    #[serde(default)]
    pub(super) tunnel: Vec<Tunnel>,
    #[serde(default)]
    pub(super) hf: Vec<hf::Said>,
    #[serde(default)]
    pub(super) tcp: Vec<Spanned<Tcp>>,
    #[serde(default)]
    pub(super) udp: Vec<Spanned<Udp>>,
}

/// Who makes the routes that the file does not give.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Routing {
    /// Shortest paths, found anew when a link goes down or up.
    Follow,
    /// Nobody.
    None,
    /// Shortest paths, found once.
    #[default]
    Shortest,
}

/// What is special about one node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Node {
    pub(super) addresses: Vec<Spanned<IpAddr>>,
    pub(super) hbh: Option<Spanned<Switch<hop::Options>>>,
}

/// What holds for all links and flows that say nothing else.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Defaults {
    pub(super) link: Direction,
    pub(super) tcp: Option<Spanned<tcp::Options>>,
}

/// One direction of a link, as far as it is said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Direction {
    pub(super) rate: Option<Human<BitRate>>,
    pub(super) delay: Option<Human<Span>>,
    pub(super) jitter: Option<Human<Span>>,
    pub(super) reorder: Option<bool>,
    pub(super) loss: Option<Human<Loss>>,
    pub(super) framing: Option<usize>,
    pub(super) queue: Option<usize>,
    pub(super) queue_octets: Option<usize>,
    pub(super) hop_backlog: Option<usize>,
    pub(super) mtu: Option<usize>,
    pub(super) down: Option<Spanned<Vec<[Human<Span>; 2]>>>,
}

/// A link: what holds for both directions, and what for one of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Link {
    pub(super) between: [Spanned<String>; 2],
    #[serde(default = "one")]
    pub(super) cost: u32,
    #[serde(default)]
    pub(super) there: Direction,
    #[serde(default)]
    pub(super) back: Direction,
    // What both directions share: the fields of `Direction`.
    rate: Option<Human<BitRate>>,
    delay: Option<Human<Span>>,
    jitter: Option<Human<Span>>,
    reorder: Option<bool>,
    loss: Option<Human<Loss>>,
    framing: Option<usize>,
    queue: Option<usize>,
    queue_octets: Option<usize>,
    hop_backlog: Option<usize>,
    mtu: Option<usize>,
    down: Option<Spanned<Vec<[Human<Span>; 2]>>>,
}

/// A route, or its end, from a time on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    pub(super) node: Spanned<String>,
    /// A node, or a prefix.
    pub(super) to: Spanned<String>,
    pub(super) via: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) remove: bool,
    #[serde(default)]
    pub(super) at: Human<Span>,
    #[serde(default)]
    pub(super) metric: u32,
}

/// A coded tunnel between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tunnel {
    pub(super) between: [Spanned<String>; 2],
    /// The nodes that are reached through the tunnel: those behind its first end, and its second.
    pub(super) behind: [Vec<Spanned<String>>; 2],
}

/// A TCP transfer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tcp {
    pub(super) name: Option<String>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) octets: u64,
    #[serde(default)]
    pub(super) start: Human<Span>,
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) ipv6: bool,
    /// Of all packets, both ends' and whatever `options` say.
    pub(super) dscp: Option<Spanned<i64>>,
    /// Of both ends.
    pub(super) options: Option<Spanned<tcp::Options>>,
}

/// A stream of datagrams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Udp {
    pub(super) name: Option<String>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) rate: Spanned<Human<BitRate>>,
    pub(super) payload: Spanned<usize>,
    #[serde(default)]
    pub(super) start: Human<Span>,
    pub(super) stop: Option<Human<Span>>,
    pub(super) count: Option<u64>,
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) ipv6: bool,
    pub(super) dscp: Option<Spanned<i64>>,
}

fn one() -> u32 {
    1
}

impl Link {
    /// What is said about both directions.
    pub(super) fn both(&self) -> Direction {
        let link = self.clone();
        Direction {
            rate: link.rate,
            delay: link.delay,
            jitter: link.jitter,
            reorder: link.reorder,
            loss: link.loss,
            framing: link.framing,
            queue: link.queue,
            queue_octets: link.queue_octets,
            hop_backlog: link.hop_backlog,
            mtu: link.mtu,
            down: link.down,
        }
    }
}

impl Direction {
    /// This, with `other` where this says nothing.
    pub(super) fn or(self, other: &Self) -> Self {
        let other = other.clone();
        Self {
            rate: self.rate.or(other.rate),
            delay: self.delay.or(other.delay),
            jitter: self.jitter.or(other.jitter),
            reorder: self.reorder.or(other.reorder),
            loss: self.loss.or(other.loss),
            framing: self.framing.or(other.framing),
            queue: self.queue.or(other.queue),
            queue_octets: self.queue_octets.or(other.queue_octets),
            hop_backlog: self.hop_backlog.or(other.hop_backlog),
            mtu: self.mtu.or(other.mtu),
            down: self.down.or(other.down),
        }
    }
}
