//! Keys that leave nothing behind: the holder of a key overwrites it when dropped.
//!
//! ```text
//!   draw, agree, split        stack   copies that the compiler and the crates make: swept afterwards
//!          │
//!          ▼
//!   Aead, X25519, Blake2s     heap    one copy each, never moved: overwritten when dropped
//! ```
//! ring's and snow's types do not overwrite their secrets, so each value stands in a box here and is
//! replaced in place by a value with a key of zeros. Arrays are overwritten by `zeroize`.

use std::hint::black_box;

use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use zeroize::Zeroizing;

/// Octets behind a sealed payload.
pub const TAG: usize = 16;

/// Octets of the stack below the caller that [`swept`] overwrites: more than a handshake takes.
const SWEPT: usize = 64 << 10;

/// Calls `make`, which handles secrets, and overwrites their remains on the stack. In the returned value, secrets may
/// stand only in boxes.
pub fn swept<T>(make: impl FnOnce() -> T) -> T {
    let made = apart(make);
    sweep();
    made
}

#[inline(never)]
fn apart<T>(make: impl FnOnce() -> T) -> T {
    make()
}

#[inline(never)]
fn sweep() {
    let mut stack = [0_u8; SWEPT];
    black_box(&mut stack);
}

/// AES-256-GCM with a key.
pub struct Aead(Box<LessSafeKey>);

impl Aead {
    /// The cipher of `key`, which is the caller's to overwrite.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(swept(|| Box::new(cipher(key))))
    }

    /// A key of zeros, without any protection.
    pub fn blank() -> Self {
        Self(Box::new(cipher(&[0; 32])))
    }

    /// Takes another key in place of the one before.
    pub fn replace_key(&mut self, key: &[u8; 32]) {
        replace(&mut self.0, key);
    }

    /// Seals in place.
    pub fn seal(&self, nonce: Nonce, said: &[u8], content: &mut [u8]) -> Tag {
        self.0
            .seal_in_place_separate_tag(nonce, Aad::from(said), content)
            .expect("a datagram is shorter than what AES-GCM can seal")
    }

    /// Opens in place and says how long the content is; `None` unless this key sealed the octets.
    pub fn open(&self, nonce: Nonce, said: &[u8], sealed: &mut [u8]) -> Option<usize> {
        self.0.open_in_place(nonce, Aad::from(said), sealed).ok().map(|content| content.len())
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        replace(&mut self.0, &[0; 32]);
    }
}

/// Overwrites a key and its round keys in place by another key and its round keys.
#[inline(never)]
fn replace(place: &mut LessSafeKey, key: &[u8; 32]) {
    *place = cipher(key);
    black_box(place);
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 octets"))
}

/// An X25519 private key and its public one.
#[derive(Default)]
pub struct X25519 {
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl X25519 {
    /// Takes a private key.
    pub fn set(&mut self, private: &[u8; 32]) {
        self.private.copy_from_slice(private);
        self.public = MontgomeryPoint::mul_base_clamped(*self.private).to_bytes();
    }

    pub fn private(&self) -> &[u8; 32] {
        &self.private
    }

    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// The secret shared with the owner of a public key; `None` when the public key has a low order, because
    /// everyone could compute the secret then (RFC 7748, 6.1).
    pub fn agree(&self, public: &[u8; 32]) -> Option<Zeroizing<[u8; 32]>> {
        let shared = MontgomeryPoint(*public).mul_clamped(*self.private).to_bytes();
        let any = shared.iter().fold(0, |any, octet| any | octet);
        (any != 0).then(|| Zeroizing::new(shared))
    }
}
