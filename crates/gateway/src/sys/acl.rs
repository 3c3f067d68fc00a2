//! Access lists of files (POSIX ACLs): who may use a file without owning it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::libc;

/// Version and tags of the kernel's form (`linux/posix_acl_xattr.h`), the tags in its order.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
const NOBODY: u32 = u32::MAX;
const ENTRY: usize = 8;
/// Octets of a list at most: the kernel takes no longer values (`linux/limits.h`, `XATTR_SIZE_MAX`).
const LONGEST: usize = 65_536;
const NAME: &CStr = c"system.posix_acl_access";

/// Who may use a file; rights are the digits that `chmod` takes, 0 to 7.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessList(BTreeMap<(u16, u32), u16>);

impl AccessList {
    /// What `chmod` would give.
    #[must_use]
    pub fn of_mode(mode: u32) -> Self {
        let digit = |shift: u32| u16::try_from(mode >> shift & 7).unwrap_or_default();
        let entries = [(OWNER, digit(6)), (OWNING_GROUP, digit(3)), (OTHERS, digit(0))];
        Self(entries.map(|(tag, rights)| ((tag, NOBODY), rights)).into())
    }

    /// Reads the list of a file.
    ///
    /// # Errors
    /// When it cannot be read, or the file system has no such lists.
    pub fn read(path: &Path) -> io::Result<Self> {
        let name = name(path)?;
        let mut octets = [0; LONGEST];
        // SAFETY: both names end with a zero, and the kernel writes at most so many octets.
        let len = unsafe {
            libc::getxattr(name.as_ptr(), NAME.as_ptr(), octets.as_mut_ptr().cast(), octets.len())
        };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENODATA) => Ok(Self::of_mode(fs::metadata(path)?.mode())),
                _ => Err(error),
            };
        };
        let entries = octets[..len].get(VERSION.len()..).unwrap_or_default().chunks_exact(ENTRY);
        let read = |entry: &[u8]| {
            let [t, u, r, i, id @ ..] = *entry.first_chunk::<ENTRY>()?;
            let tag = u16::from_le_bytes([t, u]);
            Some(((tag, u32::from_le_bytes(id)), u16::from_le_bytes([r, i])))
        };
        Ok(Self(entries.filter_map(read).collect()))
    }

    /// Lets another user use the file, too.
    #[must_use]
    pub fn with_user(mut self, user: u32, rights: u16) -> Self {
        self.0.insert((USER, user), rights);
        self.masked()
    }

    /// Lets another group use the file, too.
    #[must_use]
    pub fn with_group(mut self, group: u32, rights: u16) -> Self {
        self.0.insert((GROUP, group), rights);
        self.masked()
    }

    /// Puts the list in force for a file of ours.
    ///
    /// # Errors
    /// When the file system has no such lists, or the file is another user's.
    pub fn set(&self, path: &Path) -> io::Result<()> {
        let (name, value) = (name(path)?, self.to_octets());
        // SAFETY: both names end with a zero, and `value` has as many octets as is said; the kernel
        // keeps no pointer.
        let outcome = unsafe {
            let octets = value.as_ptr().cast();
            libc::setxattr(name.as_ptr(), NAME.as_ptr(), octets, value.len(), 0)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The mask is what all but the owner and the others may have at most.
    fn masked(mut self) -> Self {
        self.0.remove(&(MASK, NOBODY));
        let is_masked = |tag: u16| [USER, OWNING_GROUP, GROUP].contains(&tag);
        let rights =
            self.0.iter().filter(|((tag, _), _)| is_masked(*tag)).map(|(_, rights)| rights);
        let mask = rights.fold(0, |mask, rights| mask | rights);
        self.0.insert((MASK, NOBODY), mask);
        self
    }

    fn to_octets(&self) -> Vec<u8> {
        let mut octets = VERSION.to_vec();
        for ((tag, whose), rights) in &self.0 {
            octets.extend_from_slice(&tag.to_le_bytes());
            octets.extend_from_slice(&rights.to_le_bytes());
            octets.extend_from_slice(&whose.to_le_bytes());
        }
        octets
    }
}

fn name(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn entries_stand_in_the_order_that_the_kernel_takes() {
        let list = AccessList::of_mode(0o704).with_group(1, 4).with_user(7, 6);

        let octets = list.to_octets();

        assert_eq!(octets[..4], [2, 0, 0, 0]);
        let entries: Vec<_> = octets[4..].chunks(8).map(|entry| (entry[0], entry[2])).collect();
        // What is the owner's alone does not widen the mask.
        assert_eq!(entries, [(1, 7), (2, 6), (4, 0), (8, 4), (16, 6), (32, 4)]);
    }
    #[test]
    fn a_list_is_read_as_it_was_set_and_a_file_without_one_has_its_mode() {
        let path = std::env::temp_dir().join(format!("trackway-acl-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

        let before = AccessList::read(&path);
        let wanted = AccessList::of_mode(0o640).with_user(64_999, 6).with_group(64_998, 1);
        let outcome = wanted.set(&path);
        let (after, mode) = (AccessList::read(&path), fs::metadata(&path).unwrap().mode());
        fs::remove_file(&path).unwrap();

        // Not every file system has such lists.
        if outcome.as_ref().is_err_and(|it| it.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            return;
        }
        outcome.unwrap();
        assert_eq!(before.unwrap(), AccessList::of_mode(0o640));
        assert_eq!(after.unwrap(), wanted);
        assert_eq!(mode & 0o777, 0o670, "the mask stands where the group's rights were");
    }
}
