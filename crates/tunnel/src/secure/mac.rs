//! Makes and checks MACs of 16 octets by BLAKE2s.

use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, FixedOutput as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac};

use super::keys::PublicKey;
use super::wire::MAC;

type Mac = Blake2sMac<U16>;

/// The mac of a message under a key of 32 octets at most.
pub fn mac(key: &[u8], message: &[u8]) -> [u8; MAC] {
    let mut mac = <Mac as blake2::digest::KeyInit>::new_from_slice(key).expect("at most 32 octets");
    blake2::digest::Update::update(&mut mac, message);
    mac.finalize_fixed().into()
}

/// Whether `given` is the mac of `message`, in a time that does not tell how wrong it is.
pub fn is_mac(key: &[u8], message: &[u8], given: &[u8; MAC]) -> bool {
    let mut mac = <Mac as blake2::digest::KeyInit>::new_from_slice(key).expect("at most 32 octets");
    blake2::digest::Update::update(&mut mac, message);
    mac.verify_slice(given).is_ok()
}

/// A key derived from a label and a public key.
pub fn key_of(label: &[u8; 8], of: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(label).chain_update(of.octets()).finalize().into()
}

/// The key of `mac1` for messages to the owner of a public key.
pub fn mac_key(of: &PublicKey) -> [u8; 32] {
    key_of(b"mac1----", of)
}

/// Appends `mac1`.
pub fn append_mac1(key: &[u8; 32], message: &mut Vec<u8>) {
    let mac = mac(key, message);
    message.extend_from_slice(&mac);
}

/// Appends `mac2`: zeros without a cookie.
pub fn append_mac2(cookie: Option<&[u8; MAC]>, message: &mut Vec<u8>) {
    let mac = cookie.map_or([0; MAC], |cookie| mac(cookie, message));
    message.extend_from_slice(&mac);
}
