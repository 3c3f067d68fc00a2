//! Both ends of a session against each other, and against what should not be.

mod contract;

use std::time::Duration;

use base::time::{Time, earliest};
use proptest::prelude::*;

use super::super::{Event, Keying, Waveform};
use super::scan::{Found, scan};
use super::wire::{Cause, Order, Packet, State, Status};
use super::{Config, Dce, Dte, *};

#[test]
fn a_session_begins_with_the_exchange_of_the_standard() {
    let mut pair = Pair::new();

    pair.run(ms(100));

    let expected = [
        "> Connect { version: 12 }",
        "< Connect { version: 12 }",
        "> ConnectAck { version: 12 }",
        "< ConnectAck { version: 12 }",
        "< Probe",
        "> Probe",
        "< InitialSetup",
        "< TransmitSetup { bits_per_s: 9600, block_bits: 10368 }",
        "< Status Flushed",
        "< Carrier { is_on: false, bits_per_s: 0, block_bits: 0 }",
    ];
    assert_eq!(pair.story, expected);
    assert!(pair.dte.is_ready());
    assert_eq!(pair.dte.waveform(), Some(waveform()));
}

#[test]
fn a_transmission_is_armed_filled_started_and_drained() {
    let mut pair = Pair::new();
    pair.run(ms(100));
    pair.story.clear();
    let octets: Vec<u8> = (0..6_000_u32).map(|n| (n % 251) as u8).collect();

    pair.send(octets.clone());
    pair.run(ms(20_000));

    assert_eq!(pair.on_air, octets);
    assert_eq!(pair.sent, 1);
    pair.story.retain(|line| !line.contains("RequestStatus") && !line.contains("KeepAlive"));
    pair.story.dedup();
    let expected = [
        "> Arm",
        "< Status ArmedReady",
        "> Transfer First 3888",
        "> Start",
        "< Status Started",
        "> Transfer Continuation 1296",
        "< Status Started",
        "> Transfer Continuation 816",
        "> Transfer Last 0",
        "< Status Draining",
        "< Status Flushed",
    ];
    assert_eq!(pair.story, expected);
    assert_eq!((pair.dte.stats().transmissions, pair.dte.stats().underruns), (1, 0));
}

#[test]
fn a_short_transmission_starts_at_its_end() {
    let mut pair = Pair::new();
    pair.run(ms(100));

    pair.send(vec![7; 10]);
    pair.run(ms(10_000));

    assert_eq!((pair.on_air.clone(), pair.sent), (vec![7; 10], 1));
    pair.send(vec![8; 20]);
    pair.run(ms(10_000));
    assert_eq!((pair.on_air.len(), pair.sent), (30, 2));
}

#[test]
fn a_reception_comes_through_with_its_carrier() {
    let mut pair = Pair::new();
    pair.run(ms(100));
    pair.story.clear();

    for event in [
        Event::CarrierDetected { waveform: Some(waveform()) },
        Event::Received(vec![1; 5_000]),
        Event::Received(vec![2; 10]),
        Event::CarrierLost,
    ] {
        pair.dce.handle_modem(pair.now, event);
    }
    pair.run(ms(100));

    let expected = [
        Event::CarrierDetected { waveform: Some(waveform()) },
        Event::Received(vec![1; 4_072]),
        Event::Received(vec![1; 928]),
        Event::Received(vec![2; 10]),
        Event::CarrierLost,
    ];
    assert_eq!(pair.heard, expected);
    let lines = [
        "< Carrier { is_on: true, bits_per_s: 9600, block_bits: 10368 }",
        "< Transfer First 4072",
        "< Transfer Continuation 928",
        "< Transfer Continuation 10",
        "< Transfer Last 0",
        "< Carrier { is_on: false, bits_per_s: 0, block_bits: 0 }",
    ];
    assert_eq!(pair.story, lines);
}

#[test]
fn a_second_carrier_without_the_end_of_the_first_ends_that() {
    let mut pair = Pair::new();
    pair.run(ms(100));

    let carrier = Packet::Carrier { is_on: true, bits_per_s: 9_600, block_bits: 10_368 };
    pair.dte.handle_octets(pair.now, &emit(&[carrier, carrier]));
    pair.run(ms(10));

    let detected = Event::CarrierDetected { waveform: Some(waveform()) };
    assert_eq!(pair.heard, [detected.clone(), Event::CarrierLost, detected]);
}

#[test]
fn an_aborted_reception_ends_at_once() {
    let mut pair = Pair::new();
    pair.run(ms(100));
    pair.dce.handle_modem(pair.now, Event::CarrierDetected { waveform: Some(waveform()) });
    pair.dce.handle_modem(pair.now, Event::Received(vec![1; 10]));
    pair.run(ms(10));

    pair.dte.abort_reception(pair.now);
    pair.run(ms(10));
    pair.dce.handle_modem(pair.now, Event::Received(vec![2; 10]));
    pair.dce.handle_modem(pair.now, Event::CarrierLost);
    pair.run(ms(10));

    assert_eq!(pair.heard.last(), Some(&Event::CarrierLost));
    assert_eq!(pair.heard.len(), 3);
}

#[test]
fn a_receiver_master_waits_for_the_end_of_the_reception() {
    let config = Config { waveform: waveform(), is_receiver_master: true };
    let mut pair = Pair::with(config);
    pair.run(ms(100));
    pair.dce.handle_modem(pair.now, Event::CarrierDetected { waveform: None });

    pair.send(vec![7; 10]);
    pair.run(ms(5_000));
    assert!(pair.on_air.is_empty());
    pair.dce.handle_modem(pair.now, Event::CarrierLost);
    pair.run(ms(5_000));

    assert_eq!((pair.on_air.len(), pair.sent), (10, 1));
}

#[test]
fn a_start_that_the_modem_has_not_taken_is_repeated_after_a_moment() {
    let mut pair = Pair::new();
    pair.run(ms(100));
    let said = |pair: &mut Pair| {
        let mut out = Vec::new();
        pair.dte.poll_octets(&mut out);
        names(&out)
    };
    let fill = Status {
        state: State::ArmedReady,
        space: 9_999,
        fill: 0,
        critical_ms: 0,
        critical_octets: 0,
    };
    let armed = emit(&[Packet::Status(fill)]);
    pair.dte.start(pair.now, waveform());
    pair.dte.end(pair.now);
    assert_eq!(said(&mut pair), ["Arm"]);

    pair.dte.handle_octets(pair.now, &armed);
    assert_eq!(said(&mut pair), ["Transfer Only 0", "Start"]);
    pair.dte.handle_octets(pair.now, &armed);
    assert_eq!(said(&mut pair), [""; 0]);
    pair.dte.handle_timeout(pair.now + ms(10));
    assert_eq!(said(&mut pair), ["Start"]);
}

#[test]
fn a_modem_that_transmits_says_when_it_runs_short_and_what_fills_its_block() {
    let mut dce = Dce::new(Time::ZERO, config());
    let octets = [7; 1_296 + 100];
    let first = Packet::Transfer { order: Order::First, id: [0; 12], octets: &octets };
    let begin = [CONNECT, ACK, Packet::Probe, Packet::Arm, first, Packet::Start];
    dce.handle_octets(Time::ZERO, &emit(&begin));

    let mut out = Vec::new();
    dce.poll_octets(&mut out);
    let Some(Packet::Status(status)) = packets_of(&out).pop() else { panic!("{:?}", names(&out)) };
    assert_eq!((status.state, status.fill), (State::Started, 1_396));
    assert_eq!((status.critical_ms, status.critical_octets), (1_080, 1_196));
}

/// A transmission has begun whose buffer is full, of so many octets.
fn supplied() -> (Pair, usize) {
    let mut pair = Pair::new();
    pair.run(ms(100));
    pair.dte.start(pair.now, waveform());
    pair.run(ms(10));
    let room = pair.dte.room();
    pair.dte.supply(pair.now, &vec![3; room]);
    (pair, room)
}

#[test]
fn a_station_that_does_not_deliver_is_cut_short() {
    let (mut pair, _) = supplied();

    pair.run(ms(20_000));

    assert_eq!((pair.on_air.len(), pair.sent), (3 * 1_296, 1));
    assert_eq!((pair.dte.stats().underruns, pair.dte.room()), (1, 0));
    pair.dte.end(pair.now);
    pair.send(vec![4; 4]);
    pair.run(ms(20_000));
    assert_eq!(pair.on_air[3 * 1_296..], [4; 4]);
}

#[test]
fn a_station_that_delivers_with_the_last_block_is_not_cut_short() {
    let (mut pair, room) = supplied();
    while pair.on_air.len() < room {
        pair.run(ms(10));
    }

    pair.dte.supply(pair.now, &[4; 100]);
    pair.dte.end(pair.now);
    pair.run(ms(20_000));

    assert_eq!((pair.on_air.len(), pair.sent), (room + 100, 1));
    assert_eq!(pair.dce.stats().underruns, 0);
}

#[test]
fn an_idle_session_is_kept_alive_and_a_silent_one_ends() {
    let mut pair = Pair::new();
    pair.run(ms(100_000));
    assert_eq!((pair.dte.closed(), pair.dce.closed()), (None, None));

    let silent_from = pair.now;
    let mut now = pair.now;
    let mut out = Vec::new();
    while let Some(next) = pair.dte.next_timeout() {
        now = next;
        pair.dte.handle_timeout(now);
        pair.dte.poll_octets(&mut out);
    }

    assert_eq!(pair.dte.closed(), Some(Closed::Silence));
    let waited = now.since(silent_from);
    assert!((ms(27_000)..ms(31_000)).contains(&waited), "{waited:?}");
}

#[test]
fn a_handshake_has_three_seconds() {
    let mut dte = Dte::new(Time::ZERO);

    assert_eq!(dte.next_timeout(), Some(Time::ZERO + ms(3_000)));
    dte.handle_timeout(Time::ZERO + ms(3_000));

    assert_eq!((dte.closed(), dte.next_timeout()), (Some(Closed::Handshake), None));
}

#[test]
fn a_probe_has_six_seconds() {
    let mut dce = Dce::new(Time::ZERO, config());
    dce.handle_octets(Time::ZERO, &emit(&[CONNECT, ACK]));

    dce.handle_timeout(Time::ZERO + ms(6_000));

    assert_eq!(dce.closed(), Some(Closed::Handshake));
}

#[test]
fn mistakes_earn_an_error_and_the_end() {
    let answer = |packets: &[Packet<'_>]| {
        let mut dce = Dce::new(Time::ZERO, config());
        dce.handle_octets(Time::ZERO, &emit(packets));
        let mut out = Vec::new();
        dce.poll_octets(&mut out);
        (dce.closed(), names(&out).last().cloned().unwrap())
    };

    let error = (Some(Closed::Protocol), "Error".to_owned());
    assert_eq!(answer(&[Packet::Arm]), error);
    assert_eq!(answer(&[CONNECT, CONNECT]), error);
    assert_eq!(answer(&[CONNECT, ACK, Packet::Start]), error);
    let status = Packet::TransmitSetup { bits_per_s: 1, block_bits: 1 };
    assert_eq!(answer(&[CONNECT, ACK, Packet::Probe, status]), error);
    assert_eq!(answer(&[Packet::Connect { version: 11 }]).0, Some(Closed::Version(11)));
    assert_eq!(answer(&[CONNECT, Packet::Error]).0, Some(Closed::Refused));
}

#[test]
fn transfers_out_of_place_are_refused_by_name() {
    let id = *b"abcdefghijkl";
    let transfer = |order| Packet::Transfer { order, id, octets: &[1] };
    let cause = |packets: &[Packet<'_>]| {
        let mut dce = Dce::new(Time::ZERO, config());
        dce.handle_octets(Time::ZERO, &emit(&[CONNECT, ACK, Packet::Probe]));
        dce.handle_octets(Time::ZERO, &emit(packets));
        let mut out = Vec::new();
        dce.poll_octets(&mut out);
        match packets_of(&out).last() {
            Some(Packet::Nak { cause, id: named }) if *named == id => Some(*cause),
            _ => None,
        }
    };

    assert_eq!(cause(&[transfer(Order::First)]), Some(Cause::NotArmed));
    assert_eq!(cause(&[Packet::Arm, transfer(Order::Last)]), Some(Cause::NoFirst));
    let twice = [Packet::Arm, transfer(Order::First), transfer(Order::First)];
    assert_eq!(cause(&twice), Some(Cause::SecondFirst));
    let after_last = [Packet::Arm, transfer(Order::Only), transfer(Order::First)];
    assert_eq!(cause(&after_last), Some(Cause::NotArmed));
    assert_eq!(cause(&[Packet::Arm, transfer(Order::First)]), None);
}

#[test]
fn a_station_that_floods_is_held_back_then_dropped() {
    let mut dce = Dce::new(Time::ZERO, config());
    let octets = vec![1; wire::MAX_DATA];
    let more = Packet::Transfer { order: Order::Continuation, id: [0; 12], octets: &octets };
    let first = Packet::Transfer { order: Order::First, id: [0; 12], octets: &octets };
    let begin = [CONNECT, ACK, Packet::Probe, Packet::Arm, first];
    dce.handle_octets(Time::ZERO, &emit(&begin));
    assert!(dce.wants_octets());

    let flood = emit(&[more; 16]);
    dce.handle_octets(Time::ZERO, &flood);
    assert!(!dce.wants_octets());
    for _ in 0..100 {
        dce.handle_octets(Time::ZERO, &flood);
    }

    assert_eq!(dce.closed(), Some(Closed::Overflow));
}

#[test]
fn the_end_of_the_session_ends_what_was_under_way() {
    let mut pair = Pair::new();
    pair.run(ms(100));
    pair.send(vec![9; 50_000]);
    pair.run(ms(3_000));

    pair.dce.handle_octets(pair.now, &emit(&[Packet::Probe, Packet::Error]));
    pair.dte.handle_octets(pair.now, &emit(&[Packet::Error]));

    assert_eq!(pair.dte.closed(), Some(Closed::Refused));
    let events: Vec<_> = std::iter::from_fn(|| pair.dte.poll_event()).collect();
    assert_eq!(events, [Event::Sent]);
    let mut out = Vec::new();
    assert_eq!(pair.dce.poll_transmit(pair.now, 1_296, &mut out), Some(Keying::End));
    assert_eq!(pair.dce.poll_transmit(pair.now, 1_296, &mut out), None);
}

#[test]
fn a_block_names_one_waveform() {
    for family in crate::modem::Family::ALL {
        for waveform in Waveform::all(family) {
            let (bits_per_s, block_bits) = (waveform.bits_per_s(), waveform.block_bits());
            assert_eq!(Waveform::of_block(bits_per_s, block_bits), Some(waveform));
        }
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn whatever_comes_a_session_neither_panics_nor_spins(
        pieces in prop::collection::vec((any::<u8>(), 0_usize..300, any::<u16>()), 0..60),
    ) {
        let mut dte = Dte::new(Time::ZERO);
        let mut dce = Dce::new(Time::ZERO, config());
        let mut now = Time::ZERO;
        let (mut to_dce, mut to_dte) = (Vec::new(), Vec::new());
        for (kind, len, value) in pieces {
            match kind % 8 {
                0 => dte.start(now, waveform()),
                1 => dte.supply(now, &vec![kind; len * 16]),
                2 => dte.end(now),
                3 => dce.handle_modem(now, Event::Received(vec![kind; len])),
                4 => dce.handle_modem(now, Event::CarrierDetected { waveform: None }),
                5 => dce.handle_modem(now, Event::CarrierLost),
                6 => now += ms(u64::from(value)),
                _ => {
                    if let Some(octet) = to_dce.get_mut(len) {
                        *octet ^= 1 << (value % 8);
                    }
                }
            }
            dte.poll_octets(&mut to_dce);
            dce.poll_octets(&mut to_dte);
            dce.handle_octets(now, &to_dce);
            dte.handle_octets(now, &to_dte);
            to_dce.clear();
            to_dte.clear();
            let mut out = Vec::new();
            for _ in 0..4 {
                if dce.poll_transmit(now, 1_296, &mut out) == Some(Keying::End) {
                    dce.handle_modem(now, Event::Sent);
                }
            }
            prop_assert!(out.len() <= 4 * 1_296);
            dte.handle_timeout(now);
            dce.handle_timeout(now);
            prop_assert!(dte.next_timeout().is_none_or(|at| at > now));
            prop_assert!(dce.next_timeout().is_none_or(|at| at > now));
            while dte.poll_event().is_some() {}
        }
    }
}

const CONNECT: Packet<'static> = Packet::Connect { version: 12 };
const ACK: Packet<'static> = Packet::ConnectAck { version: 12 };

fn emit(packets: &[Packet<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for packet in packets {
        packet.emit(&mut out);
    }
    out
}

/// A station, a modem, and a transmitter that sends a block when its time is over.
struct Pair {
    now: Time,
    dte: Dte,
    dce: Dce,
    /// What the station wants to send.
    waiting: Option<Vec<u8>>,
    /// When the transmitter wants its next block, or has sent its last.
    block_at: Option<Time>,
    is_last: bool,
    on_air: Vec<u8>,
    sent: usize,
    heard: Vec<Event>,
    story: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: Config) -> Self {
        Self {
            now: Time::ZERO,
            dte: Dte::new(Time::ZERO),
            dce: Dce::new(Time::ZERO, config),
            waiting: None,
            block_at: None,
            is_last: false,
            on_air: Vec::new(),
            sent: 0,
            heard: Vec::new(),
            story: Vec::new(),
        }
    }

    fn send(&mut self, octets: Vec<u8>) {
        self.dte.start(self.now, waveform());
        self.waiting = Some(octets);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let timeouts = earliest(self.dte.next_timeout(), self.dce.next_timeout());
            let next = earliest(timeouts, self.block_at);
            let Some(next) = next.filter(|&next| next <= end) else { break };
            assert!(next > self.now, "it spins");
            self.now = next;
            self.dte.handle_timeout(next);
            self.dce.handle_timeout(next);
            self.transmit();
        }
        self.now = end;
    }

    /// Asks for the block that is due.
    fn transmit(&mut self) {
        if self.block_at != Some(self.now) {
            return;
        }
        if self.is_last {
            self.block_at = None;
            self.dce.handle_modem(self.now, Event::Sent);
            return;
        }
        let mut octets = Vec::new();
        while octets.len() < 1_296 && !self.is_last {
            let room = 1_296 - octets.len();
            match self.dce.poll_transmit(self.now, room, &mut octets) {
                Some(Keying::End) => self.is_last = true,
                Some(Keying::Octets) => {}
                Some(Keying::Start(_)) | None => panic!("the transmitter is on"),
            }
        }
        self.on_air.extend(octets);
        self.block_at = Some(self.now + waveform().block_time());
    }

    fn settle(&mut self) {
        loop {
            let room = self.dte.room();
            if let Some(octets) = self.waiting.as_mut().filter(|_| room > 0) {
                let rest = octets.split_off(room.min(octets.len()));
                self.dte.supply(self.now, octets);
                *octets = rest;
                if octets.is_empty() {
                    self.waiting = None;
                    self.dte.end(self.now);
                }
            }
            if self.block_at.is_none() {
                let mut out = Vec::new();
                if let Some(Keying::Start(_)) = self.dce.poll_transmit(self.now, 0, &mut out) {
                    self.block_at = Some(self.now + ms(200));
                    self.is_last = false;
                }
            }
            let (mut there, mut back) = (Vec::new(), Vec::new());
            self.dte.poll_octets(&mut there);
            self.dce.poll_octets(&mut back);
            if there.is_empty() && back.is_empty() {
                break;
            }
            self.story.extend(names(&there).into_iter().map(|name| format!("> {name}")));
            self.story.extend(names(&back).into_iter().map(|name| format!("< {name}")));
            self.dce.handle_octets(self.now, &there);
            self.dte.handle_octets(self.now, &back);
        }
        while let Some(event) = self.dte.poll_event() {
            self.sent += usize::from(event == Event::Sent);
            self.heard.push(event);
        }
    }
}

fn packets_of(mut octets: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while let Found::Packet(len, packet) = scan(octets) {
        octets = &octets[len..];
        packets.push(packet);
    }
    assert_eq!(scan(octets), Found::Nothing);
    packets
}

fn names(octets: &[u8]) -> Vec<String> {
    let name = |packet| match packet {
        Packet::Transfer { order, octets, .. } => format!("Transfer {order:?} {}", octets.len()),
        Packet::Status(status) => format!("Status {:?}", status.state),
        Packet::InitialSetup(_) => "InitialSetup".to_owned(),
        other => format!("{other:?}"),
    };
    packets_of(octets).into_iter().map(name).collect()
}

fn config() -> Config {
    Config { waveform: waveform(), is_receiver_master: false }
}

fn waveform() -> Waveform {
    "9600/short".parse().unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
