//! Tables for a terminal.

use crate::claim::Table;

/// The table in columns, its title above.
#[must_use]
pub fn to_text(table: &Table) -> String {
    let lines = || std::iter::once(&table.head).chain(&table.rows);
    let width = |column: usize| {
        let cells = lines().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut text = format!("{}\n", table.title);
    for line in lines() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        let rows = vec![words(["loss 5 %", "1 ± 2"]), words(["", "3"])];

        let text = to_text(&Table { title: "Places".into(), head: words(["No.", "s"]), rows });

        assert_eq!(text, "Places\nNo.       s\nloss 5 %  1 ± 2\n          3\n");
    }
}
