//! Measures the cost of authenticating each packet between neighbours, on one core of this machine,
//! beside the cost of other methods and of copying the packet.
//!
//! `cargo run --release -p trackway-hbh --example authenticating`

use std::hash::Hasher as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use base::ip::Spec;
use blake2::Blake2sMac256;
use blake2::digest::Mac;
use hbh::auth::{End, GroupKey, TRAILER};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use siphasher::sip::SipHasher24;

const BATCH: u32 = 64;
const TURNS: u32 = 4_000;

fn main() -> anyhow::Result<()> {
    let (ours, theirs) = (End { boot: 1, session: 2 }, End { boot: 3, session: 4 });
    let key = GroupKey::new(&[7; 32]);
    let aes = UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| anyhow::anyhow!("a key"))?;
    let aes = LessSafeKey::new(aes);
    let sha = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
    for octets in [100, 1_500] {
        let mut packet = Vec::new();
        let [from, to] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
        Spec::new(from, to, 253).emit(octets - 20, &mut packet);
        packet.resize(octets, 0x5a);
        let mut copy = Vec::with_capacity(2_000);

        let mut sender = key.channel(ours, theirs);
        let mut receiver = key.channel(theirs, ours);
        let say = |what: &str, nanos: f64| println!("{octets:5} octets  {what:24} {nanos:6.0} ns");
        say(
            "copy",
            best(|| {
                copy.clear();
                copy.extend_from_slice(black_box(&packet));
            }),
        );
        say(
            &format!("copy, seal (+{TRAILER})"),
            best(|| {
                copy.clear();
                copy.extend_from_slice(black_box(&packet));
                assert!(sender.seal(&mut copy).is_ok());
            }),
        );
        let sealing = best(|| {
            copy.clear();
            copy.extend_from_slice(black_box(&packet));
            assert!(sender.seal(&mut copy).is_ok());
        });
        let mut opened = Vec::with_capacity(2_000);
        let both = best(|| {
            copy.clear();
            copy.extend_from_slice(black_box(&packet));
            assert!(sender.seal(&mut copy).is_ok());
            assert!(receiver.open(&copy, &mut opened).is_ok());
        });
        say("open", both - sealing);
        say(
            "SipHash-2-4 alone",
            best(|| {
                let mut hasher = SipHasher24::new_with_keys(1, 2);
                hasher.write(black_box(&packet));
                black_box(hasher.finish());
            }),
        );
        say(
            "BLAKE2s, keyed",
            best(|| {
                let mac = <Blake2sMac256 as Mac>::new_from_slice(&[7; 32]).expect("a key");
                black_box(mac.chain_update(black_box(&packet)).finalize());
            }),
        );
        say(
            "HMAC-SHA-256 (ring)",
            best(|| {
                black_box(hmac::sign(&sha, black_box(&packet)));
            }),
        );
        say(
            "AES-128-GMAC (ring)",
            best(|| {
                let nonce = Nonce::assume_unique_for_key([0; 12]);
                let tag =
                    aes.seal_in_place_separate_tag(nonce, Aad::from(black_box(&packet)), &mut []);
                black_box(tag.is_ok());
            }),
        );
    }
    Ok(())
}

/// Nanoseconds of a call in the best turn, which is shorter than one of the scheduler's: others may
/// use the machine.
#[expect(clippy::disallowed_methods, reason = "it measures; the core it measures reads no clock")]
fn best(mut call: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..TURNS {
        let begun = Instant::now();
        for _ in 0..BATCH {
            call();
        }
        best = best.min(begun.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(BATCH)
}
