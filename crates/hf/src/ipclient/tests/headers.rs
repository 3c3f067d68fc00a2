//! Two clients find out that they can compress headers for each other, and that they cannot any more.

use std::net::SocketAddr;
use std::time::Duration;

use base::ip::{Prefix, udp};

use super::{Bench, FAR, config, icmp, u_pdu};
use crate::ipclient::{Config, Route};
use crate::s5066::service::{Mode, Outcome};

const ARQ: Mode = Mode::Arq { in_order: false };

/// Two clients, each of which the other one knows as the one at the far node.
struct Pair {
    ends: [Bench; 2],
    /// The U_PDUs that went from each to the other: their octets.
    sent: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn new() -> Self {
        Self::with([end(0), end(1)])
    }

    fn with(configs: [Config; 2]) -> Self {
        Self { ends: configs.map(Bench::new), sent: Default::default() }
    }

    /// Carries what each sends to the other until nothing is left.
    fn settle(&mut self) {
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for from in [0, 1] {
                for request in self.ends[from].requests() {
                    let octets = u_pdu(&request).to_vec();
                    self.ends[1 - from].receive_in(request.mode, &octets);
                    self.ends[from].outcome(&request, Outcome::Done);
                    self.sent[from].push(octets);
                    is_busy = true;
                }
            }
        }
    }

    /// Sends a datagram from one end, and expects it at the other; the U_PDUs that went either way,
    /// `D` for a datagram, `C` for a compressed one and `A` for an announcement.
    fn send(&mut self, from: usize) -> [String; 2] {
        let packet = message(from);
        self.ends[from].send(&packet);
        self.settle();
        let sent = self.told();
        assert_eq!(self.ends[1 - from].packets(), [packet], "{sent:?}");
        sent
    }

    fn told(&mut self) -> [String; 2] {
        std::mem::take(&mut self.sent).map(|sent| {
            let kind = |u_pdu: &Vec<u8>| match u_pdu[0] >> 4 {
                4 | 6 => 'D',
                10 => 'A',
                _ => 'C',
            };
            sent.iter().map(kind).collect()
        })
    }

    /// An end forgets all: it starts again.
    fn restart(&mut self, which: usize, config: Config) {
        let now = self.ends[which].now;
        self.ends[which] = Bench::new(config);
        self.wait(Duration::ZERO);
        self.ends[which].now = now;
    }

    fn wait(&mut self, time: Duration) {
        for end in &mut self.ends {
            end.now += time;
            end.client.handle_timeout(end.now);
            end.server.handle_timeout(end.now);
        }
    }
}

/// 10.1.0.0/24 is behind the first, 10.2.0.0/24 behind the second.
fn end(which: u8) -> Config {
    let prefix = Prefix::new([10, 2 - which, 0, 0].into(), 24).unwrap();
    Config {
        compress_headers: true,
        addresses: vec![[10, 1 + which, 0, 1].into()],
        ..Config::new(vec![Route { prefix, to: FAR }])
    }
}

/// From a host behind this end to one behind the other.
fn message(from: usize) -> Vec<u8> {
    let ends = [[10, 1, 0, 9], [10, 2, 0, 9]].map(|host| SocketAddr::from((host, 4_000)));
    let mut packet = Vec::new();
    let (source, destination) = (ends[from], ends[1 - from]);
    udp::Datagram { source, destination, payload: b"position" }.emit(&mut packet);
    packet
}

const NONE: &str = "";

#[test]
fn the_first_datagram_announces_and_the_next_is_compressed() {
    let mut pair = Pair::new();

    assert_eq!(pair.send(0), ["DA", "A"]);
    assert_eq!(pair.send(0), ["C", NONE]);
    // What was compressed shows that its sender knows all.
    assert_eq!(pair.send(1), [NONE, "C"]);

    let [near, far] = pair.ends.map(|end| end.client.stats().headers);
    assert_eq!((near.compressed, near.octets_before, near.octets_after), (1, 36, 15));
    assert_eq!((near.restored, far.restored, far.compressed), (1, 1, 1));
    assert_eq!((near.announcements_sent, near.announcements_received), (1, 1));
}

#[test]
fn a_client_of_others_gets_datagrams_as_they_are_and_is_asked_rarely() {
    let mut pair = Pair::with([end(0), Config { compress_headers: false, ..end(1) }]);
    let mut asked = Vec::new();

    for minute in 0..200 {
        let [sent, back] = pair.send(0);
        assert_eq!(back, NONE);
        if sent == "DA" {
            asked.push(minute);
        } else {
            assert_eq!(sent, "D");
        }
        pair.wait(Duration::from_secs(60));
    }

    assert_eq!(asked, [0, 10, 30, 70, 150]);
    let far = pair.ends[1].client.stats();
    assert_eq!((far.headers.announcements_refused, far.received.packets_out), (5, 200));
}

#[test]
fn who_starts_again_is_sent_to_as_before_once_it_has_said_so() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.send(0);

    pair.restart(1, end(1));
    pair.ends[0].send(&message(0));
    pair.settle();

    // The compressed datagram waits until both have learnt.
    assert_eq!(pair.told(), ["CA", "AA"]);
    assert_eq!(pair.ends[1].packets(), [message(0)]);
    let stats = pair.ends[1].client.stats().headers;
    assert_eq!((stats.restored, stats.unknown, stats.mismatched), (1, 0, 0));
    assert_eq!(pair.send(0), ["C", NONE]);
}

#[test]
fn other_routes_after_a_start_make_no_wrong_addresses() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.send(0);
    let prefix = Prefix::new([10, 1, 0, 0].into(), 16).unwrap();
    pair.restart(1, Config { routes: vec![Route { prefix, to: FAR }], ..end(1) });
    // Its own datagram is the first to tell.
    assert_eq!(pair.send(1), ["A", "DAA"]);
    assert_eq!(pair.send(1), [NONE, "C"]);
    assert_eq!(pair.send(0), ["C", NONE]);

    let stats = pair.ends[1].client.stats().headers;
    assert_eq!((stats.unknown, stats.mismatched), (0, 0));
}

#[test]
fn what_was_compressed_for_other_tables_is_dropped_and_counted() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.ends[0].send(&message(0));
    let late = pair.ends[0].requests();
    let prefix = Prefix::new([10, 1, 0, 0].into(), 16).unwrap();
    pair.restart(1, Config { routes: vec![Route { prefix, to: FAR }], ..end(1) });
    pair.send(1);

    pair.ends[1].receive(u_pdu(&late[0]));

    assert!(pair.ends[1].packets().is_empty());
    assert_eq!(pair.ends[1].client.stats().headers.mismatched, 1);
}

#[test]
fn what_waits_for_other_tables_than_come_is_dropped() {
    let mut pair = Pair::new();
    pair.send(0);
    let prefix = Prefix::new([10, 1, 0, 0].into(), 16).unwrap();
    pair.restart(1, Config { routes: vec![Route { prefix, to: FAR }], ..end(1) });

    pair.ends[0].send(&message(0));
    pair.settle();

    assert!(pair.ends[1].packets().is_empty());
    assert_eq!(pair.ends[1].client.stats().headers.mismatched, 1);
    pair.told();
    assert_eq!(pair.send(0), ["C", NONE]);
}

#[test]
fn little_waits_for_a_table_and_not_for_long() {
    let mut bench = Bench::new(end(0));
    for _ in 0..100 {
        bench.receive(&[0xc0; 1_000]);
    }
    let dropped = bench.client.stats().headers.unknown;
    bench.now += Duration::from_secs(301);
    bench.receive(&[0xa0, 0, 0, 0, 0]);

    assert_eq!(dropped, 100 - 61);
    let stats = bench.client.stats().headers;
    assert_eq!((stats.unknown, stats.mismatched), (100, 0));
}

#[test]
fn a_client_that_others_took_the_place_of_is_noticed_by_what_it_sends() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.send(0);
    pair.send(1);

    pair.restart(1, Config { compress_headers: false, ..end(1) });
    assert_eq!(pair.send(1), [NONE, "D"]);

    assert_eq!(pair.send(0), ["DA", NONE]);
}

#[test]
fn a_node_without_a_client_is_asked_again() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.ends[0].server.handle_introduced(FAR, true);
    pair.ends[0].send(&message(0));
    let requests = pair.ends[0].requests();
    pair.ends[0].outcome(&requests[0], Outcome::Done);

    pair.ends[0].reject_from_far(&requests[0]);

    // The sender is told of its datagram as it was.
    let told = pair.ends[0].packets();
    assert_eq!(icmp(&told[0]), (1, 3, 1));
    assert_eq!(told[0][28..], message(0)[..told[0].len() - 28]);
    assert_eq!(pair.send(0), ["DA", "A"]);
}

#[test]
fn a_sign_of_knowledge_gets_old() {
    let mut pair = Pair::new();
    pair.send(0);
    pair.wait(Duration::from_secs(1_700));
    assert_eq!(pair.send(0), ["C", NONE]);
    // Half its time is over: it is asked while it still holds.
    pair.wait(Duration::from_secs(200));
    assert_eq!(pair.send(0), ["CA", "A"]);
    pair.wait(Duration::from_secs(3_600));
    assert_eq!(pair.send(0), ["DA", "A"]);
}

#[test]
fn without_arq_nobody_transmits_to_answer() {
    let mut configs = [end(0), end(1)];
    for config in &mut configs {
        config.set_unicast(Mode::ONCE);
    }
    let mut pair = Pair::with(configs);

    assert_eq!(pair.send(0), ["DA", NONE]);
    assert_eq!(pair.send(0), ["D", NONE]);
    assert_eq!(pair.send(1), [NONE, "DA"]);
    assert_eq!(pair.send(0), ["CA", NONE]);
    assert_eq!(pair.send(1), [NONE, "C"]);
    pair.wait(Duration::from_secs(600));
    assert_eq!(pair.send(0), ["DA", NONE]);
}

#[test]
fn a_binding_begins_with_doubt() {
    let mut pair = Pair::new();
    pair.send(0);
    let id = pair.ends[0].id.take().unwrap();
    let now = pair.ends[0].now;
    pair.ends[0].server.handle_disconnected(now, id);
    pair.ends[0].client.handle_disconnected(now);
    pair.ends[0].connect();

    assert_eq!(pair.send(0), ["DA", "A"]);
}

#[test]
fn whatever_others_say_few_announcements_are_sent() {
    let mut bench = Bench::new(end(0));
    for number in 0..100 {
        // A table that is new each time, from one that has never heard of ours.
        bench.receive_in(ARQ, &[0xa1, 0, 0, 0, 0, 8, number]);
    }
    let sent = bench.requests().len();
    bench.receive(&[0xa0; 3]);
    bench.receive(&[0xc0; 30]);
    bench.receive(&[]);

    let stats = bench.client.stats();
    assert_eq!((sent, stats.headers.announcements_sent), (4, 4));
    assert_eq!(stats.headers.announcements_refused, 1);
    assert_eq!((stats.headers.mismatched, stats.received.received_malformed), (1, 1));
}

#[test]
fn groups_get_datagrams_as_they_are() {
    let mut bench = Bench::new(Config { compress_headers: true, ..config() });
    bench.send(&super::udp([239, 1, 0, 1], 0, 100));

    let requests = bench.requests();

    assert_eq!(requests.len(), 1);
    assert_eq!(u_pdu(&requests[0])[0], 0x45);
}
