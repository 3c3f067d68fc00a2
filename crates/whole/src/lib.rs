//! Writes files whole or not at all: under a temporary name first, then renamed when everything is written.
//!
//! A full disk, a crash or a signal then leaves the previous file, never half of a file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The mode before the umask is applied.
const PUBLIC: u32 = 0o666;
const PRIVATE: u32 = 0o600;
/// The longest chain of links to follow, as in Linux (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Temporary names of the files that this process has begun and not finished.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that appears under its name only when finished; a file dropped earlier leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// The temporary name; `None` for a device or a pipe, where writing has an effect at once.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file.
    ///
    /// # Errors
    /// When the file cannot be created in its folder, or another user's link is in its place.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, PUBLIC)
    }

    /// Begins a file readable by its owner alone, such as a record of other people's messages.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_private(path: &Path) -> io::Result<Self> {
        Self::begin(path, PRIVATE)
    }

    fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        let path = followed(path)?;
        if is_other(&path) {
            // Opening refuses a folder; a device or a pipe is written directly.
            let file = BufWriter::new(File::options().write(true).open(&path)?);
            return Ok(Self { path, file, temporary: None });
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let mut unfinished = unfinished();
        let file = BufWriter::new(make_new(&temporary, mode)?);
        unfinished.insert(temporary.clone());
        drop(unfinished);
        Ok(Self { path, file, temporary: Some(temporary) })
    }

    /// Gives the file its name, after all content has reached the disk.
    ///
    /// # Errors
    /// When not everything could be written: the previous file stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        let mut unfinished = unfinished();
        fs::rename(temporary, &self.path)?;
        unfinished.remove(temporary);
        drop(unfinished);
        self.temporary = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let mut unfinished = unfinished();
            // The temporary file may be gone with its folder.
            let _ = fs::remove_file(temporary);
            unfinished.remove(temporary);
        }
    }
}

/// Writes a file whole, or leaves the previous file.
///
/// # Errors
/// When the file cannot be written.
pub fn write_whole(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(contents.as_ref())?;
    file.finish()
}

/// Writes a whole file readable by its owner alone, or leaves the previous file.
///
/// # Errors
/// When the file cannot be written.
pub fn write_private(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create_private(path)?;
    file.write_all(contents.as_ref())?;
    file.finish()
}

/// Writes a file anew whole, or leaves the previous file. Owner, group and mode are those of the previous file.
///
/// # Errors
/// When there is none, or the file cannot be written, or not with its owner.
pub fn write_over(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let before = fs::metadata(path)?;
    let mut file = WholeFile::create_private(path)?;
    file.write_all(contents.as_ref())?;
    let now = file.file.get_ref().metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        fchown(file.file.get_ref(), Some(before.uid()), Some(before.gid()))?;
    }
    file.file.get_ref().set_permissions(before.permissions())?;
    file.finish()
}

/// Creates a file readable by its owner alone and replaces an existing one; opens a device or a pipe. For captures,
/// which grow while a user watches them.
///
/// # Errors
/// When the file cannot be created in its folder, or another user's link is in its place.
pub fn grow_private(path: &Path) -> io::Result<File> {
    let path = followed(path)?;
    if is_other(&path) {
        return File::options().write(true).open(path);
    }
    make_new(&path, PRIVATE)
}

/// Removes all unfinished files, for a program that a signal is about to end. Afterwards no file is begun or finished.
pub fn discard_unfinished() {
    let unfinished = unfinished();
    for temporary in &*unfinished {
        let _ = fs::remove_file(temporary);
    }
    // The lock is never released: other writers wait until the program has ended.
    std::mem::forget(unfinished);
}

/// Resolves a path that is a link. Links of other users could make us replace any of our files: only our own links and
/// root's are followed.
fn followed(path: &Path) -> io::Result<PathBuf> {
    // Our user: the owner of our process.
    let ours = fs::metadata("/proc/self").map_or(0, |it| it.uid());
    let mut step = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(is) = fs::symlink_metadata(&step) else { break };
        if !is.is_symlink() {
            break;
        }
        if ![0, ours].contains(&is.uid()) {
            let why =
                format!("{} is a link of user {}, which is not followed", step.display(), is.uid());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        step = step.parent().unwrap_or(Path::new("")).join(fs::read_link(&step)?);
    }
    // The link stays; the file behind the link is replaced.
    Ok(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
}

/// Whether a path leads to a folder, a device or a pipe.
fn is_other(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file())
}

/// Creates a new file, never through a link; first removes a file left by an earlier process with our number.
fn make_new(path: &Path, mode: u32) -> io::Result<File> {
    let make = || File::options().write(true).create_new(true).mode(mode).open(path);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            make()
        }
        made => made,
    }
}

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("trackway-whole-{}-{name}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            fs::create_dir_all(&folder.0).unwrap();
            folder
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was_before() {
        let folder = Folder::new("before");
        let path = folder.0.join("figure.csv");
        write_whole(&path, "before").unwrap();

        let mut half = WholeFile::create(&path).unwrap();
        half.write_all(&[b'x'; 100_000]).unwrap();
        half.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(half);

        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(folder.names(), ["figure.csv"]);
        write_whole(&path, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
    }

    #[test]
    fn a_private_file_is_its_owners_and_replaces_what_others_could_read() {
        let folder = Folder::new("private");
        let paths = ["whole", "grown"].map(|name| folder.0.join(name));
        for path in &paths {
            write_whole(path, "others may read this").unwrap();
        }
        let modes = || paths.each_ref().map(|path| fs::metadata(path).unwrap().mode() & 0o777);
        let before = modes();

        write_private(&paths[0], "mine").unwrap();
        grow_private(&paths[1]).unwrap().write_all(b"mine").unwrap();

        assert!(before.iter().all(|mode| *mode != 0o600), "{before:?}");
        assert_eq!(modes(), [0o600; 2]);
        assert!(paths.iter().all(|path| fs::read_to_string(path).unwrap() == "mine"));
    }

    #[test]
    fn a_file_that_is_written_over_keeps_its_mode_and_is_not_made_anew() {
        let folder = Folder::new("over");
        let path = folder.0.join("node.toml");
        assert!(write_over(&path, "new").is_err());
        write_whole(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

        write_over(&path, "after").unwrap();

        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(folder.names(), ["node.toml"]);
    }

    #[test]
    fn links_of_others_are_not_followed() {
        const STRANGER: u32 = 64_999;
        let folder = Folder::new("links");
        let names = ["file", "link", ".link.part", "far"].map(|name| folder.0.join(name));
        let [file, link, planted, far] = &names;
        write_whole(file, "before").unwrap();
        // Somebody has guessed the temporary name and planted a link there.
        let planted = planted.with_file_name(format!(".link.{}.part", std::process::id()));
        for name in [link, &planted] {
            std::os::unix::fs::symlink(file, name).unwrap();
        }
        std::os::unix::fs::symlink(link, far).unwrap();
        fs::remove_file(link).unwrap();
        write_whole(link, "after").unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "before");
        fs::remove_file(link).unwrap();
        std::os::unix::fs::symlink(file, link).unwrap();
        if std::os::unix::fs::lchown(link, Some(STRANGER), None).is_err() {
            println!("skipped: giving a link to another user needs root");
            return;
        }

        for path in [link, far] {
            for refused in [write_whole(path, "after"), grow_private(path).map(drop)] {
                let refused = refused.unwrap_err().to_string();
                assert!(
                    refused.contains("is a link of user 64999, which is not followed"),
                    "{refused}"
                );
            }
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "before");
    }

    #[test]
    fn a_full_device_is_an_error_and_a_link_stays_one() {
        let full = write_whole(Path::new("/dev/full"), "anything").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);

        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        write_whole(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, "after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
