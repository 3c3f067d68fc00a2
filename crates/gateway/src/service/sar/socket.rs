//! Opens the Unix socket for programs, at its path and with its access rights.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use host::run::{self, FolderWatch, RUN};
use nix::unistd::{Group, Uid, User};
use tracing::warn;

use crate::config::sar::Socket;
use crate::sys::acl::AccessList;

/// The listening socket; dropping it removes its name.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Which file it is: another gateway may have taken the name since.
    inode: u64,
}

impl Listener {
    /// Listens, in place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// When somebody does, or the name or the rights cannot be had.
    pub fn open(socket: &Socket) -> anyhow::Result<Self> {
        // A name in the folder of all gateways is a link that root has made.
        let path = place(&socket.path);
        let (listener, inode) = listen(&path, socket)?;
        Ok(Self { socket: listener, path, inode })
    }

    /// Whether its name still leads to it.
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|it| it.ino() == self.inode)
    }

    /// Listens again under its name, which somebody has removed. Existing connections go on.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn restore(&mut self, socket: &Socket) -> anyhow::Result<()> {
        (self.socket, self.inode) = listen(&self.path, socket)?;
        Ok(())
    }

    /// Hears when its name, or a folder on the way to it, comes or goes.
    ///
    /// # Errors
    /// As [`FolderWatch::open`].
    pub fn watch_name(&self) -> io::Result<FolderWatch> {
        FolderWatch::open_beside(&self.path)
    }

    /// The next program that connects.
    ///
    /// # Errors
    /// As of the system.
    pub fn accept(&self) -> io::Result<UnixStream> {
        self.socket.accept().map(|(stream, _)| stream)
    }
}

/// Opens a socket at a path, and tells which file it is.
fn listen(path: &Path, socket: &Socket) -> anyhow::Result<(UnixListener, u64)> {
    let said = || format!("cannot listen for programs at {}", path.display());
    if let Some(folder) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.with_context(|| {
            let user = Uid::effective();
            format!("{}: `install -d -o {user} {}` makes its folder", said(), folder.display())
        })?;
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!(
            "{}: another program listens there; end it, or name another socket in [sar]",
            said()
        ),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
        Err(error) => return Err(error).with_context(said),
    }
    if fs::symlink_metadata(path).is_ok_and(|it| !is_socket(&it)) {
        bail!("{}: there is a file that is no socket; remove it", said());
    }
    // The socket gets its access rights before its name.
    let fresh = with_suffix(path, ".new");
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).with_context(said)?;
    listener.set_nonblocking(true)?;
    grant(&fresh, socket).and_then(|()| fs::rename(&fresh, path).with_context(said))?;
    let inode = fs::symlink_metadata(path).with_context(said)?.ino();
    Ok((listener, inode))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.is_there() {
            // If the name is gone already, nothing is left to remove.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where a socket is whose path may be a link.
fn place(path: &Path) -> PathBuf {
    let own = run::own_file(path).filter(|own| own.parent().is_some_and(Path::is_dir));
    if let Some(own) = own {
        if fs::read_link(path).is_ok_and(|target| own.strip_prefix(RUN) != Ok(target.as_path())) {
            warn!(
                "{} leads to a gateway of another network namespace: programs of this one find this gateway at {}",
                path.display(),
                own.display()
            );
        }
        return own;
    }
    match (fs::read_link(path), path.parent()) {
        (Ok(target), Some(folder)) => folder.join(target),
        _ => path.to_owned(),
    }
}

fn is_socket(of: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    of.file_type().is_socket()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Its owner stays the gateway's user, which may not give files away: others are let in by an access list.
fn grant(path: &Path, socket: &Socket) -> anyhow::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(socket.mode))?;
    let owner = socket.owner.as_deref().map(user).transpose()?;
    let group = socket.group.as_deref().map(group).transpose()?;
    if owner.is_none() && group.is_none() {
        return Ok(());
    }
    let digit = |shift: u32| u16::try_from(socket.mode >> shift & 7).unwrap_or_default();
    let mut list = AccessList::of_mode(socket.mode);
    if let Some(owner) = owner {
        list = list.with_user(owner, digit(6));
    }
    if let Some(group) = group {
        list = list.with_group(group, digit(3));
    }
    list.set(path).with_context(|| {
        format!(
            "cannot let others use {} (socket-owner, socket-group): a file system with access \
             lists, as /run has them, is needed",
            path.display()
        )
    })
}

fn user(name: &str) -> anyhow::Result<u32> {
    match name.parse() {
        Ok(number) => Ok(number),
        Err(_) => match User::from_name(name).map_err(io::Error::from)? {
            Some(user) => Ok(user.uid.as_raw()),
            None => bail!("socket-owner = {name:?}: there is no such user"),
        },
    }
}

fn group(name: &str) -> anyhow::Result<u32> {
    match name.parse() {
        Ok(number) => Ok(number),
        Err(_) => match Group::from_name(name).map_err(io::Error::from)? {
            Some(group) => Ok(group.gid.as_raw()),
            None => {
                bail!("socket-group = {name:?}: there is no such group (`getent group` lists them)")
            }
        },
    }
}
