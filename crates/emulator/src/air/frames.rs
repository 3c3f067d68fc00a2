//! Passes frames between interfaces and a channel: keeps buffers, tokens of frames on the channel, and the owners of
//! hardware addresses.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use base::ethernet::{HEADER, Mac};
use base::ip::protocol;
use manet::{aodv, dsdv, olsr};
use sim::Class;

/// The most buffers kept for later frames.
const SPARE: usize = 1_024;
/// The most hardware addresses to remember for one station: a bridge may have several behind it.
pub const ADDRESSES: usize = 64;

/// UDP ports of routing protocols: ours, and Babel's.
const ROUTING: [u16; 4] = [aodv::PORT, dsdv::PORT, olsr::PORT, 6_696];

/// The frames of a channel's stations. A station's number is its interface's place.
#[derive(Debug)]
pub struct Frames {
    /// The station of each hardware address, learned from frames.
    known: BTreeMap<Mac, usize>,
    /// How many addresses each station is known by.
    addresses: Vec<usize>,
    /// Frames on the channel, indexed by their tokens.
    held: Vec<Vec<u8>>,
    free: Vec<u32>,
    spare: Vec<Vec<u8>>,
    out: VecDeque<(usize, Vec<u8>)>,
}

/// The receiver of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Receiver {
    /// Everybody.
    All,
    /// This station.
    Station(usize),
    /// A station with an address that no frame has shown yet.
    Unknown,
}

impl Frames {
    pub fn new(stations: usize) -> Self {
        Self {
            known: BTreeMap::new(),
            addresses: vec![0; stations],
            held: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            out: VecDeque::new(),
        }
    }

    /// Joins the parts of a frame from a station's interface, and learns its source address.
    pub fn join(&mut self, station: usize, parts: &[&[u8]]) -> Vec<u8> {
        let mut frame = self.buffer();
        for part in parts {
            frame.extend_from_slice(part);
        }
        self.learn(station, &frame);
        frame
    }

    /// The receiver of a frame, according to the learned addresses.
    pub fn receiver(&self, frame: &[u8]) -> Receiver {
        let to = frame.first_chunk().copied().map(Mac).filter(|to| to.is_station());
        let Some(to) = to else { return Receiver::All };
        self.known.get(&to).map_or(Receiver::Unknown, |station| Receiver::Station(*station))
    }

    /// Keeps a frame while the channel has it.
    pub fn keep(&mut self, frame: Vec<u8>) -> u32 {
        let token = self.free.pop().unwrap_or_else(|| {
            self.held.push(Vec::new());
            u32::try_from(self.held.len() - 1).expect("queues are shorter")
        });
        self.held[token as usize] = frame;
        token
    }

    /// The frame on the channel with this token.
    pub fn held(&self, token: u32) -> &[u8] {
        self.held.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// A copy of the frame on the channel with this token.
    pub fn copy(&mut self, token: u32) -> Vec<u8> {
        let mut copy = self.buffer();
        copy.extend_from_slice(&self.held[token as usize]);
        copy
    }

    /// Forgets a frame once the channel needs it no more.
    pub fn forget(&mut self, token: u32) {
        self.free.push(token);
        let frame = mem::take(&mut self.held[token as usize]);
        self.recycle(frame);
    }

    /// A frame has arrived for a station's interface.
    pub fn arrive(&mut self, station: usize, frame: Vec<u8>) {
        self.out.push_back((station, frame));
    }

    /// The next frame that has arrived.
    pub fn poll(&mut self) -> Option<(usize, Vec<u8>)> {
        self.out.pop_front()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, frame: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(frame);
        }
    }

    /// How many frames are on the channel.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// The station that owns an address.
    #[cfg(test)]
    pub fn owner(&self, address: Mac) -> Option<usize> {
        self.known.get(&address).copied()
    }

    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Remembers a frame's source address; the last station to use an address owns it.
    fn learn(&mut self, station: usize, frame: &[u8]) {
        let Some(source) = frame.get(6..12).and_then(|octets| octets.try_into().ok()).map(Mac)
        else {
            return;
        };
        if !source.is_station() || self.known.get(&source) == Some(&station) {
            return;
        }
        if self.addresses[station] >= ADDRESSES {
            return;
        }
        self.addresses[station] += 1;
        if let Some(before) = self.known.insert(source, station) {
            self.addresses[before] -= 1;
        }
    }
}

/// The traffic class of an Ethernet frame.
pub fn class_of(frame: &[u8]) -> Class {
    Class::of(frame.get(HEADER..).unwrap_or_default(), |protocol, payload| {
        let &[.., a, b] = payload.first_chunk::<4>()?;
        let is_routing = protocol == protocol::UDP && ROUTING.contains(&u16::from_be_bytes([a, b]));
        is_routing.then_some(Class::Routing)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_shows_a_limited_number_of_addresses() {
        let mut frames = Frames::new(2);
        for number in 0..=u8::try_from(ADDRESSES).unwrap() {
            frames.join(1, &[&shown(number)]);
        }
        assert_eq!(frames.addresses, [0, ADDRESSES]);

        // One address moves to the other station, so there is room again.
        frames.join(0, &[&shown(0)]);
        frames.join(1, &[&shown(200)]);

        assert_eq!(frames.owner(Mac([2, 0, 0, 0, 0, 0])), Some(0));
        assert_eq!(frames.owner(Mac([2, 0, 0, 0, 0, 200])), Some(1));
        assert_eq!(frames.addresses, [1, ADDRESSES]);
    }

    /// A frame to all from the address with this number.
    fn shown(number: u8) -> [u8; 14] {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, number, 8, 0]
    }
}
