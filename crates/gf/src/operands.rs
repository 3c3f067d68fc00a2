//! Operands and results of the kernels.

/// A matrix, row by row.
pub struct System<'a> {
    pub(crate) matrix: &'a mut [u8],
    /// Length of a row in octets, a multiple of 64.
    pub(crate) stride: usize,
    /// The equation of each row, swapped along with the rows.
    pub(crate) order: &'a mut [usize],
}

/// The result of multiplying in registers.
#[derive(Debug, Default)]
pub struct Multiplied {
    /// Number of octets multiplied.
    pub(crate) octets: u64,
    /// The sum of the products: with a result in use, no compiler removes the multiplications.
    pub(crate) sum: Vec<u8>,
}

/// The equations do not determine all unknown packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the equations do not tell packet {unknown} from those before it")]
pub struct Singular {
    /// The first packet that the equations cannot tell from earlier packets.
    pub unknown: usize,
}
