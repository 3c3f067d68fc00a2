//! The Noise handshake: two messages, then two keys.
//!
//! ```text
//!  initiator                                responder
//!     e, es, s, ss, payload   ───────────▶            knows who calls, and what is said
//!               ◀───────────  e, ee, se, psk, payload
//!     keys                                     keys
//! ```

use std::sync::OnceLock;

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use super::entropy::{Entropy, draw};
use super::keys::{PresharedKey, PrivateKey, PublicKey};

/// Octets that each side says in the handshake.
pub(super) const PAYLOAD: usize = 24;
/// Octets of the initiator's message: a key, a key and its tag, the payload and its tag.
pub(super) const INITIATION: usize = 32 + 48 + PAYLOAD + 16;
/// Octets of the responder's message: a key, the payload and its tag.
pub(super) const RESPONSE: usize = 32 + PAYLOAD + 16;

const PATTERN: &str = "Noise_IKpsk2_25519_AESGCM_BLAKE2s";
/// Both must mean the same protocol.
const PROLOGUE: &[u8] = b"trackway tunnel 1";
/// Where the shared secret is mixed in: after the second message's tokens.
const PSK_PLACE: u8 = 2;

/// The two keys of a session.
pub(super) struct Keys {
    pub(super) seal: [u8; 32],
    pub(super) open: [u8; 32],
}

/// A handshake that waits for its answer.
pub(super) struct Initiation(HandshakeState);

/// An initiator's message that could be read.
pub(super) struct Call {
    state: HandshakeState,
    pub(super) from: PublicKey,
    pub(super) payload: [u8; PAYLOAD],
}

/// Begins a handshake; `None` when there is no randomness.
pub(super) fn call(
    local: &PrivateKey,
    remote: &PublicKey,
    psk: &PresharedKey,
    payload: &[u8; PAYLOAD],
    entropy: &mut dyn Entropy,
) -> Option<(Initiation, [u8; INITIATION])> {
    let mut state = builder(local, draw(entropy).ok()?)
        .remote_public_key(remote.octets())
        .and_then(|builder| builder.psk(PSK_PLACE, psk.octets()))
        .and_then(Builder::build_initiator)
        .expect("keys of 32 octets, each given once");
    let mut message = [0; INITIATION];
    let len = state.write_message(payload, &mut message).ok()?;
    debug_assert_eq!(len, INITIATION, "the pattern has a fixed length");
    Some((Initiation(state), message))
}

/// Reads an initiator's message; `None` when it was not made for us, or there is no randomness.
pub(super) fn hear(
    local: &PrivateKey,
    message: &[u8; INITIATION],
    entropy: &mut dyn Entropy,
) -> Option<Call> {
    let mut state =
        builder(local, draw(entropy).ok()?).build_responder().expect("a key of 32 octets");
    let mut payload = [0; PAYLOAD];
    state.read_message(message, &mut payload).ok()?;
    let from = state.get_remote_static()?.try_into().ok()?;
    Some(Call { state, from: PublicKey::from_octets(from), payload })
}

impl Call {
    /// Answers it; `None` when snow refuses.
    pub(super) fn answer(
        mut self,
        psk: &PresharedKey,
        payload: &[u8; PAYLOAD],
    ) -> Option<(Keys, [u8; RESPONSE])> {
        self.state.set_psk(usize::from(PSK_PLACE), psk.octets()).ok()?;
        let mut message = [0; RESPONSE];
        let len = self.state.write_message(payload, &mut message).ok()?;
        debug_assert_eq!(len, RESPONSE, "the pattern has a fixed length");
        let (open, seal) = self.state.dangerously_get_raw_split();
        Some((Keys { seal, open }, message))
    }
}

impl Initiation {
    /// Reads the answer; `None` when it is not the peer's, and another may still come.
    pub(super) fn hear(&mut self, message: &[u8; RESPONSE]) -> Option<(Keys, [u8; PAYLOAD])> {
        let mut payload = [0; PAYLOAD];
        self.0.read_message(message, &mut payload).ok()?;
        let (seal, open) = self.0.dangerously_get_raw_split();
        Some((Keys { seal, open }, payload))
    }
}

fn builder(local: &PrivateKey, ephemeral: [u8; 32]) -> Builder<'_> {
    static PARAMS: OnceLock<NoiseParams> = OnceLock::new();
    let params = PARAMS.get_or_init(|| PATTERN.parse().expect("a pattern that snow knows"));
    Builder::with_resolver(params.clone(), Box::new(Parts { ephemeral }))
        .local_private_key(local.octets())
        .and_then(|builder| builder.prologue(PROLOGUE))
        .expect("each is given once")
}

/// What a handshake is made of: ring's cipher, and the ephemeral key that was drawn for it.
struct Parts {
    ephemeral: [u8; 32],
}

impl CryptoResolver for Parts {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(Some(self.ephemeral))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// An ephemeral key that is given once: a handshake makes no more than one.
struct Drawn(Option<[u8; 32]>);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let octets = self.0.take().filter(|octets| octets.len() == out.len());
        out.copy_from_slice(&octets.ok_or(snow::Error::Rng)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use super::super::entropy::Seeded;
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn both_sides_have_the_same_keys_and_hear_what_is_said() {
        let (alice, bob, mut entropy) = two();

        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &PresharedKey::NONE, &[1; PAYLOAD], &mut entropy)
                .unwrap();
        let heard = hear(&bob, &message, &mut entropy).unwrap();
        assert_eq!((heard.from, heard.payload), (alice.public_key(), [1; PAYLOAD]));
        let (bobs, message) = heard.answer(&PresharedKey::NONE, &[2; PAYLOAD]).unwrap();
        let (alices, said) = initiation.hear(&message).unwrap();

        assert_eq!(said, [2; PAYLOAD]);
        assert_eq!((alices.seal, alices.open), (bobs.open, bobs.seal));
        assert_ne!(alices.seal, alices.open);
    }

    #[test]
    fn another_shared_secret_or_another_key_is_not_heard() {
        let (alice, bob, mut entropy) = two();
        let psk: PresharedKey = alice.to_base64().parse().unwrap();

        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &psk, &[1; PAYLOAD], &mut entropy).unwrap();
        let (_, wrong) = hear(&bob, &message, &mut entropy)
            .unwrap()
            .answer(&PresharedKey::NONE, &[2; PAYLOAD])
            .unwrap();
        let (_, right) =
            hear(&bob, &message, &mut entropy).unwrap().answer(&psk, &[2; PAYLOAD]).unwrap();

        assert!(hear(&alice, &message, &mut entropy).is_none());
        assert!(initiation.hear(&wrong).is_none());
        assert!(initiation.hear(&right).is_some(), "a wrong answer must not spoil the right one");
    }

    /// What is sealed here is what Noise's own transport would send.
    #[test]
    fn the_split_keys_seal_as_noise_does() {
        let (alice, bob, mut entropy) = two();
        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &PresharedKey::NONE, &[0; PAYLOAD], &mut entropy)
                .unwrap();
        let heard = hear(&bob, &message, &mut entropy).unwrap();
        let (_, message) = heard.answer(&PresharedKey::NONE, &[0; PAYLOAD]).unwrap();
        let (keys, _) = initiation.hear(&message).unwrap();
        let noise = initiation.0.into_stateless_transport_mode().unwrap();
        let (number, payload) = (0x0102_0304_0506_u64, *b"a datagram");

        let mut expected = [0; 26];
        noise.write_message(number, &payload, &mut expected).unwrap();
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &keys.seal).unwrap());
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        let mut sealed = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).unwrap();

        assert_eq!(sealed, expected);
    }

    fn two() -> (PrivateKey, PrivateKey, Seeded) {
        let mut entropy = Seeded(Rng::stream(1, "noise"));
        let mut key = || PrivateKey::generate(&mut entropy).unwrap();
        (key(), key(), entropy)
    }
}
