//! Finds the frames in what a modem decodes.

use super::wire::{Frame, Header, MAX_FRAME, Malformed, SYNC};

/// Octets that wait to become a frame, at most.
const BUFFER: usize = 4 * MAX_FRAME;

/// What was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard<'a> {
    /// A frame; its segment may be bad.
    Frame {
        /// What it says.
        frame: Frame<'a>,
        /// All its octets, from the sync on.
        octets: &'a [u8],
        /// Octets of the transmission before the frame.
        place: u64,
    },
    /// A header that arrived as it was sent and makes no sense.
    Invalid {
        /// What every frame says.
        header: Header,
        /// The type, 0 to 15.
        kind: u8,
        /// The octets of the header, from the sync on.
        octets: &'a [u8],
        /// Octets of the transmission before the header.
        place: u64,
    },
}

base::counters! {
    /// What was found so far.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Frames with a good header.
        pub frames: counter(frames);
        /// Frames with a good header and a bad segment.
        pub bad_segments: counter(frames);
        /// Sync octets without a good header after them.
        pub bad_headers: counter(packets);
        /// Good headers that made no sense.
        pub invalid: counter(times);
        /// Octets that belonged to no frame.
        pub skipped: counter(octets);
    }
}

/// Cuts a stream of octets into frames.
///
/// After a bad header it looks for the next sync octets inside what it took for one, so each octet
/// is looked at a bounded number of times. After a good one it skips what the header announces,
/// even when the segment is bad: what a client sends is no frame.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    buffer: Vec<u8>,
    /// Where in the buffer the next frame may begin.
    start: usize,
    /// Octets of the transmission before the buffer.
    before: u64,
    stats: Stats,
}

impl Scanner {
    /// A scanner that has heard nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds the next frame in the kept octets and `octets`, and takes the octets looked at.
    ///
    /// `None` means that all octets are taken: call it until then.
    pub fn poll(&mut self, octets: &mut &[u8]) -> Option<Heard<'_>> {
        let (start, len) = loop {
            match self.seek(false) {
                Some(found) => break found,
                None if octets.is_empty() => return None,
                None => self.fill(octets),
            }
        };
        self.take(start, len, false)
    }

    /// The transmission has ended: returns the next frame in the kept octets, even if only the header is whole.
    ///
    /// Call it until `None`; then nothing is kept.
    pub fn flush(&mut self) -> Option<Heard<'_>> {
        let Some((start, len)) = self.seek(true) else {
            self.stats.skipped += (self.buffer.len() - self.start) as u64;
            self.buffer.clear();
            (self.start, self.before) = (0, 0);
            return None;
        };
        self.take(start, len, true)
    }

    /// What was found so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Where a whole frame, or a header that makes no sense, lies in the buffer.
    fn seek(&mut self, is_end: bool) -> Option<(usize, usize)> {
        loop {
            let rest = &self.buffer[self.start..];
            let measured = if is_end {
                Frame::read_end(rest).map(|(_, len)| len)
            } else {
                Frame::measure(rest)
            };
            let skipped = match measured {
                Ok(len) => {
                    self.start += len;
                    return Some((self.start - len, len));
                }
                Err(Malformed::Body { header, .. }) => {
                    let len = header_len(rest, header);
                    self.start += len;
                    return Some((self.start - len, len));
                }
                Err(Malformed::Truncated { .. }) if rest.is_empty() || !is_end => return None,
                Err(Malformed::Sync) => {
                    let next = rest.iter().skip(1).position(|&octet| octet == SYNC[0]);
                    next.map_or(rest.len(), |index| index + 1)
                }
                Err(
                    Malformed::HeaderSum | Malformed::Sizes { .. } | Malformed::Truncated { .. },
                ) => {
                    self.stats.bad_headers += 1;
                    SYNC.len().min(rest.len())
                }
            };
            self.start += skipped;
            self.stats.skipped += skipped as u64;
        }
    }

    fn fill(&mut self, octets: &mut &[u8]) {
        self.buffer.drain(..self.start);
        self.before += self.start as u64;
        self.start = 0;
        let (taken, rest) = octets.split_at(octets.len().min(BUFFER - self.buffer.len()));
        self.buffer.extend_from_slice(taken);
        *octets = rest;
    }

    fn take(&mut self, start: usize, len: usize, is_end: bool) -> Option<Heard<'_>> {
        let octets = &self.buffer[start..start + len];
        let place = self.before + start as u64;
        let parsed = if is_end { Frame::read_end(octets) } else { Frame::read(octets) };
        match parsed {
            Ok((frame, _)) => {
                self.stats.frames += 1;
                self.stats.bad_segments += u64::from(!frame.is_good());
                Some(Heard::Frame { frame, octets, place })
            }
            Err(Malformed::Body { header, kind, .. }) => {
                self.stats.invalid += 1;
                Some(Heard::Invalid { header, kind, octets, place })
            }
            Err(_) => None,
        }
    }
}

/// Octets from the sync to the end of the header.
fn header_len(octets: &[u8], header: Header) -> usize {
    let size = octets.get(5).map_or(0, |sizes| usize::from(sizes & 0x1f));
    (SYNC.len() + usize::from(header.address_size) + size).min(octets.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::s5066::Address;
    use crate::s5066::dts::wire::{Ack, Body, CpduSegment, Data, Eow, Fsn, Numbers};

    #[test]
    fn frames_are_found_between_what_is_none() {
        let mut stream = vec![0x00, 0x90, 0x90, 0xeb, 0x00];
        data(1).emit(&mut stream);
        stream.extend_from_slice(&[0x55; 100]);
        data(2).emit(&mut stream);
        let mut scanner = Scanner::new();

        let heard = numbers(&mut scanner, &stream, 7);

        assert_eq!(heard, ["1", "2"]);
        assert_eq!(scanner.stats().frames, 2);
        assert_eq!(scanner.stats().skipped, 105);
    }

    #[test]
    fn a_bad_header_costs_one_frame() {
        let mut stream = Vec::new();
        for number in 0..4 {
            data(number).emit(&mut stream);
        }
        stream[data(0).size() + 8] ^= 0x10;
        let mut scanner = Scanner::new();

        assert_eq!(numbers(&mut scanner, &stream, 1_000), ["0", "2", "3"]);
        assert_eq!(scanner.stats().bad_headers, 1);
    }

    #[test]
    fn a_frame_inside_a_bad_segment_is_not_heard() {
        let mut inner = Vec::new();
        data(9).emit(&mut inner);
        let mut frame = data(1);
        let Body::Data { data: outer, .. } = &mut frame.body else { unreachable!() };
        outer.segment = CpduSegment { octets: &inner, is_good: false };
        let mut stream = Vec::new();
        frame.emit(&mut stream);
        data(2).emit(&mut stream);
        let mut scanner = Scanner::new();

        assert_eq!(numbers(&mut scanner, &stream, 1_000), ["1 bad", "2"]);
        assert_eq!(scanner.stats().bad_segments, 1);
    }

    #[test]
    fn when_the_signal_goes_the_header_that_came_is_still_used() {
        let mut stream = Vec::new();
        data(3).emit(&mut stream);
        let mut scanner = Scanner::new();

        assert_eq!(numbers(&mut scanner, &stream[..stream.len() - 10], 5), ["3 bad"]);
        assert_eq!(scanner.flush(), None);
        assert_eq!(numbers(&mut scanner, &stream, 5), ["3"]);
    }

    #[test]
    fn a_header_without_sense_is_told() {
        let mut stream = Vec::new();
        data(0).emit(&mut stream);
        // Warnings have one octet of their own, not three.
        stream[2] = 0xf0;
        let sum = base::crc::header(&stream[2..16]);
        stream[16..18].copy_from_slice(&sum.to_le_bytes());
        let mut scanner = Scanner::new();
        let mut rest = &stream[..];

        let heard = scanner.poll(&mut rest);

        assert!(
            matches!(heard, Some(Heard::Invalid { kind: 15, octets, .. }) if octets.len() == 18)
        );
    }

    #[test]
    fn hostile_octets_cost_no_more_than_others() {
        let mut scanner = Scanner::new();
        for pattern in [&[0x90, 0xeb][..], &[0x90], &[0x90, 0xeb, 0, 0, 0, 0xff]] {
            let stream: Vec<u8> = pattern.iter().copied().cycle().take(1_000_000).collect();

            assert_eq!(numbers(&mut scanner, &stream, 100_000), [""; 0]);
            assert!(scanner.buffer.capacity() <= 2 * BUFFER);
        }
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn chunks_do_not_matter(
            octets in prop::collection::vec(
                prop_oneof![Just(0x90_u8), Just(0xeb), Just(0x20), any::<u8>()],
                0..300,
            ),
            chunk in 1_usize..50,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut stream = octets.clone();
            data(7).emit(&mut stream);
            stream.truncate(cut.index(stream.len()) + 1);

            let [once, often] = [stream.len(), chunk]
                .map(|chunk| numbers(&mut Scanner::new(), &stream, chunk));

            prop_assert_eq!(once, often);
        }
    }

    /// The numbers of the frames heard in the stream, given in chunks, and after its end.
    fn numbers(scanner: &mut Scanner, stream: &[u8], chunk: usize) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |heard: Heard<'_>| {
            if let Heard::Frame { frame: Frame { body: Body::Data { data, .. }, .. }, .. } = heard {
                let mark = if data.segment.is_good { "" } else { " bad" };
                all.push(format!("{}{mark}", data.fsn.0));
            }
        };
        for mut octets in stream.chunks(chunk) {
            while let Some(heard) = scanner.poll(&mut octets) {
                note(heard);
            }
            assert!(octets.is_empty());
        }
        while let Some(heard) = scanner.flush() {
            note(heard);
        }
        all
    }

    fn data(number: u16) -> Frame<'static> {
        let header = Header {
            eow: Eow::None,
            eot: 3,
            to: Address::node(0x000a_141e),
            from: Address::node(0x000a_141f),
            address_size: 7,
        };
        let data = Data {
            fsn: Fsn(number),
            is_start: true,
            is_end: true,
            in_order: false,
            is_drop: false,
            at_upper_edge: false,
            at_lower_edge: false,
            segment: CpduSegment::new(b"some octets of a C_PDU"),
        };
        Frame { header, body: Body::Data { numbers: Numbers::Short, data, ack: None::<Ack<'_>> } }
    }
}
