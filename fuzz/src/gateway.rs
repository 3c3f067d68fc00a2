//! The gateway: what the kernel tells it.

use ::gateway::linux::offload::{self, Offload};
use proto::ip::Header;

/// Octets of the Ethernet header from whose end offsets count.
const LINK: usize = 14;

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
