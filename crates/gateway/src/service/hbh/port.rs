//! A MANET interface: its packet socket, the frames waiting for room in the socket, and our device that exchanges
//! packets with the kernel.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use base::ethernet::{self, Mac};
use hbh::host::Interface;
use host::Kernel;
use host::links::LinkState;

use super::counters::Counters;
use crate::linux::{device, offload};
use crate::sys::{FrameBatch, Link, Received, Tap};

/// Frames asked for at a time from a link that was busy a moment ago.
const FEW: usize = 4;
/// Frames asked for at a time from a link that takes all.
const MANY: usize = 64;
/// Number of waiting frames from which packets past HBH are dropped.
const CROWD: usize = 256;

/// A MANET interface.
pub struct Port {
    /// Its name.
    name: String,
    /// Its number.
    index: u32,
    /// Its hardware address.
    mac: Mac,
    /// Further state of the interface.
    state: LinkState,
    /// Whether the interface is 802.11, which repeats a frame to a single station until the station acknowledges.
    is_wireless: bool,
    /// Our device: packets leaving by the interface for a neighbour with HBH come out of the device, and packets
    /// written to the device are received by the interface.
    tap: Tap,
    /// The number of our device.
    device: u32,
    link: Link,
    waiting: FrameBatch,
    sent: usize,
    /// Frames to ask for next time: few for a slow device, so that each frame is chosen late.
    room: usize,
}

impl Port {
    pub fn new(
        name: String,
        mac: Mac,
        state: LinkState,
        link: Link,
        (tap, device): (Tap, u32),
    ) -> Self {
        let index = state.index;
        let waiting = FrameBatch::default();
        let is_wireless = Path::new("/sys/class/net").join(&name).join("phy80211").exists();
        Self {
            name,
            index,
            mac,
            state,
            is_wireless,
            tap,
            device,
            link,
            waiting,
            sent: 0,
            room: MANY,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn mac(&self) -> Mac {
        self.mac
    }

    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Takes the present state of the interface.
    ///
    /// # Errors
    /// When it is another interface, in words for an operator.
    pub fn set_state(&mut self, state: Option<LinkState>) -> Result<(), &'static str> {
        let state = state.filter(|state| state.index == self.index).ok_or("it is gone")?;
        if state.mac != Some(self.mac) {
            return Err("its hardware address has changed");
        }
        self.state = state;
        Ok(())
    }

    /// The properties of the interface for HBH.
    pub fn interface(&self) -> Interface {
        Interface {
            station: self.mac,
            addresses: self.state.addresses.clone(),
            mtu: self.state.mtu,
            is_running: self.state.is_running,
            is_acknowledged: self.is_wireless,
        }
    }

    /// Whether our device has this number.
    pub fn has_device(&self, index: u32) -> bool {
        self.device == index
    }

    /// Restores our device if somebody has changed it; returns whether somebody has.
    ///
    /// # Errors
    /// When the device is gone, or the kernel refuses.
    pub fn keep_device(&self, kernel: &mut Kernel) -> io::Result<bool> {
        device::keep_tap(kernel, self.device, self.mac, self.index)
    }

    /// Our address of the version of `like`, or any if there is none.
    pub fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        self.state.addresses.iter().copied().find(|own| own.is_ipv4() == like.is_ipv4())
    }

    /// Reads frames that wait.
    pub fn receive(&self, batch: &mut Received) -> io::Result<usize> {
        match self.link.receive(batch) {
            // Told once when the interface goes down; the monitor has said so, too.
            Err(error) if error.kind() == io::ErrorKind::NetworkDown => Ok(0),
            other => other,
        }
    }

    /// Lets the interface receive a packet, or a train of them, from the station `from`.
    ///
    /// `train` is a packet behind the header of the kernel's offload.
    pub fn deliver(&self, from: Mac, train: &[u8]) -> io::Result<()> {
        let (offload, packet) =
            offload::behind(train, ethernet::HEADER).ok_or(io::ErrorKind::InvalidInput)?;
        let header = ethernet::header(self.mac, from, packet);
        let parts = [&offload[..], &header, packet];
        self.tap.write_parts(&parts.map(IoSlice::new))
    }

    /// Whether more frames may be asked for.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.room
    }

    /// Whether so many frames wait that packets past HBH find no room.
    pub fn is_crowded(&self) -> bool {
        self.waiting.len() >= CROWD
    }

    /// Whether frames wait for the device.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a packet for the station `to`.
    pub fn push(&mut self, to: Mac, packet: &[u8]) {
        self.waiting.push(&ethernet::header(to, self.mac, packet), packet);
    }

    /// Sends waiting frames until the device is busy; returns true when no frame is left.
    pub fn flush(&mut self, counters: &mut Counters) -> bool {
        while self.sent < self.waiting.len() {
            match self.link.send(&mut self.waiting, self.sent) {
                Ok(0) => {
                    counters.sent.links_busy += 1;
                    self.room = FEW;
                    return false;
                }
                Ok(sent) => {
                    self.sent += sent;
                    counters.sent.frames_sent += sent as u64;
                }
                // The frame is too long, or the interface is down: not the next frame's fault.
                Err(_) => {
                    self.sent += 1;
                    counters.sent.frames_send_failed += 1;
                }
            }
        }
        if self.sent > 0 {
            self.room = (self.room * 2).min(MANY);
        }
        self.waiting.clear();
        self.sent = 0;
        true
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
