//! A value with its key: readers for each type.

use std::fmt;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use base::parameter::{Kind, Value, Written, named};
use toml::de::DeValue;

use crate::{Complaint, Document, Section, nearest, secret};

/// A value with its key and its position in the file.
#[derive(Clone, Debug)]
pub struct Entry<'d> {
    pub(crate) document: &'d Document<'d>,
    pub(crate) path: String,
    pub(crate) name: &'d str,
    pub(crate) key: Range<usize>,
    pub(crate) span: Range<usize>,
    pub(crate) value: &'d DeValue<'d>,
}

impl<'d> Entry<'d> {
    /// The key itself, without the names of its tables.
    #[must_use]
    pub const fn name(&self) -> &'d str {
        self.name
    }

    /// What is written.
    #[must_use]
    pub fn written(&self) -> Written<'d> {
        written(self.value)
    }

    /// Reads the value as a value of `kind`.
    ///
    /// # Errors
    /// When the value is not of this kind.
    pub fn read(&self, kind: &Kind) -> Result<Value, Complaint> {
        kind.read(&self.written()).map_err(|what| self.complain_of(kind, what))
    }

    /// A complaint about a value of the wrong kind, with the word that is probably meant.
    pub(crate) fn complain_of(&self, kind: &Kind, what: impl fmt::Display) -> Complaint {
        let meant = match (kind, self.value.as_str()) {
            (Kind::Word(words), Some(text)) => nearest(text, words.iter().copied()),
            _ => None,
        };
        match meant {
            Some(meant) => self.complain(format!("{what}; {meant:?} is probably meant")),
            None => self.complain(what),
        }
    }

    /// Text other than a secret key: secret keys belong in separate files.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self) -> Result<&'d str, Complaint> {
        let text = self.public_text()?;
        if secret::is_key(text) { Err(self.complain(secret::ADVICE)) } else { Ok(text) }
    }

    /// A text that may look like a secret key, such as a public key.
    fn public_text(&self) -> Result<&'d str, Complaint> {
        self.value.as_str().ok_or_else(|| self.refuse("a text in quotes"))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn flag(&self) -> Result<bool, Complaint> {
        self.value.as_bool().ok_or_else(|| self.refuse("true or false"))
    }

    /// A whole number within bounds.
    ///
    /// # Errors
    /// When it is something else, or out of range.
    pub fn count<T: Default + TryFrom<u64>>(
        &self,
        allowed: RangeInclusive<u64>,
    ) -> Result<T, Complaint> {
        let kind = Kind::Count { least: *allowed.start(), most: *allowed.end(), unit: "" };
        Ok(self.read(&kind)?.count())
    }

    /// One of these words.
    ///
    /// # Errors
    /// When it is something else.
    pub fn word<T: Copy, const N: usize>(
        &self,
        names: &'static [(&'static str, T); N],
    ) -> Result<T, Complaint> {
        let found = self.value.as_str().and_then(|text| named(names, text));
        found.ok_or_else(|| {
            let words: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            let names = names.iter().map(|(name, _)| *name);
            let meant = self.value.as_str().and_then(|text| nearest(text, names));
            let meant = meant.map_or(String::new(), |it| format!("; {it:?} is probably meant"));
            self.refuse(format!("{}{meant}", words.join(", ")))
        })
    }

    /// A value parsed from text by its type; the type's errors list the allowed values.
    ///
    /// # Errors
    /// When it cannot.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&self) -> Result<T, Complaint> {
        self.text()?.parse().map_err(|why| self.refuse(why))
    }

    /// A value parsed by its type, from text that may look like a secret key without being one, such as a public key.
    ///
    /// # Errors
    /// When it cannot.
    pub fn parsed_public<T: FromStr<Err: fmt::Display>>(&self) -> Result<T, Complaint> {
        self.public_text()?.parse().map_err(|why| self.refuse(why))
    }

    /// An address and a port.
    ///
    /// # Errors
    /// When it is none.
    pub fn socket(&self) -> Result<SocketAddr, Complaint> {
        self.text()?.parse().map_err(|_| {
            self.refuse(
                "an address and a port, such as \"192.0.2.1:5066\" or \"[2001:db8::1]:5066\"",
            )
        })
    }

    /// A quantity, read from text or from a plain number; the type's error is the whole complaint.
    ///
    /// # Errors
    /// When it is none.
    pub fn quantity<T: FromStr<Err: fmt::Display>>(&self) -> Result<T, Complaint> {
        if self.value.as_str().is_some_and(secret::is_key) {
            return Err(self.complain(secret::ADVICE));
        }
        let text = match self.written() {
            Written::Integer(number) => number.to_string(),
            Written::Float(number) => number.to_string(),
            Written::Text(text) => text.to_owned(),
            Written::Flag(_) | Written::List(_) | Written::Other => {
                return Err(self.refuse("a text with number and unit"));
            }
        };
        text.parse().map_err(|why| self.complain(why))
    }

    /// The values of a list.
    ///
    /// # Errors
    /// When it is something else.
    pub fn list(&self) -> Result<Vec<Self>, Complaint> {
        let list = self.value.as_array().ok_or_else(|| self.refuse("a list, in brackets"))?;
        let entry = |value: &'d toml::Spanned<DeValue<'d>>| Self {
            span: value.span(),
            value: value.get_ref(),
            ..self.clone()
        };
        Ok(list.iter().map(entry).collect())
    }

    /// The two values of a list.
    ///
    /// # Errors
    /// When it is something else.
    pub fn pair(&self) -> Result<[Self; 2], Complaint> {
        let list = self.list()?;
        list.try_into().map_err(|_| self.refuse("a list of two"))
    }

    /// A table.
    ///
    /// # Errors
    /// When it is something else.
    pub fn section(&self) -> Result<Section<'d>, Complaint> {
        let table = self.value.as_table().ok_or_else(|| self.refuse("a table of keys"))?;
        let (document, path) = (self.document, self.path.clone());
        Ok(Section { document, path, span: self.span.clone(), table })
    }

    /// `true`, `false`, or a table of parameters, which means `true` too.
    ///
    /// # Errors
    /// When it is something else.
    pub fn switch(&self) -> Result<Option<Option<Section<'d>>>, Complaint> {
        match self.value {
            DeValue::Boolean(is_on) => Ok(is_on.then_some(None)),
            DeValue::Table(_) => Ok(Some(Some(self.section()?))),
            _ => Err(self.refuse("true, false, or a table of parameters")),
        }
    }

    /// A complaint about the value, which the document notes.
    #[must_use]
    pub fn complain(&self, what: impl fmt::Display) -> Complaint {
        self.document.complain(&self.span, &self.path, what)
    }

    /// A complaint about the key, which the document notes.
    #[must_use]
    pub fn complain_of_key(&self, what: impl fmt::Display) -> Complaint {
        self.document.complain(&self.key, &self.path, what)
    }

    /// A remark about a value that is allowed; nothing is noted.
    #[must_use]
    pub fn remark(&self, what: impl fmt::Display) -> Complaint {
        self.document.source.at(&self.span, &self.path, what)
    }

    fn refuse(&self, allowed: impl fmt::Display) -> Complaint {
        self.complain(format!("{} is not allowed: {allowed}", self.written()))
    }
}

fn written<'d>(value: &'d DeValue<'d>) -> Written<'d> {
    match value {
        DeValue::Boolean(flag) => Written::Flag(*flag),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Written::Integer(number),
            Err(_) => Written::Other,
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Written::Float(number),
            Err(_) => Written::Other,
        },
        DeValue::String(text) => Written::Text(text),
        DeValue::Array(list) => {
            Written::List(list.iter().map(|value| written(value.get_ref())).collect())
        }
        DeValue::Table(_) | DeValue::Datetime(_) => Written::Other,
    }
}
