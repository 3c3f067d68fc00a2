//! Opens the files of a configuration, also files for root alone when the gateway is root no more.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::libc;
use nix::unistd::Uid;
use settings::file::{self, is_handed_over};

use crate::sys::passing;
use crate::trust::{self, Owners};

/// The process that opens files for this gateway; a process runs one gateway.
static KEEPER: OnceLock<Mutex<Keeper>> = OnceLock::new();
/// The owners whose files the opening process may open for others.
static TRUSTED: OnceLock<Owners> = OnceLock::new();
/// Files that were opened while we might, until somebody asks for them.
static HELD: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());
/// Octets of the reason why a file was not opened, at most.
pub const LONGEST_REASON: usize = 1_024;

thread_local! {
    /// What was opened, while somebody wants to know.
    static OPENED: RefCell<Option<Vec<PathBuf>>> = const { RefCell::new(None) };
}

/// Opens the configuration, or a file that it names, to be read.
///
/// A process with more rights than its user, root above all, opens only files that nobody but trusted users could have
/// written: otherwise any writer of the file would decide what the process reads and does.
///
/// # Errors
/// When it cannot be opened, or others could have changed it.
pub fn open(path: &Path) -> io::Result<File> {
    OPENED.with_borrow_mut(|opened| opened.as_mut().map(|opened| opened.push(path.to_owned())));
    let opened = match TRUSTED.get() {
        Some(owners) => trust::open(path, owners).map_err(io::Error::from),
        None if Uid::effective().is_root() && !is_handed_over(path) => {
            trust::open(path, &Owners::of_this_process()).map_err(io::Error::from)
        }
        None => file::open(path),
    };
    match (opened, KEEPER.get()) {
        (Err(error), Some(keeper)) if error.kind() == io::ErrorKind::PermissionDenied => {
            if let Some(file) = take_held(path) {
                return Ok(file);
            }
            // Nothing is left half done when a thread panics.
            keeper.lock().unwrap_or_else(PoisonError::into_inner).open(path)
        }
        (outcome, _) => outcome,
    }
}

/// Whether a path can be read again later: a file by its own name can. A descriptor handed over is read once, even a
/// file's: a program that writes the file anew, as editors do, does not change the descriptor's file.
pub fn is_lasting(path: &Path) -> bool {
    !is_handed_over(path) && std::fs::metadata(path).map_or(true, |is| is.is_file())
}

/// Restricts opening, from now on, to files of these users.
pub fn trust(owners: Owners) {
    // A process sets the owners once, at its start.
    let _ = TRUSTED.set(owners);
}

/// Has files that we may not open opened by the process at the other end.
pub fn ask_at(way: OwnedFd) {
    // There was none before.
    let _ = KEEPER.set(Mutex::new(Keeper { way, asked: 0 }));
}

/// Opens files now, once each, for whoever asks for them when we may not open them any more. What is asked for at the
/// start then comes at once, and not when the process that opens files has started.
pub fn hold(paths: impl IntoIterator<Item = PathBuf>) {
    let opened = paths.into_iter().filter_map(|path| Some((open(&path).ok()?, path)));
    let opened = opened.map(|(file, path)| (path, file)).collect();
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = opened;
}

/// Closes the files that nobody has asked for: later ones are opened anew.
pub fn let_go() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn take_held(path: &Path) -> Option<File> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let place = held.iter().position(|(its, _)| its == path)?;
    Some(held.swap_remove(place).1)
}

/// The files that something opens, or tries to.
pub fn opened_by<T>(something: impl FnOnce() -> T) -> Vec<PathBuf> {
    OPENED.set(Some(Vec::new()));
    something();
    OPENED.take().unwrap_or_default()
}

/// The other end of a process that opens files.
///
/// ```text
///   question: number (4)   path
///   answer:   number (4)   reason      a descriptor beside it, or the reason why there is none
/// ```
struct Keeper {
    way: OwnedFd,
    /// The number of the last question.
    asked: u32,
}

/// A number, in the machine's order of octets.
pub const NUMBER: usize = 4;

impl Keeper {
    /// # Errors
    /// When the file cannot be opened, or not in time.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        self.asked = self.asked.wrapping_add(1);
        let number = self.asked.to_ne_bytes();
        let question = [&number[..], path.as_os_str().as_bytes()].concat();
        passing::send(&self.way, &question, None).map_err(said)?;
        let mut answer = [0; NUMBER + LONGEST_REASON];
        loop {
            let (len, file) = passing::receive(&self.way, &mut answer).map_err(said)?;
            match (answer[..len].split_first_chunk::<NUMBER>(), file) {
                (None, _) => return Err(said(io::ErrorKind::BrokenPipe.into())),
                // The answer to an earlier question, whose asker no longer waits.
                (Some((answered, _)), _) if *answered != number => {}
                (Some(_), Some(file)) => return Ok(file.into()),
                (Some((_, reason)), None) => return Err(refused(reason)),
            }
        }
    }
}

/// The reason given by the other process: an errno, or a text for the reader.
fn refused(reason: &[u8]) -> io::Error {
    match reason.split_first_chunk::<NUMBER>() {
        Some((errno, [])) => io::Error::from_raw_os_error(i32::from_ne_bytes(*errno)),
        Some((_, words)) => {
            io::Error::new(io::ErrorKind::PermissionDenied, String::from_utf8_lossy(words))
        }
        None => io::ErrorKind::PermissionDenied.into(),
    }
}

/// The reason for [`refused`], in octets.
pub fn reason(error: &io::Error) -> Vec<u8> {
    let errno = error.raw_os_error();
    let mut octets = errno.unwrap_or(libc::EACCES).to_ne_bytes().to_vec();
    if errno.is_none() {
        octets.extend(error.to_string().bytes().take(LONGEST_REASON - NUMBER));
    }
    octets
}

/// What an error of the way to the other process means.
fn said(error: io::Error) -> io::Error {
    let (kind, why) = match error.kind() {
        io::ErrorKind::WouldBlock => (
            io::ErrorKind::TimedOut,
            "the process that reads files for us does not get it: is its disk there?",
        ),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => (
            io::ErrorKind::BrokenPipe,
            "the process that reads files for us has ended: start the gateway again",
        ),
        _ => return error,
    };
    io::Error::new(kind, why)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
    use nix::sys::time::{TimeVal, TimeValLike as _};

    use super::*;

    #[test]
    fn a_held_file_is_given_once_and_not_after_it_was_let_go() {
        let path = std::env::temp_dir().join(format!("trackway-held-{}", std::process::id()));
        let hold = |text: &str| {
            std::fs::write(&path, text).unwrap();
            super::hold([path.clone()]);
            std::fs::remove_file(&path).unwrap();
        };

        hold("once");
        let taken = take_held(&path).map(|mut file| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(taken.as_deref(), Some("once"));
        assert!(take_held(&path).is_none());
        hold("not asked for");
        let_go();
        assert!(take_held(&path).is_none());
    }

    #[test]
    fn pipes_are_read_if_they_are_handed_over_and_refused_by_name() {
        let folder = std::env::temp_dir().join(format!("trackway-pipe-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let named = folder.join("a.toml");
        nix::unistd::mkfifo(&named, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"hbh.interfaces = [\"wlan0\"]\n").unwrap();
        drop(writer);
        let mut handed_over = String::from("/dev/fd/");
        write!(handed_over, "{}", std::os::fd::AsRawFd::as_raw_fd(&reader)).unwrap();

        let read = |path: &Path| crate::Config::read(path).map_err(|why| why.to_string());
        let (taken, pipe) = (read(Path::new(&handed_over)), read(&named).unwrap_err());
        let [folder_said, device] =
            [&*folder, Path::new("/dev/null")].map(|it| read(it).unwrap_err());
        let is_lasting =
            [&*named, Path::new(&handed_over), Path::new("/etc/passwd")].map(is_lasting);
        std::fs::remove_dir_all(&folder).unwrap();

        assert_eq!(taken.unwrap().hbh.unwrap().interfaces, ["wlan0"]);
        assert!(pipe.contains("a.toml is a named pipe, and no file"), "{pipe}");
        assert!(pipe.contains("/dev/stdin"), "{pipe}");
        assert!(folder_said.contains("is a folder, and no file"), "{folder_said}");
        assert!(device.contains("/dev/null is a device, and no file"), "{device}");
        assert_eq!(is_lasting, [false, false, true]);
    }

    #[test]
    fn who_asks_a_process_that_has_ended_is_told_to_start_the_gateway_again() {
        let (ours, its) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::empty()).unwrap();
        drop(its);

        let why = Keeper { way: ours, asked: 0 }.open(Path::new("/a.toml")).unwrap_err();

        assert!(why.to_string().contains("start the gateway again"), "{why}");
    }

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
            passing::send(&its, &number.to_ne_bytes(), Some(File::open(path).unwrap().as_fd()))
                .unwrap();
        }
        let mut read = String::new();
        keeper.open(&paths[1]).unwrap().read_to_string(&mut read).unwrap();
        let answer = |number: u32, why: &io::Error| {
            passing::send(&its, &[&number.to_ne_bytes()[..], &reason(why)].concat(), None).unwrap();
        };
        answer(3, &io::Error::from_raw_os_error(libc::ENOENT));
        let missing = keeper.open(&paths[0]).unwrap_err();
        answer(4, &io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to user 7"));
        let foreign = keeper.open(&paths[0]).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();

        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
        assert_eq!(read, paths[1].to_str().unwrap());
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(foreign.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(foreign.to_string(), "it belongs to user 7");
    }
}
