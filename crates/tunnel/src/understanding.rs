//! Tracks the features that each end has shown to understand, beyond the features of all ends.
//!
//! ```text
//!  octet       bit 0 records with compressed headers, bit 1 packets in parts, bit 2 further paths, bits 3 to 6 zero,
//!              bit 7 the peer's octet has come
//! ```
//!
//! The octet follows messages with no other body. An older end reads nothing there, shows nothing, and is
//! sent nothing unknown to it. Until the peer has confirmed the octet, some reports go alone to
//! carry the octet: the first few, a few when the path is up again, and then one now and then, because an
//! older peer never confirms.

use std::time::Duration;

use base::time::Time;

/// Records with compressed headers.
pub const COMPRESSED_HEADERS: u8 = 0b0000_0001;
/// Packets in parts.
pub const PARTS: u8 = 0b0000_0010;
/// Further paths to the peer.
pub const PATHS: u8 = 0b0000_0100;
const CONFIRMED: u8 = 0b1000_0000;

/// Messages that show the octet at once.
const TRIES: u8 = 8;
/// The pause between two later messages that show the octet.
const PAUSE: Duration = Duration::from_secs(2);

/// What both ends understand.
#[derive(Debug)]
pub struct Understanding {
    own: u8,
    /// What the peer has shown; nothing, if it had the room and has not. `None` before that.
    peer: Option<u8>,
    /// Whether the peer has shown an octet, and whether it has confirmed ours.
    has_come: bool,
    is_confirmed: bool,
    /// Messages that are sent at once for nothing but to show our own.
    tries: u8,
    shown_at: Time,
}

impl Understanding {
    pub fn new(now: Time, own: u8) -> Self {
        Self { own, peer: None, has_come: false, is_confirmed: false, tries: TRIES, shown_at: now }
    }

    /// The peer has shown this.
    pub fn handle_shown(&mut self, octet: u8) {
        self.peer = Some(octet & !CONFIRMED);
        self.has_come = true;
        if octet & CONFIRMED != 0 {
            (self.is_confirmed, self.tries) = (true, 0);
        } else {
            // The peer waits for our octet, or for the confirmation of its own.
            self.tries = self.tries.max(1);
        }
    }

    /// What was shown while the path was down did not come.
    pub fn handle_path_up(&mut self) {
        if !self.is_confirmed {
            self.tries = TRIES;
        }
    }

    /// The peer had the room to show an octet in a message, and has shown none.
    pub fn handle_nothing_shown(&mut self) {
        self.peer = self.peer.or(Some(0));
    }

    /// The octet to show with a message sent now.
    pub fn show(&mut self, now: Time) -> Option<u8> {
        self.tries = self.tries.saturating_sub(1);
        self.shown_at = now;
        let confirmed = if self.has_come { CONFIRMED } else { 0 };
        (self.own != 0).then_some(self.own | confirmed)
    }

    /// Whether reports go alone to show the octet.
    pub fn is_urgent(&self, now: Time) -> bool {
        let is_due = !self.is_confirmed && now.since(self.shown_at) >= PAUSE;
        self.own != 0 && (self.tries > 0 || is_due)
    }

    /// Whether both ends understand this.
    pub fn agrees_on(&self, what: u8) -> bool {
        self.own & self.peer.unwrap_or(0) & what != 0
    }

    /// Whether the peer is known not to understand this.
    pub fn is_strange(&self, what: u8) -> bool {
        self.peer.is_some_and(|peer| peer & what == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    /// An end that has shown its octet eight times; all eight messages were lost.
    fn unheard() -> Understanding {
        let mut end = Understanding::new(NOW, COMPRESSED_HEADERS);
        for _ in 0..TRIES {
            assert!(end.is_urgent(NOW));
            end.show(NOW);
        }
        assert!(!end.is_urgent(NOW));
        end
    }

    #[test]
    fn what_was_lost_is_shown_again_now_and_then_and_when_the_path_is_up() {
        let mut end = unheard();

        for count in 1..100 {
            let now = NOW + PAUSE * count;
            assert!(end.is_urgent(now));
            end.show(now);
            assert!(!end.is_urgent(now));
        }
        end.handle_path_up();

        assert!(end.is_urgent(NOW));
    }

    #[test]
    fn who_is_confirmed_still_answers_who_is_not() {
        let mut ends = [unheard(), unheard()];

        let shown = ends[0].show(NOW).unwrap();
        ends[1].handle_shown(shown);
        assert!(ends[1].is_urgent(NOW), "it confirms at once");
        let answer = ends[1].show(NOW).unwrap();
        ends[0].handle_shown(answer);
        assert!(!ends[0].is_urgent(NOW + PAUSE) && ends[1].is_urgent(NOW + PAUSE));
        let again = ends[1].show(NOW).unwrap();
        ends[0].handle_shown(again);
        // Its confirmation was lost; the other has ours, and asks again.
        ends[1].is_confirmed = false;
        let asking = COMPRESSED_HEADERS;
        ends[0].handle_shown(asking);
        assert!(ends[0].is_urgent(NOW));
        let confirmed = ends[0].show(NOW).unwrap();
        ends[1].handle_shown(confirmed);

        assert!(ends.iter().all(|end| end.agrees_on(COMPRESSED_HEADERS)));
        assert!(ends.iter().all(|end| !end.is_urgent(NOW + PAUSE * 9)));
    }

    #[test]
    fn who_understands_nothing_more_shows_nothing() {
        let mut end = Understanding::new(NOW, 0);

        assert!(!end.is_urgent(NOW + PAUSE * 9));
        assert_eq!(end.show(NOW), None);
        assert!(!end.agrees_on(COMPRESSED_HEADERS));
    }
}
