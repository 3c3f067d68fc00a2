//! Holds a core to the contract: arbitrary calls at arbitrary times, and a check after each of them.
//!
//! A test implements [`Core`] for a core, or for a bench that has one, and hands [`keeps`] the steps that
//! [`steps`] makes up. A core that talks with another one of its kind implements [`Peer`] too: [`Pair`]
//! is two of them, with datagrams between them that arrive, get lost or are changed. A bench with a
//! course of events of its own calls [`settle`] instead.

pub mod memory;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use base::parameter::{Parameter, Table, Value};
use base::time::{Time, earliest};
use proptest::prelude::*;

/// More than this many polls at one instant count as polling without end.
const MOST_POLLS: usize = 20_000;
/// Deadlines that are waited for at the end of a test: some cores always have another one.
const LAST_DEADLINES: usize = 100;

/// What a driver calls.
pub trait Core: Debug {
    /// What may happen to it: the arguments of some `handle_*`.
    type Input: Clone + Debug;

    /// Something happens to it.
    fn handle(&mut self, now: Time, input: Self::Input);

    /// Its deadline has come, or the driver calls early.
    fn handle_timeout(&mut self, now: Time);

    /// Takes one thing that needs no bearer, such as an event; false when there is none.
    fn poll(&mut self, now: Time) -> bool;

    /// Appends one thing to send to `out`, which is empty; false when there is none.
    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool;

    /// When it wants to be called at the latest.
    fn next_timeout(&self) -> Option<Time>;

    /// Checks what holds after every step: the bounds of its memory, say.
    fn check(&self) -> Result<(), TestCaseError> {
        Ok(())
    }
}

/// A core that takes what another one of its kind sends.
pub trait Peer: Core {
    /// Takes a datagram of the other, whole or damaged.
    fn handle_octets(&mut self, now: Time, octets: &[u8]);
}

/// What a driver may do next.
#[derive(Clone, Debug)]
pub enum Step<I> {
    /// Something happens to the core.
    Input(I),
    /// The bearer has room for this many.
    Room(usize),
    /// The bearer takes all there is, and then so many hundredths of the time up to the deadline pass.
    Rest(u32),
    /// Time passes, however many deadlines lie in it.
    Wait(Duration),
    /// The driver wakes at the deadline.
    WakeUp,
}

/// Up to 120 steps with inputs like `input`.
pub fn steps<I: Clone + Debug>(
    input: impl Strategy<Value = I>,
) -> impl Strategy<Value = Vec<Step<I>>> {
    // From a nanosecond to two minutes.
    let wait = (0..37, 0.0..1.0)
        .prop_map(|(octave, part)| Duration::from_secs_f64(f64::from(octave).exp2() * part / 1e9));
    let step = prop_oneof![
        6 => input.prop_map(Step::Input),
        3 => (1_usize..5).prop_map(Step::Room),
        3 => (0_u32..98).prop_map(Step::Rest),
        1 => wait.prop_map(Step::Wait),
        4 => Just(Step::WakeUp),
    ];
    prop::collection::vec(step, 0..120)
}

/// Runs a core through `steps` from `now` on, and then through some more deadlines with a bearer that
/// always has room; fails where it breaks the contract. Returns when that ended.
pub fn keeps<C: Core>(
    core: &mut C,
    mut now: Time,
    steps: Vec<Step<C::Input>>,
) -> Result<Time, TestCaseError> {
    settle(core, now)?;
    for step in steps {
        match step {
            Step::Input(input) => core.handle(now, input),
            Step::Room(most) => _ = send(core, now, most),
            Step::Rest(hundredths) => {
                send_all(core, now)?;
                settle(core, now)?;
                send_all(core, now)?;
                let Some(due) = core.next_timeout() else { continue };
                prop_assert!(due > now, "{due:?} waits for a bearer that had room at {now:?}");
                now += due.since(now) * hundredths / 100;
                let sent = send(core, now, 1);
                prop_assert!(sent == 0, "sent at {now:?} what was announced for {due:?}");
            }
            Step::Wait(duration) => now += duration,
            Step::WakeUp => now = core.next_timeout().unwrap_or(now).max(now),
        }
        settle(core, now)?;
    }

    let before = format!("{core:?}");
    core.handle_timeout(now);
    prop_assert_eq!(&before, &format!("{core:?}"), "a repeated handle_timeout changed something");
    for _ in 0..LAST_DEADLINES {
        send_all(core, now)?;
        settle(core, now)?;
        let Some(due) = core.next_timeout() else { break };
        now = now.max(due);
    }
    Ok(now)
}

/// Does what a driver does at `now` while its bearer is full, and checks what must hold then.
pub fn settle(core: &mut impl Core, now: Time) -> Result<(), TestCaseError> {
    core.handle_timeout(now);
    let due = core.next_timeout();
    prop_assert!(due.is_none_or(|due| due > now), "due at {due:?} after handle_timeout({now:?})");
    let polls = (0..MOST_POLLS).take_while(|_| core.poll(now)).count();
    prop_assert!(polls < MOST_POLLS, "polling does not end");

    let due = core.next_timeout();
    core.handle_timeout(now);
    prop_assert!(!core.poll(now), "a repeated handle_timeout did something");
    prop_assert_eq!(core.next_timeout(), due, "a repeated handle_timeout moved the deadline");
    core.check()
}

/// Does what [`settle`] does with the deadlines of a core that its own bench drives.
pub fn keeps_time<C>(
    core: &mut C,
    now: Time,
    handle_timeout: fn(&mut C, Time),
    next_timeout: fn(&C) -> Option<Time>,
) {
    handle_timeout(core, now);
    let due = next_timeout(core);
    assert!(due.is_none_or(|due| due > now), "due at {due:?} after handle_timeout({now:?})");
    handle_timeout(core, now);
    assert_eq!(next_timeout(core), due, "a repeated handle_timeout moved the deadline");
}

/// Sends until there is nothing more to send.
fn send_all(core: &mut impl Core, now: Time) -> Result<(), TestCaseError> {
    prop_assert!(send(core, now, MOST_POLLS) < MOST_POLLS, "sending does not end");
    Ok(())
}

/// Sends at most so many, and returns how many.
fn send(core: &mut impl Core, now: Time, most: usize) -> usize {
    let mut out = Vec::new();
    let mut sends = |_: &usize| {
        out.clear();
        core.poll_transmit(now, &mut out)
    };
    (0..most).take_while(|count| sends(count)).count()
}

/// Two cores, and what is under way between them.
#[derive(Debug)]
pub struct Pair<P> {
    ends: [P; 2],
    /// To which end, oldest first.
    under_way: VecDeque<(usize, Vec<u8>)>,
}

/// What may happen to a [`Pair`].
#[derive(Clone, Debug)]
pub enum Between<I> {
    /// What was sent first arrives, with some bits of an octet flipped unless `flips` is zero.
    Arrives {
        /// Which octet.
        at: usize,
        /// Which of its bits.
        flips: u8,
    },
    /// Something happens to one of them.
    At(usize, I),
    /// What was sent first arrives, and will once more.
    Doubled,
    /// What was sent first is lost.
    Lost,
}

/// Inputs of a pair of cores with inputs like `input`.
pub fn between<I: Clone + Debug>(
    input: impl Strategy<Value = I>,
) -> impl Strategy<Value = Between<I>> {
    prop_oneof![
        12 => Just(Between::Arrives { at: 0, flips: 0 }),
        1 => (0_usize..60, any::<u8>()).prop_map(|(at, flips)| Between::Arrives { at, flips }),
        1 => Just(Between::Doubled),
        3 => Just(Between::Lost),
        10 => (0_usize..2, input).prop_map(|(end, input)| Between::At(end, input)),
    ]
}

impl<P> Pair<P> {
    /// Two ends, with nothing under way.
    pub fn new(ends: [P; 2]) -> Self {
        Self { ends, under_way: VecDeque::new() }
    }
}

impl<P: Peer> Core for Pair<P> {
    type Input = Between<P::Input>;

    fn handle(&mut self, now: Time, input: Self::Input) {
        match input {
            Between::Arrives { at, flips } => {
                let Some((end, mut octets)) = self.under_way.pop_front() else { return };
                if let Some(octet) = octets.get_mut(at) {
                    *octet ^= flips;
                }
                self.ends[end].handle_octets(now, &octets);
            }
            Between::At(end, input) => self.ends[end].handle(now, input),
            Between::Doubled => {
                let Some((end, octets)) = self.under_way.front() else { return };
                self.ends[*end].handle_octets(now, octets);
            }
            Between::Lost => _ = self.under_way.pop_front(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }

    fn poll(&mut self, now: Time) -> bool {
        self.ends.iter_mut().any(|end| end.poll(now))
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(from) = self.ends.iter_mut().position(|end| end.poll_transmit(now, out)) else {
            return false;
        };
        self.under_way.push_back((1 - from, out.clone()));
        true
    }

    fn next_timeout(&self) -> Option<Time> {
        let [one, other] = &self.ends;
        earliest(one.next_timeout(), other.next_timeout())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        self.ends.iter().try_for_each(Core::check)
    }
}

/// Checks that each row of a protocol's table of parameters does what it says: names are different and well
/// formed, each bound can be set and is then read, defaults are allowed and the rules kept.
///
/// # Panics
/// When a row is wrong.
pub fn prove<C: Clone + Debug + PartialEq>(table: &Table<C>, configs: &[C]) {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    for (at, parameter) in table.parameters.iter().enumerate() {
        let Parameter { name, meaning, kind, get, set, .. } = parameter;
        assert!(name.chars().all(is_plain), "{name}");
        assert!(table.parameters[..at].iter().all(|other| other.name != *name), "{name} twice");
        assert!(meaning.ends_with('.') && !meaning.contains(". "), "{name}: one sentence");
        for config in configs {
            let default = get(config);
            assert!(default == Value::Absent || kind.allows(&default), "{name} = {default}");
        }
        let fits = |config: &&C| parameter.condition.as_ref().is_none_or(|it| (it.holds)(config));
        let config = configs.iter().find(fits).unwrap_or_else(|| panic!("nothing has {name}"));
        for value in kind.examples() {
            let mut config = config.clone();
            set(&mut config, value.clone());
            assert_eq!(get(&config), value, "{name}");
        }
    }
    for rule in table.rules {
        let unknown = rule.names.iter().find(|name| table.find(name).is_none());
        assert_eq!(unknown, None, "{}", rule.allowed);
    }
    for config in configs {
        table.check(config).expect("rules that the defaults keep");
    }
}

#[cfg(test)]
mod tests;
