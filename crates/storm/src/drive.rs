//! Runs a course: simulates time, media, clocks and faults, and checks the contract of every core.
//!
//! ```text
//!  Course ─▶ event, arrival or deadline ─▶ Cores ─▶ channel of sim ─▶ arrivals
//!                    each instant: contract of time, bounds, invariants of the service
//!  then calm: everything accepted concludes within the bound of the service
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::quantity::{BitRate, Probability};
use base::rng::Rng;
use base::time::{Time, earliest};
use sim::channel::{self, Channel, GilbertElliott, Loss};

use crate::course::{Course, Event, Medium, choice};

/// Polling beyond this number within an instant counts as endless.
const MOST_POLLS: usize = 20_000;
/// Instants of a run; more count as spinning.
const MOST_INSTANTS: usize = 2_000_000;
/// Datagrams recorded for replays.
const RECORDED: usize = 200;
/// The longest delay of a second copy.
const COPY: Duration = Duration::from_secs(60);

/// The message of a broken rule; the part before the colon names the rule.
pub type Kept = Result<(), String>;

/// The receiver and number of a datagram sent by a core.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub(crate) to: To,
    /// The datagram's number, for the report to the sender in [`Cores::told`].
    pub(crate) tag: u64,
}

/// Who receives a datagram.
#[derive(Clone, Copy, Debug)]
pub enum To {
    /// Every other node that the medium connects to the sender.
    Everyone,
    /// One node.
    One(usize),
}

/// The cores of a service on several nodes, and the judge of their behaviour.
pub trait Cores {
    /// How long everything accepted may take after the faults have ended.
    const CALM: Duration;
    /// Whether a medium may bring a datagram twice and late, and strangers may send.
    const IS_OPEN: bool;

    fn act(&mut self, now: Time, node: usize, rng: &mut Rng) -> Kept;
    fn arrive(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept;
    /// A stranger, with an address of none of the nodes, sends octets to a node.
    fn forge(&mut self, now: Time, node: usize, octets: &[u8]);
    /// A datagram that was sent to the node before reaches it once more.
    fn replay(&mut self, now: Time, node: usize, from: usize, octets: &[u8]) -> Kept {
        self.arrive(now, node, from, octets)
    }
    /// Tells a node whether its datagram to one node arrives, for media with such reports.
    fn told(&mut self, _now: Time, _node: usize, _tag: u64, _has_arrived: bool) {}
    fn restart(&mut self, now: Time, node: usize, rng: Rng) -> Kept;
    fn handle_timeout(&mut self, now: Time, node: usize);
    fn next_timeout(&self, node: usize) -> Option<Time>;
    /// Takes one output from a core and judges the output; false if the core has none.
    fn poll(&mut self, now: Time, node: usize) -> Result<bool, String>;
    fn poll_transmit(&mut self, now: Time, node: usize, out: &mut Vec<u8>) -> Option<Sent>;
    /// Checks the invariants of every instant.
    fn check(&self, node: usize) -> Kept;
    /// Faults have ended; users make requests that must succeed now.
    fn calm(&mut self, now: Time, node: usize) -> Kept;
    /// Whether every accepted request has concluded.
    fn is_over(&self) -> bool;
    /// Checks the final state, when everything has concluded or the time for concluding is over.
    fn conclude(&self) -> Kept;
}

/// The result of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ran {
    /// The fingerprint of all datagrams: equal for equal courses.
    pub hash: u64,
    /// Instants at which something happened.
    pub instants: usize,
    /// Datagrams sent.
    pub datagrams: u64,
    /// The length of the run in simulated time.
    pub span: Duration,
    /// How many nodes ran.
    pub stations: u32,
    /// The time and message of the broken rule.
    pub broken: Option<(Time, String)>,
}

/// The run in progress.
struct Drive<'a, C> {
    course: &'a Course,
    cores: C,
    now: Time,
    channels: Vec<Vec<Channel>>,
    /// By arrival and number: from, to, octets.
    under_way: BTreeMap<(Time, u64), (usize, usize, Vec<u8>)>,
    count: u64,
    recorded: VecDeque<(usize, usize, Vec<u8>)>,
    stalled: Vec<Time>,
    /// For each node what arrived during its stall, in order: sender and octets.
    inbox: Vec<VecDeque<(usize, Vec<u8>)>>,
    /// Until when nothing passes, from and to.
    parted: BTreeMap<(usize, usize), Time>,
    busy: Vec<Time>,
    /// Whether a node may send before its deadline, after an input or because its bearer was busy.
    is_touched: Vec<bool>,
    skew: Vec<f64>,
    rng: Rng,
    ran: Ran,
    trace: Option<&'a mut dyn FnMut(&str)>,
}

/// Runs a course over cores made for it. `until` ends the run early; events are reported to
/// `trace`.
pub fn run<'a, C: Cores>(
    course: &'a Course,
    cores: C,
    until: Option<Time>,
    trace: Option<&'a mut dyn FnMut(&str)>,
) -> Ran {
    let nodes = course.nodes;
    let channel = |from: usize, to: usize| {
        let rng = Rng::stream(course.seed, &format!("storm link {from} {to}"));
        Channel::new(config(&course.medium), rng)
    };
    let mut rng = Rng::stream(course.seed, "storm drive");
    let mut drive = Drive {
        course,
        cores,
        now: Time::ZERO,
        channels: (0..nodes).map(|from| (0..nodes).map(|to| channel(from, to)).collect()).collect(),
        under_way: BTreeMap::new(),
        count: 0,
        recorded: VecDeque::new(),
        stalled: vec![Time::ZERO; nodes],
        inbox: vec![VecDeque::new(); nodes],
        parted: BTreeMap::new(),
        busy: vec![Time::ZERO; nodes],
        is_touched: vec![true; nodes],
        skew: (0..nodes).map(|_| (rng.uniform() * 2.0 - 1.0) * course.medium.skew).collect(),
        rng,
        ran: Ran { hash: 0xcbf2_9ce4_8422_2325, ..Ran::default() },
        trace,
    };
    let outcome = drive.run(until);
    let Drive { now, mut ran, .. } = drive;
    ran.span = now.since(Time::ZERO);
    ran.stations = u32::try_from(nodes).expect("a few nodes");
    ran.broken = outcome.err().map(|why| (now, why));
    ran
}

fn config(medium: &Medium) -> channel::Config {
    let mean = Probability::new(medium.loss).unwrap_or_default();
    let chain = || GilbertElliott::from_bursts(mean, medium.burst).ok();
    let loss = match (medium.loss > 0.0, medium.burst > 1.0) {
        (false, _) => Loss::None,
        (true, true) => chain().map_or(Loss::Random(mean), Loss::GilbertElliott),
        (true, false) => Loss::Random(mean),
    };
    let delay = Duration::from_secs_f64(medium.delay);
    let rate = base::quantity::whole(medium.rate.floor()).and_then(BitRate::from_bits_per_s);
    channel::Config {
        rate: rate.unwrap_or_default(),
        delay,
        jitter: delay.mul_f64(medium.jitter),
        reorder: medium.reorder,
        loss,
        ..channel::Config::default()
    }
}

impl<C: Cores> Drive<'_, C> {
    fn run(&mut self, until: Option<Time>) -> Kept {
        let end = Time::ZERO + self.course.span;
        let mut events = self.course.events.iter().peekable();
        self.settle()?;
        loop {
            let planned = events.peek().map(|(_, at, _)| *at);
            let next = earliest(planned, self.next()).filter(|next| *next < end);
            let Some(next) = next else { break };
            if until.is_some_and(|until| next > until) {
                return Ok(());
            }
            self.advance(next)?;
            while let Some((place, _, event)) = events.next_if(|(_, at, _)| *at <= self.now) {
                self.say(|| format!("event {place}: {event}"));
                self.happen(*event)?;
            }
            self.settle()?;
        }

        self.now = self.now.max(end);
        self.say(|| "calm".to_owned());
        self.parted.clear();
        self.stalled.fill(self.now);
        for node in 0..self.course.nodes {
            self.open_inbox(node)?;
        }
        for channel in self.channels.iter_mut().flatten() {
            channel.change(config(&self.course.medium.calm()));
        }
        let bound = self.now + C::CALM;
        for node in 0..self.course.nodes {
            let local = self.local(node);
            self.is_touched[node] = true;
            self.cores.calm(local, node)?;
        }
        self.settle()?;
        while !self.cores.is_over() {
            let Some(next) = self.next().filter(|next| *next <= bound) else { break };
            if until.is_some_and(|until| next > until) {
                return Ok(());
            }
            self.advance(next)?;
            self.settle()?;
        }
        self.cores.conclude()
    }

    /// The next due time, apart from planned events.
    fn next(&self) -> Option<Time> {
        let mut next = self.under_way.first_key_value().map(|((at, _), _)| *at);
        for node in 0..self.course.nodes {
            let due = self.cores.next_timeout(node).map(|due| self.true_time(node, due));
            let due = due.map(|due| due.max(self.stalled[node]));
            next = earliest(next, due);
            // Wakes when the bearer has room again, or the node's stall ends.
            for wake in [self.busy[node], self.stalled[node]] {
                next = earliest(next, Some(wake).filter(|wake| *wake > self.now));
            }
        }
        next
    }

    fn advance(&mut self, next: Time) -> Kept {
        self.now = self.now.max(next);
        self.ran.instants += 1;
        if self.ran.instants > MOST_INSTANTS {
            return Err(format!("spins: {MOST_INSTANTS} instants"));
        }
        for to in 0..self.course.nodes {
            self.open_inbox(to)?;
        }
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (from, to, octets) = entry.remove();
            if self.stalled[to] > self.now {
                self.inbox[to].push_back((from, octets));
            } else {
                self.arrive(from, to, &octets)?;
            }
        }
        Ok(())
    }

    /// Hands a node everything that arrived during its stall, if the stall is over.
    fn open_inbox(&mut self, node: usize) -> Kept {
        while self.stalled[node] <= self.now
            && let Some((from, octets)) = self.inbox[node].pop_front()
        {
            self.arrive(from, node, &octets)?;
        }
        Ok(())
    }

    fn arrive(&mut self, from: usize, to: usize, octets: &[u8]) -> Kept {
        self.is_touched[to] = true;
        let local = self.local(to);
        self.cores.arrive(local, to, from, octets)
    }

    fn happen(&mut self, event: Event) -> Kept {
        let node = event.node();
        let local = self.local(node);
        match event {
            Event::Act(_, seed) if self.stalled[node] <= self.now => {
                self.is_touched[node] = true;
                self.cores.act(local, node, &mut Rng::stream(seed, "storm act"))
            }
            Event::Act(..) => Ok(()),
            Event::Forge(_, seed) => {
                if C::IS_OPEN && self.stalled[node] <= self.now {
                    self.is_touched[node] = true;
                    let octets = self.forged(&mut Rng::stream(seed, "storm forge"));
                    self.cores.forge(local, node, &octets);
                }
                Ok(())
            }
            Event::Partition(from, to, span) => {
                self.parted.insert((from, to), self.now + span);
                Ok(())
            }
            Event::Replay(_, seed) => {
                let its: Vec<_> = self.recorded.iter().filter(|(_, to, _)| *to == node).collect();
                if !C::IS_OPEN || its.is_empty() || self.stalled[node] > self.now {
                    return Ok(());
                }
                let (from, _, octets) =
                    its[choice(&mut Rng::stream(seed, "which"), its.len())].clone();
                self.is_touched[node] = true;
                self.cores.replay(local, node, from, &octets)
            }
            Event::Restart(_) => {
                // Both ends of a tunnel restart together.
                self.is_touched.fill(true);
                self.stalled[node] = self.now;
                if C::IS_OPEN {
                    // The socket of a killed process takes its unread datagrams along.
                    self.inbox[node].clear();
                }
                let rng = Rng::stream(self.rng.bits(), "storm restart");
                self.cores.restart(local, node, rng)?;
                self.open_inbox(node)
            }
            Event::Stall(_, span) => {
                // A stall within a longer one changes nothing.
                self.stalled[node] = self.stalled[node].max(self.now + span);
                Ok(())
            }
        }
    }

    /// Random octets, or a recorded datagram with some octets changed.
    fn forged(&self, rng: &mut Rng) -> Vec<u8> {
        let len = choice(rng, 80);
        let low = |bits: u64| bits.to_le_bytes()[0];
        let mut octets: Vec<u8> = (0..len).map(|_| low(rng.bits())).collect();
        if !self.recorded.is_empty() && rng.chance(0.8) {
            octets.clone_from(&self.recorded[choice(rng, self.recorded.len())].2);
            for _ in 0..choice(rng, 4) {
                let at = choice(rng, octets.len());
                if let Some(octet) = octets.get_mut(at) {
                    *octet = low(rng.bits());
                }
            }
        }
        octets
    }

    /// Acts as the drivers of all nodes at this instant, and checks the contract.
    fn settle(&mut self) -> Kept {
        for node in 0..self.course.nodes {
            if self.stalled[node] > self.now {
                continue;
            }
            let local = self.local(node);
            let due = self.cores.next_timeout(node);
            let is_due = due.is_some_and(|due| due <= local);
            let is_announced = is_due || self.is_touched[node];
            self.cores.handle_timeout(local, node);
            self.is_later(node, local)?;
            self.polls(node, local)?;
            let mut out = Vec::new();
            let mut sent = 0;
            while self.busy[node] <= self.now {
                out.clear();
                let Some(to) = self.cores.poll_transmit(local, node, &mut out) else {
                    self.is_touched[node] = false;
                    break;
                };
                if !is_announced {
                    return Err(format!(
                        "unannounced: node {node} sends {} at {local}, and announced {}",
                        head(&out),
                        due.map_or("nothing".to_owned(), |due| due.to_string())
                    ));
                }
                sent += 1;
                if sent > MOST_POLLS {
                    return Err(format!("endless: node {node} sends without end at {local}"));
                }
                self.transmit(node, to, &out);
            }
            if self.busy[node] > self.now {
                self.is_touched[node] = true;
            }
            self.polls(node, local)?;
            self.cores.handle_timeout(local, node);
            self.is_later(node, local)?;
            self.cores.check(node)?;
        }
        Ok(())
    }

    fn is_later(&self, node: usize, local: Time) -> Kept {
        match self.cores.next_timeout(node) {
            Some(due) if due <= local => {
                Err(format!("spins: node {node} is due at {due} after handle_timeout({local})"))
            }
            _ => Ok(()),
        }
    }

    fn polls(&mut self, node: usize, local: Time) -> Kept {
        for _ in 0..MOST_POLLS {
            if !self.cores.poll(local, node)? {
                return Ok(());
            }
        }
        Err(format!("endless: node {node} polls without end at {local}"))
    }

    fn transmit(&mut self, from: usize, sent: Sent, octets: &[u8]) {
        let Sent { to, tag } = sent;
        self.ran.datagrams += 1;
        for octet in self.now.as_nanos().to_le_bytes().iter().chain(octets) {
            self.ran.hash = (self.ran.hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        match to {
            To::Everyone => {
                for to in (0..self.course.nodes).filter(|to| *to != from) {
                    self.carry(from, to, octets);
                }
            }
            To::One(to) => {
                let has_arrived = self.carry(from, to, octets);
                let local = self.local(from);
                self.cores.told(local, from, tag, has_arrived);
            }
        }
    }

    /// Brings a datagram to one node, or loses it; returns whether it arrives.
    fn carry(&mut self, from: usize, to: usize, octets: &[u8]) -> bool {
        let fate = self.channels[from][to].transmit(self.now, octets.len());
        self.busy[from] = self.busy[from].max(fate.idle_at).max(self.now);
        let is_parted = self.parted.get(&(from, to)).is_some_and(|until| *until > self.now);
        let arrives = fate.arrives_at.filter(|_| !is_parted);
        self.say(|| {
            let fate = arrives.map_or("lost".to_owned(), |at| format!("arrives at {at}"));
            format!("{from} > {to}: {} octets, {fate}: {}", octets.len(), head(octets))
        });
        self.recorded.push_back((from, to, octets.to_vec()));
        if self.recorded.len() > RECORDED {
            self.recorded.pop_front();
        }
        let Some(at) = arrives else { return false };
        self.count += 1;
        self.under_way.insert((at, self.count), (from, to, octets.to_vec()));
        let is_calm = self.now >= Time::ZERO + self.course.span;
        if C::IS_OPEN && !is_calm && self.rng.chance(self.course.medium.duplicates) {
            self.count += 1;
            let at = at + self.rng.within(COPY);
            self.under_way.insert((at, self.count), (from, to, octets.to_vec()));
        }
        true
    }

    /// The present time on a node's clock.
    fn local(&self, node: usize) -> Time {
        self.now
            + start().since(Time::ZERO)
            + Duration::from_secs_f64(self.now.as_secs_f64() * (200.0 + self.skew[node]) / 1e6)
    }

    /// The first true time at which a node's clock has reached `due`.
    fn true_time(&self, node: usize, due: Time) -> Time {
        let ahead = 1.0 + (200.0 + self.skew[node]) / 1e6;
        let since = due.since(start()).as_secs_f64() / ahead;
        // Rounding is below a microsecond in a day.
        Time::ZERO + Duration::from_secs_f64(since) + Duration::from_micros(1)
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = self.trace.as_mut() {
            trace(&format!("{:>12.6} {}", self.now.as_secs_f64(), what()));
        }
    }
}

/// The first octets of a datagram in hexadecimal.
fn head(octets: &[u8]) -> String {
    octets.iter().take(HEAD).map(|octet| format!("{octet:02x}")).collect()
}

/// Octets of a datagram that a trace shows.
const HEAD: usize = 24;

/// The nodes' clocks begin at this time, not at zero, so times before the start exist.
pub fn start() -> Time {
    Time::ZERO + Duration::from_secs(1_000)
}
