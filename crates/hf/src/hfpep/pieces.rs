//! What a responder says on a connection between gateways whose initiator wants to know when all has arrived: octets of
//! the target in pieces, and between them words of the gateway.
//!
//! ```text
//!  octet 0        1    2 ...
//!       +-------------+--------- - -
//!       | length      | octets         1 to 65,535 octets of the target
//!       +-------------+------+
//!       | 0           | word |         0: the target has ended its direction
//!       +-------------+------+         1: the target's host has acknowledged all of the initiator's octets, and their end
//! ```
//!
//! Each word comes once at most, in any order, and no octets follow word 0. The connection ends behind both words; an
//! earlier end is a break.

/// Octets before those of a piece.
pub const HEAD: usize = 2;
/// Octets of a piece at most.
pub const MOST: usize = u16::MAX as usize;

/// What a gateway says of the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word {
    /// It has ended its direction.
    End,
    /// Its host has acknowledged everything, to the end.
    HasAll,
}

/// Octets that are no pieces.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// A word that is not known.
    #[error("unknown word {0}")]
    Word(u8),
    /// A word comes again, or octets come behind the end.
    #[error("something behind the end")]
    Again,
    /// The connection ends before both words have come.
    #[error("cut off")]
    Cut,
}

impl Word {
    /// Its octets.
    #[must_use]
    pub fn octets(self) -> [u8; HEAD + 1] {
        match self {
            Self::End => [0, 0, 0],
            Self::HasAll => [0, 0, 1],
        }
    }
}

/// The head of a piece of so many octets, 1 to [`MOST`].
#[must_use]
pub fn head(len: usize) -> [u8; HEAD] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

/// Reads pieces as they come.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pieces {
    /// Octets of a head or word that is not whole.
    head: Vec<u8>,
    /// Octets of the piece that are still to come.
    left: usize,
    has_end: bool,
    has_all: bool,
}

impl Pieces {
    /// Takes octets, and moves those of the target to their front; returns their number.
    ///
    /// # Errors
    /// When the other gateway does not keep to this form.
    pub fn take(&mut self, octets: &mut [u8]) -> Result<usize, Malformed> {
        let (mut at, mut kept) = (0, 0);
        while at < octets.len() {
            if self.left > 0 {
                let len = self.left.min(octets.len() - at);
                octets.copy_within(at..at + len, kept);
                (at, kept, self.left) = (at + len, kept + len, self.left - len);
                continue;
            }
            self.head.push(octets[at]);
            at += 1;
            match self.head[..] {
                [high, low] if (high, low) != (0, 0) => {
                    if self.has_end {
                        return Err(Malformed::Again);
                    }
                    self.left = u16::from_be_bytes([high, low]).into();
                    self.head.clear();
                }
                [_, _, word] => {
                    let said = match word {
                        0 => &mut self.has_end,
                        1 => &mut self.has_all,
                        _ => return Err(Malformed::Word(word)),
                    };
                    if std::mem::replace(said, true) {
                        return Err(Malformed::Again);
                    }
                    self.head.clear();
                }
                _ => {}
            }
        }
        Ok(kept)
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// When it must not end here.
    pub fn finish(&self) -> Result<(), Malformed> {
        let is_whole = self.has_end && self.has_all && self.head.is_empty();
        if is_whole { Ok(()) } else { Err(Malformed::Cut) }
    }

    /// Whether the target has ended its direction, and all its octets have come.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// Whether the target's host has all that was said to it, to the end.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.has_all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_piece_and_both_words_octet_by_octet() {
        let mut pieces = Pieces::default();
        let mut heard = Vec::new();
        for octet in *b"\x00\x02hi\x00\x00\x01\x00\x01!\x00\x00\x00" {
            let mut said = [octet];
            let kept = pieces.take(&mut said).unwrap();
            heard.extend_from_slice(&said[..kept]);
        }

        assert_eq!(heard, b"hi!");
        assert_eq!((pieces.has_end(), pieces.has_all(), pieces.finish()), (true, true, Ok(())));
        assert_eq!(head(300), [1, 44]);
        assert_eq!([Word::End, Word::HasAll].map(Word::octets), [[0, 0, 0], [0, 0, 1]]);
    }

    #[test]
    fn what_breaks_the_form_is_refused_and_an_early_end_is_a_break() {
        for (octets, wrong) in [
            (&[0, 0, 2][..], Malformed::Word(2)),
            (&[0, 0, 0, 0, 0, 0], Malformed::Again),
            (&[0, 0, 1, 0, 0, 1], Malformed::Again),
            (&[0, 0, 0, 0, 1, 7], Malformed::Again),
        ] {
            assert_eq!(Pieces::default().take(&mut octets.to_vec()), Err(wrong), "{octets:?}");
        }
        for octets in [&[][..], &[0, 0, 0], &[0, 0, 1], &[0, 0, 0, 0, 0], &[0, 2, 7]] {
            let mut pieces = Pieces::default();
            pieces.take(&mut octets.to_vec()).unwrap();
            assert_eq!(pieces.finish(), Err(Malformed::Cut), "{octets:?}");
        }
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn pieces_cut_anywhere_are_what_was_said(
            said in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20),
            cut in 1_usize..200,
        ) {
            let mut octets = Vec::new();
            for piece in &said {
                octets.extend_from_slice(&head(piece.len()));
                octets.extend_from_slice(piece);
            }
            for word in [Word::HasAll, Word::End] {
                octets.extend_from_slice(&word.octets());
            }

            let (mut pieces, mut heard) = (Pieces::default(), Vec::new());
            for part in octets.chunks_mut(cut) {
                let kept = pieces.take(part).unwrap();
                heard.extend_from_slice(&part[..kept]);
            }

            prop_assert_eq!(heard, said.concat());
            prop_assert_eq!(pieces.finish(), Ok(()));
        }

        #[test]
        fn any_octets_are_taken_or_refused(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut pieces = Pieces::default();
            let mut own = octets.clone();
            if let Ok(kept) = pieces.take(&mut own) {
                prop_assert!(kept <= octets.len() && pieces.head.len() < HEAD + 1);
            }
        }
    }
}
