//! Common parts of the trace formats: bounds, parsing of numbers, and errors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use base::time::Time;
use flate2::read::MultiGzDecoder;

use super::motion::{Motion, Position};

/// The motion of each node in a file, by the file's node numbers.
pub type Trace = BTreeMap<u32, Motion>;

/// A file may have this many nodes.
pub const MAX_NODES: usize = 10_000;
/// Its nodes together may be told this often to move.
pub const MAX_LEGS: usize = 1_000_000;
/// Most octets of a file's text, unpacked.
pub const MAX_OCTETS: usize = 64 << 20;
/// Metres from the origin in each direction; a double has a nanometre there.
pub const MAX_COORDINATE: f64 = 1e7;
/// Seconds, 115 days.
pub const MAX_TIME: f64 = 1e7;
/// Metres a second. Nothing is faster than light.
pub const MAX_SPEED: f64 = 299_792_458.0;

/// Result of reading a trace file.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// How its nodes move.
    pub trace: Trace,
    /// What concerns no node, or moves none, and was passed over.
    pub passed_over: usize,
}

/// Why a file says nothing about motion.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Invalid {
    /// The line, from 1.
    pub line: usize,
    /// The problem in the line.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The text ends too early, or goes on for too long.
    #[error("{have} numbers; {needed}")]
    Count {
        /// How many there are.
        have: usize,
        /// What is allowed.
        needed: &'static str,
    },
    /// The node is in two places at the same time, or moves faster than allowed.
    #[error("the node moves at {speed:.3e} m/s; at most {MAX_SPEED:.3e} m/s, the speed of light")]
    Fast {
        /// Metres a second.
        speed: f64,
    },
    /// Nodes have two names.
    #[error("the file calls its nodes {}, and this one {}", Quoted(.one), Quoted(.other))]
    Names {
        /// The name of the other nodes.
        one: String,
        /// The name of this node.
        other: String,
    },
    /// No node is placed or moved.
    #[error("the file says of no node where it is")]
    Nobody,
    /// A number is missing, is none, or is out of range.
    #[error("{what} is {}; allowed are {allowed}", Quoted(.text))]
    Number {
        /// Of what.
        what: &'static str,
        /// What stands there.
        text: String,
        /// What may.
        allowed: Allowed,
    },
    /// A node without a waypoint, a place or a coordinate.
    #[error("node {node} has no {what}")]
    Placeless {
        /// Its number.
        node: u32,
        /// What it lacks.
        what: &'static str,
    },
    /// Times go backwards.
    #[error("the time {now} s comes after {before} s; times of a node never decrease")]
    Backwards {
        /// Seconds of the earlier entry.
        before: f64,
        /// Seconds of this one.
        now: f64,
    },
    /// Too many nodes, legs or octets.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        most: usize,
    },
    /// A quotation mark, brace or bracket is opened and not closed.
    #[error("a {what} has no counterpart")]
    Unclosed {
        /// Which.
        what: &'static str,
    },
    /// Unknown command for a node.
    #[error("{} is not known; a node is told to set X_, Y_ or Z_ or to setdest", Quoted(.text))]
    Unknown {
        /// What stands there.
        text: String,
    },
    /// The file was compressed, and cannot be unpacked.
    #[error("the gzip file is damaged or cut short")]
    Unpack,
    /// The file has two octets for each character.
    #[error("this is UTF-16 text; `iconv -f UTF-16 -t UTF-8` makes it readable")]
    Wide,
}

/// The numbers that are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// At least.
    pub least: f64,
    /// At most.
    pub most: f64,
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.least, self.most)
    }
}

/// A coordinate in metres.
pub(crate) const COORDINATE: Allowed = Allowed { least: -MAX_COORDINATE, most: MAX_COORDINATE };
/// A time in seconds.
pub(crate) const TIME: Allowed = Allowed { least: 0.0, most: MAX_TIME };
/// A speed in metres a second.
pub(crate) const SPEED: Allowed = Allowed { least: 0.0, most: MAX_SPEED };

/// How a gzip file begins (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The byte order mark that editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The octets of a file that may be compressed, without a byte order mark.
pub(crate) fn plain(file: &[u8]) -> Result<Cow<'_, [u8]>, Invalid> {
    let invalid = |problem| Invalid { line: 1, problem };
    let mut octets = Cow::Borrowed(file);
    if file.starts_with(&GZIP) {
        let mut text = Vec::new();
        let most = u64::try_from(MAX_OCTETS).unwrap_or(u64::MAX).saturating_add(1);
        let unpacked = MultiGzDecoder::new(file).take(most).read_to_end(&mut text);
        unpacked.map_err(|_| invalid(Problem::Unpack))?;
        octets = Cow::Owned(text);
    }
    if octets.len() > MAX_OCTETS {
        return Err(invalid(Problem::TooMany { what: "octets", most: MAX_OCTETS }));
    }
    if octets.starts_with(b"\xff\xfe") || octets.starts_with(b"\xfe\xff") {
        return Err(invalid(Problem::Wide));
    }
    if octets.starts_with(BYTE_ORDER_MARK) {
        octets = Cow::Owned(octets[BYTE_ORDER_MARK.len()..].to_vec());
    }
    Ok(octets)
}

/// The number in `text`, if it is allowed.
pub(crate) fn number(
    line: usize,
    what: &'static str,
    text: Option<&str>,
    allowed: Allowed,
) -> Result<f64, Invalid> {
    let number = text.and_then(|text| text.parse().ok());
    number.filter(|number| (allowed.least..=allowed.most).contains(number)).ok_or_else(|| {
        let text = text.unwrap_or("missing").to_owned();
        Invalid { line, problem: Problem::Number { what, text, allowed } }
    })
}

/// The time so many seconds after the beginning, which are allowed.
pub(crate) fn time(seconds: f64) -> Time {
    Time::ZERO + Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Refuses a move that no node could make.
pub(crate) fn expect_slow(
    line: usize,
    (from, to): (Position, Position),
    seconds: f64,
) -> Result<(), Invalid> {
    let way = from.distance_squared(to).sqrt();
    if way <= MAX_SPEED * seconds {
        return Ok(());
    }
    Err(Invalid { line, problem: Problem::Fast { speed: way / seconds } })
}

/// Displays quoted text, shortened if too long.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 40;
        let shown: String = self.0.chars().take(MOST).collect();
        let dots = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "{shown:?}{dots}")
    }
}
