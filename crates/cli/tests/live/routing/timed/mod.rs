//! Tests that measure time on slow links. `./test` runs several of these tests side by side, and nothing else beside.

mod outages;
mod rings;
mod speed;

/// Expects that a measurement is good; it says whether, and a report.
///
/// What else the machine does makes it worse, never better. Should that spoil one of a hundred, all of
/// three are bad once in 1e6 runs.
fn expect_one_of_three(mut measure: impl FnMut() -> (bool, String)) {
    let mut stories = String::new();
    for _ in 0..3 {
        let (is_good, story) = measure();
        if is_good {
            return;
        }
        stories += &story;
    }
    panic!("{stories}");
}
