//! The log itself: read at the start, then records are appended, and the oldest segment is emptied when the log
//! has grown beyond what lives in it.
//!
//! A record that ends another comes after it, and segments go in their order: when the end of a message is
//! removed, the message is gone already. So ends need not be kept.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use base::entropy::Entropy as _;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::reader::{Loaded, NotOpened, Reader, Recovered, note};
use super::record::{Key, Record};
use super::segment::{FRAME, HEADER, Next, Read, Segment, allocate, path, sync_folder};
use crate::keys::System;

/// Where the log is, and how large it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The folder of the log; created if missing.
    pub(crate) folder: PathBuf,
    /// Octets of a segment.
    pub(crate) segment: u64,
    /// Octets of all segments at most.
    pub(crate) most: u64,
}

/// Segments allocated ahead: for messages of programs, and the last two for records that must be noted and for
/// emptying a segment.
const SPARES: usize = 4;
const RESERVED: u64 = 2;
/// Segments beyond the live records that are not worth emptying.
const SLACK: u64 = 2;
const LOCK: &str = "lock";

/// An open log.
#[derive(Debug)]
pub struct Log {
    options: Options,
    salt: u64,
    current: Segment,
    current_number: u32,
    /// Those before, the oldest first.
    closed: VecDeque<u32>,
    spares: Vec<PathBuf>,
    spare_names: u64,
    /// The live records, each with its segment and its length.
    live: BTreeMap<Key, (u32, u32)>,
    live_octets: u64,
    /// The number of the last frame.
    frame: u64,
    next: Next,
    /// Whether no more can be allocated: by the disk, or by what is allowed.
    is_full: bool,
    /// Octets written again because their segment was emptied.
    moved: u64,
    _lock: Flock<File>,
}

impl Log {
    /// Opens a log, or begins one.
    ///
    /// # Errors
    /// When it is in use or damaged, or there is no room for it.
    pub fn open(options: Options) -> Result<(Self, Recovered), NotOpened> {
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
        let Loaded { numbers, mut salt, frame, live, live_octets, recovered } =
            Reader::read_all(folder)?;
        if numbers.is_empty() {
            let mut fresh = [0; 8];
            System.fill(&mut fresh).map_err(io::Error::other)?;
            salt = u64::from_be_bytes(fresh);
        }
        let current_number = numbers.last().map_or(Ok(1), |last| following(*last))?;
        let first = folder.join("spare-0");
        allocate(&first, options.segment).map_err(|error| match error.raw_os_error() {
            Some(nix::libc::ENOSPC) => NotOpened::NoRoom((RESERVED + 2) * options.segment),
            _ => error.into(),
        })?;
        let current = Segment::begin(&first, folder, current_number, salt, &recovered.next)?;
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

    /// Whether no more can be allocated: by the disk, or by what is allowed.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Octets written again because their segment was emptied.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Octets of records for which there is room, not counting the reserve.
    pub fn room(&self) -> u64 {
        let spares = (self.spares.len() as u64).saturating_sub(RESERVED);
        self.room_here() + spares * self.room_of_segment()
    }

    fn room_of_segment(&self) -> u64 {
        // Half of the largest record may be left at the end of each.
        self.options.segment / 2
    }

    fn room_here(&self) -> u64 {
        self.options.segment.saturating_sub(self.current.written() + FRAME as u64)
    }

    /// Segments, the spare ones too.
    pub fn segments(&self) -> usize {
        self.closed.len() + 1 + self.spares.len()
    }

    /// Octets of the segment that is written to.
    #[cfg(test)]
    pub fn written(&self) -> u64 {
        self.current.written()
    }

    /// Octets that live.
    pub fn live_octets(&self) -> u64 {
        self.live_octets
    }

    /// Stores records, and returns when they are on the disk.
    ///
    /// # Errors
    /// When the disk fails; nothing can be stored any more.
    pub fn append(&mut self, mut records: &[u8]) -> io::Result<()> {
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
        let number = following(self.current_number)?;
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

    /// Updates the live records for a record being written.
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
    pub fn tend(&mut self) -> io::Result<()> {
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
            // Each segment is at least half full.
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
        let path = path(&self.options.folder, number);
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

/// The number of the next segment.
fn following(number: u32) -> io::Result<u32> {
    number.checked_add(1).ok_or_else(|| io::Error::other("the numbers of its segments are used up"))
}
