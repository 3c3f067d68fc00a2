//! A page by https over HF-PEP: with TLS from end to end, and with TLS that ends at the gateways.

mod flights;
mod report;

use std::sync::Arc;

use flights::{Flight, NAME, REQUEST, Version, answer};
use sim::app::dialogue::{Side, Turn};

use super::GROUP;
use super::link::{BEGIN, Link};
use super::talk::{Script, Talks, noise, turn};
use super::transfer::{LIMIT, idle};
use crate::prelude::*;

/// The speeds at which the page is fetched.
const SPEEDS: [u32; 4] = [300, 1_200, 2_400, 9_600];

/// Until the client has the whole page.
pub const SECONDS: Metric = "page";
/// Octets of frames with new data, both ways, headers included.
pub const OCTETS: Metric = "octets on the air";

/// How the page is fetched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// By http.
    Plain,
    /// TLS between the hosts.
    EndToEnd(Version),
    /// TLS on both LANs; between the gateways, the gateways' own protection.
    Proxies,
}

/// A fetch of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fetch {
    pub speed: u32,
    pub way: Way,
    /// Whether HF-PEP compresses what shrinks.
    pub is_compressed: bool,
}

pub const WAYS: [Way; 4] =
    [Way::Plain, Way::EndToEnd(Version::Tls13), Way::EndToEnd(Version::Tls12), Way::Proxies];

pub const CLAIM: Claim = Claim {
    id: "hf-tls",
    group: GROUP,
    text: "TLS end to end adds a handshake and about 5 kB; a TLS proxy removes both and lets \
           compression work",
    source: "TCP over HF radio, TLS PEP",
    experiment: || Experiment::new(fetches(), report::judge),
};

fn fetches() -> impl Iterator<Item = Fetch> {
    SPEEDS.into_iter().flat_map(|speed| {
        WAYS.into_iter().flat_map(move |way| {
            [false, true].map(|is_compressed| Fetch { speed, way, is_compressed })
        })
    })
}

impl Fetch {
    fn link(&self) -> Link {
        idle(self.speed, self.is_compressed)
    }

    fn script(&self) -> Arc<[Turn]> {
        let plain = |head: &[u8]| -> Arc<[Turn]> {
            let request = [head, REQUEST.as_bytes()].concat();
            [turn(Side::Client, request), turn(Side::Server, answer())].into()
        };
        match self.way {
            Way::Plain => plain(&[]),
            // What the opening tells of TLS beyond addresses: the length of the name, and the name.
            Way::Proxies => {
                let len = u8::try_from(NAME.len()).expect("a short name");
                plain(&[&[0, len], NAME.as_bytes()].concat())
            }
            Way::EndToEnd(version) => {
                let said = |flight: &Flight| turn(flight.speaker, noise(flight.octets));
                version.flights().iter().map(said).collect()
            }
        }
    }

    fn run(&self, seed: u64) -> Outcome {
        let mut talks = Talks::new(&self.link(), seed, &[Script::at_once(self.script())]);
        talks.world.run_until(BEGIN);
        let sent = |talks: &Talks| {
            let nodes = talks.nodes();
            nodes.map(|node| node.sent.data.octets).into_iter().sum::<u64>()
        };
        let before = sent(&talks);
        talks.run_until_finished(BEGIN + LIMIT);
        let time = talks.finished_s();
        vec![
            (SECONDS, Observation::or_later(time, LIMIT.as_secs_f64())),
            (OCTETS, Observation::counted(sent(&talks) - before, time.is_some())),
        ]
    }
}

impl Place for Fetch {
    fn cell(&self) -> Cell {
        let fetch = *self;
        let Self { speed, way, is_compressed } = fetch;
        let (words, way) = match way {
            Way::Plain => ("none", "Plain"),
            Way::EndToEnd(Version::Tls12) => ("1.2-end-to-end", "EndToEnd(Tls12)"),
            Way::EndToEnd(Version::Tls13) => ("1.3-end-to-end", "EndToEnd(Tls13)"),
            Way::Proxies => ("by-proxies", "Proxies"),
        };
        let name = Name::of("page").with("rate", speed).with("tls", words);
        let name = name.when(is_compressed, "compressed");
        let draws =
            format!("page Fetch {{ speed: {speed}, way: {way}, is_compressed: {is_compressed} }}");
        Cell::new(name, draws, move |seed| fetch.run(seed)).at_most(super::ALIKE)
    }
}
