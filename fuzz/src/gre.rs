//! Fuzzes GRE with arbitrary packets from a router.

use base::gre::wire::{HEADER, IPV4, IPV6, OPTION};
use base::gre::{Packet, carried};
use base::ip::Header;

/// Reads the input as a GRE packet, without its IP header.
pub fn packet(input: &[u8]) {
    let Ok(packet) = Packet::parse(input) else {
        assert!(carried(&mut input.to_vec(), None).is_err());
        return;
    };
    assert!(HEADER + packet.payload.len() <= input.len());

    for has_checksum in [false, true] {
        let mut octets = Vec::new();
        packet.emit(has_checksum, &mut octets);
        assert_eq!(Packet::parse(&octets), Ok(packet));
        let options = usize::from(has_checksum) + usize::from(packet.key.is_some());
        assert_eq!(octets.len(), HEADER + options * OPTION + packet.payload.len());
        // With at most a key, and every ignored bit zero, the octets are the same.
        if !has_checksum && [&[0, 0], &[0x20, 0]].iter().any(|flags| input.starts_with(*flags)) {
            assert_eq!(octets, input);
        }
    }

    assert!(
        carried(&mut input.to_vec(), packet.key.map_or(Some(0), |key| key.checked_add(1))).is_err()
    );
    let mut octets = input.to_vec();
    if let Ok(inner) = carried(&mut octets, packet.key) {
        let header = Header::parse(inner).expect("a packet of IP");
        let protocol = if header.source.is_ipv4() { IPV4 } else { IPV6 };
        assert_eq!((header.total_len, protocol), (inner.len(), packet.protocol));
    }
}
