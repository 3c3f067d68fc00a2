//! Writes the runs of a search as lines of a journal, and reads them back.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::path::Path;

use siphasher::sip::SipHasher13;

use super::measure::{MEASURES, Measured};
use super::subject::Subject;
use crate::journal::{Head, Journal, Unusable};
use crate::scenario::Plan;

/// The runs of a journal, by setting and seed.
pub type Known = BTreeMap<(String, u64), Measured>;

/// What a journal is about: a scenario and whose traffic is measured, in a few digits.
#[must_use]
pub fn fingerprint(plan: &Plan, subject: &Subject) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("{plan:?}\n{subject:?}").as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Opens the journal of a folder. Returns its runs, and whether runs of another build were discarded.
///
/// # Errors
/// As for [`Journal::open`].
pub fn open(folder: &Path, fingerprint: &str) -> Result<(Journal, Known, bool), Unusable> {
    let measures: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
    let head = Head { command: "tune", subject: fingerprint, form: &measures.join(" ") };
    let (journal, kept) = Journal::open(folder, head)?;
    let known = kept.lines.iter().filter_map(|line| read(line)).collect();
    Ok((journal, known, kept.was_of_another_build))
}

/// A run as a line.
pub fn line(setting: &str, seed: u64, measured: &Measured) -> String {
    let values: Vec<String> = measured.0.iter().map(f64::to_string).collect();
    format!("{seed}\t{setting}\t{}", values.join(" "))
}

fn read(line: &str) -> Option<((String, u64), Measured)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [seed, setting, values] = fields[..] else { return None };
    let values: Vec<f64> = values.split(' ').map(|it| it.parse().ok()).collect::<Option<_>>()?;
    Some(((setting.to_owned(), seed.parse().ok()?), Measured(values.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::Folder;

    #[test]
    fn what_was_run_is_known_to_the_last_bit_when_it_goes_on() {
        let folder = Folder::new("goes-on");
        let mut measured = Measured::default();
        measured.0[..4].copy_from_slice(&[0.1, f64::INFINITY, f64::NAN, 1.0 / 3.0]);
        let (journal, known, _) = open(&folder.0, "f").unwrap();
        assert!(known.is_empty());
        assert!(journal.add(&line("a = 1", 7, &measured)));
        assert!(journal.add(&line("a = 1", 8, &Measured::default())));
        drop(journal);

        let (_, known, _) = open(&folder.0, "f").unwrap();

        let keys: Vec<u64> = known.keys().map(|(_, seed)| *seed).collect();
        assert_eq!(keys, [7, 8]);
        let bits = |it: &Measured| it.0.map(f64::to_bits);
        assert_eq!(bits(&known[&("a = 1".to_owned(), 7)]), bits(&measured));
    }
}
