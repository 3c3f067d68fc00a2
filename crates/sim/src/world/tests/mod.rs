//! Networks, run and asked what happened.

mod cnr;
mod golden;
mod hf;
mod hf_pep;
mod hops;
mod hostile;
mod links;
mod positions;
mod radio;
mod routing;
mod runs;
mod streams;
mod tcpnc;
mod transfers;
mod tunnels;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::ip::{Spec, protocol, udp};
use base::quantity::{BitRate, Probability};
use base::time::Time;

use super::*;
use crate::app::{echo, ping, stream, transfer};
use crate::channel::{self, Loss};
use crate::{InterfaceConfig, Prefix};

/// The paper's kind of link: 300 kbit/s, 50 ms.
fn slow() -> channel::Config {
    channel::Config {
        rate: BitRate::from_bits_per_s(300_000).unwrap(),
        delay: Duration::from_millis(50),
        ..channel::Config::default()
    }
}

fn lossy(p: f64) -> channel::Config {
    channel::Config { loss: Loss::random(Probability::new(p).unwrap()), ..slow() }
}

fn link(channel: channel::Config) -> LinkConfig {
    LinkConfig::symmetric(channel, InterfaceConfig::default())
}

/// A chain of nodes called `n0`, `n1` and so on, with routes.
fn chain(seed: u64, links: usize, config: &LinkConfig) -> (World, Vec<NodeId>) {
    let mut world = World::new(seed);
    let nodes: Vec<_> = (0..=links).map(|n| world.add_node(&format!("n{n}"))).collect();
    for pair in nodes.windows(2) {
        world.connect(pair[0], pair[1], config);
    }
    world.auto_routes();
    (world, nodes)
}

fn stream_to(world: &World, node: NodeId, payload: usize, count: u64) -> stream::SenderConfig {
    stream::SenderConfig {
        start: world.now(),
        count: Some(count),
        ..stream::SenderConfig::new(SocketAddr::new(world.address(node).unwrap(), 9), payload)
    }
}

fn datagram(from: IpAddr, to: IpAddr, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload = &vec![0; payload];
    let (source, destination) = (SocketAddr::new(from, 7), SocketAddr::new(to, 9));
    udp::Datagram { source, destination, payload }.emit(&mut packet);
    packet
}

fn echo_request(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut packet = Vec::new();
    Spec::new(from, to, protocol::ICMP).emit(8, &mut packet);
    packet.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    packet
}

/// Runs for so many seconds from now.
fn run_for(world: &mut World, seconds: u64) {
    world.run_until(world.now() + Duration::from_secs(seconds));
}

fn secs(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}
