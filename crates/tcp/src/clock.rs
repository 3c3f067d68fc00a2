//! The clock behind our timestamps (RFC 7323, 5.4).

use std::time::Duration;

use base::serial;
use base::time::Time;

/// It ticks from a random value on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The clock's value at the epoch.
    base: u32,
    tick: Duration,
}

impl Clock {
    pub(super) fn new(base: u32, tick: Duration) -> Self {
        Self { base, tick: tick.max(Duration::from_micros(1)) }
    }

    /// The clock's value at a time.
    pub(super) fn show(self, at: Time) -> u32 {
        let nanos = u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX);
        let ticks = at.as_nanos() / nanos;
        self.base.wrapping_add(serial::low32(ticks))
    }

    /// How long ago it showed `value`, in whole ticks; `None` for what lies in the future.
    pub(super) fn age(self, now: Time, value: u32) -> Option<Duration> {
        let ticks = self.show(now).wrapping_sub(value);
        let ticks = u32::try_from(ticks.cast_signed()).ok()?;
        Some(self.tick.saturating_mul(ticks))
    }
}
