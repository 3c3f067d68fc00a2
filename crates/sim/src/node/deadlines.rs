//! Deadlines of a node's applications, connections and services, behind one wake-up.

use base::time::Time;

/// Whose deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    App(usize),
    Service(usize),
    Socket(usize),
}

/// One deadline in [`Deadlines`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeadlineId(usize);

/// The deadlines of a node.
///
/// A wake-up is never taken back: one that comes too early finds nothing due and moves on to the
/// earliest deadline there is.
#[derive(Debug, Default)]
pub struct Deadlines {
    due: Vec<(Time, Owner)>,
    /// When the node's wake-up comes; `None` when none is on its way.
    wake: Option<Time>,
}

impl Deadlines {
    pub fn add(&mut self, owner: Owner) -> DeadlineId {
        self.due.push((Time::MAX, owner));
        DeadlineId(self.due.len() - 1)
    }

    /// Changes a deadline; returns when to wake up if that has become earlier.
    #[must_use]
    pub fn set(&mut self, id: DeadlineId, deadline: Option<Time>) -> Option<Time> {
        let deadline = deadline.unwrap_or(Time::MAX);
        self.due[id.0].0 = deadline;
        self.wake_by(deadline)
    }

    /// The owner of the deadline at a place of the list, if a deadline is set; `None` beyond the end of the list.
    pub fn owner_at(&self, place: usize) -> Option<Option<Owner>> {
        let (due, owner) = self.due.get(place)?;
        Some((*due != Time::MAX).then_some(*owner))
    }

    /// Takes a wake-up; false if an earlier wake-up has replaced it.
    #[must_use]
    pub fn take_wake(&mut self, now: Time) -> bool {
        let is_current = self.wake == Some(now);
        if is_current {
            self.wake = None;
        }
        is_current
    }

    /// One that is due, after `place` in the list; its deadline is cleared.
    pub fn pop_due(&mut self, now: Time, place: &mut usize) -> Option<Owner> {
        while let Some((due, owner)) = self.due.get_mut(*place) {
            *place += 1;
            if *due <= now {
                *due = Time::MAX;
                return Some(*owner);
            }
        }
        None
    }

    /// When to wake up next, if nothing is on its way that early.
    #[must_use]
    pub fn next_wake(&mut self, now: Time) -> Option<Time> {
        let earliest = self.due.iter().map(|(due, _)| *due).min()?;
        self.wake_by(earliest.max(now))
    }

    fn wake_by(&mut self, deadline: Time) -> Option<Time> {
        if deadline == Time::MAX || self.wake.is_some_and(|wake| wake <= deadline) {
            return None;
        }
        self.wake = Some(deadline);
        self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_asks_for_a_wake_up() {
        let mut deadlines = Deadlines::default();
        let (app, hop) = (deadlines.add(Owner::App(0)), deadlines.add(Owner::Service(0)));

        assert_eq!(deadlines.set(app, Some(at(5))), Some(at(5)));
        assert_eq!(deadlines.set(hop, Some(at(7))), None);
        assert_eq!(deadlines.set(app, Some(at(6))), None);
        assert_eq!(deadlines.set(hop, Some(at(3))), Some(at(3)));

        assert!(deadlines.take_wake(at(3)));
        assert_eq!(deadlines.pop_due(at(3), &mut 0), Some(Owner::Service(0)));
        assert_eq!(deadlines.next_wake(at(3)), Some(at(6)));
        assert!(!deadlines.take_wake(at(5)), "replaced");
        assert!(deadlines.take_wake(at(6)));
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }
}
