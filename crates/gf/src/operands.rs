//! What the kernels work on, and what they say of it.

/// A matrix, row by row.
pub struct System<'a> {
    pub(crate) matrix: &'a mut [u8],
    /// Octets of a row, a multiple of 64.
    pub(crate) stride: usize,
    /// What belongs to each row, exchanged as the rows are.
    pub(crate) order: &'a mut [usize],
}

/// What a multiplication in registers did.
#[derive(Debug, Default)]
pub struct Multiplied {
    /// Octets that were multiplied.
    pub(crate) octets: u64,
    /// Their sum, so that no compiler leaves them out.
    pub(crate) sum: Vec<u8>,
}

/// The equations say less than there is to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the equations do not tell packet {unknown} from those before it")]
pub struct Singular {
    /// The first packet that they do not tell from those before it.
    pub unknown: usize,
}
