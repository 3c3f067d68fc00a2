//! Tests that the harness finds cores that break a rule.

use super::*;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    None,
    /// A frame that waits for the bearer is a deadline in the past.
    Impatient,
    /// A timeout is acted on a second time.
    Repeating,
    /// A frame is ready before it was announced.
    Unannounced,
    /// The core always has another event.
    Endless,
}

/// Sends each frame a second after the frame was given.
#[derive(Debug)]
struct Late {
    fault: Fault,
    /// When the frames may go.
    frames: VecDeque<Time>,
    seen: Time,
    timeouts: usize,
}

impl Core for Late {
    type Input = ();

    fn handle(&mut self, now: Time, (): ()) {
        self.seen = now;
        self.frames.push_back(now + Duration::from_secs(1));
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_early = self.seen == now;
        self.seen = now;
        self.timeouts += usize::from(self.fault == Fault::Repeating || !is_early);
    }

    fn poll(&mut self, _now: Time) -> bool {
        self.fault == Fault::Endless
    }

    fn poll_transmit(&mut self, now: Time, _out: &mut Vec<u8>) -> bool {
        let early = Duration::from_millis(if self.fault == Fault::Unannounced { 100 } else { 0 });
        self.frames.pop_front_if(|at| *at <= now + early).is_some()
    }

    fn next_timeout(&self) -> Option<Time> {
        let next = self.frames.front().copied();
        next.filter(|at| self.fault == Fault::Impatient || *at > self.seen)
    }
}

fn outcome(fault: Fault) -> Result<Time, TestCaseError> {
    let mut core = Late { fault, frames: VecDeque::new(), seen: Time::ZERO, timeouts: 0 };
    let steps = vec![
        Step::Input(()),
        Step::Rest(95),
        Step::WakeUp,
        Step::Room(1),
        Step::Wait(Duration::from_secs(5)),
    ];
    keeps(&mut core, Time::ZERO, steps)
}

#[test]
fn a_core_that_keeps_the_contract_passes() {
    assert!(outcome(Fault::None).is_ok());
}

#[test]
fn a_core_that_breaks_a_rule_is_found() {
    for (fault, why) in [
        (Fault::Impatient, "due at"),
        (Fault::Repeating, "a repeated handle_timeout changed something"),
        (Fault::Unannounced, "what was announced"),
        (Fault::Endless, "polling does not end"),
    ] {
        let failed = outcome(fault).expect_err("it breaks a rule").to_string();

        assert!(failed.contains(why), "{fault:?}: {failed}");
    }
}
