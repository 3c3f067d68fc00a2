//! Splits a Tcl script into commands and words without running the script.
//!
//! ```text
//!  $ns_ at 5 "$node_(0) set X_ 1; $node_(0) set Y_ 2" ; # a comment \
//!    goes on here
//!  word ┴──┴─┴─ a quoted word, which is a script too        commands end with a line or a semicolon
//! ```

use super::trace::{Invalid, Problem};

/// A command.
#[derive(Debug)]
pub struct Command {
    /// The line on which the command begins.
    pub line: usize,
    /// Never empty.
    pub words: Vec<Word>,
}

/// A word of a command, without the quotes or braces around it.
#[derive(Debug)]
pub struct Word {
    /// The line on which the word begins.
    pub line: usize,
    pub text: String,
}

/// Reads the commands of a script one after the other.
#[derive(Debug)]
pub struct Script<'a> {
    octets: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Script<'a> {
    /// A script beginning on the given line.
    pub fn new(octets: &'a [u8], line: usize) -> Self {
        Self { octets, at: 0, line }
    }

    fn command(&mut self) -> Result<Option<Command>, Invalid> {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Ok(None),
                Some(b';') => self.at += 1,
                Some(b'#') => self.skip_comment(),
                Some(_) if self.is_end_of_line() => self.next_line(),
                Some(_) => break,
            }
        }
        let line = self.line;
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            if self.peek().is_none_or(|octet| octet == b';') || self.is_end_of_line() {
                return Ok(Some(Command { line, words }));
            }
            let line = self.line;
            let text = self.word()?;
            words.push(Word { line, text: String::from_utf8_lossy(&text).into_owned() });
        }
    }

    fn word(&mut self) -> Result<Vec<u8>, Invalid> {
        match self.peek() {
            Some(b'"') => self.enclosed("quotation mark", None, b'"'),
            Some(b'{') => self.enclosed("brace", Some(b'{'), b'}'),
            _ => self.bare(),
        }
    }

    /// The text between an opening octet and its counterpart.
    fn enclosed(
        &mut self,
        what: &'static str,
        open: Option<u8>,
        close: u8,
    ) -> Result<Vec<u8>, Invalid> {
        let line = self.line;
        let mut text = Vec::new();
        let mut depth = 0_usize;
        self.at += 1;
        while let Some(octet) = self.peek() {
            if octet == close && depth == 0 {
                self.at += 1;
                return Ok(text);
            }
            if octet == close {
                depth -= 1;
            } else if Some(octet) == open {
                depth += 1;
            }
            self.take(&mut text);
        }
        Err(Invalid { line, problem: Problem::Unclosed { what } })
    }

    /// A word up to a blank, with whole command substitutions.
    fn bare(&mut self) -> Result<Vec<u8>, Invalid> {
        let line = self.line;
        let mut text = Vec::new();
        let mut depth = 0_usize;
        while let Some(octet) = self.peek() {
            let is_over = self.is_blank() || self.is_end_of_line() || octet == b';';
            if depth == 0 && is_over {
                return Ok(text);
            }
            match octet {
                b'[' => depth += 1,
                b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.take(&mut text);
        }
        if depth > 0 {
            return Err(Invalid { line, problem: Problem::Unclosed { what: "square bracket" } });
        }
        Ok(text)
    }

    /// Takes an octet into a word; one behind a backslash has no other meaning there.
    fn take(&mut self, text: &mut Vec<u8>) {
        if self.is_continued() {
            self.skip_continuation();
            text.push(b' ');
            return;
        }
        let Some(octet) = self.peek() else { return };
        if self.is_end_of_line() {
            self.line += 1;
        }
        text.push(octet);
        self.at += 1;
        if octet == b'\\'
            && let Some(next) = self.peek().filter(|_| !self.is_end_of_line())
        {
            text.push(next);
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            if self.is_continued() {
                self.skip_continuation();
            } else if self.is_blank() {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some() && !self.is_end_of_line() {
            if self.is_continued() {
                self.skip_continuation();
            } else {
                self.at += 1;
            }
        }
    }

    fn next_line(&mut self) {
        self.at += 1;
        self.line += 1;
    }

    fn peek(&self) -> Option<u8> {
        self.octets.get(self.at).copied()
    }

    /// Whether a line ends here: old systems ended them with a carriage return alone.
    fn is_end_of_line(&self) -> bool {
        self.ends_line(self.at)
    }

    fn ends_line(&self, at: usize) -> bool {
        match self.octets.get(at) {
            Some(b'\n') => true,
            Some(b'\r') => self.octets.get(at + 1) != Some(&b'\n'),
            _ => false,
        }
    }

    fn is_blank(&self) -> bool {
        let octet = self.peek();
        octet.is_some_and(|octet| octet.is_ascii_whitespace() || octet == 0x0b)
            && !self.is_end_of_line()
    }

    /// Whether a backslash here joins this line and the next.
    fn is_continued(&self) -> bool {
        self.peek() == Some(b'\\') && self.continuation().is_some()
    }

    /// Where the next line begins behind a backslash.
    fn continuation(&self) -> Option<usize> {
        let next = self.at + 1;
        if self.octets.get(next..next + 2) == Some(b"\r\n") {
            return Some(next + 2);
        }
        self.ends_line(next).then_some(next + 1)
    }

    fn skip_continuation(&mut self) {
        if let Some(at) = self.continuation() {
            self.at = at;
            self.line += 1;
        }
    }
}

impl Iterator for Script<'_> {
    type Item = Result<Command, Invalid>;

    fn next(&mut self) -> Option<Self::Item> {
        let command = self.command().transpose();
        if let Some(Err(_)) = command {
            self.at = self.octets.len();
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str) -> Vec<(usize, Vec<String>)> {
        let commands = Script::new(script.as_bytes(), 1).map(|it| it.expect("a script"));
        let words = |it: Command| it.words.into_iter().map(|word| word.text).collect();
        commands.map(|it| (it.line, words(it))).collect()
    }

    #[test]
    fn commands_end_with_lines_and_semicolons_and_words_may_hold_both() {
        for (script, expected) in [
            ("a b\nc", vec![(1, vec!["a", "b"]), (2, vec!["c"])]),
            ("a;b ; c;", vec![(1, vec!["a"]), (1, vec!["b"]), (1, vec!["c"])]),
            ("a \"b; c\nd\" e\nf", vec![(1, vec!["a", "b; c\nd", "e"]), (3, vec!["f"])]),
            ("a {b {c; }\n}\nd", vec![(1, vec!["a", "b {c; }\n"]), (3, vec!["d"])]),
            ("a [b c [d e]] f", vec![(1, vec!["a", "[b c [d e]]", "f"])]),
            ("a \\\n  b\nc", vec![(1, vec!["a", "b"]), (3, vec!["c"])]),
            ("a \"b \\\r\nc\"\r\nd\r\n", vec![(1, vec!["a", "b  c"]), (3, vec!["d"])]),
            ("# x \\\ny\nb ;# c\n", vec![(3, vec!["b"])]),
            ("a\rb\r", vec![(1, vec!["a"]), (2, vec!["b"])]),
            ("a \"b \\\" c\"", vec![(1, vec!["a", "b \\\" c"])]),
            (" \t\n\n", vec![]),
        ] {
            let expected: Vec<(usize, Vec<String>)> = expected
                .into_iter()
                .map(|(line, words)| (line, words.into_iter().map(str::to_owned).collect()))
                .collect();
            assert_eq!(told(script), expected, "{script:?}");
        }
    }

    #[test]
    fn what_is_opened_and_not_closed_is_refused_with_its_line() {
        for (script, expected) in [
            ("a\nb \"c\nd", "line 2: a quotation mark has no counterpart"),
            ("a {b {c}\n", "line 1: a brace has no counterpart"),
            ("\n\na [b", "line 3: a square bracket has no counterpart"),
        ] {
            let refused = Script::new(script.as_bytes(), 1).find_map(Result::err);
            assert_eq!(refused.expect("a fault").to_string(), expected);
        }
    }
}
