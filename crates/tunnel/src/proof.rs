//! Proves that a peer receives at the address of a further path, before anything but proofs goes there.
//!
//! ```text
//!   who opens the path              the peer
//!     question a, no answer ─────────▶
//!                ◀───────── question b, answer a      the address of the peer is proved
//!     no question, answer b ─────────▶                the address of who opened is proved
//! ```
//!
//! Only who receives at an address can answer the question sent there. A peer that forges a third party's address cannot.
//! To an address that is not proved goes no more than one datagram of this
//! length for each that comes from there (compare RFC 9000, 8 and 9.3).

use std::time::Duration;

use base::time::Time;

/// Octets of a question or an answer.
pub const SECRET: usize = 8;
/// Octets of a message of the exchange, and how many are given back at most to an address that is not proved.
const MESSAGE: usize = 2 + 2 * SECRET;
const MOST_CREDIT: usize = 4 * MESSAGE;
/// The pauses between the first questions of who opens a path; the last one is repeated.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];
/// No question, or no answer.
const NONE: [u8; SECRET] = [0; SECRET];

/// A message of the exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Proof {
    /// Whether the sender wants the path for times only when no other serves.
    pub is_backup: bool,
    /// What the receiver answers; zeros for nothing.
    pub question: [u8; SECRET],
    /// The answer to the question of the receiver; zeros for none.
    pub answer: [u8; SECRET],
}

/// How the exchange stands on a path.
#[derive(Debug)]
pub struct Proving {
    /// What the peer has to answer; `None` once it has.
    question: Option<[u8; SECRET]>,
    /// What we have to answer.
    owed: Option<[u8; SECRET]>,
    /// When we ask again; `None` for who waits to be asked.
    ask_at: Option<Time>,
    asked: usize,
    /// Octets received from an unproved address, less octets sent there.
    credit: usize,
}

impl Proving {
    /// The first path: the handshake has proved it.
    pub fn done() -> Self {
        Self { question: None, owed: None, ask_at: None, asked: 0, credit: 0 }
    }

    /// We open the path, to an address that was configured.
    pub fn opening(now: Time, question: [u8; SECRET]) -> Self {
        Self { question: Some(question), ask_at: Some(now), ..Self::done() }
    }

    /// The peer was heard at an address that nobody has proved.
    pub fn heard(question: [u8; SECRET]) -> Self {
        Self { question: Some(question), ..Self::done() }
    }

    /// Whether the peer receives at the address.
    pub fn is_done(&self) -> bool {
        self.question.is_none()
    }

    /// A message of so many octets came. If the address is still not proved, our question or its answer was lost: what came
    /// lets us ask again.
    pub fn handle_heard(&mut self, octets: usize) {
        if self.question.is_some() {
            self.credit = (self.credit + octets.min(MESSAGE)).min(MOST_CREDIT);
        }
    }

    /// Takes a message; returns whether it has proved the address.
    pub fn handle(&mut self, proof: &Proof) -> bool {
        if proof.question != NONE {
            self.owed = Some(proof.question);
        }
        let is_proved = self.question.is_some_and(|question| question == proof.answer);
        if is_proved {
            (self.question, self.ask_at) = (None, None);
        }
        is_proved
    }

    /// The message to send now. Until the peer is known to understand it, we `may_ask` nothing.
    pub fn poll(&mut self, now: Time, is_backup: bool, may_ask: bool) -> Option<Proof> {
        let is_due = may_ask && self.ask_at.is_some_and(|at| at <= now);
        if self.owed.is_none() && !is_due && !self.has_credit() {
            return None;
        }
        self.credit = self.credit.saturating_sub(MESSAGE);
        if is_due {
            self.ask_at = Some(now + PAUSES[self.asked.min(PAUSES.len() - 1)]);
            self.asked += 1;
        }
        let answer = self.owed.take().unwrap_or(NONE);
        Some(Proof { is_backup, question: self.question.unwrap_or(NONE), answer })
    }

    /// Whether enough octets came from the address that we may ask there once more.
    fn has_credit(&self) -> bool {
        self.ask_at.is_none() && self.credit >= MESSAGE
    }

    /// When there is something to send.
    pub fn next(&self, now: Time, may_ask: bool) -> Option<Time> {
        let is_due = self.owed.is_some() || self.has_credit();
        is_due.then_some(now).or(self.ask_at.filter(|_| may_ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    #[test]
    fn both_addresses_are_proved_by_three_messages() {
        let mut opens = Proving::opening(NOW, [1; SECRET]);
        let mut hears = Proving::heard([2; SECRET]);

        let first = opens.poll(NOW, true, true).unwrap();
        assert!(first.is_backup && !hears.handle(&first));
        let second = hears.poll(NOW, false, true).unwrap();
        assert!(opens.handle(&second) && opens.is_done() && !hears.is_done());
        let third = opens.poll(NOW, true, true).unwrap();
        assert!(hears.handle(&third) && hears.is_done());

        assert_eq!((opens.poll(NOW, true, true), hears.poll(NOW, false, true)), (None, None));
        assert_eq!((opens.next(NOW, true), hears.next(NOW, true)), (None, None));
    }

    #[test]
    fn an_address_that_does_not_answer_gets_one_datagram_for_each_of_its_own() {
        let mut hears = Proving::heard([2; SECRET]);
        let asks = Proof { is_backup: false, question: [1; SECRET], answer: NONE };

        for _ in 0..100 {
            assert_eq!(hears.poll(NOW, false, true), None);
            hears.handle_heard(MESSAGE);
            // A guess, and the answer to a question of another time, prove nothing.
            assert!(!hears.handle(&Proof { answer: [3; SECRET], ..asks }));
            assert!(hears.poll(NOW, false, true).is_some() && !hears.is_done());
        }
    }

    #[test]
    fn a_lost_answer_is_asked_for_again() {
        let mut hears = Proving::heard([2; SECRET]);

        // What comes is no proof: the peer believes that all is well.
        hears.handle_heard(MESSAGE - 1);
        assert_eq!(hears.poll(NOW, false, true), None);
        hears.handle_heard(1);
        let asked = hears.poll(NOW, false, true).unwrap();

        assert_eq!((asked.question, hears.poll(NOW, false, true)), ([2; SECRET], None));
        assert!(hears.handle(&Proof { is_backup: false, question: NONE, answer: [2; SECRET] }));
        hears.handle_heard(1_000);
        assert_eq!(hears.poll(NOW, false, true), None, "all is proved");
    }

    #[test]
    fn an_address_without_an_answer_is_asked_ever_more_seldom() {
        let mut opens = Proving::opening(NOW, [1; SECRET]);
        let mut asked = Vec::new();
        let mut now = NOW;

        for _ in 0..6 {
            assert!(
                opens.poll(now, false, true).is_some() && opens.poll(now, false, true).is_none()
            );
            let next = opens.next(now, true).unwrap();
            asked.push(next.since(now).as_millis());
            now = next;
        }

        assert_eq!(asked, [250, 500, 1_000, 5_000, 5_000, 5_000]);
    }
}
