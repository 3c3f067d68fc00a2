//! A time as an octet (RFC 3626, 18.3): a mantissa of 4 bits, and an exponent of 4.

use std::time::Duration;

/// A time of 62.5 ms to 3,968 s: (1 + a/16) · 2^b sixteenths of a second, where a is the high half
/// of the octet and b the low one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interval(pub u8);

/// The unit of encoded times, 1/256 second, in nanoseconds.
const UNIT: u64 = 3_906_250;

impl Interval {
    /// The longest.
    pub const LONGEST: Self = Self(0xff);

    /// The shortest interval not below `time`; for a greater `time` the longest interval.
    #[must_use]
    pub fn at_least(time: Duration) -> Self {
        let nanos = base::time::nanos(time);
        for exponent in 0..16_u8 {
            let units = nanos.div_ceil(UNIT << exponent).max(16);
            if let Ok(mantissa @ 0..16) = u8::try_from(units - 16) {
                return Self(mantissa << 4 | exponent);
            }
        }
        Self::LONGEST
    }

    /// How long it is.
    #[must_use]
    pub fn duration(self) -> Duration {
        let (mantissa, exponent) = (u64::from(self.0 >> 4), self.0 & 0x0f);
        Duration::from_nanos((16 + mantissa) * (UNIT << exponent))
    }
}
