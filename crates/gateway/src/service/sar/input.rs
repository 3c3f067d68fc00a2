//! Parses requests of programs: from a stream, in pieces as received, or one request from a datagram.

use super::api::{LONGEST_LINE, Request};

/// Octets read from a connection in a turn.
pub(super) const READ: usize = 64 << 10;

/// Octets received on a connection and not taken yet.
#[derive(Debug, Default)]
pub(super) struct Input {
    octets: Vec<u8>,
    /// Octets at the beginning that were taken.
    taken: usize,
    /// A line already read, whose octets have not all arrived.
    line: Option<Request>,
}

impl Input {
    /// Takes the next octets.
    pub(super) fn push(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// The next complete request, with the octets behind its line: `longest` at most.
    ///
    /// # Errors
    /// When the input is not a request; nothing behind it can be understood.
    pub(super) fn take(&mut self, longest: usize) -> Result<Option<(Request, Vec<u8>)>, String> {
        if self.line.is_none() {
            let rest = &self.octets[self.taken..];
            let Some(end) = rest.iter().take(LONGEST_LINE + 1).position(|it| *it == b'\n') else {
                return match rest.len() {
                    0..=LONGEST_LINE => Ok(None),
                    _ => Err(format!("a line has {LONGEST_LINE} octets at most")),
                };
            };
            let request = Request::parse(&rest[..end])?;
            if request.octets() > longest {
                let have = request.octets();
                return Err(format!("octets = {have}: {longest} are allowed (`message` in [sar])"));
            }
            self.taken += end + 1;
            self.line = Some(request);
        }
        let need = self.line.as_ref().map_or(0, Request::octets);
        let Some(octets) = self.octets[self.taken..].get(..need) else { return Ok(None) };
        let octets = octets.to_vec();
        self.taken += need;
        Ok(self.line.take().map(|request| (request, octets)))
    }

    /// Frees the memory of taken requests, once all complete requests have been taken.
    pub(super) fn settle(&mut self) {
        self.octets.drain(..self.taken);
        self.taken = 0;
        if self.octets.is_empty() {
            // A long message is over.
            self.octets.shrink_to(READ);
        }
    }

    /// Octets that wait for more.
    pub(super) fn waiting(&self) -> usize {
        self.octets.len() - self.taken
    }
}

/// Reads a datagram as a request, and the octets behind its line.
///
/// # Errors
/// When the datagram is not a request, or the number of octets behind the line is wrong.
pub(super) fn datagram(datagram: &[u8]) -> Result<(Request, &[u8]), String> {
    let (line, octets) = match datagram.iter().position(|it| *it == b'\n') {
        Some(end) => (&datagram[..end], &datagram[end + 1..]),
        None => (datagram, &[][..]),
    };
    let request = Request::parse(line)?;
    match request.octets() {
        need if need == octets.len() => Ok((request, octets)),
        need => Err(format!("octets = {need}, and there are {}", octets.len())),
    }
}
