//! Tests a station that forges frames with correct checksums: the limits of its harm, and recovery when the station
//! stops.
//!
//! Nothing in STANAG 5066 authenticates the sender of a frame, so some harm cannot be prevented. A forged
//! acknowledgement of data just sent, or a forged reset or call that makes one end alone begin anew, has data confirmed
//! in vain. A forged end of a link or "not connected" has data delivered twice, or given up though it arrived. A forged
//! call for an exclusive link keeps others out for as long as the forger likes. The tests assert everything else.

use std::collections::VecDeque;
use std::time::Duration;

use ::hf::modem::Waveform;
use ::hf::s5066::Address;
use ::hf::s5066::dts::wire::{
    Ack, Body, Coding, CpduSegment, Data, Datagram, Eow, Expedited, Frame, Fsn, Header, LongAck,
    Management, Numbers, RateRequest, Reason, Reset,
};
use base::rng::Rng;
use sim::hf;

use super::air::Station;
use super::band::{Band, Message, address};
use super::books::Fate;

const FORGER: u8 = 2;
const MINUTE: Duration = Duration::from_secs(60);

/// The frames of a forger, and the harm these frames can do.
struct Attack {
    name: &'static str,
    /// Makes a transmission from the forged source address.
    forge: fn(&mut Rng, Address, &mut Vec<u8>),
    /// Whether undelivered data may be confirmed.
    confirms: bool,
    /// Whether data may be delivered twice.
    repeats: bool,
}

const ATTACKS: [Attack; 10] = [
    Attack {
        name: "acknowledgements of what was never sent",
        forge: acks_beyond,
        confirms: false,
        repeats: false,
    },
    Attack { name: "acknowledgements of anything", forge: acks, confirms: true, repeats: true },
    Attack { name: "resets", forge: resets, confirms: true, repeats: true },
    Attack { name: "order wire", forge: order_wire, confirms: false, repeats: false },
    Attack {
        name: "calls",
        forge: |rng, from, out| control(rng, from, out, &[0x10, 0x12]),
        confirms: true,
        repeats: true,
    },
    Attack {
        name: "answers to calls",
        forge: |rng, from, out| control(rng, from, out, &[0x20, 0x21]),
        confirms: false,
        repeats: false,
    },
    Attack {
        name: "refusals",
        forge: |rng, from, out| control(rng, from, out, &[0x30, 0x31, 0x32, 0x33]),
        confirms: false,
        repeats: false,
    },
    Attack {
        name: "ends of links",
        forge: |rng, from, out| control(rng, from, out, &[0x40, 0x44, 0x50]),
        confirms: false,
        repeats: true,
    },
    Attack { name: "warnings", forge: warnings, confirms: false, repeats: true },
    Attack { name: "data and datagrams", forge: data, confirms: true, repeats: true },
];

#[test]
fn two_stations_go_on_after_each_kind_of_forgery() {
    for attack in &ATTACKS {
        for seed in 1..=3 {
            let mut band = band(seed);
            let mut rng = Rng::stream(seed, attack.name);
            for minute in 0..20 {
                exchange(&mut band, 2);
                // Forge during the exchange of the two stations, and in pauses.
                for _ in 0..4 {
                    let mut octets = Vec::new();
                    (attack.forge)(&mut rng, address(1), &mut octets);
                    forge(&mut band, octets);
                    band.run_until(band.now + MINUTE / 4);
                }
                assert!(band.node(0).links().count() <= 2, "{} {minute}", attack.name);
            }

            band.run_until(band.now + MINUTE * 30);
            let faults = band.books.faults();
            for fault in &faults {
                let is_known = attack.confirms && fault.contains("not delivered")
                    || attack.repeats && fault.contains("twice");
                assert!(is_known, "{} {seed}: {fault}", attack.name);
            }
            goes_on(&mut band, attack.name);
        }
    }
}

#[test]
fn a_flood_of_unknown_stations_is_bounded_and_passes() {
    for seed in 1..=2 {
        let mut band = band(seed);
        exchange(&mut band, 2);
        band.run_until(band.now + MINUTE);
        let mut rng = Rng::stream(seed, "flood");
        for number in 0..20 {
            let mut octets = Vec::new();
            for other in 0..10 {
                let from = Address::node(0x0b_0000 + number * 10 + other);
                let kind = ATTACKS[usize::try_from(rng.below(10)).expect("few")].forge;
                control(&mut rng, from, &mut octets, &[0x10, 0x12]);
                kind(&mut rng, from, &mut octets);
            }
            forge(&mut band, octets);
            exchange(&mut band, 1);
            band.run_until(band.now + MINUTE / 2);
            assert!(band.node(0).links().count() <= 17, "sixteen, and one to negotiate");
        }

        // Links that nobody uses end.
        band.run_until(band.now + MINUTE * 60);
        let faults = band.books.faults();
        assert!(faults.is_empty(), "{seed}: {faults:?}");
        goes_on(&mut band, "flood");
    }
}

/// Asserts that all U_PDUs between two stations now arrive exactly once.
fn goes_on(band: &mut Band, name: &str) {
    let (old, confirmed) = (band.books.entries.len(), band.books.count(Fate::Confirmed));
    exchange(band, 5);
    band.run_out(MINUTE * 60);
    assert_eq!(band.books.undecided(), 0, "{name}: each has an outcome");
    let entries = band.books.entries.values();
    let late = entries.filter(|entry| entry.sent_at >= band.now - MINUTE * 60);
    assert!(late.count() > 0);
    let sent = band.books.entries.len() - old;
    assert_eq!(band.books.count(Fate::Confirmed) - confirmed, sent, "{name}");
}

fn exchange(band: &mut Band, messages: usize) {
    for number in 0..messages {
        for from in 0..2 {
            let message =
                Message { in_order: number % 2 == 0, ..Message::new(from, 1 - from, 300) };
            assert!(band.send(message));
        }
    }
}

fn band(seed: u64) -> Band {
    let mut band = Band::new(hf::Config::default(), "1200", 3, seed, |_, _| {});
    band.kill(FORGER);
    band.air.stations[usize::from(FORGER)] = Station::forger();
    band
}

fn forge(band: &mut Band, octets: Vec<u8>) {
    let waveform: Waveform = "1200".parse().expect("a waveform");
    let Station::Forger { waiting, .. } = &mut band.air.stations[usize::from(FORGER)] else {
        panic!("the forger is one");
    };
    *waiting = VecDeque::from([(waveform, octets)]);
    band.settle();
}

/// Puts a frame to the first station into a transmission.
fn put(from: Address, eow: Eow, body: Body<'_>, out: &mut Vec<u8>) {
    let header = Header { eow, eot: 0, to: address(0), from, address_size: 1 };
    Frame { header, body }.emit(out);
}

fn any(rng: &mut Rng, limit: u64) -> u16 {
    u16::try_from(rng.below(limit)).expect("below 65,536")
}

fn octet(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).expect("an octet")
}

fn acks_beyond(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    for _ in 0..3 {
        let lwe = Fsn(0x80 + any(rng, 0x40));
        let bitmap = [octet(rng), octet(rng)];
        let ack = Ack { lwe, bitmap: &bitmap[..usize::from(any(rng, 3))] };
        put(from, Eow::None, Body::Ack { is_expedited: false, ack }, out);
    }
}

fn acks(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    for _ in 0..3 {
        let bitmap = [octet(rng), octet(rng), octet(rng)];
        let ack = Ack { lwe: Fsn(any(rng, 12)), bitmap: &bitmap[..usize::from(any(rng, 4))] };
        put(from, Eow::None, Body::Ack { is_expedited: rng.chance(0.3), ack }, out);
        let base = Fsn(ack.lwe.0 + any(rng, 4));
        let list = CpduSegment::new(&bitmap);
        let (is_last, coding) =
            (rng.chance(0.5), [Coding::Bitmap, Coding::Runs][usize::from(any(rng, 2))]);
        put(
            from,
            Eow::None,
            Body::LongAck(LongAck { lwe: ack.lwe, base, is_last, coding, list }),
            out,
        );
    }
}

fn resets(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    let reset = Reset {
        is_full: rng.chance(0.5),
        is_tx_request: rng.chance(0.3),
        is_rx_command: rng.chance(0.3),
        is_ack: rng.chance(0.3),
        lwe: Fsn(any(rng, 256)),
        id: octet(rng),
    };
    let numbers = [Numbers::Short, Numbers::Long][usize::from(any(rng, 2))];
    put(from, Eow::None, Body::Reset { numbers, reset }, out);
}

fn order_wire(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    for _ in 0..3 {
        let request = RateRequest { rate: octet(rng) & 0x0f, ..RateRequest::default() };
        let eow = match rng.below(5) {
            0 => Eow::RateRequest(request),
            1 => Eow::Unrecognised { kind: octet(rng) & 0x0f },
            2 => Eow::HighRateRequest { waveform: octet(rng) & 0x1f, channels: 1 },
            3 => Eow::Other { kind: 9, content: octet(rng) },
            _ => Eow::None,
        };
        let (is_valid, is_ack) = (rng.chance(0.7), rng.chance(0.3));
        let management = Management { is_valid, is_ack, id: octet(rng), extended: None };
        put(from, eow, Body::Management(management), out);
    }
}

fn control(rng: &mut Rng, from: Address, out: &mut Vec<u8>, kinds: &[u8]) {
    let c_pdu = [kinds[usize::try_from(rng.below(kinds.len() as u64)).expect("few")]];
    let segment = CpduSegment::new(&c_pdu);
    let id = any(rng, 4_096);
    let datagram = Datagram {
        is_expedited: true,
        id,
        in_order: false,
        size: 1,
        offset: 0,
        window: 0,
        segment,
    };
    put(from, Eow::None, Body::Datagram(datagram), out);
}

fn warnings(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    let reasons = [Reason::NotConnected, Reason::Invalid, Reason::UnknownKind, Reason::Other(9)];
    let reason = reasons[usize::from(any(rng, 4))];
    put(from, Eow::None, Body::Warning { received: octet(rng) & 0x0f, reason }, out);
}

fn data(rng: &mut Rng, from: Address, out: &mut Vec<u8>) {
    for _ in 0..4 {
        let octets: Vec<u8> = (0..any(rng, 60)).map(|_| octet(rng)).collect();
        let segment = CpduSegment::new(&octets);
        let numbers = [Numbers::Short, Numbers::Long][usize::from(any(rng, 2))];
        let body = match rng.below(3) {
            0 => Body::Data {
                numbers,
                data: Data {
                    fsn: Fsn(any(rng, 256)),
                    is_start: rng.chance(0.5),
                    is_end: rng.chance(0.5),
                    in_order: rng.chance(0.5),
                    is_drop: rng.chance(0.1),
                    at_upper_edge: rng.chance(0.3),
                    at_lower_edge: rng.chance(0.3),
                    segment,
                },
                ack: None,
            },
            1 => {
                let (is_start, is_end) = (rng.chance(0.5), rng.chance(0.5));
                let (id, fsn) = (octet(rng) & 0x0f, octet(rng));
                Body::Expedited(Expedited { is_start, is_end, id, fsn, segment })
            }
            _ => Body::Datagram(Datagram {
                is_expedited: rng.chance(0.5),
                id: any(rng, 4_096),
                in_order: rng.chance(0.5),
                size: any(rng, 4_200),
                offset: any(rng, 4_200),
                window: any(rng, 600),
                segment,
            }),
        };
        put(from, Eow::None, body, out);
    }
}
