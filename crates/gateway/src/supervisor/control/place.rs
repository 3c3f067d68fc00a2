//! Places the control socket: a single socket for each network namespace, so that no second gateway runs there.
//!
//! ```text
//!   /run/trackway                          root's: nobody else makes or removes names in it
//!   ├ 4026531840                           the folder of a network namespace's gateway, its user's
//!   │ └ control.sock                       for that user and root alone
//!   └ lock/4026531840                      locked as long as the namespace's gateway lives, however it ends
//! ```
//! Only root opens files in `lock`, so no user can hold a lock of a namespace in which it runs no gateway. A gateway
//! started by another user, or with its socket elsewhere, locks `control.sock.lock` beside its socket instead.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use caps::Capability;
use host::run::{
    FolderWatch, LOCKS, RUN, SOCKET, base, candidates, folder, is_ours, is_running, namespace,
    open_own, try_lock,
};
use host::timewait::TimeWait;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid};
use tracing::{debug, warn};

use super::far;
use crate::linux::account::Account;
use crate::linux::belongings::{give_socket, link_socket, own_folder, own_run, regroup_socket};
use crate::linux::{rights, seccomp};

/// Who may use a control socket besides root.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access<'a> {
    /// The gateway's user, if it is not who makes the socket.
    pub account: Option<&'a Account>,
    /// The group of the socket, whose members may ask.
    pub group: Option<Gid>,
}

/// This gateway's control socket. Dropping the `Place` removes the socket's name.
#[derive(Debug)]
pub struct Place {
    listener: UnixListener,
    socket: PathBuf,
    /// Device and number of the socket's name.
    is: (u64, u64),
    /// The group whose members may ask.
    group: Option<Gid>,
    /// Last field, so dropped last: others may use the socket's name as soon as the locks are gone.
    locks: Vec<Lock>,
}

/// A file locked by this process alone. Dropping it removes the file's name.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: Flock<File>,
}

impl Place {
    /// Where callers arrive.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Takes the place of this network namespace's gateway, also after a dead one, and opens the socket
    /// there or at another path.
    ///
    /// # Errors
    /// When a gateway lives, or nothing can be made there.
    pub fn open(at: Option<&Path>, access: Access<'_>) -> anyhow::Result<Self> {
        let account = access.account;
        let usual = folder().join(SOCKET);
        let made = Self::take(&usual, account);
        let Some(at) = at else { return Self::bind(&usual, vec![made?], access) };
        let mut locks = Vec::new();
        match made {
            Ok(lock) => locks.push(lock),
            Err(why) if why.is::<Taken>() => return Err(why),
            // Whoever names another path may be unable to write here.
            Err(why) => {
                let why = format!("{why:#}");
                warn!(why, "another gateway in this network namespace would not be noticed");
            }
        }
        if at != usual {
            locks.push(Lock::beside(at, account)?);
        }
        Self::bind(at, locks, access)
    }

    /// Takes the place of this network namespace's gateway, and makes its folder.
    ///
    /// # Errors
    /// When a gateway lives, or the folder cannot be made.
    fn take(usual: &Path, account: Option<&Account>) -> anyhow::Result<Lock> {
        let said = |folder: &Path| format!("cannot make {}", folder.display());
        let is_root = Uid::effective().is_root();
        let (base, own) = (base(), folder());
        let lock = if is_root {
            own_run().with_context(|| said(&base))?;
            Lock::of_namespace(&base)?
        } else {
            if base != Path::new(RUN) {
                make_own(&base, 0o700).with_context(|| said(&base))?;
            }
            make_own(&own, 0o755).with_context(|| {
                let taken = "if a gateway that root has just started took the folder above, starting again helps";
                format!("{} ({taken})", said(&own))
            })?;
            Lock::beside(usual, None)?
        };
        sweep(&base);
        // A gateway started by another user has a lock of another kind.
        if let Some(path) = candidates().iter().find(|path| far::is_alive(path)) {
            return Err(Taken(path.clone()).into());
        }
        if is_root {
            own_folder(account).with_context(|| said(&own))?;
        }
        Ok(lock)
    }

    /// Opens a socket at a path that is locked.
    fn bind(at: &Path, locks: Vec<Lock>, access: Access<'_>) -> anyhow::Result<Self> {
        let said = || format!("cannot open the control socket {}", at.display());
        if let Ok(is) = fs::symlink_metadata(at) {
            ensure!(is_socket(&is), "{}: there is a file that is no socket; remove it", said());
            fs::remove_file(at).with_context(said)?;
        }
        // No other thread runs yet that makes files.
        let masked = if access.group.is_some() { 0o117 } else { 0o177 };
        let before = umask(Mode::from_bits_truncate(masked));
        let listener = UnixListener::bind(at);
        umask(before);
        let listener = listener.with_context(said)?;
        listener.set_nonblocking(true)?;
        give_socket(at, access.account, access.group).with_context(said)?;
        let is = identity(at).with_context(said)?;
        let group = access.group;
        Ok(Self { listener, socket: at.to_owned(), is, group, locks })
    }

    /// Whether the name of the socket still leads to it.
    pub fn is_there(&self) -> bool {
        identity(&self.socket).is_ok_and(|is| is == self.is)
    }

    /// Opens the socket again after others have removed its name, and takes removed locks again.
    ///
    /// # Errors
    /// When the folder is missing and this user may not make it, or another gateway has the place by now.
    pub fn restore(&mut self) -> anyhow::Result<()> {
        let said = || format!("cannot open the control socket {} again", self.socket.display());
        if self.socket == folder().join(SOCKET) {
            let (base, own) = (base(), folder());
            if Uid::effective().is_root() {
                own_run().with_context(said)?;
                own_folder(None).with_context(said)?;
            } else {
                if base != Path::new(RUN) {
                    make_own(&base, 0o700).with_context(said)?;
                }
                // Root's own process makes it where only root may.
                make_own(&own, 0o755).with_context(said)?;
            }
        }
        for lock in &mut self.locks {
            lock.restore()?;
        }
        match fs::symlink_metadata(&self.socket) {
            Ok(is) if is_socket(&is) && !far::is_alive(&self.socket) => {
                fs::remove_file(&self.socket).with_context(said)?;
            }
            Ok(_) => bail!("{}: there is another file", said()),
            Err(_) => {}
        }
        // Only we ourselves can connect before the mode is set: others may not write to it.
        let listener = UnixListener::bind(&self.socket).with_context(said)?;
        let mode = if self.group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&self.socket, Permissions::from_mode(mode)).with_context(said)?;
        if Uid::effective().is_root() {
            give_socket(&self.socket, None, self.group).with_context(said)?;
        }
        listener.set_nonblocking(true)?;
        self.is = identity(&self.socket).with_context(said)?;
        self.listener = listener;
        Ok(())
    }

    /// A place independent of the network namespace.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(test)]
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        Self::bind(path, vec![Lock::beside(path, None)?], Access::default())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // While it is locked nobody else has made another.
        if self.is_there() {
            let _ = fs::remove_file(&self.socket);
        }
    }
}

/// Keeps the folder and the lock of a gateway that has become this user, and may no longer make them itself, until
/// standard input ends, however the gateway ends. Then the kernel forgets the gateway's connections that ended in peace.
/// This process is root's, may give files away and change the network, and hears nothing from anybody.
///
/// `socket` is the name of the gateway's control socket in the current folder, if the socket is elsewhere than usual. The
/// gateway's user may have no right to remove it there. `link` is a path in the folder of all gateways that leads to a
/// socket of this name in the gateway's own.
///
/// # Errors
/// When rights cannot be given up, or the folders cannot be watched.
pub fn keep_folder(
    uid: u32,
    gid: u32,
    group: Option<u32>,
    socket: Option<&Path>,
    link: Option<&Path>,
) -> anyhow::Result<()> {
    let _ = prctl::set_name(c"trackway-folder");
    // Only the gateway's user may open the lock, and root as long as it has all rights.
    let elsewhere = socket.and_then(|socket| {
        let lock = lock_of(socket);
        open_own(&lock, false).ok().map(|file| (socket, lock, file))
    });
    rights::settle(None, &[Capability::CAP_CHOWN, Capability::CAP_NET_ADMIN])?;
    // The filter lets it open no sockets.
    let past = TimeWait::open();
    // Even without a filter the process can do no more than its rights allow.
    let _ = seccomp::confine_folder_keeper();
    let account = Account::of(uid, gid);
    let watch = FolderWatch::open().context("cannot watch the folders of gateways")?;
    let input = io::stdin();
    let mut lock: Option<Lock> = None;
    loop {
        let mut fds = [input.as_fd(), watch.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            polled => polled.context("waiting in the kernel")?,
        };
        if fds[0].any() != Some(false) {
            if let Some((socket, lock, file)) = elsewhere {
                if_unlocked(file, &lock, || {
                    let _ = fs::remove_file(socket);
                    let _ = fs::remove_file(&lock);
                });
            }
            // The gateway says what a kernel cannot do.
            let _ = past.and_then(|mut past| past.forget());
            return Ok(());
        }
        watch.read();
        if own_run().is_err() {
            continue;
        }
        if !lock.as_ref().is_some_and(|lock| is_still(&lock.file, &lock.path)) {
            // The gateway holds its own lock until somebody removes the file.
            lock = Lock::of_namespace(&base()).ok();
        }
        if !folder().is_dir() {
            // Whoever misses the folder says so: the gateway.
            let _ = own_folder(Some(&account));
        }
        if let Some(link) = link.filter(|link| fs::symlink_metadata(link).is_err()) {
            let _ = link_socket(link);
        }
        if let Some(group) = group {
            // The gateway is not in the group, and cannot give the socket that it has made again to it.
            let _ = regroup_socket(&folder().join(SOCKET), &account, Gid::from_raw(group));
        }
    }
}

impl Lock {
    /// Locks the file of this network namespace, which only root can open.
    ///
    /// # Errors
    /// [`Taken`], or when it cannot be made.
    fn of_namespace(base: &Path) -> anyhow::Result<Self> {
        let locks = base.join(LOCKS);
        make_own(&locks, 0o700).with_context(|| format!("cannot make {}", locks.display()))?;
        Self::take(locks.join(namespace().to_string()), None)
    }

    /// Locks the file that belongs to a socket, and gives it to a user.
    ///
    /// # Errors
    /// [`Taken`], or when it cannot be made.
    fn beside(socket: &Path, account: Option<&Account>) -> anyhow::Result<Self> {
        Self::take(lock_of(socket), account)
    }

    fn take(path: PathBuf, account: Option<&Account>) -> anyhow::Result<Self> {
        let said = || format!("cannot lock {}", path.display());
        let file = loop {
            let file = open_own(&path, true).with_context(said)?;
            // What is given away below is the gateway's, and not what a name was made to lead to.
            let is = file.metadata().with_context(said)?;
            ensure!(is.is_file() && is.nlink() <= 1, "{}: it is no file of a gateway's", said());
            let locked = match try_lock(file) {
                Ok(locked) => locked,
                Err((_, Errno::EWOULDBLOCK)) => return Err(Taken(path).into()),
                Err((_, error)) => return Err(error).with_context(said),
            };
            // The previous holder may have removed the file's name since we opened the file.
            if is_still(&locked, &path) {
                break locked;
            }
        };
        if let Some(account) = account {
            let (uid, gid) = (account.uid.as_raw(), account.gid.as_raw());
            fchown(&*file, Some(uid), Some(gid)).with_context(said)?;
        }
        Ok(Self { path, file })
    }

    /// Takes the lock again if others have removed the file.
    ///
    /// # Errors
    /// [`Taken`]. A lock that this user may not open is root's, and root's own process takes it.
    fn restore(&mut self) -> anyhow::Result<()> {
        if is_still(&self.file, &self.path) {
            return Ok(());
        }
        if let Some(folder) = self.path.parent().filter(|it| it.ends_with(LOCKS))
            && Uid::effective().is_root()
        {
            make_own(folder, 0o700)?;
        }
        match Self::take(self.path.clone(), None) {
            Ok(lock) => *self = lock,
            Err(why) if why.is::<Taken>() => return Err(why),
            Err(why) => {
                debug!(why = %format!("{why:#}"), "a lock of root's is not taken again by us");
            }
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked, so that nobody else has made another.
        if is_still(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A gateway lives.
#[derive(Debug, thiserror::Error)]
#[error(
    "a gateway runs in this network namespace already, or has the same control socket: `trackway \
     status` shows it, with the --control of its start ({} is locked)",
    .0.display()
)]
struct Taken(PathBuf);

/// Removes what crashed gateways have left in this network namespace, and returns a line for each change.
///
/// # Errors
/// When a gateway runs there, the kernel does not say what there is, or the right to change it is missing.
pub fn remove_left() -> anyhow::Result<Vec<String>> {
    if is_running() {
        bail!(
            "a gateway runs in this network namespace: end `trackway run`, which removes all that it has made"
        );
    }
    host::remove_left()
}

/// Makes a folder that nobody else may change, or checks an existing folder for this.
fn make_own(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        outcome => outcome?,
    }
    if is_ours(folder) {
        Ok(())
    } else {
        Err(io::Error::other("it is there, and others may change it"))
    }
}

fn is_still(locked: &Flock<File>, path: &Path) -> bool {
    let (Ok(is), Ok(named)) = (locked.metadata(), fs::symlink_metadata(path)) else { return false };
    (is.dev(), is.ino()) == (named.dev(), named.ino())
}

/// Removes the sockets and locks of former gateways, even in network namespaces that may never come again, and the
/// folders without other files.
fn sweep(base: &Path) {
    let names = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in names(&base.join(LOCKS)) {
        remove_unlocked(&entry.path(), &base.join(entry.file_name()));
    }
    for entry in names(base) {
        let folder = entry.path();
        remove_unlocked(&lock_of(&folder.join(SOCKET)), &folder);
        remove_empty(&folder, &base.join(LOCKS).join(entry.file_name()));
    }
}

/// Removes the empty folder of root's former gateway, if the lock is gone, too.
fn remove_empty(folder: &Path, lock: &Path) {
    let is_empty = || fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none());
    if folder.ends_with(LOCKS) || lock.exists() || !is_empty() {
        return;
    }
    // A gateway that starts now waits for the lock, and then makes its folder.
    if let Ok(_held) = Lock::take(lock.to_owned(), None) {
        let _ = fs::remove_dir(folder);
    }
}

/// Removes a lock that no gateway holds, and the socket in its folder.
fn remove_unlocked(lock: &Path, folder: &Path) {
    let Ok(file) = open_own(lock, false) else { return };
    if_unlocked(file, lock, || {
        let _ = fs::remove_file(folder.join(SOCKET));
        // While the lock is held no other gateway needs the folder. A folder with notes in it stays.
        let _ = fs::remove_dir(folder);
        let _ = fs::remove_file(lock);
        let _ = fs::remove_dir(folder);
    });
}

/// Acts while it holds the file of a lock, if no gateway holds it and it is still at this path.
fn if_unlocked(file: File, lock: &Path, act: impl FnOnce()) {
    if let Ok(locked) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        && is_still(&locked, lock)
    {
        act();
    }
}

/// The lock of a gateway with its socket at this path, unless the lock is root's.
fn lock_of(socket: &Path) -> PathBuf {
    socket.with_added_extension("lock")
}

/// The device and inode number of a path.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|is| (is.dev(), is.ino()))
}

fn is_socket(of: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    of.file_type().is_socket()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_place_is_taken_from_the_dead_alone_and_left_clean() {
        let base = env::temp_dir().join(format!("trackway-place-{}", std::process::id()));
        let folders = ["7", "8", "9", LOCKS].map(|name| base.join(name));
        folders.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let at = folders[0].join(SOCKET);
        let open = || Place::at(&at);

        let place = open().unwrap();
        let mode = fs::metadata(&at).unwrap().mode() & 0o777;
        let second = open().unwrap_err().to_string();
        sweep(&base);
        let is_left = UnixStream::connect(&at).is_ok();
        drop(place);
        let names = fs::read_dir(&folders[0]).unwrap().count();
        // Files left by a crash: of a user's gateway, and of root's gateway.
        for folder in &folders[..3] {
            fs::create_dir_all(folder).unwrap();
            drop(UnixListener::bind(folder.join(SOCKET)).unwrap());
        }
        for name in ["8/control.sock.lock", "8/settings", "lock/9", "another.lock"] {
            File::create(base.join(name)).unwrap();
        }
        fs::create_dir(base.join("10")).unwrap();
        let again = open().is_ok();
        sweep(&base);
        let is_there =
            ["7", "8/control.sock", "8/control.sock.lock", "9", "lock/9", "10", "lock/10"]
                .map(|name| base.join(name).exists());
        let is_kept = ["8/settings", "another.lock"].map(|name| base.join(name).exists());
        fs::remove_dir_all(&base).unwrap();

        assert_eq!(mode, 0o600);
        assert!(second.contains("a gateway runs in this network namespace already"), "{second}");
        assert!(is_left && again);
        assert_eq!(names, 0);
        assert_eq!(is_there, [false; 7]);
        assert_eq!(is_kept, [true, true]);
    }

    #[test]
    fn a_place_whose_folder_was_removed_is_taken_again() {
        let folder = env::temp_dir().join(format!("trackway-restore-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = folder.join(SOCKET);
        let mut place = Place::at(&at).unwrap();
        let before = place.is_there();

        fs::remove_dir_all(&folder).unwrap();
        let removed = (place.is_there(), place.restore().is_ok());
        fs::create_dir_all(&folder).unwrap();
        place.restore().unwrap();
        let mode = fs::metadata(&at).unwrap().mode() & 0o777;
        let answers = UnixStream::connect(&at).is_ok() && place.is_there();
        let second = Place::at(&at).map(drop).map_err(|why| why.is::<Taken>());
        drop(place);
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!((before, removed), (true, (false, false)));
        assert_eq!((mode, answers, second, left), (0o600, true, Err(true), 0));
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_taken() {
        let folder = env::temp_dir().join(format!("trackway-own-{}", std::process::id()));
        let made = make_own(&folder, 0o700).and_then(|()| fs::metadata(&folder)).unwrap().mode();
        let outcomes = [0o700, 0o755, 0o720, 0o702].map(|mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            make_own(&folder, 0o700).is_ok()
        });
        fs::remove_dir(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        let file = make_own(&folder, 0o700).is_ok();
        fs::remove_file(&folder).unwrap();

        assert_eq!(made & 0o777, 0o700);
        assert_eq!((outcomes, file), ([true, true, false, false], false));
    }

    #[test]
    fn a_lock_is_never_another_file_that_has_a_further_name() {
        let folder = env::temp_dir().join(format!("trackway-place-link-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("another"), "").unwrap();
        fs::hard_link(folder.join("another"), folder.join("control.sock.lock")).unwrap();

        let refused = Place::at(&folder.join("control.sock")).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();

        assert!(refused.contains("it is no file of a gateway's"), "{refused}");
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = env::temp_dir().join(format!("trackway-place-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = folder.join("control.sock");
        fs::write(&at, "something").unwrap();

        let refused = Place::at(&at).unwrap_err().to_string();
        let text = fs::read_to_string(&at).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        assert!(refused.contains("there is a file that is no socket"), "{refused}");
        assert_eq!(text, "something");
    }
}
