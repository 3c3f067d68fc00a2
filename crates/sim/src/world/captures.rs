//! Sets up and finishes capture files of nodes and links.

use std::fs;
use std::io;
use std::path::Path;

use super::World;
use crate::capture::{Capture, LinkType};
use crate::ids::{LinkId, NodeId, PortId};

impl World {
    /// Captures what passes the interfaces of a node into `folder`/`name`.pcapng.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn capture_node(&mut self, node: NodeId, folder: &Path) -> io::Result<()> {
        let file = format!("{}.pcapng", self.name(node));
        let ports: Vec<_> =
            self.nodes[node.index()].interfaces.iter().map(|interface| interface.port).collect();
        self.capture(folder, &file, &ports)
    }

    /// Captures what both ends of a link send and receive into `folder`/`a-b.pcapng`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn capture_link(&mut self, link: LinkId, folder: &Path) -> io::Result<()> {
        let ends = self.links[link.index()];
        let [a, b] = ends.map(|end| self.name(self.node_of(end)));
        let file = format!("{a}-{b}-{}.pcapng", link.index());
        self.capture(folder, &file, &ends)
    }

    /// Finishes all captures: their files appear only now.
    ///
    /// # Errors
    /// When a capture could not be written, now or earlier.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        let mut all = Ok(());
        // One failure must not keep the other captures from being finished.
        for capture in &mut self.engine.captures {
            let finished = capture.finish();
            all = all.and(finished);
        }
        all
    }

    /// Makes a capture file with an interface of each name; returns its place in the engine.
    pub(crate) fn add_capture(
        &mut self,
        folder: &Path,
        file: &str,
        names: &[String],
        carries: LinkType,
    ) -> io::Result<usize> {
        fs::create_dir_all(folder)?;
        let mut capture = Capture::create_whole(&folder.join(file))?;
        for name in names {
            capture.add_interface(name, carries);
        }
        self.engine.captures.push(capture);
        Ok(self.engine.captures.len() - 1)
    }

    fn capture(&mut self, folder: &Path, file: &str, ports: &[PortId]) -> io::Result<()> {
        let names = ports.iter().map(|port| {
            format!("{}:{}", self.name(self.node_of(*port)), self.interface(*port).name)
        });
        let names: Vec<_> = names.collect();
        let capture = self.add_capture(folder, file, &names, LinkType::Ip)?;
        for (port, number) in ports.iter().zip(0..) {
            self.engine.ports[port.index()].captures.push((capture, number));
        }
        Ok(())
    }
}
