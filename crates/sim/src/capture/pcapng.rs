//! The three pcapng blocks needed for a capture (draft-ietf-opsawg-pcapng).
//!
//! ```text
//!  octet 0      4        8                             len - 4
//!      +------+--------+----- - - ------+-----------+--------+
//!      | type |  len   | body           | options   |  len   |    each part padded to 4 octets,
//!      +------+--------+----- - - ------+-----------+--------+    numbers little-endian
//! ```

use base::time::Time;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Tells the byte order.
const MAGIC: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const OPTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;

/// Link type of an interface (the registry of link types at tcpdump.org).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkType {
    /// IP packets without anything before them.
    Ip,
    /// STANAG 5066 D_PDUs, from their synchronisation octets on.
    DPdu,
    /// Frames of IEEE 802.11 behind a radiotap header.
    Radiotap,
}

/// Which way a packet passed the interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// Appends the block that a file starts with.
pub fn section_header(out: &mut Vec<u8>) {
    block(SECTION_HEADER, out, |out| {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(OPTION_APPLICATION, b"trackway", out);
        option(OPTION_END, &[], out);
    });
}

/// Appends an interface whose times are in nanoseconds.
pub fn interface(name: &str, carries: LinkType, out: &mut Vec<u8>) {
    let link_type: u16 = match carries {
        LinkType::Ip => 101,
        LinkType::DPdu => 237,
        LinkType::Radiotap => 127,
    };
    block(INTERFACE, out, |out| {
        out.extend_from_slice(&link_type.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&0_u32.to_le_bytes());
        option(OPTION_INTERFACE_NAME, name.as_bytes(), out);
        option(OPTION_RESOLUTION, &[9], out);
        option(OPTION_END, &[], out);
    });
}

/// Appends a packet that passed interface `interface` at `now`.
pub fn packet(now: Time, interface: u32, direction: Direction, packet: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(packet.len()).expect("an IP packet is shorter");
    let flags: u32 = match direction {
        Direction::In => 1,
        Direction::Out => 2,
    };
    // The time's high half comes first, each half little-endian.
    let time = now.as_nanos().rotate_left(32);
    block(PACKET, out, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&time.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        padded(packet, out);
        option(OPTION_PACKET_FLAGS, &flags.to_le_bytes(), out);
        option(OPTION_END, &[], out);
    });
}

fn block(kind: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = u32::try_from(out.len() - start + 4).expect("a block is short").to_le_bytes();
    out.extend_from_slice(&len);
    out[start + 4..start + 8].copy_from_slice(&len);
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    padded(&value[..usize::from(len)], out);
}

fn padded(octets: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(octets);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_block_is_the_octets_of_the_specification() {
        let mut out = Vec::new();

        packet(Time::from_nanos(0x1_0000_0002), 3, Direction::Out, &[0xaa; 5], &mut out);

        let expected = [
            [6, 0, 0, 0],
            [52, 0, 0, 0],
            [3, 0, 0, 0],
            [1, 0, 0, 0],
            [2, 0, 0, 0],
            [5, 0, 0, 0],
            [5, 0, 0, 0],
            [0xaa; 4],
            [0xaa, 0, 0, 0],
            [2, 0, 4, 0],
            [2, 0, 0, 0],
            [0, 0, 0, 0],
            [52, 0, 0, 0],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn every_block_says_its_length_at_both_ends() {
        let mut out = Vec::new();
        section_header(&mut out);
        interface("a:eth0", LinkType::Ip, &mut out);
        packet(Time::ZERO, 0, Direction::In, &[1, 2, 3], &mut out);

        let mut kinds = Vec::new();
        let mut rest = &out[..];
        while let Some((head, _)) = rest.split_first_chunk::<8>() {
            let len = u32::from_le_bytes(head[4..].try_into().unwrap());
            let (block, after) = rest.split_at(len as usize);
            assert_eq!(block[block.len() - 4..], head[4..]);
            assert_eq!(len % 4, 0);
            kinds.push(u32::from_le_bytes(head[..4].try_into().unwrap()));
            rest = after;
        }

        assert_eq!(kinds, [SECTION_HEADER, INTERFACE, PACKET]);
    }
}
