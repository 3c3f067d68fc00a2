//! What olsrd really sends, replayed: routes come of it, and whatever it says goes on.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::ROOM;
use crate::olsr::wire::{
    Header, Hello, Interval, Kind, LinkCode, LinkType, Message, NeighbourType, PACKET_HEADER,
    Packet, Seq,
};
use crate::olsr::{Config, Counter, Olsr};
use crate::{Arrival, Event, Interface, Neighbour, Notice, Router};

const RFC: &str = include_str!("olsrd/rfc.txt");
const ALL: [(&str, &str); 6] = [
    ("rfc", RFC),
    ("lqff", include_str!("olsrd/lqff.txt")),
    ("secure", include_str!("olsrd/secure.txt")),
    ("etx_ffeth", include_str!("olsrd/etx_ffeth.txt")),
    ("etx_float", include_str!("olsrd/etx_float.txt")),
    ("etx_fpm", include_str!("olsrd/etx_fpm.txt")),
];

/// When the nodes of `rfc` say goodbye, in milliseconds.
const GOODBYE: u64 = 38_000;

fn node(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, last)
}

/// The packets of one sender: when they came, in milliseconds, and their octets.
fn packets(capture: &str, of: u8) -> Vec<(u64, Vec<u8>)> {
    let lines = capture.lines().filter(|line| !line.starts_with('#'));
    let packets = lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [millis, sender, hex] = words[..] else { panic!("{line}") };
        let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let octets = (0..hex.len()).step_by(2).map(octet).collect();
        (sender.parse().unwrap(), millis.parse().unwrap(), octets)
    });
    let own = packets.filter(|(sender, ..): &(u8, u64, Vec<u8>)| *sender == of);
    own.map(|(_, millis, octets)| (millis, octets)).collect()
}

/// A node of ours in the place of one of theirs.
struct Place {
    olsr: Olsr,
    now: Time,
    notices: Vec<Notice>,
    sent: Vec<Vec<u8>>,
}

impl Place {
    fn new(last: u8) -> Self {
        let olsr = Olsr::new(Config::default(), Rng::stream(1, "place"));
        let mut place = Self { olsr, now: Time::ZERO, notices: Vec::new(), sent: Vec::new() };
        let interface = Interface { address: node(last), room: ROOM };
        place.olsr.handle_interface(place.now, 0, Some(&interface));
        place
    }

    fn hear(&mut self, from: u8, octets: &[u8]) {
        let from = Neighbour { interface: 0, address: node(from) };
        let arrival = Arrival { from, is_unicast: false, ttl: 1 };
        self.olsr.handle_message(self.now, &arrival, octets);
        self.serve();
    }

    fn run_until(&mut self, millis: u64) {
        let end = Time::ZERO + Duration::from_millis(millis);
        while let Some(due) = self.olsr.next_timeout().filter(|due| *due <= end) {
            self.now = due;
            self.olsr.handle_timeout(due);
            self.serve();
        }
        self.now = end;
    }

    fn serve(&mut self) {
        while let Some(event) = self.olsr.poll_event() {
            if let Event::Notice(notice) = event {
                self.notices.push(notice);
            }
        }
        let mut out = Vec::new();
        while self.olsr.poll_transmit(self.now, 0, &mut out).is_some() {
            self.sent.push(out.clone());
        }
    }

    /// What the node in whose place we are sent comes back as another node's, rightly.
    fn says_all_is_readable(&self) -> bool {
        self.notices.iter().all(|it| matches!(it, Notice::AddressDisputed { .. }))
    }

    /// The messages that it sent and that others made: originator, number, octets without those that
    /// count hops.
    fn passed_on(&self) -> BTreeSet<(Ipv4Addr, u16, Vec<u8>)> {
        self.sent.iter().flat_map(|octets| messages(octets)).collect()
    }
}

/// The messages in a packet that others made and that go on.
fn messages(octets: &[u8]) -> Vec<(Ipv4Addr, u16, Vec<u8>)> {
    let packet = Packet::parse(octets).unwrap();
    let mut rest = &octets[PACKET_HEADER..];
    let mut all = Vec::new();
    for message in packet.messages() {
        let header = message.unwrap().header;
        let (_, others) = Message::split_first(rest).unwrap();
        let mut octets = rest[..rest.len() - others.len()].to_vec();
        rest = others;
        // Time to live and hop count.
        octets[8..10].fill(0);
        if header.ttl > 1 && header.originator != node(2) {
            all.push((header.originator, header.seq.0, octets));
        }
    }
    all
}

#[test]
fn routes_come_of_what_a_neighbour_says_in_the_form_of_the_rfc() {
    let mut place = Place::new(1);

    for (millis, octets) in packets(RFC, 2).iter().filter(|(millis, _)| *millis < GOODBYE) {
        place.run_until(*millis);
        place.hear(2, octets);
    }

    // As txtinfo of the olsrd in this place showed them.
    let expected = [
        "0.0.0.0/0 by 10.9.0.2 over 3",
        "172.16.4.0/24 by 10.9.0.2 over 3",
        "192.0.2.128/25 by 10.9.0.2 over 2",
        "10.9.0.2/32 by 10.9.0.2 over 1",
        "10.9.0.3/32 by 10.9.0.2 over 2",
        "10.9.0.4/32 by 10.9.0.2 over 3",
    ];
    let routes = place.olsr.routes().into_iter();
    let routes = routes.map(|(to, it)| format!("{to} by {} over {}", it.next.address, it.hops));
    assert_eq!(routes.collect::<Vec<_>>(), expected);
    assert!(place.says_all_is_readable(), "{:?}", place.notices);
}

#[test]
fn whatever_olsrd_floods_is_read_and_goes_on_as_it_came() {
    for (name, capture) in ALL {
        // In the place of node 2, chosen as relay by node 3 in the form of the RFC.
        let mut place = Place::new(2);
        let mut expected = BTreeSet::new();
        for (count, (millis, octets)) in (0_u16..).zip(packets(capture, 3)) {
            place.run_until(millis);
            place.hear(3, &choice(count));
            place.hear(3, &octets);
            expected.extend(messages(&octets));
        }
        place.run_until(200_000);

        let count = |counter| place.olsr.stats().of(counter);
        assert!(expected.len() > 15, "{name}: {}", expected.len());
        assert!(expected.is_subset(&place.passed_on()), "{name}");
        assert_eq!(place.passed_on().len(), expected.len(), "{name}: nothing else");
        assert_eq!(count(Counter::PacketsMalformed), 0, "{name}");
        assert_eq!(count(Counter::EntriesStrange), 0, "{name}");
        assert!(place.says_all_is_readable(), "{name}: {:?}", place.notices);
    }
}

/// A HELLO by which node 3 chooses node 2 for two seconds.
fn choice(number: u16) -> Vec<u8> {
    let header = Header {
        kind: Kind::HELLO,
        validity: Interval::at_least(Duration::from_secs(20)),
        originator: node(3),
        ttl: 1,
        hops: 0,
        seq: Seq(number),
    };
    let code = LinkCode { link: LinkType::Symmetric, neighbour: NeighbourType::Mpr };
    let mut octets = vec![0; PACKET_HEADER];
    let interval = Interval::at_least(Duration::from_secs(2));
    header.emit(&mut octets, |out| Hello::emit(interval, 3, &[(code, node(2))], out));
    Packet::finish(Seq(number), &mut octets);
    octets
}
