//! Outages: the times when a link is down.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::time::Time;

/// Spans of time during which nothing gets through: in order, none empty, none touching another.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outages(Arc<[Range<Time>]>);

impl Outages {
    /// Checks that the spans are in order and apart.
    pub fn new(spans: impl Into<Arc<[Range<Time>]>>) -> Result<Self, BadOutages> {
        let spans = spans.into();
        if let Some(empty) = spans.iter().find(|span| span.is_empty()) {
            return Err(BadOutages::Empty { at: empty.start });
        }
        if let Some(pair) = spans.windows(2).find(|pair| pair[1].start <= pair[0].end) {
            return Err(BadOutages::Order { at: pair[1].start });
        }
        Ok(Self(spans))
    }

    /// Whether the link is down now.
    #[must_use]
    pub fn is_down(&self, now: Time) -> bool {
        let next = self.0.partition_point(|span| span.end <= now);
        self.0.get(next).is_some_and(|span| span.start <= now)
    }

    /// When the link next goes down or up, later than now.
    #[must_use]
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let next = self.0.partition_point(|span| span.end <= now);
        let span = self.0.get(next)?;
        Some(if span.start > now { span.start } else { span.end })
    }

    /// The same, each so much later.
    #[must_use]
    pub fn later(&self, by: Duration) -> Self {
        Self(self.0.iter().map(|span| span.start + by..span.end + by).collect())
    }

    /// The spans, in order.
    #[must_use]
    pub fn spans(&self) -> &[Range<Time>] {
        &self.0
    }
}

/// Why spans are not a list of outages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BadOutages {
    #[error("the outage at {at} s ends before it begins")]
    Empty { at: Time },
    #[error("the outage at {at} s begins before the one before it has ended")]
    Order { at: Time },
}
