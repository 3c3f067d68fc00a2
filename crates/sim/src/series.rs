//! A number over time, in bounded memory.

use base::time::Time;

/// The changes of a number; when there are too many, every other one is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Series {
    limit: usize,
    points: Vec<(Time, u64)>,
    /// Every `stride`-th change is kept.
    stride: u64,
    changes: u64,
    last: Option<u64>,
}

impl Series {
    /// Keeps at most `limit` points; with 0 none.
    pub fn new(limit: usize) -> Self {
        Self { limit, points: Vec::with_capacity(limit), stride: 1, changes: 0, last: None }
    }

    pub fn add(&mut self, now: Time, value: u64) {
        if self.limit == 0 || self.last == Some(value) {
            return;
        }
        self.last = Some(value);
        if self.changes.is_multiple_of(self.stride) {
            if self.points.len() == self.limit {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.points.push((now, value));
        }
        self.changes += 1;
    }

    pub fn points(&self) -> &[(Time, u64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_not_cut() {
        let mut series = Series::new(8);

        for n in 0..1_000 {
            series.add(Time::from_nanos(n), n);
        }

        let points = series.points();
        assert!((4..=8).contains(&points.len()));
        assert_eq!(points[0], (Time::ZERO, 0));
        assert!(points[points.len() - 1].1 > 700);
    }
}
