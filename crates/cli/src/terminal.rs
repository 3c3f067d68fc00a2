//! The only way to the terminal, or to a program that reads our output: no text of others, from the network or a file,
//! can move the cursor or forge a line.

#[cfg(feature = "laboratory")]
use std::fmt;
use std::io::{self, IsTerminal as _, Stderr, StdoutLock, Write};

use settings::plain::Plain;

/// Standard output, without control characters.
pub fn out() -> Out {
    Out(Plain::new(io::stdout().lock()))
}

/// Standard output. Its errors say "standard output".
#[derive(Debug)]
pub struct Out(Plain<StdoutLock<'static>>);

impl Write for Out {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.write(octets).map_err(|error| named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| named(&error))
    }
}

/// The error, with the name of what could not be written.
pub fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Standard error, without control characters.
pub fn err() -> Plain<Stderr> {
    Plain::new(io::stderr())
}

/// Writes a message of others to standard output: unchanged for a program or a file, without control characters for a
/// person.
///
/// # Errors
/// When standard output cannot be written.
pub fn pass(octets: &[u8]) -> io::Result<()> {
    let mut raw = io::stdout().lock();
    if raw.is_terminal() {
        let mut plain = out();
        return plain.write_all(octets).and_then(|()| plain.flush());
    }
    raw.write_all(octets).and_then(|()| raw.flush()).map_err(|error| named(&error))
}

/// Clears the screen, if standard output is a terminal, before something is shown anew.
///
/// # Errors
/// When standard output cannot be written.
pub fn clear() -> io::Result<()> {
    let mut raw = io::stdout();
    if raw.is_terminal() {
        // Moves the cursor to the corner, and erases everything right of it and below (ECMA-48).
        raw.write_all(b"\x1b[H\x1b[2J")?;
    }
    raw.flush()
}

/// Whether standard error is a terminal, seen by a person.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Replaces the last line of standard error; the reader may be gone.
#[cfg(feature = "laboratory")]
pub fn replace_line(line: fmt::Arguments<'_>) {
    let _ = write!(io::stderr(), "\r\x1b[K");
    let _ = write!(err(), "{line}");
}
