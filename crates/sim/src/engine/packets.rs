//! Storage of all packets in queues and on media.

/// A packet in the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PacketId(u32);

impl PacketId {
    /// A number for media whose cores know packets by one.
    pub(crate) fn token(self) -> u32 {
        self.0
    }

    /// The packet with this number.
    pub(crate) fn of_token(token: u32) -> Self {
        Self(token)
    }
}

/// An arena of packets whose buffers are used again.
///
/// A packet may be shared, as when several ports hear one transmission. A receiver asks for
/// a private packet before changing octets: see [`Packets::take`].
#[derive(Debug, Default)]
pub struct Packets {
    buffers: Vec<Buffer>,
    free: Vec<PacketId>,
}

#[derive(Debug, Default)]
struct Buffer {
    octets: Vec<u8>,
    /// How many have it beside the first.
    shares: u32,
}

impl Packets {
    /// An empty packet.
    pub fn add(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        let id = PacketId(u32::try_from(self.buffers.len()).expect("fewer packets than 2^32"));
        self.buffers.push(Buffer::default());
        id
    }

    /// A packet with these octets.
    pub fn add_copy(&mut self, octets: &[u8]) -> PacketId {
        let id = self.add();
        self.get_mut(id).extend_from_slice(octets);
        id
    }

    /// A packet made from another.
    pub fn derive<T>(
        &mut self,
        from: PacketId,
        make: impl FnOnce(&[u8], &mut Vec<u8>) -> T,
    ) -> (PacketId, T) {
        let id = self.add();
        let mut octets = std::mem::take(self.get_mut(id));
        let made = make(self.get(from), &mut octets);
        *self.get_mut(id) = octets;
        (id, made)
    }

    /// Adds a holder to a packet; every holder removes the packet once.
    pub fn share(&mut self, id: PacketId) {
        self.buffers[id.0 as usize].shares += 1;
    }

    /// A packet that the caller may change: a copy if the packet is shared.
    pub fn take(&mut self, id: PacketId) -> PacketId {
        if self.buffers[id.0 as usize].shares == 0 {
            return id;
        }
        let (copy, ()) = self.derive(id, |octets, copy| copy.extend_from_slice(octets));
        self.remove(id);
        copy
    }

    pub fn get(&self, id: PacketId) -> &[u8] {
        &self.buffers[id.0 as usize].octets
    }

    pub fn get_mut(&mut self, id: PacketId) -> &mut Vec<u8> {
        &mut self.buffers[id.0 as usize].octets
    }

    /// Releases a packet for one holder; after the last holder the identifier is used again.
    pub fn remove(&mut self, id: PacketId) {
        let buffer = &mut self.buffers[id.0 as usize];
        if buffer.shares > 0 {
            buffer.shares -= 1;
            return;
        }
        buffer.octets.clear();
        self.free.push(id);
    }

    /// The octets of all packets.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        // A free buffer has no octets.
        self.buffers.iter().map(|buffer| &buffer.octets[..]).filter(|octets| !octets.is_empty())
    }

    /// How many packets exist.
    pub fn len(&self) -> usize {
        self.buffers.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_packet_gets_one_of_its_own_to_change() {
        let mut packets = Packets::default();
        let first = packets.add_copy(b"heard by three");
        packets.share(first);
        packets.share(first);

        let own = [(); 3].map(|()| packets.take(first));

        assert_eq!(own[2], first, "the last needs no copy");
        packets.get_mut(own[0])[0] = b'H';
        assert_eq!(packets.get(own[0]), b"Heard by three");
        assert_eq!([own[1], own[2]].map(|id| packets.get(id)), [b"heard by three"; 2]);
        for id in own {
            packets.remove(id);
        }
        assert_eq!(packets.len(), 0);
    }
}
