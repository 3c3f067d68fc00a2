//! Complaints about a file: the mistake and its position.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

use crate::file;
use crate::plain::{brief, shown};
use crate::secret::redact;

/// The text of a file.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
}

/// A mistake in a file, with its place: `file:line: key: what`. Secret keys in the file are never repeated.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Complaint {
    file: String,
    /// Counted from 1, if known.
    line: Option<usize>,
    key: Option<String>,
    what: String,
}

/// All mistakes in a file, in the order of lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Complaints {
    /// At least one, and at most [`MOST`]; of a file that is no TOML, at most [`MOST_UNREADABLE`].
    all: Vec<Complaint>,
    /// Whether there are more.
    are_more: bool,
}

/// The largest number of complaints reported about a file; further complaints are left out.
pub const MOST: usize = 64;
/// The largest number of syntax errors reported about a file: of a text that is no TOML, each line is one.
pub const MOST_UNREADABLE: usize = 4;

impl Source {
    /// A text, with the name of its file.
    #[must_use]
    pub fn new(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), text }
    }

    /// Reads a file of at most this many octets.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path, most: u64) -> Result<Self, Complaint> {
        Self::take(path, file::open(path), most)
    }

    /// Reads an opened file with this name, at most this many octets.
    ///
    /// # Errors
    /// When the file cannot be read, or could not be opened.
    pub fn take(path: &Path, opened: io::Result<File>, most: u64) -> Result<Self, Complaint> {
        let mut source = Self::new(&path.display().to_string(), String::new());
        let mut text = String::new();
        let read = opened.and_then(|file| file.take(most + 1).read_to_string(&mut text));
        if let Err(why) = read {
            if why.kind() == io::ErrorKind::InvalidData {
                return Err(source.about("it is no text in UTF-8"));
            }
            return Err(source.about(format!("cannot be read: {why}")));
        }
        if text.len() as u64 > most {
            return Err(source.about(format!("longer than {most} octets")));
        }
        source.text = text;
        Ok(source)
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A complaint about the file as a whole.
    #[must_use]
    pub fn about(&self, what: impl fmt::Display) -> Complaint {
        let what = brief(&redact(&one_line(&what.to_string()))).into_owned();
        let file = shown(&redact(&self.name)).into_owned();
        Complaint { file, line: None, key: None, what }
    }

    /// A complaint about the text at `span`.
    pub(crate) fn at(&self, span: &Range<usize>, key: &str, what: impl fmt::Display) -> Complaint {
        Complaint {
            line: Some(self.line(span)),
            key: Some(brief(&shown(&redact(key))).into_owned()).filter(|key| !key.is_empty()),
            ..self.about(what)
        }
    }

    /// The line, counted from 1, in which `span` begins.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        before.iter().filter(|octet| **octet == b'\n').count() + 1
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl Complaint {
    /// Stands for complaints beyond [`MOST`].
    pub(crate) fn untold() -> Self {
        Self { file: String::new(), line: None, key: None, what: "more is wrong".to_owned() }
    }

    /// Whether the complaint is about the key with this whole name in this line, or about a key below.
    pub(crate) fn is_about(&self, key: &str, line: usize) -> bool {
        let rest = self.key.as_deref().and_then(|its| its.strip_prefix(key));
        rest.is_some_and(|rest| rest.is_empty() && self.line == Some(line) || rest.starts_with('.'))
    }
}

impl Complaints {
    /// Sorts complaints by line; `are_more` says that others were left out.
    pub(crate) fn new(mut all: Vec<Complaint>, are_more: bool) -> Self {
        all.sort_by_key(|complaint| complaint.line);
        Self { all, are_more }
    }

    /// The complaints in the order of lines.
    #[must_use]
    pub fn all(&self) -> &[Complaint] {
        &self.all
    }
}

impl From<Complaint> for Complaints {
    fn from(complaint: Complaint) -> Self {
        Self { all: vec![complaint], are_more: false }
    }
}

/// A line for each.
impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, complaint) in self.all.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            write!(f, "{newline}{complaint}")?;
        }
        if let Some(first) = self.all.first().filter(|_| self.are_more) {
            let count = self.all.len();
            write!(f, "\n{}: and more: these are the first {count} that were found", first.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}

fn one_line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}
