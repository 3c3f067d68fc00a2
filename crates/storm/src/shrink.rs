//! Shrinks a course that breaks a rule: fewer events, fewer nodes, usual limits, a calmer medium, shorter spans.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use crate::course::{Course, Event, Medium};

/// The number of instants after which shrinking begins no further run.
const MOST_INSTANTS: usize = 5_000_000;
/// Other actions tried in the place of two actions.
const OTHERS: u64 = 4;
/// The shortest partition and stall to which longer ones are halved.
const SHORTEST: Duration = Duration::from_secs(1);

impl Course {
    /// The shortest course found that breaks the rule `broken`.
    #[must_use]
    pub fn shrink(&self, broken: &str) -> Self {
        let rule = |why: &str| why.split(':').next().unwrap_or_default().to_owned();
        let wanted = rule(broken);
        let mut instants = 0;
        self.shrink_while(|course| {
            if instants > MOST_INSTANTS {
                return false;
            }
            let ran = course.run(None, None);
            instants += ran.instants;
            ran.broken.is_some_and(|(_, why)| rule(&why) == wanted)
        })
    }

    /// The shortest course found for which `breaks` holds; this course is the first.
    ///
    /// Whatever makes a course simpler may allow a further step, so all steps are repeated until none succeeds.
    pub(crate) fn shrink_while(&self, breaks: impl FnMut(&Self) -> bool) -> Self {
        let mut search = Search { best: self.clone(), breaks };
        loop {
            let before = search.best.clone();
            search.drop_events();
            search.drop_nodes();
            search.simplify();
            search.merge_actions();
            search.shorten();
            if search.best == before {
                return before;
            }
        }
    }
}

/// The search for a shorter course.
struct Search<B> {
    best: Course,
    breaks: B,
}

impl<B: FnMut(&Course) -> bool> Search<B> {
    /// Keeps a simpler course if it breaks the rule too; returns whether it does.
    fn keep(&mut self, simpler: Course) -> bool {
        let is_kept = simpler != self.best && (self.breaks)(&simpler);
        if is_kept {
            self.best = simpler;
        }
        is_kept
    }

    /// Drops halves of the events, then quarters, and so on down to single events.
    fn drop_events(&mut self) {
        let mut step = self.best.events.len().div_ceil(2);
        while step > 0 {
            // The last events first: what follows the broken rule is gone at once.
            let mut end = self.best.events.len();
            while end > 0 {
                let begin = end.saturating_sub(step);
                let mut fewer = self.best.clone();
                fewer.events.drain(begin..end);
                self.keep(fewer);
                end = begin;
            }
            step /= 2;
        }
    }

    /// Drops the last node with all events that concern it.
    fn drop_nodes(&mut self) {
        while self.best.nodes > 2 {
            let mut fewer = self.best.clone();
            fewer.nodes -= 1;
            fewer.events.retain(|(.., event)| event.greatest_node() < fewer.nodes);
            if !self.keep(fewer) {
                return;
            }
        }
    }

    /// Restores the usual limits. Then removes all faults of the medium, or each fault that the broken rule can spare.
    fn simplify(&mut self) {
        self.keep(Course { has_limits: false, ..self.best.clone() });
        for calmer in [
            |medium: Medium| medium.calm(),
            |medium: Medium| Medium { loss: 0.0, ..medium },
            |medium: Medium| Medium { duplicates: 0.0, ..medium },
            |medium: Medium| Medium { jitter: 0.0, ..medium },
            |medium: Medium| Medium { burst: 1.0, ..medium },
            |medium: Medium| Medium { skew: 0.0, ..medium },
        ] {
            self.keep(Course { medium: calmer(self.best.medium), ..self.best.clone() });
        }
    }

    /// Replaces two successive actions of a node by one newly drawn action, because either of the two alone seldom
    /// does as much as both.
    fn merge_actions(&mut self) {
        let mut at = self.best.events.len();
        while at > 0 {
            at -= 1;
            // Two events may have gone at once.
            let Some(&(_, _, Event::Act(node, _))) = self.best.events.get(at) else { continue };
            let is_its = |(.., event): &(usize, Time, Event)| matches!(event, Event::Act(of, _) if *of == node);
            let Some(before) = self.best.events[..at].iter().rposition(is_its) else { continue };
            for other in 0..OTHERS {
                let mut fewer = self.best.clone();
                let (place, ..) = fewer.events.remove(at);
                let seed = Rng::stream(fewer.seed, &format!("merge {place} {other}")).bits();
                fewer.events[before].2 = Event::Act(node, seed);
                if self.keep(fewer) {
                    break;
                }
            }
        }
    }

    /// Halves partitions and stalls, and ends the faults sooner.
    fn shorten(&mut self) {
        for at in 0..self.best.events.len() {
            loop {
                let mut shorter = self.best.clone();
                let event = &mut shorter.events[at].2;
                let (Event::Partition(.., span) | Event::Stall(_, span)) = event else { break };
                if *span < 2 * SHORTEST {
                    break;
                }
                *span /= 2;
                if !self.keep(shorter) {
                    break;
                }
            }
        }
        let last = self.best.events.last().map_or(Time::ZERO, |(_, at, _)| *at);
        let last = last.since(Time::ZERO);
        loop {
            let rest = self.best.span.saturating_sub(last);
            let is_kept = rest >= 2 * SHORTEST
                && self.keep(Course { span: last + rest / 2, ..self.best.clone() });
            if !is_kept {
                return;
            }
        }
    }
}
