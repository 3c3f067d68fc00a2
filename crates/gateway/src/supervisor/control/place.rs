//! Where the control socket is: one for each network namespace, so that only one gateway runs there.
//!
//! ```text
//!   /run/trackway/control-4026531840.sock       the socket, for its user and root alone
//!   /run/trackway/control-4026531840.sock.lock  is locked as long as its gateway lives, however it ends
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{env, io};

use anyhow::{Context as _, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;

use crate::linux::account::Account;
use crate::linux::belongings::{RUN, own_run};

/// A socket that is ours. Its names go when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: UnixListener,
    socket: PathBuf,
    lock: PathBuf,
    _locked: Flock<File>,
}

impl Place {
    /// Takes a place, in place of a gateway that is dead.
    ///
    /// # Errors
    /// When one lives, or nothing can be made there.
    pub(super) fn open(at: Option<&Path>, account: Option<&Account>) -> anyhow::Result<Self> {
        let socket = match at {
            Some(path) => path.to_owned(),
            None => {
                let folder = folder();
                make(&folder, account)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                sweep(&folder);
                folder.join(name())
            }
        };
        let mut lock = socket.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let locked = self::lock(&lock)?;
        let said = || format!("cannot open the control socket {}", socket.display());
        if let Ok(is) = fs::symlink_metadata(&socket) {
            ensure!(is_socket(&is), "{}: there is a file that is no socket; remove it", said());
            fs::remove_file(&socket).with_context(said)?;
        }
        // No other thread runs yet that makes files.
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(&socket);
        umask(before);
        let listener = listener.with_context(said)?;
        listener.set_nonblocking(true)?;
        if let Some(account) = account {
            for path in [&socket, &lock] {
                lchown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
                    .with_context(said)?;
            }
        }
        Ok(Self { listener, socket, lock, _locked: locked })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // While it is locked nobody else has made another.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Where the sockets of this network namespace may be that this user's programs ask, the likeliest first.
pub(super) fn candidates() -> Vec<PathBuf> {
    let mut folders = vec![folder()];
    if folders[0] != Path::new(RUN) {
        folders.push(RUN.into());
    }
    folders.into_iter().map(|folder| folder.join(name())).collect()
}

/// Where this user's gateways have their sockets.
fn folder() -> PathBuf {
    let user = Uid::effective();
    if user.is_root() || fs::metadata(RUN).is_ok_and(|it| it.uid() == user.as_raw()) {
        return RUN.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("trackway"),
        _ => env::temp_dir().join(format!("trackway-{user}")),
    }
}

/// The name says which network namespace it is of.
fn name() -> String {
    let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino());
    format!("control-{namespace}.sock")
}

fn make(folder: &Path, account: Option<&Account>) -> io::Result<()> {
    if Uid::effective().is_root() { own_run(account) } else { make_own(folder) }
}

/// Makes a folder that nobody else may change, or checks that it is one.
fn make_own(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        outcome => outcome?,
    }
    let is = fs::symlink_metadata(folder)?;
    if is.is_dir() && is.uid() == Uid::effective().as_raw() && is.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::Error::other("it is there, and others may change it"))
    }
}

/// Locks a file, which nobody else has locked.
fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let said = || format!("cannot lock {}", path.display());
    loop {
        let file = open_lock(path, true).with_context(said)?;
        let locked = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => locked,
            Err((_, Errno::EWOULDBLOCK)) => bail!(
                "a gateway runs in this network namespace already: `trackway status` shows it \
                 ({} is locked)",
                path.display()
            ),
            Err((_, error)) => return Err(error).with_context(said),
        };
        // The one that had it may have removed the name since it was opened.
        if is_still(&locked, path) {
            return Ok(locked);
        }
    }
}

fn open_lock(path: &Path, creates: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if creates {
        options.write(true).create(true).truncate(false).mode(0o600);
    }
    options.open(path)
}

fn is_still(locked: &Flock<File>, path: &Path) -> bool {
    let (Ok(is), Ok(named)) = (locked.metadata(), fs::symlink_metadata(path)) else { return false };
    (is.dev(), is.ino()) == (named.dev(), named.ino())
}

/// Removes what gateways have left that were killed, in network namespaces that may never come again.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours =
            path.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"control-"));
        if !is_ours || path.extension().is_none_or(|it| it != "lock") {
            continue;
        }
        let Ok(file) = open_lock(&path, false) else { continue };
        if let Ok(locked) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && is_still(&locked, &path)
        {
            let _ = fs::remove_file(path.with_extension(""));
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_socket(of: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    of.file_type().is_socket()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_place_is_taken_from_the_dead_alone_and_left_clean() {
        let folder = env::temp_dir().join(format!("trackway-place-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = folder.join("control-7.sock");
        let open = || Place::open(Some(&at), None);

        let place = open().unwrap();
        let mode = fs::metadata(&at).unwrap().mode() & 0o777;
        let second = open().unwrap_err().to_string();
        sweep(&folder);
        let is_left = UnixStream::connect(&at).is_ok();
        drop(place);
        let names = fs::read_dir(&folder).unwrap().count();
        // As a crash leaves them.
        for left in ["control-7.sock", "control-8.sock"] {
            drop(UnixListener::bind(folder.join(left)).unwrap());
        }
        for name in ["control-8.sock.lock", "another.lock", "control-9.conf"] {
            File::create(folder.join(name)).unwrap();
        }
        let again = open().is_ok();
        sweep(&folder);
        let mut swept: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        swept.sort();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(mode, 0o600);
        assert!(second.contains("a gateway runs in this network namespace already"), "{second}");
        assert!(is_left && again);
        assert_eq!(names, 0);
        assert_eq!(swept, ["another.lock", "control-9.conf"]);
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_taken() {
        let folder = env::temp_dir().join(format!("trackway-own-{}", std::process::id()));
        let made = make_own(&folder).and_then(|()| fs::metadata(&folder)).unwrap().mode();
        let outcomes = [0o700, 0o755, 0o720, 0o702].map(|mode| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            make_own(&folder).is_ok()
        });
        fs::remove_dir(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        let file = make_own(&folder).is_ok();
        fs::remove_file(&folder).unwrap();

        assert_eq!(made & 0o777, 0o700);
        assert_eq!((outcomes, file), ([true, true, false, false], false));
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = env::temp_dir().join(format!("trackway-place-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = folder.join("control.sock");
        fs::write(&at, "something").unwrap();

        let refused = Place::open(Some(&at), None).unwrap_err().to_string();
        let text = fs::read_to_string(&at).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        assert!(refused.contains("there is a file that is no socket"), "{refused}");
        assert_eq!(text, "something");
    }
}
