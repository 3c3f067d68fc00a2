//! The packets that are somewhere: in a queue or on a medium.

/// A packet in [`Packets`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PacketId(u32);

/// An arena of packets whose buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    buffers: Vec<Vec<u8>>,
    free: Vec<PacketId>,
}

impl Packets {
    /// An empty packet.
    pub(crate) fn add(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        let id = PacketId(u32::try_from(self.buffers.len()).expect("fewer packets than 2^32"));
        self.buffers.push(Vec::new());
        id
    }

    /// A packet with these octets.
    pub(crate) fn add_copy(&mut self, octets: &[u8]) -> PacketId {
        let id = self.add();
        self.get_mut(id).extend_from_slice(octets);
        id
    }

    /// A packet made from another.
    pub(crate) fn derive<T>(
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

    pub(crate) fn get(&self, id: PacketId) -> &[u8] {
        &self.buffers[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: PacketId) -> &mut Vec<u8> {
        &mut self.buffers[id.0 as usize]
    }

    /// Ends a packet; its identity is used again.
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.get_mut(id).clear();
        self.free.push(id);
    }

    /// How many packets exist.
    pub(crate) fn len(&self) -> usize {
        self.buffers.len() - self.free.len()
    }
}
