//! Writes the counters into a file for Prometheus.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::linux::belongings;

/// A file that is written again and again.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    /// Opened by who may; for a folder in which we may make no files.
    opened: Option<File>,
}

impl Metrics {
    /// Where the counters go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of this name, created now if possible.
    pub fn new(path: &Path) -> Self {
        host::note_counters(path);
        Self { path: path.to_owned(), opened: belongings::open_written(path) }
    }

    pub fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Replaces the file, so that a reader sees the old or the new text, never a part; where we may make no files,
    /// overwrites the old text.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, text: &str) -> io::Result<()> {
        match (replace(&self.path, text), &self.opened) {
            (Err(error), Some(file)) if error.kind() == ErrorKind::PermissionDenied => {
                file.write_all_at(text.as_bytes(), 0)?;
                file.set_len(text.len() as u64)
            }
            (outcome, _) => outcome,
        }
    }
}

impl Metrics {
    /// Removes the file, or its text where we may not: nobody counts any more.
    pub fn end(&self) {
        host::forget_counters();
        if fs::remove_file(&self.path).is_err()
            && let Some(file) = &self.opened
        {
            let _ = file.set_len(0);
        }
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    // Never write to an existing file: a crash may have left it, or somebody may have made it a link elsewhere.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(&temporary)?.write_all(text.as_bytes())?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_not_written_to() {
        let folder = std::env::temp_dir().join(format!("trackway-metrics-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [path, planted, other] =
            ["trackway.prom", "trackway.prom.new", "other"].map(|name| folder.join(name));
        fs::write(&other, "of somebody").unwrap();
        symlink(&other, &planted).unwrap();
        symlink(&other, &path).unwrap();

        replace(&path, "up 1\n").unwrap();
        replace(&path, "up 2\n").unwrap();
        let texts = [&path, &other].map(|path| fs::read_to_string(path).unwrap());
        let is_left = planted.exists();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(texts, ["up 2\n", "of somebody"]);
        assert!(!is_left);
    }
}
