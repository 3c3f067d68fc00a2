//! Shows that a new service costs one file: here a service that echoes datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use base::ip::protocol;
use base::ip::udp::Datagram;
use base::time::Time;
use sim::app::{ping, stream};
use sim::service::{Hook, Service, Verdict, Way};
use sim::{Engine, LinkConfig, PacketId, World};

/// Returns each datagram for its port to the sender.
#[derive(Debug)]
struct Echo {
    port: u16,
    replies: VecDeque<PacketId>,
    answered: u64,
}

impl Service for Echo {
    fn claims(&self, hook: &Hook<'_>, _octets: &[u8]) -> bool {
        matches!(hook, Hook::Input { flow, .. }
            if flow.protocol == protocol::UDP && flow.destination_port == self.port)
    }

    fn handle(&mut self, engine: &mut Engine, hook: &Hook<'_>, packet: PacketId) -> Verdict {
        let Hook::Input { header, offset, .. } = hook else { return Verdict::Malformed };
        let request = engine.octets(packet).to_vec();
        let Ok(Datagram { source, destination, payload }) =
            Datagram::parse(header, &request, *offset)
        else {
            return Verdict::Malformed;
        };
        engine.remove(packet);
        let reply = Datagram { source: destination, destination: source, payload };
        self.replies.extend(engine.make(|out| {
            reply.emit(out);
            true
        }));
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
    world.add_service(nodes[2], Echo { port: 7, replies: VecDeque::new(), answered: 0 });
    let server = SocketAddr::new(world.address(nodes[2]).expect("it has a link"), 7);
    let requests = stream::SenderConfig {
        port: 5_000,
        destination: server,
        payload: 100,
        interval: Duration::from_millis(10),
        start: Time::ZERO,
        stop: None,
        count: Some(20),
        dscp: 0,
    };
    let ping = world.add_app(nodes[0], ping::Ping::new(requests));

    world.run(Time::MAX, |_| false);

    assert_eq!(world.app::<ping::Ping>(ping).expect("a ping").stats().answered, 20);
    let echo = world.services::<Echo>(nodes[2]).next().expect("the service");
    assert_eq!(echo.answered, 20);
    assert_eq!(world.packets_under_way(), 0);
}
