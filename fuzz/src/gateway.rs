//! The gateway: what neighbours and the kernel tell it.

use ::gateway::hello::Hello;
use ::gateway::linux::offload::{self, Offload};
use proto::hbh::auth::{self, GroupKey};
use proto::ip::{Checksum, Header};

/// Octets of the Ethernet header from whose end offsets count.
const LINK: usize = 14;
/// Octets of a hello's head.
const HELLO: usize = 36;

/// Reads the input as a hello, writes it again and compares.
pub(crate) fn hello(input: &[u8]) {
    let key = GroupKey::new(&[7; auth::KEY]);
    for key in [None, Some(&key)] {
        let _ = Hello::parse(input, key);
    }
    let mut octets = input.to_vec();
    // With the head and the sum that make it one, so that the fuzzer gets past them.
    if octets.len() >= HELLO {
        octets[..7].copy_from_slice(&[0x80, 2, 0, 0, 0, 0, 0xff]);
        octets[HELLO - 2..HELLO].fill(0);
        let sum = Checksum::default().with(&octets).finish();
        octets[4..6].copy_from_slice(&sum.to_be_bytes());
        assert!(Hello::is_one(&octets));
    }
    let Ok(hello) = Hello::parse(&octets, None) else { return };

    for key in [None, Some(&key)] {
        let mut out = Vec::new();
        hello.emit(key, &mut out);
        assert_eq!(out.len(), octets.len() + key.map_or(0, |_| auth::HELLO_TAG));
        assert_eq!(Hello::parse(&out, key), Ok(hello.clone()));
    }
}

/// Reads the input as a train of segments from the kernel, and cuts it.
pub(crate) fn offload(input: &[u8]) {
    let Ok(train) = Offload::parse(input, LINK) else { return };
    let mut packet = input[offload::HEADER..].to_vec();
    let original = packet.clone();

    let mut pieces = 0;
    let mut is_whole = true;
    let cut = train.segment(&mut packet, &mut Vec::new(), |piece| {
        pieces += 1;
        assert!(piece.len() <= original.len());
        if piece.len() < original.len() || pieces > 1 {
            is_whole = false;
            let header = Header::parse(piece).expect("a piece is a packet");
            assert_eq!(header.total_len, piece.len());
        }
    });
    assert!(pieces <= original.len().max(1));
    if is_whole && cut.is_ok() {
        assert_eq!(packet.len(), original.len());
    }
}
