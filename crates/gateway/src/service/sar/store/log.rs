//! The log itself: read at the start, then records are appended, and the oldest segment is emptied when the log
//! has grown beyond what lives in it.
//!
//! A record that ends another comes after it, and segments go in their order: when the end of a message is
//! removed, the message is gone already. So ends need not be kept.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use proto::sar::{Outcome, Resume};
use proto::secure::Entropy as _;

use super::record::{Accepted, Arrived, Ended, Key, Known, Record};
use super::segment::{self, FRAME, HEADER, Next, Read, Segment, allocate, sync_folder};
use crate::keys::System;

/// Where the log is, and how large it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Options {
    /// Its folder; made if it is not there.
    pub(crate) folder: PathBuf,
    /// Octets of a segment.
    pub(crate) segment: u64,
    /// Octets of all segments at most.
    pub(crate) most: u64,
}

/// Segments that are allocated ahead: for what programs hand in, and the last two for what must be
/// noted and for emptying a segment.
const SPARES: usize = 4;
const RESERVED: u64 = 2;
/// Segments beside what lives in the log that are worth no emptying.
const SLACK: u64 = 2;
const LOCK: &str = "lock";

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOpened {
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

/// What cannot be read though it was stored.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what} in {} at octet {at}", .file.display())]
pub(crate) struct Damage {
    pub(crate) file: PathBuf,
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// What an earlier process had stored.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recovered {
    pub(crate) open: BTreeMap<u64, Open>,
    pub(crate) ended: BTreeMap<u64, Ended>,
    pub(crate) arrived: BTreeMap<u64, Arrived>,
    pub(crate) known: BTreeMap<u64, Known>,
    pub(crate) next: Next,
}

/// A message that has not an outcome for all destinations.
#[derive(Debug, PartialEq)]
pub(crate) struct Open {
    pub(crate) accepted: Accepted,
    pub(crate) started: Vec<(Option<u16>, Resume)>,
    pub(crate) outcomes: Vec<(u16, Outcome)>,
}

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    options: Options,
    salt: u64,
    current: Segment,
    current_number: u32,
    /// Those before, the oldest first.
    closed: VecDeque<u32>,
    spares: Vec<PathBuf>,
    spare_names: u64,
    /// What is kept: in which segment, and how long it is.
    live: BTreeMap<Key, (u32, u32)>,
    live_octets: u64,
    /// The number of the last frame.
    frame: u64,
    next: Next,
    /// Whether no more can be allocated: by the disk, or by what is allowed.
    pub(super) is_full: bool,
    /// Octets written again because their segment was emptied.
    pub(super) moved: u64,
    _lock: Flock<File>,
}

impl Log {
    /// Opens a log, or begins one.
    ///
    /// # Errors
    /// When it is in use or damaged, or there is no room for it.
    pub(super) fn open(options: Options) -> Result<(Self, Recovered), NotOpened> {
        let folder = &options.folder;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join(LOCK))?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, error)| match error {
                    Errno::EWOULDBLOCK => NotOpened::InUse,
                    error => NotOpened::Io(error.into()),
                },
            )?;
        let mut reader = Reader::default();
        let numbers = reader.read_all(folder)?;
        let mut salt = reader.salt;
        if numbers.is_empty() {
            let mut fresh = [0; 8];
            System.fill(&mut fresh).map_err(io::Error::other)?;
            salt = u64::from_be_bytes(fresh);
        }
        let current_number = numbers.last().map_or(1, |last| last + 1);
        let first = folder.join("spare-0");
        allocate(&first, options.segment).map_err(|error| match error.raw_os_error() {
            Some(nix::libc::ENOSPC) => NotOpened::NoRoom((RESERVED + 2) * options.segment),
            _ => error.into(),
        })?;
        let Reader { live, recovered, frame, .. } = reader;
        let current = Segment::begin(&first, folder, current_number, salt, &recovered.next)?;
        let live_octets = live.values().map(|(_, octets)| u64::from(*octets)).sum();
        let mut log = Self {
            salt,
            current,
            current_number,
            closed: numbers.into(),
            spares: Vec::new(),
            spare_names: 1,
            live,
            live_octets,
            frame,
            next: recovered.next,
            is_full: false,
            moved: 0,
            _lock: lock,
            options,
        };
        log.tend()?;
        Ok((log, recovered))
    }

    /// Octets of records for which there is room, besides what is reserved.
    pub(super) fn room(&self) -> u64 {
        let spares = (self.spares.len() as u64).saturating_sub(RESERVED);
        self.room_here() + spares * self.room_of_segment()
    }

    fn room_of_segment(&self) -> u64 {
        // Half of the largest record may be left at the end of each.
        self.options.segment / 2
    }

    fn room_here(&self) -> u64 {
        self.options.segment.saturating_sub(self.current.at + FRAME as u64)
    }

    /// Segments, the spare ones too.
    pub(super) fn segments(&self) -> usize {
        self.closed.len() + 1 + self.spares.len()
    }

    /// Octets of the segment that is written to.
    #[cfg(test)]
    pub(super) fn written(&self) -> u64 {
        self.current.at
    }

    /// Octets that live.
    pub(super) fn live_octets(&self) -> u64 {
        self.live_octets
    }

    /// Stores records, and returns when they are on the disk.
    ///
    /// # Errors
    /// When the disk fails; nothing can be stored any more.
    pub(super) fn append(&mut self, mut records: &[u8]) -> io::Result<()> {
        let mut batch = Vec::with_capacity(records.len());
        while let Some((record, rest)) = Record::split_first(records) {
            let own = &records[..records.len() - rest.len()];
            records = rest;
            if let Record::Forgotten(key) = record {
                self.forget(key);
                continue;
            }
            if batch.len() as u64 + own.len() as u64 > self.room_here() {
                self.write(&batch)?;
                batch.clear();
                if own.len() as u64 > self.room_here() {
                    self.turn_over()?;
                }
            }
            self.note(&record, own.len());
            batch.extend_from_slice(own);
        }
        self.write(&batch)
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.frame += 1;
        self.current.write(self.salt, self.frame, batch)
    }

    /// Goes on in the next segment.
    fn turn_over(&mut self) -> io::Result<()> {
        if self.spares.is_empty() {
            self.make_spare()?;
        }
        let Some(spare) = self.spares.pop() else { return Err(Errno::ENOSPC.into()) };
        let number = self.current_number + 1;
        let folder = &self.options.folder;
        self.current = Segment::begin(&spare, folder, number, self.salt, &self.next)?;
        self.closed.push_back(self.current_number);
        self.current_number = number;
        Ok(())
    }

    fn make_spare(&mut self) -> io::Result<()> {
        let path = self.options.folder.join(format!("spare-{}", self.spare_names));
        self.spare_names += 1;
        allocate(&path, self.options.segment)?;
        self.spares.push(path);
        Ok(())
    }

    /// What a record that is being written means for what lives.
    fn note(&mut self, record: &Record, octets: usize) {
        let place = (self.current_number, u32::try_from(octets).unwrap_or(u32::MAX));
        note(&mut self.live, &mut self.live_octets, &mut self.next, record, place);
    }

    fn forget(&mut self, key: Key) {
        if let Some((_, octets)) = self.live.remove(&key) {
            self.live_octets -= u64::from(octets);
        }
    }

    /// Empties the oldest segment if that is worth it, and allocates ahead. A disk that is full is no error:
    /// [`Self::room`] tells.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn tend(&mut self) -> io::Result<()> {
        let size = self.options.segment;
        let allowed = usize::try_from(self.options.most / size).unwrap_or(usize::MAX);
        loop {
            let mut is_full = false;
            while self.spares.len() < SPARES && !is_full {
                is_full = self.segments() >= allowed;
                if !is_full && let Err(error) = self.make_spare() {
                    match error.raw_os_error() {
                        Some(nix::libc::ENOSPC | nix::libc::EDQUOT) => is_full = true,
                        _ => return Err(error),
                    }
                }
            }
            self.is_full = is_full;
            // What a segment holds is at least half of it.
            let lives = self.live_octets.div_ceil(size / 2);
            let closed = self.closed.len() as u64;
            let is_worth_it = closed > lives + SLACK || is_full && closed > self.live_octets / size;
            if !is_worth_it || self.spares.is_empty() || !self.empty_oldest()? {
                return Ok(());
            }
        }
    }

    /// Writes what lives in the oldest segment again, and removes it. False if that would free nothing.
    fn empty_oldest(&mut self) -> io::Result<bool> {
        let Some(&number) = self.closed.front() else { return Ok(false) };
        let path = segment::path(&self.options.folder, number);
        let mut kept = Vec::new();
        let read = Read::open(&path, number)?;
        let read = read.ok_or_else(|| io::Error::other("the oldest segment cannot be read"))?;
        let mut at = HEADER;
        while let Some(frame) = read.frame(at) {
            at = frame.end;
            let mut records = frame.records;
            while let Some((record, rest)) = Record::split_first(records) {
                if self.lives(&record, number) {
                    kept.extend_from_slice(&records[..records.len() - rest.len()]);
                }
                records = rest;
            }
        }
        if kept.len() as u64 > self.options.segment * 3 / 4 {
            return Ok(false);
        }
        self.moved += kept.len() as u64;
        self.append(&kept)?;
        self.closed.pop_front();
        fs::remove_file(&path)?;
        // Were it there again after a crash, and its successor gone, the log would have a gap.
        sync_folder(&self.options.folder)?;
        Ok(true)
    }

    fn lives(&self, record: &Record, segment: u32) -> bool {
        match record {
            Record::Started { id, .. } | Record::Outcome { id, .. } => {
                self.live.contains_key(&Key::Accepted(*id))
            }
            Record::Taken(_) | Record::Forgotten(_) => false,
            Record::Accepted(_) | Record::Ended(_) | Record::Arrived(_) | Record::Known(_) => {
                let key = record.key();
                key.and_then(|key| self.live.get(&key)).is_some_and(|(its, _)| *its == segment)
            }
        }
    }
}

impl Record {
    fn key(&self) -> Option<Key> {
        match self {
            Self::Accepted(it) => Some(Key::Accepted(it.id)),
            Self::Arrived(it) => Some(Key::Arrived(it.number)),
            Self::Ended(it) => Some(Key::Ended(it.id)),
            Self::Known(it) => Some(Key::Known(it.number)),
            Self::Started { .. } | Self::Outcome { .. } | Self::Taken(_) | Self::Forgotten(_) => {
                None
            }
        }
    }
}

/// Notes what a record keeps and ends, and that its numbers are used.
fn note(
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

/// Reads a log from its beginning.
#[derive(Default)]
struct Reader {
    salt: u64,
    frame: u64,
    live: BTreeMap<Key, (u32, u32)>,
    live_octets: u64,
    recovered: Recovered,
    started: BTreeMap<u64, Vec<(Option<u16>, Resume)>>,
    outcomes: BTreeMap<u64, Vec<(u16, Outcome)>>,
}

impl Reader {
    /// Reads all segments; their numbers, in order.
    fn read_all(&mut self, folder: &Path) -> Result<Vec<u32>, NotOpened> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with("spare-") {
                fs::remove_file(folder.join(name))?;
            }
            numbers.extend(name.strip_suffix(".log").and_then(|it| it.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        let mut expected = None;
        let mut end = None;
        for &number in &numbers {
            let path = segment::path(folder, number);
            let damage = |at, what| Damage { file: path.clone(), at, what };
            if expected.is_some_and(|expected| expected != number) {
                return Err(damage(0, "the segment before is missing, which begins").into());
            }
            let is_last = numbers.last() == Some(&number);
            expected = Some(number + 1);
            let Some(read) = Read::open(&path, number)? else {
                // It is renamed when its header is on the disk.
                return Err(damage(0, "there is no header").into());
            };
            self.salt = read.salt;
            let at = self.read(&read, (number, &path), end.take())?;
            if read.has_later(at, self.frame) {
                return Err(damage(at, "a record cannot be read").into());
            }
            if !is_last {
                end = Some((path, at));
            }
        }
        self.settle();
        Ok(numbers)
    }

    /// Reads a segment's frames; `before` is where those of the one before ended. Where they end here.
    fn read(
        &mut self,
        read: &Read,
        (number, path): (u32, &Path),
        before: Option<(PathBuf, usize)>,
    ) -> Result<usize, Damage> {
        self.recovered.next = self.recovered.next.later(read.next);
        let mut at = HEADER;
        let mut before = before;
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
            at = frame.end;
            let mut records = frame.records;
            while let Some((record, rest)) = Record::split_first(records) {
                let octets = u32::try_from(records.len() - rest.len()).unwrap_or(u32::MAX);
                records = rest;
                let Self { live, live_octets, recovered, .. } = self;
                note(live, live_octets, &mut recovered.next, &record, (number, octets));
                self.take(record);
            }
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

    /// Puts together what is known of each message.
    fn settle(&mut self) {
        for (id, open) in &mut self.recovered.open {
            open.started = self.started.remove(id).unwrap_or_default();
            open.outcomes = self.outcomes.remove(id).unwrap_or_default();
        }
    }
}

impl Next {
    /// What neither has used.
    fn later(self, other: Self) -> Self {
        let newest = if self.starts >= other.starts { self } else { other };
        Self { id: self.id.max(other.id), number: self.number.max(other.number), ..newest }
    }
}
