//! Suggests the intended name for a misspelt one.

/// The existing name nearest to `written`, most likely the intended one.
#[must_use]
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if written.len() > 4 { 2 } else { 1 };
    let distances = names.into_iter().map(|name| (distance(written, name), name));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// How many letters are to be added, removed, changed, or exchanged with the next one.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_slips_are_recognised() {
        let names = ["limits", "hello", "hbh", "rate", "queue"];

        assert_eq!(nearest("limts", names), Some("limits"));
        assert_eq!(nearest("ehllo", names), Some("hello"));
        assert_eq!(nearest("hbhh", names), Some("hbh"));
        assert_eq!(nearest("que", names), None);
        assert_eq!(nearest("entirely", names), None);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("rate", "tare"), 2);
    }
}
