//! Opens a file for a privileged process only if nobody but trusted users could have written or replaced it.
//!
//! ```text
//!   /            root, 0755     each folder is opened through the descriptor of the one before it, never by
//!   └ etc        root, 0755     its path, and checked once it is open: nothing can be swapped in between
//!     └ a.toml   root, 0644
//! ```
//! OpenSSH checks its files in the same way (`StrictModes`). Symbolic links are followed by reading them, so
//! that the folders on their way are checked as well.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::{Gid, Group, Uid, User};
use settings::file::{no_file, what_instead};

/// Symbolic links followed on the way to one file, as many as Linux follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The users whose files a privileged process acts on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Owners(Vec<Owner>);

/// A trusted user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Owner {
    uid: Uid,
    /// The user's private group without other members, if any: files writable by the group belong to the user alone.
    private_group: Option<Gid>,
}

impl Owners {
    /// Root, the user of this process, and the user behind `sudo`.
    pub fn of_this_process() -> Self {
        let mut uids = vec![Uid::from_raw(0), Uid::effective()];
        if Uid::effective().is_root()
            && let Some(uid) = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok())
        {
            uids.push(Uid::from_raw(uid));
        }
        uids.dedup();
        Self(uids.into_iter().map(Owner::of).collect())
    }

    fn owner(&self, uid: u32) -> Option<&Owner> {
        self.0.iter().find(|owner| owner.uid.as_raw() == uid)
    }
}

/// Formatted as a program argument: `0,1000:1000`, each user with the group of its own, if any.
impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, owner) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", owner.uid)?;
            if let Some(group) = owner.private_group {
                write!(f, ":{group}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Owners {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let owner = |text: &str| {
            let (uid, group) = text.split_once(':').map_or((text, None), |(u, g)| (u, Some(g)));
            Ok(Owner {
                uid: Uid::from_raw(uid.parse()?),
                private_group: group.map(str::parse).transpose()?.map(Gid::from_raw),
            })
        };
        text.split(',').map(owner).collect::<Result<_, _>>().map(Self)
    }
}

impl Owner {
    fn of(uid: Uid) -> Self {
        Self { uid, private_group: private_group(uid) }
    }
}

/// The group of a user's own name without other members, as most distributions give one to each user.
pub fn private_group(uid: Uid) -> Option<Gid> {
    let user = User::from_uid(uid).ok()??;
    let group = Group::from_gid(user.gid).ok()??;
    let is_private = group.name == user.name && group.mem.iter().all(|it| *it == user.name);
    is_private.then_some(group.gid)
}

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The kernel does not open it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A user who is not trusted owns it or a folder on the way.
    #[error("{} belongs to user {uid}, who could have changed it: chown root {}", .path.display(), .path.display())]
    Owner {
        /// The file, folder or link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Other users may write it or a folder on the way.
    #[error("{} may be changed by others than its owner (mode {mode:04o}): chmod go-w {}", .path.display(), .path.display())]
    Mode {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is a folder, device, socket or pipe.
    #[error("{}", no_file(.path, .what))]
    NoFile {
        /// Where it is.
        path: PathBuf,
        /// The word for it.
        what: &'static str,
    },
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Io(error) => error,
            untrusted => Self::new(io::ErrorKind::PermissionDenied, untrusted.to_string()),
        }
    }
}

/// Opens a file to be read that none but these users could have written or replaced.
///
/// # Errors
/// When others could have, or it cannot be opened.
pub fn open(path: &Path, owners: &Owners) -> Result<File, Refused> {
    let mut walk = Walk::new(owners)?;
    if !path.is_absolute() {
        walk.follow(&std::env::current_dir()?)?;
    }
    walk.follow(path)?;
    walk.into_file()
}

/// Opens a folder (`O_PATH`) on whose way none but these users can put something else; with `mode`, folders that are
/// missing are made with it.
///
/// # Errors
/// When others can, or it cannot be opened or made.
pub fn open_folder(path: &Path, owners: &Owners, mode: Option<Mode>) -> Result<OwnedFd, Refused> {
    let mut walk = Walk::new(owners)?;
    walk.mode = mode;
    if !path.is_absolute() {
        walk.follow(&std::env::current_dir()?)?;
    }
    walk.follow(path)?;
    walk.into_folder()
}

/// A position in the file system, reached through trusted folders only.
struct Walk<'a> {
    owners: &'a Owners,
    /// The folders from the root to here.
    folders: Vec<Step>,
    /// The file reached, if it is no folder.
    file: Option<Step>,
    links: usize,
    /// Permissions with which missing folders are created.
    mode: Option<Mode>,
}

struct Step {
    name: OsString,
    /// To be looked at (`O_PATH`), not read.
    fd: OwnedFd,
}

impl<'a> Walk<'a> {
    fn new(owners: &'a Owners) -> Result<Self, Refused> {
        let mut walk = Self { owners, folders: Vec::new(), file: None, links: 0, mode: None };
        walk.restart()?;
        Ok(walk)
    }

    fn restart(&mut self) -> Result<(), Refused> {
        self.folders.clear();
        let name = OsString::from("/");
        let fd = openat(AT_FDCWD, "/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        self.check(Path::new("/"), &fstat(&fd)?)?;
        self.folders.push(Step { name, fd });
        Ok(())
    }

    fn follow(&mut self, path: &Path) -> Result<(), Refused> {
        for component in path.components() {
            if self.file.is_some() {
                return Err(Errno::ENOTDIR.into());
            }
            match component {
                Component::CurDir | Component::Prefix(_) => {}
                // Above the root is the root.
                Component::ParentDir => self.folders.truncate((self.folders.len() - 1).max(1)),
                Component::RootDir => self.restart()?,
                Component::Normal(name) => self.enter(name)?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), Refused> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = || openat(&self.here().fd, name, flags, Mode::empty());
        let fd = match (open(), self.mode) {
            (Err(Errno::ENOENT), Some(mode)) => {
                match mkdirat(&self.here().fd, name, mode) {
                    // Somebody else has just made it.
                    Ok(()) | Err(Errno::EEXIST) => open()?,
                    Err(error) => return Err(error.into()),
                }
            }
            (opened, _) => opened?,
        };
        let stat = fstat(&fd)?;
        let path = self.path().join(name);
        if let Some(what) = what_instead(stat.st_mode)
            && ![SFlag::S_IFLNK, SFlag::S_IFDIR].contains(&kind(&stat))
        {
            return Err(Refused::NoFile { path, what });
        }
        self.check(&path, &stat)?;
        match kind(&stat) {
            SFlag::S_IFLNK => {
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let target = readlinkat(&fd, "")?;
                self.follow(Path::new(&target))?;
            }
            SFlag::S_IFDIR => self.folders.push(Step { name: name.to_owned(), fd }),
            _ => self.file = Some(Step { name: name.to_owned(), fd }),
        }
        Ok(())
    }

    /// Checks that only trusted users may change a file or folder of this status.
    fn check(&self, path: &Path, stat: &FileStat) -> Result<(), Refused> {
        let Some(owner) = self.owners.owner(stat.st_uid) else {
            return Err(Refused::Owner { path: path.to_owned(), uid: stat.st_uid });
        };
        let mode = Mode::from_bits_truncate(stat.st_mode);
        // A link has all permissions. In a folder like /tmp (sticky) everybody makes files, and removes none but
        // their own; the owner of the next step is checked as well.
        let is_shared = kind(stat) == SFlag::S_IFLNK
            || (kind(stat) == SFlag::S_IFDIR && mode.contains(Mode::S_ISVTX));
        let is_private = owner.private_group.is_some_and(|group| group.as_raw() == stat.st_gid);
        let by_group = mode.contains(Mode::S_IWGRP) && !is_private;
        if !is_shared && (by_group || mode.contains(Mode::S_IWOTH)) {
            return Err(Refused::Mode { path: path.to_owned(), mode: stat.st_mode & 0o7777 });
        }
        Ok(())
    }

    fn into_file(self) -> Result<File, Refused> {
        let Some(file) = &self.file else {
            return Err(Refused::NoFile { path: self.path(), what: "a folder" });
        };
        // By its name, in a folder where nobody else replaces it: what is found is checked once more.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = openat(&self.here().fd, &*file.name, flags, Mode::empty())?;
        let (seen, now) = (fstat(&file.fd)?, fstat(&opened)?);
        let path = self.path().join(&file.name);
        self.check(&path, &now)?;
        if (seen.st_dev, seen.st_ino) != (now.st_dev, now.st_ino) {
            return Err(io::Error::other("another file took its place meanwhile").into());
        }
        Ok(opened.into())
    }

    fn into_folder(mut self) -> Result<OwnedFd, Refused> {
        if self.file.is_some() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(self.folders.pop().expect("the root is never left").fd)
    }

    fn here(&self) -> &Step {
        self.folders.last().expect("the root is never left")
    }

    /// Without links.
    fn path(&self) -> PathBuf {
        self.folders.iter().map(|step| &step.name).collect()
    }
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    /// A user that is nobody's.
    const STRANGER: u32 = 64_999;

    /// A folder of the user's own, removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("trackway-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "text").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mine() -> Owners {
        Owners::of_this_process()
    }

    fn said(opened: Result<File, Refused>) -> String {
        opened.map_or_else(|why| why.to_string(), |_| "opened".to_owned())
    }

    #[test]
    fn a_file_that_only_its_owner_writes_is_opened_also_by_way_of_links() {
        let folder = Folder::new("trusted");
        let file = folder.file("a", 0o644);
        fs::create_dir(folder.0.join("b")).unwrap();
        symlink("../a", folder.0.join("b/c")).unwrap();
        symlink(folder.0.join("b"), folder.0.join("d")).unwrap();

        let mut text = String::new();
        open(&file, &mine()).unwrap().read_to_string(&mut text).unwrap();
        let by_links = said(open(&folder.0.join("d/./../b/c"), &mine()));

        assert_eq!((&text[..], &by_links[..]), ("text", "opened"));
    }

    #[test]
    fn what_others_may_write_is_refused_with_the_remedy() {
        let folder = Folder::new("written");
        for mode in [0o646, 0o666, 0o602] {
            let refused = said(open(&folder.file("a", mode), &mine()));
            let expected =
                format!("a may be changed by others than its owner (mode {mode:04o}): chmod go-w ");
            assert!(refused.contains(&expected), "{refused}");
        }
        let file = folder.file("a", 0o600);
        fs::set_permissions(&folder.0, Permissions::from_mode(0o757)).unwrap();
        let by_folder = said(open(&file, &mine()));
        // As /tmp itself is, on the way to it.
        fs::set_permissions(&folder.0, Permissions::from_mode(0o1777)).unwrap();

        assert!(by_folder.contains("may be changed by others"), "{by_folder}");
        assert_eq!(said(open(&file, &mine())), "opened");
    }

    #[test]
    fn a_group_may_write_only_if_it_is_the_owners_own() {
        let folder = Folder::new("group");
        let file = folder.file("a", 0o660);
        let gid = fstat(File::open(&file).unwrap()).unwrap().st_gid;
        let owners = |private_group| {
            let mut owners = mine();
            for owner in &mut owners.0 {
                owner.private_group = private_group;
            }
            owners
        };

        let own = said(open(&file, &owners(Some(Gid::from_raw(gid)))));
        let shared = said(open(&file, &owners(None)));

        assert_eq!(own, "opened");
        assert!(shared.contains("(mode 0660)"), "{shared}");
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused_wherever_it_is_on_the_way() {
        let folder = Folder::new("foreign");
        let nobody = Owners(vec![Owner { uid: Uid::from_raw(STRANGER), private_group: None }]);
        let file = folder.file("a", 0o644);

        // The root folder is root's, whom these owners do not contain.
        assert!(said(open(&file, &nobody)).starts_with("/ belongs to user "));
        if Uid::effective().is_root() {
            let link = folder.0.join("link");
            symlink(&file, &link).unwrap();
            lchown(&link, Some(STRANGER), None).unwrap();
            let refused = said(open(&link, &mine()));
            assert!(refused.contains("link belongs to user 64999"), "{refused}");
            lchown(&file, Some(STRANGER), None).unwrap();
            let refused = said(open(&file, &mine()));
            assert!(refused.ends_with(&format!("chown root {}", file.display())), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_swapped_for_a_link_all_the_time_never_leads_elsewhere() {
        if !Uid::effective().is_root() {
            println!("skipped: giving a link to another user needs root");
            return;
        }
        let folder = Folder::new("swapped");
        let secret = folder.file("secret", 0o600);
        let shared = folder.0.join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        let [name, next, file, link] = ["a", "next", "file", "link"].map(|it| shared.join(it));
        fs::write(&file, "other").unwrap();
        symlink(&secret, &link).unwrap();
        lchown(&link, Some(STRANGER), None).unwrap();
        fs::hard_link(&file, &name).unwrap();

        let mut opened = 0;
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                for other in [&link, &file].into_iter().cycle().take(40_000) {
                    fs::hard_link(other, &next).unwrap();
                    fs::rename(&next, &name).unwrap();
                }
            });
            while !swapping.is_finished() {
                let Ok(mut file) = open(&name, &mine()) else { continue };
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, "other");
                opened += 1;
            }
        });

        println!("opened {opened} times");
    }

    #[test]
    fn folders_devices_and_endless_links_are_no_files() {
        let folder = Folder::new("kinds");
        symlink("loop", folder.0.join("loop")).unwrap();
        let file = folder.file("a", 0o644);

        assert!(said(open(&folder.0, &mine())).contains(", and no file"));
        assert_eq!(
            said(open(Path::new("/dev/null"), &mine())),
            "/dev/null is a device, and no file"
        );
        // The words for them depend on the libc.
        for (path, why) in [
            (folder.0.join("loop"), Errno::ELOOP),
            (folder.0.join("missing"), Errno::ENOENT),
            (file.join("below"), Errno::ENOTDIR),
        ] {
            let refused = open(&path, &mine());
            assert_eq!(said(refused), said(Err(why.into())), "{}", path.display());
        }
    }

    #[test]
    fn owners_survive_being_an_argument() {
        let owners = Owners(vec![
            Owner { uid: Uid::from_raw(0), private_group: None },
            Owner { uid: Uid::from_raw(1000), private_group: Some(Gid::from_raw(1001)) },
        ]);

        assert_eq!(owners.to_string(), "0,1000:1001");
        assert_eq!(owners.to_string().parse(), Ok(owners));
        assert!("0,x".parse::<Owners>().is_err());
    }
}
