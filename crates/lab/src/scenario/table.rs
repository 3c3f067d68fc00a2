//! Tables of a report for people.

use std::fmt;

/// A table with a title; nothing when it has no rows.
pub fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    head: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(head[column].chars().count())
        })
        .collect();

    writeln!(f, "\n{title}")?;
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let is_number = cell.chars().all(|c| c.is_ascii_digit()) && !cell.is_empty();
            let cell =
                if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str("  ");
            line.push_str(&cell);
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
