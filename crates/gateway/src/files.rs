//! The files of a configuration, which may be for root alone: opened again when we are root no more.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::sys::passing;

/// The way to the process that opens them for us; a process runs one gateway.
static KEEPER: OnceLock<Mutex<OwnedFd>> = OnceLock::new();

thread_local! {
    /// What was opened, while somebody wants to know.
    static OPENED: RefCell<Option<Vec<PathBuf>>> = const { RefCell::new(None) };
}

/// Opens a file that the configuration names, or that itself, to be read.
///
/// # Errors
/// When it cannot be.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OPENED.with_borrow_mut(|opened| opened.as_mut().map(|opened| opened.push(path.to_owned())));
    match (File::open(path), KEEPER.get()) {
        (Err(error), Some(keeper)) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Nothing is left half done when a thread panics.
            ask(&keeper.lock().unwrap_or_else(PoisonError::into_inner), path)
        }
        (outcome, _) => outcome,
    }
}

/// Has files that we may not open opened by the process at the other end.
pub(crate) fn ask_at(keeper: OwnedFd) {
    // There was none before.
    let _ = KEEPER.set(Mutex::new(keeper));
}

/// The files that something opens, or tries to.
pub(crate) fn opened_by<T>(something: impl FnOnce() -> T) -> Vec<PathBuf> {
    OPENED.set(Some(Vec::new()));
    something();
    OPENED.take().unwrap_or_default()
}

fn ask(keeper: &OwnedFd, path: &Path) -> io::Result<File> {
    passing::send(keeper, path.as_os_str().as_bytes(), None)?;
    let mut why = [0; 4];
    match passing::receive(keeper, &mut why)? {
        (_, Some(file)) => Ok(file.into()),
        (0, None) => Err(io::Error::other("the process that reads files for us has ended")),
        (_, None) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(why))),
    }
}
