//! Names the folders below `/run` where gateways keep their sockets, and notes that outlive a crash.

use std::env;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::unistd::{AccessFlags, Uid, access};

/// The folder of the locks that root's gateways hold, beside the folders of gateways.
pub const LOCKS: &str = "lock";
/// The folder with a folder for each network namespace's gateway, where its sockets are, and what outlives a crash.
pub const RUN: &str = "/run/trackway";
/// How the names of files begin that a gateway leaves to the one after it: see `settings` and `companions`.
pub const NOTES: [&str; 3] = ["settings", "hfpep-", "numbers"];
/// The folder of this network namespace's gateway, where this user can have one.
#[must_use]
pub fn folder() -> PathBuf {
    base().join(namespace().to_string())
}

/// Where this user's gateways have their folders. It stays the same for a process, whoever the process becomes and
/// whatever is removed.
#[must_use]
pub fn base() -> PathBuf {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(find_base).clone()
}

fn find_base() -> PathBuf {
    let user = Uid::effective();
    let usual = Path::new(RUN);
    let may_write = |folder: &Path| access(folder, AccessFlags::W_OK).is_ok();
    if user.is_root() || may_write(usual) || may_write(&usual.join(namespace().to_string())) {
        return usual.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("trackway"),
        _ => env::temp_dir().join(format!("trackway-{user}")),
    }
}

/// Hears when folders of gateways, or names in them, come or go.
#[derive(Debug)]
pub struct FolderWatch(Inotify);

impl FolderWatch {
    /// # Errors
    /// When this user has no more of them, or there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        let watch = Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?);
        watch.follow();
        Ok(watch)
    }

    /// Passes over what has come; from now on hears of the folders as they are now.
    pub fn read(&self) {
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {}
        self.follow();
    }

    fn follow(&self) {
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let base = base();
        for folder in [base.parent(), Some(&base), Some(&base.join(LOCKS)), Some(&folder())] {
            // What is missing is heard of when it comes, by its parent.
            let _ = folder.map(|folder| self.0.add_watch(folder, what));
        }
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of the network namespace that we are in.
#[must_use]
pub fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}
