//! Comparison of measured figures with published ones, for radios of different key-up times.
//!
//! A radio that is slow from the command to transmit until it does so makes every turnaround longer.
//! The radio of the published figures is unknown, so ours are judged with several.

use std::fmt;
use std::time::Duration;

use super::key_ups;
use crate::prelude::*;

/// Figures that differ by no more than this share of the published one are tied. The white paper's own
/// two figures of STANAG 5066 on a clear link, 92.1 and 93 %, differ by as much.
const TIE: f64 = 0.01;
/// The most figures that a verdict names.
const NAMED: usize = 4;

/// The comparison of a figure with the published one, the worst first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Standing {
    Missed,
    /// The runs are too few to decide whether it is missed.
    Undecided,
    Tied,
    Beaten,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missed => "missed",
            Self::Tied => "tied",
            Self::Undecided => "undecided",
            Self::Beaten => "beaten",
        })
    }
}

/// A figure of ours beside the published one.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Both figures and their place, as text.
    pub what: String,
    pub standing: Standing,
}

impl Compared {
    /// A figure that is better if it is larger.
    pub fn share(place: &str, ours: &Estimate, theirs: f64) -> Self {
        let what = format!("{:.3} of {theirs:.3} {place}", ours.mean);
        let standing = standing(ours.low() - theirs, ours.high() - theirs, TIE * theirs);
        Self { what, standing }
    }

    /// A time in seconds, which is better if it is shorter; `measured` is its text.
    pub fn time(place: &str, measured: &str, ours: &Estimate, theirs: f64) -> Self {
        Self::rounded_time(place, measured, ours, theirs, 0.0)
    }

    /// The same where all times are published as multiples of `step` seconds: what they were rounded from
    /// may be half a step away.
    pub fn rounded_time(
        place: &str,
        measured: &str,
        ours: &Estimate,
        theirs: f64,
        step: f64,
    ) -> Self {
        let what = format!("{measured} s of {theirs} s {place}");
        let tie = (TIE * theirs).max(step / 2.0);
        let standing = standing(theirs - ours.high(), theirs - ours.low(), tie);
        Self { what, standing }
    }
}

/// The comparison for an advantage with this confidence interval, which is none up to `tie`.
fn standing(least: f64, most: f64, tie: f64) -> Standing {
    if least > tie {
        Standing::Beaten
    } else if most < -tie {
        Standing::Missed
    } else if least >= -tie {
        Standing::Tied
    } else {
        Standing::Undecided
    }
}

/// All judged figures of stations with the same key-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    pub key_up: Duration,
    pub figures: Vec<Compared>,
}

/// The radios that are compared, each with its figures.
pub fn radios<F: IntoIterator<Item = Compared>>(
    figures: impl Fn(Duration) -> F,
) -> [Radio; key_ups::COUNT] {
    key_ups::key_ups().map(|key_up| {
        let figures = figures(key_up).into_iter().collect();
        Radio { key_up, figures }
    })
}

impl Radio {
    /// The worst comparison of a figure.
    pub fn standing(&self) -> Standing {
        self.figures.iter().map(|it| it.standing).min().unwrap_or(Standing::Tied)
    }

    /// Counts the figures with this comparison.
    pub fn count(&self, standing: Standing) -> usize {
        self.figures.iter().filter(|it| it.standing == standing).count()
    }

    /// The figures with the worst comparison, as text.
    fn worst(&self) -> String {
        let standing = self.standing();
        let worst: Vec<&str> = self
            .figures
            .iter()
            .filter(|it| it.standing == standing)
            .map(|it| it.what.as_str())
            .collect();
        let (named, more) = worst.split_at(worst.len().min(NAMED));
        match more.len() {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// The verdict over all radios, the fastest first. Only radios count that are no slower than the
/// published figures imply for theirs.
pub fn verdict(radios: &[Radio]) -> Verdict {
    let comparable = radios.iter().filter(|it| it.key_up <= key_ups::as_published());
    match comparable.map(Radio::standing).min() {
        Some(Standing::Beaten) => Verdict::Beaten,
        Some(Standing::Tied) => Verdict::Reproduced,
        Some(Standing::Undecided) => Verdict::Undecided,
        Some(Standing::Missed) | None => Verdict::Differs,
    }
}

/// The reason of the verdict: the radios with which figures are beaten, tied and missed.
pub fn reason(radios: &[Radio]) -> String {
    let groups: Vec<&[Radio]> =
        radios.chunk_by(|one, next| one.standing() == next.standing()).collect();
    let told = groups.iter().enumerate().filter_map(|(place, group)| {
        let (first, last) = (group.first()?, group.last()?);
        let standing = first.standing();
        let which = match (place, place + 1 == groups.len()) {
            (0, true) => "with every key-up".to_owned(),
            (0, false) => format!("up to a key-up of {}", seconds(last.key_up)),
            (_, true) => format!("from a key-up of {} on", seconds(first.key_up)),
            (_, false) if group.len() == 1 => format!("with {}", seconds(first.key_up)),
            (_, false) => format!("from {} to {}", seconds(first.key_up), seconds(last.key_up)),
        };
        Some(match standing {
            Standing::Beaten => format!("beaten {which}"),
            Standing::Missed | Standing::Tied | Standing::Undecided => {
                format!("{standing} {which} ({})", first.worst())
            }
        })
    });
    told.collect::<Vec<_>>().join("; ")
}

/// A table with a column for each key-up. Each of `rows` has its leading cells, the published figure, and what is
/// measured with a key-up.
pub fn table<F: Fn(Duration) -> String>(
    title: &str,
    lead: &[&str],
    rows: impl Iterator<Item = (Vec<String>, String, F)>,
) -> Table {
    let lead = lead.iter().map(|&it| it.to_owned());
    let head = lead.chain(key_ups::key_ups().map(seconds)).chain(["published".to_owned()]);
    let rows = rows.map(|(lead, published, measured)| {
        lead.into_iter().chain(key_ups::key_ups().map(measured)).chain([published]).collect()
    });
    Table::list(format!("{title}, by key-up"), head, rows)
}

/// A key-up as text.
pub fn seconds(key_up: Duration) -> String {
    format!("{} s", key_up.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(mean: f64) -> Estimate {
        Estimate { runs: 2, ..Estimate::exact(mean) }
    }

    /// A radio with a figure that is published as 0.8.
    fn radio(key_up: f64, ours: &[f64]) -> Radio {
        let figures = ours.iter().map(|&it| Compared::share("somewhere", &exact(it), 0.8));
        Radio { key_up: Duration::from_secs_f64(key_up), figures: figures.collect() }
    }

    #[test]
    fn the_reason_names_the_key_ups_from_which_on_figures_are_tied_and_missed() {
        let radios =
            [radio(0.2, &[0.9]), radio(1.0, &[0.85]), radio(2.0, &[0.795]), radio(5.0, &[0.7])];

        assert_eq!(
            reason(&radios),
            "beaten up to a key-up of 1 s; tied with 2 s (0.795 of 0.800 somewhere); missed from a \
             key-up of 5 s on (0.700 of 0.800 somewhere)"
        );
        assert_eq!(reason(&radios[..2]), "beaten with every key-up");
    }

    #[test]
    fn a_figure_that_only_fast_radios_beat_is_not_beaten() {
        let like_published = key_ups::as_published().as_secs_f64();
        let fast = radio(0.2, &[0.9, 0.9]);
        let among = |ours: [f64; 2]| {
            verdict(&[fast.clone(), radio(like_published, &ours), radio(60.0, &[0.1])])
        };

        assert_eq!(among([0.9, 0.9]), Verdict::Beaten);
        assert_eq!(among([0.9, 0.803]), Verdict::Reproduced);
        assert_eq!(among([0.9, 0.7]), Verdict::Differs);
        let mut unsure = radio(like_published, &[0.9]);
        unsure.figures[0].standing = Standing::Undecided;
        assert_eq!(verdict(&[fast.clone(), unsure]), Verdict::Undecided);
    }

    #[test]
    fn a_mixed_outcome_is_named_by_its_worst_figure() {
        let mixed = [radio(0.2, &[0.9, 0.7, 0.8])];

        assert_eq!(verdict(&mixed), Verdict::Differs);
        assert_eq!(reason(&mixed), "missed with every key-up (0.700 of 0.800 somewhere)");
        assert_eq!(mixed[0].count(Standing::Beaten), 1);
    }

    #[test]
    fn a_difference_counts_only_beyond_the_tie_and_the_interval() {
        let unsure = Estimate { ci95: Some(0.1), ..exact(0.85) };
        let unended = Estimate { ci95: None, censored: 1, ..exact(3.0) };
        let single = Estimate { ci95: None, runs: 1, ..exact(0.9) };
        let share = |ours| Compared::share("", &ours, 0.8).standing;
        let time = |ours| Compared::time("", "", &ours, 10.0).standing;

        assert_eq!([share(exact(0.809)), share(exact(0.807))], [Standing::Beaten, Standing::Tied]);
        assert_eq!([share(exact(0.791)), share(exact(0.793))], [Standing::Missed, Standing::Tied]);
        assert_eq!([time(exact(9.8)), time(exact(10.2))], [Standing::Beaten, Standing::Missed]);
        let rounded = |ours| Compared::rounded_time("", "", &ours, 3.0, 1.0).standing;
        assert_eq!(
            [2.4, 2.6, 3.4, 3.6].map(|ours| rounded(exact(ours))),
            [Standing::Beaten, Standing::Tied, Standing::Tied, Standing::Missed]
        );
        assert_eq!([share(unsure), share(single), time(unended)], [Standing::Undecided; 3]);
    }
}
