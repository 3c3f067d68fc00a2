//! The terminal, or whatever reads our output instead: the only way there, so that no text of others, from the network or
//! a file, ever moves its cursor or forges a line.

#[cfg(feature = "laboratory")]
use std::fmt;
use std::io::{self, IsTerminal as _, Stderr, StdoutLock, Write};

use settings::plain::Plain;

/// Standard output, without control characters.
pub fn out() -> Plain<StdoutLock<'static>> {
    Plain::new(io::stdout().lock())
}

/// Standard error, without control characters.
pub fn err() -> Plain<Stderr> {
    Plain::new(io::stderr())
}

/// Writes a message of others to standard output: as it came for a program or a file, without control characters for
/// a person.
///
/// # Errors
/// When it cannot be written.
pub fn pass(octets: &[u8]) -> io::Result<()> {
    let mut raw = io::stdout().lock();
    if !raw.is_terminal() {
        raw.write_all(octets)?;
        return raw.flush();
    }
    let mut plain = Plain::new(raw);
    plain.write_all(octets)?;
    plain.flush()
}

/// Clears the screen before something is shown anew, where standard output is one.
///
/// # Errors
/// When it cannot be written.
pub fn clear() -> io::Result<()> {
    let mut raw = io::stdout();
    if raw.is_terminal() {
        // The cursor goes to the corner, and what is right of it and below is erased (ECMA-48).
        raw.write_all(b"\x1b[H\x1b[2J")?;
    }
    raw.flush()
}

/// Whether a person sees what goes to standard error.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Replaces the last line of standard error; the reader may be gone.
#[cfg(feature = "laboratory")]
pub fn replace_line(line: fmt::Arguments<'_>) {
    let _ = write!(io::stderr(), "\r\x1b[K");
    let _ = write!(err(), "{line}");
}
