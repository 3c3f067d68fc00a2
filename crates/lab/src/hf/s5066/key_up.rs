//! The utilisation with radios that are slow to key up, compared with the published one.

use super::{ERROR_SPEED, ERRORS, keyed, share};
use crate::hf::bulk::Bulk;
use crate::hf::{compare, key_ups, scientific};
use crate::prelude::*;

/// A share of the time by bit error rate.
pub fn table(
    runs: &Runs<Bulk>,
    title: &str,
    metric: Metric,
    published: [f64; ERRORS.len()],
) -> Table {
    let rows = ERRORS.iter().zip(published).map(|(&(ber, _), published)| {
        let measured = move |key_up| share(&runs.at(&keyed(ber, key_up), metric));
        (vec![scientific(ber)], format!("{published:.3}"), measured)
    });
    compare::table(title, &["bit error rate"], rows)
}

/// Our utilisation over the key-up, with the published one as level lines.
pub fn figure(points: &[Point]) -> Figure {
    let shown = [
        (0, Ink::Default, Ink::Trace(0)),
        (2, Ink::Other(0), Ink::Trace(3)),
        (3, Ink::Tcp, Ink::Trace(2)),
    ];
    let like_published = key_ups::as_published().as_secs_f64();
    let implied = [LEAST, 1.0].map(|y| Mark::exact(like_published, y));
    let mut series =
        vec![Series::new("the key-up that its turnaround implies", Ink::Goal, implied)];
    for (place, ink, line) in shown {
        let (ber, published) = ERRORS[place];
        let of = format!("s5066, key-up, {}", scientific(ber));
        let ours = points.iter().filter(|it| it.line.series == of);
        let level = key_ups::key_ups().map(|key_up| Mark::exact(key_up.as_secs_f64(), published));
        let what = if ber > 0.0 { format!("{ber:e}") } else { "clear".to_owned() };
        series.push(Series::new(format!("published, {what}"), line, level));
        let ours = ours.map(|it| Mark::measured(it.x, &it.y));
        series.push(Series::new(format!("ours, {what}"), ink, ours));
    }
    Figure::new("hf-s5066-key-up", "The cost of a radio that is slow to key up")
        .under(format!(
            "Bulk by STANAG 5066 at {ERROR_SPEED} bit/s, acknowledged, by bit error rate"
        ))
        .over(Axis::linear("Key-up of both radios", "s"))
        .up(Axis { from_zero: false, ..Axis::linear("Utilisation", "") })
        .with(series)
}

/// Where the axis begins.
const LEAST: f64 = 0.5;
