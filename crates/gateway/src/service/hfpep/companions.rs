//! A file with the nodes that have streams with this process. It survives a crash: the next process greets those
//! nodes, which then reset the streams of the crashed process at once.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;
use nix::unistd::Uid;
use proto::s5066::Address;
use proto::time::Time;
use tracing::debug;

use crate::config::HfPep;
use crate::linux::belongings::{NOTES, folder};

/// Until a node with which there is no stream any more leaves the file.
const TIDY: Duration = Duration::from_secs(60);
/// Nodes in it at most, as many as streams may be with.
const MOST: usize = 1_024;
/// Octets of the file at most, of which there is no need to read more.
const LONGEST: u64 = 16 << 10;

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct Companions {
    path: PathBuf,
    /// Once something was written.
    file: Option<File>,
    nodes: BTreeSet<Address>,
    /// Those with which a process before this one had streams, until they are told.
    before: Vec<Address>,
    tidy_at: Option<Time>,
}

impl Companions {
    /// Reads what the process before has left; `None` where nothing goes over HF.
    pub(super) fn open(config: &HfPep) -> Option<Self> {
        let name = format!("{}{}-{}", NOTES[1], config.server?, config.parameters.slep.sap);
        let path = folder().join(name);
        let said = read(&path).unwrap_or_default();
        let nodes: BTreeSet<Address> =
            said.lines().take(MOST).filter_map(|line| line.parse().ok()).collect();
        let before = nodes.iter().copied().collect();
        Some(Self { path, file: None, nodes, before, tidy_at: None })
    }

    /// The nodes to greet after a start; empty from the second call on.
    pub(super) fn take_before(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.before)
    }

    /// There is a stream with a node, or soon will be.
    pub(super) fn add(&mut self, now: Time, node: Address) {
        if self.nodes.len() < MOST && self.nodes.insert(node) {
            self.write();
        }
        self.tidy_at.get_or_insert(now + TIDY);
    }

    /// When [`Self::follow`] is to be called next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.tidy_at
    }

    /// These are the nodes with which there are streams now.
    pub(super) fn follow(&mut self, now: Time, nodes: impl Iterator<Item = Address>) {
        let mut nodes: BTreeSet<Address> = nodes.take(MOST).collect();
        // Who has not been told yet stays.
        nodes.extend(self.before.iter().copied());
        self.tidy_at = (!nodes.is_empty()).then(|| now + TIDY);
        if nodes != self.nodes {
            self.nodes = nodes;
            self.write();
        }
    }

    fn write(&mut self) {
        if let Err(error) = self.try_write() {
            // After a crash, other nodes then learn of it only when their streams need an answer.
            debug!(%error, path = %self.path.display(), "cannot note which nodes there are streams with");
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        if self.nodes.is_empty() {
            self.file = None;
            return fs::remove_file(&self.path);
        }
        if self.file.is_none() {
            // Nothing that is there is written to: it may be a link.
            let _ = fs::remove_file(&self.path);
            let mut options = OpenOptions::new();
            let made = options.write(true).create_new(true).mode(0o600).open(&self.path)?;
            self.file = Some(made);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let lines: String = self.nodes.iter().map(|node| format!("{node}\n")).collect();
        file.write_all_at(lines.as_bytes(), 0)?;
        file.set_len(lines.len() as u64)
    }
}

/// What a process of this user has left.
fn read(path: &Path) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let is = file.metadata()?;
    if !is.is_file() || is.uid() != Uid::effective().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn open(path: &Path) -> Companions {
        let nodes: BTreeSet<Address> =
            read(path).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect();
        let before = nodes.iter().copied().collect();
        Companions { path: path.to_owned(), file: None, nodes, before, tidy_at: None }
    }

    #[test]
    fn nodes_with_streams_outlive_a_crash_until_there_are_none() {
        let path = std::env::temp_dir().join(format!("trackway-companions-{}", std::process::id()));
        let [one, two] = [1, 2].map(Address::node);

        let mut first = open(&path);
        first.add(at(0), one);
        first.add(at(1), two);
        first.follow(at(60), [two].into_iter());
        drop(first);
        let mut second = open(&path);
        // Who is not told yet stays.
        second.follow(at(0), std::iter::empty());
        let untold = read(&path).unwrap();
        let before = second.take_before();
        second.follow(at(60), std::iter::empty());

        assert_eq!((before, untold), (vec![two], format!("{two}\n")));
        assert!(!path.exists());
        assert_eq!(second.next_timeout(), None);
    }

    #[test]
    fn a_link_is_not_read_and_not_written_to() {
        let folder = std::env::temp_dir();
        let [path, other] = ["link", "other"]
            .map(|name| folder.join(format!("trackway-companions-{name}-{}", std::process::id())));
        fs::write(&other, "0.0.0.7\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();

        let mut companions = open(&path);
        let before = companions.take_before();
        companions.add(at(0), Address::node(1));
        let written = fs::read_to_string(&other).unwrap();
        fs::remove_file(&path).unwrap();
        fs::remove_file(&other).unwrap();

        assert_eq!((before, written.as_str()), (vec![], "0.0.0.7\n"));
    }
}
