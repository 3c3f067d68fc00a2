//! Keys in files that only their owner reads, and secrets from the operating system.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base::entropy::{Entropy, NoRandomness};
use base::keys::NoKey;
use nix::libc::EACCES;
use nix::unistd::{Gid, Group, User, geteuid};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::linux::account;
use crate::{files, trust};

/// Octets of a key file at most: a key has 44.
const LONGEST: usize = 1_024;
/// The bit by which new files of a folder get the folder's group.
const SET_GROUP_ID: u32 = 0o2000;

/// The operating system's generator.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Entropy for System {
    fn fill(&mut self, octets: &mut [u8]) -> Result<(), NoRandomness> {
        SystemRandom::new().fill(octets).map_err(|_| NoRandomness)
    }
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFile {
    /// The content of the file is no key.
    #[error("{0}")]
    Malformed(#[from] NoKey),
    /// Another user owns the file, and may read and change it.
    #[error("it belongs to user {owner}, who may read and change it: chown it to {}", said(*.user))]
    Foreign {
        /// Owner of the file.
        owner: u32,
        /// Who reads it.
        user: u32,
    },
    /// The file holds more than a key.
    #[error("longer than {LONGEST} octets: a file with nothing but a key is wanted")]
    Long,
    /// Others than its owner may read or change it.
    #[error("others than its owner may read or change it (mode {mode:04o}): chmod 600")]
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// The gateway's user may not read it, as a service that is never root.
    #[error("user {user} may not read it: as root, `{remedy}`")]
    Forbidden {
        /// The user who reads the file.
        user: u32,
        /// The command that makes the file readable for this user.
        remedy: String,
    },
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct BadKeyFile {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub why: KeyFile,
}

impl KeyFile {
    /// Whether the file is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a file that holds a key in base64.
///
/// # Errors
/// When it cannot be read, holds no key, or others may read it.
pub fn read<Key: FromStr<Err = NoKey>>(path: &Path) -> Result<Key, KeyFile> {
    let mut text = Zeroizing::new(String::with_capacity(LONGEST + 1));
    let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
    open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() > LONGEST {
        return Err(KeyFile::Long);
    }
    Ok(text.parse()?)
}

/// Opens a file with a secret, which belongs to whoever runs this or to root, and to nobody else. The private group of
/// the gateway's user may read it: root's keys for a gateway that is never root.
///
/// # Errors
/// When others may read or change it, or it cannot be opened.
pub fn open(path: &Path) -> Result<File, KeyFile> {
    let file = files::open(path).map_err(|error| match error.raw_os_error() {
        Some(EACCES) => forbidden(path),
        _ => error.into(),
    })?;
    // Of the file that is read, should the name be another's by now.
    let metadata = file.metadata()?;
    let is_own_group = || own_group() == Some(metadata.gid());
    is_private(metadata.mode() & 0o7777, metadata.uid(), geteuid().as_raw(), is_own_group)?;
    Ok(file)
}

/// Says how this user may read a key of root's.
fn forbidden(path: &Path) -> KeyFile {
    let (user, path) = (geteuid().as_raw(), path.display());
    let group = own_group().and_then(|group| Group::from_gid(Gid::from_raw(group)).ok()?);
    let remedy = match group {
        Some(group) => format!("chgrp {} {path} && chmod 640 {path}", group.name),
        None => format!("chown {user} {path}"),
    };
    KeyFile::Forbidden { user, remedy }
}

/// Names the owners allowed for a file that this user reads.
fn said(user: u32) -> String {
    match user {
        0 => "root: it is read by root, whoever the gateway is later".to_owned(),
        user => format!("{user} or root"),
    }
}

/// The private group of the gateway's user; a gateway started by root takes the user it becomes later.
fn own_group() -> Option<u32> {
    let user = match geteuid() {
        user if user.is_root() => User::from_name(account::USUAL).ok()??.uid,
        user => user,
    };
    trust::private_group(user).map(Gid::as_raw)
}

/// The permissions of the file's group count as the user's own if `is_own_group`, which is asked where it matters: it
/// looks through all accounts. The group may only read.
fn is_private(
    mode: u32,
    owner: u32,
    user: u32,
    is_own_group: impl FnOnce() -> bool,
) -> Result<(), KeyFile> {
    if mode & 0o037 != 0 || (mode & 0o077 != 0 && !is_own_group()) {
        return Err(KeyFile::Open { mode });
    }
    if owner == 0 || owner == user { Ok(()) } else { Err(KeyFile::Foreign { owner, user }) }
}

/// Writes a key as text to a new file that only its owner reads, mode 0600. In a folder that gives its files the
/// private group of the gateway's user (set-group-ID, as `/etc/trackway`), this group reads it too, mode 0640.
///
/// # Errors
/// When the file exists already or cannot be written.
pub fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // A file without its key would be in the way of the next attempt.
    fill(file, path, key).inspect_err(|_| drop(fs::remove_file(path)))
}

fn fill(mut file: File, path: &Path, key: &str) -> io::Result<()> {
    writeln!(file, "{key}")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let gives_group = fs::metadata(folder.unwrap_or(Path::new(".")))?.mode() & SET_GROUP_ID != 0;
    if gives_group && own_group() == Some(file.metadata()?.gid()) {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use tunnel::secure::PrivateKey;

    use super::*;

    #[test]
    fn a_key_file_is_its_owners_alone() {
        let path = std::env::temp_dir().join(format!("trackway-key-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let key = PrivateKey::generate(&mut System).unwrap();

        write_new(&path, &key.to_base64()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let kept = read::<PrivateKey>(&path);
        let twice = write_new(&path, &key.to_base64());
        let open = [0o644, 0o604, 0o620, 0o610].map(|mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read::<PrivateKey>(&path)
        });
        fs::remove_file(&path).unwrap();

        assert_eq!(mode, 0o600);
        assert_eq!(kept.unwrap(), key);
        assert_eq!(twice.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        for open in open {
            assert!(matches!(open, Err(KeyFile::Open { .. })), "{open:?}");
        }
    }

    #[test]
    fn a_long_file_is_no_key_file_even_if_it_begins_with_a_key() {
        let path = std::env::temp_dir().join(format!("trackway-long-key-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let key = PrivateKey::generate(&mut System).unwrap().to_base64();
        write_new(&path, &format!("{key}{}", " ".repeat(LONGEST - key.len() - 1))).unwrap();
        let fits = read::<PrivateKey>(&path);
        fs::remove_file(&path).unwrap();
        write_new(&path, &format!("{key}{}another", "\n".repeat(LONGEST))).unwrap();
        let long = read::<PrivateKey>(&path);
        fs::remove_file(&path).unwrap();

        assert!(fits.is_ok(), "{fits:?}");
        assert!(matches!(long, Err(KeyFile::Long)), "{long:?}");
    }

    #[test]
    fn the_group_of_the_gateways_user_reads_a_key_and_does_no_more() {
        let allowed = |mode, is_own_group| is_private(mode, 0, 1000, || is_own_group).is_ok();

        assert_eq!([0o640, 0o440, 0o600].map(|mode| allowed(mode, true)), [true; 3]);
        assert_eq!([0o660, 0o650, 0o644, 0o641].map(|mode| allowed(mode, true)), [false; 4]);
        assert!(!allowed(0o640, false));
    }

    #[test]
    fn a_key_file_of_another_user_is_refused() {
        assert!(is_private(0o600, 0, 1000, || false).is_ok());
        assert!(is_private(0o400, 1000, 1000, || false).is_ok());
        for (owner, user, remedy) in [
            (1001, 1000, "chown it to 1000 or root"),
            (1000, 0, "chown it to root: it is read by root"),
        ] {
            let refused = is_private(0o600, owner, user, || false).unwrap_err().to_string();
            assert!(refused.contains(&format!("user {owner}")), "{refused}");
            assert!(refused.contains(remedy), "{refused}");
        }
    }
}
