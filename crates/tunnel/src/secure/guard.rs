//! Makes calls cheap to refuse by macs, cookies and budgets.
//!
//! ```text
//!  call ─▶ mac1 right? ─▶ budget left? ──────────────────────────────────────▶ Diffie-Hellman
//!             │ no            │ no                                               ▲
//!             ▼               ▼                                                  │
//!          dropped      mac2 right? ─ yes ─▶ enough left for its network? ───────┘
//!                             │ no
//!                             ▼
//!                        cookie, sealed for the address it came from
//! ```
//! The macs and cookies are WireGuard's (its white paper, 5.3 and 5.4.7). Every call without a cookie is answered by a
//! cookie: the answer costs a few hashes, and is shorter than the call. Callers who have proved their address share a
//! budget; [`super::shares`] lets networks that have used little of the budget go first.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::budget::Budget;
use base::entropy::{Entropy, NoRandomness, draw};
use base::time::Time;
use chacha20poly1305::aead::{AeadInPlace as _, KeyInit as _, Tag};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::keys::PublicKey;
use super::mac::{is_mac, key_of, mac};
use super::shares::{RANKS, Shares};
use super::wire::{Call, Cookie, Index, MAC, NONCE};

/// Calls a second for which keys are computed, whoever calls: some percent of a core.
const CALLS: u32 = 100;
/// Calls a second with a valid cookie for which keys are computed.
const PROVEN_CALLS: u32 = 400;
/// The most such calls in a row; each network that calls for the first time has one call: some tenths of a second of a
/// core.
const PROVEN_AT_ONCE: u32 = 2_048;
/// Calls that have to be left in this budget to admit a caller, for each rank of the caller's
/// network.
const LEFT_FOR_RANK: u32 = PROVEN_AT_ONCE / RANKS;
/// The label of the key that seals cookies.
const COOKIE: &[u8; 8] = b"cookie--";
/// How long a cookie is good.
pub const COOKIE_LIFE: Duration = Duration::from_secs(120);

/// The key that seals cookies for callers of the owner of a public key.
pub fn cookie_key(of: &PublicKey) -> [u8; 32] {
    key_of(COOKIE, of)
}

/// Opens a cookie sent by the owner of key `of` for our call with `mac1`.
pub fn open_cookie(of: &PublicKey, mac1: &[u8; MAC], cookie: &Cookie<'_>) -> Option<[u8; MAC]> {
    let (sealed, tag) = cookie.sealed.split_first_chunk::<MAC>()?;
    let mut opened = *sealed;
    let cipher = XChaCha20Poly1305::new(&cookie_key(of).into());
    let tag = Tag::<XChaCha20Poly1305>::from_slice(tag);
    let nonce = XNonce::from_slice(cookie.nonce);
    cipher.decrypt_in_place_detached(nonce, mac1, &mut opened, tag).ok()?;
    Some(opened)
}

/// The verdict on a call whose `mac1` is right.
#[derive(Debug, Eq, PartialEq)]
pub enum Verdict {
    Admit,
    Refuse,
    /// Send this.
    SendCookie(Vec<u8>),
}

/// The guard before the costly part.
pub struct Guard {
    secret: [u8; 32],
    previous_secret: [u8; 32],
    secret_since: Time,
    calls: Budget,
    proven: Budget,
    shares: Shares,
}

impl Guard {
    pub fn new(now: Time, entropy: &mut dyn Entropy) -> Result<Self, NoRandomness> {
        let secret = draw(entropy)?;
        Ok(Self {
            secret,
            previous_secret: secret,
            secret_since: now,
            calls: Budget::per_second(now, CALLS),
            proven: Budget::new(now, PROVEN_AT_ONCE, Duration::from_secs(1) / PROVEN_CALLS),
            shares: Shares::new(mac(&secret, b"shares")),
        })
    }

    /// Judges a call whose `mac1` is right; `cookie_key` seals cookies for callers of the key that was called.
    pub fn judge(
        &mut self,
        now: Time,
        from: SocketAddr,
        call: &Call<'_>,
        cookie_key: &[u8; 32],
        entropy: &mut dyn Entropy,
    ) -> Verdict {
        if self.calls.spend(now) {
            return Verdict::Admit;
        }
        self.renew(now, entropy);
        if self.is_proven(from, call) {
            let is_admitted = self.admit_proven(now, from);
            return if is_admitted { Verdict::Admit } else { Verdict::Refuse };
        }
        let cookie = cookie(&self.secret, from);
        seal_cookie(cookie_key, call, cookie, entropy).map_or(Verdict::Refuse, Verdict::SendCookie)
    }

    /// Whether a call proves by its `mac2` that a cookie sent to its address has arrived.
    fn is_proven(&self, from: SocketAddr, call: &Call<'_>) -> bool {
        // A caller without a cookie says so, and is cheaper to check.
        let has_one = *call.mac2 != [0; MAC];
        has_one
            && [self.secret, self.previous_secret]
                .map(|secret| cookie(&secret, from))
                .iter()
                .any(|cookie| is_mac(cookie, call.before_mac2, call.mac2))
    }

    /// Networks that have used much lately leave the rest of the budget to others.
    fn admit_proven(&mut self, now: Time, from: SocketAddr) -> bool {
        let rank = self.shares.rank(now, from.ip());
        let is_admitted = self.proven.left(now) > rank * LEFT_FOR_RANK && self.proven.spend(now);
        if is_admitted {
            self.shares.note(now, from.ip());
        }
        is_admitted
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
}

fn seal_cookie(
    key: &[u8; 32],
    call: &Call<'_>,
    mut cookie: [u8; MAC],
    entropy: &mut dyn Entropy,
) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE] = draw(entropy).ok()?;
    let cipher = XChaCha20Poly1305::new(key.into());
    let tag = cipher
        .encrypt_in_place_detached(XNonce::from_slice(&nonce), call.mac1, &mut cookie)
        .ok()?;
    let mut sealed = [0; 2 * MAC];
    sealed[..MAC].copy_from_slice(&cookie);
    sealed[MAC..].copy_from_slice(&tag);
    let index: Index = call.sender;
    Some(Cookie { index, nonce: &nonce, sealed: &sealed }.emit())
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
