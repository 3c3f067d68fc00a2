//! Fuzzes the SAR service: requests of programs to its socket and port, and files of its store.

use gateway::sar_untrusted as service;

/// Most octets behind a line.
const LONGEST: usize = 300;
/// Most octets of a line.
const LONGEST_LINE: usize = 16 << 10;

/// Reads the input as a program's requests; the first octet gives the size of pieces. Pieces of any size give the same
/// result.
pub(crate) fn requests(input: &[u8]) {
    let Some((&first, said)) = input.split_first() else { return };
    let (whole, end) = service::requests([said], LONGEST);
    let most = usize::from(first) + 1;
    let pieces = service::requests(said.chunks(most), LONGEST);
    // A line without an end is refused as soon as it is too long.
    assert_eq!(pieces, (whole.clone(), end.clone()), "in pieces of {most}");

    let behind: usize = whole.iter().map(|(_, octets)| octets.len()).sum();
    assert!(whole.iter().all(|(_, octets)| octets.len() <= LONGEST));
    let waiting = end.unwrap_or_default();
    assert!(waiting <= LONGEST_LINE && behind + waiting <= said.len());
    check_datagram(said);
}

/// A request in a datagram has the same meaning as in a connection.
fn check_datagram(said: &[u8]) {
    let Ok((request, octets)) = service::datagram(said) else { return };
    let mut line = said.to_vec();
    if !line.contains(&b'\n') {
        line.push(b'\n');
    }
    let is_short = line.iter().position(|it| *it == b'\n').is_some_and(|at| at <= LONGEST_LINE);
    if is_short && octets.len() <= LONGEST {
        let read = service::requests([&line[..]], LONGEST);
        assert_eq!(read, (vec![(request, octets)], Ok(0)));
    }
}

/// Reads the input as a file of the store: as raw octets, or as frames with correct checksums.
pub(crate) fn store(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    if first == 0 {
        let _ = read(&[(1, rest.to_vec())]);
        read_and_write(rest);
        return;
    }
    let mut written = Written::new(first);
    let mut rest = rest;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = written.act(action, value, after);
    }
    written.end_frame();
    written.check();
}

/// Reads a store; free space behind the records of a segment must not change the result.
fn read(segments: &[(u32, Vec<u8>)]) -> Result<String, String> {
    let read = service::store(segments.iter().cloned());
    let longer = segments.iter().cloned().map(|(number, mut octets)| {
        octets.resize(octets.len() + 100, 0);
        (number, octets)
    });
    if segments.iter().all(|(_, octets)| octets.len() >= HEADER) {
        assert_eq!(service::store(longer), read, "with room behind it");
    }
    read
}

/// A record read and written again reads as the same record.
fn read_and_write(records: &[u8]) {
    let Some((record, written, _)) = service::record(records) else { return };
    let (again, rewritten, rest) = service::record(&written).expect("what was written");
    assert_eq!((again, &rewritten, rest), (record, &written, &[][..]));
}

/// Octets of a segment's header.
const HEADER: usize = 50;
const SALT: u64 = 0x0123_4567_89ab_cdef;
/// Above all numbers from which a store continues to count.
const NUMBERS: u64 = 1 << 63;

/// A store written by this test instead of the service.
struct Written {
    segments: Vec<(u32, Vec<u8>)>,
    /// Records of the next frame.
    records: Vec<u8>,
    /// Number of the last frame.
    number: u64,
    /// Whether the whole store can be read.
    is_whole: bool,
    /// Whether reading may give other content than was written.
    is_damaged: bool,
}

impl Written {
    fn new(first: u8) -> Self {
        let number = u64::from(first >> 1 & 0x3f);
        let mut written = Self {
            segments: Vec::new(),
            records: Vec::new(),
            number: if first & 0x80 == 0 { number } else { NUMBERS - 1 - number },
            is_whole: true,
            is_damaged: false,
        };
        written.begin_segment(1, [0; 3], 0);
        written
    }

    fn act<'a>(&mut self, action: u8, value: u8, rest: &'a [u8]) -> &'a [u8] {
        let (octets, after) = rest.split_at(usize::from(value).min(rest.len()));
        match action & 0x07 {
            // A record with a correct kind and length and otherwise arbitrary content.
            0..=3 => {
                let len = u32::try_from(octets.len() + 1).expect("256 at most");
                self.records.extend(len.to_be_bytes());
                self.records.push(action >> 3);
                self.records.extend(octets);
                return after;
            }
            4 => self.end_frame(),
            5 => {
                self.end_frame();
                let (last, _) = *self.segments.last().expect("there is one");
                let numbers = [0, 8, 16].map(|at| number(octets.get(at..)));
                self.is_whole &= action & 0x08 == 0 && numbers.iter().all(|it| *it < NUMBERS);
                let number = if action & 0x08 == 0 { last + 1 } else { last + 2 };
                self.begin_segment(number, numbers, action);
                return after;
            }
            // A number is skipped or repeated.
            6 => {
                self.end_frame();
                self.number = self.number.saturating_add_signed(i64::from(value.cast_signed()));
                self.is_damaged |= value != 0;
            }
            _ => {
                self.end_frame();
                self.is_damaged = true;
                let (_, segment) = self.segments.last_mut().expect("there is one");
                let at = number(octets.get(..)) % segment.len() as u64;
                let at = usize::try_from(at).expect("a place in it");
                segment[at] ^= action >> 3 | 0x80;
                return after;
            }
        }
        rest
    }

    fn begin_segment(&mut self, number: u32, next: [u64; 3], serial: u8) {
        let mut header = b"TWSAR\0\0\x01".to_vec();
        header.extend(SALT.to_be_bytes());
        header.extend(number.to_be_bytes());
        next.iter().for_each(|it| header.extend(it.to_be_bytes()));
        header.extend(u16::from(serial).to_be_bytes());
        header.extend(crc32fast::hash(&header).to_be_bytes());
        assert_eq!(header.len(), HEADER);
        self.segments.push((number, header));
    }

    fn end_frame(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let mut rest = &self.records[..];
        while let Some((_, _, after)) = service::record(rest) {
            read_and_write(rest);
            rest = after;
        }
        self.is_whole &= rest.is_empty();
        self.number = self.number.saturating_add(1);
        self.is_damaged |= self.number >= NUMBERS;
        let length = u32::try_from(self.records.len()).expect("an input is short");
        let mut summed = [SALT, self.number, u64::from(length)].map(u64::to_be_bytes).concat();
        summed.extend(&self.records);
        let (_, segment) = self.segments.last_mut().expect("there is one");
        segment.extend(b"\xf5Sar");
        segment.extend(length.to_be_bytes());
        segment.extend(self.number.to_be_bytes());
        segment.extend(crc32fast::hash(&summed).to_be_bytes());
        segment.append(&mut self.records);
    }

    /// A store without damage is read if it is whole, and refused otherwise.
    fn check(&self) {
        let read = read(&self.segments);
        if !self.is_damaged {
            assert_eq!(read.is_ok(), self.is_whole, "{read:?}");
        }
    }
}

/// The number at the beginning of these octets.
fn number(octets: Option<&[u8]>) -> u64 {
    let octets = octets.unwrap_or_default();
    octets.first_chunk().map_or(octets.len() as u64, |it| u64::from_be_bytes(*it))
}
