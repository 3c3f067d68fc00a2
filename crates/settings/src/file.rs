//! Opens files to be read, and nothing that lets their readers wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// `O_NONBLOCK` (`asm-generic/fcntl.h`): a named pipe opens without a writer, and is refused then.
const NONBLOCK: i32 = 0o4000;

/// Opens a file, or the descriptor that a name such as `/dev/stdin` stands for.
///
/// # Errors
/// When it cannot be opened, or is a folder, a named pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    if is_handed_over(path) {
        return File::open(path);
    }
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    match what_instead(file.metadata()?.mode()) {
        None => Ok(file),
        Some(what) => Err(io::Error::other(no_file(path, what))),
    }
}

/// Whether a path names a descriptor that whoever started us has opened.
#[must_use]
pub fn is_handed_over(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder))
}

/// Names the kind of object with this mode (inode(7)); `None` for a file.
#[must_use]
pub fn what_instead(mode: u32) -> Option<&'static str> {
    match mode & 0o170_000 {
        0o100_000 => None,
        0o040_000 => Some("a folder"),
        0o010_000 => Some("a named pipe"),
        0o140_000 => Some("a socket"),
        0o120_000 => Some("a link"),
        _ => Some("a device"),
    }
}

/// Formats the refusal of a path that leads to no file.
#[must_use]
pub fn no_file(path: &Path, what: &str) -> String {
    let path = path.display();
    let remedy = match what {
        "a named pipe" => ": `trackway … /dev/stdin < PIPE`, or `<(…)` in its place, hands it over",
        _ => "",
    };
    format!("{path} is {what}, and no file{remedy}")
}
