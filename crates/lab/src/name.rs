//! Names of cells: what is run, and the value on each axis, as in `transfer rate=9600/short octets=1000 hf-pep`.

use std::fmt::Display;

use base::parameter::Table;

/// The name of a cell: words between spaces. A word is a value on an axis, as `loss=0.1`, or stands for itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name(String);

impl Name {
    /// The name of what is run.
    #[must_use]
    pub fn of(what: &str) -> Self {
        Self(what.to_owned())
    }

    /// The same with a word.
    #[must_use]
    pub fn word(self, word: impl Display) -> Self {
        Self(format!("{} {}", self.0, joined(word)))
    }

    /// The same with a word where `is` holds.
    #[must_use]
    pub fn when(self, is: bool, word: &str) -> Self {
        if is { self.word(word) } else { self }
    }

    /// The same with a value on an axis.
    #[must_use]
    pub fn with(self, axis: &str, value: impl Display) -> Self {
        self.word(format!("{axis}={}", joined(value)))
    }

    /// The same with a value on an axis where it is not the usual one.
    #[must_use]
    pub fn unless(self, axis: &str, value: impl Display, usual: impl Display) -> Self {
        let value = joined(value);
        if value == joined(usual) { self } else { self.with(axis, value) }
    }

    /// The same with the parameters that have other values than usually, in the words of scenario files.
    #[must_use]
    pub fn parameters<C: Clone>(self, of: &str, table: &Table<C>, usual: &C, config: &C) -> Self {
        let all = table.differences(usual, config).into_iter();
        all.fold(self, |name, (key, value)| {
            name.with(&format!("{of}.{key}"), value.to_string().replace('"', ""))
        })
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name has every word of this text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        text.split_whitespace().all(|word| self.0.split(' ').any(|own| own == word))
    }
}

/// A number with six digits behind the point at most, for names.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Joins the words of a table's text into one word: `9 octets of X.25` becomes `9-octets-of-x.25`.
fn joined(words: impl Display) -> String {
    let text = words.to_string().to_lowercase().replace([',', ';'], "").replace(": ", " ");
    text.split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::Hasher as _;

    use siphasher::sip::SipHasher13;

    use super::*;
    use crate::grid::Cell;

    fn cells() -> Vec<Cell> {
        crate::claims().iter().flat_map(|claim| (claim.experiment)().cells).collect()
    }

    #[test]
    fn a_name_is_made_of_words() {
        let name = Name::of("chain").with("loss", rounded(0.1 + 0.2)).unless("hops", 4, 4);
        let name = name.when(true, "hbh").with("assumed", "no slots, and: X.25");

        assert_eq!(name.as_str(), "chain loss=0.3 hbh assumed=no-slots-and-x.25");
        assert!(name.has("hbh loss=0.3") && name.has("") && !name.has("loss=0."));
    }

    /// What a cell draws follows from its label; the published results were drawn with these.
    #[test]
    fn the_labels_of_all_cells_are_those_of_the_published_results() {
        let mut hasher = SipHasher13::new();
        let all = cells();

        for cell in &all {
            hasher.write(cell.draws().as_bytes());
            hasher.write_u8(b'\n');
        }

        assert_eq!((all.len(), hasher.finish()), (3_153, 17_133_900_937_826_367_986));
    }

    /// Cells of one name run once, so the name has to say all in which two cells differ.
    #[test]
    fn every_cell_has_a_plain_name_of_its_own() {
        let mut known = BTreeMap::new();

        for cell in cells() {
            let name = cell.name().as_str();
            let is_plain = |letter: char| {
                letter.is_ascii_lowercase()
                    || letter.is_ascii_digit()
                    || " =-+./%[]_:".contains(letter)
            };
            assert!(name.chars().all(is_plain), "{name}");
            let draws = known.entry(name.to_owned()).or_insert_with(|| cell.draws().to_owned());
            assert_eq!(draws, cell.draws(), "{name}");
        }

        // So many different cells: no two share a name.
        assert_eq!(known.len(), 2_521);
    }
}
