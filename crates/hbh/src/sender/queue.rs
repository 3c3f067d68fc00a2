//! The waiting packets of a flow (outputQ).

use std::collections::VecDeque;
use std::time::Duration;

use base::tcp::Peek;
use base::time::Time;

use super::super::config::{Config, Profile};
use super::super::packet::Packet;
use super::search::Search;

/// For how long a burst may fill a queue beyond L.
const BURST_TIME: Duration = Duration::from_millis(20);
/// What leaves within this time may wait: TCP fills a path whose round trip is as long only with such a queue. On a link
/// of 5 Mbit/s L packets take as long.
const DRAIN_TIME: Duration = Duration::from_millis(250);
/// How many times L it may fill at most.
const BURST: usize = 20;
/// To drop a packet, so many are looked at.
const LOOKS: usize = 64;
/// Octets of a packet that counts once against L; longer packets count for more.
const PACKET: usize = 800;

#[derive(Debug)]
pub struct Queue {
    packets: VecDeque<Packet>,
    octets: usize,
    /// Packets that have left.
    popped: u64,
    search: Search,
    /// When there was room last.
    calm_at: Time,
}

impl Queue {
    pub fn new(now: Time) -> Self {
        Self {
            packets: VecDeque::new(),
            octets: 0,
            popped: 0,
            search: Search::default(),
            calm_at: now,
        }
    }

    /// Whether a packet that enters here may wait, when `throughput` bit/s go out.
    ///
    /// L packets may. In our profile a packet of more than 800 octets counts for more than one, so
    /// that a queue is not longer in time where packets are long. And more than L may wait on a link
    /// so fast that they are soon gone: L fits slow links, where a train of segments from a gigabit
    /// host would never fit twice.
    pub fn has_room(&mut self, now: Time, throughput: f64, config: &Config) -> bool {
        if config.profile == Profile::Paper {
            return self.len() < config.queue;
        }
        if self.len() < config.queue && self.octets < config.queue * PACKET {
            self.calm_at = now;
            return true;
        }
        let bits = self.octets as f64 * 8.0;
        self.len() < config.queue * BURST
            && (now.since(self.calm_at) < BURST_TIME
                || bits < throughput * DRAIN_TIME.as_secs_f64())
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn front(&self) -> Option<&Packet> {
        self.packets.front()
    }

    pub fn front_mut(&mut self) -> Option<&mut Packet> {
        self.packets.front_mut()
    }

    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter()
    }

    pub fn octets(&self) -> usize {
        self.octets
    }

    pub fn push(&mut self, packet: Packet) {
        self.octets += packet.octets.len();
        self.packets.push_back(packet);
    }

    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.octets -= packet.octets.len();
        self.popped += 1;
        Some(packet)
    }

    /// Takes out the packet that makes room for another: the first, but no repeated segment where there is a choice. If
    /// a repeat were dropped too, only TCP's timer would send the segment again, and it doubles each time.
    pub fn thin(&mut self) -> Option<Packet> {
        let fresh = self.packets.iter().take(LOOKS).position(|packet| !packet.is_repeated);
        let packet = self.packets.remove(fresh.unwrap_or(0))?;
        self.octets -= packet.octets.len();
        self.popped += 1;
        Some(packet)
    }

    /// Whether a packet is selected by `is_it`; if the packet is the last one, puts `octets` in its place. The packet is
    /// repeated from now on.
    ///
    /// A packet in front of others stays: `octets` have a newer timestamp, after which TCP discards all older ones
    /// (RFC 7323, 5.3).
    pub fn renew(
        &mut self,
        is_it: impl Fn(&Packet) -> bool,
        octets: &[u8],
        header_len: usize,
    ) -> bool {
        let packets = &mut self.packets;
        let places = (self.popped, packets.len());
        let Some(index) = self.search.find(places, |index| is_it(&packets[index])) else {
            return false;
        };
        packets[index].is_repeated = true;
        if index + 1 == packets.len() {
            self.put(index, octets, header_len);
        }
        true
    }

    /// Puts a packet in place of the last one if `is_it` selects that one; returns whether it does.
    pub fn replace_last(
        &mut self,
        is_it: impl Fn(&Packet) -> bool,
        (octets, header_len, tcp): (&[u8], usize, Peek),
    ) -> bool {
        if !self.packets.back().is_some_and(is_it) {
            return false;
        }
        let last = self.packets.len() - 1;
        self.put(last, octets, header_len);
        self.packets[last].tcp = Some(tcp);
        true
    }

    fn put(&mut self, index: usize, octets: &[u8], header_len: usize) {
        let packet = &mut self.packets[index];
        self.octets = self.octets - packet.octets.len() + octets.len();
        packet.octets.clear();
        packet.octets.extend_from_slice(octets);
        packet.header_len = header_len;
    }
}

#[cfg(test)]
mod tests {
    use base::ip::protocol;

    use super::*;

    const SLOW: f64 = 100e3;
    const FAST: f64 = 1e9;

    #[test]
    fn it_takes_l_packets_or_800_octets_for_each_of_them() {
        for (profile, len, takes) in [
            (Profile::Default, 800, 200),
            (Profile::Default, 100, 200),
            (Profile::Default, 1_500, 107),
            (Profile::Paper, 1_500, 200),
        ] {
            let config = Config { queue: 200, ..Config::new(profile) };

            assert_eq!(filled(len, SLOW, &config), takes, "{profile:?}, {len}");
        }
    }

    #[test]
    fn it_takes_more_where_that_is_gone_in_a_quarter_of_a_second() {
        let config = Config::new(Profile::Default);

        // 250 ms at 24 Mbit/s, and at most 20 L.
        assert_eq!(filled(1_250, 24e6, &config), 600);
        assert_eq!(filled(1_250, FAST, &config), 4_000);
    }

    #[test]
    fn a_burst_may_pass_l_for_a_short_time() {
        let config = Config { queue: 10, ..Config::new(Profile::Default) };
        let mut queue = Queue::new(Time::ZERO);

        while queue.has_room(Time::ZERO, SLOW, &config) {
            queue.push(packet(100));
        }

        assert_eq!(queue.len(), 10 * BURST);
        assert!(!queue.has_room(Time::ZERO + BURST_TIME, SLOW, &config));
    }

    #[test]
    fn a_repeated_segment_gives_way_only_where_all_are_repeated() {
        let mut queue = Queue::new(Time::ZERO);
        for (len, is_repeated) in [(1, true), (2, true), (3, false), (4, false)] {
            queue.push(Packet { is_repeated, ..packet(len) });
        }

        let order: Vec<usize> =
            std::iter::from_fn(|| queue.thin()).map(|packet| packet.octets.len()).collect();

        assert_eq!((order, queue.octets()), (vec![3, 4, 1, 2], 0));
    }

    #[test]
    fn what_leaves_or_is_replaced_makes_room() {
        let config = Config { queue: 10, ..Config::new(Profile::Default) };
        let late = Time::ZERO + BURST_TIME;
        let mut queue = Queue::new(Time::ZERO);
        queue.push(packet(7_000));
        queue.push(packet(1_000));
        assert!(!queue.has_room(late, SLOW, &config));

        assert!(queue.renew(|it| it.octets.len() == 1_000, &[0; 999], 20));
        assert!(queue.has_room(late, SLOW, &config));
        queue.push(packet(1));
        assert!(!queue.has_room(late + BURST_TIME, SLOW, &config));
        queue.pop();
        assert!(queue.has_room(late + BURST_TIME, SLOW, &config));
    }

    /// How many packets of `len` octets it takes, one now and then, while `rate` bit/s go out.
    fn filled(len: usize, rate: f64, config: &Config) -> usize {
        let mut queue = Queue::new(Time::ZERO);
        let mut now = Time::ZERO;
        while queue.has_room(now, rate, config) {
            queue.push(packet(len));
            now += BURST_TIME;
        }
        queue.len()
    }

    fn packet(len: usize) -> Packet {
        Packet {
            octets: vec![0; len],
            header_len: 20,
            protocol: protocol::UDP,
            taken_at: Time::ZERO,
            tcp: None,
            has_hole: false,
            is_repeated: false,
        }
    }
}
