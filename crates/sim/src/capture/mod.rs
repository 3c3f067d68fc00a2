//! Packets written to pcapng files that other tools open.

mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use proto::time::Time;

pub use pcapng::{Direction, LinkType};

/// A capture file.
///
/// An error while writing ends the capture, not the run; [`Capture::finish`] tells of it.
#[derive(Debug)]
pub struct Capture {
    file: BufWriter<File>,
    interfaces: u32,
    block: Vec<u8>,
    failed: Option<io::Error>,
}

impl Capture {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut capture = Self {
            file: BufWriter::new(File::create(path)?),
            interfaces: 0,
            block: Vec::new(),
            failed: None,
        };
        pcapng::section_header(&mut capture.block);
        capture.flush_block();
        Ok(capture)
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
    /// What went wrong, now or before.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }

    fn flush_block(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.block).err();
        }
        self.block.clear();
    }
}
