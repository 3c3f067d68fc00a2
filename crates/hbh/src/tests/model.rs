//! Tests one flow over hostile hops against invariants.
//!
//! Links lose packets, copy them and bring them late. Nodes restart, and their neighbours notice or
//! do not; neighbours lose each other, and routes change, so that packets are handed back and in
//! again. Then the links are clean, and everything comes to its end.

use std::collections::BTreeMap;

use super::*;

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn whatever_happens_to_it_a_packet_is_delivered_or_counted_and_nothing_waits_for_ever(
        story in story(),
    ) {
        let end = story.play();

        // Without mishaps no packet comes twice. A mishap may bring a packet on its way again: once
        // because the packet was held and is handed in or repeated, once because the packet was in
        // the air.
        let mut times = BTreeMap::new();
        for number in &end.delivered {
            *times.entry(*number).or_insert(0) += 1;
        }
        for (number, times) in &times {
            let mishaps = end.given_before.iter().filter(|&&given| number < &given).count();
            prop_assert!(*times <= 1 + 2 * mishaps, "{number}: {times} times");
        }
        let again = end.delivered.len() - times.len();
        prop_assert!(again as u64 <= end.on_their_way, "{again} of {}", end.on_their_way);

        let undelivered = u64::from(end.taken) - times.len() as u64;
        prop_assert!(undelivered <= end.counted, "{undelivered} missing, {} counted", end.counted);

        if story.mishaps.is_empty() && story.profile == Profile::Default && story.is_tcp {
            prop_assert!(end.is_disturbed || end.delivered.is_sorted(), "{:?}", end.delivered);
        }
        prop_assert_eq!(end.left, 0, "packets are still held after a minute of clean links");
        prop_assert!(end.timers.iter().all(Option::is_none));
    }
}

#[derive(Clone, Debug)]
struct Story {
    profile: Profile,
    is_tcp: bool,
    config: Config,
    slots: Vec<Duration>,
    /// Packets that come before each mishap, and after the last one.
    packets: u32,
    /// The fates of transmissions, in turn.
    fates: Vec<Fate>,
    mishaps: Vec<(Duration, Mishap)>,
}

#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// A node loses its state.
    Restart { node: usize, is_noticed: bool },
    /// A node loses the next or the previous node, and finds the neighbour again.
    Parting { node: usize, is_next: bool },
    /// The route to the next node changes, and changes back.
    Reroute { node: usize },
}

/// How a story ends.
#[derive(Default)]
struct End {
    /// Packets accepted by A, numbered from zero.
    taken: u32,
    /// The numbers that arrived, in their order.
    delivered: Vec<u32>,
    /// Packets taken before each mishap.
    given_before: Vec<u32>,
    /// Packets that nodes held, and that were in the air, at all mishaps.
    on_their_way: u64,
    /// Packets that were given up, had waited for too long, were refused inside, or were in a node
    /// that restarted.
    counted: u64,
    /// Whether order may be broken: a gap was waited for in vain, or a packet given up.
    is_disturbed: bool,
    left: u64,
    timers: Vec<Option<Time>>,
}

impl Story {
    fn play(&self) -> End {
        let mut line = Line::new(&vec![self.config; self.slots.len() + 1], &self.slots);
        let mut end = End::default();
        let fate = |sent: &Sent| self.fates[sent.number % self.fates.len()];

        if self.is_tcp {
            // The last hop learns from it where the order begins.
            line.give(&segment(u32::MAX, 0, SYN));
            line.run_for(Duration::from_secs(2), |_| Fate::ARRIVES);
            assert_eq!(std::mem::take(&mut line.delivered).len(), 1);
        }

        for &(pause, mishap) in &self.mishaps {
            self.give(&mut line, &mut end);
            line.run_for(pause, fate);
            end.given_before.push(end.taken);
            end.on_their_way += line.on_their_way();
            mishap.strike(&mut line, &mut end);
        }
        self.give(&mut line, &mut end);
        line.run_for(Duration::from_millis(500), fate);

        line.run_for(Duration::from_secs(60), |_| Fate::ARRIVES);
        end.left = line.relays.iter().map(|relay| relay.stats().packets_held).sum();
        line.run(|_| Fate::ARRIVES);
        end.timers = line.relays.iter().map(Relay::next_timeout).collect();
        for node in 0..line.relays.len() {
            end.count(&line.relays[node].stats());
        }
        end.counted += line.refused;
        let number =
            |packet: &Vec<u8>| if self.is_tcp { seq_of(packet) / LEN } else { number_of(packet) };
        end.delivered = line.delivered.iter().map(number).collect();
        end
    }

    fn give(&self, line: &mut Line, end: &mut End) {
        for _ in 0..self.packets {
            let packet = if self.is_tcp {
                segment(end.taken * LEN, LEN as usize, ACK)
            } else {
                datagram("10.0.0.1:1", "10.9.0.2:2", end.taken)
            };
            let taken = line.relays[A].handle_packet(line.now, Peer(1), &packet);
            end.taken += u32::from(taken.is_ok());
        }
    }
}

/// Octets of a segment.
const LEN: u32 = 100;

impl Mishap {
    fn strike(self, line: &mut Line, end: &mut End) {
        let last = line.slots.len();
        match self {
            Self::Restart { node, is_noticed } => {
                let node = node.min(last);
                end.count(&line.relays[node].stats());
                end.counted += line.held(node);
                line.restart(node, is_noticed);
            }
            Self::Parting { node, is_next: true } => {
                line.meet_again(node.min(last - 1), node.min(last - 1) + 1);
            }
            Self::Parting { node, is_next: false } => {
                line.meet_again(node.clamp(1, last), node.clamp(1, last) - 1);
            }
            Self::Reroute { node } => line.reroute(node.min(last - 1), node.min(last - 1) + 1),
        }
    }
}

impl End {
    fn count(&mut self, stats: &Stats) {
        let sent = &stats.sent;
        let given_up = sent.packets_abandoned + sent.packets_expired + sent.packets_thinned;
        self.counted += given_up;
        self.is_disturbed |= given_up + stats.received.gaps_given_up > 0;
    }
}

fn story() -> impl Strategy<Value = Story> {
    let mishap = prop_oneof![
        (0..3_usize, any::<bool>())
            .prop_map(|(node, is_noticed)| Mishap::Restart { node, is_noticed }),
        (0..3_usize, any::<bool>()).prop_map(|(node, is_next)| Mishap::Parting { node, is_next }),
        (0..2_usize).prop_map(|node| Mishap::Reroute { node }),
    ];
    let mishaps =
        prop::collection::vec(((0..1_500_u64).prop_map(Duration::from_millis), mishap), 0..4);
    let fate = prop_oneof![
        3 => Just(Fate::LOST),
        1 => (0..80_u64).prop_map(|ms| Fate { copies: 2, late: Duration::from_millis(ms) }),
        1 => (0..80_u64).prop_map(|ms| Fate { copies: 1, late: Duration::from_millis(ms) }),
        6 => Just(Fate::ARRIVES),
    ];
    let slots = prop::collection::vec(prop_oneof![Just(SLOT), Just(SLOT * 4)], 1..3);
    let fates = prop::collection::vec(fate, 1..200);
    let kinds = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (kinds, slots, 1..40_u32, fates, mishaps).prop_map(
        |((is_paper, is_tcp, is_small, has_few_tries), slots, packets, fates, mishaps)| {
            let profile = if is_paper { Profile::Paper } else { Profile::Default };
            let mut config = Config::new(profile);
            config.rto.maximum = Duration::from_secs(2);
            if is_small {
                config =
                    Config { congestion: 6, clear: 3, queue: 12, packets: 50, flows: 4, ..config };
            }
            if has_few_tries {
                config.retries = 2;
            }
            Story { profile, is_tcp, config, slots, packets, fates, mishaps }
        },
    )
}
