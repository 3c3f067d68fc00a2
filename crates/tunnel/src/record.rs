//! The inner packets in a symbol: records, one after the other.
//!
//! ```text
//!  octet 0, 1  bits 15 and 14 the form; the others the length of what follows this header
//!  form 0      whole        wait 2, packet
//!  form 1      part         wait 2, part 1, octets of a packet that is cut over several sources; part: bit 7
//!              there are more, bits 0 to 6 its index: the packet begins so many sources before
//!  form 2      compressed   wait 1 or 2, context 1, compressed headers, payload
//!  form 3      announcing   wait 1, context 1, packet
//! ```
//!
//! Records end with the symbol's octets or a length of zero. `wait` is the number of sources back to the
//! packet that has to be released before this one; zero means none. Where `wait` takes one or two octets,
//! it is a number in base 128. Forms 2 and 3 go only to a peer that has shown its knowledge of these forms
//! ([`super::understanding`]); [`super::headers`] describes contexts, and [`super::parts`] packets that are
//! cut.

use super::wire::Reader;

/// Octets before a whole inner packet.
pub const RECORD_HEADER: usize = 4;
/// Octets before a part of an inner packet.
pub const PART_HEADER: usize = RECORD_HEADER + 1;
/// The longest outer packet with record lengths within 14 bits, in octets.
pub const LONGEST_OUTER: usize = 16_384;

const FORM: u32 = 14;
const WHOLE: u16 = 0;
const PART: u16 = 1;
pub const COMPRESSED: u16 = 2;
pub const ANNOUNCING: u16 = 3;
const LENGTH: u16 = 0x3fff;
const MORE: u8 = 0x80;
/// A greater number takes two octets in base 128.
pub const SHORT: u16 = 0x7f;

/// The inner packets of a symbol.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    symbol: &'a [u8],
    at: usize,
}

/// An inner packet in a symbol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    pub form: Form,
    /// Sources back to the one that has to be released first; 0 for none.
    pub wait: u16,
    /// Where the packet, compressed or not, lies in the symbol.
    pub start: usize,
    pub end: usize,
}

/// What is in a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// A whole packet, with whose headers this context begins.
    Announcing(u8),
    /// A packet with headers compressed in the given context.
    Compressed(u8),
    /// A part of a cut packet.
    Part(Part),
    /// A whole packet.
    Whole,
}

/// Identifies a part of a packet that is cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// 0 to 127.
    pub index: u8,
    pub is_last: bool,
}

impl<'a> Records<'a> {
    pub fn of(symbol: &'a [u8]) -> Self {
        Self { symbol, at: 0 }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    /// Ends at the padding, at a truncated record, and at an unknown form.
    fn next(&mut self) -> Option<Record> {
        let mut reader = Reader::of(self.symbol.get(self.at..)?);
        let head = reader.u16().ok()?;
        let len = usize::from(head & LENGTH);
        let (wait, form) = match head >> FORM {
            WHOLE => (reader.u16().ok()?, Form::Whole),
            PART => (reader.u16().ok()?, Form::Part(Part::parse(reader.u8().ok()?))),
            COMPRESSED => (reader.varint().ok()?, Form::Compressed(reader.u8().ok()?)),
            ANNOUNCING => (reader.varint().ok()?, Form::Announcing(reader.u8().ok()?)),
            _ => return None,
        };
        let left = reader.rest().len();
        if len == 0 || len > left {
            return None;
        }
        let start = self.symbol.len() - left;
        self.at = start + len;
        Some(Record { form, wait, start, end: self.at })
    }
}

impl Part {
    fn parse(octet: u8) -> Self {
        Self { index: octet & !MORE, is_last: octet & MORE == 0 }
    }
}

/// Writes the header of the record with a whole packet that fills `record`.
pub fn fill_record_header(record: &mut [u8], wait: u16) {
    let Some((header, packet)) = record.split_first_chunk_mut::<RECORD_HEADER>() else { return };
    let [len_high, len_low] = head(WHOLE, packet.len());
    let [wait_high, wait_low] = wait.to_be_bytes();
    *header = [len_high, len_low, wait_high, wait_low];
}

/// Writes the header of the record with a part of a packet that fills `record`.
pub fn fill_part_header(record: &mut [u8], wait: u16, part: Part) {
    let Some((header, octets)) = record.split_first_chunk_mut::<PART_HEADER>() else { return };
    let [len_high, len_low] = head(PART, octets.len());
    let [wait_high, wait_low] = wait.to_be_bytes();
    let part = part.index | if part.is_last { 0 } else { MORE };
    *header = [len_high, len_low, wait_high, wait_low, part];
}

/// The first two octets of a record.
pub fn head(form: u16, len: usize) -> [u8; 2] {
    let len = u16::try_from(len).ok().filter(|len| *len <= LENGTH);
    (form << FORM | len.expect("fits an outer packet")).to_be_bytes()
}
