//! The thread that writes the log: whatever waits goes to the disk together.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;

use super::log::{Log, Options};
use super::reader::{NotOpened, Recovered};
use super::record::Record;
use crate::reactor::Waker;

/// Marks what was pushed; later ones are greater.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ticket(u64);

/// The service's handle of the store. Dropping it stores all flushed records first.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Records that were pushed and not flushed.
    batch: Vec<u8>,
    /// Octets that were pushed ever.
    pushed: u64,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    has_work: Condvar,
    waker: Arc<Waker>,
    /// Octets pushed that are stored.
    committed: AtomicU64,
    /// Total octets that may ever be pushed, as things are.
    allowed: AtomicU64,
    is_full: AtomicBool,
    commits: AtomicU64,
    moved: AtomicU64,
    segments: AtomicU64,
    live: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    records: Vec<u8>,
    is_over: bool,
    failure: Option<String>,
}

base::counters! {
    /// Figures of the store.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Stats {
        /// Times that something was written and is on the disk.
        store_commits: counter(times);
        /// Octets written.
        store_octets: counter(octets);
        /// Octets written again to empty a segment.
        store_moved_octets: counter(octets);
        /// Segments on the disk, spare ones too.
        store_segments: gauge(segments);
        /// Octets of live records in the segments.
        store_live_octets: gauge(octets);
        /// Octets of records that still fit.
        store_room: gauge(octets);
    }
}

impl Store {
    /// Opens a store, or begins one. `waker` is woken whenever something is stored.
    ///
    /// # Errors
    /// When it is in use or damaged, or there is no room for it.
    pub fn open(options: Options, waker: &Arc<Waker>) -> Result<(Self, Recovered), NotOpened> {
        let (log, recovered) = Log::open(options)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            has_work: Condvar::new(),
            waker: Arc::clone(waker),
            committed: AtomicU64::new(0),
            allowed: AtomicU64::new(log.room()),
            is_full: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            live: AtomicU64::new(0),
        });
        shared.tell(&log);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("sar-store".to_owned());
        let thread = thread.spawn(move || {
            let _tells = TellsPanic(&theirs);
            theirs.run(log);
        })?;
        Ok((Self { shared, thread: Some(thread), batch: Vec::new(), pushed: 0 }, recovered))
    }

    /// Takes a record for the next batch.
    pub fn push(&mut self, record: &Record) -> Ticket {
        let before = self.batch.len();
        record.emit(&mut self.batch);
        self.pushed += (self.batch.len() - before) as u64;
        Ticket(self.pushed)
    }

    /// Lets the batch be written.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.records.is_empty() {
            std::mem::swap(&mut queue.records, &mut self.batch);
        } else {
            queue.records.extend_from_slice(&self.batch);
        }
        drop(queue);
        self.batch.clear();
        self.shared.has_work.notify_one();
    }

    /// All that was pushed.
    pub fn latest(&self) -> Ticket {
        Ticket(self.pushed)
    }

    /// What is stored.
    pub fn committed(&self) -> Ticket {
        Ticket(self.shared.committed.load(Ordering::Acquire))
    }

    /// Octets that were pushed and are not stored.
    pub fn backlog(&self) -> u64 {
        self.pushed.saturating_sub(self.committed().0)
    }

    /// Room for records, in octets; records that must be stored have separate room.
    pub fn room(&self) -> u64 {
        self.shared.allowed.load(Ordering::Acquire).saturating_sub(self.pushed)
    }

    /// Whether there will be no more room by itself: the disk is full, or what is allowed is used.
    pub fn is_full(&self) -> bool {
        self.shared.is_full.load(Ordering::Acquire)
    }

    /// # Errors
    /// When nothing can be stored any more.
    pub fn check(&self) -> anyhow::Result<()> {
        let queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &queue.failure {
            Some(why) => Err(anyhow::anyhow!("{why}")).context("cannot store messages"),
            None => Ok(()),
        }
    }

    pub fn stats(&self) -> Stats {
        let of = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Stats {
            store_commits: of(&self.shared.commits),
            store_octets: of(&self.shared.committed),
            store_moved_octets: of(&self.shared.moved),
            store_segments: of(&self.shared.segments),
            store_live_octets: of(&self.shared.live),
            store_room: self.room(),
        }
    }
}

/// Tells the service of a panic of the thread: otherwise messages would wait for a store that stores nothing.
struct TellsPanic<'a>(&'a Shared);

impl Drop for TellsPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("the thread that stores panicked".to_owned());
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.flush();
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.shared.has_work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, mut log: Log) {
        let mut records = Vec::new();
        loop {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            while queue.records.is_empty() && !queue.is_over {
                queue = self.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.records.is_empty() {
                return;
            }
            std::mem::swap(&mut queue.records, &mut records);
            drop(queue);
            let outcome = self.commit(&mut log, &records);
            records.clear();
            if let Err(error) = outcome {
                return self.fail(error.to_string());
            }
        }
    }

    /// Nothing can be stored any more.
    fn fail(&self, why: String) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.failure = Some(why);
        drop(queue);
        self.waker.wake();
    }

    fn commit(&self, log: &mut Log, records: &[u8]) -> io::Result<()> {
        log.append(records)?;
        self.committed.fetch_add(records.len() as u64, Ordering::Release);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.waker.wake();
        log.tend()?;
        self.tell(log);
        // There may be more room now than before.
        self.waker.wake();
        Ok(())
    }

    fn tell(&self, log: &Log) {
        let committed = self.committed.load(Ordering::Relaxed);
        self.allowed.store(committed + log.room(), Ordering::Release);
        self.is_full.store(log.is_full(), Ordering::Release);
        self.moved.store(log.moved(), Ordering::Relaxed);
        self.segments.store(log.segments() as u64, Ordering::Relaxed);
        self.live.store(log.live_octets(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_that_stores_is_told() {
        let folder = std::env::temp_dir().join(format!("twstore{}-panics", std::process::id()));
        let options = Options { folder: folder.clone(), segment: 4_096, most: 64 * 4_096 };
        let (store, _) = Store::open(options, &Waker::new().unwrap()).unwrap();
        let shared = Arc::clone(&store.shared);
        let is_well = store.check().is_ok();

        let panics = thread::spawn(move || {
            let _tells = TellsPanic(&shared);
            panic!("as a broken promise would");
        });
        let has_panicked = panics.join().is_err();
        let why = store.check().unwrap_err();
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();

        assert!(is_well && has_panicked);
        assert_eq!(format!("{why:#}"), "cannot store messages: the thread that stores panicked");
    }
}
