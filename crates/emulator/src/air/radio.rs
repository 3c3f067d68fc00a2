//! Frames between stations of the simulated channel, and the queues before their MACs.

mod watch;

use std::collections::VecDeque;
use std::mem;

use base::ethernet::HEADER;
use base::time::{Time, earliest};
use sim::Class;
use sim::medium::{Admission, Room};
use sim::mobility::Motion;
use sim::radio::{Config, Event, Frame, Medium, StationId};

use super::frames::{Frames, Receiver, class_of};
use super::{Hub, Lateness};
pub use watch::Seen;
use watch::Watch;

/// A radio channel, with the queues before its stations.
///
/// A hub reads no clock: real time and tests are the same to it. Events due before `now` happen at their own time,
/// however late the caller is; only frames from outside are late then.
#[derive(Debug)]
pub struct RadioHub {
    medium: Medium,
    stations: Vec<Station>,
    frames: Frames,
    /// A buffer for frames that MACs have finished with.
    done: Vec<(usize, Frame)>,
    room: Room,
    /// Whether messages of routing protocols go before other frames.
    is_routing_first: bool,
    /// Times at which stations are switched off and on again, the next first.
    switches: VecDeque<(Time, usize, bool)>,
    lateness: Lateness,
    watch: Watch,
}

#[derive(Debug, Default)]
struct Station {
    /// Messages of routing protocols, if they go first.
    first: VecDeque<Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    stats: Stats,
}

impl Station {
    fn waiting(&self) -> usize {
        self.first.len() + self.queue.len()
    }
}

/// Counters of a station's frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Frames that its interface sent.
    pub received: u64,
    /// Frames dropped because the queue was full.
    pub queue_full: u64,
    /// Frames sent to all in range because no station is known by their address.
    pub unknown: u64,
    /// Frames dropped because their address is behind the same interface.
    pub own: u64,
    /// Frames dropped because the station was switched off.
    pub off: u64,
    /// Frames given up by the MAC after its last attempt.
    pub given_up: u64,
    /// Frames from the air delivered to the station's interface.
    pub delivered: u64,
}

impl RadioHub {
    /// A channel with a station for each motion; the station's name seeds its back-offs. `queue` frames may wait
    /// before each MAC.
    #[must_use]
    pub fn new(
        config: Config,
        motions: impl IntoIterator<Item = (String, Motion)>,
        queue: usize,
        seed: u64,
    ) -> Self {
        let mut medium = Medium::new(config, seed);
        let stations = motions.into_iter().map(|(name, motion)| {
            medium.add_station(&name, motion);
            Station::default()
        });
        let stations: Vec<Station> = stations.collect();
        Self {
            medium,
            frames: Frames::new(stations.len()),
            stations,
            done: Vec::new(),
            room: Room { packets: queue, octets: usize::MAX },
            is_routing_first: false,
            switches: VecDeque::new(),
            lateness: Lateness::default(),
            watch: Watch::default(),
        }
    }

    /// Messages of routing protocols go before other frames from now on, as with
    /// [`QueueDiscipline::RoutingFirst`](sim::QueueDiscipline::RoutingFirst).
    pub fn send_routing_first(&mut self) {
        self.is_routing_first = true;
    }

    /// Switches stations on (true) or off at these times.
    pub fn plan(&mut self, switches: impl IntoIterator<Item = (Time, usize, bool)>) {
        self.switches.extend(switches);
        self.switches.make_contiguous().sort_by_key(|(at, ..)| *at);
    }

    /// The channel.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The counters of each station.
    pub fn stats(&self) -> impl Iterator<Item = Stats> {
        self.stations.iter().map(|station| station.stats)
    }

    /// Hands frames to a MAC that is ready.
    ///
    /// A frame for an unknown address goes to all, as with a switch: neighbours with configured addresses may never
    /// have sent a frame.
    fn start(&mut self, now: Time, station: usize) {
        while self.medium.is_ready(StationId(station)) {
            let Station { first, queue, stats } = &mut self.stations[station];
            let Some(frame) = first.pop_front().or_else(|| queue.pop_front()) else { return };
            let to = match self.frames.receiver(&frame) {
                Receiver::All => None,
                Receiver::Station(own) if own == station => {
                    stats.own += 1;
                    self.frames.recycle(frame);
                    continue;
                }
                Receiver::Station(to) => Some(StationId(to)),
                Receiver::Unknown => {
                    stats.unknown += 1;
                    None
                }
            };
            let octets = u32::try_from(frame.len().saturating_sub(HEADER)).unwrap_or(u32::MAX);
            let token = self.frames.keep(frame);
            if !self.medium.send(now, StationId(station), Frame { token, octets, to }) {
                self.frames.forget(token);
            }
        }
    }

    /// Handles events of the channel, and their consequences. The report of a sent broadcast precedes the report of
    /// its receivers, so frames are forgotten last.
    fn drain(&mut self, now: Time) {
        let mut done = mem::take(&mut self.done);
        loop {
            while let Some(event) = self.medium.poll_event() {
                match event {
                    Event::Received { station: StationId(to), token, .. } => {
                        self.deliver(to, token);
                    }
                    Event::Failed { station: StationId(from), frame } => {
                        self.stations[from].stats.given_up += 1;
                        done.push((from, frame));
                    }
                    Event::Sent { station: StationId(from), frame } => done.push((from, frame)),
                    Event::Transmitted(transmission) => self.note(transmission),
                }
            }
            if done.is_empty() {
                break;
            }
            for (from, frame) in done.drain(..) {
                self.release(now, from, frame);
            }
        }
        self.done = done;
    }

    fn deliver(&mut self, to: usize, token: u32) {
        let copy = self.frames.copy(token);
        self.stations[to].stats.delivered += 1;
        self.frames.arrive(to, copy);
    }

    fn release(&mut self, now: Time, station: usize, frame: Frame) {
        self.frames.forget(frame.token);
        self.start(now, station);
    }

    fn switch(&mut self, now: Time, station: usize, is_on: bool) {
        if let Some(frame) = self.medium.set_on(now, StationId(station), is_on) {
            self.frames.forget(frame.token);
            self.stations[station].stats.off += 1;
        }
        if !is_on {
            let Station { first, queue, stats } = &mut self.stations[station];
            stats.off += (first.len() + queue.len()) as u64;
            first.drain(..).chain(queue.drain(..)).for_each(|frame| self.frames.recycle(frame));
        }
    }
}

impl Hub for RadioHub {
    fn handle_frame(&mut self, now: Time, station: usize, parts: &[&[u8]]) {
        self.handle_timeout(now);
        let frame = self.frames.join(station, parts);
        let is_first = self.is_routing_first && class_of(&frame) == Class::Routing;
        let own = &mut self.stations[station];
        own.stats.received += 1;
        let is_ready = self.medium.is_ready(StationId(station));
        let admission = self.room.admit(is_ready, (own.waiting(), 0), frame.len());
        if !self.medium.is_on(StationId(station)) {
            own.stats.off += 1;
            self.frames.recycle(frame);
            return;
        }
        if admission == Admission::Refused {
            own.stats.queue_full += 1;
            let newest = if is_first { own.queue.pop_back() } else { None };
            let Some(newest) = newest else {
                self.frames.recycle(frame);
                return;
            };
            self.frames.recycle(newest);
        }
        let queue = if is_first { &mut own.first } else { &mut own.queue };
        queue.push_back(frame);
        self.start(now, station);
        self.drain(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(at) = self.next_timeout().filter(|at| *at <= now) {
            self.lateness.count(now, at);
            while let Some((_, station, is_on)) =
                self.switches.front().copied().filter(|(due, ..)| *due <= at)
            {
                self.switches.pop_front();
                self.switch(at, station, is_on);
            }
            self.medium.handle_timeout(at);
            self.drain(at);
        }
    }

    fn poll_transmit(&mut self) -> Option<(usize, Vec<u8>)> {
        self.frames.poll()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.frames.recycle(frame);
    }

    fn next_timeout(&self) -> Option<Time> {
        earliest(self.medium.next_timeout(), self.switches.front().map(|(at, ..)| *at))
    }

    fn take_lateness(&mut self) -> Lateness {
        mem::take(&mut self.lateness)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::ip::{Spec, protocol};
    use sim::mobility::Position;

    use super::*;

    /// Octets of a frame: an IP packet of 1,500.
    const LEN: usize = 1_514;
    /// RTS, CTS, data and ACK of such a frame with the gaps between them, at 1 Mbit/s and 2 Mbit/s.
    const EXCHANGE: Duration = Duration::from_micros(352 + 10 + 304 + 10 + 6_328 + 10 + 304);

    #[test]
    fn a_frame_reaches_whom_it_is_for_and_a_broadcast_all_in_range() {
        let mut hub = hub(&[0.0, 200.0, 400.0], 10);
        hub.handle_frame(Time::ZERO, 1, &[&frame(1, 0xff)]);
        hub.handle_frame(Time::ZERO, 0, &[&frame(0, 0xff)]);
        let mut hello = deliveries(&mut hub, seconds(1));
        // Who is first is drawn.
        hello.sort_unstable();
        hub.handle_frame(seconds(2), 0, &[&frame(0, 1)]);

        let data = deliveries(&mut hub, seconds(3));

        assert_eq!(hello, [(0, 1), (1, 0), (2, 1)]);
        assert_eq!(data, [(1, 0)]);
    }

    #[test]
    fn nobody_is_reached_out_of_range() {
        let mut hub = hub(&[0.0, 400.0], 10);
        // The station is far away, but its address is known.
        hub.handle_frame(Time::ZERO, 1, &[&frame(1, 0xff)]);
        hub.handle_frame(Time::ZERO, 0, &[&frame(0, 1)]);

        assert_eq!(deliveries(&mut hub, seconds(1)), []);
        let stats: Vec<Stats> = hub.stats().collect();
        assert_eq!((stats[0].given_up, stats[1].delivered), (1, 0));
    }

    #[test]
    fn a_frame_to_an_address_that_nobody_has_shown_goes_to_all() {
        let mut hub = hub(&[0.0, 200.0, 200.0], 10);
        hub.handle_frame(Time::ZERO, 0, &[&frame(0, 1)]);
        let flooded = deliveries(&mut hub, seconds(1));
        hub.handle_frame(seconds(1), 1, &[&frame(1, 0)]);
        hub.handle_frame(seconds(1), 0, &[&frame(0, 1)]);
        let mut told = deliveries(&mut hub, seconds(2));
        told.sort_unstable();
        // Its own address.
        hub.handle_frame(seconds(2), 0, &[&frame(0, 0)]);

        assert_eq!(flooded, [(1, 0), (2, 0)]);
        assert_eq!(told, [(0, 1), (1, 0)]);
        assert_eq!(deliveries(&mut hub, seconds(3)), []);
        let stats = hub.stats().next().unwrap();
        assert_eq!((stats.unknown, stats.own, stats.received), (1, 1, 3));
    }

    #[test]
    fn waking_late_does_not_slow_the_channel() {
        let mut hub = hub(&[0.0, 200.0], 10);
        hub.handle_frame(Time::ZERO, 1, &[&frame(1, 0xff)]);
        deliveries(&mut hub, seconds(1));
        let begin = seconds(1);
        for _ in 0..5 {
            hub.handle_frame(begin, 0, &[&frame(0, 1)]);
        }

        // Nobody looks for as long as the five take with the longest back-offs.
        let longest = (EXCHANGE + Duration::from_micros(50 + 31 * 20)) * 5;
        hub.handle_timeout(begin + longest);

        assert_eq!(hub.stats().map(|it| it.delivered).collect::<Vec<_>>(), [1, 5]);
        let lateness = hub.take_lateness();
        assert!(lateness.longest > EXCHANGE && lateness.mean() <= lateness.longest);
        assert_eq!(hub.take_lateness(), Lateness::default());
    }

    #[test]
    fn a_full_queue_drops_the_newest_and_every_frame_is_counted_once() {
        let mut hub = hub(&[0.0, 200.0], 3);
        hub.handle_frame(Time::ZERO, 1, &[&frame(1, 0xff)]);
        deliveries(&mut hub, seconds(1));
        for _ in 0..10 {
            hub.handle_frame(seconds(1), 0, &[&frame(0, 1)]);
        }
        deliveries(&mut hub, seconds(2));

        let stats: Vec<Stats> = hub.stats().collect();
        // One frame is with the MAC and three wait.
        assert_eq!((stats[0].received, stats[0].queue_full, stats[1].delivered), (10, 6, 4));
        assert_eq!(hub.frames.count(), 0, "no MAC keeps a frame");
    }

    #[test]
    fn messages_of_routing_protocols_go_first_and_find_room_where_that_is_asked_for() {
        for is_routing_first in [false, true] {
            let mut hub = hub(&[0.0, 200.0], 3);
            if is_routing_first {
                hub.send_routing_first();
            }
            for _ in 0..5 {
                hub.handle_frame(Time::ZERO, 0, &[&frame(0, 0xff)]);
            }
            hub.handle_frame(Time::ZERO, 0, &[&hello(0)]);

            hub.handle_timeout(seconds(1));
            let lens: Vec<usize> =
                std::iter::from_fn(|| hub.poll_transmit()).map(|(_, frame)| frame.len()).collect();

            // One frame is with the MAC, and three wait.
            let expected =
                if is_routing_first { vec![LEN, hello(0).len(), LEN, LEN] } else { vec![LEN; 4] };
            assert_eq!(lens, expected);
            assert_eq!(hub.stats().next().unwrap().queue_full, 2);
            assert_eq!(hub.frames.count(), 0);
        }
    }

    #[test]
    fn a_station_that_is_switched_off_is_gone_until_it_is_on_again() {
        let mut hub = hub(&[0.0, 200.0], 10);
        hub.handle_frame(Time::ZERO, 1, &[&frame(1, 0xff)]);
        hub.plan([(seconds(9), 1, true), (seconds(5), 1, false)]);
        // One frame is on the air and two wait when the station goes off.
        for _ in 0..3 {
            hub.handle_frame(seconds(5) - Duration::from_millis(1), 1, &[&frame(1, 0)]);
        }
        deliveries(&mut hub, seconds(6));
        hub.handle_frame(seconds(6), 0, &[&frame(0, 1)]);
        hub.handle_frame(seconds(6), 1, &[&frame(1, 0)]);
        let while_off = deliveries(&mut hub, seconds(10));
        hub.handle_frame(seconds(10), 0, &[&frame(0, 1)]);

        assert_eq!(while_off, []);
        assert_eq!(deliveries(&mut hub, seconds(11)), [(1, 0)]);
        let stats: Vec<Stats> = hub.stats().collect();
        assert_eq!((stats[0].given_up, stats[1].off), (1, 4));
    }

    #[test]
    fn frames_too_short_for_addresses_are_broadcast_and_do_no_harm() {
        let mut hub = hub(&[0.0, 200.0], 10);
        for len in 0..20 {
            hub.handle_frame(seconds(len), 0, &[&vec![2; usize::try_from(len).unwrap()]]);
        }
        hub.handle_timeout(seconds(30));

        let lens: Vec<usize> =
            std::iter::from_fn(|| hub.poll_transmit()).map(|(_, frame)| frame.len()).collect();
        // Frames of 12 octets or more are from and to the same address, and so not delivered.
        assert_eq!(lens, (0..12).collect::<Vec<_>>());
    }

    fn hub(places: &[f64], queue: usize) -> RadioHub {
        let motions =
            places.iter().map(|x| (x.to_string(), Motion::at_rest(Position::new(*x, 0.0))));
        RadioHub::new(Config::default(), motions, queue, 1)
    }

    /// From a station to another; 0xff is all.
    fn frame(from: u8, to: u8) -> Vec<u8> {
        let mac = |station| if station == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, station] };
        let mut frame = [mac(to), mac(from)].concat();
        frame.extend_from_slice(&[0x08, 0x00]);
        frame.resize(LEN, from);
        frame
    }

    /// A message of OLSR from a station to all.
    fn hello(from: u8) -> Vec<u8> {
        let mut frame = frame(from, 0xff);
        frame.truncate(HEADER);
        let [own, all] = [[10, 0, 0, 1], [255; 4]].map(std::net::IpAddr::from);
        // From and to port 698.
        let datagram = [2, 186, 2, 186, 0, 28, 0, 0].into_iter().chain([0; 20]);
        Spec::new(own, all, protocol::UDP).emit(28, &mut frame);
        frame.extend(datagram);
        frame
    }

    /// Receivers and senders of the frames delivered until then.
    fn deliveries(hub: &mut RadioHub, until: Time) -> Vec<(usize, u8)> {
        hub.handle_timeout(until);
        std::iter::from_fn(|| hub.poll_transmit()).map(|(to, frame)| (to, frame[11])).collect()
    }

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }
}
