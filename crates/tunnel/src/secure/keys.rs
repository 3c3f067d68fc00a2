//! Keys: 32 octets, written in base64.

use std::fmt;
use std::str::FromStr;

use base::entropy::{Entropy, NoRandomness, draw};
use base::keys::{LEN, NoKey, decode, secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::secret::X25519;

/// A gateway's secret: an X25519 private key.
#[derive(Clone, Eq, PartialEq)]
pub struct PrivateKey(Zeroizing<[u8; LEN]>);

/// What a gateway is known by: an X25519 public key. Written as 44 letters of base64.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PublicKey([u8; LEN]);

/// A secret that two peers share besides their keys; all zero is none.
#[derive(Clone, Eq, PartialEq)]
pub struct PresharedKey(Zeroizing<[u8; LEN]>);

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn generate(entropy: &mut dyn Entropy) -> Result<Self, NoRandomness> {
        let mut octets = Zeroizing::new(draw::<LEN>(entropy)?);
        // RFC 7748, 5: so that the file holds the number used in computations.
        octets[0] &= 0xf8;
        octets[31] = (octets[31] & 0x7f) | 0x40;
        Ok(Self(octets))
    }

    /// The secret in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(*self.0)
    }

    /// The public key by which others know this key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = Box::<X25519>::default();
        key.set(&self.0);
        PublicKey(*key.public())
    }

    pub(crate) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for PrivateKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        secret(text).map(Self)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(secret)")
    }
}

impl PublicKey {
    pub(crate) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }

    pub(crate) fn from_octets(octets: [u8; LEN]) -> Self {
        Self(octets)
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let octets = *decode(text)?;
        // With a point of low order any private key agrees on zeros.
        let mut anybody = X25519::default();
        anybody.set(&[1; LEN]);
        match octets {
            [0, rest @ ..] if rest == [0; LEN - 1] => Err(NoKey::Zero),
            _ if anybody.agree(&octets).is_none() => Err(NoKey::LowOrder),
            _ => Ok(Self(octets)),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PresharedKey {
    /// The secret in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(*self.0)
    }

    /// No secret besides the keys.
    pub(crate) fn none() -> Self {
        Self(Zeroizing::default())
    }

    pub(crate) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for PresharedKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        secret(text).map(Self)
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use base::keys::GroupSecret;

    use super::*;

    /// RFC 7748, 6.1: Alice's keys.
    #[test]
    fn the_public_key_is_that_of_x25519() {
        let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

        let key: PrivateKey = private.parse().unwrap();

        assert_eq!(key.public_key().to_string(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
        assert_eq!(format!("{key:?}"), "PrivateKey(secret)");
    }

    /// The points of order 2, 4 and 8, and those that are the same modulo the prime: no private key
    /// belongs to any, and all agree on zeros with it.
    #[test]
    fn public_keys_of_low_order_are_refused() {
        let order_8 = [
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        ];
        let octets = |hex: &str| -> [u8; LEN] {
            let octet = |at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
            std::array::from_fn(octet)
        };
        let mut low: Vec<_> = order_8.map(octets).to_vec();
        let mut one = [0; LEN];
        one[0] = 1;
        low.push(one);
        for first in [0xec, 0xed, 0xee] {
            let mut near_prime = [0xff; LEN];
            (near_prime[0], near_prime[LEN - 1]) = (first, 0x7f);
            low.push(near_prime);
        }

        for octets in low {
            let text = STANDARD.encode(octets);
            assert_eq!(text.parse::<PublicKey>(), Err(NoKey::LowOrder), "{octets:02x?}");
        }
    }

    #[test]
    fn a_preshared_key_is_printed_as_it_is_read() {
        let text = STANDARD.encode([7; LEN]);

        let key: PresharedKey = text.parse().unwrap();

        assert_eq!(key.to_base64(), text);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let zero = STANDARD.encode([0; LEN]);

        for text in ["", "abc", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm==", &"A".repeat(44)] {
            assert_eq!(text.parse::<PublicKey>(), Err(NoKey::Malformed), "{text}");
        }
        assert_eq!(zero.parse::<PublicKey>(), Err(NoKey::Zero));
        assert_eq!(zero.parse::<GroupSecret>(), Err(NoKey::Zero));
        assert_eq!(zero.parse::<PrivateKey>(), Err(NoKey::Zero));
        assert_eq!(zero.parse::<PresharedKey>(), Err(NoKey::Zero));
    }
}
