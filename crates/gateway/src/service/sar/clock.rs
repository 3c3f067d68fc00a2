//! Tells when stored messages expire: the store's time goes on evenly whoever sets the wall clock, and never back.
//!
//! ```text
//!   at a start:  the reference's time + the wall clock's progress since the reference
//!   afterwards:  as the process counts; once the wall clock was set, the file `clock` gets a new reference
//! ```
//! Without the file, as after an earlier version, both clocks are the same. If the wall clock has gone back while no
//! process ran, nobody knows how long: lifetimes go on from the last write to the store.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use base::time::Time;
use tracing::warn;

use super::store;

/// A smaller difference is no change of the wall clock, in milliseconds.
const STEP: u64 = 1_000;
/// When a file that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// A later time than any clock says, in milliseconds: a file with such a number is damaged.
const LATEST: u64 = 1 << 53;

/// The clock of a store. All its times, and those of the wall clock, are milliseconds.
#[derive(Debug)]
pub struct Clock {
    folder: PathBuf,
    reference: Reference,
    /// When the process opened the store, by its own clock and the store's.
    began: (Time, u64),
    /// When to write the reference, if the file does not have it.
    write_at: Option<Time>,
}

/// The time of one moment by the wall clock and by the store's clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Reference {
    wall: u64,
    stored: u64,
    /// The wall clock's time of the last write to the store until then: if the clock was set back, that lies ahead.
    written: u64,
}

impl Clock {
    /// Goes on with the clock of a store, to which was last written when the wall clock said `written`. Opening the store
    /// writes to it.
    pub fn open(folder: &Path, now: Time, wall: u64, written: u64) -> Self {
        let reference = Reference::read(folder).unwrap_or_else(|error| {
            warn!(%error, "the file `clock` of the store cannot be read: messages may expire too early or too late");
            Reference::default()
        });
        let written = if written == reference.written { 0 } else { written };
        let began = (now, reference.at(wall.max(written)));
        let mut clock = Self { folder: folder.to_owned(), reference, began, write_at: None };
        clock.follow(now, wall);
        clock
    }

    /// The present time.
    pub fn time(&self, now: Time) -> u64 {
        let (began, stored) = self.began;
        stored.saturating_add(super::milliseconds(now.since(began)))
    }

    /// Looks whether the wall clock was set. To be called before anything is stored.
    pub fn follow(&mut self, now: Time, wall: u64) {
        let stored = self.time(now);
        if self.reference.at(wall).abs_diff(stored) > STEP {
            self.reference = Reference { wall, stored, written: last_written(&self.folder) };
            self.write_at = Some(now);
        }
        if self.write_at.is_none_or(|at| at > now) {
            return;
        }
        self.write_at = self.reference.write(&self.folder).err().map(|error| {
            warn!(%error, "the wall clock was set: after the next start messages may expire too early or too late");
            now + AGAIN
        });
    }
}

/// When something was last written to the store, by the wall clock, in milliseconds.
pub fn last_written(folder: &Path) -> u64 {
    let written = store::last_written(folder).ok().flatten();
    written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, super::milliseconds)
}

impl Reference {
    /// The store's time when the wall clock says `wall`.
    fn at(self, wall: u64) -> u64 {
        self.stored.saturating_add(wall.saturating_sub(self.wall))
    }

    /// What the file says; where there is none, both clocks are the same.
    fn read(folder: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(folder.join("clock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text?,
        };
        let numbers: Option<Vec<u64>> = text
            .split_whitespace()
            .map(|number| number.parse().ok().filter(|number| *number < LATEST))
            .collect();
        match numbers.as_deref() {
            Some(&[wall, stored, written]) => Ok(Self { wall, stored, written }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold three times")),
        }
    }

    fn write(self, folder: &Path) -> io::Result<()> {
        let new = folder.join("clock.new");
        let mut file = File::create(&new)?;
        file.write_all(format!("{} {} {}\n", self.wall, self.stored, self.written).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, folder.join("clock"))?;
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A store in a folder of its own, and the process that has it.
    struct Run {
        folder: PathBuf,
        clock: Option<Clock>,
        now: Time,
    }

    impl Run {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("twclock{}-{name}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            Self { folder, clock: None, now: Time::ZERO }
        }

        /// Starts a process when the wall clock says `wall`; returns the store's time.
        fn start(&mut self, wall: u64) -> u64 {
            let clock = Clock::open(&self.folder, self.now, wall, last_written(&self.folder));
            self.stamp(wall);
            self.clock.insert(clock).time(self.now)
        }

        /// A segment is written to.
        fn stamp(&self, wall: u64) {
            let segment = File::create(self.folder.join("1.log")).unwrap();
            segment.set_modified(UNIX_EPOCH + Duration::from_millis(wall)).unwrap();
        }

        /// So many milliseconds later something is written, when the wall clock says `wall`; returns the store's time.
        fn write(&mut self, later: u64, wall: u64) -> u64 {
            let time = self.look(later, wall);
            self.stamp(wall);
            time
        }

        /// The same, and nothing is written.
        fn look(&mut self, later: u64, wall: u64) -> u64 {
            self.now += Duration::from_millis(later);
            let clock = self.clock.as_mut().unwrap();
            clock.follow(self.now, wall);
            clock.time(self.now)
        }
    }

    impl Drop for Run {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn it_is_the_wall_clock_while_nobody_sets_that() {
        let mut run = Run::new("even");

        assert_eq!([run.start(5_000_000), run.write(60_000, 5_060_000)], [5_000_000, 5_060_000]);
        assert_eq!(run.start(5_090_000), 5_090_000, "the time that no process ran counts");
        assert!(!run.folder.join("clock").exists());
    }

    #[test]
    fn set_back_or_forward_while_the_process_runs_it_goes_on_evenly() {
        for wall in [1_400_000_u64, 9_000_000, 5_000_000] {
            let mut run = Run::new(&format!("set{wall}"));
            run.start(5_000_000);

            assert_eq!(run.write(60_000, wall), 5_060_000, "{wall}");
            assert_eq!(run.write(60_000, wall + 60_000), 5_120_000, "{wall}");
            assert_eq!(run.start(wall + 90_000), 5_150_000, "{wall}");
        }
    }

    #[test]
    fn set_back_with_nothing_written_afterwards_it_goes_on_evenly_at_the_next_start() {
        let mut run = Run::new("idle");
        run.start(5_000_000);
        run.write(60_000, 5_060_000);

        assert_eq!(run.look(60_000, 1_000_000), 5_120_000);

        assert_eq!(run.start(1_030_000), 5_150_000);
    }

    #[test]
    fn a_file_that_could_not_be_written_is_written_later_and_a_damaged_one_counts_for_nothing() {
        let mut run = Run::new("full");
        run.start(5_000_000);
        let obstacle = run.folder.join("clock.new");
        fs::create_dir(&obstacle).unwrap();
        run.look(60_000, 1_000_000);
        assert!(!run.folder.join("clock").exists());
        fs::remove_dir(&obstacle).unwrap();

        run.look(59_000, 1_059_000);
        assert!(!run.folder.join("clock").exists(), "not at once");
        run.look(1_000, 1_060_000);
        assert_eq!(run.start(1_090_000), 5_150_000);

        for damaged in ["", "1 2", "1 2 x", "1 18446744073709551615 3"] {
            fs::write(run.folder.join("clock"), damaged).unwrap();
            fs::remove_file(run.folder.join("1.log")).unwrap();
            assert_eq!(run.start(6_000_000), 6_000_000, "{damaged}");
        }
    }

    #[test]
    fn it_goes_on_at_each_start_with_a_clock_that_has_gone_back() {
        let mut run = Run::new("starts");
        run.start(5_000_000);
        run.write(60_000, 5_060_000);

        assert_eq!(run.start(1_000), 5_060_000);
        assert_eq!(run.write(10_000, 11_000), 5_070_000);
        assert_eq!(run.start(1_000), 5_070_000, "as without a battery");
        assert_eq!(run.write(10_000, 6_000_000), 5_080_000, "a time server sets it");
        assert_eq!(run.start(6_020_000), 5_100_000);
    }
}
