//! When a flow that queues for too long is told so: CoDel (RFC 8289).

use std::time::Duration;

use crate::time::Time;

/// RFC 8289, 4.4: no queue is shorter than this on purpose.
const MIN_TARGET: Duration = Duration::from_millis(5);
/// RFC 8289, 4.3.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// A tunnel that claims a longer round trip is not believed.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(5);
/// Longer waits are all alike.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Octets behind the one that leaves that a flow may always have: with fewer packets in flight
/// its losses cost timeouts, and its acknowledgements are delayed.
const ENOUGH: usize = 3 * super::QUANTUM;
/// How soon after its last episode a flow is still remembered, in intervals (RFC 8289, 5.6).
const MEMORY: u32 = 16;

/// How long packets may wait, for a path with some round-trip time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    /// A standing queue up to this is wanted.
    target: Duration,
    /// How long it may be longer before anything happens.
    interval: Duration,
    /// With this in sight it is not waited for so long.
    too_long: Duration,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) wait: Duration,
    /// Octets of its flow that were before it when it came, and that are behind it now.
    pub(super) ahead: usize,
    pub(super) behind: usize,
    pub(super) may_be_told: bool,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    /// When the wait will have been too long for an interval.
    above_until: Option<Time>,
    /// When the queue will have been growing out of hand for too long to be a stall of the tunnel.
    runs_away_from: Option<Time>,
    is_signalling: bool,
    next_signal: Time,
    /// Signals of this episode, and with how many it began.
    count: u32,
    first_count: u32,
}

impl Law {
    /// For a path of this round-trip time without queues.
    ///
    /// RFC 8289 means by its 5 ms that a flow shall lose a little of the rate for a short queue.
    /// Here no other flow waits in it, so that nothing is won by that, and a tunnel that idles is
    /// a loss. Reno stays busy after halving when the queue held a whole round trip, and BBR keeps
    /// up to a quarter more than a round trip while it probes. Hence the target.
    ///
    /// A signal at the head of the queue is answered a round trip later; the interval leaves another
    /// one, for paths go on beyond the tunnel.
    pub(super) fn new(round_trip: Duration) -> Self {
        let round_trip = round_trip.min(MAX_ROUND_TRIP);
        let target = (round_trip + round_trip / 4).max(MIN_TARGET);
        let interval = (2 * round_trip).max(MIN_INTERVAL);
        Self { target, interval, too_long: target + target / 2 }
    }

    /// RFC 8289, 5.5: signals come faster with the square root of their number.
    fn pause(&self, count: u32) -> Duration {
        self.interval.div_f64(f64::from(count.max(1)).sqrt())
    }
}

impl Leaving {
    /// How long the last packet will wait, if all goes on as it went for this one.
    fn outlook(&self) -> Duration {
        // A clock that jumps must not make more than a duration can hold.
        let wait = self.wait.min(MAX_WAIT);
        wait.mul_f64(self.behind as f64 / self.ahead.max(1) as f64)
    }
}

impl Codel {
    /// Whether the flow is to be told by the packet that leaves now, if it may be.
    pub(super) fn is_due(&mut self, now: Time, leaving: &Leaving, law: &Law) -> bool {
        if leaving.wait < law.target / 2 || leaving.behind < ENOUGH {
            self.calm();
            return false;
        }
        let outlook = leaving.outlook();
        let is_running_away = self.is_running_away(now, outlook, law);
        // What was waited still rises while the sender already pauses.
        if outlook.min(leaving.wait) < law.target && !is_running_away {
            self.above_until = None;
            self.is_signalling = false;
            return false;
        }
        let above_until = *self.above_until.get_or_insert(now + law.interval);
        let is_too_long = is_running_away || now >= above_until;
        if !is_too_long || !leaving.may_be_told {
            self.is_signalling &= is_too_long;
            return false;
        }
        if self.is_signalling {
            return self.goes_on(now, law);
        }
        self.start(now, law);
        true
    }

    /// The queue is short.
    fn calm(&mut self) {
        self.above_until = None;
        self.runs_away_from = None;
        self.is_signalling = false;
    }

    /// Whether the queue grows as in slow start, and not for a moment only: it would double.
    fn is_running_away(&mut self, now: Time, outlook: Duration, law: &Law) -> bool {
        if outlook < law.too_long {
            self.runs_away_from = None;
            return false;
        }
        now >= *self.runs_away_from.get_or_insert(now + law.target / 2)
    }

    fn goes_on(&mut self, now: Time, law: &Law) -> bool {
        if now < self.next_signal {
            return false;
        }
        self.count = self.count.saturating_add(1);
        // What a stall of the tunnel has put off is not made up for at once.
        self.next_signal = (self.next_signal + law.pause(self.count)).max(now);
        true
    }

    /// An episode soon after another starts near the pace that the other ended with.
    fn start(&mut self, now: Time, law: &Law) {
        let signals = self.count - self.first_count;
        let is_recent = now.since(self.next_signal) < MEMORY * law.interval;
        self.is_signalling = true;
        self.count = if signals > 1 && is_recent { signals } else { 1 };
        self.first_count = self.count;
        self.next_signal = now + law.pause(self.count);
    }
}
