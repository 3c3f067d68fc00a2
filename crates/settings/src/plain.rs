//! Makes foreign text safe for a terminal: control characters are escaped, and can move no cursor, set no title and
//! forge no line.
//!
//! ```text
//!   a field    ──▶ shown: all on one line
//!   an output  ──▶ Plain: line feeds and tabs stay
//! ```
//! Escapes look as in JSON (`\u001b`), so that JSON stays JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Foreign text, made safe on one line.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| if is_hidden(c) { write_out(c, &mut out) } else { out.push(c) });
    Cow::Owned(out)
}

/// Octets of a line that a person reads, at most, ...
const LONG: usize = 2_000;
/// ... and how many of a longer line are kept at each end: the message of a mistake stands before a value and after it.
const KEPT: usize = 500;

/// A line for a person. A very long line is cut in the middle.
#[must_use]
pub fn brief(line: &str) -> Cow<'_, str> {
    if line.len() <= LONG {
        return Cow::Borrowed(line);
    }
    let begin = &line[..line.floor_char_boundary(KEPT)];
    let end = &line[line.ceil_char_boundary(line.len() - KEPT)..];
    let left_out = line.len() - begin.len() - end.len();
    Cow::Owned(format!("{begin} ... [{left_out} octets are left out] ... {end}"))
}

/// A text without the numbers that Rust adds to the kernel's words: `No such file or directory (os error 2)`.
#[must_use]
pub fn without_numbers(said: &str) -> String {
    const MARK: &str = " (os error ";
    let mut parts = said.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, after)) if number.parse::<i32>().is_ok() => text += after,
            _ => text = text + MARK + part,
        }
    }
    text
}

/// A writer that passes text to `out` and escapes control characters, except line feeds and tabs, and octets that are
/// not text.
#[derive(Debug)]
pub struct Plain<W> {
    out: W,
    /// The beginning of a character whose other octets have not come.
    begun: Vec<u8>,
}

impl<W: Write> Plain<W> {
    /// A writer to `out`.
    #[must_use]
    pub const fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(octets);
        let mut text = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let stays = |c: char| matches!(c, '\n' | '\t') || !is_hidden(c);
            for c in chunk.valid().chars() {
                if stays(c) { text.push(c) } else { write_out(c, &mut text) }
            }
            match chunk.invalid() {
                [] => {}
                invalid if chunks.peek().is_none() && is_begun(invalid) => {
                    self.begun = invalid.to_vec();
                }
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.out.write_all(text.as_bytes())?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.begun).is_empty() {
            self.out.write_all(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]).as_bytes())?;
        }
        self.out.flush()
    }
}

/// Whether the octets are the beginning of a character.
fn is_begun(octets: &[u8]) -> bool {
    std::str::from_utf8(octets).is_err_and(|error| error.error_len().is_none())
}

/// Whether a character is a control character, or changes the direction or the line of the text around it.
fn is_hidden(c: char) -> bool {
    const DIRECTIONS: [char; 12] = [
        '\u{061c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
        '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
    ];
    c.is_control() || DIRECTIONS.contains(&c) || matches!(c, '\u{2028}' | '\u{2029}')
}

fn write_out(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => {
            // A text takes all.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears the screen, by two kinds of octets; rings, goes back, and turns the reading round.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}2J\u{7}\r\u{202e}b";
    const HARMLESS: &str = "a\\u001b[2J\\u009b2J\\u0007\\r\\u202eb";

    fn written(parts: &[&[u8]]) -> String {
        let mut plain = Plain::new(Vec::new());
        for part in parts {
            plain.write_all(part).unwrap();
        }
        plain.flush().unwrap();
        String::from_utf8(plain.out).unwrap()
    }

    #[test]
    fn a_field_stays_on_its_line_and_moves_no_cursor() {
        assert_eq!(shown(HOSTILE), HARMLESS);
        assert_eq!(shown("one\ntwo\tthree"), "one\\ntwo\\tthree");
        assert!(matches!(shown("Zürich: 3 µs → 東京"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_output_keeps_its_lines_and_no_other_control_characters() {
        let text = format!("{HOSTILE}\n\tü\n");

        assert_eq!(written(&[text.as_bytes()]), format!("{HARMLESS}\n\tü\n"));
        // In pieces of an octet, too.
        let pieces: Vec<_> = text.as_bytes().chunks(1).collect();
        assert_eq!(written(&pieces), format!("{HARMLESS}\n\tü\n"));
        assert_eq!(written(&[b"a\xff\xc3", b"\xbc\xe2\x82"]), "a\u{fffd}ü\u{fffd}");
    }

    #[test]
    fn what_is_written_out_is_still_json() {
        let object = serde_json::json!({ "name": format!("{HOSTILE}\n") });

        let json = written(&[object.to_string().as_bytes()]);

        assert!(!json.contains(char::is_control), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), object);
    }

    #[test]
    fn of_a_very_long_line_the_beginning_and_the_end_stay() {
        let ordinary = "ä".repeat(LONG / 2);
        let long = format!("a.toml:1: rate: \"{}\" is not allowed: 75", "ä".repeat(50_000));

        let shortened = brief(&long);

        assert!(matches!(brief(&ordinary), Cow::Borrowed(_)));
        assert!(shortened.len() < LONG, "{shortened}");
        assert!(shortened.starts_with("a.toml:1: rate: \"ä"), "{shortened}");
        assert!(shortened.ends_with("ä\" is not allowed: 75"), "{shortened}");
        assert!(shortened.contains(" [99038 octets are left out] "), "{shortened}");
    }

    #[test]
    fn the_kernels_words_stand_without_numbers() {
        for (said, expected) in [
            ("a: No such file or directory (os error 2)", "a: No such file or directory"),
            ("x (os error 2): y (os error 13)\nz", "x: y\nz"),
            ("nothing of the kind (2)", "nothing of the kind (2)"),
            ("cut off (os error 1", "cut off (os error 1"),
            ("x (os error of another) (os error 2)", "x (os error of another)"),
        ] {
            assert_eq!(without_numbers(said), expected);
        }
    }
}
