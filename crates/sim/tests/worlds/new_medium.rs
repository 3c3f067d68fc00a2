//! Shows that a new medium costs one file: here a bus on which one port at a time transmits.
//!
//! During a transmission, the time of the next is unknown: the first port that wants the silent bus transmits.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::ip::udp::Datagram;
use base::time::Time;
use sim::app::stream;
use sim::medium::{Delivery, LinkAddress, Medium, Neighbour};
use sim::{InterfaceConfig, NodeId, PacketId, PortId, Prefix, World};

/// How long every transmission takes.
const SLOT: Duration = Duration::from_millis(1);

/// An ideal bus that all its ports hear.
#[derive(Debug, Default)]
struct Bus {
    ports: Vec<PortId>,
    addresses: BTreeMap<IpAddr, PortId>,
}

impl Bus {
    fn others(&self, port: PortId) -> impl Iterator<Item = PortId> {
        self.ports.iter().copied().filter(move |other| *other != port)
    }
}

impl Medium for Bus {
    fn attach(&mut self, port: PortId) {
        self.ports.push(port);
    }

    fn handle_address(&mut self, port: PortId, address: IpAddr) {
        self.addresses.insert(address, port);
    }

    fn transmit(
        &mut self,
        delivery: &mut Delivery<'_>,
        from: PortId,
        to: LinkAddress,
        packet: PacketId,
    ) {
        let end = delivery.now() + SLOT;
        match to {
            LinkAddress::Broadcast => {
                for (index, port) in self.others(from).enumerate() {
                    if index > 0 {
                        delivery.share(packet);
                    }
                    delivery.deliver(end, from, port, packet);
                }
            }
            LinkAddress::Port(port) => delivery.deliver(end, from, port, packet),
        }
        for port in &self.ports {
            delivery.set_idle(*port, Time::MAX);
        }
        delivery.wake(end, 0);
    }

    /// The bus falls silent; another port is first each time.
    fn handle_event(&mut self, delivery: &mut Delivery<'_>, _token: u32) {
        self.ports.rotate_left(1);
        for port in &self.ports {
            delivery.set_idle(*port, delivery.now());
        }
    }

    fn resolve(&self, _port: PortId, address: IpAddr) -> Option<LinkAddress> {
        self.addresses.get(&address).copied().map(LinkAddress::Port)
    }

    fn neighbours(&self, _now: Time, port: PortId) -> Vec<Neighbour> {
        self.others(port).map(|port| Neighbour { port, cost: 1 }).collect()
    }
}

#[test]
fn a_broadcast_reaches_every_port_once() {
    let (mut world, nodes, _) = bus();
    let sinks = nodes.map(|node| world.add_app(node, stream::Sink::new(9)));
    let mut packet = Vec::new();
    let [source, destination] =
        ["10.1.0.1:9", "255.255.255.255:9"].map(|text| text.parse().expect("an address"));
    Datagram { source, destination, payload: b"hello" }.emit(&mut packet);

    world.inject(nodes[0], &packet);
    world.run(Time::MAX, |_| false);

    let foreign =
        sinks.map(|sink| world.app::<stream::Sink>(sink).expect("a sink").stats().foreign);
    assert_eq!(foreign, [0, 1, 1], "datagrams without a stamp, at all but their sender");
    assert_eq!(world.packets_under_way(), 0);
}

#[test]
fn ports_take_turns_when_the_bus_falls_silent() {
    for with_hbh in [false, true] {
        let (mut world, nodes, ports) = bus();
        if with_hbh {
            for node in nodes {
                world.enable_hbh(node, hbh::Config::new(hbh::Profile::Default));
            }
            world.meet();
        }
        let begun = world.now();
        let sinks = [0, 1, 2].map(|from: usize| {
            let to = nodes[(from + 1) % 3];
            let destination = SocketAddr::new(world.address(to).expect("it has one"), 9);
            let config = stream::SenderConfig {
                interval: Duration::from_micros(10),
                count: Some(20),
                ..stream::SenderConfig::new(destination, 100)
            };
            world.add_app(nodes[from], stream::Sender::new(config));
            world.add_app(to, stream::Sink::new(9))
        });

        world.run_until(begun + Duration::from_secs(2));

        for sink in sinks {
            let stats = world.app::<stream::Sink>(sink).expect("a sink").stats();
            assert_eq!(stats.received, 20);
            let last = stats.last.expect("some arrived").since(begun);
            assert!(with_hbh || (18 * 3 * SLOT..=60 * SLOT).contains(&last), "{last:?}");
        }
        let sent = ports.map(|port| world.port_counters(port).sent.total().packets);
        assert!(with_hbh || sent == [20; 3], "{sent:?}");
        assert_eq!(world.total().lost.packets, 0);
    }
}

/// Three nodes on a bus.
fn bus() -> (World, [NodeId; 3], [PortId; 3]) {
    let mut world = World::new(1);
    let bus = world.add_medium(Bus::default());
    let nodes = ["a", "b", "c"].map(|name| world.add_node(name));
    let mut host = 0;
    let ports = nodes.map(|node| {
        let port = world.attach(node, bus, "bus", InterfaceConfig::default());
        host += 1;
        world.add_address(port, [10, 1, 0, host].into());
        let everybody: IpAddr = [255; 4].into();
        world.add_route(port, Prefix::host(everybody), None, 0);
        port
    });
    world.auto_routes();
    (world, nodes, ports)
}
