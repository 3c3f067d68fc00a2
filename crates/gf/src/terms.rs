//! What is summed: sources, each with a factor for each of several sums.

/// Sources and factors. Every sum has the same sources.
pub(crate) trait Terms: Copy {
    /// How many sources there are.
    fn count(self) -> usize;
    /// Source `index`; it is below [`Terms::count`].
    fn source(&self, index: usize) -> &[u8];
    /// The factor of source `index` in sum `row`.
    fn factor(self, row: usize, index: usize) -> u8;
}

/// The terms of one sum.
#[derive(Clone, Copy)]
pub(crate) struct Single<'a>(pub(crate) &'a [(u8, &'a [u8])]);

impl Terms for Single<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn source(&self, index: usize) -> &[u8] {
        self.0[index].1
    }

    #[inline(always)]
    fn factor(self, _: usize, index: usize) -> u8 {
        self.0[index].0
    }
}

/// The terms of several sums; the factors row by row.
#[derive(Clone, Copy)]
pub(crate) struct Several<'a> {
    pub(crate) factors: &'a [u8],
    pub(crate) sources: &'a [&'a [u8]],
}

impl Terms for Several<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.sources.len()
    }

    #[inline(always)]
    fn source(&self, index: usize) -> &[u8] {
        self.sources[index]
    }

    #[inline(always)]
    fn factor(self, row: usize, index: usize) -> u8 {
        self.factors[row * self.sources.len() + index]
    }
}

impl<'a> Several<'a> {
    /// # Panics
    /// When there is not one factor for each source and row.
    pub(crate) fn new(rows: usize, factors: &'a [u8], sources: &'a [&'a [u8]]) -> Self {
        assert_eq!(factors.len(), rows * sources.len(), "a coefficient for each source and output");
        Self { factors, sources }
    }
}

/// The equations of a [solver](crate::Solver) as terms: the right-hand sides in the order of the
/// pivots, then what is known.
#[derive(Clone, Copy)]
pub(crate) struct Solved<'a> {
    /// Rows of factors, each `stride` octets.
    pub(crate) matrix: &'a [u8],
    pub(crate) stride: usize,
    /// Which equation each of the first factors of a row belongs to.
    pub(crate) order: &'a [usize],
    pub(crate) sums: &'a [&'a [u8]],
    pub(crate) known: &'a [&'a [u8]],
}

impl Terms for Solved<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.order.len() + self.known.len()
    }

    #[inline(always)]
    fn source(&self, index: usize) -> &[u8] {
        match self.order.get(index) {
            Some(&equation) => self.sums[equation],
            None => self.known[index - self.order.len()],
        }
    }

    #[inline(always)]
    fn factor(self, row: usize, index: usize) -> u8 {
        self.matrix[row * self.stride + index]
    }
}
