//! Keyed hashes of 16 octets, by BLAKE2s, of calls and of what else nobody may foresee.

use blake2::Blake2sMac;
use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput as _, Mac as _};

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
