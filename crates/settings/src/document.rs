//! A whole parsed file, with a record of the keys that readers ask for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::near::nearest;
use crate::{Complaint, Section, Source};

/// One file, with a record of the keys that readers asked for.
#[derive(Debug)]
pub struct Document<'s> {
    pub(crate) source: &'s Source,
    root: Spanned<DeTable<'s>>,
    /// Whole names, without the places in lists: `link.there.rate`.
    asked: RefCell<BTreeSet<String>>,
}

impl Source {
    /// Reads the text as TOML.
    ///
    /// # Errors
    /// When it is not.
    pub fn parse(&self) -> Result<Document<'_>, Complaint> {
        match DeTable::parse(self.text()) {
            Ok(root) => Ok(Document { source: self, root, asked: RefCell::default() }),
            Err(error) => Err(match error.span() {
                Some(span) => self.at(&span, "", error.message()),
                None => self.about(error.message()),
            }),
        }
    }
}

impl Document<'_> {
    /// The table that is the whole file.
    #[must_use]
    pub fn root(&self) -> Section<'_> {
        Section { document: self, path: String::new(), span: 0..0, table: self.root.get_ref() }
    }

    /// Complains about a key that nobody asked for.
    ///
    /// # Errors
    /// With the first complaint.
    pub fn finish(&self) -> Result<(), Complaint> {
        self.finish_table("", self.root.get_ref())
    }

    /// The whole names of all keys that were asked for, without the places in lists, whether or not they are there.
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

    fn finish_table(&self, path: &str, table: &DeTable<'_>) -> Result<(), Complaint> {
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in keys {
            let name = join(path, key.get_ref());
            if !self.asked.borrow().contains(&name) {
                return Err(self.unknown(path, key.get_ref(), &key.span()));
            }
            self.finish_value(&name, value.get_ref())?;
        }
        Ok(())
    }

    fn finish_value(&self, name: &str, value: &DeValue<'_>) -> Result<(), Complaint> {
        match value {
            DeValue::Table(table) if self.has_asked_below(name) => self.finish_table(name, table),
            DeValue::Array(list) => {
                list.iter().try_for_each(|value| self.finish_value(name, value.get_ref()))
            }
            _ => Ok(()),
        }
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

    /// A complaint about a key that nobody asked for.
    pub(crate) fn unknown(&self, path: &str, key: &str, span: &Range<usize>) -> Complaint {
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

/// The name of a key in a table.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
