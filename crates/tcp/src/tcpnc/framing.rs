//! Carries IP packets in a stream of octets.
//!
//! ```text
//!      0     2
//!      +-----+-------------- - -
//!      | len | IP packet           again and again
//!      +-----+-------------- - -
//! ```

use crate::Connection;

/// Octets before each packet.
pub const HEADER: usize = 2;

/// Puts a packet into a connection's send buffer, whole; false when it does not fit.
#[must_use]
pub fn write(connection: &mut Connection, packet: &[u8]) -> bool {
    let Ok(len) = u16::try_from(packet.len()) else { return false };
    if packet.is_empty() || connection.writable() < HEADER + packet.len() {
        return false;
    }
    connection.write(&len.to_be_bytes()) + connection.write(packet) == HEADER + packet.len()
}

/// Cuts a stream into packets.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// The beginning of a packet, at most one packet long.
    partial: Vec<u8>,
}

/// The stream is no sequence of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a packet of no octets")]
pub struct EmptyPacket;

impl Deframer {
    /// Takes octets up to the end of a packet; returns how many, and whether `packet` is whole.
    ///
    /// # Errors
    /// When the stream announces a packet of no octets; the stream cannot continue from there.
    pub fn handle_octets(&mut self, octets: &[u8]) -> Result<(usize, bool), EmptyPacket> {
        let had = self.partial.len();
        let wanted = self.wanted()?;
        self.partial.extend_from_slice(&octets[..octets.len().min(wanted)]);
        if had < HEADER && self.partial.len() == HEADER {
            let taken = self.partial.len() - had;
            let (more, is_whole) = self.handle_octets(&octets[taken..])?;
            return Ok((taken + more, is_whole));
        }
        let is_whole = self.partial.len() > HEADER && self.wanted()? == 0;
        Ok((self.partial.len() - had, is_whole))
    }

    /// The packet, once it is whole.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        self.partial.get(HEADER..).unwrap_or_default()
    }

    /// Begins the next packet.
    pub fn next(&mut self) {
        self.partial.clear();
    }

    /// Octets missing from the length or, once that is known, from the packet.
    fn wanted(&self) -> Result<usize, EmptyPacket> {
        let Some(len) = self.partial.first_chunk::<HEADER>() else {
            return Ok(HEADER - self.partial.len());
        };
        match usize::from(u16::from_be_bytes(*len)) {
            0 => Err(EmptyPacket),
            len => Ok(HEADER + len - self.partial.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::rng::Rng;
    use base::time::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::Config;

    #[test]
    fn a_packet_is_written_whole_or_not_at_all() {
        let config = Config { send_buffer: 20, ..Config::default() };
        let [a, b] = ["10.0.0.1:1", "10.0.0.2:2"].map(|it| it.parse().unwrap());
        let mut rng = Rng::stream(1, "isn");
        let mut connection = Connection::connect(Time::ZERO, config, a, b, &mut rng);

        assert!(!write(&mut connection, &[]) && !write(&mut connection, &[7; 19]));
        assert_eq!(connection.writable(), 20);
        assert!(write(&mut connection, &[7; 10]));
        assert_eq!(connection.writable(), 8);
        assert!(!write(&mut connection, &[7; 7]));
        connection.close();
        assert!(!write(&mut connection, &[7; 1]), "nobody reads it");
    }

    #[test]
    fn a_packet_of_no_octets_ends_the_stream() {
        assert_eq!(Deframer::default().handle_octets(&[0, 0, 1]), Err(EmptyPacket));
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn packets_come_out_as_they_went_in_however_the_stream_is_cut(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..10),
            cuts in prop::collection::vec(1_usize..50, 1..50),
        ) {
            let mut stream = Vec::new();
            for packet in &packets {
                stream.extend(u16::try_from(packet.len()).unwrap().to_be_bytes());
                stream.extend(packet);
            }

            let (mut deframer, mut out) = (Deframer::default(), Vec::new());
            let mut cuts = cuts.iter().cycle();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let (mut piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                rest = after;
                while !piece.is_empty() {
                    let (taken, is_whole) = deframer.handle_octets(piece).unwrap();
                    piece = &piece[taken..];
                    if is_whole {
                        out.push(deframer.packet().to_vec());
                        deframer.next();
                    }
                }
            }

            prop_assert_eq!(out, packets);
        }
    }
}
