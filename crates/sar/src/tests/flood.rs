//! Ten thousand datagrams of others in a second, of any kind and from any addresses, beside a message that crosses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use base::rng::Rng;
use base::serial::low16;
use base::time::Time;

use super::bench::{PORTS, address, message, rng};
use crate::wire::{Body, MaskBuffer, Pdu, Place};
use crate::{Arrival, Config, Event, Options, Outcome, Ports, Precedence, Sar};

/// Between two datagrams of the flood.
const STEP: Duration = Duration::from_micros(100);
/// How long a datagram of the message is under way.
const DELAY: Duration = Duration::from_millis(5);
/// Between two of them: 20 octets a millisecond.
const SPACING: Duration = Duration::from_millis(27);
/// How long the flood has gone on when the message begins.
const BEFORE: Duration = Duration::from_secs(3);

/// Whose addresses the flood has.
#[derive(Clone, Copy, Debug)]
enum From {
    /// A single one.
    One,
    /// Any of IPv4.
    All,
    /// Networks of an IPv6 prefix of 32 bits.
    Prefix,
    /// That of the other node of the message.
    Peer,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    First,
    Last,
    Growing,
    Again,
    Single,
    Complete,
    Partial,
    Request,
    Abort,
    Noise,
}

const KINDS: [Kind; 10] = [
    Kind::First,
    Kind::Last,
    Kind::Growing,
    Kind::Again,
    Kind::Single,
    Kind::Complete,
    Kind::Partial,
    Kind::Request,
    Kind::Abort,
    Kind::Noise,
];

fn flood(kind: Kind, count: u32, rng: &mut Rng) -> Vec<u8> {
    let mask = MaskBuffer::new(2);
    let data = |number, last| {
        let place = Place::new(number, last).unwrap();
        Body::Data { is_acknowledged: true, polls: true, place, data: b"x" }
    };
    let serial = low16(count.into());
    let (serial, body) = match kind {
        Kind::First => (serial, data(1, 3)),
        Kind::Last => (serial, data(3, 3)),
        Kind::Growing => (serial / 16, data(serial % 16 + 1, 17)),
        Kind::Again => (7, data(1_000, 1_001)),
        Kind::Single => (serial, data(1, 1)),
        Kind::Complete => (serial, Body::Complete { is_final: true }),
        Kind::Partial => (serial, Body::Partial { is_final: true, mask: mask.mask() }),
        Kind::Request => (serial, Body::AckRequest { last_sent: 2 }),
        Kind::Abort => (serial, Body::AbortRequest { polls: true }),
        Kind::Noise => (low16(rng.bits()), data(1, 2)),
    };
    let mut octets = Vec::new();
    // Others do not know the ports of a message.
    let ports = Ports { source: 9, destination: PORTS.destination };
    Pdu { ports, serial, body }.emit(&mut octets);
    if let Kind::Noise = kind {
        let at = usize::try_from(rng.below(octets.len() as u64)).unwrap();
        octets[at] ^= low16(rng.bits()).to_be_bytes()[0];
    }
    octets
}

fn source(from: From, peer: usize, count: u32, rng: &mut Rng) -> IpAddr {
    match from {
        From::One => Ipv4Addr::new(10, 9, 9, 9).into(),
        From::All => Ipv4Addr::from_bits(u32::try_from(rng.bits() >> 32).unwrap()).into(),
        From::Prefix => {
            let bits = 0x2001_0db8_u128 << 96 | u128::from(count) << 64 | u128::from(rng.bits());
            Ipv6Addr::from_bits(bits).into()
        }
        From::Peer => address(peer),
    }
}

/// How long a message of 41 segments takes beside a flood that both nodes hear.
fn crossing(flooded: Option<(Kind, From)>) -> Duration {
    let mut nodes =
        [0, 1].map(|node| Sar::new(Time::ZERO, Config::default(), Some(9_000), rng(node)));
    let mut rng = Rng::stream(7, "flood");
    let mut on_the_way: Vec<(Time, usize, Vec<u8>)> = Vec::new();
    let (mut now, mut free, mut out) = (Time::ZERO, Time::ZERO, Vec::new());
    let began = Time::ZERO + BEFORE;
    let mut is_sent = false;
    let (mut came, mut answered) = ([(0_u64, 0_u64); 2], [(0_u64, 0_u64); 2]);
    let arrival = |from| Arrival { from, is_group: false, precedence: Precedence::ROUTINE };
    for count in 0.. {
        now += STEP;
        assert!(now < began + Duration::from_secs(60), "{flooded:?}: it does not arrive");
        if !is_sent && now >= began {
            is_sent = true;
            let options =
                Options { lifetime: Some(Duration::from_secs(86_400)), ..Options::default() };
            nodes[0].submit(now, &message(20_000), &[address(1)], options).unwrap();
        }
        if let Some((kind, from)) = flooded {
            for (node, came) in came.iter_mut().enumerate() {
                let octets = flood(kind, count, &mut rng);
                let from = source(from, 1 - node, count, &mut rng);
                *came = (came.0 + 1, came.1 + octets.len() as u64);
                let _ = nodes[node].handle_datagram(now, arrival(from), &octets);
            }
        }
        for (_, to, octets) in on_the_way.extract_if(.., |(at, _, _)| *at <= now) {
            nodes[to].handle_datagram(now, arrival(address(1 - to)), &octets).unwrap();
        }
        for node in 0..2 {
            if nodes[node].next_timeout().is_some_and(|due| due <= now) {
                nodes[node].handle_timeout(now);
            }
            while free <= now || node == 1 {
                let Some(transmit) = nodes[node].poll_transmit(now, &mut out) else { break };
                if transmit.to == address(1 - node) {
                    on_the_way.push((now + DELAY, 1 - node, out.clone()));
                    let is_data = out[4] >> 5 == 0;
                    if node == 0 && is_data {
                        free = now + SPACING;
                    }
                } else {
                    let answered = &mut answered[node];
                    *answered = (answered.0 + 1, answered.1 + out.len() as u64);
                }
            }
            while let Some(event) = nodes[node].poll_event() {
                if let Event::Outcome { outcome, .. } = event {
                    assert_eq!(outcome, Outcome::Delivered, "{flooded:?}");
                    check(&nodes, flooded, came, answered);
                    return now.since(began);
                }
            }
        }
    }
    unreachable!("it ends by the time")
}

/// What strangers cost is bounded.
fn check(
    nodes: &[Sar; 2],
    flooded: Option<(Kind, From)>,
    came: [(u64, u64); 2],
    answered: [(u64, u64); 2],
) {
    for (node, (came, answered)) in nodes.iter().zip(came.into_iter().zip(answered)) {
        let is_less = answered.0 <= came.0 && answered.1 <= came.1;
        assert!(is_less, "{flooded:?}: {answered:?} for {came:?}");
        let (levels, limits) = (node.stats().levels, &node.config().limits);
        assert!(levels.reassemblies <= limits.reassemblies as u64, "{flooded:?}: {levels:?}");
        let octets = limits.reassembly_octets as u64;
        assert!(levels.reassembly_octets <= octets, "{flooded:?}: {levels:?}");
        assert!(levels.answers <= limits.answers as u64, "{flooded:?}: {levels:?}");
    }
}

#[test]
fn a_message_crosses_beside_floods_of_any_kind_from_anywhere() {
    let alone = crossing(None);
    assert!(alone < Duration::from_secs(2), "{alone:?}");
    for kind in KINDS {
        for from in [From::One, From::All, From::Prefix, From::Peer] {
            let took = crossing(Some((kind, from)));
            let longer = took.saturating_sub(alone);
            assert!(longer < Duration::from_secs(1), "{kind:?} {from:?}: {longer:?} longer");
        }
    }
}

#[test]
fn eleven_hundred_segments_of_one_address_stop_nobody() {
    let mut node = Sar::new(Time::ZERO, Config::default(), Some(1), rng(1));
    let arrival =
        |node| Arrival { from: address(node), is_group: false, precedence: Precedence::ROUTINE };
    let mut tell = |from, serial, number, last| {
        let place = Place::new(number, last).unwrap();
        let body = Body::Data { is_acknowledged: true, polls: false, place, data: b"data" };
        let mut octets = Vec::new();
        Pdu { ports: PORTS, serial, body }.emit(&mut octets);
        node.handle_datagram(Time::ZERO, arrival(from), &octets).unwrap();
        node.stats().received.messages
    };
    (0..60_000).for_each(|serial| _ = tell(3, serial, 1, 3));

    assert_eq!(tell(1, 1, 1, 1), 1, "a message of one segment needs no place");
    (1..=3).for_each(|number| _ = tell(2, 1, number, 3));
    assert_eq!(tell(2, 2, 1, 1), 3);
}

#[test]
fn an_answer_is_never_longer_than_what_it_answers() {
    let mut node = Sar::new(Time::ZERO, Config::default(), Some(1), rng(1));
    let arrival = Arrival { from: address(1), is_group: false, precedence: Precedence::ROUTINE };
    let (mut came, mut answered, mut out) = (0, 0, Vec::new());
    for number in [1, 3_200, 3_000, 2_000, 2_000, 2_000, 2_000] {
        let place = Place::new(number, 3_300).unwrap();
        let body = Body::Data { is_acknowledged: true, polls: true, place, data: b"x" };
        let mut octets = Vec::new();
        Pdu { ports: PORTS, serial: 1, body }.emit(&mut octets);
        came += octets.len();
        node.handle_datagram(Time::ZERO, arrival, &octets).unwrap();
        while node.poll_transmit(Time::ZERO, &mut out).is_some() {
            answered += out.len();
        }
        assert!(answered <= came, "{answered} for {came}");
    }
    assert!(answered > 70, "and each is answered: {answered}");
}
