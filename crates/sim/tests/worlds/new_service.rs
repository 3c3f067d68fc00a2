//! Shows that a new service costs one file: here a service that echoes datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::ip::protocol;
use base::ip::udp::Datagram;
use base::time::Time;
use sim::app::{ping, stream};
use sim::service::{Hook, Service, Verdict, Way};
use sim::{Engine, LinkConfig, PacketId, World};

const PORT: u16 = 7;

/// Returns each datagram for its port to the sender.
#[derive(Debug, Default)]
struct Echo {
    replies: VecDeque<PacketId>,
    answered: u64,
}

impl Service for Echo {
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        matches!(hook, Hook::Input { flow, .. }
            if flow.protocol == protocol::UDP && flow.destination_port == PORT)
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let octets = engine.octets(packet).to_vec();
        let Some(request) = hook.datagram(&octets) else { return Verdict::Malformed };
        engine.remove(packet);
        let (source, destination) = (request.destination, request.source);
        let reply = Datagram { source, destination, ..request };
        self.replies.push_back(engine.add(|out| reply.emit(out)));
        self.answered += 1;
        Verdict::Taken
    }

    fn poll_packet(&mut self, _engine: &mut Engine) -> Option<(PacketId, Way)> {
        Some((self.replies.pop_front()?, Way::Out))
    }
}

#[test]
fn a_service_plugs_into_a_node() {
    let mut world = World::new(1);
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    for pair in nodes.windows(2) {
        world.connect(pair[0], pair[1], &LinkConfig::default());
    }
    world.auto_routes();
    world.add_service(nodes[2], Echo::default());
    let server = SocketAddr::new(world.address(nodes[2]).expect("it has a link"), PORT);
    let requests =
        stream::SenderConfig { count: Some(20), ..stream::SenderConfig::new(server, 100) };
    let ping = world.add_app(nodes[0], ping::Ping::new(requests));

    world.run(Time::MAX, |_| false);

    assert_eq!(world.app::<ping::Ping>(ping).expect("a ping").stats().answered, 20);
    let echo = world.services::<Echo>(nodes[2]).next().expect("the service");
    assert_eq!(echo.answered, 20);
    assert_eq!(world.packets_under_way(), 0);
}
