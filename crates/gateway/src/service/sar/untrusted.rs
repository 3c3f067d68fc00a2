//! Readers of untrusted octets in this service, without sockets and files, for fuzz targets.

use std::path::PathBuf;

use super::clients::{self, Input};
use super::store;

/// A request as text, and the octets behind its line.
pub type Asked = (String, Vec<u8>);

/// Reads a program's requests, each with up to `longest` octets behind its line, off a stream that comes in these pieces.
/// With them comes how many octets wait for more, or why what comes next is no request.
pub fn requests<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    longest: usize,
) -> (Vec<Asked>, Result<usize, String>) {
    let mut input = Input::default();
    let mut asked = Vec::new();
    for piece in pieces {
        input.push(piece);
        loop {
            match input.take(longest) {
                Ok(Some((request, octets))) => asked.push((format!("{request:?}"), octets)),
                Ok(None) => break,
                Err(why) => return (asked, Err(why)),
            }
        }
        input.settle();
    }
    (asked, Ok(input.waiting()))
}

/// Reads a program's datagram as a request.
///
/// # Errors
/// When the datagram is not a request; the error says why.
pub fn datagram(octets: &[u8]) -> Result<Asked, String> {
    let (request, octets) = clients::datagram(octets)?;
    Ok((format!("{request:?}"), octets.to_vec()))
}

/// Reads the first record of a store, as text and as it would be written, and returns the octets behind it.
#[must_use]
pub fn record(octets: &[u8]) -> Option<(String, Vec<u8>, &[u8])> {
    let (record, rest) = store::Record::split_first(octets)?;
    let mut written = Vec::new();
    record.emit(&mut written);
    Some((format!("{record:?}"), written, rest))
}

/// Reads a store from numbered segments, and returns the recovered state as text.
///
/// # Errors
/// When it is damaged, with what and where.
pub fn store(segments: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Result<String, String> {
    let segments = segments.into_iter().map(|(number, octets)| {
        let path = PathBuf::from(number.to_string());
        (number, path, octets)
    });
    let recovered = store::read_segments(segments).map_err(|damage| damage.to_string())?;
    Ok(format!("{recovered:?}"))
}
