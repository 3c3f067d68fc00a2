//! Numbers of any width, one after the other: written and read by the same description.

/// Writes or reads fields, so that one description of their order serves both directions.
pub trait Coder {
    /// Writes `value` in so many bits, at most 128, and gives it back; or reads it.
    ///
    /// # Errors
    /// When there is no more to read.
    fn bits(&mut self, value: u128, width: u32) -> Result<u128, Cut>;

    /// The same for one bit.
    fn flag(&mut self, value: bool) -> Result<bool, Cut> {
        Ok(self.bits(value.into(), 1)? != 0)
    }

    /// Codes a number with some common values, which are coded by their place in a list.
    fn one_of(&mut self, common: &[u32], value: u32, width: u32) -> Result<u32, Cut> {
        let of_place = usize::BITS - common.len().leading_zeros();
        let place = common.iter().position(|it| *it == value).unwrap_or(common.len());
        let place = self.small(place, of_place)?;
        match common.get(place) {
            Some(value) => Ok(*value),
            None => self.number(value, width),
        }
    }

    /// The same for at most 32 bits.
    fn number(&mut self, value: u32, width: u32) -> Result<u32, Cut> {
        let number = self.bits(value.into(), width.min(u32::BITS))?;
        u32::try_from(number).map_err(|_| Cut)
    }

    /// The same for at most 16 bits.
    fn word(&mut self, value: u16, width: u32) -> Result<u16, Cut> {
        let number = self.bits(value.into(), width.min(u16::BITS))?;
        u16::try_from(number).map_err(|_| Cut)
    }

    /// The same for at most 8 bits.
    fn octet(&mut self, value: u8, width: u32) -> Result<u8, Cut> {
        let number = self.bits(value.into(), width.min(u8::BITS))?;
        u8::try_from(number).map_err(|_| Cut)
    }

    /// The same for an index.
    fn small(&mut self, value: usize, width: u32) -> Result<usize, Cut> {
        let number = self.bits(value as u128, width.min(u16::BITS))?;
        usize::try_from(number).map_err(|_| Cut)
    }
}

/// The octets end within a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cut;

/// Writes.
#[derive(Debug, Default)]
pub struct Writer {
    octets: Vec<u8>,
    /// Bits of the last octet that are free.
    free: u32,
}

impl Writer {
    /// Bits until the octet ends.
    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn into_octets(self) -> Vec<u8> {
        self.octets
    }
}

impl Coder for Writer {
    fn bits(&mut self, value: u128, width: u32) -> Result<u128, Cut> {
        for place in (0..width).rev() {
            if self.free == 0 {
                self.octets.push(0);
                self.free = 8;
            }
            self.free -= 1;
            if let Some(last) = self.octets.last_mut() {
                *last |= u8::from(value >> place & 1 == 1) << self.free;
            }
        }
        Ok(value)
    }
}

/// Reads.
#[derive(Debug)]
pub struct Reader<'a> {
    octets: &'a [u8],
    /// Octets that were begun.
    at: usize,
    /// Unread bits of the last octet begun.
    free: u32,
}

impl<'a> Reader<'a> {
    pub fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0, free: 0 }
    }

    /// Bits until the octet ends.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The octets after the one that was read last.
    pub fn rest(&self) -> &'a [u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }
}

impl Coder for Reader<'_> {
    fn bits(&mut self, _value: u128, width: u32) -> Result<u128, Cut> {
        let mut value = 0;
        for _ in 0..width {
            if self.free == 0 {
                self.at += 1;
                self.free = 8;
            }
            let octet = self.octets.get(self.at - 1).ok_or(Cut)?;
            self.free -= 1;
            value = value << 1 | u128::from(octet >> self.free & 1);
        }
        Ok(value)
    }
}
