//! One direction of a link: computes departure, loss and arrival of each packet.
//!
//! ```text
//!   transmit ──▶ serialisation ──▶ loss ──▶ delay ± jitter ──▶ arrives_at
//!                its slot, then    down?    in order, unless
//!                octets + framing  lost?    told otherwise
//!                over the rate
//!                      ▲            │
//!                      └────────────┘ where lost packets are repeated at once
//! ```
//!
//! A pure function of time, so that the simulator's wires and the live emulator are the same link.

mod jitter;
mod loss;
mod outage;
#[cfg(test)]
mod tests;

use std::time::Duration;

use base::parameter::Kind;
use base::rng::Rng;
use base::time::{Time, nanos};

pub use loss::{BadLoss, Fades, GilbertElliott, Loss};
pub use outage::{BadOutages, Outages};

use base::quantity::{BitRate, Span, bit_nanos};
use jitter::Jitter;
use loss::LossProcess;

base::parameters! {
    /// Parameters of a link, of one direction, or of all links.
    pub static PARAMETERS = "link";

    /// Configuration of a link in one direction: delay, loss and other impairments, none by default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from default() {
        /// Bits a second.
        #[allowed(Kind::Rate { may_be_unlimited: true })]
        pub rate: BitRate = BitRate::default();

        /// How long a packet travels.
        #[allowed(Kind::period(Duration::ZERO..=DAY))]
        pub delay: Duration = Duration::ZERO;

        /// The delay varies by this much either way, at most by itself; its mean stays.
        // At most the [delay](Config::check).
        #[allowed(Kind::period(Duration::ZERO..=DAY))]
        pub jitter: Duration = Duration::ZERO;

        /// Whether jitter may let packets overtake.
        #[allowed(Kind::Flag)]
        pub reorder: bool = false;

        /// Which packets do not arrive.
        #[allowed(LOSS)]
        pub loss: Loss = Loss::default();

        /// Whether what would be lost is sent again at once, as often as it takes: a link that never loses but is
        /// slower.
        // As if the far end reported each loss for free and without delay. Each try draws anew from `loss`; the last of
        // [`MAX_TRIES`] always arrives. Outages still lose.
        #[allowed(Kind::Flag)]
        pub repeat_at_once: bool = false;

        /// What is added to each packet on the link.
        // Headers, preambles, gaps.
        #[allowed(Kind::count(0..=65_535).of("octets"))]
        pub framing: usize = 0;

        /// What goes into one frame, where packets are cut into several and each has the framing.
        #[allowed(Kind::count(1..=65_535).of("octets"))]
        pub frame: Option<usize> = None;

        /// From one slot of the link to the next: a packet that finds it idle waits for a slot.
        // As with TDMA. On a busy link a packet follows at once. `rate` is the rate that the slots add up to.
        #[allowed(Kind::period(Duration::ZERO..=DAY))]
        pub slots: Duration = Duration::ZERO;

        /// When the link is down.
        pub outages: Outages = Outages::default();
    }
}

base::texts!(Loss);

const DAY: Duration = Duration::from_secs(86_400);
const LOSS: Kind = Kind::Text {
    allowed: "`none`, `5%`, `gilbert-elliott(mean=5%,burst=4)`, `gilbert-elliott(p=1%,r=25%,h=0,k=1)`, \
              `fades(mean=5%,length=20ms)`, `trace(00010)`",
    check: |text| match text.parse::<Loss>() {
        Ok(_) => Ok(()),
        Err(why) => Err(why.to_string()),
    },
    examples: &["none", "5%"],
};

/// Why a direction of a link cannot be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("jitter {jitter} is more than delay {delay}: nothing arrives before it is sent")]
pub struct BadJitter {
    /// Variation of the delay.
    pub jitter: Span,
    /// The delay.
    pub delay: Span,
}

impl Config {
    /// Whether such a direction can be, which all readers ask.
    ///
    /// # Errors
    /// When its jitter is more than its delay.
    pub fn check(&self) -> Result<(), BadJitter> {
        let Self { jitter, delay, .. } = *self;
        let (jitter, delay) = (Span(jitter), Span(delay));
        if jitter > delay { Err(BadJitter { jitter, delay }) } else { Ok(()) }
    }
}

/// How often a packet is sent at most where [`Config::repeat_at_once`] holds: an end even where
/// everything is lost.
pub const MAX_TRIES: u32 = 10_000;

/// State of a link in one direction.
#[derive(Clone, Debug)]
pub struct Channel {
    config: Config,
    loss: LossProcess,
    jitter: Jitter,
    busy_until: Instant,
    latest_arrival: Time,
    outage: usize,
    /// When the first slot begins.
    first_slot: Duration,
}

/// Fate of one packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transmission {
    /// When the next packet can be sent.
    pub idle_at: Time,
    /// When the packet arrives; `None` if lost.
    pub arrives_at: Option<Time>,
}

impl Channel {
    /// A channel that is idle; `rng` is for this channel alone.
    #[must_use]
    pub fn new(config: Config, mut rng: Rng) -> Self {
        // Separate random streams: adding jitter must not change the lost packets.
        let jitter = Jitter::new(Rng::stream(rng.bits(), "jitter"));
        let loss = LossProcess::new(&config.loss, Rng::stream(rng.bits(), "loss"));
        // Links have slots of their own: their phases differ.
        let first_slot = Rng::stream(rng.bits(), "slots").within(config.slots);
        Self {
            config,
            loss,
            jitter,
            busy_until: Instant::default(),
            latest_arrival: Time::ZERO,
            outage: 0,
            first_slot,
        }
    }

    /// Sends a packet, at `now` or else as soon as the packets before it have been sent.
    ///
    /// `now` never goes back. Lost packets take as long to send as others.
    pub fn transmit(&mut self, now: Time, octets: usize) -> Transmission {
        let mut start =
            if now > self.idle_at() { self.next_slot(now).into() } else { self.busy_until };
        self.send(start, octets);
        let mut lost = self.is_lost(start);
        if self.config.repeat_at_once {
            let mut tries = 1;
            while lost && tries < MAX_TRIES {
                start = self.busy_until;
                self.send(start, octets);
                lost = self.is_lost(start);
                tries += 1;
            }
            lost = false;
        }

        let idle_at = self.idle_at();
        let down = self.is_down_within(Time::from_nanos(start.nanos), idle_at);
        let arrival = self.arrival(idle_at);
        if down || lost {
            return Transmission { idle_at, arrives_at: None };
        }
        self.latest_arrival = self.latest_arrival.max(arrival);
        Transmission { idle_at, arrives_at: Some(arrival) }
    }

    /// Goes on with another configuration. Packets already sent keep their arrival, and random numbers go on; a loss
    /// model of another kind begins in its good state.
    pub fn change(&mut self, config: Config) {
        let is_other =
            std::mem::discriminant(&config.loss) != std::mem::discriminant(&self.config.loss);
        if is_other {
            self.loss.begin_anew();
        }
        // The fraction of a nanosecond counts in parts of the old rate.
        self.busy_until = self.idle_at().into();
        // The outages may be others: the first one that is not over is searched again.
        self.outage = 0;
        self.config = config;
    }

    /// When all packets so far have been sent.
    #[must_use]
    pub fn idle_at(&self) -> Time {
        self.busy_until.rounded_up()
    }

    /// The configuration of the channel.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn send(&mut self, start: Instant, octets: usize) {
        let Config { framing, frame, rate, .. } = self.config;
        let frames = frame.map_or(1, |frame| octets.div_ceil(frame.max(1)).max(1));
        let framing = framing.saturating_mul(frames);
        self.busy_until = start.after(octets.saturating_add(framing), rate);
    }

    /// The beginning of the first slot that is not over.
    fn next_slot(&self, now: Time) -> Time {
        let slots = nanos(self.config.slots);
        if slots == 0 {
            return now;
        }
        let since = now.since(Time::ZERO + self.first_slot);
        let is_before = now < Time::ZERO + self.first_slot;
        let count = if is_before { 0 } else { nanos(since).div_ceil(slots) };
        Time::ZERO + self.first_slot + Duration::from_nanos(count.saturating_mul(slots))
    }

    fn is_lost(&mut self, start: Instant) -> bool {
        self.loss.next(Time::from_nanos(start.nanos), &self.config.loss)
    }

    fn is_down_within(&mut self, start: Time, end: Time) -> bool {
        let outages = self.config.outages.spans();
        while outages.get(self.outage).is_some_and(|down| down.end <= start) {
            self.outage += 1;
        }
        outages.get(self.outage).is_some_and(|down| down.start < end.max(start + NANOSECOND))
    }

    fn arrival(&mut self, sent: Time) -> Time {
        let Config { delay, jitter, reorder, .. } = self.config;
        if jitter.is_zero() {
            return sent + delay;
        }
        let late = self.jitter.next(sent, jitter, reorder);
        let arrival = sent + delay.saturating_add(late).saturating_sub(jitter);
        // Rounding and a jitter beyond the delay are all that this has to mend.
        if reorder { arrival } else { arrival.max(self.latest_arrival) }
    }
}

const NANOSECOND: Duration = Duration::from_nanos(1);

/// A time to a fraction of a nanosecond, so that rounding does not add up over packets.
#[derive(Clone, Copy, Debug, Default)]
struct Instant {
    nanos: u64,
    /// In nanoseconds divided by the rate: less than the rate.
    fraction: u64,
}

impl Instant {
    /// When these octets have been sent that start now.
    fn after(self, octets: usize, rate: BitRate) -> Self {
        let BitRate::PerSecond(rate) = rate else { return self };
        let (rate, scaled) = (u128::from(rate.get()), bit_nanos(octets));
        let scaled = scaled + u128::from(self.fraction);
        let nanos = u64::try_from(scaled / rate).unwrap_or(u64::MAX);
        let fraction = u64::try_from(scaled % rate).expect("a remainder is below its divisor");
        Self { nanos: self.nanos.saturating_add(nanos), fraction }
    }

    fn rounded_up(self) -> Time {
        Time::from_nanos(self.nanos.saturating_add(u64::from(self.fraction > 0)))
    }
}

impl From<Time> for Instant {
    fn from(time: Time) -> Self {
        Self { nanos: time.as_nanos(), fraction: 0 }
    }
}
