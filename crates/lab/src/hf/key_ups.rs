//! The key-ups of the compared radios, and the key-up that the published figures imply.

use std::sync::LazyLock;
use std::time::Duration;

use super::bulk::Bulk;
use super::radio::FASTEST;
use crate::prelude::*;

/// The shortest TCP handshake of the white paper, for 10 MB over IP Client at 240000 bit/s.
const HANDSHAKE: Duration = Duration::from_millis(3_800);
/// The number of key-ups that are compared.
pub const COUNT: usize = 5;
/// The share of turnaround of the white paper's STANAG 5066 on a clear link of 9600 bit/s.
pub const TURNAROUND: f64 = 0.053;
/// The time of 128 segments of 600 octets at 9600 bit/s: the longest transmission of the white paper's
/// stations if their sequence numbers have 8 bits.
const SHORT_WINDOW: Duration = Duration::from_secs(64);

/// The key-ups that are compared, the fastest first.
pub fn key_ups() -> [Duration; COUNT] {
    let mut all = [FASTEST, as_published(), seconds(1), seconds(2), seconds(5)];
    all.sort();
    all
}

/// The key-up that the published share of turnaround implies for transmissions of the longest allowed
/// time, rounded to tenths of a second.
pub fn as_published() -> Duration {
    static KEY_UP: LazyLock<Duration> = LazyLock::new(|| implied_by(Bulk::clear(9_600).longest()));
    *KEY_UP
}

/// The key-up that the published figures imply, as text.
pub fn implied() -> String {
    format!(
        "the published share of turnaround, {}, implies a key-up of {} s if transmissions last {} s \
         and all else is as here, and of {} s if 128 frames of 600 octets end them after {} s; \
         the fastest published handshake, {} s, leaves {} s for each key-up at most",
        percent(TURNAROUND),
        as_published().as_secs_f64(),
        Bulk::clear(9_600).longest().as_secs_f64(),
        implied_by(SHORT_WINDOW).as_secs_f64(),
        SHORT_WINDOW.as_secs(),
        HANDSHAKE.as_secs_f64(),
        (HANDSHAKE / 2).as_secs_f64(),
    )
}

/// The key-up that the published share of turnaround implies for transmissions of length `longest`.
fn implied_by(longest: Duration) -> Duration {
    let key_up = Bulk::clear(9_600).key_up_of(TURNAROUND, longest, 1);
    Duration::from_millis(100).mul_f64((key_up.as_secs_f64() * 10.0).round())
}

fn seconds(whole: u64) -> Duration {
    Duration::from_secs(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radio_like_the_published_one_turns_around_for_as_long() {
        let bulk = Bulk { key_up: as_published(), ..Bulk::clear(9_600) };

        let turnaround = bulk.run(1).expect("a clear link").turnaround;

        assert!((turnaround - TURNAROUND).abs() < 0.001, "{turnaround}");
    }

    #[test]
    fn key_ups_are_in_order_and_the_published_one_is_among_them() {
        let key_ups = key_ups();

        assert!(key_ups.is_sorted());
        assert_eq!(key_ups[0], FASTEST);
        assert!(key_ups.contains(&as_published()));
    }
}
