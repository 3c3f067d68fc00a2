//! Decides which frames earn a warning (Annex C, section 6.1).

use super::wire::Reason;

/// What to answer to a frame of this type (0 to 15), if anything.
///
/// `is_known` is false for types that this node does not take part in, for instance those of long
/// numbers when they were not agreed upon; `is_valid` for a header without sense.
#[must_use]
pub fn warning(kind: u8, is_known: bool, is_valid: bool, is_connected: bool) -> Option<Reason> {
    match kind {
        // A warning is never answered by one.
        15 => None,
        _ if !is_known => Some(Reason::UnknownKind),
        _ if !is_valid => Some(Reason::Invalid),
        0..=5 | 9..=12 if !is_connected => Some(Reason::NotConnected),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_connection_is_answered_without_one() {
        let earned = |kind| warning(kind, true, true, false);

        for kind in [0, 1, 2, 3, 4, 5, 9, 10, 11, 12] {
            assert_eq!(earned(kind), Some(Reason::NotConnected));
            assert_eq!(warning(kind, true, true, true), None);
        }
        for kind in [6, 7, 8, 13, 14, 15] {
            assert_eq!(earned(kind), None);
        }
    }

    #[test]
    fn a_warning_is_never_answered() {
        assert_eq!(warning(15, true, false, false), None);
        assert_eq!(warning(14, false, true, false), Some(Reason::UnknownKind));
        assert_eq!(warning(7, true, false, true), Some(Reason::Invalid));
    }
}
