//! Expands a key into the coefficients of a combination.

/// Writes the coefficients of a combination of `count` packets to `out`, replacing its content; no coefficient is zero.
///
/// Expands the key by SplitMix64, eight coefficients per draw; 0 counts as 1, so that the combination includes every
/// named packet.
pub fn expand(key: u16, count: usize, out: &mut Vec<u8>) {
    out.clear();
    let mut state = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while out.len() < count {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let left = count - out.len();
        out.extend(mixed.to_be_bytes().iter().take(left).map(|octet| (*octet).max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_for_the_same_coefficients_for_ever() {
        let mut drawn = Vec::new();
        expand(1, 10, &mut drawn);

        assert_eq!(drawn, GOLDEN);
    }

    #[test]
    fn a_longer_combination_begins_as_a_shorter_one_and_none_is_zero() {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for key in 0..500 {
            expand(key, 9, &mut short);
            expand(key, 255, &mut long);

            assert_eq!(short, long[..9]);
            assert!(long.iter().all(|coefficient| *coefficient != 0));
        }
    }

    const GOLDEN: [u8; 10] = [110, 120, 158, 106, 161, 185, 101, 244, 6, 196];
}
