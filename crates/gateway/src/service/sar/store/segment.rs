//! Segment files of one size, allocated before writing: a header, then frames, each written at once.
//!
//! ```text
//!  header   magic 8 | salt 8 | segment 4 | next message 8 | next arrival 8 | starts 8 | last serial 2 | checksum 4
//!  frame    magic 4 | octets of records 4 | number 8 | checksum 4 | records
//! ```
//! Frames are numbered without a gap over all segments, and a frame is written only when the previous frame is on
//! the disk. So an unreadable frame is the end of the log if no later frame can be read, and otherwise damage. The
//! salt is in each checksum and known to nobody else: no message looks like a frame.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::record::NUMBERS;

/// What a segment begins with.
const MAGIC: [u8; 8] = *b"TWSAR\0\0\x01";
/// What a frame begins with.
const FRAME_MAGIC: [u8; 4] = *b"\xf5Sar";
/// Octets of a segment's header.
pub const HEADER: usize = 50;
/// Octets of a frame's header.
pub const FRAME: usize = 20;

/// Numbers that must not begin anew, although the records with these numbers are gone.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Next {
    /// The next message of a program.
    pub(crate) id: u64,
    /// The next message that arrives.
    pub(crate) number: u64,
    /// Transfers that were started.
    pub(crate) starts: u64,
    /// The serial number of the last started transfer, if any.
    pub(crate) serial: u16,
}

/// A segment that is written to.
#[derive(Debug)]
pub struct Segment {
    file: File,
    /// Octets written.
    at: u64,
}

impl Segment {
    /// Turns a file that [`allocate`] made into a segment, in the same folder.
    pub fn begin(
        spare: &Path,
        folder: &Path,
        number: u32,
        salt: u64,
        next: &Next,
    ) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(spare)?;
        let mut header = MAGIC.to_vec();
        header.extend(salt.to_be_bytes());
        header.extend(number.to_be_bytes());
        header.extend(next.id.to_be_bytes());
        header.extend(next.number.to_be_bytes());
        header.extend(next.starts.to_be_bytes());
        header.extend(next.serial.to_be_bytes());
        header.extend(crc32fast::hash(&header).to_be_bytes());
        file.write_all_at(&header, 0)?;
        file.sync_all()?;
        fs::rename(spare, path(folder, number))?;
        sync_folder(folder)?;
        Ok(Self { file, at: HEADER as u64 })
    }

    /// Octets written.
    pub fn written(&self) -> u64 {
        self.at
    }

    /// Writes a frame, and returns when it is on the disk.
    pub fn write(&mut self, salt: u64, number: u64, records: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(FRAME + records.len());
        frame.extend(FRAME_MAGIC);
        frame.extend(u32::try_from(records.len()).map_err(io::Error::other)?.to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.extend(checksum(salt, number, records).to_be_bytes());
        frame.extend_from_slice(records);
        self.file.write_all_at(&frame, self.at)?;
        self.file.sync_data()?;
        self.at += frame.len() as u64;
        Ok(())
    }
}

pub fn checksum(salt: u64, number: u64, records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_be_bytes());
    hasher.update(&number.to_be_bytes());
    hasher.update(&u64::try_from(records.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.update(records);
    hasher.finalize()
}

/// A segment being read.
pub struct Read {
    octets: Vec<u8>,
    pub salt: u64,
    pub next: Next,
}

/// A frame being read.
pub struct Frame<'a> {
    pub number: u64,
    pub records: &'a [u8],
    /// Where the next one begins.
    pub end: usize,
}

impl Read {
    /// Reads a file; `None` if its header does not belong to this segment.
    pub fn open(path: &Path, number: u32) -> io::Result<Option<Self>> {
        let octets = fs::read(path)?;
        Ok(Self::parse(octets, number))
    }

    pub fn parse(octets: Vec<u8>, number: u32) -> Option<Self> {
        let (fields, checksum) = octets.get(..HEADER)?.split_last_chunk::<4>()?;
        if crc32fast::hash(fields) != u32::from_be_bytes(*checksum) || !fields.starts_with(&MAGIC) {
            return None;
        }
        let u64_at = |at: usize| fields[at..].first_chunk().map(|it| u64::from_be_bytes(*it));
        let (salt, id, number_, starts) = (u64_at(8)?, u64_at(20)?, u64_at(28)?, u64_at(36)?);
        let own = u32::from_be_bytes(*fields[16..].first_chunk()?);
        let serial = u16::from_be_bytes(*fields[44..].first_chunk()?);
        let next = Next { id, number: number_, starts, serial };
        let are_numbers = [id, number_, starts].iter().all(|it| *it < NUMBERS);
        (own == number && are_numbers).then_some(Self { octets, salt, next })
    }

    /// The frame that begins at this position, if any.
    pub fn frame(&self, at: usize) -> Option<Frame<'_>> {
        let octets = self.octets.get(at..)?;
        let (header, rest) = octets.split_first_chunk::<FRAME>()?;
        if header[..4] != FRAME_MAGIC {
            return None;
        }
        let length = usize::try_from(u32::from_be_bytes(*header[4..].first_chunk()?)).ok()?;
        let number = u64::from_be_bytes(*header[8..].first_chunk()?);
        let records = rest.get(..length).filter(|_| number < NUMBERS)?;
        let its = u32::from_be_bytes(*header[16..].first_chunk()?);
        let is_whole = checksum(self.salt, number, records) == its;
        is_whole.then_some(Frame { number, records, end: at + FRAME + length })
    }

    /// Whether a frame with a number above `last` begins anywhere behind `at`.
    pub fn has_later(&self, at: usize, last: u64) -> bool {
        let octets = self.octets.get(at..).unwrap_or_default();
        let starts = octets.windows(FRAME_MAGIC.len()).enumerate();
        let mut starts = starts.filter(|(_, it)| **it == FRAME_MAGIC);
        starts.any(|(from, _)| self.frame(at + from).is_some_and(|frame| frame.number > last))
    }
}

/// Where a segment is.
pub fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// Makes a file of `octets` octets, with its room on the disk allocated.
pub fn allocate(path: &Path, octets: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let length = i64::try_from(octets).map_err(io::Error::other)?;
    let made = match fallocate(&file, FallocateFlags::empty(), 0, length) {
        // Some file systems cannot: zeros take the room as well.
        Err(Errno::EOPNOTSUPP) => fill(&file, octets),
        outcome => outcome.map_err(io::Error::from),
    };
    if made.is_err() {
        // Half a file helps nobody, least on a full disk.
        let _ = fs::remove_file(path);
    }
    made
}

fn fill(file: &File, octets: u64) -> io::Result<()> {
    let zeros = vec![0; 64 << 10];
    let mut at = 0;
    while at < octets {
        let left = usize::try_from(octets - at).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all_at(&zeros[..left], at)?;
        at += left as u64;
    }
    file.sync_all()
}

/// Makes names that were given or removed last.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
