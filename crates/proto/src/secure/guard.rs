//! What makes calls cheap to refuse: macs, cookies and budgets.
//!
//! ```text
//!  call ─▶ mac1 right? ─▶ budget left? ─────────────────────────────▶ Diffie-Hellman
//!             │ no            │ no                                      ▲
//!             ▼               ▼                                         │
//!          dropped      mac2 right? ─ yes ─▶ budget of its address? ────┘
//!                             │ no
//!                             ▼
//!                        cookie, sealed for the address it came from
//! ```
//! The macs and cookies are WireGuard's (its white paper, 5.3 and 5.4.7).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::budget::Budget;
use crate::time::Time;
use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, FixedOutput as _, KeyInit as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac};
use chacha20poly1305::aead::{AeadInPlace as _, Tag};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::entropy::{Entropy, NoRandomness, draw};
use super::keys::PublicKey;
use super::wire::{Call, Cookie, Index, MAC, NONCE};

type Mac = Blake2sMac<U16>;

/// Calls a second for which keys are computed, whoever calls: some percent of a core.
const CALLS: u32 = 100;
/// The same for those who showed that they receive at their address.
const PROVEN_CALLS: u32 = 400;
/// The same of one address, or of one IPv6 network of 64 bits.
const ADDRESS_CALLS: u32 = 10;
/// Cookies a second.
const COOKIES: u32 = 2_000;
/// Addresses whose budgets are remembered.
const ADDRESSES: usize = 1_024;
/// How long a cookie is good.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(120);

/// The key of `mac1` for messages to the owner of a public key.
pub(super) fn mac_key(of: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(b"mac1----").chain_update(of.octets()).finalize().into()
}

fn cookie_key(of: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(b"cookie--").chain_update(of.octets()).finalize().into()
}

fn mac(key: &[u8], message: &[u8]) -> [u8; MAC] {
    let mut mac = <Mac as blake2::digest::KeyInit>::new_from_slice(key).expect("at most 32 octets");
    blake2::digest::Update::update(&mut mac, message);
    mac.finalize_fixed().into()
}

/// Appends `mac1`.
pub(super) fn append_mac1(key: &[u8; 32], message: &mut Vec<u8>) {
    let mac = mac(key, message);
    message.extend_from_slice(&mac);
}

/// Appends `mac2`: zeros without a cookie.
pub(super) fn append_mac2(cookie: Option<&[u8; MAC]>, message: &mut Vec<u8>) {
    let mac = cookie.map_or([0; MAC], |cookie| mac(cookie, message));
    message.extend_from_slice(&mac);
}

/// Whether `given` is the mac of `message`, in a time that does not tell how wrong it is.
pub(super) fn is_mac(key: &[u8], message: &[u8], given: &[u8; MAC]) -> bool {
    let mut mac = <Mac as blake2::digest::KeyInit>::new_from_slice(key).expect("at most 32 octets");
    blake2::digest::Update::update(&mut mac, message);
    mac.verify_slice(given).is_ok()
}

/// Opens a cookie that the owner of `of` sent for our call with this `mac1`.
pub(super) fn open_cookie(
    of: &PublicKey,
    mac1: &[u8; MAC],
    cookie: &Cookie<'_>,
) -> Option<[u8; MAC]> {
    let (sealed, tag) = cookie.sealed.split_first_chunk::<MAC>()?;
    let mut opened = *sealed;
    let cipher = XChaCha20Poly1305::new(&cookie_key(of).into());
    let tag = Tag::<XChaCha20Poly1305>::from_slice(tag);
    let nonce = XNonce::from_slice(cookie.nonce);
    cipher.decrypt_in_place_detached(nonce, mac1, &mut opened, tag).ok()?;
    Some(opened)
}

/// What to do with a call whose `mac1` is right.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Admit,
    Refuse,
    /// Send this.
    SendCookie(Vec<u8>),
}

/// The guard before the costly part.
pub(super) struct Guard {
    cipher: XChaCha20Poly1305,
    secret: [u8; 32],
    previous_secret: [u8; 32],
    secret_since: Time,
    calls: Budget,
    proven: Budget,
    cookies: Budget,
    addresses: BTreeMap<IpAddr, Budget>,
}

impl Guard {
    pub(super) fn new(
        now: Time,
        local: &PublicKey,
        entropy: &mut dyn Entropy,
    ) -> Result<Self, NoRandomness> {
        let secret = draw(entropy)?;
        Ok(Self {
            cipher: XChaCha20Poly1305::new(&cookie_key(local).into()),
            secret,
            previous_secret: secret,
            secret_since: now,
            calls: Budget::per_second(now, CALLS),
            proven: Budget::per_second(now, PROVEN_CALLS),
            cookies: Budget::per_second(now, COOKIES),
            addresses: BTreeMap::new(),
        })
    }

    /// Judges a call whose `mac1` is right.
    pub(super) fn judge(
        &mut self,
        now: Time,
        from: SocketAddr,
        call: &Call<'_>,
        entropy: &mut dyn Entropy,
    ) -> Verdict {
        if self.calls.spend(now) {
            return Verdict::Admit;
        }
        self.renew(now, entropy);
        let cookies = [self.secret, self.previous_secret].map(|secret| cookie(&secret, from));
        if cookies.iter().any(|cookie| is_mac(cookie, call.before_mac2, call.mac2)) {
            let is_admitted = self.admit_address(now, from) && self.proven.spend(now);
            return if is_admitted { Verdict::Admit } else { Verdict::Refuse };
        }
        if !self.cookies.spend(now) {
            return Verdict::Refuse;
        }
        self.seal_cookie(call, cookies[0], entropy).map_or(Verdict::Refuse, Verdict::SendCookie)
    }

    fn renew(&mut self, now: Time, entropy: &mut dyn Entropy) {
        if now.since(self.secret_since) < COOKIE_LIFE {
            return;
        }
        if let Ok(secret) = draw(entropy) {
            let before = std::mem::replace(&mut self.secret, secret);
            // No cookie is good any more that was made with a secret this old.
            let is_over = now.since(self.secret_since) >= 2 * COOKIE_LIFE;
            self.previous_secret = if is_over { secret } else { before };
            self.secret_since = now;
        }
    }

    fn admit_address(&mut self, now: Time, from: SocketAddr) -> bool {
        let network = network(from.ip());
        if !self.addresses.contains_key(&network) && self.addresses.len() >= ADDRESSES {
            // Full budgets need not be remembered.
            self.addresses.retain(|_, budget| !budget.is_full(now));
            if self.addresses.len() >= ADDRESSES {
                return false;
            }
        }
        let budget =
            self.addresses.entry(network).or_insert_with(|| Budget::per_second(now, ADDRESS_CALLS));
        budget.spend(now)
    }

    fn seal_cookie(
        &self,
        call: &Call<'_>,
        mut cookie: [u8; MAC],
        entropy: &mut dyn Entropy,
    ) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE] = draw(entropy).ok()?;
        let tag = self
            .cipher
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), call.mac1, &mut cookie)
            .ok()?;
        let mut sealed = [0; 2 * MAC];
        sealed[..MAC].copy_from_slice(&cookie);
        sealed[MAC..].copy_from_slice(&tag);
        let index: Index = call.sender;
        Some(Cookie { index, nonce: &nonce, sealed: &sealed }.emit())
    }
}

fn cookie(secret: &[u8; 32], from: SocketAddr) -> [u8; MAC] {
    let mut address = [0; 18];
    match from.ip() {
        IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => address[..16].copy_from_slice(&ip.octets()),
    }
    address[16..].copy_from_slice(&from.port().to_be_bytes());
    mac(secret, &address)
}

/// What one subscriber has: an IPv4 address, or an IPv6 network of 64 bits.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::entropy::Seeded;
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn so_many_addresses_are_remembered_and_those_that_are_quiet_make_room() {
        let now = Time::ZERO;
        let own = PublicKey::from_octets([9; 32]);
        let mut guard = Guard::new(now, &own, &mut Seeded(Rng::stream(1, "guard"))).unwrap();
        let mut admitted = |now, first: u32| {
            let from = |at| SocketAddr::from((Ipv4Addr::from_bits(first + at), 1));
            let count = (0..2_000).filter(|at| guard.admit_address(now, from(*at))).count();
            (count, guard.addresses.len())
        };

        assert_eq!(admitted(now, 1 << 24), (ADDRESSES, ADDRESSES));
        assert_eq!(admitted(now, 2 << 24), (0, ADDRESSES));
        assert_eq!(admitted(now + Duration::from_secs(1), 2 << 24), (ADDRESSES, ADDRESSES));
    }
}
