//! Files that are written whole or not at all: under another name first, which becomes theirs when all is written.
//!
//! A full disk, a crash or a signal then leaves what was there before, never half of a file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that this process has begun and not finished, by the names that they have meanwhile.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that appears under its name once it is finished; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// What it is called meanwhile; none for a device or a pipe, which takes what is written at once.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file.
    ///
    /// # Errors
    /// When its folder does not take one.
    pub fn create(path: &Path) -> io::Result<Self> {
        let is_other = fs::metadata(path).is_ok_and(|it| !it.is_file());
        if is_other {
            // A folder is refused here, and a device is written to.
            let file = BufWriter::new(File::options().write(true).open(path)?);
            return Ok(Self { path: path.to_owned(), file, temporary: None });
        }
        // Where the name is a link, the file that it leads to is replaced, and the link stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let mut unfinished = unfinished();
        let file = BufWriter::new(File::create(&temporary)?);
        unfinished.insert(temporary.clone());
        drop(unfinished);
        Ok(Self { path, file, temporary: Some(temporary) })
    }

    /// Gives the file its name, with all that was written on the disk.
    ///
    /// # Errors
    /// When not all could be written: what was there before stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        let mut unfinished = unfinished();
        fs::rename(temporary, &self.path)?;
        unfinished.remove(temporary);
        drop(unfinished);
        self.temporary = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let mut unfinished = unfinished();
            // It may be gone with its folder.
            let _ = fs::remove_file(temporary);
            unfinished.remove(temporary);
        }
    }
}

/// Writes a file whole, or leaves what is there.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(contents.as_ref())?;
    file.finish()
}

/// Removes the files that were begun and not finished, for a program that a signal is about to end. No file is
/// begun or finished afterwards.
pub fn discard_unfinished() {
    let unfinished = unfinished();
    for temporary in &*unfinished {
        let _ = fs::remove_file(temporary);
    }
    // Who writes now waits here until the program has ended.
    std::mem::forget(unfinished);
}

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("trackway-whole-{}-{name}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            fs::create_dir_all(&folder.0).unwrap();
            folder
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was_before() {
        let folder = Folder::new("before");
        let path = folder.0.join("figure.csv");
        write_whole(&path, "before").unwrap();

        let mut half = WholeFile::create(&path).unwrap();
        half.write_all(&[b'x'; 100_000]).unwrap();
        half.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(half);

        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(folder.names(), ["figure.csv"]);
        write_whole(&path, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
    }

    #[test]
    fn a_full_device_is_an_error_and_a_link_stays_one() {
        let full = write_whole(Path::new("/dev/full"), "anything").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);

        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        write_whole(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, "after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
