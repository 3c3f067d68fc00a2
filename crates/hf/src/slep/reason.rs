//! Why a stream ended before both of its ends had finished.

use std::fmt;

/// Why a stream was reset. A number without a name here is kept as it came.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Reason(pub u8);

/// The reasons that have names: their number and meaning.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Reason {
            $($(#[$doc])* pub const $name: Self = Self($number);)*
            /// All named reasons, with their meaning.
            pub const ALL: &[(Self, &str)] = &[$((Self($number), $text)),*];
        }
    };
}

reasons! {
    /// Nothing is known of it.
    UNSPECIFIED = 0, "unspecified";
    /// The target refused the connection.
    TARGET_REFUSED = 1, "refused by the target";
    /// The target cannot be reached from the far end.
    TARGET_UNREACHABLE = 2, "target unreachable";
    /// The target did not answer the far end.
    TARGET_TIMED_OUT = 3, "target timed out";
    /// A rule of the far end forbids it.
    BLOCKED = 4, "blocked by a rule";
    /// Nobody takes streams at this extended address.
    NO_SERVICE = 5, "no service at this address";
    /// The far end could not agree on TLS with the target.
    TLS_FAILED = 6, "TLS failed";
    /// The target's name or certificate is not what was asked for.
    NOT_TRUSTED = 7, "target not trusted";
    /// What the other end sent cannot be read.
    PROTOCOL_ERROR = 8, "protocol error";
    /// There is no room for another stream.
    NO_ROOM = 9, "no room";
    /// The process at the other end has started anew and knows nothing of the stream.
    RESTARTED = 10, "the other end has restarted";
    /// The stream does not exist, although its sender had been told otherwise.
    UNKNOWN_STREAM = 11, "unknown stream";
    /// There is no such stream, or its first part has not come yet.
    NOT_OPEN = 12, "stream not open";
    /// The stream was there, and is over.
    CLOSED = 13, "stream already closed";
    /// The other end was not heard for too long.
    UNREACHABLE = 14, "gave up: the other end does not answer";
    /// A user or an operator ended it.
    CANCELLED = 15, "cancelled";
    /// The connection behind the stream was reset.
    CONNECTION_RESET = 16, "connection reset";
    /// The stream was idle for too long.
    IDLE = 17, "idle for too long";
    /// The service that used the stream stopped.
    STOPPED = 18, "service stopped";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::ALL.iter().find(|(reason, _)| reason == self) {
            Some((_, text)) => f.write_str(text),
            None => write!(f, "reason {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_stands_for_one_reason() {
        for (place, (reason, _)) in Reason::ALL.iter().enumerate() {
            assert_eq!(usize::from(reason.0), place);
        }
        assert_eq!(Reason::NO_ROOM.to_string(), "no room");
        assert_eq!(Reason(200).to_string(), "reason 200");
    }
}
