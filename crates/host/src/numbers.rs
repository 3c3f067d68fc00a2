//! Chooses the numbers that show the kernel's entries to be ours: tables, priorities, marks and protocols.
//!
//! The numbers hold for the whole process, and are chosen before any entry is made. Unusual numbers are noted in the
//! folder below `/run`, for the cleanup after a crash.

use std::fmt;
use std::sync::OnceLock;

use base::parameter::Kind;

use crate::run;

/// How many tables and priorities we use, from the first on.
const TABLES: u32 = 1_000;
const PRIORITIES: u32 = 774;
/// `FRA_PRIORITY` of the kernel's rule for the main table.
pub(crate) const MAIN_PRIORITY: u32 = 32_766;
/// Name of the note.
const NOTE: &str = run::NOTES[2];

base::parameters! {
    /// Our numbers in the kernel.
    pub static PARAMETERS = "host";

    /// The first numbers of their kinds.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Numbers from default() {
        /// The first of 1,000 tables of routes: for networks whose routes must not stand in the main table.
        #[allowed(Kind::count(1_000..=4_000_000_000))]
        pub tables: u32 = 51_900;

        /// The first of 774 priorities of rules for these tables.
        #[allowed(Kind::count(1_000..=31_900))]
        pub priorities: u32 = 30_000;

        /// The first of two tables that deliver marked packets to this host: for HF-PEP and S/R.
        #[allowed(Kind::count(1_000..=4_000_000_000))]
        pub local_tables: u32 = 29_810;

        /// The lower priority of the two rules for these tables.
        #[allowed(Kind::count(1..=31_900))]
        pub local_priorities: u32 = 100;

        /// The upper 16 bits of the firewall marks of our packets.
        #[allowed(Kind::count(1..=65_535))]
        pub marks: u16 = 0x7472;

        /// The first of six protocol numbers of routes and rules: the MANET's, then those of the tunnel, the IP client,
        /// GRE, HF-PEP and S/R.
        #[allowed(Kind::count(64..=180))]
        pub protocols: u8 = 116;
    }
}

static CHOSEN: OnceLock<Numbers> = OnceLock::new();

impl Numbers {
    /// The numbers of this process.
    #[must_use]
    pub fn chosen() -> Self {
        *CHOSEN.get_or_init(|| Self::noted().unwrap_or_default())
    }

    /// Chooses the numbers for this process; returns false if others were in use before.
    #[must_use]
    pub fn choose(self) -> bool {
        *CHOSEN.get_or_init(|| self) == self
    }

    /// The reason why these numbers cannot be used together, if any.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let Self { tables, priorities, local_tables, local_priorities, .. } = *self;
        let apart = |a: u32, many: u32, b: u32, few: u32| a + many <= b || b + few <= a;
        if !apart(tables, TABLES, local_tables, 2) {
            return Some("`tables` and `local-tables` overlap");
        }
        if !apart(priorities, PRIORITIES, local_priorities, 2) {
            return Some("`priorities` and `local-priorities` overlap");
        }
        (priorities + PRIORITIES > MAIN_PRIORITY)
            .then_some("`priorities` would come behind the rule for the main table")
    }

    /// Notes unusual numbers for the cleanup after a crash; returns false if they could not be written.
    #[must_use]
    pub fn note(&self) -> bool {
        run::remove_note(NOTE);
        *self == Self::default() || run::write_note(NOTE, self.line().as_bytes()).is_ok()
    }

    /// Removes the note.
    pub fn forget() {
        run::remove_note(NOTE);
    }

    /// The numbers noted by a crashed gateway of this network namespace.
    fn noted() -> Option<Self> {
        Self::parse(&run::read_note(NOTE)?)
    }

    fn line(&self) -> String {
        let Self { tables, priorities, local_tables, local_priorities, marks, protocols } = self;
        format!("{tables} {priorities} {local_tables} {local_priorities} {marks} {protocols}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<u32> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let &[tables, priorities, local_tables, local_priorities, marks, protocols] = &words[..]
        else {
            return None;
        };
        let (marks, protocols) = (u16::try_from(marks).ok()?, u8::try_from(protocols).ok()?);
        let its = Self { tables, priorities, local_tables, local_priorities, marks, protocols };
        (PARAMETERS.check(&its).is_ok() && its.fault().is_none()).then_some(its)
    }
}

/// A firewall mark of ours, given by its lower 16 bits; formatted with all 32 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark(pub u16);

impl Mark {
    /// The whole mark.
    #[must_use]
    pub fn value(self) -> u32 {
        u32::from(Numbers::chosen().marks) << 16 | u32::from(self.0)
    }

    /// Whether a firewall mark is one of ours.
    #[must_use]
    pub fn is_ours(mark: u32) -> bool {
        mark >> 16 == u32::from(Numbers::chosen().marks)
    }
}

impl fmt::LowerHex for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.value(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_noted() {
        let usual = Numbers::default();
        let others = Numbers { tables: 7_000, marks: 0xbeef, protocols: 66, ..usual };

        for numbers in [usual, others] {
            assert_eq!(Numbers::parse(&numbers.line()), Some(numbers));
        }
        for line in
            ["", "51900 30000 29810 100 29810", "1 2 3 4 5 6", "51900 30000 52000 100 29810 116"]
        {
            assert_eq!(Numbers::parse(line), None, "{line}");
        }
    }

    #[test]
    fn numbers_that_overlap_are_refused() {
        let usual = Numbers::default();

        assert_eq!(usual.fault(), None);
        for wrong in [
            Numbers { local_tables: 52_000, ..usual },
            Numbers { local_priorities: 30_700, ..usual },
            Numbers { priorities: 31_999, ..usual },
        ] {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
        assert_eq!(format!("{:#x}", Mark(0x776c)), "0x7472776c");
    }
}
