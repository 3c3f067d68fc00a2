//! Keys in files that only their owner reads, and secrets from the operating system.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;

use proto::secure::{Entropy, NoKey, NoRandomness};
use ring::rand::{SecureRandom as _, SystemRandom};

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
    /// What it holds is no key.
    #[error("{0}")]
    Malformed(#[from] NoKey),
    /// Everyone may read or change it.
    #[error("everyone may read or change it (mode {mode:04o}): chmod 600")]
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

impl KeyFile {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a file that holds a key in base64.
///
/// # Errors
/// When it cannot be read, holds no key, or is open to everyone.
pub fn read<Key: FromStr<Err = NoKey>>(path: &Path) -> Result<Key, KeyFile> {
    refuse_open(path)?;
    Ok(fs::read_to_string(path)?.parse()?)
}

/// Refuses a key file that is open to everyone.
///
/// # Errors
/// When it is, or is not there.
pub fn refuse_open(path: &Path) -> Result<(), KeyFile> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & 0o007 == 0 { Ok(()) } else { Err(KeyFile::Open { mode }) }
}

/// Writes a key as text to a new file that only its owner reads, mode 0600.
///
/// # Errors
/// When there is such a file already, or it cannot be written.
pub fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use proto::secure::PrivateKey;

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
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let open = read::<PrivateKey>(&path);
        fs::remove_file(&path).unwrap();

        assert_eq!(mode, 0o600);
        assert_eq!(kept.unwrap(), key);
        assert_eq!(twice.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(matches!(open, Err(KeyFile::Open { mode: 0o644 })), "{open:?}");
    }
}
