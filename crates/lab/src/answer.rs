//! The answers that measurements can give to a question: yes, no, or unknown.
//!
//! Verdicts are written with these answers and follow one rule: a claim holds only when that is shown,
//! and differs only when the contrary is shown.

use std::fmt;

/// What the runs say to a question. Ordered, so that "and" is the least and "or" the greatest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Answer {
    /// The contrary is shown.
    No,
    /// The runs are too few to tell.
    Undecided,
    /// It is shown.
    Yes,
}

impl Answer {
    /// Yes where both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }

    /// Yes where one is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.max(other)
    }

    /// Whether every answer is yes; no answers at all are a yes.
    #[must_use]
    pub fn all(answers: impl IntoIterator<Item = Self>) -> Self {
        answers.into_iter().min().unwrap_or(Self::Yes)
    }

    /// Whether one answer is yes; no answers at all are a no.
    #[must_use]
    pub fn any(answers: impl IntoIterator<Item = Self>) -> Self {
        answers.into_iter().max().unwrap_or(Self::No)
    }

    /// Yes where this is no.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Undecided => Self::Undecided,
            Self::Yes => Self::No,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::Undecided => "undecided",
            Self::Yes => "yes",
        })
    }
}

/// One thing that has to be so for a claim to hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// The condition, with its numbers.
    pub what: String,
    /// Whether it is so.
    pub answer: Answer,
}

impl Check {
    /// Asks whether `what` is so.
    pub fn new(what: impl Into<String>, answer: Answer) -> Self {
        Self { what: what.into(), answer }
    }
}

/// Checks that are named in a reason of each answer.
const NAMED: usize = 6;

/// Whether all of them hold.
#[must_use]
pub fn holds(checks: &[Check]) -> Answer {
    Answer::all(checks.iter().map(|check| check.answer))
}

/// The checks by their answers, those that decide the verdict first.
#[must_use]
pub fn reason(checks: &[Check]) -> String {
    let groups = [
        (Answer::No, "Not so"),
        (Answer::Undecided, "These runs cannot tell"),
        (Answer::Yes, "Shown"),
    ];
    let told = groups.into_iter().filter_map(|(answer, title)| {
        let all: Vec<&str> = checks
            .iter()
            .filter(|check| check.answer == answer)
            .map(|check| check.what.as_str())
            .collect();
        let (named, more) = all.split_at(all.len().min(NAMED));
        let more = if more.is_empty() { String::new() } else { format!("; {} more", more.len()) };
        (!named.is_empty()).then(|| format!("{title}: {}{more}", named.join("; ")))
    });
    told.collect::<Vec<_>>().join(". ")
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Our measurement is better than the claim.
    Beaten,
    /// We measure something else.
    Differs,
    /// We measure what is claimed.
    Reproduced,
    /// The runs are too few to tell.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beaten => "beaten",
            Self::Differs => "differs",
            Self::Reproduced => "reproduced",
            Self::Undecided => "undecided",
        })
    }
}

impl Verdict {
    /// The verdict on a claim with only this condition.
    #[must_use]
    pub fn of(claimed: Answer) -> Self {
        Self::or_beaten(claimed, Answer::No)
    }

    /// The same where there is something better than what is claimed.
    #[must_use]
    pub fn or_beaten(claimed: Answer, better: Answer) -> Self {
        match (claimed, better) {
            (Answer::Yes, _) => Self::Reproduced,
            (Answer::No, Answer::Yes) => Self::Beaten,
            (Answer::No, Answer::No) => Self::Differs,
            (Answer::Undecided, _) | (Answer::No, Answer::Undecided) => Self::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer::{No, Undecided, Yes};
    use super::*;

    #[test]
    fn what_is_not_known_decides_only_where_the_rest_does_not() {
        assert_eq!([Undecided.and(No), Undecided.and(Yes)], [No, Undecided]);
        assert_eq!([Undecided.or(No), Undecided.or(Yes)], [Undecided, Yes]);
        assert_eq!([No, Undecided, Yes].map(Answer::negated), [Yes, Undecided, No]);
        assert_eq!([Answer::all([]), Answer::any([])], [Yes, No]);
    }

    #[test]
    fn a_verdict_needs_what_is_shown() {
        assert_eq!(
            [Yes, No, Undecided].map(Verdict::of),
            [Verdict::Reproduced, Verdict::Differs, Verdict::Undecided]
        );
        assert_eq!(Verdict::or_beaten(No, Yes), Verdict::Beaten);
        for (claimed, better) in [(No, Undecided), (Undecided, Yes), (Undecided, No)] {
            assert_eq!(Verdict::or_beaten(claimed, better), Verdict::Undecided);
        }
    }

    #[test]
    fn a_reason_begins_with_what_is_not_so() {
        let checks = [("a", Yes), ("b", No), ("c", Undecided), ("d", Yes)];
        let checks = checks.map(|(what, answer)| Check::new(what, answer));

        assert_eq!(reason(&checks), "Not so: b. These runs cannot tell: c. Shown: a; d");
        assert_eq!(holds(&checks), No);
    }
}
