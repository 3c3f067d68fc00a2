//! What each end has shown the other that it understands, beyond what all ends do.
//!
//! ```text
//!  octet       bit 0 records with compressed headers, bits 1 to 6 zero, bit 7 the peer's octet has come
//! ```
//!
//! The octet follows messages with no other body. An end that is older reads nothing there, shows nothing,
//! and is sent nothing that it does not know. Until the peer has confirmed the octet, reports go alone,
//! so that there are such messages; the first few of them, because an older peer never will.

/// Records with compressed headers.
pub(super) const COMPRESSED_HEADERS: u8 = 0b0000_0001;
const CONFIRMED: u8 = 0b1000_0000;

/// Messages sent to show the octet before the peer counts as one that does not know it.
const TRIES: u8 = 8;

/// What both ends understand.
#[derive(Debug)]
pub(super) struct Understanding {
    own: u8,
    /// What the peer has shown, once it has.
    peer: Option<u8>,
    /// Messages that may still be sent for nothing but to show our own.
    tries: u8,
}

impl Understanding {
    pub(super) fn new(own: u8) -> Self {
        Self { own, peer: None, tries: if own == 0 { 0 } else { TRIES } }
    }

    /// The peer has shown this.
    pub(super) fn handle_shown(&mut self, octet: u8) {
        self.peer = Some(octet & !CONFIRMED);
        if octet & CONFIRMED != 0 {
            self.tries = 0;
        }
    }

    /// What to show with a message that is now sent.
    pub(super) fn show(&mut self) -> Option<u8> {
        self.tries = self.tries.saturating_sub(1);
        let confirmed = if self.peer.is_some() { CONFIRMED } else { 0 };
        (self.own != 0).then_some(self.own | confirmed)
    }

    /// Whether reports go alone to show the octet.
    pub(super) fn is_urgent(&self) -> bool {
        self.tries > 0
    }

    /// Whether both ends understand this.
    pub(super) fn agrees_on(&self, what: u8) -> bool {
        self.own & self.peer.unwrap_or(0) & what != 0
    }
}
