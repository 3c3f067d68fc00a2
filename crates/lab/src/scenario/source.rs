//! The text of a scenario and where in it something is wrong.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The text of a scenario file.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Complaint {
    path: PathBuf,
    /// The line, counted from 1, where it is known.
    line: Option<usize>,
    key: Option<String>,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
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
    /// About the file as a whole.
    pub(super) fn about(path: &Path, what: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), line: None, key: None, what: one_line(&what.to_string()) }
    }
}

impl Source {
    /// About what stands at `span`.
    pub(super) fn complaint(&self, span: &Range<usize>, what: impl fmt::Display) -> Complaint {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        Complaint {
            path: self.path.clone(),
            line: Some(before.matches('\n').count() + 1),
            key: self.key_at(span.start),
            what: one_line(&what.to_string()),
        }
    }

    /// What the TOML reader complains about.
    pub(super) fn unreadable(&self, error: &toml::de::Error) -> Complaint {
        match error.span() {
            Some(span) => self.complaint(&span, error.message()),
            None => Complaint::about(&self.path, error.message()),
        }
    }

    /// The key whose value is at `offset`, with its table: `link.loss`.
    fn key_at(&self, offset: usize) -> Option<String> {
        let start = self.text.get(..offset)?.rfind('\n').map_or(0, |end| end + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |end| offset + end);
        let line = self.text.get(start..end)?;
        let table = self.text[..start].lines().rev().map(str::trim).find_map(header);
        if let Some(name) = header(line.trim()) {
            return Some(name.to_owned());
        }
        // In an inline table the key is the last one that begins at or before the value.
        let key = keys(line)
            .filter(|(at, _)| start + at <= offset)
            .last()
            .or_else(|| keys(line).next())
            .map(|(_, key)| key);
        match (table, key) {
            (Some(table), Some(key)) => Some(format!("{table}.{key}")),
            (table, key) => key.or(table).map(str::to_owned),
        }
    }
}

/// The name in a table's header.
fn header(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?.trim_start_matches('[');
    let name = inner.split(']').next()?.trim();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"');
    (!name.is_empty() && name.chars().all(is_name) && !line.ends_with(',')).then_some(name)
}

/// The bare keys of a line and where they begin.
fn keys(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.match_indices('=').filter_map(|(at, _)| {
        let before = line[..at].trim_end();
        let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let key = before.rsplit(|c| !is_key(c)).next()?;
        (!key.is_empty()).then(|| (before.len() - key.len(), key))
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
