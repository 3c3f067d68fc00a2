//! The store, closed, cut off and damaged anywhere.

use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use sar::{Ending, Failure, Outcome, Ports, Remembered, Resume};

use super::log::{Log, Options};
use super::reader::{NotOpened, Recovered, last_written};
use super::record::{Accepted, Arrived, Ended, Key, Known, NUMBERS, Record};
use super::segment::{FRAME, HEADER, checksum};

const SEGMENT: u64 = 4_096;
const TO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1));
const PORTS: Ports = Ports { source: 1, destination: 2 };

/// A folder of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("twstore{}-{number}", process::id())))
    }

    fn options(&self) -> Options {
        Options { folder: self.0.clone(), segment: SEGMENT, most: 64 * SEGMENT }
    }

    fn open(&self) -> (Log, Recovered) {
        Log::open(self.options()).unwrap()
    }

    fn recovered(&self) -> Recovered {
        self.open().1
    }

    /// The files of segments, the oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            entries.filter(|it| it.extension().is_some_and(|it| it == "log")).collect();
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn accepted(id: u64, octets: usize) -> Record {
    Record::Accepted(Accepted {
        id,
        name: format!("message {id}"),
        ports: PORTS,
        precedence: 2,
        is_acknowledged: true,
        via: None,
        expires: Some(7),
        destinations: vec![TO],
        data: vec![7; octets].into(),
    })
}

fn started(id: u64, order: u64) -> Record {
    let serial = u16::try_from(order).unwrap() + 100;
    Record::Started { id, part: Some(0), resume: Resume { serial, segment: 496 }, order }
}

fn ended(id: u64) -> Record {
    let outcomes = vec![(TO, Outcome::Failed(Failure::Lost))];
    Record::Ended(Ended { id, at: 5, name: String::new(), outcomes })
}

fn arrived(number: u64, octets: usize) -> Record {
    let data = vec![9; octets].into();
    let identity = identity();
    Record::Arrived(Arrived {
        number,
        source: TO,
        ports: PORTS,
        precedence: 0,
        at: 3,
        identity,
        data,
    })
}

fn identity() -> Remembered {
    let ending = Ending::Delivered;
    Remembered { source: TO, serial: 3, ports: PORTS, last: 1, fingerprint: 77, ending }
}

fn known(number: u64) -> Record {
    Record::Known(Known { number, at: 4, identity: identity() })
}

fn octets(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    records.iter().for_each(|record| record.emit(&mut out));
    out
}

fn store(log: &mut Log, records: &[Record]) {
    log.append(&octets(records)).unwrap();
    log.tend().unwrap();
}

#[test]
fn what_was_written_last_is_in_the_last_segment() {
    let folder = Folder::new();
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    for seconds in [9_000, 1_000] {
        drop(folder.open());
        let segments = folder.segments();
        let file = OpenOptions::new().write(true).open(segments.last().unwrap()).unwrap();
        file.set_modified(at(seconds)).unwrap();
    }

    assert!(folder.segments().len() > 1);
    assert_eq!(last_written(&folder.0).unwrap(), Some(at(1_000)));
}

#[test]
fn each_record_is_read_as_it_was_written() {
    let outcome = Record::Outcome { id: 9, part: 1, outcome: Outcome::Cancelled };
    let forgotten = [Key::Accepted(1), Key::Arrived(2), Key::Ended(3), Key::Known(4)];
    let mut all = vec![accepted(1, 3), started(1, 5), outcome, ended(2), arrived(3, 2)];
    all.extend([Record::Taken(4), known(5)]);
    all.extend(forgotten.map(Record::Forgotten));
    let written = octets(&all);

    let mut rest = &written[..];
    for record in &all {
        let (read, left) = Record::split_first(rest).unwrap();
        assert_eq!(read, *record);
        rest = left;
    }
    assert_eq!(rest, b"");
    for end in 0..written.len() {
        // Whatever is cut off is not read, and nothing panics.
        let mut rest = &written[..end];
        while let Some((_, left)) = Record::split_first(rest) {
            rest = left;
        }
    }
}

#[test]
fn what_was_stored_and_not_ended_is_there_when_it_is_opened_again() {
    let folder = Folder::new();
    let (mut log, nothing) = folder.open();
    assert_eq!(nothing, Recovered::default());
    store(&mut log, &[accepted(1, 100), accepted(2, 100), started(1, 0), arrived(1, 50)]);
    let outcome = Record::Outcome { id: 2, part: 0, outcome: Outcome::Sent };
    store(
        &mut log,
        &[started(2, 1), ended(1), arrived(2, 50), Record::Taken(1), known(2), outcome],
    );
    drop(log);

    for _ in 0..3 {
        let recovered = folder.recovered();
        assert_eq!(recovered.open.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(recovered.open[&2].started[0].1.serial, 101);
        assert_eq!(recovered.open[&2].outcomes, [(0, Outcome::Sent)]);
        assert_eq!(Record::Accepted(recovered.open[&2].accepted.clone()), accepted(2, 100));
        assert_eq!(recovered.ended.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(recovered.arrived.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(recovered.known.keys().collect::<Vec<_>>(), [&2]);
        let next = recovered.next;
        assert_eq!((next.id, next.number, next.starts, next.serial), (3, 3, 2, 101));
    }
}

#[test]
fn the_log_stays_as_small_as_what_lives_in_it_and_keeps_that() {
    let folder = Folder::new();
    let (mut log, _) = folder.open();
    store(&mut log, &[accepted(1, 1_000), started(1, 0), arrived(1, 700), known(1)]);
    for id in 2..300 {
        store(&mut log, &[accepted(id, 500), started(id, id), ended(id)]);
        store(&mut log, &[Record::Forgotten(Key::Ended(id))]);
        assert!(log.segments() < 20, "{} segments for message {id}", log.segments());
    }
    assert!(log.moved() > 0);
    drop(log);

    let recovered = folder.recovered();
    assert_eq!(recovered.open.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(recovered.open[&1].started[0].1.serial, 100, "it was written again too");
    assert_eq!((recovered.arrived.len(), recovered.known.len()), (1, 1));
    assert_eq!((recovered.next.id, recovered.next.serial), (300, 399), "no number begins anew");
}

#[test]
fn a_log_that_may_not_grow_says_so_and_still_takes_the_ends_of_messages() {
    let folder = Folder::new();
    let options = Options { most: 8 * SEGMENT, ..folder.options() };
    let (mut log, _) = Log::open(options).unwrap();
    let mut count = 0;
    while log.room() > 1_500 {
        count += 1;
        store(&mut log, &[accepted(count, 1_000)]);
        assert!(count < 100, "it is never full");
    }
    assert!(count > 8, "only {count} fit");

    for id in 1..=count {
        store(&mut log, &[started(id, id), ended(id), Record::Forgotten(Key::Ended(id))]);
    }

    assert!(log.room() > 4_000, "there is room again: {}", log.room());
    assert!(log.segments() <= 8);
}

#[test]
fn only_one_program_has_a_store() {
    let folder = Folder::new();
    let (log, _) = folder.open();

    assert!(matches!(Log::open(folder.options()), Err(NotOpened::InUse)));
    drop(log);
    folder.open();
}

#[test]
fn what_only_a_later_version_can_read_is_damage_and_not_left_out() {
    let folder = Folder::new();
    let (mut log, _) = folder.open();
    log.append(&octets(&[accepted(1, 40), accepted(2, 40)])).unwrap();
    drop(log);
    // The kind of the second record, and the checksum that goes with it.
    let segment = folder.segments()[0].clone();
    let mut file = fs::read(&segment).unwrap();
    let records = HEADER + FRAME;
    let second = records + octets(&[accepted(1, 40)]).len();
    file[second + 4] = 99;
    let end = second + octets(&[accepted(2, 40)]).len();
    let salt = u64::from_be_bytes(*file[8..].first_chunk().unwrap());
    let sum = checksum(salt, 1, &file[records..end]);
    file[records - 4..records].copy_from_slice(&sum.to_be_bytes());
    fs::write(&segment, file).unwrap();

    let Err(NotOpened::Damaged(damage)) = Log::open(folder.options()) else { panic!("it opened") };

    assert_eq!((damage.what, damage.at), ("a record cannot be understood", HEADER));
}

#[test]
fn no_number_is_read_behind_which_there_are_no_others() {
    for record in [accepted(u64::MAX, 3), arrived(NUMBERS, 3), known(NUMBERS), ended(NUMBERS)] {
        assert_eq!(Record::split_first(&octets(&[record])), None);
    }
    assert!(Record::split_first(&octets(&[accepted(NUMBERS - 1, 3)])).is_some());
}

#[test]
fn files_with_other_names_are_none_of_the_stores() {
    let folder = Folder::new();
    frames(&folder, 3);
    for name in ["1.log", "+000000002.log", "00000000009.log", "old.log"] {
        fs::write(folder.0.join(name), b"notes").unwrap();
    }

    assert_eq!(folder.recovered().open.len(), 3);
}

/// A store whose records are in frames of their own; how many octets its segment has after each.
fn frames(folder: &Folder, count: u64) -> Vec<u64> {
    let (mut log, _) = folder.open();
    let mut ends = Vec::new();
    for id in 1..=count {
        log.append(&octets(&[accepted(id, 40)])).unwrap();
        ends.push(log.written());
    }
    ends
}

proptest! {
    #![proptest_config(harness::cases(64))]

    #[test]
    fn a_crash_in_a_write_costs_what_was_being_written_alone(cut in 0_u64..2_000, noise: u64) {
        let folder = Folder::new();
        let ends = frames(&folder, 10);
        let cut = (50 + cut).min(ends[9]);
        let file = OpenOptions::new().write(true).open(&folder.segments()[0]).unwrap();
        // The rest of the last write is as it was before, or anything.
        file.write_all_at(&vec![0; usize::try_from(SEGMENT - cut).unwrap()], cut).unwrap();
        if noise % 2 == 1 && cut + 8 < SEGMENT {
            file.write_all_at(&noise.to_be_bytes(), cut).unwrap();
        }

        let whole = ends.iter().filter(|end| **end <= cut).count();
        for _ in 0..2 {
            let recovered = folder.recovered();
            prop_assert_eq!(recovered.open.len(), whole);
            prop_assert_eq!(recovered.next.id, if whole == 0 { 0 } else { whole as u64 + 1 });
        }
    }

    #[test]
    fn damage_before_what_was_stored_later_is_never_taken_for_the_end(at in 50_u64..1_000, bit in 0_u8..8) {
        let folder = Folder::new();
        let ends = frames(&folder, 10);
        let segment = folder.segments()[0].clone();
        let file = OpenOptions::new().read(true).write(true).open(&segment).unwrap();
        let at = at.min(ends[8] - 1);
        let mut octet = [0];
        file.read_exact_at(&mut octet, at).unwrap();
        file.write_all_at(&[octet[0] ^ 1 << bit], at).unwrap();

        let opened = Log::open(folder.options());

        let Err(NotOpened::Damaged(damage)) = opened else { panic!("it opened") };
        prop_assert_eq!(&damage.file, &segment);
        let begin = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(50);
        prop_assert_eq!(damage.at as u64, begin);
    }
}

#[test]
fn a_segment_that_is_missing_or_ends_early_is_damage() {
    let long = |folder: &Folder| {
        let (mut log, _) = folder.open();
        (1..=12).for_each(|id| log.append(&octets(&[accepted(id, 1_000)])).unwrap());
        folder.segments()
    };
    let says = |folder: &Folder, expected: &str| {
        let Err(NotOpened::Damaged(damage)) = Log::open(folder.options()) else {
            panic!("it opened")
        };
        assert!(damage.to_string().contains(expected), "{damage}");
    };

    let folder = Folder::new();
    let segments = long(&folder);
    assert!(segments.len() >= 4, "{segments:?}");
    fs::remove_file(&segments[1]).unwrap();
    says(&folder, "the segment before is missing, which begins in");

    let folder = Folder::new();
    let segments = long(&folder);
    // Its last frame is gone, and nothing in it tells.
    let file = OpenOptions::new().write(true).open(&segments[1]).unwrap();
    file.write_all_at(&[0; 1_500], 2_200).unwrap();
    says(&folder, "records are missing in");

    let folder = Folder::new();
    let segments = long(&folder);
    OpenOptions::new().write(true).open(&segments[2]).unwrap().write_all_at(b"X", 3).unwrap();
    says(&folder, "there is no header in");
}
