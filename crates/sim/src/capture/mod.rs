//! Writes packets to pcapng files, readable by other tools.

mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base::time::Time;

use whole::{WholeFile, grow_private};

pub use pcapng::{Direction, LinkType};

/// A capture file.
///
/// An error while writing ends the capture, not the run; [`Capture::finish`] returns the error.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    file: Output,
    interfaces: u32,
    block: Vec<u8>,
    failed: Option<io::Error>,
}

/// Where a capture goes.
#[derive(Debug)]
enum Output {
    /// Into the file, which others may read meanwhile.
    Growing(BufWriter<File>),
    /// Into a file that appears when the capture is finished; none from then on.
    Whole(Option<WholeFile>),
}

impl Output {
    fn write_all(&mut self, octets: &[u8]) -> io::Result<()> {
        match self {
            Self::Growing(file) => file.write_all(octets),
            Self::Whole(Some(file)) => file.write_all(octets),
            // It has its name already, and what comes after the end belongs to nobody.
            Self::Whole(None) => Ok(()),
        }
    }
}

impl Capture {
    /// Creates the file, readable by its owner alone; the file grows during the capture, for live viewing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(path, Output::Growing(BufWriter::new(grow_private(path)?))))
    }

    /// A file for its owner alone that appears when the capture is finished, and not at all unless it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create_whole(path: &Path) -> io::Result<Self> {
        let file = WholeFile::create_private(path).map_err(|why| of(path, &why))?;
        Ok(Self::new(path, Output::Whole(Some(file))))
    }

    fn new(path: &Path, file: Output) -> Self {
        let mut capture =
            Self { path: path.to_owned(), file, interfaces: 0, block: Vec::new(), failed: None };
        pcapng::section_header(&mut capture.block);
        capture.flush_block();
        capture
    }

    /// Adds an interface and returns its number; before the first packet.
    pub fn add_interface(&mut self, name: &str, carries: LinkType) -> u32 {
        pcapng::interface(name, carries, &mut self.block);
        self.flush_block();
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Adds what passed an interface at this time.
    pub fn write(&mut self, now: Time, interface: u32, direction: Direction, packet: &[u8]) {
        pcapng::packet(now, interface, direction, packet, &mut self.block);
        self.flush_block();
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// An error of this or an earlier write, with the file's path.
    pub fn finish(&mut self) -> io::Result<()> {
        let finished = match (self.failed.take(), &mut self.file) {
            (Some(error), file) => {
                if let Output::Whole(unfinished) = file {
                    *unfinished = None;
                }
                Err(error)
            }
            (None, Output::Growing(file)) => file.flush(),
            (None, Output::Whole(file)) => file.take().map_or(Ok(()), WholeFile::finish),
        };
        finished.map_err(|why| of(&self.path, &why))
    }

    fn flush_block(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.block).err();
        }
        self.block.clear();
    }
}

/// The error with the file that it is about.
fn of(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_carried_is_for_the_owner_of_the_capture_alone() {
        let folder = std::env::temp_dir().join(format!("trackway-captures-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let paths = ["grown.pcapng", "whole.pcapng"].map(|name| folder.join(name));

        Capture::create(&paths[0]).unwrap().finish().unwrap();
        Capture::create_whole(&paths[1]).unwrap().finish().unwrap();
        let modes =
            paths.each_ref().map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(modes, [0o600; 2]);
    }
}
