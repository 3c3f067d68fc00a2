//! Decides when to signal congestion to a flow that has queued for too long: CoDel (RFC 8289).

use std::time::Duration;

use base::time::Time;

/// RFC 8289, 4.4: the target is never below this.
const MIN_TARGET: Duration = Duration::from_millis(5);
/// RFC 8289, 4.3.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Longer round trips are taken for this one.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(5);
/// Longer waits make no difference.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Length of a full-size packet, in octets.
pub const FULL_SIZE: usize = 1_500;
/// A flow may always have so many octets queued behind the packet that leaves: with fewer packets in
/// flight its losses would cost timeouts, and its acknowledgements would be delayed.
const ENOUGH: usize = 3 * FULL_SIZE;
/// For how many intervals a flow's last episode of signals is remembered (RFC 8289, 5.6).
const MEMORY: u32 = 16;

/// How long packets may wait, for a path with some round-trip time.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// A standing queue up to this is wanted.
    target: Duration,
    /// How long the queue may exceed the target before the flow is signalled.
    interval: Duration,
    /// A queue that grows beyond this is signalled sooner.
    too_long: Duration,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    pub wait: Duration,
    /// Octets of the packet's flow queued when the packet arrived, and queued behind the packet
    /// now.
    pub ahead: usize,
    pub behind: usize,
    /// Whether this packet may carry a signal.
    pub may_be_told: bool,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codel {
    /// When the queue will have exceeded the target for a whole interval.
    above_until: Option<Time>,
    /// When a queue that grows beyond all bounds will have done so for longer than a stall of the tunnel
    /// could explain.
    runs_away_from: Option<Time>,
    is_signalling: bool,
    next_signal: Time,
    /// Signals of this episode, and the count with which the episode began.
    count: u32,
    first_count: u32,
}

impl Law {
    /// For a path of this round-trip time without queues.
    ///
    /// With its target of 5 ms RFC 8289 gives up some throughput for a short queue. Here each flow has
    /// its own queue, so no other flow would gain from that, and an idle tunnel is a loss. Reno keeps the
    /// path busy after it halves its window if the queue held a whole round trip; BBR queues up to a
    /// quarter more than a round trip while it probes. Hence the target.
    ///
    /// A signal at the head of the queue takes effect a round trip later. The interval allows another
    /// round trip, because the path goes on beyond the tunnel.
    pub fn new(round_trip: Duration) -> Self {
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
    /// How long the last packet of the queue will wait if the flow is served as this packet was.
    fn outlook(&self) -> Duration {
        // A clock that jumps must not make more than a duration can hold.
        let wait = self.wait.min(MAX_WAIT);
        wait.mul_f64(self.behind as f64 / self.ahead.max(1) as f64)
    }
}

impl Codel {
    /// Whether the packet that leaves now is to carry a signal to its flow.
    pub fn is_due(&mut self, now: Time, leaving: &Leaving, law: &Law) -> bool {
        if leaving.wait < law.target / 2 || leaving.behind < ENOUGH {
            self.calm();
            return false;
        }
        let outlook = leaving.outlook();
        let is_running_away = self.is_running_away(now, outlook, law);
        // The wait of packets that leave still rises when the sender has already slowed down.
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

    /// The queue is short: nothing to signal.
    fn calm(&mut self) {
        self.above_until = None;
        self.runs_away_from = None;
        self.is_signalling = false;
    }

    /// Whether the queue keeps growing as it does in slow start, when it would double each round trip.
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
        // Signals that a stall of the tunnel delayed are not all sent at once.
        self.next_signal = (self.next_signal + law.pause(self.count)).max(now);
        true
    }

    /// Begins an episode of signals; soon after another episode it starts near that episode's final
    /// pace.
    fn start(&mut self, now: Time, law: &Law) {
        let signals = self.count - self.first_count;
        let is_recent = now.since(self.next_signal) < MEMORY * law.interval;
        self.is_signalling = true;
        self.count = if signals > 1 && is_recent { signals } else { 1 };
        self.first_count = self.count;
        self.next_signal = now + law.pause(self.count);
    }
}
