//! The terms of sums: sources, each with a factor for each of several sums.
#![expect(unsafe_code, reason = "the inner loops do without checks that were made before")]

/// Sources and factors. Every sum has the same sources.
pub trait Terms: Copy {
    /// How many sources there are.
    fn count(self) -> usize;

    /// How many sums there are at most.
    fn rows(self) -> usize;

    /// Source `index`.
    ///
    /// # Safety
    /// `index` is below [`Terms::count`].
    unsafe fn source(&self, index: usize) -> &[u8];

    /// The factor of source `index` in sum `row`.
    ///
    /// # Safety
    /// `index` is below [`Terms::count`] and `row` below [`Terms::rows`].
    unsafe fn factor(self, row: usize, index: usize) -> u8;

    /// The sources.
    #[inline(always)]
    fn sources(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: none is beyond the last.
        (0..self.count()).map(|index| unsafe { self.source(index) })
    }

    /// The factors of a sum.
    ///
    /// # Panics
    /// When `row` is not below the number of sums.
    fn factors(self, row: usize) -> impl Iterator<Item = u8> {
        assert!(row < self.rows(), "factors for sum {row} of {}", self.rows());
        // SAFETY: the sum was checked, and no source is beyond the last.
        (0..self.count()).map(move |index| unsafe { self.factor(row, index) })
    }
}

/// The terms of one sum.
#[derive(Clone, Copy)]
pub struct Single<'a>(pub(crate) &'a [(u8, &'a [u8])]);

impl Terms for Single<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn rows(self) -> usize {
        1
    }

    #[inline(always)]
    unsafe fn source(&self, index: usize) -> &[u8] {
        // SAFETY: the caller's.
        unsafe { self.0.get_unchecked(index).1 }
    }

    #[inline(always)]
    unsafe fn factor(self, _: usize, index: usize) -> u8 {
        // SAFETY: the caller's.
        unsafe { self.0.get_unchecked(index).0 }
    }
}

/// The terms of several sums; the factors row by row.
#[derive(Clone, Copy)]
pub struct Several<'a> {
    rows: usize,
    factors: &'a [u8],
    sources: &'a [&'a [u8]],
}

impl<'a> Several<'a> {
    /// # Panics
    /// When there is not one factor for each source and row.
    pub fn new(rows: usize, factors: &'a [u8], sources: &'a [&'a [u8]]) -> Self {
        assert_eq!(factors.len(), rows * sources.len(), "a coefficient for each source and output");
        Self { rows, factors, sources }
    }
}

impl Terms for Several<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.sources.len()
    }

    #[inline(always)]
    fn rows(self) -> usize {
        self.rows
    }

    #[inline(always)]
    unsafe fn source(&self, index: usize) -> &[u8] {
        // SAFETY: the caller's.
        unsafe { self.sources.get_unchecked(index) }
    }

    #[inline(always)]
    unsafe fn factor(self, row: usize, index: usize) -> u8 {
        // SAFETY: `new` counted the factors.
        unsafe { *self.factors.get_unchecked(row * self.sources.len() + index) }
    }
}

/// The equations of a [solver](crate::Solver) as terms: the right-hand sides in the order of the
/// pivots, then the known packets.
#[derive(Clone, Copy)]
pub struct Solved<'a> {
    matrix: &'a [u8],
    stride: usize,
    order: &'a [usize],
    sums: &'a [&'a [u8]],
    known: &'a [&'a [u8]],
}

impl<'a> Solved<'a> {
    /// The rows of `matrix` are `stride` octets. Column `i` belongs to the sum `sums[order[i]]`; the
    /// columns of `known` follow.
    ///
    /// # Panics
    /// When the numbers do not fit together.
    pub fn new(
        matrix: &'a [u8],
        stride: usize,
        order: &'a [usize],
        sums: &'a [&'a [u8]],
        known: &'a [&'a [u8]],
    ) -> Self {
        assert_eq!(matrix.len(), order.len() * stride, "a row for each equation");
        assert!(order.len() + known.len() <= stride, "a factor for each packet");
        assert!(order.iter().all(|&equation| equation < sums.len()), "a sum for each equation");
        Self { matrix, stride, order, sums, known }
    }
}

impl Terms for Solved<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.order.len() + self.known.len()
    }

    #[inline(always)]
    fn rows(self) -> usize {
        self.order.len()
    }

    #[inline(always)]
    unsafe fn source(&self, index: usize) -> &[u8] {
        match self.order.get(index) {
            // SAFETY: `new` checked the numbers of the equations.
            Some(&equation) => unsafe { self.sums.get_unchecked(equation) },
            // SAFETY: the caller's.
            None => unsafe { self.known.get_unchecked(index - self.order.len()) },
        }
    }

    #[inline(always)]
    unsafe fn factor(self, row: usize, index: usize) -> u8 {
        // SAFETY: `new` counted the factors.
        unsafe { *self.matrix.get_unchecked(row * self.stride + index) }
    }
}
