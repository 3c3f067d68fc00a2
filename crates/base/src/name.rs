//! Names that users give: to tunnel peers, rules, TLS profiles and the nodes of scenarios.

/// Describes the names for users.
pub const ALLOWED: &str = "1 to 32 letters, digits, - _ .";
/// The names as a regular expression, for editors.
pub const PATTERN: &str = "^[A-Za-z0-9._-]{1,32}$";

/// Whether a text can be a name.
#[must_use]
pub fn is_allowed(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=32).contains(&text.len()) && text.chars().all(is_letter)
}

/// Says why a text is no name.
///
/// # Errors
/// If it is none.
pub fn check(text: &str) -> Result<(), String> {
    if is_allowed(text) { Ok(()) } else { Err(format!("{text:?} is not allowed: {ALLOWED}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for text in ["a", "web-2", "a_b.c", ".", &"x".repeat(32)] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["", "a b", "a/b", "\u{e4}", &"x".repeat(33)] {
            assert_eq!(check(text), Err(format!("{text:?} is not allowed: {ALLOWED}")));
        }
    }
}
