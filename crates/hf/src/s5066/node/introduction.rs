//! Introductions, by which two stations of ours know each other (EP10).
//!
//! The layouts of long sequence numbers and of padding are not public, so ours are nobody else's. A public bit that
//! says "long numbers" would be the promise of another's layout: our layouts are announced and believed in an
//! extension frame (type 13), in front of each request for a link and each acceptance.
//!
//! ```text
//!  type 13:  extension 0x54 | "TRKW" | 0 0 0 0 0 LINK_LONG LONG PADDING
//! ```
//!
//! A station that does not know the frame warns of it or ignores it, and is sent nothing in our layouts.

use super::Extensions;

/// A station's announcement of the layouts that are ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Introduction {
    /// The station reads padding.
    pub padding: bool,
    /// The station reads long numbers.
    pub long_numbers: bool,
    /// Whether the link requested or accepted has long numbers.
    pub is_long: bool,
}

/// The extension's type.
pub const KIND: u8 = 0x54;
const NAME: [u8; 4] = *b"TRKW";
const PADDING: u8 = 1;
const LONG: u8 = 1 << 1;
const LINK_LONG: u8 = 1 << 2;

/// How often a station introduces itself in a call or in the answer to one.
pub const fn copies(is_long: bool) -> usize {
    if is_long { 2 } else { 1 }
}

/// The extension is another's, or damaged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not an introduction of ours")]
pub(crate) struct Malformed;

impl Introduction {
    /// Introduces a station with these extensions, for a link with long numbers or not; none without any layout of
    /// ours.
    pub(crate) fn new(extensions: Extensions, is_long: bool) -> Option<Self> {
        let Extensions { padding, long_numbers, .. } = extensions;
        (padding || long_numbers).then_some(Self { padding, long_numbers, is_long })
    }

    /// Parses the octets of an introduction.
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let Some((&NAME, &[flags])) = octets.split_first_chunk() else { return Err(Malformed) };
        Ok(Self {
            padding: flags & PADDING != 0,
            long_numbers: flags & LONG != 0,
            is_long: flags & LINK_LONG != 0,
        })
    }

    /// Appends the extension.
    pub(crate) fn emit(self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.extend(NAME);
        out.push(
            flag(self.padding, PADDING)
                | flag(self.long_numbers, LONG)
                | flag(self.is_long, LINK_LONG),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_introduction_is_read_back() {
        for flags in 0..8_u8 {
            let [padding, long_numbers, is_long] = [1, 2, 4].map(|bit| flags & bit != 0);
            let said = Introduction { padding, long_numbers, is_long };

            let mut octets = Vec::new();
            said.emit(&mut octets);
            assert_eq!(Introduction::parse(&octets), Ok(said));
        }
    }

    #[test]
    fn what_others_say_in_such_a_frame_is_not_believed() {
        for octets in [&b"trkw\x07"[..], b"TRKW", b"TRKW\x07\x00"] {
            assert_eq!(Introduction::parse(octets), Err(Malformed));
        }
    }

    #[test]
    fn two_stations_use_what_both_know() {
        let mut used = Extensions::NONE;
        for (own, is_able) in [(Extensions::NONE, false), (Extensions::ALL, true)] {
            for [padding, long_numbers] in [[true, false], [false, true]] {
                let said = Introduction { padding, long_numbers, is_long: false };
                used.learn_ours(own, Some(said));
                let both = [padding, long_numbers].map(|it| it && is_able);
                assert_eq!([used.padding, used.long_numbers], both);
            }
        }
        used.learn_ours(Extensions::ALL, None);
        assert_eq!(used, Extensions::NONE);
    }

    #[test]
    fn a_station_of_edition_3_does_not_introduce_itself() {
        assert_eq!(Introduction::new(Extensions::NONE, false), None);
    }
}
