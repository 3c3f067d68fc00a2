//! Numbers that only grow, sent in messages by their low bits.

/// The number nearest to `reference` that ends with these low `bits`, 1 to 63; never below 0.
#[must_use]
pub fn expand(low: u32, bits: u32, reference: u64) -> u64 {
    let period = 1_u64 << bits;
    let half = period / 2;
    let near = reference & !(period - 1) | u64::from(low);
    if near > reference.saturating_add(half) {
        near.checked_sub(period).unwrap_or(near)
    } else if near.saturating_add(half) < reference {
        near.checked_add(period).unwrap_or(near)
    } else {
        near
    }
}

/// The low 32 bits of a number.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
#[must_use]
pub fn low32(number: u64) -> u32 {
    number as u32
}

/// The low 24 bits of a number.
#[must_use]
pub fn low24(number: u64) -> u32 {
    low32(number) & 0x00ff_ffff
}

/// The low 16 bits of a number.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
#[must_use]
pub fn low16(number: u64) -> u16 {
    number as u16
}

/// Whether `a` lies after `b`, for numbers that wrap: in the following half circle (RFC 1982).
#[must_use]
pub fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// Whether sequence number `a` replaces `b`: it is newer, or so far from it (a quarter of the circle or more) that no
/// honest node has counted from one to the other. Then one of the two numbers is forged, or the node has forgotten its
/// number, and comparing their age proves nothing.
#[must_use]
pub fn replaces(a: u32, b: u32) -> bool {
    is_after(a, b) || !is_near(a, b)
}

/// Whether two sequence numbers are less than a quarter of the circle apart.
#[must_use]
pub fn is_near(a: u32, b: u32) -> bool {
    const QUARTER: u32 = 1 << 30;
    a.wrapping_sub(b) < QUARTER || b.wrapping_sub(a) < QUARTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_expanded_to_the_nearest() {
        assert_eq!(expand(0x02, 8, 0x1fe), 0x202);
        assert_eq!(expand(0xfe, 8, 0x202), 0x1fe);
        assert_eq!(expand(0xfe, 8, 0), 0xfe, "there is none below 0");
        assert_eq!(expand(0, 32, 0xffff_ffff), 0x1_0000_0000);
        assert_eq!(expand(0, 32, u64::MAX), 0xffff_ffff_0000_0000, "there is none above");
        // Two numbers are equally near: the number of the same period counts.
        assert_eq!([expand(0x80, 8, 0x200), expand(0, 8, 0x280)], [0x280, 0x200]);
    }

    #[test]
    fn of_numbers_far_from_each_other_each_replaces_the_other() {
        for (ahead, forth, back) in [
            (0_u32, false, false),
            (1, true, false),
            ((1 << 30) - 1, true, false),
            (1 << 30, true, true),
            (1 << 31, true, true),
            (3 << 30, true, true),
            ((3 << 30) + 1, false, true),
            (u32::MAX, false, true),
        ] {
            for from in [0_u32, 7, 0x7fff_ffff, 0xffff_fff0] {
                let to = ahead.wrapping_add(from);
                assert_eq!((replaces(to, from), replaces(from, to)), (forth, back), "{ahead}");
                assert_eq!(is_near(to, from), forth != back || ahead == 0, "{ahead}");
            }
        }
    }

    #[test]
    fn a_number_is_rebuilt_from_its_low_bits_around_every_wrap() {
        for reference in [0, 5, (1 << 32) - 1, 1 << 32, (7 << 32) + 3] {
            for ahead in [-2_000_i64, -1, 0, 1, 2_000] {
                let Some(number) = u64::checked_add_signed(reference, ahead) else { continue };

                assert_eq!(expand(low32(number), 32, reference), number);
                assert_eq!(expand(low24(number), 24, reference), number);
                assert_eq!(expand(low16(number).into(), 16, reference), number);
            }
        }
    }
}
