//! Prepares, while we are root, the files and devices that the gateway's user must own or use.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use host::run::{NOTES, RUN, namespace, try_lock};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, unlinkat};
use tracing::{debug, warn};

use crate::config::Config;
use crate::linux::account::{Account, is_dynamic};
use crate::sys::Tap;
use crate::sys::acl::AccessList;
use crate::trust::{self, Owners};

/// Octets of a file of notes at most.
const LONGEST_NOTE: u64 = 1 << 20;

/// Prepares files and devices used by the configured services, for the user of the gateway.
///
/// # Errors
/// When something cannot be made or belongs to another user, with the remedy.
pub(crate) fn prepare(config: &Config, account: &Account) -> anyhow::Result<()> {
    if let Some(sar) = &config.sar {
        own_store(&sar.store, account)
            .with_context(|| format!("cannot give {} to {account}", sar.store.display()))?;
        expect_way(&sar.store, account, "the store of [sar]")?;
        if let Some(folder) = sar.socket.path.parent() {
            if let Some(path) = linked(config) {
                link_socket(path).with_context(|| format!("cannot make {}", path.display()))?;
            } else {
                own_new_folder(folder, account, "the socket of [sar]")?;
            }
            expect_way(folder, account, "the socket of [sar]")?;
        }
    }
    // A reload may ask for the first device.
    open_tun(account);
    Ok(())
}

/// The folder that exists for the socket of `[sar]`, and in which the gateway's user may make no files.
pub(crate) fn closed_folder<'c>(config: &'c Config, account: &Account) -> Option<&'c Path> {
    let folder = config.sar.as_ref()?.socket.path.parent()?;
    let is = fs::metadata(folder).ok().filter(|_| linked(config).is_none())?;
    (!may(account, &is, 0o3) && !is_dynamic(is.uid())).then_some(folder)
}

/// The path in the folder of all gateways that leads to a socket in this gateway's own.
pub(crate) fn linked(config: &Config) -> Option<&Path> {
    let path = config.sar.as_ref().map(|sar| sar.socket.path.as_path())?;
    (path.parent() == Some(Path::new(RUN))).then_some(path)
}

/// Makes the parent folder of all gateways' folders, or gives it to root: nobody else makes or removes names in it.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn own_run() -> io::Result<()> {
    own_shared(Path::new(RUN)).map(drop)
}

fn own_shared(folder: &Path) -> io::Result<File> {
    let opened = make_folder(folder, 0o755)?;
    let is = opened.metadata()?;
    // An access list of earlier versions may give others more rights than the mode shows. The descriptor makes sure
    // that the list is this folder's, even if the name leads elsewhere by now.
    let by_descriptor = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let list = AccessList::of_mode(0o755);
    if AccessList::read(Path::new(&by_descriptor)).is_ok_and(|before| before != list) {
        list.set(Path::new(&by_descriptor))?;
    }
    if is.uid() != 0 || is.gid() != 0 {
        fchown(&opened, Some(0), Some(0))?;
    }
    opened.set_permissions(Permissions::from_mode(0o755))?;
    Ok(opened)
}

/// Makes the folder of this network namespace's gateway, owned by the gateway's user. Notes left by a crashed gateway
/// of another user now belong to this user; everything else in the folder is removed.
///
/// # Errors
/// When it cannot be made or emptied.
pub(crate) fn own_folder(account: Option<&Account>) -> io::Result<()> {
    let owner = account.map_or((0, 0), |it| (it.uid.as_raw(), it.gid.as_raw()));
    own_folder_in(Path::new(RUN), &namespace().to_string(), owner)
}

fn own_folder_in(shared: &Path, name: &str, (uid, gid): (u32, u32)) -> io::Result<()> {
    let shared = own_shared(shared)?;
    let folder = folder_in(&shared, OsStr::new(name), 0o755)?;
    if folder.metadata()?.uid() != uid {
        // From here on nobody changes the folder, not even its former owner.
        fchown(&folder, Some(0), Some(0))?;
        folder.set_permissions(Permissions::from_mode(0o700))?;
        take_over(&folder, (uid, gid))?;
        // While it is ours: root without the right to change others' files gives it away in the end.
        folder.set_permissions(Permissions::from_mode(0o755))?;
        return fchown(&folder, Some(uid), Some(gid));
    }
    folder.set_permissions(Permissions::from_mode(0o755))
}

/// Copies the files that outlive a crash for their new owner, and removes all others. A copy, because whose a file
/// was may have it open and locked.
fn take_over(folder: &File, (uid, gid): (u32, u32)) -> io::Result<()> {
    let at = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let names: Vec<_> =
        fs::read_dir(&at)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    for name in names {
        let octets = left(folder, &name);
        let path = at.join(&name);
        // It does not follow links, nor does what removes a folder.
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
        let Some(octets) = octets else { continue };
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mut copy = File::from(openat(folder, &*name, flags, Mode::from_bits_truncate(0o600))?);
        copy.write_all(&octets)?;
        fchown(&copy, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// The notes left in a file of this name for the next gateway; `None` if the file holds no notes.
fn left(folder: &File, name: &OsStr) -> Option<Vec<u8>> {
    let is_kept = NOTES.iter().any(|kept| name.as_encoded_bytes().starts_with(kept.as_bytes()));
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty()).ok().filter(|_| is_kept)?);
    // A second name may be of a file of somebody else's.
    let is = file.metadata().ok().filter(|is| is.is_file() && is.nlink() == 1)?;
    let mut octets = Vec::new();
    (is.len() <= LONGEST_NOTE && file.take(LONGEST_NOTE).read_to_end(&mut octets).is_ok())
        .then_some(octets)
}

/// Has a name in the folder of all gateways lead to the socket of this name in this gateway's own, where its user can
/// make and remove it; unless a program listens there.
///
/// # Errors
/// When another file is there, or the name cannot be made.
pub(crate) fn link_socket(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    if UnixStream::connect(path).is_ok() {
        return Ok(());
    }
    if let Ok(is) = fs::symlink_metadata(path) {
        if !is.is_symlink() && !is.file_type().is_socket() {
            return Err(io::Error::other("there is a file that is no socket; remove it"));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    match symlink(Path::new(&namespace().to_string()).join(name), path) {
        // Another gateway, started at the same moment, has just made the name. It will listen there.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

/// A file that is written while we run, whoever owns its folder; `None` if that cannot be, as in a folder where
/// others could put a link in its place.
pub(crate) fn open_written(path: &Path) -> Option<File> {
    let (parent, name) = (parent(path), path.file_name()?);
    let folder = trust::open_folder(parent, &Owners::of_this_process(), None).ok()?;
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o644);
    let file = File::from(openat(&folder, name, flags, mode).ok()?);
    file.metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

/// Gives a socket that root has just made at a path to a user, if it still is that socket.
///
/// # Errors
/// When another file has taken its place.
pub(crate) fn give_socket(
    path: &Path,
    account: Option<&Account>,
    group: Option<Gid>,
) -> io::Result<()> {
    if account.is_none() && group.is_none() {
        return Ok(());
    }
    let (socket, _) = open_socket(path, Uid::effective())?;
    let (uid, gid) = (account.map(|it| it.uid), group.or(account.map(|it| it.gid)));
    Ok(fchownat(&socket, "", uid, gid, AtFlags::AT_EMPTY_PATH)?)
}

/// Gives a socket of the gateway's user to a group, unless it has the socket.
///
/// # Errors
/// When another file has taken its place.
pub(crate) fn regroup_socket(path: &Path, account: &Account, group: Gid) -> io::Result<()> {
    let (socket, had) = open_socket(path, account.uid)?;
    if had == group {
        return Ok(());
    }
    Ok(fchownat(&socket, "", None, Some(group), AtFlags::AT_EMPTY_PATH)?)
}

/// The socket of a user at a path, and its group.
fn open_socket(path: &Path, user: Uid) -> io::Result<(OwnedFd, Gid)> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let socket = openat(AT_FDCWD, path, flags, Mode::empty())?;
    let is = fstat(&socket)?;
    let kind = SFlag::from_bits_truncate(is.st_mode & SFlag::S_IFMT.bits());
    // A second name would be of a socket that somebody else's program has.
    if kind != SFlag::S_IFSOCK || is.st_nlink != 1 || is.st_uid != user.as_raw() {
        return Err(io::Error::other("another file has taken its place"));
    }
    Ok((socket, Gid::from_raw(is.st_gid)))
}

/// Makes a missing folder, or checks that the user may change an existing folder.
fn own_new_folder(folder: &Path, account: &Account, whose: &str) -> anyhow::Result<()> {
    match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = make_folder(folder, 0o755).and_then(|made| {
                fchown(&made, Some(account.uid.as_raw()), Some(account.gid.as_raw()))
            });
            made.with_context(|| format!("cannot make {} for {whose}", folder.display()))
        }
        Err(error) => Err(error).with_context(|| format!("{} for {whose}", folder.display())),
        // The folder of an earlier gateway without an account, which had another number.
        Ok(is) if !may(account, &is, 0o3) && is_dynamic(is.uid()) => {
            let given = make_folder(folder, 0o755).and_then(|folder| give(&folder, account));
            given.with_context(|| format!("cannot give {} to {account}", folder.display()))
        }
        Ok(is) => {
            ensure!(
                may(account, &is, 0o3),
                "the gateway runs as {account}, which may make no files in {}, where {whose} is: `chown {}` \
                 it, or name a folder that is not there yet, which the gateway makes",
                folder.display(),
                account.uid,
            );
            Ok(())
        }
    }
}

/// Opens a folder, or makes a missing one, below folders that only trusted users may change: so nobody can put
/// another folder in its place.
fn make_folder(folder: &Path, mode: u32) -> io::Result<File> {
    let owners = Owners::of_this_process();
    let parent = trust::open_folder(parent(folder), &owners, Some(Mode::from_bits_truncate(0o755)))
        .map_err(io::Error::from)?;
    let name = folder.file_name().ok_or(ErrorKind::InvalidInput)?;
    folder_in(&parent, name, mode)
}

/// Opens a folder in another one, or makes it.
fn folder_in(parent: &impl AsFd, name: &OsStr, mode: u32) -> io::Result<File> {
    match mkdirat(parent, name, Mode::from_bits_truncate(mode)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?.into())
}

/// The folder that a path is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
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
    let shift = match (is.uid() == account.uid.as_raw(), is.gid() == account.gid.as_raw()) {
        (true, _) => 6,
        (_, true) => 3,
        _ => 0,
    };
    is.mode() >> shift & rights == rights
}

/// Makes a folder that nobody else reads; a folder of another user is given to the account with its files.
fn own_store(folder: &Path, account: &Account) -> io::Result<()> {
    // It is the user's already: nothing is made nor given, wherever it is.
    if fs::symlink_metadata(folder).is_ok_and(|is| is.is_dir() && is.uid() == account.uid.as_raw())
    {
        return Ok(());
    }
    give(&make_folder(folder, 0o700)?, account)
}

/// Gives a folder and what is in it to the user. Only files of the folder's owner are given: somebody may have made
/// a name in it lead to a file of another user. All is found by descriptors, since a path may lead elsewhere the next
/// time.
fn give(folder: &File, account: &Account) -> io::Result<()> {
    let (uid, gid) = (account.uid.as_raw(), account.gid.as_raw());
    let owner = folder.metadata()?.uid();
    if owner == uid {
        return Ok(());
    }
    // The names in the folder that is open, wherever it has been moved.
    for entry in fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))? {
        let name = entry?.file_name();
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = openat(folder, &*name, flags, Mode::empty());
        // A socket cannot be opened, and a socket left by its owner is useless to another user.
        let Ok(file) = opened.map(File::from) else {
            let is = fstatat(folder, &*name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            let kind = SFlag::from_bits_truncate(is.st_mode & SFlag::S_IFMT.bits());
            if kind == SFlag::S_IFSOCK && is.st_uid == owner {
                unlinkat(folder, &*name, UnlinkatFlags::NoRemoveDir)?;
            }
            continue;
        };
        let is = file.metadata()?;
        if is.is_dir() && is.uid() == owner {
            give(&file, account)?;
        } else if is.is_file() && is.uid() == owner && is.nlink() == 1 {
            fchown(&file, Some(uid), Some(gid))?;
        }
    }
    // Last, so that the next start completes an interrupted change of owner.
    fchown(folder, Some(uid), Some(gid))
}

/// Lets the user make devices: everybody may open this file where udev runs, and it takes
/// `CAP_NET_ADMIN` to do anything with it.
fn open_tun(account: &Account) {
    let path = Path::new(Tap::PATH);
    // If the file is missing, making a device reports it later.
    let Ok(is) = fs::metadata(path) else { return };
    if is.mode() & 0o006 == 0o006 {
        return;
    }
    let opened = admit(path, account.uid.as_raw());
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

/// Lets a user read and write a file; returns whether the user could not before. Gateways that start together wait for
/// each other: each writes the whole list, and would remove the others' users.
fn admit(path: &Path, uid: u32) -> io::Result<bool> {
    let folder = File::open(path.parent().unwrap_or(path))?;
    // Who holds the lock for longer does no harm: the list is changed without it then.
    let _alone = try_lock(folder);
    let before = AccessList::read(path)?;
    let after = before.clone().with_user(uid, 6);
    if after == before { Ok(false) } else { after.set(path).map(|()| true) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::lchown;

    use super::*;

    /// An unused user number, also used as group number.
    const STRANGER: u32 = 64_999;

    #[test]
    fn gateways_that_start_together_share_the_name_of_a_socket() {
        let folder = std::env::temp_dir().join(format!("trackway-name-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sar.sock");

        let link = || (0..500).all(|_| link_socket(&path).is_ok());
        let all = std::thread::scope(|scope| {
            let runs = [(); 8].map(|()| scope.spawn(link));
            runs.map(|run| run.join().unwrap())
        });
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(all, [true; 8]);
    }

    #[test]
    fn gateways_that_start_together_are_all_admitted() {
        let folder = std::env::temp_dir().join(format!("trackway-admit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tun");
        fs::write(&file, "").unwrap();
        let users = STRANGER..STRANGER + 64;

        std::thread::scope(|scope| {
            for uid in users.clone() {
                let file = &file;
                scope.spawn(move || admit(file, uid).unwrap());
            }
        });
        let all = users.fold(AccessList::read(&file).unwrap(), |list, uid| list.with_user(uid, 6));
        let admitted = AccessList::read(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(admitted, all);
    }

    #[test]
    fn a_store_is_given_with_its_owners_files_alone() {
        if !Uid::effective().is_root() {
            println!("skipped: giving files away needs root");
            return;
        }
        let folder = std::env::temp_dir().join(format!("trackway-given-{}", std::process::id()));
        let store = folder.join("a/store");
        let account = Account::of(STRANGER, STRANGER);
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();

        own_store(&store, &account).unwrap();
        let made = (owner(&store), fs::metadata(&store).unwrap().mode() & 0o777);
        let parent = owner(&folder.join("a"));
        // The files of an earlier gateway run by root.
        lchown(&store, Some(0), Some(0)).unwrap();
        fs::create_dir(store.join("below")).unwrap();
        let names = ["own", "below/own", "foreign", "twice"].map(|name| store.join(name));
        names.iter().for_each(|path| fs::write(path, "").unwrap());
        lchown(&names[2], Some(7), None).unwrap();
        fs::hard_link(&names[3], folder.join("another")).unwrap();
        fs::write(folder.join("secret"), "").unwrap();
        std::os::unix::fs::symlink(folder.join("secret"), store.join("link")).unwrap();
        own_store(&store, &account).unwrap();
        let given = names.each_ref().map(|path| owner(path));
        let secret = owner(&folder.join("secret"));
        // A folder on the way that somebody else may change.
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let other = Account::of(STRANGER - 1, STRANGER - 1);
        let refused = own_store(&store, &other).unwrap_err().to_string();
        let kept = own_store(&store, &account).is_ok();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!((made, parent), ((STRANGER, 0o700), 0));
        assert_eq!(given, [STRANGER, STRANGER, 7, 0]);
        assert_eq!(secret, 0);
        assert!(refused.contains("may be changed by others than its owner"), "{refused}");
        assert!(kept);
    }

    #[test]
    fn what_takes_the_place_of_a_folder_that_is_given_away_stays_roots() {
        if !Uid::effective().is_root() {
            println!("skipped: giving files away needs root");
            return;
        }
        let folder = std::env::temp_dir().join(format!("trackway-moved-{}", std::process::id()));
        let [store, moved] = ["store", "moved"].map(|name| folder.join(name));
        fs::create_dir_all(&store).unwrap();
        fs::write(store.join("own"), "").unwrap();
        let opened = File::open(&store).unwrap();
        fs::rename(&store, &moved).unwrap();
        fs::create_dir(&store).unwrap();
        fs::write(store.join("own"), "root's").unwrap();

        give(&opened, &Account::of(STRANGER, STRANGER)).unwrap();
        let owners = [&moved, &moved.join("own"), &store, &store.join("own")]
            .map(|path| fs::symlink_metadata(path).unwrap().uid());
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(owners, [STRANGER, STRANGER, 0, 0]);
    }

    #[test]
    fn a_folder_of_a_former_gateways_user_is_taken_with_its_notes_alone() {
        if !Uid::effective().is_root() {
            println!("skipped: giving files away needs root");
            return;
        }
        let shared = std::env::temp_dir().join(format!("trackway-run-{}", std::process::id()));
        let folder = shared.join("7");
        let owner = |path: &Path| fs::symlink_metadata(path).map(|it| it.uid()).ok();
        own_folder_in(&shared, "7", (STRANGER, STRANGER)).unwrap();
        let made = (owner(&shared), owner(&folder));
        // The folder as made by an earlier version, with a right for another user.
        lchown(&shared, Some(STRANGER), None).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        let list = AccessList::of_mode(0o755).with_user(STRANGER, 7);
        list.set(&shared).unwrap();
        fs::create_dir_all(folder.join("control.sock/below")).unwrap();
        for (name, text) in [("settings", "eth1 rp_filter 1 2\n"), ("hfpep-1", ""), ("other", "x")]
        {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::write(shared.join("secret"), "root's").unwrap();
        symlink(shared.join("secret"), folder.join("hfpep-2")).unwrap();
        fs::hard_link(shared.join("secret"), folder.join("hfpep-3")).unwrap();
        let held = File::options().write(true).open(folder.join("settings")).unwrap();

        own_folder_in(&shared, "7", (STRANGER - 1, STRANGER - 1)).unwrap();
        // A holder of the former file writes into the former file only.
        (&held).write_all(b"nonsense").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        let text = fs::read_to_string(folder.join("settings")).unwrap();
        let owners = ["settings", "hfpep-1", "."].map(|name| owner(&folder.join(name)));
        let is = fs::metadata(&shared).unwrap();
        let list = AccessList::read(&shared).unwrap();
        let secret = owner(&shared.join("secret"));
        fs::remove_dir_all(&shared).unwrap();

        assert_eq!(made, (Some(0), Some(STRANGER)));
        assert_eq!(names, ["hfpep-1", "settings"]);
        assert_eq!(text, "eth1 rp_filter 1 2\n");
        assert_eq!(owners, [Some(STRANGER - 1); 3]);
        assert_eq!((is.uid(), is.mode() & 0o7777), (0, 0o755));
        assert_eq!(list, AccessList::of_mode(0o755));
        assert_eq!(secret, Some(0));
    }

    #[test]
    fn a_folder_for_a_socket_follows_the_gateway_to_another_number() {
        if !Uid::effective().is_root() {
            println!("skipped: giving files away needs root");
            return;
        }
        let base = std::env::temp_dir().join(format!("trackway-follows-{}", std::process::id()));
        let folder = base.join("run");
        let own = |uid: u32| own_new_folder(&folder, &Account::of(uid, uid), "the socket");
        let owner = || fs::metadata(&folder).unwrap().uid();

        own(STRANGER).unwrap();
        let made = owner();
        let socket = folder.join("socket");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        lchown(&socket, Some(STRANGER), None).unwrap();
        own(STRANGER - 1).unwrap();
        let (followed, is_left) = (owner(), socket.exists());
        // Owned by a user with an account, or with a number that may be an account's.
        lchown(&folder, Some(7_777), Some(7_777)).unwrap();
        let refused = own(STRANGER).unwrap_err().to_string();
        fs::remove_dir_all(&base).unwrap();

        assert_eq!((made, followed, is_left), (STRANGER, STRANGER - 1, false));
        assert!(refused.contains("which may make no files in"), "{refused}");
    }

    #[test]
    fn a_socket_is_given_away_only_while_it_is_that_socket() {
        if !Uid::effective().is_root() {
            println!("skipped: giving files away needs root");
            return;
        }
        let folder = std::env::temp_dir().join(format!("trackway-socket-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [socket, file, link] = ["socket", "file", "link"].map(|name| folder.join(name));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let account = Account::of(STRANGER, STRANGER);

        let given =
            [&file, &link, &socket].map(|path| give_socket(path, Some(&account), None).is_ok());
        let owners = [&file, &link, &socket].map(|path| fs::symlink_metadata(path).unwrap().uid());
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(given, [false, false, true]);
        assert_eq!(owners, [0, 0, STRANGER]);
    }

    #[test]
    fn a_file_that_is_written_is_no_link_and_no_device() {
        let folder = std::env::temp_dir().join(format!("trackway-written-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.join(name));

        let made = open_written(&file).is_some();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let followed = open_written(&link).is_some();
        let device = open_written(Path::new("/dev/null")).is_some();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let shared = open_written(&file).is_some();
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!((made, followed, device, shared), (true, false, false, false));
    }
}
