//! Frames between stations of a simulated combat net.
//!
//! A net has no ARP: stations know each other's addresses. The kernels' questions and answers about hardware addresses
//! therefore go from interface to interface at once, and not on the air.

mod watch;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use base::ethernet::HEADER;
use base::ip::protocol;
use base::time::{Time, earliest};
use sim::cnr::{Config, Event, Frame, Hearing, Medium, Precedence, StationId, Targets};
use sim::mobility::Motion;

use super::frames::{Frames, Receiver};
use super::{Hub, Lateness};
pub use watch::NetSeen;
use watch::Watch;

/// A combat net with interfaces as stations.
///
/// Frames wait for their turn in the stations, as in the simulator.
#[derive(Debug)]
pub struct NetHub {
    medium: Medium,
    /// The station of each interface.
    stations: Vec<StationId>,
    /// The interface of each station, if any.
    interfaces: Vec<Option<usize>>,
    stats: Vec<NetStats>,
    frames: Frames,
    /// How many stations have the frame with this token.
    holders: Vec<u32>,
    /// Frames that terminals are still busy with, the next first.
    arriving: VecDeque<(Time, usize, Vec<u8>)>,
    delay: Duration,
    lateness: Lateness,
    watch: Watch,
}

/// Counters of an interface's frames; the station's own counters cover their fate on the net.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NetStats {
    /// Frames that the interface sent.
    pub received: u64,
    /// Received questions for hardware addresses and answers, which did not go on the air.
    pub resolving: u64,
    /// Received frames sent to all stations because no station is known by the address.
    pub unknown: u64,
    /// Received frames dropped because their address is behind the same interface.
    pub own: u64,
    /// Received frames dropped because their packets are longer than the net's MTU.
    pub too_long: u64,
    /// Received frames that the station dropped: the queue was full, or no way leads there.
    pub refused: u64,
    /// Frames from the net delivered to the interface.
    pub delivered: u64,
}

impl NetHub {
    /// A net with a station for each motion and its name; the name seeds the station's random numbers. The stations
    /// in `stations` are interfaces.
    #[must_use]
    pub fn new(
        config: Config,
        hearing: Hearing,
        motions: impl IntoIterator<Item = (String, Motion)>,
        stations: impl IntoIterator<Item = StationId>,
        seed: u64,
    ) -> Self {
        let mut medium = Medium::new(config, hearing, seed);
        for (name, motion) in motions {
            medium.add_station(&name, motion);
        }
        let stations: Vec<StationId> = stations.into_iter().collect();
        let mut interfaces = vec![None; medium.stations()];
        for (interface, StationId(station)) in stations.iter().enumerate() {
            interfaces[*station] = Some(interface);
        }
        Self {
            delay: config.timing.dte_processing,
            medium,
            interfaces,
            stats: vec![NetStats::default(); stations.len()],
            frames: Frames::new(stations.len()),
            stations,
            holders: Vec::new(),
            arriving: VecDeque::new(),
            lateness: Lateness::default(),
            watch: Watch::default(),
        }
    }

    /// The net.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The station of an interface.
    #[must_use]
    pub fn station(&self, interface: usize) -> StationId {
        self.stations[interface]
    }

    /// The counters of each interface.
    pub fn stats(&self) -> impl Iterator<Item = NetStats> {
        self.stats.iter().copied()
    }

    /// Hands a packet to an interface's station.
    fn transmit(&mut self, now: Time, interface: usize, frame: Vec<u8>) {
        let stats = &mut self.stats[interface];
        let packet = frame.get(HEADER..).unwrap_or_default();
        let octets = packet.len();
        let to = match self.frames.receiver(&frame) {
            Receiver::All => Targets::All,
            Receiver::Station(own) if own == interface => {
                stats.own += 1;
                self.frames.recycle(frame);
                return;
            }
            Receiver::Station(to) => Targets::one(self.stations[to]),
            Receiver::Unknown => {
                stats.unknown += 1;
                Targets::All
            }
        };
        if octets > self.medium.config().mtu {
            stats.too_long += 1;
            self.frames.recycle(frame);
            return;
        }
        let octets = u32::try_from(octets).expect("the longest packet is shorter");
        let precedence = Precedence::of_packet(packet);
        let token = self.frames.keep(frame);
        self.hold(token);
        let frame = Frame { token, octets, to, precedence };
        if !self.medium.send(now, self.stations[interface], frame) {
            self.stats[interface].refused += 1;
            self.release(token);
        }
        self.drain(now);
    }

    /// Passes a question for a hardware address, or the answer, to the addressed interfaces.
    fn resolve(&mut self, interface: usize, frame: Vec<u8>) {
        self.stats[interface].resolving += 1;
        let receiver = self.frames.receiver(&frame);
        let token = self.frames.keep(frame);
        for other in (0..self.stations.len()).filter(|other| *other != interface) {
            if matches!(receiver, Receiver::Station(only) if only != other) {
                continue;
            }
            let copy = self.frames.copy(token);
            self.frames.arrive(other, copy);
        }
        self.frames.forget(token);
    }

    /// Handles the events of the net.
    fn drain(&mut self, now: Time) {
        while let Some(event) = self.medium.poll_event() {
            match event {
                Event::Received { station: StationId(station), token, .. } => {
                    if let Some(interface) = self.interfaces[station] {
                        let copy = self.frames.copy(token);
                        self.arriving.push_back((now + self.delay, interface, copy));
                    }
                }
                Event::Relayed { token, .. } => self.hold(token),
                Event::Failed { frame, .. } => self.release(frame.token),
                Event::Forsaken { token, .. } | Event::Sent { token, .. } => self.release(token),
                Event::Transmitted(transmission) => self.note(now, transmission),
            }
        }
    }

    /// One station more has a frame.
    fn hold(&mut self, token: u32) {
        let place = token as usize;
        if self.holders.len() <= place {
            self.holders.resize(place + 1, 0);
        }
        self.holders[place] += 1;
    }

    /// One station less has the frame.
    fn release(&mut self, token: u32) {
        let holders = &mut self.holders[token as usize];
        *holders -= 1;
        if *holders == 0 {
            self.frames.forget(token);
        }
    }
}

impl Hub for NetHub {
    fn handle_frame(&mut self, now: Time, interface: usize, parts: &[&[u8]]) {
        self.handle_timeout(now);
        let frame = self.frames.join(interface, parts);
        self.stats[interface].received += 1;
        if resolves(&frame) {
            self.resolve(interface, frame);
        } else {
            self.transmit(now, interface, frame);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(at) = self.next_timeout().filter(|at| *at <= now) {
            self.lateness.count(now, at);
            self.medium.handle_timeout(at);
            self.drain(at);
            while let Some((_, interface, frame)) = self.arriving.pop_front_if(|it| it.0 <= at) {
                self.stats[interface].delivered += 1;
                self.frames.arrive(interface, frame);
            }
        }
    }

    fn poll_transmit(&mut self) -> Option<(usize, Vec<u8>)> {
        self.frames.poll()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.frames.recycle(frame);
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(self.medium.next_timeout(), self.arriving.front().map(|(at, ..)| *at))
    }

    fn take_lateness(&mut self) -> Lateness {
        mem::take(&mut self.lateness)
    }
}

/// Whether a frame asks for a hardware address, or answers: ARP (RFC 826), and neighbour solicitations and
/// advertisements (RFC 4861).
fn resolves(frame: &[u8]) -> bool {
    /// Octets of IPv6's header.
    const IPV6: usize = 40;
    match frame.get(HEADER - 2..HEADER) {
        Some([0x08, 0x06]) => true,
        Some([0x86, 0xdd]) => {
            let next = frame.get(HEADER + 6);
            next == Some(&protocol::ICMPV6) && matches!(frame.get(HEADER + IPV6), Some(135 | 136))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sim::cnr::LinkType;
    use sim::mobility::Position;

    use super::*;

    #[test]
    fn a_packet_arrives_when_the_simulator_says() {
        let mut hub = hub(quiet(), Hearing::All, 3);
        introduce(&mut hub);

        hub.handle_frame(seconds(1), 0, &[&frame(0, 1, 168, 0)]);
        let due = loop {
            let next = hub.next_timeout().unwrap();
            hub.handle_timeout(next);
            if hub.poll_transmit().is_some_and(|(to, _)| to == 1) {
                break next;
            }
        };

        // Key-up, phasing, header, frame and lag, as docs/protocols/channels.md computes them, and the terminal's time,
        // behind a slot of RE-NAD: 252 ms each, and 10 ms from one to the next.
        let air = hub.medium().times().packet(LinkType::Unacknowledged, 1, 168);
        assert_eq!(air, Duration::from_millis(454));
        let begun = due.since(Time::ZERO) - air - Duration::from_millis(10);
        let slot = Duration::from_millis(262).as_nanos();
        assert_eq!((begun + Duration::from_millis(10)).as_nanos() % slot, 0, "{begun:?}");
        assert!(begun > Duration::from_secs(1), "{begun:?}");
        assert_eq!(hub.stats().map(|it| it.delivered).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(hub.frames.count(), 0, "no station keeps a frame");
    }

    #[test]
    fn broadcasts_reach_all_who_hear_and_questions_for_addresses_all_at_once() {
        let pairs = vec![[StationId(0), StationId(1)], [StationId(1), StationId(2)]];
        let mut hub = hub(quiet(), Hearing::Pairs(pairs), 3);
        let mut question = frame(0, 0xff, 28, 0);
        question[12..14].copy_from_slice(&[0x08, 0x06]);
        hub.handle_frame(seconds(1), 0, &[&question]);
        let told: Vec<usize> = std::iter::from_fn(|| hub.poll_transmit()).map(|it| it.0).collect();
        let mut answer = frame(2, 0, 28, 0);
        answer[12..14].copy_from_slice(&[0x08, 0x06]);
        hub.handle_frame(seconds(1), 2, &[&answer]);
        let back = hub.poll_transmit().map(|it| it.0);
        assert_eq!((told, back, hub.poll_transmit()), (vec![1, 2], Some(0), None));

        hub.handle_frame(seconds(1), 0, &[&frame(0, 0xff, 100, 0)]);

        assert_eq!(deliveries(&mut hub, seconds(20)), [(1, 0)]);
        let on_air = hub.medium().total(seconds(20));
        assert_eq!((on_air.frames, hub.stats().map(|it| it.resolving).sum::<u64>()), (1, 2));
    }

    #[test]
    fn of_ipv6_only_what_finds_neighbours_stays_off_the_air() {
        let icmp = |kind: u8| {
            let mut frame = vec![0; HEADER + 64];
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[HEADER + 6] = 58;
            frame[HEADER + 40] = kind;
            frame
        };

        // Echoes, router solicitations, neighbour solicitations and advertisements, redirects.
        let kinds = [128, 133, 135, 136, 137].map(|kind| resolves(&icmp(kind)));

        assert_eq!(kinds, [false, false, true, true, false]);
        assert!(!resolves(&icmp(135)[..HEADER + 40]), "it is cut off");
    }

    #[test]
    fn relays_pass_a_packet_on_and_no_frame_is_kept() {
        let pairs = vec![[StationId(0), StationId(1)], [StationId(1), StationId(2)]];
        for link_type in [LinkType::Unacknowledged, LinkType::Coupled, LinkType::Decoupled] {
            let config = Config { link_type, ..quiet() };
            let mut hub = hub(config, Hearing::Pairs(pairs.clone()), 3);
            introduce(&mut hub);

            hub.handle_frame(seconds(1), 0, &[&frame(0, 2, 100, 0)]);

            assert_eq!(deliveries(&mut hub, seconds(90)), [(2, 0)], "{link_type:?}");
            assert_eq!(hub.medium().total(seconds(90)).relayed, 1);
            assert_eq!(hub.frames.count(), 0, "{link_type:?}");
        }
    }

    #[test]
    fn what_is_urgent_overtakes() {
        let config = Config { concatenate: 0, ..quiet() };
        let mut hub = hub(config, Hearing::All, 3);
        introduce(&mut hub);
        for number in 0..3 {
            hub.handle_frame(seconds(1), 0, &[&frame(0, 1, 100 + number, 0)]);
        }
        // Class selector 3.
        hub.handle_frame(seconds(1), 0, &[&frame(0, 1, 200, 24 << 2)]);
        hub.handle_timeout(seconds(60));

        let order: Vec<usize> =
            std::iter::from_fn(|| hub.poll_transmit()).map(|(_, it)| it.len() - HEADER).collect();
        assert_eq!(order, [200, 100, 101, 102]);
    }

    #[test]
    fn every_frame_is_counted_once() {
        let config = Config { queue: 2, mtu: 576, ..quiet() };
        let mut hub = hub(config, Hearing::All, 2);
        introduce(&mut hub);
        for octets in [100, 100, 100, 577] {
            hub.handle_frame(seconds(1), 0, &[&frame(0, 1, octets, 0)]);
        }
        hub.handle_frame(seconds(1), 0, &[&frame(0, 0, 100, 0)]);
        hub.handle_frame(seconds(1), 0, &[&frame(0, 9, 100, 0)]);
        hub.handle_timeout(seconds(60));

        let stats = hub.stats().next().unwrap();
        let expected = NetStats {
            received: 7,
            resolving: 1,
            unknown: 1,
            own: 1,
            too_long: 1,
            // Of four, two find room.
            refused: 2,
            delivered: 0,
        };
        assert_eq!(stats, expected);
        assert_eq!(hub.frames.count(), 0);
    }

    #[test]
    fn stations_without_an_interface_are_on_the_net() {
        let pairs = vec![[StationId(0), StationId(1)], [StationId(1), StationId(2)]];
        let ends = [StationId(2), StationId(0)];
        let mut hub = NetHub::new(quiet(), Hearing::Pairs(pairs), at_rest(3), ends, 1);
        introduce(&mut hub);

        hub.handle_frame(seconds(1), 0, &[&frame(0, 1, 100, 0)]);

        assert_eq!(deliveries(&mut hub, seconds(20)), [(1, 0)]);
        assert_eq!(hub.medium().stats(seconds(20), StationId(1)).relayed, 1);
    }

    /// Every interface asks for another's address, so that all addresses are known; deliveries are forgotten.
    fn introduce(hub: &mut NetHub) {
        for interface in 0..u8::try_from(hub.stations.len()).unwrap() {
            let mut question = frame(interface, 0xff, 28, 0);
            question[12..14].copy_from_slice(&[0x08, 0x06]);
            hub.handle_frame(Time::ZERO, interface.into(), &[&question]);
        }
        while hub.poll_transmit().is_some() {}
    }

    /// No noise, no updates.
    fn quiet() -> Config {
        Config { loss: 0.0, topology_spacing: Duration::ZERO, ..Config::default() }
    }

    fn at_rest(stations: usize) -> impl Iterator<Item = (String, Motion)> {
        (0..stations).map(|it| (it.to_string(), Motion::at_rest(Position::default())))
    }

    fn hub(config: Config, hearing: Hearing, stations: usize) -> NetHub {
        NetHub::new(config, hearing, at_rest(stations), (0..stations).map(StationId), 1)
    }

    /// From an interface to another, with a packet of so many octets; 0xff is all.
    fn frame(from: u8, to: u8, octets: usize, class: u8) -> Vec<u8> {
        let mac = |station| if station == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, station] };
        let mut frame = [mac(to), mac(from)].concat();
        frame.extend_from_slice(&[0x08, 0x00]);
        let [from, to] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
        let mut spec = base::ip::Spec::new(from, to, protocol::UDP);
        spec.traffic_class = class;
        spec.emit(octets - 20, &mut frame);
        frame.resize(HEADER + octets, 0);
        frame
    }

    /// Receivers and senders of the frames delivered until then.
    fn deliveries(hub: &mut NetHub, until: Time) -> Vec<(usize, u8)> {
        hub.handle_timeout(until);
        std::iter::from_fn(|| hub.poll_transmit()).map(|(to, frame)| (to, frame[11])).collect()
    }

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }
}
