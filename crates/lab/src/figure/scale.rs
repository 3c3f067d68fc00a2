//! Scales that map values to places on the paper.

use super::Axis;

/// How values are placed on an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are equally far apart. Values that are not positive stand at its low end.
    Log,
}

/// An axis with its ends and its ticks.
#[derive(Clone, Debug)]
pub struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    /// The values that are named on the axis.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// A ruler for `axis` that holds all `values`; `steps` is about how many ticks there is room for.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, steps: f64) -> Self {
        let usable = values
            .filter(|value| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0));
        let all = usable.chain(axis.ticks.iter().flatten().copied());
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };

        let mut ruler = match axis.scale {
            Scale::Linear => linear(if axis.from_zero { low.min(0.0) } else { low }, high, steps),
            Scale::Log => logarithmic(low, high),
        };
        if let Some(ticks) = &axis.ticks {
            ruler.ticks.clone_from(ticks);
            if low < high {
                // Nobody asked for round ends.
                (ruler.low, ruler.high) = (ruler.low.max(low), high);
            }
        }
        ruler
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let (value, low, high) = match self.scale {
            Scale::Linear => (value, self.low, self.high),
            Scale::Log => (value.max(self.low).ln(), self.low.ln(), self.high.ln()),
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The same ruler with a margin at both ends, so that no mark sits on the frame.
    pub fn padded(self, share: f64) -> Self {
        match self.scale {
            Scale::Linear => {
                let pad = (self.high - self.low) * share;
                Self { low: self.low - pad, high: self.high + pad, ..self }
            }
            Scale::Log => {
                let pad = (self.high / self.low).powf(share);
                Self { low: self.low / pad, high: self.high * pad, ..self }
            }
        }
    }
}

/// Ends at round numbers, with ticks at 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64, steps: f64) -> Ruler {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let rough = span / steps;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);

    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil().max(first + 1.0);
    let mut ticks = Vec::new();
    let mut index = first;
    while index <= last {
        ticks.push(index * step);
        index += 1.0;
    }
    Ruler { scale: Scale::Linear, low: first * step, high: last * step, ticks }
}

/// Ends at 1, 2 or 5 times a power of ten; ticks there too, at powers of ten alone when they suffice.
fn logarithmic(low: f64, high: f64) -> Ruler {
    let mut exponent = low.log10().floor() - 1.0;
    let last = high.log10().ceil() + 1.0;
    let mut round = Vec::new();
    while exponent <= last {
        round.extend([1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powf(exponent)));
        exponent += 1.0;
    }
    let below = round.iter().copied().rfind(|value| *value <= low * 1.0001).unwrap_or(low);
    let above = round.iter().copied().find(|value| *value >= high * 0.9999).unwrap_or(high);
    let above = if above > below { above } else { below * 10.0 };

    let within = |value: &f64| (below..=above * 1.0001).contains(value);
    let is_power = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-6;
    let mut ticks: Vec<f64> = round.into_iter().filter(within).collect();
    if ticks.iter().filter(|value| is_power(value)).count() >= 4 {
        ticks.retain(is_power);
    }
    Ruler { scale: Scale::Log, low: below, high: above, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_hold_the_data() {
        let ruler = Ruler::new(&Axis::linear("", ""), [3.0, 97.0].into_iter(), 5.0);

        assert_eq!(ruler.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert!((ruler.place(50.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn log_ticks_are_few() {
        let narrow = Ruler::new(&Axis::log("", ""), [3.0, 60.0].into_iter(), 5.0);
        let wide = Ruler::new(&Axis::log("", ""), [0.3, 90_000.0].into_iter(), 5.0);

        assert_eq!(narrow.ticks, [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(wide.ticks.len(), 6, "{:?}", wide.ticks);
    }

    #[test]
    fn an_axis_with_its_own_ticks_ends_where_its_values_end() {
        let axis = Axis::log("", "").with_ticks([1.0, 8.0, 127.0]);

        let ruler = Ruler::new(&axis, [2.0, 100.0].into_iter(), 5.0);

        assert_eq!(ruler.ticks, [1.0, 8.0, 127.0]);
        assert!((ruler.place(1.0), ruler.place(127.0)) == (0.0, 1.0), "{ruler:?}");
    }

    #[test]
    fn odd_data_is_no_reason_to_panic() {
        for values in [vec![], vec![0.0], vec![f64::NAN], vec![5.0, 5.0], vec![-1.0, 0.0]] {
            for axis in [Axis::linear("", ""), Axis::log("", "")] {
                let ruler = Ruler::new(&axis, values.iter().copied(), 5.0);
                assert!(ruler.ticks.len() < 20);
                assert!((0.0..=1.0).contains(&ruler.place(0.0)), "{ruler:?}");
            }
        }
    }
}
