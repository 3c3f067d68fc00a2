//! Ethernet headers.

use std::fmt;
use std::str::FromStr;

/// Octets of the header.
pub const HEADER: usize = 14;

/// A hardware address.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All stations.
    pub const EVERYONE: Self = Self([0xff; 6]);

    /// Whether it is one station's.
    #[must_use]
    pub fn is_station(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

/// Why a text is no hardware address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no hardware address: six octets in hex, such as 02:11:22:33:44:55")]
pub struct NoMac;

impl FromStr for Mac {
    type Err = NoMac;

    fn from_str(text: &str) -> Result<Self, NoMac> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(NoMac)?;
            let is_hex = part.bytes().all(|letter| letter.is_ascii_hexdigit());
            *octet = u8::from_str_radix(part, 16).ok().filter(|_| is_hex).ok_or(NoMac)?;
        }
        if parts.next().is_some() { Err(NoMac) } else { Ok(Self(octets)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The header of a frame that carries an IP packet.
#[must_use]
pub fn header(destination: Mac, source: Mac, packet: &[u8]) -> [u8; HEADER] {
    let kind: [u8; 2] = match packet.first().map(|first| first >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [0x08, 0x00],
    };
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&kind);
    header
}

/// Reads a frame that carries an IP packet: destination, source, packet.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<(Mac, Mac, &[u8])> {
    let (header, packet) = frame.split_first_chunk::<HEADER>()?;
    let &[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, k0, k1] = header;
    matches!([k0, k1], [0x08, 0x00] | [0x86, 0xdd]).then_some((
        Mac([d0, d1, d2, d3, d4, d5]),
        Mac([s0, s1, s2, s3, s4, s5]),
        packet,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_shown() {
        let mac = Mac([2, 0x11, 0xaa, 0, 0xff, 9]);

        assert_eq!(mac.to_string().parse(), Ok(mac));
        for text in
            ["", "02:11:22:33:44", "02:11:22:33:44:55:66", "2:11:22:33:44:55", "+2:1:2:3:4:5"]
        {
            assert_eq!(text.parse::<Mac>(), Err(NoMac), "{text}");
        }
    }

    #[test]
    fn groups_and_nobody_are_no_station() {
        let is_station = |first: u8| Mac([first, 0, 0, 0, 0, 0]).is_station();

        assert_eq!([0, 1, 2, 3].map(is_station), [false, false, true, false]);
        assert!(Mac([0, 0, 0, 0, 0, 1]).is_station() && !Mac::EVERYONE.is_station());
        assert_eq!(format!("{:?}", Mac::EVERYONE), "ff:ff:ff:ff:ff:ff");
    }

    #[test]
    fn a_header_reads_as_it_was_written() {
        let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let packet = [0x60, 1, 2, 3];

        let frame = [&header(to, from, &packet)[..], &packet].concat();

        assert_eq!(&frame[12..14], [0x86, 0xdd]);
        assert_eq!(parse(&frame), Some((to, from, &packet[..])));
        assert_eq!(parse(&frame[..13]), None);
    }
}
