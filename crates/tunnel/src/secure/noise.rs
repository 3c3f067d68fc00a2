//! The Noise handshake: two messages, then two keys.
//!
//! ```text
//!  initiator                                responder
//!     e, es, s, ss, payload   ───────────▶            knows who calls, and what is said
//!               ◀───────────  e, ee, se, psk, payload
//!     keys                                     keys
//! ```

use std::sync::OnceLock;

use base::entropy::{Entropy, draw};
use blake2::{Blake2s256, Digest as _};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize as _, Zeroizing};

use super::data::nonce;
use super::keys::{PresharedKey, PrivateKey, PublicKey};
use super::secret::{Aead, TAG, X25519, swept};

/// Octets that each side says in the handshake.
pub const PAYLOAD: usize = 24;
/// Octets of the initiator's message: a key, a key and its tag, the payload and its tag.
pub const INITIATION: usize = 32 + 48 + PAYLOAD + 16;
/// Octets of the responder's message: a key, the payload and its tag.
pub const RESPONSE: usize = 32 + PAYLOAD + 16;

const PATTERN: &str = "Noise_IKpsk2_25519_AESGCM_BLAKE2s";
/// Both must mean the same protocol.
///
/// Its digit is the version of the tunnel's handshake. Ends of different versions cannot read each other.
const PROLOGUE: &[u8] = b"trackway tunnel 1";
/// Where the shared secret is mixed in: after the second message's tokens.
const PSK_PLACE: u8 = 2;

/// The two keys of a session.
pub struct Keys {
    pub seal: Aead,
    pub open: Aead,
}

/// An initiator's handshake without an answer so far.
pub struct Initiation(State);

/// An initiator's message that could be read.
pub struct Call {
    state: State,
    from: PublicKey,
    payload: [u8; PAYLOAD],
}

/// Begins a handshake; `None` when there is no randomness, or the peer's key has a low order.
pub fn call(
    local: &PrivateKey,
    remote: &PublicKey,
    psk: &PresharedKey,
    payload: &[u8; PAYLOAD],
    entropy: &mut dyn Entropy,
) -> Option<(Initiation, [u8; INITIATION])> {
    swept(|| make_call(local, remote, psk, payload, entropy, PROLOGUE))
}

/// The call of a program with another version of the handshake.
#[cfg(test)]
pub fn call_of_version(
    version: u8,
    local: &PrivateKey,
    remote: &PublicKey,
    payload: &[u8; PAYLOAD],
    entropy: &mut dyn Entropy,
) -> [u8; INITIATION] {
    let prologue = format!("trackway tunnel {version}");
    let (none, prologue) = (PresharedKey::none(), prologue.as_bytes());
    make_call(local, remote, &none, payload, entropy, prologue).expect("a key").1
}

/// Reads an initiator's message; `None` when it was not made for us, or there is no randomness.
pub fn hear(
    local: &PrivateKey,
    message: &[u8; INITIATION],
    entropy: &mut dyn Entropy,
) -> Option<Call> {
    swept(|| {
        let mut state = State::new(
            builder(local, entropy, PROLOGUE)?.build_responder().expect("a key of 32 octets"),
        );
        let mut payload = [0; PAYLOAD];
        state.0.read_message(message, &mut payload).ok()?;
        let from = state.0.get_remote_static()?.try_into().ok()?;
        Some(Call { state, from: PublicKey::from_octets(from), payload })
    })
}

impl Call {
    /// Whose it is.
    pub fn from(&self) -> PublicKey {
        self.from
    }

    /// What the caller says.
    pub fn payload(&self) -> [u8; PAYLOAD] {
        self.payload
    }

    /// Answers it; `None` when snow refuses.
    pub fn answer(
        self,
        psk: &PresharedKey,
        payload: &[u8; PAYLOAD],
    ) -> Option<(Keys, [u8; RESPONSE])> {
        swept(|| {
            let Self { state: mut noise, .. } = self;
            let State(state) = &mut noise;
            state.set_psk(usize::from(PSK_PLACE), psk.octets()).ok()?;
            let mut message = [0; RESPONSE];
            let len = state.write_message(payload, &mut message).ok()?;
            debug_assert_eq!(len, RESPONSE, "the pattern has a fixed length");
            let (open, seal) = split(state);
            Some((Keys { seal, open }, message))
        })
    }
}

impl Initiation {
    /// Reads the answer; `None` when it is not the peer's, and another may still come.
    pub fn hear(&mut self, message: &[u8; RESPONSE]) -> Option<(Keys, [u8; PAYLOAD])> {
        swept(|| {
            let Self(State(state)) = self;
            let mut payload = [0; PAYLOAD];
            state.read_message(message, &mut payload).ok()?;
            let (seal, open) = split(state);
            Some((Keys { seal, open }, payload))
        })
    }
}

fn make_call(
    local: &PrivateKey,
    remote: &PublicKey,
    psk: &PresharedKey,
    payload: &[u8; PAYLOAD],
    entropy: &mut dyn Entropy,
    prologue: &[u8],
) -> Option<(Initiation, [u8; INITIATION])> {
    let state = builder(local, entropy, prologue)?
        .remote_public_key(remote.octets())
        .and_then(|builder| builder.psk(PSK_PLACE, psk.octets()))
        .and_then(Builder::build_initiator)
        .expect("keys of 32 octets, each given once");
    let (mut state, mut message) = (State::new(state), [0; INITIATION]);
    let len = state.0.write_message(payload, &mut message).ok()?;
    debug_assert_eq!(len, INITIATION, "the pattern has a fixed length");
    Some((Initiation(state), message))
}

/// The sending keys of the initiator and of the responder.
fn split(state: &mut HandshakeState) -> (Aead, Aead) {
    let (initiators, responders) = state.dangerously_get_raw_split();
    let (initiators, responders) = (Zeroizing::new(initiators), Zeroizing::new(responders));
    (Aead::new(&initiators), Aead::new(&responders))
}

/// A handshake's state, which is overwritten when it ends. It stands in one place.
struct State(Box<HandshakeState>);

impl State {
    fn new(state: HandshakeState) -> Self {
        Self(Box::new(state))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Overwrites the secrets in the type itself: the shared secret, and the chaining key.
        // Secrets in boxes overwrite themselves.
        let _ = self.0.set_psk(usize::from(PSK_PLACE), &[0; 32]);
        *self.0 = blank();
        std::hint::black_box(&mut *self.0);
    }
}

/// A handshake's state without secrets.
fn blank() -> HandshakeState {
    static PARAMS: OnceLock<NoiseParams> = OnceLock::new();
    let params =
        PARAMS.get_or_init(|| "Noise_NN_25519_AESGCM_BLAKE2s".parse().expect("snow knows it"));
    Builder::with_resolver(params.clone(), Box::new(Parts(Zeroizing::default())))
        .build_initiator()
        .expect("it needs no keys")
}

fn builder<'a>(
    local: &'a PrivateKey,
    entropy: &mut dyn Entropy,
    prologue: &'a [u8],
) -> Option<Builder<'a>> {
    static PARAMS: OnceLock<NoiseParams> = OnceLock::new();
    let params = PARAMS.get_or_init(|| PATTERN.parse().expect("a pattern that snow knows"));
    let ephemeral = Zeroizing::new(draw(entropy).ok()?);
    let builder = Builder::with_resolver(params.clone(), Box::new(Parts(ephemeral)))
        .local_private_key(local.octets())
        .and_then(|builder| builder.prologue(prologue))
        .expect("each is given once");
    Some(builder)
}

/// The building blocks of a handshake: primitives that overwrite their secrets, and the ephemeral
/// key drawn for the handshake.
struct Parts(Zeroizing<[u8; 32]>);

impl CryptoResolver for Parts {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(self.0.clone(), false)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::<X25519>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        (*choice == HashChoice::Blake2s).then(|| Box::<Blake2s>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::AESGCM).then(|| Box::new(Aead::blank()) as Box<dyn Cipher>)
    }
}

/// An ephemeral key that is given once, as a handshake makes no more than one; and whether it was.
struct Drawn(Zeroizing<[u8; 32]>, bool);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        if std::mem::replace(&mut self.1, true) || out.len() != self.0.len() {
            return Err(snow::Error::Rng);
        }
        out.copy_from_slice(&*self.0);
        self.0.zeroize();
        Ok(())
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        Self::set(self, private.try_into().expect("a private key of 32 octets"));
    }

    fn generate(&mut self, drawn: &mut dyn Random) -> Result<(), snow::Error> {
        let mut private = Zeroizing::new([0; 32]);
        drawn.try_fill_bytes(&mut *private)?;
        Self::set(self, &private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        self.public()
    }

    fn privkey(&self) -> &[u8] {
        self.private()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let public = public.first_chunk().ok_or(snow::Error::Dh)?;
        let shared = self.agree(public).ok_or(snow::Error::Dh)?;
        out[..shared.len()].copy_from_slice(&*shared);
        Ok(())
    }
}

impl Cipher for Aead {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.replace_key(key);
    }

    fn encrypt(&self, number: u64, said: &[u8], content: &[u8], out: &mut [u8]) -> usize {
        let (sealed, rest) = out.split_at_mut(content.len());
        sealed.copy_from_slice(content);
        let tag = self.seal(nonce(number), said, sealed);
        rest[..TAG].copy_from_slice(tag.as_ref());
        content.len() + TAG
    }

    fn decrypt(
        &self,
        number: u64,
        said: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, snow::Error> {
        let mut opened = Zeroizing::new(sealed.to_vec());
        let len = self.open(nonce(number), said, &mut opened).ok_or(snow::Error::Decrypt)?;
        out.get_mut(..len).ok_or(snow::Error::Decrypt)?.copy_from_slice(&opened[..len]);
        Ok(len)
    }
}

/// BLAKE2s. Forgets its input when the result is taken; no more input follows.
#[derive(Default)]
struct Blake2s(Blake2s256);

impl Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = std::mem::take(&mut self.0).finalize();
        out[..hash.len()].copy_from_slice(&hash);
    }
}

#[cfg(test)]
mod tests {
    use base::entropy::Seeded;
    use base::rng::Rng;

    use super::*;

    #[test]
    fn both_sides_have_the_same_keys_and_hear_what_is_said() {
        let (alice, bob, mut entropy) = two();

        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &PresharedKey::none(), &[1; PAYLOAD], &mut entropy)
                .unwrap();
        let heard = hear(&bob, &message, &mut entropy).unwrap();
        assert_eq!((heard.from, heard.payload), (alice.public_key(), [1; PAYLOAD]));
        let (bobs, message) = heard.answer(&PresharedKey::none(), &[2; PAYLOAD]).unwrap();
        let (alices, said) = initiation.hear(&message).unwrap();

        assert_eq!(said, [2; PAYLOAD]);
        let tag = |key: &Aead| key.seal(nonce(1), &[], &mut [0; 3]).as_ref().to_vec();
        assert_eq!((tag(&alices.seal), tag(&alices.open)), (tag(&bobs.open), tag(&bobs.seal)));
        assert_ne!(tag(&alices.seal), tag(&alices.open));
    }

    #[test]
    fn another_shared_secret_or_another_key_is_not_heard() {
        let (alice, bob, mut entropy) = two();
        let psk: PresharedKey = alice.to_base64().parse().unwrap();

        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &psk, &[1; PAYLOAD], &mut entropy).unwrap();
        let (_, wrong) = hear(&bob, &message, &mut entropy)
            .unwrap()
            .answer(&PresharedKey::none(), &[2; PAYLOAD])
            .unwrap();
        let (_, right) =
            hear(&bob, &message, &mut entropy).unwrap().answer(&psk, &[2; PAYLOAD]).unwrap();

        assert!(hear(&alice, &message, &mut entropy).is_none());
        assert!(initiation.hear(&wrong).is_none());
        assert!(initiation.hear(&right).is_some(), "a wrong answer must not spoil the right one");
    }

    /// An ephemeral key of low order would make the agreed secret known to everyone.
    #[test]
    fn ephemeral_keys_of_low_order_are_refused() {
        let (alice, _, mut entropy) = two();
        let with_nobody = PublicKey::from_octets([0; 32]);

        let none = PresharedKey::none();
        assert!(call(&alice, &with_nobody, &none, &[1; PAYLOAD], &mut entropy).is_none());
        let mut agreed = X25519::default();
        agreed.set(alice.octets());
        for first in [0, 1] {
            let mut low = [0; 32];
            low[0] = first;
            assert!(agreed.agree(&low).is_none());
            // The highest bit is none of the key's.
            low[31] = 0x80;
            assert!(agreed.agree(&low).is_none());
        }
    }

    /// The crate seals a datagram exactly like Noise's own transport.
    #[test]
    fn the_split_keys_seal_as_noise_does() {
        let (alice, bob, mut entropy) = two();
        let (mut initiation, message) =
            call(&alice, &bob.public_key(), &PresharedKey::none(), &[0; PAYLOAD], &mut entropy)
                .unwrap();
        let heard = hear(&bob, &message, &mut entropy).unwrap();
        let (_, message) = heard.answer(&PresharedKey::none(), &[0; PAYLOAD]).unwrap();
        let (keys, _) = initiation.hear(&message).unwrap();
        let state = std::mem::replace(&mut *initiation.0.0, blank());
        let noise = state.into_stateless_transport_mode().unwrap();
        let (number, payload) = (0x0102_0304_0506_u64, *b"a datagram");

        let mut expected = [0; 26];
        noise.write_message(number, &payload, &mut expected).unwrap();
        let mut sealed = payload.to_vec();
        let tag = keys.seal.seal(nonce(number), &[], &mut sealed);
        sealed.extend_from_slice(tag.as_ref());

        assert_eq!(sealed, expected);
    }

    fn two() -> (PrivateKey, PrivateKey, Seeded) {
        let mut entropy = Seeded(Rng::stream(1, "noise"));
        let mut key = || PrivateKey::generate(&mut entropy).unwrap();
        (key(), key(), entropy)
    }
}
