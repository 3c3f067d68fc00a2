//! The window of a client: how many octets its node may have unconfirmed.
//!
//! Most nodes cannot drop or reorder accepted U_PDUs: so a node gets as much as it confirms in the horizon, and no
//! more. With `ahead` octets unconfirmed when a U_PDU was handed over, itself included, and confirmed after `time`,
//! the node does `ahead / time`. Many small U_PDUs are bounded by their number, so that flow control is heard before a
//! node takes them for a flood.
//!
//! A node sends urgent U_PDUs first. So less urgent U_PDUs count neither as ahead of an urgent one nor against its
//! room; of all priorities a node has at most twice as much as of one.
//!
//! Where others transmit in between, a turn may take longer than the horizon to come again. A node that had less than
//! a turn carries would have ever less: so the node gets a quarter more than it has confirmed at once, and twice the
//! amount if a part of it had been handed over last, so that the turn could have carried more.

use std::time::Duration;

use base::time::Time;

use crate::s5066::service::{MAX_PRIORITY, PRIORITIES};
use crate::s5066::sis::server::OFF;

/// The window until the node has confirmed anything.
const INITIAL: usize = 16 << 10;
/// The window at a node that takes the place of a lost one: the first transmissions are short, so that streams of both
/// ends go on soon.
const RESTARTED: usize = 8 << 10;
/// U_PDUs that a node has without having confirmed them at most, of a priority and above; of all priorities
/// twice as many, with which ours does not turn the flow off.
const MOST: usize = OFF.half().u_pdus;
/// U_PDUs confirmed within this time were sent in one turn.
const AT_ONCE: Duration = Duration::from_millis(100);
/// The share of confirmed octets by which a node may have more after a flow-off.
const REGAINED: usize = 256;

/// The octets that a node has without having confirmed them, and how many it may have.
#[derive(Debug)]
pub struct Window {
    bounds: (usize, usize),
    /// What the node may have at most, by when it turned the flow off.
    ceiling: usize,
    horizon: Duration,
    size: usize,
    /// Octets and U_PDUs at the node, by priority.
    held: [Held; PRIORITIES],
    /// Octets handed over so far.
    handed: u64,
    turn: Turn,
}

/// The U_PDUs confirmed at once the last time.
#[derive(Debug, Default)]
struct Turn {
    at: Time,
    octets: usize,
    /// Whether some of it had been handed over last.
    has_last: bool,
}

/// Octets and U_PDUs of one priority at the node.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    octets: usize,
    u_pdus: usize,
}

/// The window's record of a U_PDU handed to the node.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    at: Time,
    priority: u8,
    octets: usize,
    ahead: usize,
    /// Octets handed over until then, itself included.
    end: u64,
}

impl Window {
    /// A window within `bounds`, sized for the octets confirmed in the `horizon`.
    #[must_use]
    pub fn new(bounds: (usize, usize), horizon: Duration) -> Self {
        let size = INITIAL.max(bounds.0).min(bounds.1);
        Self {
            bounds,
            ceiling: bounds.1,
            horizon,
            size,
            held: [Held::default(); PRIORITIES],
            handed: 0,
            turn: Turn::default(),
        }
    }

    /// The node is lost with all that it had, and there will be another.
    pub fn restart(&mut self) {
        let size = RESTARTED.max(self.bounds.0).min(self.bounds.1);
        *self = Self { size, ..Self::new(self.bounds, self.horizon) };
    }

    /// The node got a U_PDU of this priority, 0 to 15, and length in octets; give the returned share back when the
    /// node no longer has the U_PDU.
    pub fn handle_sent(&mut self, now: Time, priority: u8, octets: usize) -> Share {
        let held = self.held_mut(priority);
        held.octets += octets;
        held.u_pdus += 1;
        self.handed += octets as u64;
        let ahead = self.held(priority).octets;
        Share { at: now, priority, octets, ahead, end: self.handed }
    }

    /// The node has confirmed it.
    pub fn handle_confirmed(&mut self, now: Time, share: Share) {
        let unconfirmed = self.held(share.priority).octets;
        self.handle_gone(share);
        let time = now.since(share.at).as_millis().max(1);
        let sample = share.ahead as u128 * self.horizon.as_millis() / time;
        let sample = usize::try_from(sample).unwrap_or(usize::MAX).min(self.bounds.1);
        // Few octets that took long say nothing about the node's capacity.
        let had_enough = share.ahead.max(unconfirmed) >= self.size / 2;
        if had_enough || sample > self.size {
            // A quarter of the way to what the sample says.
            let size = self.size - self.size / 4 + sample / 4;
            self.size = size.max(self.bounds.0).min(self.ceiling);
        }
        self.follow_turn(now, &share);
        self.ceiling = (self.ceiling + share.octets / REGAINED).min(self.bounds.1);
    }

    /// Lets the node have enough for its next turn, if that takes longer than the horizon to come.
    fn follow_turn(&mut self, now: Time, share: &Share) {
        let turn = &mut self.turn;
        if now.since(turn.at) > AT_ONCE {
            *turn = Turn { at: now, ..Turn::default() };
        }
        turn.octets += share.octets;
        // The very last may have been broken on the air.
        let last = self.size / 8 + 2 * share.octets;
        turn.has_last |= self.handed - share.end <= last as u64;
        if now.since(share.at) < self.horizon {
            return;
        }
        let least = if turn.has_last { turn.octets * 2 } else { turn.octets / 4 * 5 };
        self.size = self.size.max(least.min(self.ceiling));
    }

    /// The node has turned the flow off, because it has more than it takes. While the flow is off even urgent U_PDUs
    /// wait, so the node gets less from now on, and only gradually as much again.
    pub fn handle_flow_off(&mut self) {
        self.ceiling = (self.octets() - self.octets() / 8).max(self.bounds.0);
        self.size = self.size.min(self.ceiling);
    }

    /// The node has it no more, and has not confirmed it.
    pub fn handle_gone(&mut self, share: Share) {
        let held = self.held_mut(share.priority);
        held.octets -= share.octets;
        held.u_pdus -= 1;
    }

    /// Whether the node may have another U_PDU of this priority.
    #[must_use]
    pub fn has_room(&self, priority: u8) -> bool {
        let before = self.held(priority);
        let all = self.held(0);
        let has_room = before.octets < self.size && before.u_pdus < MOST;
        has_room && all.octets < self.bounds.1 * 2 && all.u_pdus < MOST * 2
    }

    /// Octets at the node.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.held(0).octets
    }

    /// Octets allowed at the node.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Octets and U_PDUs at the node with this priority or above.
    fn held(&self, least: u8) -> Held {
        let urgent = self.held.iter().skip(least.into());
        urgent.fold(Held::default(), |sum, held| Held {
            octets: sum.octets + held.octets,
            u_pdus: sum.u_pdus + held.u_pdus,
        })
    }

    fn held_mut(&mut self, priority: u8) -> &mut Held {
        &mut self.held[usize::from(priority.min(MAX_PRIORITY))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BULK: u8 = 4;
    const URGENT: u8 = 5;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// A window full of bulk data.
    fn full() -> (Window, Vec<Share>) {
        let mut window = Window::new((1_000, 1 << 20), Duration::from_secs(100));
        let mut shares = Vec::new();
        while window.has_room(BULK) {
            shares.push(window.handle_sent(at(0), BULK, 1_000));
        }
        (window, shares)
    }

    #[test]
    fn what_is_less_urgent_takes_no_room() {
        let (mut window, _) = full();

        assert!(window.has_room(URGENT) && !window.has_room(BULK - 1));
        while window.has_room(URGENT) {
            window.handle_sent(at(0), URGENT, 1_000);
        }
        assert!(window.has_room(URGENT + 1), "each has room of its own");
        assert!(!window.has_room(BULK));
    }

    #[test]
    fn of_all_priorities_a_node_has_twice_as_much_as_of_one_at_most() {
        let mut window = Window::new((1_000, 1_000), Duration::from_secs(100));
        for priority in 0..=MAX_PRIORITY {
            while window.has_room(priority) {
                window.handle_sent(at(0), priority, 100);
            }
        }

        assert_eq!(window.octets(), 2_000);
    }

    #[test]
    fn what_overtakes_bulk_says_nothing_of_its_speed() {
        let (mut window, _) = full();
        let before = window.size();

        let share = window.handle_sent(at(10), URGENT, 50);
        window.handle_confirmed(at(11), share);

        assert_eq!(window.size(), before, "17 kB in a second would be a fast node");
    }

    #[test]
    fn a_node_that_turns_the_flow_off_gets_less() {
        let (mut window, _) = full();
        let before = window.octets();

        window.handle_flow_off();

        assert!(window.size() < before && window.size() > before / 2);
    }

    #[test]
    fn small_u_pdus_are_never_so_many_that_our_node_turns_the_flow_off() {
        let mut window = Window::new((1 << 20, 1 << 20), Duration::from_secs(100));
        let mut sent = 0;
        for priority in 0..=MAX_PRIORITY {
            while window.has_room(priority) {
                window.handle_sent(at(0), priority, 1);
                sent += 1;
            }
        }

        assert!(sent <= OFF.u_pdus, "{sent}");
    }

    const HORIZON: Duration = Duration::from_secs(150);
    const U_PDU: usize = 2_048;
    /// Octets of 127.5 s at 9600 bit/s.
    const TURN: usize = 153_000;

    /// The window behind so many turns, each so long after the one before, of a user that always has more. Turns carry
    /// `most` octets, which are confirmed at their end, of each `late` U_PDUs one only in the turn after.
    fn behind(turns: usize, cycle: Duration, most: usize, late: usize) -> usize {
        let mut window = Window::new((4 << 10, 4 << 20), HORIZON);
        let (mut now, mut counted) = (Time::ZERO, 0);
        let (mut has, mut broken) = (std::collections::VecDeque::new(), Vec::new());
        for _ in 0..turns {
            while window.has_room(BULK) {
                has.push_back(window.handle_sent(now, BULK, U_PDU));
            }
            now += cycle;
            for share in std::mem::take(&mut broken) {
                window.handle_confirmed(now, share);
            }
            for _ in 0..(most / U_PDU).min(has.len()) {
                let share = has.pop_front().expect("as many as there are");
                counted += 1;
                if counted % late == 0 {
                    broken.push(share);
                } else {
                    window.handle_confirmed(now, share);
                }
            }
        }
        window.size()
    }

    #[test]
    fn a_node_whose_turn_comes_late_has_enough_for_all_of_it_and_little_more() {
        for cycle in [160, 255, 382, 1_020].map(Duration::from_secs) {
            for late in [usize::MAX, 6, 2] {
                let size = behind(14, cycle, TURN, late);

                assert!((TURN..=TURN * 2).contains(&size), "{cycle:?}, {late}: {size}");
            }
        }
    }

    #[test]
    fn a_node_whose_turn_comes_soon_has_what_it_confirms_in_the_horizon() {
        let size = behind(40, Duration::from_secs(50), 20_000, usize::MAX);

        assert!((50_000..70_000).contains(&size), "three turns: {size}");
    }
}
