//! The options of the emulated cable.

use std::time::Duration;

use base::quantity::{BitRate, Span};
use base::rng::Rng;
use emulator::End;
use emulator::link::Direction;
use sim::channel::{Config, Loss};

use crate::failure::misuse;

/// Frames that may wait for a slow link.
const QUEUE: usize = 100;
/// Octets of an Ethernet header.
const FRAMING: usize = 14;

/// Join two Ethernet interfaces by a link that is slow, late and lossy.
///
/// The interfaces are named as `ip link` shows them, or NETNS:INTERFACE for one in a named network
/// namespace. Whole frames go across, so the two look like the ends of one cable. Nothing about the
/// interfaces changes for good. The link is the simulator's own: what is lost depends on the seed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway link veth0 radio:veth1 --rate 300kbit --delay 50ms --loss 10% --ba-loss 'gilbert-elliott(mean=20%,burst=4)'")]
pub struct Args {
    /// One end: INTERFACE or NETNS:INTERFACE.
    pub a: End,
    /// The other end.
    pub b: End,

    /// Bits a second: 300kbit, 1.5mbit, unlimited [default: unlimited].
    #[arg(long)]
    rate: Option<BitRate>,
    /// How long a frame travels: 50ms [default: 0].
    #[arg(long)]
    delay: Option<Span>,
    /// The delay varies by this much either way, at most by the delay; its mean stays [default: 0].
    #[arg(long)]
    jitter: Option<Span>,
    /// Which frames are lost: 10%, gilbert-elliott(mean=10%,burst=4), fades(mean=10%,length=20ms),
    /// trace(00010) [default: none].
    #[arg(long)]
    loss: Option<Loss>,
    /// Frames that may wait while another is sent [default: 100].
    #[arg(long, value_name = "FRAMES")]
    queue: Option<usize>,
    /// Octets sent with each packet in place of Ethernet's header [default: 14].
    #[arg(long, value_name = "OCTETS")]
    framing: Option<usize>,
    /// Let jitter change the order of frames.
    #[arg(long)]
    reorder: bool,

    /// What the random choices derive from; without it, another each time.
    #[arg(long)]
    pub seed: Option<u64>,
    /// End after this long: 10s. Without it, at Ctrl-C.
    #[arg(long)]
    pub duration: Option<Span>,
    /// Print the statistics at the end as one JSON object.
    #[arg(long)]
    pub json: bool,

    #[command(flatten, next_help_heading = "Only from A to B")]
    ab: FromAToB,
    #[command(flatten, next_help_heading = "Only from B to A")]
    ba: FromBToA,
}

#[derive(Debug, clap::Args)]
struct FromAToB {
    #[arg(long, value_name = "RATE")]
    ab_rate: Option<BitRate>,
    #[arg(long, value_name = "DELAY")]
    ab_delay: Option<Span>,
    #[arg(long, value_name = "JITTER")]
    ab_jitter: Option<Span>,
    #[arg(long, value_name = "LOSS")]
    ab_loss: Option<Loss>,
    #[arg(long, value_name = "FRAMES")]
    ab_queue: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct FromBToA {
    #[arg(long, value_name = "RATE")]
    ba_rate: Option<BitRate>,
    #[arg(long, value_name = "DELAY")]
    ba_delay: Option<Span>,
    #[arg(long, value_name = "JITTER")]
    ba_jitter: Option<Span>,
    #[arg(long, value_name = "LOSS")]
    ba_loss: Option<Loss>,
    #[arg(long, value_name = "FRAMES")]
    ba_queue: Option<usize>,
}

impl Args {
    /// Both directions, from A to B and from B to A.
    pub fn directions(&self, seed: u64) -> anyhow::Result<[Direction; 2]> {
        let Self { ab, ba, .. } = self;
        let ab = self.direction(
            (ab.ab_rate, ab.ab_delay, ab.ab_jitter, ab.ab_loss.as_ref(), ab.ab_queue),
            Rng::stream(seed, "link from A to B"),
        )?;
        let ba = self.direction(
            (ba.ba_rate, ba.ba_delay, ba.ba_jitter, ba.ba_loss.as_ref(), ba.ba_queue),
            Rng::stream(seed, "link from B to A"),
        )?;
        Ok([ab, ba])
    }

    fn direction(&self, own: Overrides<'_>, rng: Rng) -> anyhow::Result<Direction> {
        let (rate, delay, jitter, loss, queue) = own;
        let span = |own: Option<Span>, both: Option<Span>| {
            own.or(both).map_or(Duration::ZERO, |Span(duration)| duration)
        };
        let config = Config {
            rate: rate.or(self.rate).unwrap_or_default(),
            delay: span(delay, self.delay),
            jitter: span(jitter, self.jitter),
            reorder: self.reorder,
            loss: loss.or(self.loss.as_ref()).cloned().unwrap_or_default(),
            framing: self.framing.unwrap_or(FRAMING),
            ..Config::default()
        };
        config.check().map_err(misuse)?;
        Ok(Direction::new(config, queue.or(self.queue).unwrap_or(QUEUE), rng))
    }
}

/// Settings for one direction only.
type Overrides<'a> = (Option<BitRate>, Option<Span>, Option<Span>, Option<&'a Loss>, Option<usize>);
