//! Conversations of two hosts over a link.

use std::net::SocketAddr;
use std::sync::Arc;

use base::time::Time;
use hf::s5066::node::Stats;
use sim::app::dialogue::{self, Config, Side, Speaker, Turn};
use sim::hf::StationId;
use sim::{AppId, HfId, World};

use super::link::{BEGIN, Link, Network};

/// The port of the first server.
const SERVER: u16 = 443;
/// The port of the first client.
const CLIENT: u16 = 40_100;
/// Both stations.
pub const STATIONS: [StationId; 2] = [StationId(0), StationId(1)];

/// Conversations at work, each with a client behind the first station and a server behind the other.
pub struct Talks {
    pub world: World,
    pub hf: HfId,
    /// Client and server of each conversation.
    speakers: Vec<[AppId; 2]>,
}

/// A conversation that is to be had.
pub struct Script {
    /// When the client connects.
    pub start: Time,
    pub turns: Arc<[Turn]>,
}

impl Script {
    /// One that begins at [`BEGIN`].
    pub fn at_once(turns: Arc<[Turn]>) -> Self {
        Self { start: BEGIN, turns }
    }
}

/// One turn of a conversation: octets from one side.
pub fn turn(speaker: Side, octets: impl Into<Arc<[u8]>>) -> Turn {
    Turn { speaker, octets: octets.into() }
}

/// Octets that do not compress.
pub fn noise(len: usize) -> Vec<u8> {
    let mut rng = base::rng::Rng::stream(len as u64, "noise");
    (0..len).map(|_| rng.bits().to_le_bytes()[7]).collect()
}

impl Talks {
    /// Starts these conversations, each at its own time.
    pub fn new(link: &Link, seed: u64, scripts: &[Script]) -> Self {
        let Network { mut world, hf, hosts: [a, b], addresses: [_, to], tcp } = link.network(seed);
        let speakers = scripts.iter().zip(0_u16..).map(|(script, number)| {
            let config = Config {
                server: SocketAddr::new(to, SERVER + number),
                port: CLIENT + number,
                start: script.start,
                turns: Arc::clone(&script.turns),
                tcp,
            };
            let server = world.add_app(b, Speaker::new(Side::Server, config.clone()));
            [world.add_app(a, Speaker::new(Side::Client, config)), server]
        });
        let speakers = speakers.collect();
        Self { world, hf, speakers }
    }

    /// Runs until no connection is left, or until then.
    pub fn run(&mut self, until: Time) {
        let Self { world, speakers, .. } = self;
        world.run(until, |world| {
            let ended = |app: &AppId| side(world, *app).ended.is_some();
            speakers.iter().flatten().all(ended)
        });
    }

    /// Runs until all turns are over, or until then.
    pub fn run_until_finished(&mut self, until: Time) {
        let Self { world, speakers, .. } = self;
        world.run(until, |world| {
            speakers.iter().flatten().all(|app| side(world, *app).finished.is_some())
        });
    }

    /// Runs until all turns of the first conversation are over, or until then.
    pub fn run_until_first_finished(&mut self, until: Time) {
        let Self { world, speakers, .. } = self;
        world.run(until, |world| {
            speakers.iter().take(1).flatten().all(|app| side(world, *app).finished.is_some())
        });
    }

    /// Client and server of each conversation.
    pub fn sides(&self) -> impl Iterator<Item = [&dialogue::Stats; 2]> {
        self.speakers.iter().map(|pair| pair.map(|app| side(&self.world, app)))
    }

    /// Seconds from [`BEGIN`] until the last turn of all conversations was over.
    pub fn finished_s(&self) -> Option<f64> {
        let last = |[client, server]: [&dialogue::Stats; 2]| {
            Some(client.finished?.max(server.finished?).since(BEGIN).as_secs_f64())
        };
        self.sides().map(last).try_fold(0.0, |latest: f64, one| Some(latest.max(one?)))
    }

    /// The counters of both nodes.
    pub fn nodes(&self) -> [Stats; 2] {
        STATIONS.map(|station| *self.world.hf_node(self.hf, station).stats())
    }
}

fn side(world: &World, app: AppId) -> &dialogue::Stats {
    let speaker: &Speaker = world.app(app).expect("speakers are all that was added");
    speaker.stats()
}
