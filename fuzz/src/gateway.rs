//! The gateway: what neighbours and the kernel tell it.

use ::gateway::hello::Hello;
use ::gateway::offload::{self, Offload};
use proto::ip::{Checksum, Header};

/// Octets of the Ethernet header from whose end offsets count.
const LINK: usize = 14;

/// Reads the input as a hello, writes it again and compares.
pub(crate) fn hello(input: &[u8]) {
    let _ = Hello::parse(input);
    let mut octets = input.to_vec();
    // With the head and the sum that make it one, so that the fuzzer gets past them.
    if let Some(head) = octets.first_chunk_mut::<7>() {
        *head = [0x80, 1, 0, 0, 0, 0, 0xff];
        octets[4..6].fill(0);
        let sum = Checksum::default().with(&octets).finish();
        octets[4..6].copy_from_slice(&sum.to_be_bytes());
        assert!(Hello::is_one(&octets));
    }
    let Ok(hello) = Hello::parse(&octets) else { return };

    let mut out = Vec::new();
    hello.emit(&mut out);
    assert_eq!(out.len(), octets.len());
    assert_eq!(Hello::parse(&out), Ok(hello));
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
