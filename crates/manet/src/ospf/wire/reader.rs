//! Reads the fields of a packet in order.

use std::net::Ipv4Addr;

use super::Malformed;

/// What is left to be read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    octets: &'a [u8],
    read: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(octets: &'a [u8]) -> Self {
        Self { octets, read: 0 }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.read.checked_add(len);
        let taken = end.and_then(|end| self.octets.get(self.read..end));
        let taken = taken.ok_or(Malformed::Truncated { have: self.octets.len() })?;
        self.read += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let have = self.octets.len();
        self.take(N)?.try_into().map_err(|_| Malformed::Truncated { have })
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn address(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.array().map(|octets: [u8; 4]| Ipv4Addr::from(octets))
    }

    fn left(&self) -> usize {
        self.octets.len() - self.read
    }

    /// Reads entries of `len` octets each, up to a piece that is shorter.
    pub(crate) fn rest<T>(
        &mut self,
        len: usize,
        read: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut entries = Vec::new();
        while self.left() >= len {
            entries.push(read(self)?);
        }
        Ok(entries)
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Makes sure that nothing is left.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        match self.left() {
            0 => Ok(()),
            extra => Err(Malformed::Trailing { extra }),
        }
    }
}
