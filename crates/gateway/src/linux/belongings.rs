//! What the gateway's user has to own or to be allowed to use, made while we are root.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, lchown,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use nix::libc;
use nix::unistd::{AccessFlags, Uid, access};
use tracing::{debug, warn};

use crate::config::Config;
use crate::linux::account::Account;
use crate::sys::Tap;
use crate::sys::acl::AccessList;

/// Where sockets are, and what outlives a crash, which all gateways of a machine share.
pub(crate) const RUN: &str = "/run/trackway";

/// Prepares what the services of a configuration keep and use, for the user that they run as.
///
/// # Errors
/// When something cannot be made or is another's, with the remedy.
pub(crate) fn prepare(config: &Config, account: &Account) -> anyhow::Result<()> {
    if let Some(sar) = &config.sar {
        own_store(&sar.store, account)
            .with_context(|| format!("cannot give {} to {account}", sar.store.display()))?;
        expect_way(&sar.store, account, "the store of [sar]")?;
        if let Some(folder) = sar.socket.path.parent() {
            own_new_folder(folder, account, "the socket of [sar]")?;
            expect_way(folder, account, "the socket of [sar]")?;
        }
    }
    // A reload may ask for the first device.
    open_tun(account);
    Ok(())
}

/// Where this user's gateways have their sockets.
pub(crate) fn folder() -> PathBuf {
    let user = Uid::effective();
    if user.is_root() || access(RUN, AccessFlags::W_OK).is_ok() {
        return RUN.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("trackway"),
        _ => env::temp_dir().join(format!("trackway-{user}")),
    }
}

/// The number of the network namespace that we are in.
pub(crate) fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}

/// Makes the folder of sockets, where this user may make files beside those of other gateways.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn own_run(account: Option<&Account>) -> io::Result<()> {
    let folder = Path::new(RUN);
    DirBuilder::new().recursive(true).mode(0o1755).create(folder)?;
    share(folder, account)
}

/// Makes a folder root's, where users may make files and remove no others': whose it was, and one more.
fn share(folder: &Path, account: Option<&Account>) -> io::Result<()> {
    const STICKY: u32 = libc::S_ISVTX;
    let is = fs::symlink_metadata(folder)?;
    let users = [(is.uid() != 0).then_some(is.uid()), account.map(|it| it.uid.as_raw())];
    let before = match AccessList::read(folder) {
        Ok(before) => before,
        // Of those who have no such lists only one can be served.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let owner = account.map(|it| (it.uid.as_raw(), it.gid.as_raw())).unwrap_or_default();
            return lchown(folder, Some(owner.0), Some(owner.1));
        }
        Err(error) => return Err(error),
    };
    if is.uid() != 0 {
        lchown(folder, Some(0), Some(0))?;
    }
    let list =
        users.into_iter().flatten().fold(before.clone(), |list, user| list.with_user(user, 7));
    fs::set_permissions(folder, Permissions::from_mode(is.mode() & 0o777 | STICKY))?;
    if list == before { Ok(()) } else { list.set(folder) }
}

/// A file that is written while we run, whoever owns its folder; `None` if that cannot be.
pub(crate) fn open_written(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(flags);
    let file = options.open(path).ok()?;
    file.metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

/// Makes a folder that is missing, or checks that the user may change it.
fn own_new_folder(folder: &Path, account: &Account, whose: &str) -> anyhow::Result<()> {
    if folder == Path::new(RUN) {
        return Ok(());
    }
    let (uid, gid) = (account.uid.as_raw(), account.gid.as_raw());
    match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.and_then(|()| lchown(folder, Some(uid), Some(gid)))
                .with_context(|| format!("cannot make {} for {whose}", folder.display()))
        }
        Err(error) => Err(error).with_context(|| format!("{} for {whose}", folder.display())),
        Ok(is) => {
            ensure!(
                may(account, &is, 0o3),
                "the gateway runs as {account}, which may make no files in {}, where {whose} is: `chown {uid}` \
                 it, or name a folder that is not there yet, which the gateway makes",
                folder.display()
            );
            Ok(())
        }
    }
}

/// Checks that the user may enter all folders on the way to a path.
fn expect_way(path: &Path, account: &Account, whose: &str) -> anyhow::Result<()> {
    for folder in path.ancestors().skip(1).filter(|folder| folder.is_absolute()) {
        ensure!(
            fs::metadata(folder).is_ok_and(|is| may(account, &is, 0o1)),
            "the gateway runs as {account}, which may not enter {}, where {whose} is: `chmod o+x` it, or name \
             another place",
            folder.display()
        );
    }
    Ok(())
}

/// Whether a file's mode gives the user these rights, one digit as `chmod` takes it.
fn may(account: &Account, is: &fs::Metadata, rights: u32) -> bool {
    let (is_owner, is_group) = (is.uid() == account.uid.as_raw(), is.gid() == account.gid.as_raw());
    let shift = if is_owner {
        6
    } else if is_group {
        3
    } else {
        0
    };
    is.mode() >> shift & rights == rights
}

/// Makes a folder that nobody else reads; one that was another user's is given away with its files.
fn own_store(folder: &Path, account: &Account) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        outcome => outcome?,
    }
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    give(folder, &opened, account)
}

/// Gives a folder and what is in it to the user. Only what its owner had: a name in it may have been
/// made to lead to a file of somebody else's.
fn give(path: &Path, folder: &File, account: &Account) -> io::Result<()> {
    let (uid, gid) = (account.uid.as_raw(), account.gid.as_raw());
    let owner = folder.metadata()?.uid();
    if owner == uid {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else {
            continue;
        };
        let is = file.metadata()?;
        if is.is_dir() && is.uid() == owner {
            give(&path, &file, account)?;
        } else if is.is_file() && is.uid() == owner && is.nlink() == 1 {
            fchown(&file, Some(uid), Some(gid))?;
        }
    }
    // Last, so that what was interrupted is done at the next start.
    fchown(folder, Some(uid), Some(gid))
}

/// Lets the user make devices: everybody may open this file where udev runs, and it takes
/// `CAP_NET_ADMIN` to do anything with it.
fn open_tun(account: &Account) {
    let path = Path::new(Tap::PATH);
    // Without it, what makes a device says so.
    let Ok(is) = fs::metadata(path) else { return };
    if is.mode() & 0o006 == 0o006 {
        return;
    }
    let uid = account.uid.as_raw();
    let open = |before: AccessList| {
        let after = before.clone().with_user(uid, 6);
        if after == before { Ok(false) } else { after.set(path).map(|()| true) }
    };
    let opened = AccessList::read(path).and_then(open);
    let path = path.display();
    match opened {
        Ok(false) => {}
        Ok(true) => {
            debug!(%path, %account, "for root alone: its access list has the gateway's user now");
        }
        Err(error) => {
            warn!(%path, %account, %error, "for root alone: `chmod 666`, as udev does");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_is_no_link_and_no_device() {
        let folder = std::env::temp_dir().join(format!("trackway-written-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.join(name));

        let made = open_written(&file).is_some();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let followed = open_written(&link).is_some();
        let device = open_written(Path::new("/dev/null")).is_some();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!((made, followed, device), (true, false, false));
    }
}
