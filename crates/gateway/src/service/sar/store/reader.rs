//! Reads the log from its beginning when it is opened.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sar::{Outcome, Resume};

use super::record::{Accepted, Arrived, Ended, Key, Known, Record};
use super::segment::{self, HEADER, Next, Read};

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("damaged: {0}")]
    Damaged(#[from] Damage),
    #[error("another program has it open")]
    InUse,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "no room on the disk: {0} octets are needed at least, make room or name another folder"
    )]
    NoRoom(u64),
}

/// Damage: stored data that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what} in {} at octet {at}", .file.display())]
pub struct Damage {
    pub(crate) file: PathBuf,
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// What an earlier process had stored.
#[derive(Debug, Default, PartialEq)]
pub struct Recovered {
    pub(crate) open: BTreeMap<u64, Open>,
    pub(crate) ended: BTreeMap<u64, Ended>,
    pub(crate) arrived: BTreeMap<u64, Arrived>,
    pub(crate) known: BTreeMap<u64, Known>,
    pub(crate) next: Next,
}

/// A message that has not an outcome for all destinations.
#[derive(Debug, PartialEq)]
pub struct Open {
    pub(crate) accepted: Accepted,
    pub(crate) started: Vec<(Option<u16>, Resume)>,
    pub(crate) outcomes: Vec<(u16, Outcome)>,
}

/// Notes the data that a record keeps and ends, and marks its numbers as used.
pub fn note(
    live: &mut BTreeMap<Key, (u32, u32)>,
    live_octets: &mut u64,
    next: &mut Next,
    record: &Record,
    place: (u32, u32),
) {
    let mut end = |live: &mut BTreeMap<Key, (u32, u32)>, key| {
        if let Some((_, octets)) = live.remove(&key) {
            *live_octets -= u64::from(octets);
        }
    };
    match record {
        Record::Accepted(it) => next.id = next.id.max(it.id + 1),
        Record::Ended(it) => end(live, Key::Accepted(it.id)),
        Record::Taken(number) => end(live, Key::Arrived(*number)),
        Record::Arrived(it) => next.number = next.number.max(it.number + 1),
        Record::Known(it) => next.number = next.number.max(it.number + 1),
        Record::Started { resume, order, .. } if *order >= next.starts => {
            (next.starts, next.serial) = (order + 1, resume.serial);
        }
        Record::Started { .. } | Record::Outcome { .. } | Record::Forgotten(_) => {}
    }
    if let Some(key) = record.key() {
        end(live, key);
        live.insert(key, place);
        *live_octets += u64::from(place.1);
    }
}

/// Reads segments from octets instead of files, each with its number and path.
///
/// # Errors
/// When a part of the segments cannot be read.
pub fn read_segments(
    segments: impl IntoIterator<Item = (u32, PathBuf, Vec<u8>)>,
) -> Result<Recovered, Damage> {
    let mut reader = Reader::default();
    for (number, path, octets) in segments {
        reader.read_segment(number, &path, Read::parse(octets, number))?;
    }
    reader.settle();
    Ok(reader.recovered)
}

/// When something was written to a log last, by the clock of then.
///
/// # Errors
/// When the folder cannot be read.
pub fn last_written(folder: &Path) -> io::Result<Option<SystemTime>> {
    let segments = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let segments = segments.iter().map(DirEntry::path);
    let last = segments.filter(|it| it.extension().is_some_and(|it| it == "log")).max();
    last.map(|path| fs::metadata(path)?.modified()).transpose()
}

/// A log that was read to its end.
pub struct Loaded {
    /// The log's segment numbers, in order.
    pub numbers: Vec<u32>,
    pub salt: u64,
    /// The number of the last frame.
    pub frame: u64,
    /// The live records, each with its segment and its length.
    pub live: BTreeMap<Key, (u32, u32)>,
    pub live_octets: u64,
    pub recovered: Recovered,
}

/// Reads a log from its beginning.
#[derive(Default)]
pub struct Reader {
    salt: u64,
    frame: u64,
    live: BTreeMap<Key, (u32, u32)>,
    live_octets: u64,
    recovered: Recovered,
    /// The segment that was read last, and where its records end.
    segment: Option<u32>,
    end: Option<(PathBuf, usize)>,
    started: BTreeMap<u64, Vec<(Option<u16>, Resume)>>,
    outcomes: BTreeMap<u64, Vec<(u16, Outcome)>>,
}

impl Reader {
    /// Reads all segments of a folder.
    ///
    /// # Errors
    /// When one cannot be read, or is damaged.
    pub fn read_all(folder: &Path) -> Result<Loaded, NotOpened> {
        let mut reader = Self::default();
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with("spare-") {
                fs::remove_file(folder.join(name))?;
            }
            let number = name.strip_suffix(".log").and_then(|it| it.parse::<u32>().ok());
            numbers.extend(number.filter(|it| segment::path(folder, *it) == folder.join(name)));
        }
        numbers.sort_unstable();
        for &number in &numbers {
            let path = segment::path(folder, number);
            let read = Read::open(&path, number)?;
            reader.read_segment(number, &path, read)?;
        }
        reader.settle();
        let Self { salt, frame, live, live_octets, recovered, .. } = reader;
        Ok(Loaded { numbers, salt, frame, live, live_octets, recovered })
    }

    /// Reads the segment that follows; `None` is one without a header.
    fn read_segment(&mut self, number: u32, path: &Path, read: Option<Read>) -> Result<(), Damage> {
        let damage = |at, what| Damage { file: path.to_owned(), at, what };
        if self.segment.is_some_and(|before| before.checked_add(1) != Some(number)) {
            return Err(damage(0, "the segment before is missing, which begins"));
        }
        self.segment = Some(number);
        // A segment is renamed only when its header is on the disk.
        let read = read.ok_or_else(|| damage(0, "there is no header"))?;
        self.salt = read.salt;
        let at = self.read(&read, (number, path))?;
        if read.has_later(at, self.frame) {
            return Err(damage(at, "a record cannot be read"));
        }
        self.end = Some((path.to_owned(), at));
        Ok(())
    }

    /// Reads a segment's frames. Where they end.
    fn read(&mut self, read: &Read, (number, path): (u32, &Path)) -> Result<usize, Damage> {
        self.recovered.next = self.recovered.next.later(read.next);
        let mut at = HEADER;
        // Where the frames of the previous segment ended.
        let mut before = self.end.take();
        while let Some(frame) = read.frame(at) {
            let is_next = self.frame == 0 || frame.number == self.frame + 1;
            if !is_next {
                let what = "records are missing";
                return Err(match before.take() {
                    Some((file, at)) => Damage { file, at, what },
                    None => Damage { file: path.to_owned(), at, what },
                });
            }
            before = None;
            self.frame = frame.number;
            let mut records = frame.records;
            while let Some((record, rest)) = Record::split_first(records) {
                let octets = u32::try_from(records.len() - rest.len()).unwrap_or(u32::MAX);
                records = rest;
                let Self { live, live_octets, recovered, .. } = self;
                note(live, live_octets, &mut recovered.next, &record, (number, octets));
                self.take(record);
            }
            if !records.is_empty() {
                // The frame is intact, but was written by a program that knows other records.
                let what = "a record cannot be understood";
                return Err(Damage { file: path.to_owned(), at, what });
            }
            at = frame.end;
        }
        Ok(at)
    }

    fn take(&mut self, record: Record) {
        let all = &mut self.recovered;
        match record {
            Record::Accepted(accepted) => {
                let (started, outcomes) = (Vec::new(), Vec::new());
                all.open.insert(accepted.id, Open { accepted, started, outcomes });
            }
            Record::Started { id, part, resume, .. } => {
                let started = self.started.entry(id).or_default();
                started.retain(|(its, _)| *its != part);
                started.push((part, resume));
            }
            Record::Outcome { id, part, outcome } => {
                let outcomes = self.outcomes.entry(id).or_default();
                outcomes.retain(|(its, _)| *its != part);
                outcomes.push((part, outcome));
            }
            Record::Ended(ended) => {
                all.open.remove(&ended.id);
                self.started.remove(&ended.id);
                self.outcomes.remove(&ended.id);
                all.ended.insert(ended.id, ended);
            }
            Record::Arrived(arrived) => _ = all.arrived.insert(arrived.number, arrived),
            Record::Taken(number) => _ = all.arrived.remove(&number),
            Record::Known(known) => _ = all.known.insert(known.number, known),
            Record::Forgotten(_) => {}
        }
    }

    /// Joins the known starts and outcomes of each message.
    fn settle(&mut self) {
        for (id, open) in &mut self.recovered.open {
            open.started = self.started.remove(id).unwrap_or_default();
            open.outcomes = self.outcomes.remove(id).unwrap_or_default();
        }
    }
}

impl Next {
    /// The numbers that neither has used.
    fn later(self, other: Self) -> Self {
        let newest = if self.starts >= other.starts { self } else { other };
        Self { id: self.id.max(other.id), number: self.number.max(other.number), ..newest }
    }
}
