//! The kernels, one for each kind of machine, and the choice among them.
#![cfg_attr(
    any(target_arch = "aarch64", target_arch = "x86_64"),
    expect(unsafe_code, reason = "enters functions that use instructions not in every processor")
)]

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use crate::lanes::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use crate::lanes::gfni::{Avx2Gfni, Avx512Gfni};
#[cfg(target_arch = "aarch64")]
use crate::lanes::neon::Neon;
#[cfg(target_arch = "x86_64")]
use crate::lanes::ssse3::Ssse3;
use crate::terms::{Several, Single};
use crate::work::{Combine, Scale, Work};

/// An implementation of the arithmetic, supported by this machine.
///
/// The functions of the crate use [`Kernel::best`]; naming another is for tests and benchmarks.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Kernel(Machine);

#[derive(Clone, Copy, Eq, PartialEq)]
enum Machine {
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni(Avx2Gfni),
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni(Avx512Gfni),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    Portable,
    #[cfg(target_arch = "x86_64")]
    Ssse3(Ssse3),
}

impl Kernel {
    /// The fastest on this machine. The processor is asked once.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Self::available()[0])
    }

    /// All kernels supported by this machine, the fastest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(Avx512Gfni::detect().map(Machine::Avx512Gfni));
            kernels.extend(Avx2Gfni::detect().map(Machine::Avx2Gfni));
            kernels.extend(Avx2::detect().map(Machine::Avx2));
            kernels.extend(Ssse3::detect().map(Machine::Ssse3));
        }
        #[cfg(target_arch = "aarch64")]
        kernels.extend(Neon::detect().map(Machine::Neon));
        kernels.push(Machine::Portable);
        kernels.into_iter().map(Self).collect()
    }

    /// What it is called: `avx512-gfni`, `avx2-gfni`, `avx2`, `ssse3`, `neon` or `portable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2Gfni(_) => "avx2-gfni",
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512Gfni(_) => "avx512-gfni",
            #[cfg(target_arch = "aarch64")]
            Machine::Neon(_) => "neon",
            Machine::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Machine::Ssse3(_) => "ssse3",
        }
    }

    /// [`combine`](crate::combine) by this kernel.
    ///
    /// # Panics
    /// When a source is longer than `out`.
    pub fn combine(self, mut out: &mut [u8], terms: &[(u8, &[u8])]) {
        let outs = std::slice::from_mut(&mut out);
        self.run(Combine { outs, terms: Single(terms), is_added: false });
    }

    /// [`accumulate`](crate::accumulate) by this kernel.
    ///
    /// # Panics
    /// When a source is longer than `out`.
    pub fn accumulate(self, mut out: &mut [u8], terms: &[(u8, &[u8])]) {
        let outs = std::slice::from_mut(&mut out);
        self.run(Combine { outs, terms: Single(terms), is_added: true });
    }

    /// [`combine_many`](crate::combine_many) by this kernel.
    ///
    /// # Panics
    /// As that does.
    pub fn combine_many(self, outs: &mut [&mut [u8]], coefficients: &[u8], sources: &[&[u8]]) {
        let terms = Several::new(outs.len(), coefficients, sources);
        self.run(Combine { outs, terms, is_added: false });
    }

    /// Adds to each of `outs` a sum of all `sources`; as [`Self::combine_many`] otherwise.
    ///
    /// # Panics
    /// As that does.
    pub fn accumulate_many(self, outs: &mut [&mut [u8]], coefficients: &[u8], sources: &[&[u8]]) {
        let terms = Several::new(outs.len(), coefficients, sources);
        self.run(Combine { outs, terms, is_added: true });
    }

    /// [`scale`](crate::scale) by this kernel.
    pub fn scale(self, octets: &mut [u8], coefficient: u8) {
        self.run(Scale { octets, factor: coefficient });
    }

    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) {
        match self.0 {
            // SAFETY: a value of the lanes proves the instructions.
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2(lanes) => unsafe { enter_avx2(lanes, work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2Gfni(lanes) => unsafe { enter_avx2_gfni(lanes, work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Machine::Avx512Gfni(lanes) => unsafe { enter_avx512_gfni(lanes, work) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Machine::Neon(lanes) => unsafe { enter_neon(lanes, work) },
            Machine::Portable => work.run_portably(),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Machine::Ssse3(lanes) => unsafe { enter_ssse3(lanes, work) },
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn enter_avx2<W: Work>(lanes: Avx2, work: W) {
    work.run(lanes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,gfni")]
fn enter_avx2_gfni<W: Work>(lanes: Avx2Gfni, work: W) {
    work.run(lanes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,bmi2,gfni")]
fn enter_avx512_gfni<W: Work>(lanes: Avx512Gfni, work: W) {
    work.run(lanes);
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn enter_neon<W: Work>(lanes: Neon, work: W) {
    work.run(lanes);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
fn enter_ssse3<W: Work>(lanes: Ssse3, work: W) {
    work.run(lanes);
}
