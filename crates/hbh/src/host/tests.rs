//! Hosts on a shared segment, through the public interface.

use base::ip::{Spec, V4_HEADER, increment_ttl, protocol, rewrite_v4_checksum, udp};
use base::rng::Rng;
use proptest::prelude::*;

use super::*;
use crate::Profile;

const MTU: usize = 1_500;
/// Interface 0 of all is the segment.
const SEGMENT: usize = 0;

fn mac(node: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, u8::try_from(node).unwrap()])
}

fn address(node: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, u8::try_from(node).unwrap()])
}

fn address_v6(node: usize) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(node).unwrap()])
}

fn place(node: usize) -> Place {
    (SEGMENT, mac(node))
}

fn interface(node: usize) -> Interface {
    Interface {
        station: mac(node),
        addresses: vec![address(node)],
        mtu: MTU,
        is_running: true,
        is_acknowledged: false,
    }
}

/// A host that starts at `now`.
fn start(now: Time, node: usize, config: Config, seed: u64) -> Host {
    let rng = |name| Rng::stream(seed, name);
    let mut host = Host::new(config, rng("hbh"), rng("neighbours"));
    host.handle_addresses(BTreeSet::from([address(node)]));
    host.handle_interface(now, SEGMENT, Some(interface(node)));
    host
}

/// The error by which the kernel of a host says that it does not know the packet's protocol.
fn refusal(from: IpAddr, packet: &[u8]) -> Vec<u8> {
    let mut error = Vec::new();
    assert!(icmp::Error::ProtocolUnreachable.emit(from, packet, &mut error));
    error
}

/// An HBH message with nothing in it.
fn message(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut message = Vec::new();
    Spec::new(from, to, protocol::EXPERIMENT).emit(8, &mut message);
    message.extend([0; 8]);
    message
}

/// A datagram with `len` octets behind the headers.
fn datagram(from: IpAddr, to: IpAddr, len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let [source, destination] = [(from, 7).into(), (to, 7).into()];
    udp::Datagram { source, destination, payload: &vec![0; len] }.emit(&mut packet);
    packet
}

fn segment_of_tcp(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut packet = Vec::new();
    Spec::new(from, to, protocol::TCP).emit(30, &mut packet);
    packet.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.extend([0; 10]);
    packet
}

/// Hosts on one segment; a host that is cut off neither hears others nor is heard. A host whose HBH has ended has a
/// kernel that does not know the protocol.
struct Net {
    now: Time,
    hosts: Vec<Host>,
    is_cut: Vec<bool>,
    has_ended: Vec<bool>,
    /// The packets restored at each host, with the neighbours that brought them.
    restored: Vec<Vec<(Vec<u8>, Option<Place>)>>,
    events: Vec<Vec<Event>>,
}

impl Net {
    fn new(nodes: usize) -> Self {
        Self::with(nodes, |config| config)
    }

    fn with(nodes: usize, change: impl Fn(Config) -> Config) -> Self {
        let host = |node: usize| {
            let config = change(Config::new(crate::Config::new(Profile::Default)));
            start(Time::ZERO, node, config, node as u64)
        };
        let mut net = Self {
            now: Time::ZERO,
            hosts: (0..nodes).map(host).collect(),
            is_cut: vec![false; nodes],
            has_ended: vec![false; nodes],
            restored: vec![Vec::new(); nodes],
            events: vec![Vec::new(); nodes],
        };
        net.run(Duration::from_secs(3));
        net
    }

    fn peer(&self, node: usize, other: usize) -> Peer {
        self.hosts[node].peer_at(place(other)).unwrap()
    }

    /// Hands over a packet for a neighbour.
    fn send(&mut self, node: usize, to: usize, packet: &[u8]) -> Result<(), Refused> {
        let peer = self.peer(node, to);
        self.hosts[node].handle_packet(self.now, peer, &mut packet.to_vec())
    }

    /// Lets time pass; frames take none.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.step() {}
        while let Some(next) = self.running().filter_map(|host| host.next_timeout()).min()
            && next <= end
        {
            self.now = self.now.max(next);
            let now = self.now;
            self.running().for_each(|host| host.handle_timeout(now));
            while self.step() {}
            // Routes are the tests' own.
            if self.hosts.iter().any(Host::needs_routes) {
                self.hosts
                    .iter_mut()
                    .for_each(|host| host.handle_routes(now, |_, _| NextHop::Nowhere));
            }
        }
        self.now = end;
    }

    /// Shows the first two hosts that nothing is lost between them, so that acknowledgements may wait.
    fn be_patient(&mut self, packet: &[u8]) {
        for _ in 0..40 {
            self.send(0, 1, packet).unwrap();
            self.run(Duration::from_millis(500));
        }
    }

    /// Lets time pass until the neighbour at `place(1)` is down for the first host, in 300 ms at most; `meanwhile` is
    /// done each millisecond.
    fn expect_end(&mut self, mut meanwhile: impl FnMut(&mut Self)) {
        for _ in 0..300 {
            meanwhile(self);
            self.run(Duration::from_millis(1));
            if self.hosts[0].peer_at(place(1)).is_none() {
                return;
            }
        }
        panic!("it is still up: {:?}", self.hosts[0].neighbours().stats());
    }

    /// The hosts whose HBH has not ended.
    fn running(&mut self) -> impl Iterator<Item = &mut Host> {
        let hosts = self.hosts.iter_mut().zip(&self.has_ended);
        hosts.filter(|(_, has_ended)| !**has_ended).map(|(host, _)| host)
    }

    /// Brings frames over; false when there are none.
    fn step(&mut self) -> bool {
        let now = self.now;
        let mut frames = Vec::new();
        let running = self.hosts.iter_mut().enumerate().filter(|(node, _)| !self.has_ended[*node]);
        for (node, host) in running {
            let mut out = Vec::new();
            while let Some(to) = host
                .poll_hello(now, SEGMENT, &mut out)
                .or_else(|| host.poll_transmit(now, SEGMENT, &mut out))
            {
                frames.push((node, to, out.clone()));
            }
        }
        let mut errors = Vec::new();
        for (from, to, frame) in &frames {
            for (node, _) in self.has_ended.iter().enumerate().filter(|(_, has_ended)| **has_ended)
            {
                let is_own = Header::parse(frame).unwrap().destination == address(node);
                if is_own && *to == mac(node) && !self.is_cut[node] && !self.is_cut[*from] {
                    errors.push((node, mac(*from), refusal(address(node), frame)));
                }
            }
            for (node, host) in self.hosts.iter_mut().enumerate() {
                let is_for = *to == Mac::EVERYONE || *to == mac(node);
                let is_for = is_for && !self.has_ended[node];
                if node != *from && is_for && !self.is_cut[node] && !self.is_cut[*from] {
                    let _ = host.handle_frame(now, place(*from), frame);
                }
            }
        }
        for (from, to, error) in errors {
            let node = (0..self.hosts.len()).find(|&node| mac(node) == to).unwrap();
            let _ = self.hosts[node].handle_frame(now, place(from), &error);
        }
        for (node, host) in self.hosts.iter_mut().enumerate() {
            self.events[node].extend(std::iter::from_fn(|| host.poll_event()));
            let mut out = Vec::new();
            while let Some(origin) = host.poll_restored(&mut out) {
                self.restored[node].push((out.clone(), origin.neighbour));
            }
        }
        !frames.is_empty()
    }

    /// Takes the packets returned by a host, and lists the neighbours that brought the packets.
    fn returned(&mut self, node: usize) -> Vec<Option<Place>> {
        let mut out = Vec::new();
        std::iter::from_fn(|| self.hosts[node].poll_returned(&mut out).map(|it| it.neighbour))
            .collect()
    }
}

#[test]
fn a_packet_comes_out_at_the_neighbour_with_the_place_of_its_sender() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);

    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_secs(1));

    assert_eq!(net.restored[1], [(packet, Some(place(0)))]);
    assert_eq!(net.events[0], [Event::Up { place: place(1), address: address(1) }]);
}

#[test]
fn what_neighbours_say_to_each_other_goes_plain() {
    let net = Net::new(2);
    let plain = |to: IpAddr, ttl: u8| {
        let mut packet = datagram(address(0), to, 10);
        packet[8] = ttl;
        rewrite_v4_checksum(&mut packet[..V4_HEADER]);
        net.hosts[0].goes_plain(net.peer(0, 1), &packet)
    };

    let asked = [1, 255, 2, 64].map(|ttl| plain(address(1), ttl));

    assert_eq!(asked, [true, true, false, false]);
    assert!(!plain([10, 9, 0, 2].into(), 1), "it is for somebody behind the neighbour");
}

#[test]
fn a_packet_that_is_too_long_is_cut_if_it_may_be_and_refused_if_not() {
    let mut net = Net::new(2);
    let mut long = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), MTU - 28);
    long[6] &= !0x40;
    rewrite_v4_checksum(&mut long[..V4_HEADER]);

    net.send(0, 1, &long).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.restored[1].len(), 2);
    assert_eq!(net.hosts[0].stats().leaving.packets_fragmented, 1);

    long[6] |= 0x40;
    rewrite_v4_checksum(&mut long[..V4_HEADER]);
    let refused = net.send(0, 1, &long);
    assert!(matches!(refused, Err(Refused::TooBig { mtu }) if mtu < MTU), "{refused:?}");
    assert_eq!(net.hosts[0].stats().leaving.packets_too_big, 1);
}

#[test]
fn packets_with_a_source_that_cannot_be_are_dropped() {
    let mut net = Net::new(2);
    let to = [10, 9, 0, 2].into();
    let own = datagram(address(1), to, 10);
    let group = datagram([224, 0, 0, 5].into(), to, 10);
    let mut nested = Vec::new();
    Spec::new([10, 9, 0, 1].into(), to, protocol::EXPERIMENT).emit(0, &mut nested);

    for packet in [own, group, nested] {
        net.send(0, 1, &packet).unwrap();
    }
    net.run(Duration::from_secs(1));

    assert_eq!(net.restored[1], []);
    let Stats { released, leaving, .. } = net.hosts[1].stats();
    assert_eq!((released.packets_from_self, released.packets_not_unicast), (1, 1));
    assert_eq!(leaving.packets_malformed, 1, "HBH in HBH");
}

#[test]
fn packets_are_taken_back_when_their_route_leads_to_another() {
    let flow = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    let at = |hop: NextHop| {
        let mut net = Net::new(3);
        net.is_cut[1] = true;
        net.send(0, 1, &flow).unwrap();
        net.hosts[0].handle_route_change(net.now);
        assert!(net.hosts[0].needs_routes());
        net.hosts[0].handle_routes(net.now, |_, _| hop);
        let returned = net.returned(0).len();
        (returned, net.hosts[0].stats().released.packets_rerouted)
    };

    for (hop, expected) in [
        (NextHop::Station(place(1)), (0, 0)),
        (NextHop::Address(SEGMENT, address(1)), (0, 0)),
        (NextHop::Nowhere, (0, 0)),
        (NextHop::Station(place(2)), (1, 1)),
        (NextHop::Address(SEGMENT, address(2)), (1, 1)),
        (NextHop::Elsewhere, (1, 1)),
        (NextHop::Here, (1, 1)),
        (NextHop::Searched, (1, 1)),
    ] {
        assert_eq!(at(hop), expected, "{hop:?}");
    }
}

#[test]
fn a_packet_of_another_waits_with_its_neighbour_while_only_own_ones_are_searched_for() {
    let mut net = Net::new(3);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_millis(10));
    let (mut brought, from) = net.restored[1].pop().unwrap();
    net.is_cut[2] = true;
    increment_ttl(&mut brought);
    net.send(1, 2, &brought).unwrap();

    net.hosts[1].handle_route_change(net.now);
    net.hosts[1].handle_routes(net.now, |_, _| NextHop::Searched);
    assert_eq!(net.returned(1), []);

    let mut asked = Vec::new();
    net.hosts[1].handle_route_change(net.now);
    net.hosts[1].handle_routes(net.now, |flow, from| {
        asked.push((flow.destination, from));
        NextHop::Station(place(0))
    });
    assert_eq!(net.returned(1), [from]);
    assert!(asked.iter().all(|it| *it == ([10, 9, 0, 2].into(), from)), "{asked:?}");
}

#[test]
fn after_a_goodbye_packets_go_plain_and_after_silence_another_way_or_wait() {
    for (is_goodbye, why) in [(true, Departure::Goodbye), (false, Departure::Lost)] {
        let mut net = Net::new(2);
        net.is_cut = vec![true; 2];
        net.send(0, 1, &segment_of_tcp([10, 9, 0, 1].into(), [10, 9, 0, 2].into())).unwrap();
        let goodbyes = net.hosts[1].goodbyes(net.now, SEGMENT);
        let lasts = Duration::from_secs(30);
        if is_goodbye {
            for goodbye in goodbyes {
                net.hosts[0].handle_frame(net.now, place(1), &goodbye).unwrap();
            }
        } else {
            while net.hosts[0].peer_at(place(1)).is_some() {
                net.now += Duration::from_millis(100);
                net.hosts[0].handle_timeout(net.now);
            }
        }
        let down = Event::Down { place: place(1), address: Some(address(1)), why };
        assert_eq!(std::iter::from_fn(|| net.hosts[0].poll_event()).last(), Some(down));

        // The kernel's route still leads to the neighbour.
        let to_it = NextHop::Address(SEGMENT, address(1));
        net.hosts[0].handle_routes(net.now, |_, _| to_it);
        assert_eq!(net.returned(0).len(), usize::from(is_goodbye));
        assert_eq!(net.hosts[0].waiting(), usize::from(!is_goodbye));

        net.hosts[0].handle_timeout(net.now + lasts);
        net.hosts[0].handle_routes(net.now + lasts, |_, _| to_it);
        assert_eq!(net.hosts[0].kept(), usize::from(!is_goodbye), "TCP would repeat it late");
        assert_eq!(
            net.returned(0).len(),
            usize::from(!is_goodbye),
            "it goes at last, whatever the way"
        );
    }
}

#[test]
fn packets_go_plain_at_once_where_the_kernel_says_that_hbh_has_ended() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.be_patient(&packet);
    net.has_ended[1] = true;

    net.send(0, 1, &packet).unwrap();
    net.expect_end(|_| {});

    let down = Event::Down { place: place(1), address: Some(address(1)), why: Departure::Ended };
    assert_eq!(net.events[0].last(), Some(&down));
    // The kernel's route still leads to the neighbour, whose kernel forwards.
    net.hosts[0].handle_routes(net.now, |_, _| NextHop::Address(SEGMENT, address(1)));
    assert_eq!(net.returned(0).len(), 1);
}

#[test]
fn what_the_kernel_of_an_ended_neighbour_forwards_is_no_word_of_the_neighbour() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_secs(1));
    net.has_ended[1] = true;
    // Of a third node, for which the neighbour was the next hop too, in flows that are new.
    let roomy = |config: Config| {
        let core = crate::Config { window: (256, 16_384), ..config.core };
        Config { core, ..config }
    };
    let mut other = Net::with(2, roomy);
    let mut forwarded = Vec::new();
    let mut sources = (1..=u8::MAX).cycle();

    net.send(0, 1, &packet).unwrap();
    net.expect_end(|net| {
        let source = [10, 8, 0, sources.next().unwrap()].into();
        other.send(0, 1, &datagram(source, [10, 9, 0, 2].into(), 100)).unwrap();
        other.hosts[0].poll_transmit(other.now, SEGMENT, &mut forwarded).unwrap();
        net.hosts[0].handle_frame(net.now, place(1), &forwarded).unwrap();
    });
}

#[test]
fn after_an_error_a_flow_of_the_neighbour_going_on_is_no_word_of_the_neighbour() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 2].into(), [10, 9, 0, 1].into(), 100);
    net.send(1, 0, &packet).unwrap();
    net.run(Duration::from_secs(1));
    // Another node may have numbered a flow as the neighbour did.
    net.send(1, 0, &packet).unwrap();
    let mut of_flow = Vec::new();
    net.hosts[1].poll_transmit(net.now, SEGMENT, &mut of_flow).unwrap();
    net.has_ended[1] = true;

    let error = refusal(address(1), &message(address(0), address(1)));
    net.hosts[0].handle_frame(net.now, place(1), &error).unwrap();
    net.expect_end(|net| {
        net.hosts[0].handle_frame(net.now, place(1), &of_flow).unwrap();
    });

    assert_eq!(net.restored[0].len(), 2, "it is of the flow");
}

#[test]
fn a_forged_error_ends_nothing_though_answers_before_it_and_after_it_are_lost() {
    for (quiet, after) in [(0, 0), (0, 70), (900, 0), (900, 70)] {
        let mut net = Net::new(2);
        let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
        net.send(0, 1, &packet).unwrap();
        net.run(Duration::from_secs(1));

        net.is_cut[1] = true;
        net.send(0, 1, &packet).unwrap();
        net.run(Duration::from_millis(quiet));
        let forged = refusal(address(1), &message(address(0), address(1)));
        net.hosts[0].handle_frame(net.now, place(1), &forged).unwrap();
        net.run(Duration::from_millis(after));
        net.is_cut[1] = false;
        net.run(Duration::from_secs(3));

        let stats = net.hosts[0].neighbours().stats();
        let counted = (stats.refusals_received, stats.refusals_refuted, stats.neighbours_down);
        assert_eq!(counted, (1, 1, 0), "{quiet} ms before, {after} ms after");
    }
}

#[test]
fn forged_errors_cause_few_questions_and_end_nothing_while_the_neighbour_answers() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_secs(1));

    let forged = refusal(address(1), &message(address(0), address(1)));
    let sent = net.hosts[0].neighbours().stats().hellos_sent;
    for _ in 0..100 {
        net.hosts[0].handle_frame(net.now, place(1), &forged).unwrap();
    }
    net.run(Duration::from_secs(1));

    let stats = net.hosts[0].neighbours().stats();
    let counted = (stats.refusals_received, stats.refusals_refuted, stats.neighbours_down);
    assert_eq!(counted, (100, 1, 0));
    assert!(stats.hellos_sent - sent <= 3, "{stats:?}");

    // Errors about other protocols, of other hosts and damaged ones say nothing.
    let of_udp = refusal(address(1), &datagram(address(0), address(1), 8));
    let mut damaged = forged.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let not_hbh = net.hosts[0].stats().received.frames_not_hbh;
    for (from, error) in [(1, of_udp), (1, damaged), (9, forged)] {
        net.hosts[0].handle_frame(net.now, place(from), &error).unwrap();
    }
    assert_eq!(net.hosts[0].stats().received.frames_not_hbh, not_hbh + 3);
    assert_eq!(net.hosts[0].neighbours().stats().refusals_received, 100);
}

#[test]
fn an_error_of_ipv6_counts_as_one_of_ipv4_does() {
    let mut net = Net::new(2);
    for (node, host) in net.hosts.iter_mut().enumerate() {
        let addresses = vec![address(node), address_v6(node)];
        let both = Interface { addresses, ..interface(node) };
        host.handle_interface(net.now, SEGMENT, Some(both));
    }
    net.run(Duration::from_secs(3));
    let cases = [
        (address_v6(1), message(address_v6(0), address_v6(1)), 1),
        (address_v6(1), message(address_v6(0), address_v6(2)), 0),
        (address_v6(2), message(address_v6(0), address_v6(2)), 0),
        (address_v6(1), datagram(address_v6(0), address_v6(1), 8), 0),
    ];
    for (from, about, counted) in cases {
        let before = net.hosts[0].neighbours().stats().refusals_received;
        let error = refusal(from, &about);

        net.hosts[0].handle_frame(net.now, place(1), &error).unwrap();

        let received = net.hosts[0].neighbours().stats().refusals_received;
        assert_eq!(received - before, counted, "{from} about {about:02x?}");
        net.run(Duration::from_secs(1));
    }
}

#[test]
fn a_host_that_starts_again_says_so_at_once_and_only_to_whom_takes_it_for_its_former_life() {
    let mut net = Net::new(3);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    // So that nobody wonders after a few milliseconds why it does not answer.
    net.be_patient(&packet);
    let config = Config::new(crate::Config::new(Profile::Default));
    net.hosts[1] = start(net.now, 1, config, 7);
    // Its first hello is lost.
    net.hosts[1].poll_hello(net.now, SEGMENT, &mut Vec::new()).unwrap();
    net.events.iter_mut().for_each(Vec::clear);

    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_millis(80));

    assert!(net.hosts[1].stats().received.frames_unknown_peer >= 1);
    let kinds = net.events[0].iter().map(|event| matches!(event, Event::Up { .. }));
    assert_eq!(kinds.collect::<Vec<_>>(), [false, true], "{:?}", net.events[0]);
    assert!(net.hosts[1].peer_at(place(0)).is_some());
    assert_eq!(net.events[2], [], "it has heard nothing of it");
}

#[test]
fn other_parameters_cost_neither_a_packet_nor_a_neighbour() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    let mut core = crate::Config { window: (4, 4), ..crate::Config::new(Profile::Default) };
    let times = (Duration::from_secs(1), Duration::from_secs(10));
    let mut set = |net: &mut Net, queue| {
        core.queue = queue;
        net.hosts[0].set_config(net.now, core, times, true);
    };
    let sent = |net: &mut Net, packets| {
        (0..packets).for_each(|_| net.send(0, 1, &packet).unwrap());
        let before = net.restored[1].len();
        net.run(Duration::from_secs(5));
        net.restored[1].len() - before
    };

    let hellos = net.hosts[0].neighbours().stats().hellos_sent;
    for _ in 0..100 {
        net.send(0, 1, &packet).unwrap();
    }
    set(&mut net, 300);
    net.run(Duration::from_secs(5));
    assert_eq!(net.restored[1].len(), 100);
    assert!(net.hosts[0].neighbours().stats().hellos_sent - hellos >= 4, "the interval is shorter");

    set(&mut net, 50);
    net.run(Duration::from_secs(1));
    let passed = sent(&mut net, 2_000);
    assert!(passed < 1_500, "{passed}: the queue is as short as asked");
    let Stats { leaving, .. } = net.hosts[0].stats();
    assert_eq!((net.events[0].len(), leaving.packets_full), (1, 0));
}

#[test]
fn changes_that_come_together_are_acted_on_together() {
    let settle = Duration::from_millis(20);
    let mut net = Net::with(2, |config| Config { settle, ..config });
    net.hosts[0].handle_routes(net.now, |_, _| NextHop::Nowhere);
    let start = net.now;

    net.hosts[0].handle_route_change(start);
    net.hosts[0].handle_route_change(start + settle / 2);
    net.hosts[0].handle_timeout(start + settle / 2);
    assert!(!net.hosts[0].needs_routes());
    net.hosts[0].handle_timeout(start + settle);

    assert!(net.hosts[0].needs_routes());
    net.hosts[0].handle_routes(start + settle, |_, _| NextHop::Nowhere);
    assert!(!net.hosts[0].needs_routes());
}

#[test]
fn a_neighbour_with_another_address_has_been_up_all_the_time() {
    let mut net = Net::new(2);
    let since = net.hosts[0].peers().next().unwrap().1.since;
    let addresses = vec![address(1), address_v6(1)];
    let changed = Interface { addresses: addresses.clone(), ..interface(1) };

    net.hosts[1].handle_interface(net.now, SEGMENT, Some(changed));
    net.run(Duration::from_secs(5));

    assert_eq!(net.events[0].len(), 1, "{:?}", net.events[0]);
    let (_, known) = net.hosts[0].peers().next().unwrap();
    assert_eq!((&known.addresses, known.since), (&addresses, since));
}

#[test]
fn with_a_key_no_frame_is_longer_than_the_link_carries() {
    let key = Some(GroupKey::new(&[7; 32]));
    let mut net = Net::with(2, |config| Config { key: key.clone(), ..config });
    let longest = (1_300..MTU).rfind(|&len| {
        let mut packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), len - 28);
        // It may not be cut.
        packet[6] = 0x40;
        rewrite_v4_checksum(&mut packet[..V4_HEADER]);
        net.send(0, 1, &packet).is_ok()
    });
    assert!(longest.is_some());

    let mut frame = Vec::new();
    net.hosts[0].poll_transmit(net.now, SEGMENT, &mut frame).unwrap();

    assert!((MTU - 2..=MTU).contains(&frame.len()), "{} of {longest:?}", frame.len());
}

#[test]
fn a_packet_for_which_there_is_no_room_is_counted() {
    let mut net = Net::with(2, |mut config| {
        config.core.flows = 1;
        config
    });
    for (to, is_taken) in [(2, true), (3, false), (4, false)] {
        let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, to].into(), 100);
        assert_eq!(net.send(0, 1, &packet).is_ok(), is_taken);
    }

    assert_eq!(net.hosts[0].stats().leaving.packets_full, 2);
}

#[test]
fn another_mtu_counts_for_neighbours_that_are_up() {
    let mut net = Net::new(2);
    let long = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 1_300);
    net.send(0, 1, &long).unwrap();

    let narrow = Interface { mtu: 1_280, ..interface(0) };
    net.hosts[0].handle_interface(net.now, SEGMENT, Some(narrow));
    net.send(0, 1, &long).unwrap_err();
    assert_eq!([0, 1].map(|interface| net.hosts[0].uses(interface)), [true, false]);

    assert_eq!(net.events[0].len(), 1, "the neighbour has been up all the time");
}

#[test]
fn a_neighbour_is_up_as_soon_as_we_have_an_address_of_its_version() {
    let mut net = Net::new(1);
    let v6: IpAddr = "fd00::1".parse().unwrap();
    let only_v6 = Interface { addresses: vec![v6], ..interface(1) };
    let mut other = Net::new(2).hosts.pop().unwrap();
    other.handle_interface(Time::ZERO, SEGMENT, None);
    other.handle_interface(Time::ZERO, SEGMENT, Some(only_v6));
    net.hosts.push(other);
    net.is_cut.push(false);
    net.has_ended.push(false);
    net.restored.push(Vec::new());
    net.events.push(Vec::new());

    net.run(Duration::from_secs(5));
    assert!(
        net.events[0].contains(&Event::Plain(place(1), Reason::NoAddress)),
        "{:?}",
        net.events[0]
    );
    assert_eq!(net.hosts[0].peer_at(place(1)), None);

    let addresses = vec![address(0), "fd00::2".parse().unwrap()];
    net.hosts[0].handle_interface(net.now, SEGMENT, Some(Interface { addresses, ..interface(0) }));
    net.step();
    assert_eq!(net.events[0].last(), Some(&Event::Up { place: place(1), address: v6 }));
}

#[test]
fn hellos_measure_a_link_only_where_they_fare_as_other_packets() {
    for is_acknowledged in [false, true] {
        let mut net = Net::new(2);
        let changed = Interface { is_acknowledged, ..interface(0) };
        net.hosts[0].handle_interface(net.now, SEGMENT, Some(changed));
        net.run(Duration::from_secs(60));

        let estimates = net.hosts[0].relay().estimates(net.peer(0, 1)).unwrap();

        assert_eq!(estimates.loss.is_none(), is_acknowledged, "{estimates:?}");
    }
}

#[test]
fn with_a_key_strangers_are_neither_neighbours_nor_heard() {
    let key = Some(GroupKey::new(&[7; 32]));
    let mut net = Net::with(2, |config| Config { key: key.clone(), ..config });
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.send(0, 1, &packet).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.restored[1].len(), 1);

    // A stranger at the place of the neighbour, and one of its own.
    let mut without = Net::new(2);
    without.send(0, 1, &packet).unwrap();
    let mut frame = Vec::new();
    while without.hosts[0].poll_transmit(without.now, SEGMENT, &mut frame).is_none() {
        without.now += Duration::from_millis(1);
    }
    net.hosts[1].handle_frame(net.now, place(0), &frame).unwrap();
    net.hosts[1].handle_frame(net.now, place(9), &frame).unwrap();
    let received = net.hosts[1].stats().received;
    assert_eq!(
        received.frames_forged + received.frames_replayed,
        1,
        "by its number, or by its tag"
    );
    assert_eq!(received.frames_unknown_peer, 1);

    let hello = without.hosts[0].goodbyes(without.now, SEGMENT).remove(0);
    let refused = net.hosts[1].handle_frame(net.now, place(0), &hello);
    assert_eq!(refused, Err(hello::Malformed::Keyless));
    assert_eq!(net.hosts[1].stats().hellos.hellos_unauthenticated, 1);
}

#[test]
fn a_frame_that_the_link_gave_up_is_hbhs_and_casts_doubt() {
    let mut net = Net::new(2);
    let packet = datagram([10, 9, 0, 1].into(), [10, 9, 0, 2].into(), 100);
    net.send(0, 1, &packet).unwrap();
    let mut frame = Vec::new();
    net.hosts[0].poll_transmit(net.now, SEGMENT, &mut frame).unwrap();

    assert!(net.hosts[0].vouches(place(1), &frame));
    assert!(!net.hosts[0].vouches(place(1), &packet));
    assert!(net.hosts[0].handle_unsent(net.now, place(1), &frame));
    assert!(!net.hosts[0].handle_unsent(net.now, place(1), &packet));

    assert!(!net.hosts[0].vouches(place(1), &frame), "it was not heard since");
}

/// The first packet of `connect()` on Linux 6.18, over an Ethernet: it asks for segments of 1,460 octets.
const CONNECT: [u8; 60] = [
    0x45, 0x00, 0x00, 0x3c, 0x2e, 0x1a, 0x40, 0x00, 0x40, 0x06, 0xf8, 0x9c, 0x0a, 0x01, 0x00, 0x02,
    0x0a, 0x02, 0x00, 0x01, 0xd0, 0x3a, 0x00, 0x50, 0xdc, 0xce, 0xfe, 0x1d, 0x00, 0x00, 0x00, 0x00,
    0xa0, 0x02, 0xfa, 0xf0, 0x5b, 0x6e, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a,
    0xc9, 0x88, 0x68, 0x98, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x0a,
];

/// The place of the segment size in [`CONNECT`].
const ASKED: std::ops::Range<usize> = 42..44;

#[test]
fn a_syn_asks_for_no_more_than_the_narrower_end_carries_whichever_it_is() {
    for (near, far) in [(1_500, 1_500), (1_300, 1_500), (1_500, 1_300)] {
        let mut net = Net::new(2);
        for (node, mtu) in [(0, near), (1, far)] {
            let changed = Interface { mtu, ..interface(node) };
            net.hosts[node].handle_interface(net.now, SEGMENT, Some(changed));
        }

        net.send(0, 1, &CONNECT).unwrap();
        net.run(Duration::from_millis(10));

        let (packet, _) = &net.restored[1][0];
        let overhead = net.hosts[0].relay().overhead(net.peer(0, 1));
        let expected = u16::try_from(near.min(far) - overhead - 40).unwrap();
        assert_eq!(packet[ASKED], expected.to_be_bytes(), "{near} {far}");
    }
}

#[test]
fn a_syn_is_left_alone_if_that_is_configured() {
    let mut net = Net::with(2, |config| Config { clamps_mss: false, ..config });

    net.send(0, 1, &CONNECT).unwrap();
    net.run(Duration::from_millis(10));

    assert_eq!(net.restored[1][0].0[ASKED], CONNECT[ASKED]);
}

/// What happens to a host.
#[derive(Clone, Debug)]
enum Input {
    Frame(u8, Vec<u8>),
    Packet(Vec<u8>),
    Interface(Option<(usize, bool)>),
    Routes,
    Unsent,
}

/// A host, and the frame sent last.
struct Node {
    host: Host,
    number: usize,
    sent: Vec<u8>,
    /// Hellos are taken when they are due, room or not.
    hellos: VecDeque<Vec<u8>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.host.stats())
    }
}

impl harness::Core for Node {
    type Input = Input;

    fn handle(&mut self, now: Time, input: Input) {
        let other = place(1 - self.number);
        match input {
            Input::Frame(from, octets) => {
                let mut packet = Vec::new();
                let [from_it, to] = [address(1 - self.number), address(self.number)];
                Spec::new(from_it, to, protocol::EXPERIMENT).emit(octets.len(), &mut packet);
                packet.extend(octets);
                let _ = self.host.handle_frame(now, place(from.into()), &packet);
            }
            Input::Packet(mut packet) => {
                if let Some(peer) = self.host.peer_at(other) {
                    let _ = self.host.handle_packet(now, peer, &mut packet);
                }
            }
            Input::Interface(state) => {
                let changed = state.map(|(mtu, is_running)| Interface {
                    mtu,
                    is_running,
                    ..interface(self.number)
                });
                self.host.handle_interface(now, SEGMENT, changed);
            }
            Input::Routes => self.host.handle_route_change(now),
            Input::Unsent => _ = self.host.handle_unsent(now, other, &self.sent),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.host.handle_timeout(now);
        let mut out = Vec::new();
        while self.host.poll_hello(now, SEGMENT, &mut out).is_some() {
            self.hellos.push_back(out.clone());
        }
    }

    fn poll(&mut self, now: Time) -> bool {
        let mut out = Vec::new();
        if self.host.needs_routes() {
            let hop =
                [NextHop::Nowhere, NextHop::Station(place(1 - self.number)), NextHop::Elsewhere];
            self.host.handle_routes(now, |flow, _| hop[usize::from(flow.source_port) % 3]);
        }
        self.host.poll_event().is_some()
            || self.host.poll_returned(&mut out).is_some()
            || self.host.poll_restored(&mut out).is_some()
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let hello = self.hellos.pop_front();
        let is_hello = hello.is_some_and(|hello| {
            *out = hello;
            true
        });
        let has_more = is_hello || self.host.poll_transmit(now, SEGMENT, out).is_some();
        if has_more {
            self.sent.clone_from(out);
        }
        has_more
    }

    fn next_timeout(&self) -> Option<Time> {
        self.host.next_timeout()
    }
}

impl harness::Peer for Node {
    fn handle_octets(&mut self, now: Time, octets: &[u8]) {
        let _ = self.host.handle_frame(now, place(1 - self.number), octets);
    }
}

fn input() -> impl Strategy<Value = Input> {
    let octets = || prop::collection::vec(any::<u8>(), 0..60);
    let packet = (1_u16..4, 0_usize..1_600).prop_map(|(port, len)| {
        let mut packet = Vec::new();
        let ends = [[10, 9, 0, 1], [10, 9, 0, 2]].map(|it| (IpAddr::from(it), port).into());
        udp::Datagram { source: ends[0], destination: ends[1], payload: &vec![0; len] }
            .emit(&mut packet);
        Input::Packet(packet)
    });
    prop_oneof![
        2 => (any::<u8>(), octets()).prop_map(|(from, octets)| Input::Frame(from % 4, octets)),
        8 => packet,
        1 => octets().prop_map(Input::Packet),
        1 => prop::option::of((prop_oneof![Just(1_500_usize), Just(600)], any::<bool>()))
            .prop_map(Input::Interface),
        2 => Just(Input::Routes),
        1 => Just(Input::Unsent),
    ]
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn two_hosts_keep_the_contract(
        (has_key, settles) in any::<(bool, bool)>(),
        steps in harness::steps(harness::between(input())),
    ) {
        let ends = [0, 1].map(|number| {
            let config = Config {
                key: has_key.then(|| GroupKey::new(&[7; 32])),
                settle: Duration::from_millis(if settles { 20 } else { 0 }),
                ..Config::new(crate::Config::new(Profile::Default))
            };
            let rng = |name| Rng::stream(number as u64, name);
            let mut host = Host::new(config, rng("hbh"), rng("neighbours"));
            host.handle_interface(Time::ZERO, SEGMENT, Some(interface(number)));
            Node { host, number, sent: Vec::new(), hellos: VecDeque::new() }
        });
        harness::keeps(&mut harness::Pair::new(ends), Time::ZERO, steps)?;
    }
}
