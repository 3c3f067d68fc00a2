//! Whatever the link loses, repeats or reorders, and whoever restarts: a datagram reaches the target that it is for, an
//! answer the client that asked, and both go through again as soon as the link carries something.

use base::rng::Rng;
use base::time::Time;
use proptest::prelude::*;

use super::exchange::{NODES, client};
use crate::hfpep::flows::{Arrived, Client, Config, FlowId, Flows, Outgoing};
use crate::slep::{Delivery, Reason};

const CLIENTS: u16 = 4;
const MOST: usize = 100;
/// Few, so that there are too many, or more than there are.
const FLOWS: [usize; 2] = [5, 200];

#[derive(Clone, Debug)]
enum Step {
    /// A target answers the last datagram of its nth flow.
    Answer(usize, usize),
    /// One that is under way arrives, and perhaps stays under way as well.
    Arrive(usize, bool),
    Lose(usize),
    Refuse(usize, usize),
    Restart(usize),
    Send(usize, u16),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let end = || 0_usize..2;
    prop_oneof![
        6 => (end(), 0_usize..4).prop_map(|(end, which)| Step::Answer(end, which)),
        16 => (0_usize..5, prop::bool::weighted(0.2)).prop_map(|(which, stays)| Step::Arrive(which, stays)),
        2 => (0_usize..5).prop_map(Step::Lose),
        1 => (end(), 0_usize..4).prop_map(|(end, which)| Step::Refuse(end, which)),
        1 => end().prop_map(Step::Restart),
        10 => (end(), 0..CLIENTS).prop_map(|(end, port)| Step::Send(end, port)),
        1 => (0_u64..400).prop_map(Step::Wait),
    ]
}

/// Both ends may open flows, and have clients and targets.
#[derive(Debug)]
struct Link {
    now: Time,
    most: usize,
    ends: [Flows; 2],
    processes: u64,
    /// From which end, and what.
    air: Vec<(usize, Outgoing)>,
    /// The flows of each responder, and the last datagram of each.
    asked: [Vec<(FlowId, Vec<u8>)>; 2],
    counted: u32,
    /// Whose answers have come, as they were asked.
    answered: Vec<Vec<u8>>,
}

fn flows(seed: u64, flows: usize) -> Flows {
    let config = Config { flows, ..Config::default() };
    Flows::new(config, &mut Rng::stream(seed, "flows"))
}

/// A client of an end: the same addresses at both, so that a mix-up shows by nothing but its datagrams.
fn client_of(end: usize, port: u16) -> Client {
    Client { peer: NODES[1 - end], ..client(port) }
}

impl Link {
    fn new(most: usize) -> Self {
        Self {
            now: Time::ZERO,
            most,
            ends: [flows(0, most), flows(1, most)],
            processes: 2,
            air: Vec::new(),
            asked: [Vec::new(), Vec::new()],
            counted: 0,
            answered: Vec::new(),
        }
    }

    /// A datagram that says which client of which process has sent it, and a number that none has twice.
    fn send(&mut self, end: usize, port: u16) -> Vec<u8> {
        self.counted += 1;
        let mut data = vec![u8::try_from(end).unwrap(), port.to_le_bytes()[0]];
        data.extend_from_slice(&self.counted.to_le_bytes());
        let client = client_of(end, port);
        let _ = self.ends[end].send(self.now, client, Delivery::default(), MOST, &data);
        self.collect();
        data
    }

    fn collect(&mut self) {
        for (at, end) in self.ends.iter_mut().enumerate() {
            self.air.extend(std::iter::from_fn(|| end.poll()).map(|it| (at, it)));
            for ended in std::iter::from_fn(|| end.poll_ended()) {
                self.asked[at].retain(|(flow, _)| *flow != ended);
            }
        }
    }

    fn arrive(&mut self, which: usize, stays: bool) -> Result<(), TestCaseError> {
        if self.air.is_empty() {
            return Ok(());
        }
        let which = which % self.air.len();
        let (from, message) =
            if stays { self.air[which].clone() } else { self.air.swap_remove(which) };
        let to = 1 - from;
        prop_assert_eq!(message.flow.peer, NODES[to]);
        match self.ends[to].handle_message(self.now, NODES[from], &message.octets) {
            Some(Arrived::Answer { client, data }) => {
                let [end, port, ..] = data[..] else { panic!() };
                prop_assert_eq!(client, client_of(end.into(), port.into()), "another client's");
                prop_assert_eq!(usize::from(end), to);
                self.answered.push(data);
            }
            Some(Arrived::Request { flow, from: peer, opening, data }) => {
                let [end, port, ..] = data[..] else { panic!() };
                let client = client_of(end.into(), port.into());
                prop_assert_eq!((usize::from(end), peer), (from, NODES[from]));
                let ends = (client.address, client.target);
                prop_assert_eq!((opening.source, opening.destination), ends, "another's target");
                self.asked[to].retain(|(known, _)| *known != flow);
                self.asked[to].push((flow, data));
            }
            None => {}
        }
        self.collect();
        Ok(())
    }

    fn act(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Answer(end, which) => {
                if let Some((flow, data)) = self.asked[end].get(which) {
                    let known = self.ends[end].answer(self.now, *flow, MOST, data);
                    prop_assert_eq!(known, Ok(()), "a flow ended and nobody was told");
                }
                self.collect();
            }
            Step::Arrive(which, stays) => self.arrive(which, stays)?,
            Step::Lose(which) => {
                if which < self.air.len() {
                    self.air.remove(which);
                }
            }
            Step::Refuse(end, which) => {
                if which < self.asked[end].len() {
                    let (flow, _) = self.asked[end].remove(which);
                    self.ends[end].refuse(flow, Reason::BLOCKED);
                }
                self.collect();
            }
            Step::Restart(end) => {
                self.processes += 1;
                self.ends[end] = flows(self.processes, self.most);
                self.asked[end].clear();
            }
            Step::Send(end, port) => drop(self.send(end, port)),
            Step::Wait(seconds) => {
                self.now += std::time::Duration::from_secs(seconds);
                for end in &mut self.ends {
                    end.handle_timeout(self.now);
                    let due = end.next_timeout();
                    prop_assert!(due.is_none_or(|due| due > self.now), "it spins");
                }
                self.collect();
            }
        }
        for end in &self.ends {
            let stats = end.stats();
            prop_assert!(
                stats.opened_here.max(stats.opened_there) <= self.most as u64,
                "{stats:?}"
            );
        }
        Ok(())
    }

    /// All that is under way arrives, until nothing is.
    fn deliver(&mut self) -> Result<(), TestCaseError> {
        for turn in 0.. {
            prop_assert!(turn < 1_000, "messages without end: {:?}", self.air);
            if self.air.is_empty() {
                break;
            }
            self.arrive(0, false)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn datagrams_and_answers_reach_whom_they_are_for_and_both_ends_recover(
        has_refusals in any::<bool>(),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut link = Link::new(FLOWS[usize::from(!has_refusals)]);
        for step in &steps {
            if has_refusals || !matches!(step, Step::Refuse(..)) {
                link.act(step)?;
            }
        }
        link.deliver()?;
        if has_refusals {
            // What was refused, or has no room, is forgotten by and by.
            link.act(&Step::Wait(421))?;
        }
        for end in [0, 1] {
            for port in 0..CLIENTS {
                let data = link.send(end, port);
                link.deliver()?;
                let which = link.asked[1 - end].iter().position(|(_, asked)| *asked == data);
                prop_assert!(which.is_some(), "lost: {:?}", link);
                link.act(&Step::Answer(1 - end, which.unwrap_or_default()))?;
                link.deliver()?;
                prop_assert!(link.answered.contains(&data), "no answer: {:?}", link);
            }
        }
    }

    #[test]
    fn a_restart_costs_no_datagram_that_the_new_process_gets(
        restarted in 0_usize..2,
        has_answered in any::<bool>(),
        sent in 1_usize..4,
    ) {
        let mut link = Link::new(FLOWS[1]);
        for _ in 0..sent {
            link.send(0, 1);
            link.deliver()?;
        }
        if has_answered {
            link.act(&Step::Answer(1, 0))?;
            link.deliver()?;
        }
        link.act(&Step::Restart(restarted))?;

        let data = link.send(0, 1);
        link.deliver()?;

        prop_assert_eq!(link.asked[1].iter().filter(|(_, asked)| *asked == data).count(), 1);
    }

    #[test]
    fn any_octets_are_survived_in_bounded_memory(
        strays in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60),
    ) {
        let mut flows = flows(0, FLOWS[0]);
        for stray in &strays {
            let _ = flows.handle_message(Time::ZERO, NODES[1], stray);
            while flows.poll().is_some() {}
        }
        prop_assert!(flows.stats().opened_there <= FLOWS[0] as u64);
    }
}
