//! The scalar field, by tables.

/// x^8 + x^4 + x^3 + x^2 + 1 (RFC 8681, 3.3).
pub const POLYNOMIAL: u16 = 0x11d;

/// `a * b`.
#[must_use]
pub fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.exp[usize::from(TABLES.log[usize::from(a)]) + usize::from(TABLES.log[usize::from(b)])]
}

/// The element whose product with `a` is 1; of 0 it is 0.
#[must_use]
pub fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { TABLES.exp[255 - usize::from(TABLES.log[usize::from(a)])] }
}

struct Tables {
    exp: [u8; 512],
    log: [u8; 256],
}

static TABLES: Tables = tables();

#[expect(
    clippy::cast_possible_truncation,
    reason = "an element is below 256, a logarithm below 255"
)]
const fn tables() -> Tables {
    let mut tables = Tables { exp: [0; 512], log: [0; 256] };
    let mut element = 1_u16;
    let mut power = 0;
    while power < 255 {
        tables.exp[power] = element as u8;
        tables.exp[power + 255] = element as u8;
        tables.log[element as usize] = power as u8;
        element <<= 1;
        if element & 0x100 != 0 {
            element ^= POLYNOMIAL;
        }
        power += 1;
    }
    tables
}
