//! What leaves HBH here: into the kernel, as if `trackway0` had received it.

use crate::counters::Counters;
use crate::frame::{self, Mac};
use crate::offload;
use crate::sys::Tap;

/// The device, and the frame on its way into it.
pub(super) struct Release {
    tap: Tap,
    mac: Mac,
    frame: Vec<u8>,
}

/// The station that all frames into the device seem to come from.
const NEIGHBOUR: Mac = Mac([0x02, 0x74, 0x77, 0, 0, 1]);

impl Release {
    pub(super) fn new(tap: Tap, mac: Mac) -> Self {
        Self { tap, mac, frame: Vec::new() }
    }

    pub(super) fn device(&self) -> &Tap {
        &self.tap
    }

    /// Hands a packet to the kernel.
    pub(super) fn push(&mut self, packet: &[u8], counters: &mut Counters) {
        self.frame.clear();
        self.frame.extend_from_slice(&[0; offload::HEADER]);
        self.frame.extend_from_slice(&frame::header(self.mac, NEIGHBOUR, packet));
        self.frame.extend_from_slice(packet);
        match self.tap.write(&self.frame) {
            Ok(()) => counters.packets_released += 1,
            Err(_) => counters.packets_release_failed += 1,
        }
    }
}
