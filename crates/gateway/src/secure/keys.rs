//! Keys: 32 octets, base64 in files that only their owner reads.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::noise;

const LEN: usize = 32;

/// A gateway's secret: an X25519 private key.
#[derive(Clone, Eq, PartialEq)]
pub struct PrivateKey([u8; LEN]);

/// What a gateway is known by: an X25519 public key. Written as 44 letters of base64.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PublicKey([u8; LEN]);

/// A secret that two peers share besides their keys; all zero is none.
#[derive(Clone, Eq, PartialEq)]
pub struct PresharedKey([u8; LEN]);

/// A secret that all gateways of a network share, whose neighbours know each other by it.
#[derive(Clone, Eq, PartialEq)]
pub struct GroupKey([u8; LEN]);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoKey {
    /// Not base64, or of another length.
    #[error("not a key: 32 octets in base64, 44 letters of which the last is `=`")]
    Malformed,
    /// A public key with which nothing can be agreed on, or a secret that is none.
    #[error("the key of nobody: all its octets are zero")]
    Zero,
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

impl PrivateKey {
    /// A new key from the operating system's generator.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn generate() -> io::Result<Self> {
        let mut octets = random()?;
        // RFC 7748, 5: so that the file says what is computed with.
        octets[0] &= 0xf8;
        octets[31] = (octets[31] & 0x7f) | 0x40;
        Ok(Self(octets))
    }

    /// Reads a file that holds a key in base64.
    ///
    /// # Errors
    /// When it cannot be read, holds no key, or is open to everyone.
    pub fn read(path: &Path) -> Result<Self, KeyFile> {
        read(path).map(Self)
    }

    /// Writes a new file that only its owner reads, mode 0600.
    ///
    /// # Errors
    /// When there is such a file already, or it cannot be written.
    pub fn write_new(&self, path: &Path) -> io::Result<()> {
        write_new(path, &self.to_base64())
    }

    /// The secret in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// What others know this key by.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(noise::public_key(&self.0))
    }

    pub(super) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for PrivateKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(secret)")
    }
}

impl PublicKey {
    pub(super) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }

    pub(super) fn from_octets(octets: [u8; LEN]) -> Self {
        Self(octets)
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        match decode(text)? {
            [0, rest @ ..] if rest == [0; LEN - 1] => Err(NoKey::Zero),
            octets => Ok(Self(octets)),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PresharedKey {
    /// No secret besides the keys.
    pub(super) const NONE: Self = Self([0; LEN]);

    /// Reads a file that holds a key in base64.
    ///
    /// # Errors
    /// When it cannot be read, holds no key, or is open to everyone.
    pub fn read(path: &Path) -> Result<Self, KeyFile> {
        read(path).map(Self)
    }

    pub(super) fn octets(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for PresharedKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(secret)")
    }
}

impl GroupKey {
    /// A new key from the operating system's generator.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    pub fn generate() -> io::Result<Self> {
        random().map(Self)
    }

    /// Reads a file that holds a key in base64.
    ///
    /// # Errors
    /// When it cannot be read, holds no key, or is open to everyone.
    pub fn read(path: &Path) -> Result<Self, KeyFile> {
        match read(path)? {
            octets if octets == [0; LEN] => Err(KeyFile::Malformed(NoKey::Zero)),
            octets => Ok(Self(octets)),
        }
    }

    /// Writes a new file that only its owner reads, mode 0600.
    ///
    /// # Errors
    /// When there is such a file already, or it cannot be written.
    pub fn write_new(&self, path: &Path) -> io::Result<()> {
        write_new(path, &self.to_base64())
    }

    /// The secret in base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// What HBH uses of it.
    #[must_use]
    pub fn derive(&self) -> proto::hbh::auth::GroupKey {
        proto::hbh::auth::GroupKey::new(&self.0)
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey(secret)")
    }
}

/// Octets that nobody can foresee.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| io::Error::other("the operating system gives no randomness"))?;
    Ok(octets)
}

fn read(path: &Path) -> Result<[u8; LEN], KeyFile> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        return Err(KeyFile::Open { mode });
    }
    Ok(decode(&fs::read_to_string(path)?)?)
}

fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

fn decode(text: &str) -> Result<[u8; LEN], NoKey> {
    let octets = STANDARD.decode(text.trim()).map_err(|_| NoKey::Malformed)?;
    octets.try_into().map_err(|_| NoKey::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, 6.1: Alice's keys.
    #[test]
    fn the_public_key_is_that_of_x25519() {
        let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

        let key: PrivateKey = private.parse().unwrap();

        assert_eq!(key.public_key().to_string(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
        assert_eq!(format!("{key:?}"), "PrivateKey(secret)");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let zero = STANDARD.encode([0; LEN]);

        for text in ["", "abc", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm==", &"A".repeat(44)] {
            assert_eq!(text.parse::<PublicKey>(), Err(NoKey::Malformed), "{text}");
        }
        assert_eq!(zero.parse::<PublicKey>(), Err(NoKey::Zero));
    }

    #[test]
    fn a_key_file_is_its_owners_alone() {
        let path = std::env::temp_dir().join(format!("trackway-key-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let key = PrivateKey::generate().unwrap();

        key.write_new(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let read = PrivateKey::read(&path);
        let twice = key.write_new(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let open = PrivateKey::read(&path);
        fs::remove_file(&path).unwrap();

        assert_eq!(mode, 0o600);
        assert_eq!(read.unwrap(), key);
        assert_eq!(twice.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(matches!(open, Err(KeyFile::Open { mode: 0o644 })), "{open:?}");
    }
}
