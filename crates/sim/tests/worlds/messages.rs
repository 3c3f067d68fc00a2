//! Tests the same messages between all nodes of a combat net over UDP, S/R and TCP.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::ip::Header;
use base::rng::Rng;
use base::time::Time;
use sar::Precedence;
use sim::app::App;
use sim::app::messages::{Carrier, Config, Messenger, Stats};
use sim::cnr::{self, Hearing, Preset};
use sim::mobility::Motion;
use sim::{AppId, CnrId, NodeId, Prefix, World};

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// A net whose nodes all have a messenger.
struct Net {
    world: World,
    id: CnrId,
    nodes: Vec<NodeId>,
    messengers: Vec<AppId>,
}

fn secs(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Messages for 2,000 s, one per minute from each node.
fn usual(carrier: Carrier) -> Config {
    Config {
        local: Ipv4Addr::UNSPECIFIED,
        others: Vec::new(),
        destinations: 1,
        group: None,
        port: 1_581,
        payload: 128,
        precedence: Precedence::ROUTINE,
        lifetime: None,
        interval: Duration::from_secs(60),
        start: Time::ZERO,
        stop: Some(secs(2_000)),
        carrier,
    }
}

fn over_tcp(keep: u64) -> Carrier {
    let tcp = tcp::Config { mtu: 576, rto: seconds_of_timeout(7), ..tcp::Config::default() };
    Carrier::Tcp { tcp: Box::new(tcp), keep: Duration::from_secs(keep) }
}

fn seconds_of_timeout(seconds: u64) -> tcp::Rto {
    let first = Duration::from_secs(seconds);
    tcp::Rto { initial: first, syn: first, after_syn_timeout: first, ..tcp::Rto::default() }
}

fn over_sar() -> Carrier {
    Carrier::Sar(Box::default())
}

impl Net {
    fn new(stations: usize, loss: f64, config: &Config) -> Self {
        let mut world = World::new(5);
        let of_net = cnr::Config { loss, ..cnr::Config::new(Preset::Sincgars16k) };
        let id = world.add_cnr(of_net, Hearing::All);
        let nodes: Vec<NodeId> =
            (0..stations).map(|node| world.add_node(&format!("n{node}"))).collect();
        for node in &nodes {
            let port = world.add_cnr_station(id, *node, Motion::at_rest(Default::default()));
            let group = Prefix::new(GROUP.into(), 32).expect("32 bits");
            world.add_route(port, group, None, 0);
        }
        world.auto_routes();
        let addresses: Vec<Ipv4Addr> = nodes
            .iter()
            .map(|node| {
                let mut own = world.addresses(*node);
                let address = own.find_map(|it| match it {
                    IpAddr::V4(address) => Some(address),
                    IpAddr::V6(_) => None,
                });
                address.expect("an address")
            })
            .collect();
        let mut messengers = Vec::new();
        for (node, local) in nodes.iter().zip(&addresses) {
            let others = addresses.iter().copied().filter(|other| other != local).collect();
            let config = Config { local: *local, others, ..config.clone() };
            let rng = world.stream(&format!("messages {local}"));
            messengers.push(world.add_app(*node, Messenger::new(config, rng)));
        }
        Self { world, id, nodes, messengers }
    }

    fn run(mut self) -> Self {
        self.world.run_until(secs(4_000));
        self
    }

    fn stats(&self) -> Vec<Stats> {
        let apps = self.messengers.iter();
        apps.map(|app| *self.world.app::<Messenger>(*app).expect("a messenger").stats()).collect()
    }

    fn sum(&self, of: fn(&Stats) -> u64) -> u64 {
        self.stats().iter().map(of).sum()
    }

    fn transmissions(&self) -> u64 {
        self.world.cnr_medium(self.id).total(self.world.now()).transmissions
    }
}

#[test]
fn all_carriers_bring_the_same_messages() {
    let nets = [Carrier::Udp, over_sar(), over_tcp(0), over_tcp(600)]
        .map(|carrier| Net::new(6, 0.05, &usual(carrier)).run());

    let [udp, sar, tcp, kept] = &nets;
    let sent = |net: &Net| net.stats().iter().map(|it| it.sent).collect::<Vec<_>>();
    for net in &nets {
        assert_eq!(sent(net), sent(udp));
        assert_eq!(net.sum(|it| it.expected), udp.sum(|it| it.sent));
        assert_eq!(net.sum(|it| it.malformed + it.again + it.refused), 0);
    }
    // About two hundred messages; the net itself loses a few.
    let expected = udp.sum(|it| it.sent);
    assert!((130..270).contains(&expected), "{expected}");
    assert!(udp.sum(|it| it.received) < expected);
    assert_eq!(udp.sum(|it| it.told + it.failed), 0);
    for net in [sar, tcp, kept] {
        assert_eq!(net.sum(|it| it.received), expected);
        assert_eq!((net.sum(|it| it.told), net.sum(|it| it.failed)), (expected, 0));
    }
    assert_eq!(tcp.sum(|it| it.set_up.count()), expected, "a connection for each");
    let set_up = kept.sum(|it| it.set_up.count());
    assert!((30..expected / 2).contains(&set_up), "{set_up} of {expected}: they are kept");
    assert!(sar.transmissions() < tcp.transmissions() / 2);
}

#[test]
fn a_group_is_told_once_and_only_those_who_are_meant_listen() {
    let interval = Duration::from_secs(240);
    let several = |group| Config { destinations: 3, group, interval, ..usual(over_sar()) };
    let each = Net::new(16, 0.0, &several(None)).run();
    let together = Net::new(16, 0.0, &several(Some(GROUP))).run();

    for net in [&each, &together] {
        let expected = net.sum(|it| it.expected);
        assert_eq!(expected, 3 * net.sum(|it| it.sent));
        assert_eq!(net.sum(|it| it.received), expected);
        // Acknowledgements collide too: now and then a sender gives up a delivered message.
        let failed = net.sum(|it| it.failed);
        assert_eq!(net.sum(|it| it.told) + failed, expected);
        assert!(failed * 50 < expected, "{failed} of {expected}");
    }
    let not_listed = |net: &Net| {
        let counters = net.nodes.iter().map(|node| net.world.node_counters(*node).not_listed);
        counters.sum::<u64>()
    };
    assert_eq!(not_listed(&each), 0);
    assert!(not_listed(&together) > together.sum(|it| it.sent));
    assert!(together.transmissions() < each.transmissions());
}

#[test]
fn precedence_is_on_all_packets() {
    let [local, other] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
    for carrier in [Carrier::Udp, over_sar()] {
        let precedence = Precedence::new(3);
        let config = Config { local, others: vec![other], precedence, ..usual(carrier) };
        let mut messenger = Messenger::new(config, Rng::stream(1, "messenger"));
        messenger.handle_timeout(secs(1_000));

        let mut packet = Vec::new();
        assert!(messenger.poll_transmit(secs(1_000), &mut packet));
        assert_eq!(Header::parse(&packet).map(|it| it.traffic_class), Ok(3 << 5));
    }
    let flash = Config { precedence: Precedence::new(3), ..usual(over_tcp(0)) };
    let mut tcp = Messenger::new(flash, Rng::stream(1, "messenger"));
    assert_eq!(tcp.accept().map(|tcp| tcp.ip.dscp), Some(3 << 3));
}

#[test]
fn a_message_over_sar_may_lose_its_worth() {
    let lifetime = Some(Duration::from_secs(3));
    let net = Net::new(6, 0.3, &Config { lifetime, ..usual(over_sar()) }).run();

    let (told, failed) = (net.sum(|it| it.told), net.sum(|it| it.failed));
    assert_eq!(told + failed, net.sum(|it| it.expected));
    assert!(failed > 20 && told > 20, "{told} and {failed}");
}
