//! State of each neighbour: whether it is present, how many requests it sends, and whether it hears us.

use std::collections::BTreeMap;
use std::time::Duration;

use base::budget::Budget;
use base::time::{Time, earliest};

use super::super::Neighbour;
use super::config::Config;

/// How much later than a hello is due it may come: messages to all wait for a random time, and for
/// their turn (AODV-UU waits as long for routes).
const SLACK: Duration = Duration::from_millis(100);

/// How long a neighbour counts as flooding after one message too many.
const CALM: Duration = Duration::from_secs(1);

/// The neighbours that were heard lately.
#[derive(Debug)]
pub struct Neighbours {
    known: BTreeMap<Neighbour, State>,
}

/// Whether a neighbour can be remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Room {
    /// The neighbour is known, or there is room for a new one.
    Enough,
    /// Another neighbour was forgotten to make room.
    Made,
    /// There is none.
    None,
}

/// What a neighbour says, hellos aside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageKind {
    Request,
    Reply,
    Error,
}

/// How many messages of one kind a neighbour may still send.
#[derive(Debug)]
struct Allowance {
    budget: Budget,
    /// When a message was last too many.
    exceeded_at: Option<Time>,
}

impl Allowance {
    /// Whether it was exceeded lately.
    fn is_exceeded(&self, now: Time) -> bool {
        self.exceeded_at.is_some_and(|at| now.since(at) < CALM)
    }
}

#[derive(Debug)]
struct State {
    /// How many messages of each kind the neighbour may still send: forged messages of one kind in its name do not use
    /// up the other kinds.
    allowances: [Allowance; 3],
    heard_at: Time,
    /// When the neighbour is forgotten, unless another deadline is later.
    until: Time,
    /// How long it may be silent: nothing before its first hello.
    silence: Option<Duration>,
    /// When it counts as gone.
    gone_at: Option<Time>,
    /// When a reply should have been acknowledged.
    acknowledged_by: Option<Time>,
    /// Until when its requests are ignored.
    ignored_until: Option<Time>,
}

impl Neighbours {
    pub fn new() -> Self {
        Self { known: BTreeMap::new() }
    }

    /// A message came from a neighbour; returns whether the table has room for the neighbour.
    pub fn hear(&mut self, now: Time, neighbour: Neighbour, config: &Config) -> Room {
        let most = config.bounds.neighbours;
        let mut room = Room::Enough;
        if !self.known.contains_key(&neighbour) && self.known.len() >= most {
            if !self.make_room() {
                return Room::None;
            }
            room = Room::Made;
        }
        let rate = config.bounds.neighbour_rate;
        let state = self.known.entry(neighbour).or_insert_with(|| State {
            allowances: [rate, rate, config.errors_taken()]
                .map(|rate| Allowance { budget: Budget::per_second(now, rate), exceeded_at: None }),
            heard_at: now,
            until: now,
            silence: None,
            gone_at: None,
            acknowledged_by: None,
            ignored_until: None,
        });
        state.heard_at = now;
        state.until = now + config.active_route_timeout;
        // Whoever floods and never said hello does not stay a way by that.
        let is_flood = state.allowances.iter().any(|allowance| allowance.is_exceeded(now));
        if state.gone_at.is_some() && (state.silence.is_some() || !is_flood) {
            let silence = state.silence.unwrap_or(config.hello.interval * 2 + SLACK);
            state.gone_at = Some(now + silence);
        }
        room
    }

    /// Forgets the least proven neighbour, the one heard longest ago among equals, so that made-up neighbours cannot
    /// keep new ones out. Returns false if no neighbour could be forgotten.
    fn make_room(&mut self) -> bool {
        let is_free = |state: &State| state.acknowledged_by.or(state.ignored_until).is_none();
        let free = self.known.iter().filter(|(_, state)| is_free(state));
        let rank = |state: &State| (state.silence.is_some(), state.gone_at.is_some(), state.until);
        let last = free.min_by_key(|(_, state)| rank(state)).map(|(neighbour, _)| *neighbour);
        last.is_some_and(|last| self.known.remove(&last).is_some())
    }

    /// A neighbour should be heard until then, if it is not known yet how often it says hello.
    pub fn expect(&mut self, now: Time, neighbour: Neighbour, until: Time, config: &Config) {
        if !self.known.contains_key(&neighbour) && self.hear(now, neighbour, config) == Room::None {
            return;
        }
        if let Some(state) = self.known.get_mut(&neighbour) {
            state.gone_at.get_or_insert(until + SLACK);
        }
    }

    /// Whether a neighbour says hello, and was heard since this time.
    pub fn is_there(&self, neighbour: Neighbour, since: Time) -> bool {
        let state = self.known.get(&neighbour);
        state.is_some_and(|state| state.silence.is_some() && state.heard_at >= since)
    }

    /// Notes a hello with an announced hello interval.
    pub fn hello(&mut self, now: Time, neighbour: Neighbour, silence: Duration) {
        if let Some(state) = self.known.get_mut(&neighbour) {
            let silence = silence.saturating_add(SLACK);
            state.silence = Some(silence);
            state.gone_at = Some(now + silence);
        }
    }

    /// Whether one more message of a kind is taken from a neighbour now.
    #[must_use]
    pub fn may_send(&mut self, now: Time, neighbour: Neighbour, kind: MessageKind) -> bool {
        let Some(state) = self.known.get_mut(&neighbour) else { return false };
        let allowance = &mut state.allowances[kind as usize];
        let may = allowance.budget.spend(now);
        if !may {
            allowance.exceeded_at = Some(now);
        }
        may
    }

    /// Whether more messages of a kind came in a neighbour's name lately than any node sends: somebody makes them up.
    pub fn floods(&self, now: Time, neighbour: Neighbour, kind: MessageKind) -> bool {
        let state = self.known.get(&neighbour);
        state.is_some_and(|state| state.allowances[kind as usize].is_exceeded(now))
    }

    /// Whether a neighbour says hello.
    pub fn says_hello(&self, neighbour: Neighbour) -> bool {
        self.known.get(&neighbour).is_some_and(|state| state.silence.is_some())
    }

    pub fn is_ignored(&self, now: Time, neighbour: Neighbour) -> bool {
        let state = self.known.get(&neighbour);
        state.and_then(|state| state.ignored_until).is_some_and(|until| until > now)
    }

    /// A reply goes to a neighbour: whether to ask for an acknowledgement, until then. One at a time.
    #[must_use]
    pub fn await_acknowledgement(&mut self, neighbour: Neighbour, by: Time) -> bool {
        let Some(state) = self.known.get_mut(&neighbour) else { return false };
        if state.acknowledged_by.is_some() {
            return false;
        }
        state.acknowledged_by = Some(by);
        true
    }

    /// A neighbour acknowledged a reply; false if none was waited for.
    #[must_use]
    pub fn acknowledge(&mut self, neighbour: Neighbour) -> bool {
        let state = self.known.get_mut(&neighbour);
        state.is_some_and(|state| state.acknowledged_by.take().is_some())
    }

    /// A neighbour cannot be reached any more; whether it is ignored from now on because a reply to it
    /// was not acknowledged.
    pub fn lose(&mut self, now: Time, neighbour: Neighbour, ignored_for: Duration) -> bool {
        let Some(state) = self.known.get_mut(&neighbour) else { return false };
        state.silence = None;
        state.gone_at = None;
        let is_ignored = state.acknowledged_by.take().is_some();
        if is_ignored {
            state.ignored_until = Some(now + ignored_for);
        }
        is_ignored
    }

    /// Forgets all on an interface.
    pub fn forget(&mut self, interface: usize) {
        self.known.retain(|neighbour, _| neighbour.interface != interface);
    }

    /// Ignores neighbours that did not acknowledge replies from now on; returns the number of new ones, and the
    /// neighbours now gone.
    pub fn expire(&mut self, now: Time, ignored_for: Duration) -> (u64, Vec<Neighbour>) {
        let mut ignored = 0;
        let mut gone = Vec::new();
        for (&neighbour, state) in &mut self.known {
            if state.acknowledged_by.take_if(|by| *by <= now).is_some() {
                state.ignored_until = Some(now + ignored_for);
                ignored += 1;
            }
            if state.gone_at.take_if(|at| *at <= now).is_some() {
                state.silence = None;
                gone.push(neighbour);
            }
            state.ignored_until.take_if(|until| *until <= now);
        }
        self.known.retain(|_, state| state.until > now || state.next_timeout().is_some());
        (ignored, gone)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        // While something is waited for, nothing happens at the time at which it would be forgotten.
        let due = |state: &State| state.next_timeout().unwrap_or(state.until);
        self.known.values().map(due).min()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

impl State {
    /// The next deadline of the neighbour.
    fn next_timeout(&self) -> Option<Time> {
        let (gone, ignored) = (self.gone_at, self.ignored_until);
        earliest(earliest(gone, self.acknowledged_by), ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_acknowledge_is_ignored_up_to_the_end_of_that_time() {
        let (config, mut neighbours) = (Config::default(), Neighbours::new());
        let neighbour = Neighbour { interface: 0, address: [10, 0, 0, 1].into() };
        let [by, until] = [1, 4].map(|seconds| Time::ZERO + Duration::from_secs(seconds));
        assert_eq!(neighbours.hear(Time::ZERO, neighbour, &config), Room::Enough);
        assert!(neighbours.await_acknowledgement(neighbour, by));

        let (ignored, _) = neighbours.expire(by, until.since(by));

        assert_eq!(ignored, 1);
        let before = until - Duration::from_nanos(1);
        assert_eq!([before, until].map(|at| neighbours.is_ignored(at, neighbour)), [true, false]);
    }
}
