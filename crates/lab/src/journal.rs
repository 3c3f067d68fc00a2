//! Runs so far, on disk: a stopped command continues from its journal, and only one process writes there at a time.
//!
//! ```text
//!  # trackway 0.1.0 tune 1f0e9c… c d dmax …       by what, of what, and in what form
//!  9182…\tdefaults.tcp.rto.initial = "35s"\t1 12.5 …     a run
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::Hasher as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use siphasher::sip::SipHasher13;

/// The file in the folder of results.
pub const NAME: &str = "runs.tsv";

/// A file to which runs are added. While a process has the file open, nobody else can open it; the end of the
/// process, of whatever kind, releases the file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    head: String,
    file: Mutex<File>,
    /// Why nothing more is added.
    failed: Mutex<Option<io::Error>>,
}

/// What the first line of a journal says.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The command that runs it: a word.
    pub command: &'a str,
    /// What is run, in a word: runs of another subject are not mixed in.
    pub subject: &'a str,
    /// The form of the runs. A different form shows that another build of the program wrote the journal, and its runs
    /// are discarded.
    pub form: &'a str,
}

/// What a journal had when it was opened.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kept {
    /// A line for each run.
    pub lines: Vec<String>,
    /// Whether runs of another build of the program were discarded.
    pub was_of_another_build: bool,
}

/// Why a folder is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Another process uses it.
    #[error(
        "{} is in use: another `trackway lab` writes its results there. Wait for it, or name another folder with --out",
        .0.display()
    )]
    Busy(PathBuf),
    /// The journal has runs of another subject.
    #[error(
        "{} has runs of another scenario, of another version of it, or of other flows: name another folder, or \
         remove that one to begin anew", .0.display()
    )]
    Other(PathBuf),
    /// It cannot be read or written.
    #[error("cannot use {}: {why}", .path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
}

impl Journal {
    /// Opens the journal of a folder and reads its runs; makes a missing folder. A line cut short by a killed command
    /// is removed.
    ///
    /// # Errors
    /// When somebody else has it open, it is about something else, or cannot be read or written.
    pub fn open(folder: &Path, head: Head<'_>) -> Result<(Self, Kept), Unusable> {
        let path = folder.join(NAME);
        let io = |why| Unusable::Io { path: path.clone(), why };
        fs::create_dir_all(folder).map_err(io)?;
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Unusable::Busy(folder.to_owned())),
            Err(TryLockError::Error(why)) => return Err(io(why)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(io)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let first = lines.next();
        if first.is_some_and(|first| !head.is_of(first)) {
            return Err(Unusable::Other(folder.to_owned()));
        }
        let (file, failed) = (Mutex::new(file), Mutex::new(None));
        let journal = Self { path: path.clone(), head: head.line(), file, failed };
        if first == Some(&journal.head) {
            journal.lock().set_len(whole as u64).map_err(io)?;
            let lines = lines.map(str::to_owned).collect();
            return Ok((journal, Kept { lines, was_of_another_build: false }));
        }
        journal.clear()?;
        Ok((journal, Kept { lines: Vec::new(), was_of_another_build: first.is_some() }))
    }

    /// Forgets all runs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn clear(&self) -> Result<(), Unusable> {
        let cleared = self.lock().set_len(0);
        cleared.and_then(|()| self.write(&self.head)).map_err(|why| self.io(why))
    }

    /// Adds a line, whole or not at all: a killed process leaves at most one cut line. If writing fails, as on a full
    /// disk, no more is added, and the runs themselves go on: false the first time. [`Journal::ensure_whole`] reports
    /// the failure.
    #[must_use]
    pub fn add(&self, line: &str) -> bool {
        let mut failed = self.failed.lock().expect("no thread panics while it writes a line");
        if failed.is_none() {
            *failed = self.write(line).err();
            return failed.is_none();
        }
        true
    }

    /// Writes everything added so far to the disk.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn ensure_whole(&self) -> Result<(), Unusable> {
        let mut failed = self.failed.lock().expect("no thread panics while it writes a line");
        failed.take().map_or(Ok(()), |why| Err(self.io(why)))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut file = self.lock();
        let before = file.metadata()?.len();
        let written = file.write_all(format!("{line}\n").as_bytes());
        if written.is_err() {
            // Half a line would spoil the next one.
            file.set_len(before)?;
        }
        written
    }

    fn io(&self, why: io::Error) -> Unusable {
        Unusable::Io { path: self.path.clone(), why }
    }

    fn lock(&self) -> MutexGuard<'_, File> {
        self.file.lock().expect("no thread panics while it writes a line")
    }
}

impl Head<'_> {
    fn line(&self) -> String {
        let Self { command, subject, form } = self;
        format!("# trackway {} {command} {subject} {form}", env!("CARGO_PKG_VERSION"))
    }

    /// Whether a first line is of the same command and subject, in whatever form and version.
    fn is_of(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').take(5).collect();
        matches!(words[..], ["#", "trackway", _, command, subject] if command == self.command && subject == self.subject)
    }
}

/// A build of the program in a few digits: those of its file.
///
/// # Errors
/// When the file cannot be read.
pub fn build_of(program: &Path) -> io::Result<String> {
    let mut file = File::open(program)?;
    let mut hasher = SipHasher13::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            len => hasher.write(&buffer[..len]),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder that is gone afterwards.
    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let name = format!("trackway-journal-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const HEAD: Head<'_> = Head { command: "tune", subject: "f", form: "c d" };

    fn lines(folder: &Folder, head: Head<'_>) -> Kept {
        Journal::open(&folder.0, head).unwrap().1
    }

    #[test]
    fn what_was_being_written_is_cut_off() {
        let folder = Folder::new("cut");
        let (journal, kept) = Journal::open(&folder.0, HEAD).unwrap();
        assert_eq!(kept, Kept::default());
        assert!(journal.add("7\ta = 1\t0.1"));
        drop(journal);
        let path = folder.0.join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}9\ta = 1\t0.3 1")).unwrap();

        let (journal, kept) = Journal::open(&folder.0, HEAD).unwrap();
        assert!(journal.add("8\ta = 1\t0.2"));
        drop(journal);

        assert_eq!(kept.lines, ["7\ta = 1\t0.1"]);
        assert_eq!(lines(&folder, HEAD).lines, ["7\ta = 1\t0.1", "8\ta = 1\t0.2"]);
    }

    /// A file that takes no more, as on a full disk: it is open for reading alone.
    #[test]
    fn runs_go_on_that_cannot_be_kept_and_the_file_is_blamed_once() {
        let folder = Folder::new("full");
        let (mut journal, _) = Journal::open(&folder.0, HEAD).unwrap();
        journal.file = Mutex::new(File::open(&journal.path).unwrap());

        assert_eq!([journal.add("7"), journal.add("8")], [false, true]);

        let said = journal.ensure_whole().unwrap_err().to_string();
        assert!(said.starts_with("cannot use ") && said.contains(NAME), "{said}");
    }

    #[test]
    fn one_folder_is_for_one_at_a_time() {
        let folder = Folder::new("busy");
        let (journal, _) = Journal::open(&folder.0, HEAD).unwrap();

        let refused = Journal::open(&folder.0, HEAD).unwrap_err();

        assert!(matches!(refused, Unusable::Busy(_)), "{refused}");
        assert!(journal.add("7") && journal.ensure_whole().is_ok());
        drop(journal);
        assert_eq!(lines(&folder, HEAD).lines, ["7"]);
    }

    #[test]
    fn runs_of_something_else_are_refused_and_those_of_another_build_forgotten() {
        let folder = Folder::new("else");
        assert!(Journal::open(&folder.0, HEAD).unwrap().0.add("7"));

        let other = |head| matches!(Journal::open(&folder.0, head), Err(Unusable::Other(_)));
        assert!(other(Head { subject: "g", ..HEAD }) && other(Head { command: "run", ..HEAD }));
        let build = Head { form: "c d e", ..HEAD };
        assert_eq!(lines(&folder, build), Kept { lines: Vec::new(), was_of_another_build: true });
        assert_eq!(lines(&folder, build), Kept::default());
        let nowhere = Journal::open(Path::new("/dev/null/x"), HEAD);
        assert!(matches!(nowhere, Err(Unusable::Io { .. })));
    }
}
