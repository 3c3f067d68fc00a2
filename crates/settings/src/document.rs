//! A whole parsed file, with a record of the keys that readers ask for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::complaint::{MOST, MOST_UNREADABLE};
use crate::near::nearest;
use crate::{Complaint, Complaints, Section, Source};

/// A parsed file, with a record of all complaints and of the keys that readers asked for.
///
/// [`Document::conclude`] can report every mistake only if readers read all keys of a table before failing on one key.
#[derive(Debug)]
pub struct Document<'s> {
    pub(crate) source: &'s Source,
    root: Spanned<DeTable<'s>>,
    /// Whole names, without the places in lists: `link.there.rate`.
    asked: RefCell<BTreeSet<String>>,
    noted: RefCell<Noted>,
}

/// Complaints so far.
#[derive(Debug, Default)]
struct Noted {
    all: Vec<Complaint>,
    are_more: bool,
}

impl Source {
    /// Reads the text as TOML.
    ///
    /// # Errors
    /// When it is not.
    pub fn parse(&self) -> Result<Document<'_>, Complaint> {
        match DeTable::parse(self.text()) {
            Ok(root) => Ok(self.document(root)),
            Err(error) => Err(self.complaint(&error)),
        }
    }

    /// Reads the text as TOML.
    ///
    /// # Errors
    /// With the first syntax errors, if the text is not TOML. The meaning is checked only after the syntax is right.
    pub fn parse_whole(&self) -> Result<Document<'_>, Complaints> {
        let (root, errors) = DeTable::parse_recoverable(self.text());
        if errors.is_empty() {
            return Ok(self.document(root));
        }
        let mut all: Vec<Complaint> = Vec::new();
        for error in errors.iter().take(MOST_UNREADABLE) {
            let complaint = self.complaint(error);
            if !all.contains(&complaint) {
                all.push(complaint);
            }
        }
        Err(Complaints::new(all, errors.len() > MOST_UNREADABLE))
    }

    fn document<'s>(&'s self, root: Spanned<DeTable<'s>>) -> Document<'s> {
        Document { source: self, root, asked: RefCell::default(), noted: RefCell::default() }
    }

    fn complaint(&self, error: &toml::de::Error) -> Complaint {
        match error.span() {
            Some(span) => self.at(&span, "", error.message()),
            None => self.about(error.message()),
        }
    }
}

impl Document<'_> {
    /// The table of the whole file.
    #[must_use]
    pub fn root(&self) -> Section<'_> {
        Section { document: self, path: String::new(), span: 0..0, table: self.root.get_ref() }
    }

    /// Complains about a key that nobody asked for.
    ///
    /// # Errors
    /// With the first complaint.
    pub fn finish(&self) -> Result<(), Complaint> {
        let mut first = None;
        self.finish_table("", self.root.get_ref(), &mut |complaint| {
            first.get_or_insert(complaint);
        });
        first.map_or(Ok(()), Err)
    }

    /// Ends the reading of the whole file with its outcome.
    ///
    /// # Errors
    /// With all complaints of readers, and complaints about keys that no reader asked for.
    pub fn conclude<T>(&self, outcome: Result<T, Complaint>) -> Result<T, Complaints> {
        self.finish_table("", self.root.get_ref(), &mut |complaint| self.note(&complaint));
        let outcome = outcome.map_err(|complaint| self.note(&complaint));
        let Noted { all, are_more } = self.noted.take();
        match outcome {
            Ok(read) if all.is_empty() => Ok(read),
            _ => Err(Complaints::new(all, are_more)),
        }
    }

    /// Remembers a complaint, unless it was made before.
    fn note(&self, complaint: &Complaint) {
        let mut noted = self.noted.borrow_mut();
        if noted.all.contains(complaint) {
            return;
        }
        if noted.all.len() == MOST {
            noted.are_more = true;
        } else {
            noted.all.push(complaint.clone());
        }
    }

    /// Makes a complaint about a place, and remembers it.
    pub(crate) fn complain(
        &self,
        span: &Range<usize>,
        key: &str,
        what: impl fmt::Display,
    ) -> Complaint {
        // Finding the line takes time in proportion to the file, and further complaints are not shown anyway.
        if self.noted.borrow().all.len() == MOST {
            self.noted.borrow_mut().are_more = true;
            return Complaint::untold();
        }
        let complaint = self.source.at(span, key, what);
        self.note(&complaint);
        complaint
    }

    /// The whole names of all keys that readers asked for, present or not, without the places in lists.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    pub(crate) fn ask(&self, path: &str) {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(path) {
            asked.insert(path.to_owned());
        }
    }

    fn finish_table(&self, path: &str, table: &DeTable<'_>, complain: &mut impl FnMut(Complaint)) {
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in keys {
            let name = join(path, key.get_ref());
            if self.asked.borrow().contains(&name) {
                self.finish_value(&name, value.get_ref(), complain);
            } else if !self.has_complaint(&name, &key.span()) {
                complain(self.unknown(path, key.get_ref(), &key.span()));
            }
        }
    }

    fn finish_value(&self, name: &str, value: &DeValue<'_>, complain: &mut impl FnMut(Complaint)) {
        match value {
            DeValue::Table(table) if self.has_asked_below(name) => {
                self.finish_table(name, table, complain);
            }
            DeValue::Array(list) => {
                list.iter().for_each(|value| self.finish_value(name, value.get_ref(), complain));
            }
            _ => {}
        }
    }

    /// Whether a reader has complained about a key, or about a key below.
    fn has_complaint(&self, name: &str, span: &Range<usize>) -> bool {
        let noted = self.noted.borrow();
        if noted.all.is_empty() || noted.all.len() == MOST {
            return !noted.all.is_empty();
        }
        let line = self.source.line(span);
        noted.all.iter().any(|complaint| complaint.is_about(name, line))
    }

    /// Whether any reader asked for keys in the table; a table that is switched off has no reader.
    fn has_asked_below(&self, name: &str) -> bool {
        let start = format!("{name}.");
        let asked = self.asked.borrow();
        asked.range(start.clone()..).next().is_some_and(|next| next.starts_with(&start))
    }

    /// The keys that readers asked for in this table.
    fn names_in(&self, path: &str) -> Vec<String> {
        let start = if path.is_empty() { String::new() } else { format!("{path}.") };
        let asked = self.asked.borrow();
        let inside = asked.iter().filter_map(|name| name.strip_prefix(&start));
        inside.filter(|name| !name.contains('.')).map(str::to_owned).collect()
    }

    /// Complains about an unknown key, and remembers the complaint.
    pub(crate) fn complain_of_unknown(
        &self,
        path: &str,
        key: &str,
        span: &Range<usize>,
    ) -> Complaint {
        let complaint = self.unknown(path, key, span);
        self.note(&complaint);
        complaint
    }

    /// A complaint about a key that nobody asked for.
    fn unknown(&self, path: &str, key: &str, span: &Range<usize>) -> Complaint {
        let names = self.names_in(path);
        let kebab = key.replace('_', "-");
        let what = if names.contains(&kebab) {
            format!("is called {kebab}")
        } else if let Some(meant) = nearest(key, names.iter().map(String::as_str)) {
            format!("there is no such key; {meant} is probably meant")
        } else {
            format!("there is no such key; allowed are {}", names.join(", "))
        };
        self.source.at(span, &join(path, key), what)
    }
}

/// The name of a key in a table. As in TOML, a key with a dot stands in quotes.
#[must_use]
pub fn join(path: &str, key: &str) -> String {
    if key.contains('.') { below(path, &format!("\"{key}\"")) } else { below(path, key) }
}

/// The name of something in a table, or in a table within.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
