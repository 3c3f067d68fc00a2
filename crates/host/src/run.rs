//! Names the folders below `/run` where gateways keep their sockets, locks, and notes that outlive a crash.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket, sockopt};
use nix::unistd::{AccessFlags, Uid, access};

/// The folder of the locks that root's gateways hold, beside the folders of gateways.
pub const LOCKS: &str = "lock";
/// The folder with a folder for each network namespace's gateway: sockets, and notes that outlive a crash.
pub const RUN: &str = "/run/trackway";
/// Names, or beginnings of names, of notes for the next gateway: see `settings`, `companions`, `numbers` and `left`.
pub const NOTES: [&str; 4] = ["settings", "hfpep-", "numbers", "metrics"];
/// Octets of a note at most.
const LONGEST_NOTE: u64 = 65_536;
/// The name of a gateway's control socket in its folder.
pub const SOCKET: &str = "control.sock";

nix::getsockopt_impl!(
    NamespaceCookie,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64,
    sockopt::GetStruct<u64>
);

/// The option that tells the cookie of a socket's network namespace.
#[derive(Clone, Copy, Debug)]
struct NamespaceCookie;

/// The folder of this network namespace's gateway, in a place that this user may write to.
#[must_use]
pub fn folder() -> PathBuf {
    base().join(namespace().to_string())
}

/// The file behind a name in the folder of all gateways, in the folder of this network namespace's gateway. The name
/// itself may lead to a gateway of another namespace, which was first. `None` for any other path.
#[must_use]
pub fn own_file(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().filter(|_| path.parent() == Some(Path::new(RUN)))?;
    Some(Path::new(RUN).join(namespace().to_string()).join(name))
}

/// The folder above the folders of this user's gateways. A process keeps the first answer, even if its user changes or
/// folders are removed.
#[must_use]
pub fn base() -> PathBuf {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(find_base).clone()
}

fn find_base() -> PathBuf {
    let user = Uid::effective();
    let usual = Path::new(RUN);
    let may_write = |folder: &Path| access(folder, AccessFlags::W_OK).is_ok();
    // A service manager has made the folder for this user, and makes it so again before the next start: if a gateway
    // that root starts has taken the folder since, a failed start is better than a socket that nobody looks for.
    let is_given = env::var_os("RUNTIME_DIRECTORY").is_some_and(|given| given == RUN);
    let has_own = || may_write(&usual.join(namespace().to_string()));
    if user.is_root() || is_given || may_write(usual) || has_own() {
        return usual.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("trackway"),
        _ => env::temp_dir().join(format!("trackway-{user}")),
    }
}

/// Hears when folders, or names in them, come or go.
#[derive(Debug)]
pub struct FolderWatch {
    events: Inotify,
    folders: Vec<PathBuf>,
}

impl FolderWatch {
    /// Watches the folders of gateways.
    ///
    /// # Errors
    /// When this user may have no more watches, or no descriptors are left.
    pub fn open() -> io::Result<Self> {
        let base = base();
        let mut folders: Vec<PathBuf> = base.parent().map(Path::to_owned).into_iter().collect();
        folders.extend([base.join(LOCKS), folder(), base]);
        Self::open_for(folders)
    }

    /// Hears of the folder of a file, and of the folder's own.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_beside(file: &Path) -> io::Result<Self> {
        Self::open_for(file.ancestors().skip(1).take(3).map(Path::to_owned).collect())
    }

    fn open_for(folders: Vec<PathBuf>) -> io::Result<Self> {
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let watch = Self { events, folders };
        watch.follow();
        Ok(watch)
    }

    /// Skips all waiting events, and watches the folders that exist now.
    pub fn read(&self) {
        while self.events.read_events().is_ok_and(|events| !events.is_empty()) {}
        self.follow();
    }

    fn follow(&self) {
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        for folder in &self.folders {
            // The watch of the parent reports a missing folder when the folder is made.
            let _ = self.events.add_watch(folder, what);
        }
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// The number of the network namespace that we are in.
#[must_use]
pub fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}

/// The first line of notes: names this network namespace as no other was or will be. The number of a namespace, and
/// with it the folder, is used again after its end, and a folder may outlive a boot.
pub(crate) fn heading() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let (kind, flags) = (SockType::Datagram, SockFlag::SOCK_CLOEXEC);
    let cookie = socket(AddressFamily::Unix, kind, flags, None)
        .and_then(|socket| getsockopt(&socket, NamespaceCookie));
    // Linux before 5.14 knows of no cookies.
    format!("namespace {} {}\n", boot.trim(), cookie.unwrap_or_default())
}

/// The lines of notes behind their heading; `None` if they belong to another namespace.
pub(crate) fn of_this_namespace(notes: &str) -> Option<&str> {
    notes.strip_prefix(&heading())
}

/// Writes a note for the next gateway of this network namespace, or for `trackway down`. Never follows a link, nor
/// writes to an existing file: whoever owns the folder may have planted one.
pub(crate) fn write_note(name: &str, text: &[u8]) -> io::Result<()> {
    write_note_at(&folder().join(name), text)
}

fn write_note_at(path: &Path, text: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&[heading().as_bytes(), text].concat())
}

/// Reads a note of this network namespace, and leaves its heading out.
pub(crate) fn read_note(name: &str) -> Option<String> {
    read_note_at(&folder().join(name))
}

fn read_note_at(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = open_own(path, false).ok()?;
    file.take(LONGEST_NOTE).read_to_string(&mut text).ok()?;
    of_this_namespace(&text).map(str::to_owned)
}

/// Removes a note.
pub(crate) fn remove_note(name: &str) {
    let _ = fs::remove_file(folder().join(name));
}

/// Whether a gateway runs in this network namespace.
#[must_use]
pub fn is_running() -> bool {
    let usual = Path::new(RUN).join(LOCKS).join(namespace().to_string());
    let beside = candidates().into_iter().map(|socket| socket.with_added_extension("lock"));
    beside.chain([usual]).any(|path| {
        let locked = open_own(&path, false).map(try_lock);
        matches!(locked, Ok(Err((_, Errno::EWOULDBLOCK))))
    })
}

/// Locks a file for this process alone. Waits up to half a second, because programs that look for a running gateway
/// hold its lock for a moment, and so do gateways while clearing leftovers away.
///
/// # Errors
/// `EWOULDBLOCK` when a gateway holds the lock, or as flock(2) says.
pub fn try_lock(mut file: File) -> Result<Flock<File>, (File, Errno)> {
    const STEP: Duration = Duration::from_millis(5);
    const AT_MOST: Duration = Duration::from_millis(500);
    let began = Instant::now();
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((held, Errno::EWOULDBLOCK)) if began.elapsed() < AT_MOST => file = held,
            outcome => return outcome,
        }
        thread::sleep(STEP);
    }
}

/// Possible places of this network namespace's control socket, for programs of this user, the likeliest first.
#[must_use]
pub fn candidates() -> Vec<PathBuf> {
    let own = base();
    // Anybody can make a folder in /tmp with the name that ours would have.
    let mut bases = Vec::from_iter((own == Path::new(RUN) || is_ours(&own)).then_some(own));
    if !bases.iter().any(|base| base == Path::new(RUN)) {
        bases.push(RUN.into());
    }
    bases.into_iter().map(|base| base.join(namespace().to_string()).join(SOCKET)).collect()
}

/// Whether a folder is this user's, and nobody else's.
#[must_use]
pub fn is_ours(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|is| {
        is.is_dir() && is.uid() == Uid::effective().as_raw() && is.mode() & 0o022 == 0
    })
}

/// Opens the file of a lock or of notes, which somebody else may have planted; with `creates`, makes a missing file.
///
/// # Errors
/// When the file cannot be opened or made.
pub fn open_own(path: &Path, creates: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.open(path) {
        // The kernel may refuse to open another user's file in a shared folder with the flag to create.
        Err(error) if creates && error.kind() == ErrorKind::NotFound => {
            options.write(true).create(true).truncate(false).mode(0o600).open(path)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_another_namespace_or_of_an_earlier_boot_are_not_taken_for_ours() {
        let heading = heading();
        let [name, boot, cookie] = heading.trim_end().split(' ').collect::<Vec<_>>()[..] else {
            panic!("{heading}");
        };

        assert_eq!(of_this_namespace(&format!("{heading}a\nb\n")), Some("a\nb\n"));
        assert!(!boot.is_empty() && cookie != "0", "{heading}");
        for other in [
            format!("{name} {boot} 7{cookie}\na\n"),
            format!("{name} 0{boot} {cookie}\na\n"),
            "a\nb\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(of_this_namespace(&other), None, "{other}");
        }
    }

    #[test]
    fn a_note_is_no_planted_link_and_no_pipe() {
        let base = env::temp_dir().join(format!("trackway-notes-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let [note, other] = ["note", "other"].map(|name| base.join(name));
        let text = format!("{}secret", heading());

        fs::write(&other, &text).unwrap();
        std::os::unix::fs::symlink(&other, &note).unwrap();
        let linked = read_note_at(&note);
        let written = write_note_at(&note, b"ours");
        let (kept, read) = (fs::read_to_string(&other).unwrap(), read_note_at(&note));
        fs::remove_file(&note).unwrap();
        nix::unistd::mkfifo(&note, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Somebody has it open for writing, and says nothing.
        let writer = File::options().read(true).write(true).open(&note).unwrap();
        let piped = read_note_at(&note);
        drop(writer);
        fs::create_dir(base.join("folder")).unwrap();
        let refused = write_note_at(&base.join("folder"), b"ours").is_err();
        fs::remove_dir_all(&base).unwrap();

        assert_eq!((linked, piped), (None, None));
        assert!(written.is_ok() && refused);
        assert_eq!((kept, read), (text, Some("ours".to_owned())));
    }

    #[test]
    fn a_lock_is_waited_for_that_another_holds_for_a_moment_and_not_one_of_a_gateway() {
        let path = env::temp_dir().join(format!("trackway-lock-{}", std::process::id()));
        let open = || open_own(&path, true).unwrap();
        let held = try_lock(open()).unwrap();

        let refused = try_lock(open()).map(drop).map_err(|(_, why)| why);
        let waits = thread::scope(|scope| {
            let waits = scope.spawn(|| try_lock(open()).map(drop).map_err(|(_, why)| why));
            thread::sleep(Duration::from_millis(20));
            drop(held);
            waits.join().unwrap()
        });
        fs::remove_file(&path).unwrap();

        assert_eq!((refused, waits), (Err(Errno::EWOULDBLOCK), Ok(())));
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_ours() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = env::temp_dir().join(format!("trackway-place-own-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let link = folder.with_extension("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();

        let ours = [0o700, 0o755, 0o775, 0o1777].map(|mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            is_ours(&folder)
        });
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let linked = is_ours(&link);
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!((ours, linked), ([true, true, false, false], false));
    }
}
