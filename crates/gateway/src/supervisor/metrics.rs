//! The file with the counters.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::linux::belongings;

/// A file that is written again and again.
#[derive(Debug)]
pub(super) struct Metrics {
    path: PathBuf,
    /// Opened by who may; for a folder in which we may make no files.
    opened: Option<File>,
}

impl Metrics {
    /// The file of this name; it is made if that can be done now.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: belongings::open_written(path) }
    }

    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Writes it so that a reader sees the old or the new one, never a part; where we may make no files, over
    /// what was there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        match (replace(&self.path, text), &self.opened) {
            (Err(error), Some(file)) if error.kind() == ErrorKind::PermissionDenied => {
                file.write_all_at(text.as_bytes(), 0)?;
                file.set_len(text.len() as u64)
            }
            (outcome, _) => outcome,
        }
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}
