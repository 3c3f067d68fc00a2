//! Keys in text form: 32 octets in base64.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::entropy::{Entropy, NoRandomness, draw};

/// Octets of a key.
pub const LEN: usize = 32;

/// A secret shared by all gateways of a network: neighbours of HBH and stations on HF authenticate each other with it.
#[derive(Clone, Eq, PartialEq)]
pub struct GroupSecret(Zeroizing<[u8; LEN]>);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoKey {
    /// Not base64, or of another length.
    #[error("not a key: 32 octets in base64, 44 letters of which the last is `=`")]
    Malformed,
    /// A public key with which everyone agrees on the same: no private key belongs to it.
    #[error("the public key of nobody: whatever is agreed on with it, everyone knows")]
    LowOrder,
    /// A secret that is none.
    #[error("the key of nobody: all its octets are zero")]
    Zero,
}

impl GroupSecret {
    /// A new key.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn generate(entropy: &mut dyn Entropy) -> Result<Self, NoRandomness> {
        draw(entropy).map(Zeroizing::new).map(Self)
    }

    /// The secret in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(*self.0)
    }

    /// Octets of the secret, from which each protocol derives a key for itself.
    #[must_use]
    pub fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for GroupSecret {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        secret(text).map(Self)
    }
}

impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupSecret(secret)")
    }
}

/// Reads a secret. All zeros are refused: a failed program made such a file.
///
/// # Errors
/// When it is no key, or nobody's.
pub fn secret(text: &str) -> Result<Zeroizing<[u8; LEN]>, NoKey> {
    decode(text).and_then(|octets| if *octets == [0; LEN] { Err(NoKey::Zero) } else { Ok(octets) })
}

/// Reads 32 octets in base64.
///
/// # Errors
/// When they are no 32 octets.
pub fn decode(text: &str) -> Result<Zeroizing<[u8; LEN]>, NoKey> {
    let octets = STANDARD.decode(text.trim()).map_err(|_| NoKey::Malformed)?;
    let octets = Zeroizing::new(octets);
    Ok(Zeroizing::new(
        *octets.first_chunk().filter(|_| octets.len() == LEN).ok_or(NoKey::Malformed)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_octets_in_base64_and_no_secret_is_zero() {
        for len in [0, 31, 33, 64] {
            let text = STANDARD.encode(vec![7; len]);
            assert_eq!(decode(&text).map(|_| ()), Err(NoKey::Malformed), "{len} octets");
        }
        let [seven, zero] = [7, 0].map(|octet| STANDARD.encode([octet; LEN]));

        assert_eq!(*decode(&format!(" {seven}\n")).unwrap(), [7; LEN]);
        assert_eq!(secret(&zero).map(|_| ()), Err(NoKey::Zero));
        assert_eq!(secret("key").map(|_| ()), Err(NoKey::Malformed));
        let group: GroupSecret = seven.parse().unwrap();
        assert_eq!(format!("{group:?}"), "GroupSecret(secret)");
        assert_eq!(group.to_base64(), seven);
    }
}
