//! Removes what a crashed gateway has left in this network namespace.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstat};

use crate::numbers::Numbers;
use crate::{fence, fib, reconcile, run, settings, timewait};

/// The file with the name of the file of counters.
const NOTE: &str = run::NOTES[3];
/// How every file of counters begins.
const COUNTERS: &[u8; 16] = b"# HELP trackway_";

/// Removes routes, rules and tables of nftables, empties the file of counters, restores settings, and returns a line
/// for each change.
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

/// Notes the file of counters for the cleanup after a crash. Without the note, the file would show the last counters
/// for ever.
pub fn note_counters(path: &Path) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _ = run::write_note(NOTE, path.as_os_str().as_bytes());
}

/// Removes the note.
pub fn forget_counters() {
    run::remove_note(NOTE);
}

/// Empties the file of counters of a crashed gateway, and returns its name.
fn empty_counters() -> Option<String> {
    let note = run::read_note(NOTE)?;
    let path = Path::new(&note);
    let emptied = path.is_absolute().then(|| empty(path));
    forget_counters();
    emptied?.ok().map(|()| format!("emptied: {note}"))
}

/// Empties a file if it has counters of ours: a note of the gateway's user could name any file.
fn empty(path: &Path) -> io::Result<()> {
    // Opening a device for reading may do something already.
    let place = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let place = open(path, place, Mode::empty())?;
    let is = fstat(&place)?;
    if is.st_mode & libc::S_IFMT != libc::S_IFREG || is.st_nlink != 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let its = format!("/proc/self/fd/{}", place.as_raw_fd());
    let mut file = File::options().read(true).write(true).open(its)?;
    let mut begin = [0; COUNTERS.len()];
    file.read_exact(&mut begin)?;
    if begin != *COUNTERS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
