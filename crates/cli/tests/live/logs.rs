//! Counts the lines of a gateway's log: whatever others send, the log grows by so many lines of a kind in a minute.

use std::time::Duration;

/// Lines that share a budget.
pub struct Kind {
    /// A part of each line; one of them at least has to be in the log.
    pub lines: &'static [&'static str],
    /// Lines in a minute at most.
    pub most: usize,
}

/// Expects that lines of each kind were written, within their budget, and besides them only the lines of start and end.
/// Prints how many there were.
pub fn expect_bounded(printed: &str, provoked: Duration, kinds: &[Kind]) {
    let seconds = provoked.as_secs_f64();
    // A budget is renewed a minute after its first line.
    let budgets = usize::try_from(provoked.as_secs() / 60).unwrap() + 1;
    let mut counted = 0;
    for Kind { lines, most } in kinds {
        let count = |what: &str| printed.lines().filter(|line| line.contains(what)).count();
        let counts: Vec<_> = lines.iter().map(|what| count(what)).collect();
        let sum: usize = counts.iter().sum();
        counted += sum;
        println!("{counts:?} lines in {seconds:.0} s, {most} a minute allowed: {lines:?}");
        assert!(sum > 0, "{lines:?} {counts:?}\n{printed}");
        assert!(sum <= budgets * most, "{lines:?} {counts:?} in {provoked:?}");
    }
    let others = printed.lines().count() - counted;
    assert!(others < 40, "{others} other lines\n{printed}");
}
