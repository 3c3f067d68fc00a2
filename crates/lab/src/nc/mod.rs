//! The claims about the coded tunnel (Ha et al., "Masking Lossy Networks by TCP Tunnel with Network
//! Coding"), and the goals that our own tunnel has beyond them.
//!
//! Each file holds claims that look at the same runs. All run on the same [`network`].

mod beyond;
mod build;
mod clean;
mod fair;
mod figure7;
mod goodput;
mod grid;
mod lone;
mod long;
mod lre;
mod measure;
pub(crate) mod network;
mod paths;
mod rto;
mod scoreboard;
mod traces;

use std::time::Duration;

use crate::prelude::*;
use network::Carrier;
use tunnel as nc;

const GROUP: &str = "nc";
const PERCENT: &str = "%";
const MBIT: &str = "Mbit/s";

/// The minimum RTO of the paper's tunnel, section III-B.
const TUNNEL_RTO: Duration = Duration::from_millis(400);

/// All claims about tunnels: first the paper's, then ours.
#[must_use]
pub fn claims() -> Vec<Claim> {
    let mut claims = vec![goodput::CLAIM];
    claims.extend(figure7::claims());
    claims.extend([rto::CLAIM, lre::CLAIM, beyond::CLAIM]);
    claims.extend([
        long::CLAIM,
        lone::CLAIM,
        clean::CLAIM,
        fair::CLAIM,
        paths::CLAIM,
        scoreboard::CLAIM,
    ]);
    claims
}

/// How packets get over the lossy link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scheme {
    /// Packets travel through our tunnel.
    Ours,
    /// No tunnel: TCP's packets cross the link as they are.
    Tcp,
    /// The hosts speak TCP/NC with each other.
    TcpNc,
    /// Packets travel through the TCP/NC tunnel of the paper.
    TcpNcTunnel,
}

impl Scheme {
    const ALL: [Self; 4] = [Self::Tcp, Self::TcpNc, Self::TcpNcTunnel, Self::Ours];
    /// The schemes that the paper proposes.
    const PAPER: [Self; 2] = [Self::TcpNc, Self::TcpNcTunnel];
    /// The schemes that carry both directions in the same way.
    const BEYOND: [Self; 2] = [Self::Tcp, Self::Ours];

    /// The name of the series in the results.
    fn series(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Tcp => "tcp",
            Self::TcpNc => "tcpnc",
            Self::TcpNcTunnel => "tcpnc-tunnel",
        }
    }

    /// The name in figures.
    fn title(self) -> &'static str {
        match self {
            Self::Ours => "our tunnel",
            Self::Tcp => "plain TCP",
            Self::TcpNc => "TCP/NC from end to end",
            Self::TcpNcTunnel => "the paper's tunnel",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::Ours => Ink::Default,
            Self::Tcp => Ink::Tcp,
            Self::TcpNc => Ink::Other(0),
            Self::TcpNcTunnel => Ink::Paper,
        }
    }

    fn line(self) -> Line {
        Line::new(self.series(), self.title(), self.ink())
    }

    fn carrier(self) -> Carrier {
        match self {
            Self::Ours => Carrier::Coded(nc::Config::default()),
            Self::Tcp => Carrier::Plain,
            Self::TcpNc => Carrier::TcpNc,
            Self::TcpNcTunnel => Carrier::TcpNcTunnel { min_rto: TUNNEL_RTO },
        }
    }
}

/// The assumptions made where the paper does not say how it measured.
fn assumptions() -> Vec<String> {
    vec![
        "Goodput is what the applications receive: with our tunnel in 20 s, after 5 s that do not \
         count; with the paper's schemes, where they are judged, in 200 s from the start, as the \
         paper counts transfers of 100 MB from their beginning."
            .to_owned(),
        "Packets of 1,000 octets are IP packets; links add no framing. Losses are on the middle \
         link only, in the direction of the data, each packet on its own."
            .to_owned(),
        "TCP of the hosts is NewReno without SACK, timestamps and window scaling, so at most 64 KB in \
         flight, with a minimum RTO of 1 s, and otherwise that of ns-3, the paper's simulator. It \
         never gives up. The TCP of the paper's tunnel follows current RFCs where the paper is \
         silent; ns-3's constants there make no visible difference."
            .to_owned(),
        "The limit of a session is what its edge link lets through, or its share of what the middle \
         does not lose, whichever is less, without the headers of TCP and IP. What a tunnel adds is \
         its own cost; the limit that the headers of ours leave is given beside it."
            .to_owned(),
    ]
}
