//! What a search has run so far, on disk: an interrupted one goes on where it was.
//!
//! ```text
//!  # trackway 0.1.0 tune 1f0e9c… c d dmax …       what was run, and what was measured
//!  9182…\tdefaults.tcp.rto.initial = "35s"\t1 12.5 …     seed, setting, measures
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use siphasher::sip::SipHasher13;

use super::measure::{MEASURES, Measured};
use super::subject::Subject;
use crate::scenario::Plan;

/// The file in the folder of results.
pub const NAME: &str = "runs.tsv";

/// A file to which runs are added.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

/// The runs of a journal, by setting and seed.
pub type Known = BTreeMap<(String, u64), Measured>;

/// What a journal is about: a scenario and whose traffic is measured, in a few digits.
#[must_use]
pub fn fingerprint(plan: &Plan, subject: &Subject) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("{plan:?}\n{subject:?}").as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Why a folder is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It has runs of something else.
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
    /// Opens the journal of a folder, which is made if missing, and reads what it has. What was being written when a
    /// search was killed is cut off.
    ///
    /// # Errors
    /// When it is about something else, or cannot be read or written.
    pub fn open(folder: &Path, fingerprint: &str) -> Result<(Self, Known), Unusable> {
        let path = folder.join(NAME);
        let io = |why| Unusable::Io { path: path.clone(), why };
        fs::create_dir_all(folder).map_err(io)?;
        let head = head(fingerprint);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
            Err(why) => return Err(io(why)),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let first = lines.next();
        if first.is_some_and(|first| first != head) {
            return Err(Unusable::Other(folder.to_owned()));
        }
        let known = lines.filter_map(run).collect();
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
        file.set_len(whole as u64).map_err(io)?;
        let journal = Self { path: path.clone(), file: Mutex::new(file) };
        if first.is_none() {
            journal.write(&format!("{head}\n")).map_err(io)?;
        }
        Ok((journal, known))
    }

    /// Forgets all runs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn clear(&self, fingerprint: &str) -> Result<(), Unusable> {
        let io = |why| Unusable::Io { path: self.path.clone(), why };
        self.lock().set_len(0).map_err(io)?;
        self.write(&format!("{}\n", head(fingerprint))).map_err(io)
    }

    /// Adds a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&self, setting: &str, seed: u64, measured: &Measured) -> Result<(), Unusable> {
        let values: Vec<String> = measured.0.iter().map(f64::to_string).collect();
        let line = format!("{seed}\t{setting}\t{}\n", values.join(" "));
        self.write(&line).map_err(|why| Unusable::Io { path: self.path.clone(), why })
    }

    /// Whole lines at once: who is killed leaves at most one that is cut.
    fn write(&self, line: &str) -> io::Result<()> {
        self.lock().write_all(line.as_bytes())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.file.lock().expect("no thread panics while it writes a line")
    }
}

fn head(fingerprint: &str) -> String {
    let measures: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
    let version = env!("CARGO_PKG_VERSION");
    format!("# trackway {version} tune {fingerprint} {}", measures.join(" "))
}

fn run(line: &str) -> Option<((String, u64), Measured)> {
    let mut fields = line.split('\t');
    let (seed, setting, values) = (fields.next()?, fields.next()?, fields.next()?);
    let values: Vec<f64> = values.split(' ').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    Some(((setting.to_owned(), seed.parse().ok()?), Measured(values.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("trackway-journal-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn measured(first: f64) -> Measured {
        let mut measured = Measured::default();
        measured.0[..4].copy_from_slice(&[first, f64::INFINITY, f64::NAN, 1.0 / 3.0]);
        measured
    }

    #[test]
    fn what_was_run_is_known_to_the_last_bit_when_it_goes_on() {
        let folder = Folder::new("goes-on");
        let (journal, known) = Journal::open(&folder.0, "f").unwrap();
        assert!(known.is_empty());
        journal.add("a = 1", 7, &measured(0.1)).unwrap();
        journal.add("a = 1", 8, &measured(0.2)).unwrap();
        drop(journal);
        // Killed in the middle of a line.
        let path = folder.0.join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}9\ta = 1\t0.3 1")).unwrap();

        let (journal, known) = Journal::open(&folder.0, "f").unwrap();
        journal.add("a = 2", 7, &measured(0.4)).unwrap();
        drop(journal);

        let keys: Vec<u64> = known.keys().map(|(_, seed)| *seed).collect();
        assert_eq!(keys, [7, 8]);
        let bits = |it: &Measured| it.0.map(f64::to_bits);
        assert_eq!(bits(&known[&("a = 1".to_owned(), 7)]), bits(&measured(0.1)));
        assert_eq!(Journal::open(&folder.0, "f").unwrap().1.len(), 3);
    }

    #[test]
    fn runs_of_something_else_are_not_mixed_in() {
        let folder = Folder::new("mixed");
        let (journal, _) = Journal::open(&folder.0, "f").unwrap();
        journal.add("a = 1", 7, &measured(0.1)).unwrap();

        assert!(matches!(Journal::open(&folder.0, "g"), Err(Unusable::Other(_))));
        journal.clear("g").unwrap();
        assert_eq!(Journal::open(&folder.0, "g").unwrap().1, Known::new());
        assert!(matches!(Journal::open(Path::new("/dev/null/x"), "f"), Err(Unusable::Io { .. })));
    }
}
