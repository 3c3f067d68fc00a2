//! Loss models: decide which packets a link loses.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base::quantity::{BadQuantity, Probability, Span, UNCLEAR, decimal};
use base::rng::Rng;
use base::time::Time;

/// How packets come to be lost.
///
/// Written `none`, `10%`, `fades(mean=10%,length=20ms)`, `gilbert-elliott(mean=10%,burst=4)`,
/// `gilbert-elliott(p=1%,r=25%,h=0,k=1)` or `trace(00010)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// While the signal is gone, however many packets that is.
    Fades(Fades),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// Not at all.
    #[default]
    None,
    /// Each on its own.
    Random(Probability),
    /// Where the list says so, from its beginning again once it ends.
    Trace(Arc<[bool]>),
}

impl Loss {
    /// Each packet is lost with this probability, on its own.
    #[must_use]
    pub fn random(p: Probability) -> Self {
        if p == Probability::ZERO { Self::None } else { Self::Random(p) }
    }

    /// The share of packets lost in the long run.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fades(fades) => fades.mean.get(),
            Self::GilbertElliott(model) => model.mean(),
            Self::None => 0.0,
            Self::Random(p) => p.get(),
            Self::Trace(lost) if lost.is_empty() => 0.0,
            Self::Trace(lost) => {
                lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
            }
        }
    }
}

/// Fades: spans of time, all of one length, in which whatever begins to be sent is lost.
///
/// ```text
///   ──────────┐      ┌────┐      ┌──────
///             └──────┘    └──────┘          between them exponential, mean length (1 - p) / p
///              length
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fades {
    /// The share of time in fades, below 1.
    mean: Probability,
    /// How long each takes, at least [`MIN_FADE`].
    length: Duration,
}

/// Shorter fades are hardly longer than a packet, and the way over a long silence is long.
const MIN_FADE: Duration = Duration::from_micros(100);
/// The longest pause, practically endless.
const MAX_PAUSE: Duration = Duration::from_secs(1 << 30);

impl Fades {
    /// Creates fades of the given length and share of time.
    pub fn new(mean: Probability, length: Duration) -> Result<Self, BadLoss> {
        if mean == Probability::ONE || length < MIN_FADE {
            return Err(BadLoss::Fades);
        }
        Ok(Self { mean, length })
    }

    /// How long it is from one to the next.
    fn pause(&self, rng: &mut Rng) -> Duration {
        let odds = self.mean.get() / (1.0 - self.mean.get());
        let mean = Duration::try_from_secs_f64(self.length.as_secs_f64() / odds);
        rng.exponential(mean.unwrap_or(MAX_PAUSE).min(MAX_PAUSE))
    }
}

/// The Gilbert-Elliott chain: a good and a bad state, each with its own loss.
///
/// ```text
///             p ──▶
///       good         bad        delivers with k in the good state, with h in the bad one
///             ◀── r
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad, after each packet.
    pub p: Probability,
    /// From bad to good, after each packet.
    pub r: Probability,
    /// A packet arrives in the bad state.
    pub h: Probability,
    /// A packet arrives in the good state.
    pub k: Probability,
}

impl GilbertElliott {
    /// The chain that loses whole bursts: nothing in the good state, everything in the bad one.
    pub fn from_bursts(mean: Probability, burst: f64) -> Result<Self, BadLoss> {
        let odds = mean.get() / (1.0 - mean.get());
        let r = (burst >= 1.0).then(|| Probability::new(1.0 / burst)).flatten();
        let r = r.filter(|r| r.get() > 0.0).ok_or(BadLoss::Burst)?;
        let p = Probability::new(odds * r.get()).ok_or(BadLoss::Mean)?;
        Ok(Self { p, r, h: Probability::ZERO, k: Probability::ONE })
    }

    /// The share of packets lost in the long run.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let bad = self.share_bad();
        (1.0 - bad) * (1.0 - self.k.get()) + bad * (1.0 - self.h.get())
    }

    /// The share of packets sent in the bad state.
    #[must_use]
    pub fn share_bad(&self) -> f64 {
        let (p, r) = (self.p.get(), self.r.get());
        if p == 0.0 { 0.0 } else { p / (p + r) }
    }
}

/// The decisions of a [`Loss`], one a packet.
#[derive(Clone, Debug)]
pub struct LossProcess {
    rng: Rng,
    bad: bool,
    next: usize,
    /// When the present fade ends, or the next one will.
    fade_end: Time,
}

impl LossProcess {
    pub fn new(model: &Loss, mut rng: Rng) -> Self {
        // From the stationary distribution, so that short runs have the right mean too.
        let bad = matches!(model, Loss::GilbertElliott(model) if rng.chance(model.share_bad()));
        let fade_end = match model {
            Loss::Fades(fades) if rng.chance(fades.mean.get()) => {
                Time::ZERO + rng.within(fades.length)
            }
            Loss::Fades(fades) => Time::ZERO + fades.pause(&mut rng) + fades.length,
            Loss::GilbertElliott(_) | Loss::None | Loss::Random(_) | Loss::Trace(_) => Time::ZERO,
        };
        Self { rng, bad, next: 0, fade_end }
    }

    /// Forgets the state of the model, but not the place in the stream of random numbers.
    pub fn begin_anew(&mut self) {
        (self.bad, self.next, self.fade_end) = (false, 0, Time::ZERO);
    }

    /// Whether the next packet is lost, whose sending begins now; `now` never goes back.
    pub fn next(&mut self, now: Time, model: &Loss) -> bool {
        match model {
            Loss::Fades(fades) => {
                while self.fade_end <= now {
                    self.fade_end = self.fade_end + fades.pause(&mut self.rng) + fades.length;
                }
                self.fade_end.since(now) <= fades.length
            }
            Loss::GilbertElliott(chain) => {
                let (arrives, turns) =
                    if self.bad { (chain.h, chain.r) } else { (chain.k, chain.p) };
                let lost = !self.rng.chance(arrives.get());
                self.bad ^= self.rng.chance(turns.get());
                lost
            }
            Loss::None => false,
            Loss::Random(p) => self.rng.chance(p.get()),
            Loss::Trace(trace) => {
                let lost = trace.get(self.next).copied().unwrap_or(false);
                self.next = (self.next + 1) % trace.len().max(1);
                lost
            }
        }
    }
}

impl FromStr for Loss {
    type Err = BadLoss;

    fn from_str(text: &str) -> Result<Self, BadLoss> {
        let text = text.trim();
        let call = text.strip_suffix(')').and_then(|text| text.split_once('('));
        match call.map(|(name, inside)| (name.trim(), inside)) {
            None if text == "none" => Ok(Self::None),
            None if text == "1" => Err(BadLoss::Unclear),
            None if text.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                Ok(Self::random(text.parse()?))
            }
            Some(("fades", inside)) => parse_fades(inside).map(Self::Fades),
            Some(("gilbert-elliott", inside)) => parse_chain(inside).map(Self::GilbertElliott),
            Some(("trace", inside)) => parse_trace(inside).map(Self::Trace),
            None | Some(_) => Err(BadLoss::Model { text: text.to_owned() }),
        }
    }
}

fn parse_fades(inside: &str) -> Result<Fades, BadLoss> {
    let [mut mean, mut length] = [None; 2];
    for part in inside.split(',') {
        let (key, value) = part.split_once('=').ok_or(BadLoss::Fades)?;
        let place = match key.trim() {
            "length" => &mut length,
            "mean" => &mut mean,
            _ => return Err(BadLoss::Fades),
        };
        if place.replace(value).is_some() {
            return Err(BadLoss::Fades);
        }
    }

    let (Some(mean), Some(length)) = (mean, length) else { return Err(BadLoss::Fades) };
    let Span(length) = length.parse()?;
    Fades::new(mean.parse()?, length)
}

fn parse_chain(inside: &str) -> Result<GilbertElliott, BadLoss> {
    let [mut mean, mut burst, mut p, mut r, mut h, mut k] = [None; 6];
    for part in inside.split(',') {
        let (key, value) = part.split_once('=').ok_or(BadLoss::Parameters)?;
        let place = match key.trim() {
            "burst" => &mut burst,
            "h" => &mut h,
            "k" => &mut k,
            "mean" => &mut mean,
            "p" => &mut p,
            "r" => &mut r,
            _ => return Err(BadLoss::Parameters),
        };
        if place.replace(value).is_some() {
            return Err(BadLoss::Parameters);
        }
    }

    let or = |value: Option<&str>, default| value.map_or(Ok(default), str::parse);
    match (mean, burst, p, r, h, k) {
        (Some(mean), Some(burst), None, None, None, None) => {
            GilbertElliott::from_bursts(mean.parse()?, decimal(burst).ok_or(BadLoss::Burst)?)
        }
        (None, None, Some(p), Some(r), h, k) => Ok(GilbertElliott {
            p: p.parse()?,
            r: r.parse()?,
            h: or(h, Probability::ZERO)?,
            k: or(k, Probability::ONE)?,
        }),
        _ => Err(BadLoss::Parameters),
    }
}

fn parse_trace(inside: &str) -> Result<Arc<[bool]>, BadLoss> {
    let lost = inside.trim().chars().map(|packet| match packet {
        '0' => Ok(false),
        '1' => Ok(true),
        _ => Err(BadLoss::Trace),
    });
    let lost = lost.collect::<Result<Arc<[bool]>, BadLoss>>()?;
    if lost.is_empty() { Err(BadLoss::Trace) } else { Ok(lost) }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fades(Fades { mean, length }) => {
                write!(f, "fades(mean={mean},length={})", Span(*length))
            }
            Self::GilbertElliott(GilbertElliott { p, r, h, k }) => {
                write!(f, "gilbert-elliott(p={p},r={r},h={h},k={k})")
            }
            Self::None => f.write_str("none"),
            Self::Random(p) => p.fmt(f),
            Self::Trace(lost) => {
                f.write_str("trace(")?;
                for lost in lost.iter() {
                    f.write_str(if *lost { "1" } else { "0" })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Why a text or a pair of numbers is not a loss model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BadLoss {
    #[error("a mean burst has at least 1 packet")]
    Burst,
    #[error("fades takes mean, below 100%, and length, at least 100us")]
    Fades,
    #[error("such a mean loss needs longer bursts: mean / (1 - mean) is at most the burst")]
    Mean,
    #[error(
        "\"{text}\" is not a loss: none, a probability such as 10%, \
         fades(mean=10%,length=20ms), gilbert-elliott(mean=10%,burst=4), \
         gilbert-elliott(p=1%,r=25%,h=0,k=1) or trace(00010)"
    )]
    Model { text: String },
    #[error("gilbert-elliott takes mean and burst, or p and r with h (else 0) and k (else 1)")]
    Parameters,
    #[error(transparent)]
    Probability(#[from] BadQuantity),
    #[error("{UNCLEAR}")]
    Unclear,
    #[error("a trace is a list of 0 (arrives) and 1 (lost), one a packet")]
    Trace,
}
