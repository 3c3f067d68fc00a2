//! Resets of the windows of a link: stop and wait, either end may ask (Annex C, section 3.6).
//!
//! ```text
//!   one end                                    the other
//!   request ── FULL RESET, id ──────────────▶  Action::Full, then
//!   Action::Full ◀────────────── RESET ACK, id ── its data begins anew
//! ```
//!
//! While a request is open, its end sends no data and no acknowledgements of data, and ignores received ones. An end
//! that obeys a request gives up its own: both windows begin anew once.

use super::wire::{Fsn, Reset};

/// What the owner of the windows does now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Begin anew, in both directions.
    Full,
    /// Nothing.
    None,
    /// Move the receiver's lower edge.
    Receiver {
        /// To this frame.
        lwe: Fsn,
    },
}

base::counters! {
    /// Counts since the start.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Requests of ours with an answer.
        pub answered: counter(requests);
        /// Requests of ours without an answer.
        pub failed: counter(requests);
        /// Requests of the other end that were obeyed.
        pub obeyed: counter(requests);
        /// Their repeats.
        pub repeats: counter(times);
        /// Acknowledgements for no open request.
        pub stray: counter(messages);
    }
}

/// One end's part in the resets of a link.
#[derive(Clone, Debug)]
pub struct Resets {
    next_id: u8,
    max_tries: u32,
    open: Option<OpenReset>,
    has_failed: bool,
    /// The last request of the other end.
    heard: Option<u8>,
    answer_due: Option<u8>,
    stats: Stats,
}

/// A request still without its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct OpenReset {
    id: u8,
    tries: u32,
    is_due: bool,
}

impl Resets {
    /// No reset is under way; a request is sent in at most `max_tries` transmissions.
    ///
    /// `first_id` is best random: then a restarted end is not taken for a repeating one.
    #[must_use]
    pub fn new(first_id: u8, max_tries: u32) -> Self {
        Self {
            next_id: first_id,
            max_tries,
            open: None,
            has_failed: false,
            heard: None,
            answer_due: None,
            stats: Stats::default(),
        }
    }

    /// Asks for a full reset, unless one is asked for already.
    pub fn request(&mut self) {
        if self.open.is_some() {
            return;
        }
        // 0 is what some ends answer whatever the number was.
        let id = self.next_id.max(1);
        self.next_id = id.wrapping_add(1);
        self.has_failed = false;
        self.open = Some(OpenReset { id, tries: 0, is_due: true });
    }

    /// Takes a frame of the other end.
    pub fn handle_reset(&mut self, reset: &Reset) -> Action {
        let mut action = Action::None;
        if reset.is_ack {
            match self.open.take_if(|open| open.tries > 0 && [0, open.id].contains(&reset.id)) {
                Some(_) => {
                    self.stats.answered += 1;
                    action = Action::Full;
                }
                None => self.stats.stray += 1,
            }
        }
        if !(reset.is_full || reset.is_rx_command || reset.is_tx_request) {
            return action;
        }
        self.answer_due = Some(reset.id);
        if self.heard == Some(reset.id) {
            self.stats.repeats += 1;
            return action;
        }
        self.heard = Some(reset.id);
        self.stats.obeyed += 1;
        if reset.is_full {
            self.open = None;
            return Action::Full;
        }
        if reset.is_tx_request {
            // Moving our edge alone would leave frames above it known to one end only.
            self.request();
            return action;
        }
        match action {
            Action::Full => action,
            Action::None | Action::Receiver { .. } => Action::Receiver { lwe: reset.lwe },
        }
    }

    /// A transmission of this end got no answer: an open request is due again, or has failed.
    pub fn handle_silence(&mut self) {
        let Some(open) = &mut self.open else { return };
        if open.tries < self.max_tries {
            open.is_due = true;
        } else {
            self.open = None;
            self.has_failed = true;
            self.stats.failed += 1;
        }
    }

    /// The next frame for a transmission; a returned frame counts as sent.
    pub fn poll(&mut self) -> Option<Reset> {
        if let Some(id) = self.answer_due.take() {
            return Some(Reset { is_ack: true, id, ..Reset::default() });
        }
        let open = self.open.as_mut().filter(|open| open.is_due)?;
        open.is_due = false;
        open.tries += 1;
        Some(Reset { is_full: true, id: open.id, ..Reset::default() })
    }

    /// Whether there is something to be sent.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.answer_due.is_some() || self.open.is_some_and(|open| open.is_due)
    }

    /// Whether data and acknowledgements must wait.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the last request was never answered: the link is lost.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_begin_anew_once_whatever_is_lost() {
        // The transmissions to get through, by bits.
        for fate in 0..64_u32 {
            let mut ends = [Resets::new(7, 10), Resets::new(9, 10)];
            let mut full = [0, 0];
            ends[0].request();

            for turn in 0..20 {
                let from = turn % 2;
                while let Some(reset) = ends[from].poll() {
                    if turn >= 6 || fate >> turn & 1 == 1 {
                        full[1 - from] +=
                            u32::from(ends[1 - from].handle_reset(&reset) == Action::Full);
                    }
                }
                if turn % 2 == 1 {
                    ends[0].handle_silence();
                }
            }

            assert_eq!(full, [1, 1], "{fate:b}");
            assert!(!ends[0].is_open() && !ends[0].is_due() && !ends[1].is_due());
        }
    }

    #[test]
    fn requests_that_cross_are_one_reset() {
        let mut ends = [Resets::new(7, 10), Resets::new(200, 10)];
        for end in &mut ends {
            end.request();
        }
        let [first, second] = ends.each_mut().map(|end| end.poll().unwrap());

        assert_eq!(ends[1].handle_reset(&first), Action::Full);
        assert_eq!(ends[0].handle_reset(&second), Action::Full);

        let [first, second] = ends.each_mut().map(|end| end.poll().unwrap());
        assert!(first.is_ack && second.is_ack);
        assert_eq!(ends[1].handle_reset(&first), Action::None);
        assert_eq!(ends[0].handle_reset(&second), Action::None);
    }

    #[test]
    fn a_request_ends_after_its_tries() {
        let mut end = Resets::new(1, 2);
        end.request();

        let mut sent = 0;
        while !end.has_failed() {
            sent += u32::from(end.poll().is_some());
            end.handle_silence();
        }

        assert_eq!((sent, end.stats().failed), (2, 1));
        assert!(!end.is_open());
        end.request();
        assert!(!end.has_failed());
    }

    #[test]
    fn an_answer_may_leave_the_number_at_zero_or_ask_something_itself() {
        let mut end = Resets::new(5, 2);
        end.request();
        let early = end.handle_reset(&Reset { is_ack: true, ..Reset::default() });
        end.poll();

        let answer = Reset { is_ack: true, is_rx_command: true, lwe: Fsn(9), ..Reset::default() };

        assert_eq!(early, Action::None);
        assert_eq!(end.handle_reset(&answer), Action::Full);
        assert_eq!(end.poll(), Some(Reset { is_ack: true, ..Reset::default() }));
        let move_on = Reset { is_rx_command: true, lwe: Fsn(9), id: 1, ..Reset::default() };
        assert_eq!(end.handle_reset(&move_on), Action::Receiver { lwe: Fsn(9) });
        assert_eq!(end.handle_reset(&move_on), Action::None);
    }

    #[test]
    fn who_is_asked_to_move_its_window_resets_all() {
        let mut end = Resets::new(5, 2);

        let action = end.handle_reset(&Reset { is_tx_request: true, id: 3, ..Reset::default() });

        assert_eq!(action, Action::None);
        assert_eq!(end.poll(), Some(Reset { is_ack: true, id: 3, ..Reset::default() }));
        assert_eq!(end.poll(), Some(Reset { is_full: true, id: 5, ..Reset::default() }));
    }
}
