//! Scenarios for measuring the simulator's speed; the caller holds the clock.

pub mod manet;

use std::net::SocketAddr;
use std::time::Duration;

use base::quantity::{BitRate, Probability};

use crate::app::{stream, transfer};
use crate::channel::{self, Loss};
use crate::{InterfaceConfig, LinkConfig, NodeId, World};

/// A scenario to be timed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scenario {
    /// A TCP transfer without end over a chain of four links that lose 10 %.
    Chain,
    /// The same under HBH.
    ChainHbh,
    /// Datagrams over the same chain, as many as the links carry.
    Datagrams,
    /// A TCP transfer without end over one link of 100 Mbit/s and 1 ms.
    Fast,
}

/// Results of running a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Events of the simulator.
    pub events: u64,
    /// Packets put on links.
    pub packets: u64,
    /// Seconds that passed in the simulated world.
    pub simulated_s: f64,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chain, Self::ChainHbh, Self::Datagrams, Self::Fast];

    /// The name of the scenario.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::ChainHbh => "chain-hbh",
            Self::Datagrams => "datagrams",
            Self::Fast => "fast",
        }
    }

    /// A time in which some thousands of events happen.
    #[must_use]
    pub fn span(self) -> Duration {
        Duration::from_secs(match self {
            Self::Chain => 20_000,
            Self::ChainHbh | Self::Datagrams => 200,
            Self::Fast => 5,
        })
    }

    /// The network, ready to run.
    #[must_use]
    pub fn build(self, seed: u64) -> World {
        match self {
            Self::Chain => transfer(seed, false),
            Self::ChainHbh => transfer(seed, true),
            Self::Datagrams => datagrams(seed),
            Self::Fast => fast(seed),
        }
    }

    /// Runs the network for this long.
    #[must_use]
    pub fn run(self, world: &mut World, span: Duration) -> Work {
        let (start, before) = (world.now(), work(world));
        world.run_until(start + span);
        let after = work(world);
        Work {
            events: after.events - before.events,
            packets: after.packets - before.packets,
            simulated_s: after.simulated_s - before.simulated_s,
        }
    }
}

fn work(world: &World) -> Work {
    Work {
        events: world.events(),
        packets: world.total().sent.total().packets,
        simulated_s: world.now().as_secs_f64(),
    }
}

fn transfer(seed: u64, with_hbh: bool) -> World {
    let (mut world, nodes) = chain(seed, 0.1);
    if with_hbh {
        for node in nodes {
            world.enable_hbh(node, hbh::Config::new(hbh::Profile::Default));
        }
        world.meet();
    }
    add_transfer(&mut world, nodes[0], nodes[4]);
    world
}

fn fast(seed: u64) -> World {
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(100_000_000).expect("more than 0"),
        delay: Duration::from_millis(1),
        framing: 2,
        ..channel::Config::default()
    };
    let mut world = World::new(seed);
    let nodes = ["a", "b"].map(|name| world.add_node(name));
    let config = LinkConfig::symmetric(channel, InterfaceConfig::default());
    world.connect(nodes[0], nodes[1], &config);
    add_transfer(&mut world, nodes[0], nodes[1]);
    world
}

/// Adds a TCP transfer with NewReno without SACK, as in the ns-3 programs for comparison.
fn add_transfer(world: &mut World, from: NodeId, to: NodeId) {
    let tcp = tcp::Config {
        offer: tcp::Offer { sack: false, duplicate_sack: false, ..tcp::Offer::default() },
        r2: tcp::Limit::Never,
        r2_syn: tcp::Limit::Never,
        ..tcp::Config::default()
    };
    let to_address = SocketAddr::new(world.address(to).expect("it has links"), 9);
    let config =
        transfer::SenderConfig { octets: None, tcp, ..transfer::SenderConfig::new(to_address, 0) };
    world.add_app(from, transfer::Sender::new(config));
    world.add_app(
        to,
        transfer::Sink::new(transfer::SinkConfig { tcp, ..transfer::SinkConfig::new(9) }),
    );
}

fn datagrams(seed: u64) -> World {
    let (mut world, nodes) = chain(seed, 0.1);
    world.add_app(
        nodes[0],
        stream::Sender::new(stream::SenderConfig {
            interval: Duration::from_millis(15),
            ..stream::SenderConfig::new(
                SocketAddr::new(world.address(nodes[4]).expect("it has links"), 9),
                500,
            )
        }),
    );
    world.add_app(nodes[4], stream::Sink::new(9));
    world
}

/// Four links of 300 kbit/s and 50 ms that lose packets in both directions.
fn chain(seed: u64, loss: f64) -> (World, [NodeId; 5]) {
    let channel = channel::Config {
        rate: BitRate::from_bits_per_s(300_000).expect("more than 0"),
        delay: Duration::from_millis(50),
        loss: Loss::random(Probability::new(loss).expect("between 0 and 1")),
        framing: 2,
        ..channel::Config::default()
    };
    let config = LinkConfig::symmetric(channel, InterfaceConfig::default());
    let mut world = World::new(seed);
    let nodes = ["n0", "n1", "n2", "n3", "n4"].map(|name| world.add_node(name));
    for pair in nodes.windows(2) {
        world.connect(pair[0], pair[1], &config);
    }
    world.auto_routes();
    (world, nodes)
}
