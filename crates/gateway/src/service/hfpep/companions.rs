//! A file with this process's epoch and the nodes that have streams with it. It survives a crash: the next process
//! greets those nodes as its successor, and they reset the streams of the crashed process at once.
//!
//! ```text
//!   epoch 4711             of the writing process
//!   0.10.20.31 815         a node, and its process's epoch once known
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::time::{Time, earliest};
use hf::s5066::Address;
use host::run::{NOTES, folder};
use nix::libc;
use nix::unistd::Uid;
use tracing::debug;

use crate::config::HfPep;

/// Until a node with which there is no stream any more leaves the file.
const TIDY: Duration = Duration::from_secs(60);
/// Until we look which process is at a node.
const LEARN: Duration = Duration::from_secs(2);
/// Most nodes in the file, as many as may have streams.
const MOST: usize = 1_024;
/// Most octets of the file; there is no need to read more.
const LONGEST: u64 = 32 << 10;

/// Nodes, each with the epoch of its process if known.
type Nodes = BTreeMap<Address, Option<u16>>;

/// The file and its content.
#[derive(Debug)]
pub struct Companions {
    path: PathBuf,
    /// Once something was written.
    file: Option<File>,
    /// Of this process.
    epoch: u16,
    nodes: Nodes,
    /// Nodes with streams of an earlier process of ours, until they are told.
    before: Nodes,
    tidy_at: Option<Time>,
    learn_at: Option<Time>,
}

/// What a process has left.
#[derive(Debug, Default)]
struct Left {
    epoch: Option<u16>,
    nodes: Nodes,
}

impl Companions {
    /// Reads the file of the previous process, and the epoch of that process; `None` where nothing goes over HF.
    pub fn open(config: &HfPep) -> Option<(Self, Option<u16>)> {
        let name = format!("{}{}-{}", NOTES[1], config.server?, config.parameters.slep.sap);
        Some(Self::at(folder().join(name)))
    }

    fn at(path: PathBuf) -> (Self, Option<u16>) {
        let Left { epoch, nodes } = read(&path).map(|said| Left::parse(&said)).unwrap_or_default();
        let before = nodes.clone();
        let (tidy_at, learn_at) = (None, None);
        (Self { path, file: None, epoch: 0, nodes, before, tidy_at, learn_at }, epoch)
    }

    /// Sets this process's epoch. The file belongs to this process from now on, and passes to its successor.
    pub fn begin(&mut self, epoch: u16) {
        self.epoch = epoch;
        if !self.nodes.is_empty() {
            self.write();
        }
    }

    /// The processes that were at the nodes to greet.
    pub fn processes(&self) -> impl Iterator<Item = (Address, u16)> {
        self.before.iter().filter_map(|(node, process)| Some((*node, (*process)?)))
    }

    /// The nodes to greet after a start; empty from the second call on.
    pub fn take_before(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.before).into_keys().collect()
    }

    /// There is a stream with a node, or soon will be.
    pub fn add(&mut self, now: Time, node: Address) {
        if self.nodes.len() < MOST && !self.nodes.contains_key(&node) {
            self.nodes.insert(node, None);
            self.write();
        }
        if self.nodes.get(&node) == Some(&None) {
            self.learn_at.get_or_insert(now + LEARN);
        }
        self.tidy_at.get_or_insert(now + TIDY);
    }

    /// When [`Self::follow`] is to be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.tidy_at, self.learn_at)
    }

    /// Takes the nodes with streams now, and the processes at these nodes.
    pub fn follow(&mut self, now: Time, nodes: impl Iterator<Item = (Address, Option<u16>)>) {
        let nodes: Nodes = nodes.take(MOST).collect();
        self.learn_at.take_if(|at| *at <= now);
        let mut all = self.nodes.clone();
        for (node, process) in &nodes {
            if let Some(known) = all.get_mut(node).filter(|_| process.is_some()) {
                *known = *process;
            }
        }
        if self.tidy_at.is_none_or(|at| at <= now) {
            // Who has not been told yet stays.
            all.retain(|node, _| nodes.contains_key(node) || self.before.contains_key(node));
            for (node, process) in nodes {
                all.entry(node).or_insert(process);
            }
            self.tidy_at = (!all.is_empty()).then(|| now + TIDY);
        }
        if all != self.nodes {
            self.nodes = all;
            self.write();
        }
    }

    /// Takes all nodes with streams when the process ends by itself.
    pub fn end(&mut self, now: Time, nodes: impl Iterator<Item = (Address, Option<u16>)>) {
        self.tidy_at = None;
        self.follow(now, nodes);
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
            // An existing file is never written to, as it may be a link.
            let _ = fs::remove_file(&self.path);
            let mut options = OpenOptions::new();
            let made = options.write(true).create_new(true).mode(0o600).open(&self.path)?;
            self.file = Some(made);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let mut lines = format!("epoch {}\n", self.epoch);
        for (node, process) in &self.nodes {
            let process = process.map_or(String::new(), |process| format!(" {process}"));
            let _ = writeln!(lines, "{node}{process}");
        }
        file.write_all_at(lines.as_bytes(), 0)?;
        file.set_len(lines.len() as u64)
    }
}

impl Left {
    /// What cannot be read was cut short, or written by somebody else: it is passed over.
    fn parse(said: &str) -> Self {
        let mut left = Self::default();
        for line in said.lines() {
            let (name, number) = line.split_once(' ').unwrap_or((line, ""));
            let number = number.parse().ok();
            if name == "epoch" {
                left.epoch = number;
            } else if let Ok(node) = name.parse()
                && left.nodes.len() < MOST
            {
                left.nodes.insert(node, number);
            }
        }
        left
    }
}

/// Reads the file left by a process of this user.
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

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trackway-companions-{name}-{}", std::process::id()))
    }

    #[test]
    fn nodes_with_streams_outlive_a_crash_until_there_are_none() {
        let path = file("crash");
        let [one, two] = [1, 2].map(Address::node);

        let (mut first, before_first) = Companions::at(path.clone());
        first.begin(65_535);
        first.add(at(0), one);
        first.add(at(1), two);
        first.follow(at(2), [(one, None), (two, Some(7))].into_iter());
        first.follow(at(60), [(two, None)].into_iter());
        drop(first);
        let (mut second, before_second) = Companions::at(path.clone());
        second.begin(0);
        let processes: Vec<_> = second.processes().collect();
        // Who is not told yet stays.
        second.follow(at(0), std::iter::empty());
        let untold = read(&path).unwrap();
        let before = second.take_before();
        second.follow(at(60), std::iter::empty());

        assert_eq!((before_first, before_second), (None, Some(65_535)));
        assert_eq!((before, processes), (vec![two], vec![(two, 7)]));
        assert_eq!(untold, format!("epoch 0\n{two} 7\n"));
        assert!(!path.exists());
        assert_eq!(second.next_timeout(), None);
    }

    #[test]
    fn a_successor_that_crashes_before_it_says_anything_is_followed_too() {
        let path = file("twice");
        let (mut first, _) = Companions::at(path.clone());
        first.begin(10);
        first.add(at(0), Address::node(1));
        drop(first);

        let (mut second, _) = Companions::at(path.clone());
        second.begin(11);
        drop(second);
        let (third, predecessor) = Companions::at(path.clone());
        fs::remove_file(&path).unwrap();

        assert_eq!((predecessor, third.nodes.len()), (Some(11), 1));
    }

    #[test]
    fn what_an_earlier_version_has_left_and_what_is_cut_is_read_as_far_as_it_goes() {
        let left = Left::parse("0.0.0.7\nepoch x\n0.0.0.8 9\n0.0.0.9 99999\nnonsense\n0.0.");

        let nodes =
            [(Address::node(7), None), (Address::node(8), Some(9)), (Address::node(9), None)];
        assert_eq!((left.epoch, left.nodes), (None, nodes.into_iter().collect()));
    }

    #[test]
    fn a_link_is_not_read_and_not_written_to() {
        let [path, other] = ["link", "other"].map(file);
        fs::write(&other, "0.0.0.7\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();

        let (mut companions, _) = Companions::at(path.clone());
        let before = companions.take_before();
        companions.add(at(0), Address::node(1));
        let written = fs::read_to_string(&other).unwrap();
        fs::remove_file(&path).unwrap();
        fs::remove_file(&other).unwrap();

        assert_eq!((before, written.as_str()), (vec![], "0.0.0.7\n"));
    }
}
