//! The field's scalar arithmetic, and the kernels' multiplication tables.

/// x^8 + x^4 + x^3 + x^2 + 1 (RFC 8681, 3.3).
pub const POLYNOMIAL: u16 = 0x11d;

/// `a * b`.
#[must_use]
pub fn multiply(a: u8, b: u8) -> u8 {
    product(a, b)
}

/// The element whose product with `a` is 1; of 0 it is 0.
#[must_use]
pub fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { TABLES.exp[255 - TABLES.log[a as usize] as usize] }
}

/// For each element the matrix over GF(2) of the multiplication, in the layout of `gf2p8affineqb`:
/// octet `7 - i` holds row `i`, the bits of the factor whose sum is bit `i` of the product.
#[cfg(target_arch = "x86_64")]
pub(crate) static MATRICES: [u64; 256] = matrices();

/// For each element its products with 0x00 to 0x0f, then with 0x00, 0x10, to 0xf0.
pub(crate) static NIBBLES: [Nibbles; 256] = nibbles();

/// The products of one element, aligned to stay within one cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Nibbles {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

impl Nibbles {
    /// The element's product with `octet`.
    #[inline(always)]
    pub(crate) const fn of(&self, octet: u8) -> u8 {
        self.low[(octet & 0xf) as usize] ^ self.high[(octet >> 4) as usize]
    }
}

struct Tables {
    exp: [u8; 512],
    log: [u8; 256],
}

static TABLES: Tables = tables();

const fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.exp[TABLES.log[a as usize] as usize + TABLES.log[b as usize] as usize]
}

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

#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
const fn matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut element = 0;
    while element < 256 {
        let mut column = 0;
        while column < 8 {
            let bits = product(element as u8, 1 << column);
            let mut row = 0;
            while row < 8 {
                let bit = (bits >> row & 1) as u64;
                matrices[element] |= bit << ((7 - row) * 8 + column);
                row += 1;
            }
            column += 1;
        }
        element += 1;
    }
    matrices
}

#[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
const fn nibbles() -> [Nibbles; 256] {
    let mut nibbles = [Nibbles { low: [0; 16], high: [0; 16] }; 256];
    let mut element = 0;
    while element < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            nibbles[element].low[nibble] = product(element as u8, nibble as u8);
            nibbles[element].high[nibble] = product(element as u8, (nibble << 4) as u8);
            nibble += 1;
        }
        element += 1;
    }
    nibbles
}
