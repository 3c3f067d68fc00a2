//! Estimates the width of texts, near enough to place a legend, and formats numbers for people.

/// The width of `text` in DejaVu Sans at size `size`.
pub fn width(text: &str, size: f64) -> f64 {
    let em: f64 = text.chars().map(advance).sum();
    em * size
}

/// How far a character moves the pen, in em.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 0.31,
        'f' | 't' | 'r' | '(' | ')' | '-' | '[' | ']' | '/' => 0.39,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '×' => 0.92,
        'A'..='Z' => 0.70,
        _ => 0.62,
    }
}

/// `text` in lines no wider than `room`.
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A number on an axis: no digit that says nothing, thousands apart.
pub fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{}{rest}", thousands(whole))
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("−", rest));
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Text inside an element of XML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_needless_digits() {
        let ticks = [0.0, 0.25, 5.0, 1000.0, 25_000.0, 1_000_000.0, -3.0];

        let written: Vec<String> = ticks.into_iter().map(tick).collect();

        assert_eq!(
            written,
            ["0", "0.25", "5", "1000", "25\u{2009}000", "1\u{2009}000\u{2009}000", "−3"]
        );
    }

    #[test]
    fn wrapped_lines_fit() {
        let lines = wrap("one two three four five six seven", 10.0, 80.0);

        assert!(lines.len() > 1);
        assert!(lines.iter().all(|line| width(line, 10.0) <= 80.0), "{lines:?}");
    }
}
