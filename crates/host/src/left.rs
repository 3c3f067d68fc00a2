//! Removes what a crashed gateway has left in this network namespace.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::libc;

use crate::numbers::Numbers;
use crate::{fence, fib, reconcile, run, settings, timewait};

/// How every file of counters begins.
const COUNTERS: &[u8; 16] = b"# HELP trackway_";

/// Removes routes, rules and tables of nftables, empties the file of counters, restores settings, and returns a line for each change.
///
/// # Errors
/// When a gateway runs, the kernel cannot be asked, or the right to change entries is missing.
pub fn remove_left() -> anyhow::Result<Vec<String>> {
    let lost = lost_settings()?;
    let given = settings::give_back()?;
    let mut removed = reconcile::remove_all()?;
    removed.extend(fence::remove_all()?);
    removed.extend(fib::remove_all().context("cannot ask the kernel")?);
    timewait::forget();
    Numbers::forget();
    let given = given.into_iter().map(|setting| format!("set back: {setting}"));
    let removed = removed.into_iter().map(|entry| format!("removed: {entry}"));
    Ok(given.chain(removed).chain(lost).chain(empty_counters()).collect())
}

/// A line for each setting that a crashed gateway without notes may have left changed, with its likely value before.
/// Without other traces of a gateway in the kernel, no gateway has crashed here.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn lost_settings() -> anyhow::Result<Vec<String>> {
    let is_known = settings::has_notes() || !reconcile::has_left()?;
    Ok(if is_known { Vec::new() } else { settings::doubtful() })
}

/// Notes the file of counters for the cleanup after a crash; without the note, it would tell of a gateway for ever.
pub fn note_counters(path: &Path) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let note = [run::heading().as_bytes(), path.as_os_str().as_bytes()].concat();
    let _ = fs::write(note_of_counters(), note);
}

/// Removes the note.
pub fn forget_counters() {
    let _ = fs::remove_file(note_of_counters());
}

fn note_of_counters() -> PathBuf {
    run::folder().join(run::NOTES[3])
}

/// Empties the file of counters of a crashed gateway, and returns its name.
fn empty_counters() -> Option<String> {
    let note = fs::read_to_string(note_of_counters()).ok()?;
    let path = Path::new(run::of_this_namespace(&note)?);
    let emptied = path.is_absolute().then(|| empty(path));
    forget_counters();
    emptied?.ok().map(|()| format!("emptied: {}", path.display()))
}

/// Empties a file if it has counters of ours: a note of the gateway's user could name any file.
fn empty(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = options.open(path)?;
    let mut begin = [0; COUNTERS.len()];
    file.read_exact(&mut begin)?;
    if begin != *COUNTERS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_counters_is_emptied() {
        let path = std::env::temp_dir().join(format!("trackway-left-{}", std::process::id()));
        let after = |text: &str| {
            fs::write(&path, text).unwrap();
            let is_emptied = empty(&path).is_ok();
            (is_emptied, fs::read_to_string(&path).unwrap())
        };
        let counters = after("# HELP trackway_up Whether it runs.\ntrackway_up 1\n");
        let others = ["# HELP trackway", "root:x:0:0:root:/root:/bin/bash\n"].map(after);
        let link = path.with_extension("link");
        fs::write(&path, "# HELP trackway_up 1").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let linked = empty(&link);
        fs::remove_file(&link).unwrap();
        fs::remove_file(&path).unwrap();

        assert_eq!(counters, (true, String::new()));
        assert!(others.iter().all(|(is_emptied, text)| !is_emptied && !text.is_empty()));
        assert!(linked.is_err());
    }
}
