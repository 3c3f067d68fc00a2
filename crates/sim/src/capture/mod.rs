//! Packets written to pcapng files that other tools open.

mod pcapng;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use proto::time::Time;

pub(crate) use pcapng::Direction;

/// A capture file.
///
/// An error while writing ends the capture, not the run; [`Capture::finish`] tells of it.
#[derive(Debug)]
pub(crate) struct Capture {
    file: BufWriter<File>,
    interfaces: u32,
    block: Vec<u8>,
    failed: Option<io::Error>,
}

impl Capture {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
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
    pub(crate) fn add_interface(&mut self, name: &str) -> u32 {
        pcapng::interface(name, &mut self.block);
        self.flush_block();
        self.interfaces += 1;
        self.interfaces - 1
    }

    pub(crate) fn write(&mut self, now: Time, interface: u32, direction: Direction, packet: &[u8]) {
        pcapng::packet(now, interface, direction, packet, &mut self.block);
        self.flush_block();
    }

    /// Writes out what is buffered.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
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
