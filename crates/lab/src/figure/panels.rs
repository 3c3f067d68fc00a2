//! Several figures on one sheet, two in a row.

use std::fmt::Write as _;

use super::svg::to_svg;
use super::{Figure, theme};

/// Draws the figures as one SVG document. The same figures always give the same text.
#[must_use]
pub fn panels_to_svg(figures: &[Figure]) -> String {
    let columns = figures.len().clamp(1, 2);
    let rows = figures.len().div_ceil(columns).max(1);
    let (width, height) = (theme::WIDTH * columns as f64, theme::HEIGHT * rows as f64);
    let mut sheet = String::new();
    let _ = writeln!(
        sheet,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">"#,
    );
    let _ = writeln!(sheet, r#"<rect width="100%" height="100%" fill="{}"/>"#, theme::BACKGROUND);
    for (place, figure) in figures.iter().enumerate() {
        let x = theme::WIDTH * (place % columns) as f64;
        let y = theme::HEIGHT * (place / columns) as f64;
        let panel = to_svg(figure);
        let inside = panel.strip_prefix("<svg ").unwrap_or(&panel);
        let _ = write!(sheet, r#"<svg x="{x}" y="{y}" {inside}"#);
    }
    sheet.push_str("</svg>\n");
    sheet
}
