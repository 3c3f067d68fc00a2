//! Nodes whose drivers store what they should, killed at any moment, over air that does anything to datagrams.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::rng::Rng;
use proptest::prelude::*;

use super::bench::{Fate, GROUP, Net, PORTS, address, rng};
use crate::{
    Config, Message, MessageId, Options, Outcome, Precedence, Profile, Remembered, Resume, Sar,
};

const NODES: usize = 3;

/// What happens in turn.
#[derive(Clone, Copy, Debug)]
enum Step {
    Restart(usize),
    Steps(usize),
    Submit { from: usize, octets: usize, to: usize, level: u8, in_group: bool, lasts: bool },
}

/// What the drivers store, and what must hold.
struct Bench {
    net: Net,
    config: Config,
    /// By key of the message: what was accepted and has no outcome yet, for which destinations.
    stored: BTreeMap<(usize, u64, IpAddr), Stored>,
    /// The messages of the processes that live now.
    keys: BTreeMap<(usize, MessageId), u64>,
    next_serial: [u16; NODES],
    received: [Vec<Remembered>; NODES],
    /// Messages by destination.
    delivered: BTreeSet<(IpAddr, u64)>,
    outcomes: BTreeMap<(u64, IpAddr), Outcome>,
    count: u64,
    processes: usize,
}

#[derive(Clone, Debug)]
struct Stored {
    data: Arc<[u8]>,
    options: Options,
    /// All destinations of its transfer.
    to: Vec<IpAddr>,
}

impl Bench {
    fn new(config: Config, seed: u64, (lost, doubled, late): (f64, f64, f64)) -> Self {
        let mut air = Rng::stream(seed, "air");
        let net = Net::new(NODES, config).with_delay(Duration::from_millis(300)).with_air(
            move |_, _, _| match air.uniform() {
                draw if draw < lost => Fate::Lost,
                draw if draw < lost + doubled => Fate::Twice,
                draw if draw < lost + doubled + late => {
                    Fate::Delayed(air.within(Duration::from_secs(4)))
                }
                _ => Fate::Arrives,
            },
        );
        Self {
            net,
            config,
            stored: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_serial: [100; NODES],
            received: Default::default(),
            delivered: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            count: 0,
            processes: NODES,
        }
    }

    fn act(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Restart(node) => self.restart(node),
            Step::Steps(most) => {
                for _ in 0..most {
                    let Some(due) = self.net.next() else { break };
                    self.net.step(due);
                    self.store()?;
                }
            }
            Step::Submit { from, octets, to, level, in_group, lasts } => {
                let others: Vec<IpAddr> =
                    (0..NODES).filter(|node| *node != from).map(address).collect();
                let to = match to {
                    0 => others,
                    one => vec![others[one - 1]],
                };
                self.count += 1;
                let key = self.count.to_be_bytes();
                let data: Arc<[u8]> = key.into_iter().chain((0..octets).map(pattern)).collect();
                let options = Options {
                    precedence: Precedence::new(level),
                    via: (in_group && to.len() > 1).then_some(GROUP),
                    lifetime: lasts.then_some(Duration::from_secs(900)),
                    ..Options::default()
                };
                self.submit(from, self.count, &Stored { data, options, to });
            }
        }
        self.net.exchange();
        self.store()
    }

    fn submit(&mut self, from: usize, key: u64, stored: &Stored) {
        let message = Message { ports: PORTS, data: stored.data.clone() };
        let now = self.net.now;
        let id = self.net.nodes[from].submit(now, &message, &stored.to, stored.options);
        let id = id.expect("the message is taken");
        self.keys.insert((from, id), key);
        for to in &stored.to {
            self.stored.insert((from, key, *to), stored.clone());
        }
    }

    /// Stores what the processes told.
    fn store(&mut self) -> Result<(), TestCaseError> {
        for (node, id, destination, resume) in std::mem::take(&mut self.net.started) {
            let key = self.keys[&(node, id)];
            self.next_serial[node] = self.next_serial[node].max(resume.serial + 1);
            for ((_, _, to), stored) in self.stored.range_mut((node, key, LEAST)..) {
                if destination.is_none_or(|it| it == *to) && stored.data[..8] == key.to_be_bytes() {
                    stored.options.resume = Some(resume);
                }
            }
        }
        for (node, id, destination, outcome) in std::mem::take(&mut self.net.outcomes) {
            let key = self.keys[&(node, id)];
            let old = self.outcomes.insert((key, destination), outcome);
            prop_assert_eq!(old, None, "a second outcome of {} for {}", key, destination);
            let stored = self.stored.remove(&(node, key, destination));
            prop_assert!(stored.is_some(), "an outcome of what was not submitted");
        }
        for (node, delivered) in std::mem::take(&mut self.net.delivered) {
            let key = u64::from_be_bytes(*delivered.data.first_chunk().expect("a key"));
            let octets = delivered.data.len() - 8;
            let is_whole = (0..octets).all(|at| delivered.data[8 + at] == pattern(at));
            prop_assert!(is_whole, "message {key} is not what was sent");
            let is_new = self.delivered.insert((address(node), key));
            prop_assert!(is_new, "message {key} is delivered twice");
            self.received[node].push(delivered.identity);
        }
        Ok(())
    }

    /// Kills a process and starts another one with what its driver has stored.
    fn restart(&mut self, node: usize) {
        self.processes += 1;
        let (now, serial) = (self.net.now, self.next_serial[node]);
        let mut sar = Sar::new(now, self.config, Some(serial), rng(self.processes));
        self.received[node].iter().for_each(|known| sar.remember(now, *known));
        self.net.nodes[node] = sar;
        self.keys.retain(|(of, _), _| *of != node);
        let mut stored: BTreeMap<(u64, Option<u16>), Stored> = BTreeMap::new();
        for ((of, key, to), it) in &self.stored {
            if *of == node {
                let serial = it.options.resume.map(|Resume { serial, .. }| serial);
                let one = Stored { to: Vec::new(), ..it.clone() };
                stored.entry((*key, serial)).or_insert(one).to.push(*to);
            }
        }
        for ((key, _), it) in stored {
            self.submit(node, key, &it);
        }
    }
}

fn pattern(at: usize) -> u8 {
    (at * 31).to_le_bytes()[0]
}

const LEAST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

fn step() -> impl Strategy<Value = Step> {
    let flags = any::<(bool, bool)>();
    let submit = (0..NODES, 0_usize..1_500, 0_usize..3, 0_u8..6, flags).prop_map(
        |(from, octets, to, level, (in_group, lasts))| Step::Submit {
            from,
            octets,
            to,
            level,
            in_group,
            lasts,
        },
    );
    prop_oneof![
        3 => submit,
        1 => (0..NODES).prop_map(Step::Restart),
        4 => (1_usize..30).prop_map(Step::Steps),
    ]
}

fn config(profile: Profile) -> Config {
    let mut config = Config::of(profile);
    config.segment = 100;
    config.coding = true;
    config.times.round_trip = Duration::from_secs(2);
    config.times.gap = Duration::from_secs(2);
    config
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn each_message_has_one_outcome_and_is_delivered_whole_and_once(
        steps in prop::collection::vec(step(), 1..40),
        profile in 0_usize..5,
        (lost, doubled, late) in (0.0..0.4, 0.0..0.2, 0.0..0.3),
        seed: u64,
    ) {
        let config = config(Profile::NAMES[profile].1);
        let mut bench = Bench::new(config, seed, (lost, doubled, late));

        for step in steps {
            bench.act(step)?;
        }
        bench.act(Step::Steps(100_000))?;

        prop_assert!(bench.stored.is_empty(), "without an outcome: {:?}", bench.stored.keys());
        for ((key, to), outcome) in &bench.outcomes {
            let is_there = bench.delivered.contains(&(*to, *key));
            let is_told = *outcome == Outcome::Delivered;
            prop_assert!(is_there || !is_told, "message {key} is said to be delivered to {to}");
        }
        for node in &bench.net.nodes {
            let levels = node.stats().levels;
            let left = (levels.waiting, levels.transfers, levels.in_flight, levels.answers);
            prop_assert_eq!(left, (0, 0, 0, 0));
            prop_assert_eq!((levels.reassemblies, levels.reassembly_octets), (0, 0));
        }
    }
}
