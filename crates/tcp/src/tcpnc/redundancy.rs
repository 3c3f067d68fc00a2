//! Calculates how many combinations to send so that enough are likely to arrive.

/// The probability that at most `extra` of `packets + extra` combinations are lost, where each is
/// with probability `loss`: the seed's S(n, k), equation (2).
#[must_use]
pub fn success(packets: usize, extra: usize, loss: f64) -> f64 {
    let sent = packets + extra;
    let arrive = 1.0 - loss;
    if loss <= 0.0 {
        return 1.0;
    }
    if arrive <= 0.0 {
        return if packets == 0 { 1.0 } else { 0.0 };
    }
    // Of j lost: C(sent, j) loss^j arrive^(sent - j), each from the one before.
    let mut term = 1.0;
    for _ in 0..sent {
        term *= arrive;
    }
    let mut sum = term;
    for lost in 1..=extra {
        term *= (sent - lost + 1) as f64 / lost as f64 * (loss / arrive);
        sum += term;
    }
    sum
}

/// The largest coding window up to `limit` that survives with at least `target`; 1 where none does.
#[must_use]
pub fn window(extra: usize, loss: f64, target: f64, limit: usize) -> usize {
    // Success falls as the window grows.
    let (mut fits, mut fails) = (1, limit.max(1) + 1);
    while fits + 1 < fails {
        let middle = fits.midpoint(fails);
        if success(middle, extra, loss) >= target {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}

/// How many to add to `packets` combinations so that at least so many arrive with at least
/// `target`; at most `limit`.
#[must_use]
pub fn extra(packets: usize, loss: f64, target: f64, limit: usize) -> usize {
    (0..limit).find(|extra| success(packets, *extra, loss) >= target).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_loss_rate() {
        let sizes = [0.01, 0.05, 0.10, 0.15, 0.20, 0.30].map(|loss| window(3, loss, 0.9, 255));

        assert_eq!(sizes, [172, 32, 15, 9, 6, 3]);
    }

    #[test]
    fn the_window_never_vanishes_and_never_exceeds_its_limit() {
        assert_eq!(window(3, 0.562, 0.9, 255), 1);
        assert_eq!(window(3, 0.9, 0.9, 255), 1);
        assert_eq!(window(3, 1.0, 0.9, 255), 1);
        assert_eq!(window(3, 0.0, 0.9, 100), 100);
    }

    #[test]
    fn the_probability_of_success_is_that_of_the_rule() {
        for (packets, loss, expected) in
            [(172, 0.01, 0.900), (32, 0.05, 0.904), (15, 0.10, 0.902), (3, 0.30, 0.930)]
        {
            assert!((success(packets, 3, loss) - expected).abs() < 0.0006, "{packets}");
        }
        assert_eq!([success(0, 3, 1.0), success(2, 3, 1.0)], [1.0, 0.0], "nothing arrives");
        assert!(success(1, 3, 0.561) >= 0.9 && success(1, 3, 0.563) < 0.9);
    }

    #[test]
    fn what_is_added_is_just_enough() {
        assert_eq!(extra(1, 0.0, 0.9, 8), 0);
        assert_eq!(extra(1, 0.2, 0.9, 8), 1);
        assert_eq!(extra(3, 0.2, 0.9, 8), 2);
        assert_eq!(extra(1, 1.0, 0.9, 8), 8);
    }
}
