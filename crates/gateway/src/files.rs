//! The files of a configuration, which may be for root alone: opened again when we are root no more.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::sys::passing;

/// The process that opens them for us; a process runs one gateway.
static KEEPER: OnceLock<Mutex<Keeper>> = OnceLock::new();

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
            keeper.lock().unwrap_or_else(PoisonError::into_inner).open(path)
        }
        (outcome, _) => outcome,
    }
}

/// Has files that we may not open opened by the process at the other end.
pub(crate) fn ask_at(way: OwnedFd) {
    // There was none before.
    let _ = KEEPER.set(Mutex::new(Keeper { way, asked: 0 }));
}

/// The files that something opens, or tries to.
pub(crate) fn opened_by<T>(something: impl FnOnce() -> T) -> Vec<PathBuf> {
    OPENED.set(Some(Vec::new()));
    something();
    OPENED.take().unwrap_or_default()
}

/// The other end of a process that opens files.
///
/// ```text
///   question: number (4)   path
///   answer:   number (4)   errno (4)   a descriptor beside it if that is 0
/// ```
struct Keeper {
    way: OwnedFd,
    /// The number of the last question.
    asked: u32,
}

/// A number, in the machine's order of octets.
pub(crate) const NUMBER: usize = 4;

impl Keeper {
    /// # Errors
    /// When the file cannot be opened, or not in time.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        self.asked = self.asked.wrapping_add(1);
        let number = self.asked.to_ne_bytes();
        let question = [&number[..], path.as_os_str().as_bytes()].concat();
        passing::send(&self.way, &question, None).map_err(said)?;
        let mut answer = [0; 2 * NUMBER];
        loop {
            let (len, file) = passing::receive(&self.way, &mut answer).map_err(said)?;
            let [n0, n1, n2, n3, why @ ..] = answer;
            match file {
                _ if len == 0 => {
                    return Err(io::Error::other("the process that reads files for us has ended"));
                }
                // To a question that was given up on: of another file.
                _ if [n0, n1, n2, n3] != number => {}
                Some(file) => return Ok(file.into()),
                None => return Err(io::Error::from_raw_os_error(i32::from_ne_bytes(why))),
            }
        }
    }
}

/// What waiting in vain means.
fn said(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        let why = "the process that reads files for us does not get it: is its disk there?";
        return io::Error::new(io::ErrorKind::TimedOut, why);
    }
    error
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
    use nix::sys::time::{TimeVal, TimeValLike as _};

    use super::*;

    #[test]
    fn a_late_answer_is_not_taken_for_that_to_the_next_question() {
        let folder = std::env::temp_dir().join(format!("trackway-late-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["first", "second"].map(|name| folder.join(name));
        paths.iter().for_each(|path| std::fs::write(path, path.to_str().unwrap()).unwrap());
        let flags = SockFlag::SOCK_CLOEXEC;
        let (way, its) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        setsockopt(&way, sockopt::ReceiveTimeout, &TimeVal::milliseconds(10)).unwrap();
        let mut keeper = Keeper { way, asked: 0 };

        let slow = keeper.open(&paths[0]).unwrap_err();
        // Now it answers both.
        for (number, path) in (1_u32..).zip(&paths) {
            let answer = [number.to_ne_bytes(), [0; 4]].concat();
            passing::send(&its, &answer, Some(File::open(path).unwrap().as_fd())).unwrap();
        }
        let mut read = String::new();
        keeper.open(&paths[1]).unwrap().read_to_string(&mut read).unwrap();
        let why = [3_u32.to_ne_bytes(), nix::libc::ENOENT.to_ne_bytes()].concat();
        passing::send(&its, &why, None).unwrap();
        let missing = keeper.open(&paths[0]).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();

        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
        assert_eq!(read, paths[1].to_str().unwrap());
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
