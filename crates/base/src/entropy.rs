//! The source of secrets.

use crate::rng::Rng;

/// A source of secrets. A gateway uses the operating system, so that nobody can foresee the secrets.
pub trait Entropy: Send {
    /// Fills `octets`.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    fn fill(&mut self, octets: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The source of secrets has none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the operating system gives no randomness")]
pub struct NoRandomness;

/// Secrets that follow from a seed and protect nothing: for simulations and tests.
#[derive(Clone, Debug)]
pub struct Seeded(pub Rng);

impl Entropy for Seeded {
    fn fill(&mut self, octets: &mut [u8]) -> Result<(), NoRandomness> {
        for chunk in octets.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.bits().to_be_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// Draws an array.
///
/// # Errors
/// When there is no randomness to be had.
pub fn draw<const N: usize>(entropy: &mut dyn Entropy) -> Result<[u8; N], NoRandomness> {
    let mut octets = [0; N];
    entropy.fill(&mut octets)?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fills_all_octets_with_others_each_time() {
        let mut entropy = Seeded(Rng::stream(1, "secrets"));

        let [one, other]: [[u8; 21]; 2] = [(); 2].map(|()| draw(&mut entropy).unwrap());

        assert_ne!(one, other);
        for eight in [&one[..8], &one[8..16], &one[16..]] {
            assert!(eight.iter().any(|octet| *octet != 0), "{one:?}");
        }
    }
}
