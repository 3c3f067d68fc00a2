//! Reads one table of a TOML file, key by key, and reports the keys nobody asked for.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base::parameter::{Refused, Table};
use toml::de::DeTable;

use crate::document::{Document, below, join};
use crate::near::nearest;
use crate::{Complaint, Entry};

/// A table, asked for its keys by name.
#[derive(Clone, Debug)]
pub struct Section<'d> {
    pub(crate) document: &'d Document<'d>,
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
    pub(crate) table: &'d DeTable<'d>,
}

impl<'d> Section<'d> {
    /// What stands under this key; a dot leads into a table within.
    ///
    /// # Errors
    /// When something on the way is no table.
    pub fn get(&self, name: &str) -> Result<Option<Entry<'d>>, Complaint> {
        let (group, key) = match name.split_once('.') {
            Some((group, key)) => (Some(group), key),
            None => (None, name),
        };
        if let Some(group) = group {
            // The names within are known even if the group is not there.
            self.document.ask(&below(&self.path, name));
            let Some(entry) = self.get(group)? else { return Ok(None) };
            return entry.section()?.get(key);
        }
        let path = join(&self.path, key);
        self.document.ask(&path);
        let found = self.table.get_key_value(key);
        Ok(found.map(|(key, value)| Entry {
            document: self.document,
            path,
            name: key.get_ref(),
            key: key.span(),
            span: value.span(),
            value: value.get_ref(),
        }))
    }

    /// The value under this key; the key is mandatory.
    ///
    /// # Errors
    /// When it is not.
    pub fn needed(&self, name: &str) -> Result<Entry<'d>, Complaint> {
        if let Some(entry) = self.get(name)? {
            return Ok(entry);
        }
        let is_near =
            |written: &str| written.replace('_', "-") == name || nearest(written, [name]).is_some();
        let near = self.table.keys().find(|key| is_near(key.get_ref()));
        Err(match near {
            Some(key) => self.document.complain_of_unknown(&self.path, key.get_ref(), &key.span()),
            None => self.complain(format!("{name} is missing")),
        })
    }

    /// The table under this key; an empty table if the key is missing.
    ///
    /// # Errors
    /// When something else is there.
    pub fn section(&self, name: &str) -> Result<Option<Self>, Complaint> {
        self.get(name)?.map(|entry| entry.section()).transpose()
    }

    /// The tables in the list under this key; none if the key is missing.
    ///
    /// # Errors
    /// When something else is there.
    pub fn sections(&self, name: &str) -> Result<Vec<Self>, Complaint> {
        let Some(entry) = self.get(name)? else { return Ok(Vec::new()) };
        each(&entry.list()?, Entry::section)
    }

    /// All keys, whatever they are called, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry<'d>> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&'d toml::Spanned<Cow<'d, str>>, &'d toml::Spanned<_>)| {
            let name: &str = key.get_ref();
            let path = join(&self.path, name);
            self.document.ask(&path);
            let (key, span) = (key.span(), value.span());
            Entry { document: self.document, path, name, key, span, value: value.get_ref() }
        };
        entries.into_iter().map(entry).collect()
    }

    /// Marks all keys as known, because the key that decides on their meaning could not be read.
    pub fn pass_over(&self) {
        for key in self.table.keys() {
            self.document.ask(&join(&self.path, key.get_ref()));
        }
    }

    /// Sets the parameters of a protocol from this section.
    ///
    /// # Errors
    /// When values are not allowed: with the first of them.
    pub fn apply<C>(&self, table: &Table<C>, config: &mut C) -> Result<(), Complaint> {
        let mut given = Vec::new();
        let mut refused = None;
        for parameter in table.parameters {
            match self.get(parameter.name) {
                Ok(Some(entry)) => given.push((parameter.name, entry)),
                Ok(None) => {}
                Err(complaint) => {
                    refused.get_or_insert(complaint);
                }
            }
        }
        let find = |name: &str| given.iter().find(|(given, _)| *given == name).map(|it| &it.1);
        for Refused { names, what } in
            table.apply_all(config, |name| find(name).map(Entry::written))
        {
            let blamed = names.iter().find_map(|name| Some((find(name)?, table.find(name)?)));
            let complaint = match blamed {
                Some((entry, parameter)) if names.len() == 1 => {
                    entry.complain_of(&parameter.kind, what)
                }
                Some((entry, _)) => entry.complain(what),
                None => self.complain(what),
            };
            refused.get_or_insert(complaint);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Complains about keys that have moved, with the line to write instead if known; `moved` has old and new names,
    /// the longer ones first.
    ///
    /// # Errors
    /// With the first such key.
    pub fn refuse_moved(&self, moved: &[(&str, &str)]) -> Result<(), Complaint> {
        let mut told: Vec<&str> = Vec::new();
        let mut first = None;
        for (old, new) in moved {
            let source = &self.document.source;
            let (mut table, mut found, mut value) = (Some(self.table), None, 0..0);
            for part in old.split('.') {
                let item = table.and_then(|table| table.get_key_value(part));
                found = item.map(|(key, _)| key.span());
                value = item.map_or(0..0, |(_, it)| it.span());
                table = item.and_then(|(_, value)| value.get_ref().as_table());
            }
            let is_above =
                |its: &&str| its.strip_prefix(*old).is_some_and(|it| it.starts_with('.'));
            if let Some(place) = found.filter(|_| !told.iter().any(is_above)) {
                told.push(old);
                let key = below(&self.path, old);
                let (section, name) = new.rsplit_once('.').unwrap_or(("", new));
                let line = match (table, source.text().get(value)) {
                    _ if !self.path.is_empty() || section.is_empty() => String::new(),
                    (Some(_), _) => format!(": write [{new}]"),
                    (None, Some(value)) => {
                        format!(": write {name} = {value} in the section [{section}]")
                    }
                    (None, None) => String::new(),
                };
                let what = format!("is called {new}{line}");
                first.get_or_insert(self.document.complain(&place, &key, what));
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// A complaint about the table as a whole, which the document notes.
    #[must_use]
    pub fn complain(&self, what: impl fmt::Display) -> Complaint {
        if self.path.is_empty() {
            return self.document.source.about(what);
        }
        self.document.complain(&self.span, &self.path, what)
    }

    /// A remark about a table that is allowed; nothing is noted.
    #[must_use]
    pub fn remark(&self, what: impl fmt::Display) -> Complaint {
        self.document.source.at(&self.span, &self.path, what)
    }
}

/// Reads all of a list, also after the first that cannot be read: the document notes what is wrong with each.
///
/// # Errors
/// With the first error.
pub fn each<'i, I, T, E>(
    all: &'i [I],
    read: impl FnMut(&'i I) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let read: Vec<_> = all.iter().map(read).collect();
    read.into_iter().collect()
}
