//! Finds secrets in the wrong place, such as a key in place of a file name, so that no message repeats a secret.
//!
//! ```text
//!  private-key = "AAEC…Hx8="   ──▶ Entry::text ──▶ a complaint that says what to do, and not what was written
//!  complaints of all readers   ──▶ Source      ──▶ the same words with what may be a key left out
//! ```

use std::borrow::Cow;

/// Letters in a base64 key of 32 octets (RFC 4648, 4 and 5), without the final `=`.
const BASE64: usize = 43;
/// Hexadecimal digits of a 32-octet key.
const HEX: usize = 64;
/// Base64 letters of a key with a few letters lost or doubled.
const NEARLY: std::ops::RangeInclusive<usize> = 40..=48;
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_SECRET: &str = "PRIVATE KEY-----";
const PEM_END: &str = "-----END ";
const DASHES: &str = "-----";
/// The text shown in place of a secret.
const HIDDEN: &str = "(a key, not repeated here)";

/// The advice in complaints about a secret in place of a name.
pub(crate) const ADVICE: &str = "what is written here looks like a secret key itself, which a configuration must not hold: put it alone \
     into a file with mode 0600 and write the name of that file here; make another key if others have seen this one";

/// Whether a text is a secret key, or nearly one: 32 octets in base64 or base 16, or a private key in PEM (RFC 7468).
#[must_use]
pub fn is_key(text: &str) -> bool {
    let text = text.trim();
    let is_hex = text.len() == HEX && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_hex || is_base64(text) || (text.contains(PEM_BEGIN) && text.contains(PEM_SECRET))
}

/// Whether a text is a key in base64; without the `=` at its end it takes more than the length, because names of files
/// may be as long.
fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || it == b'+' || it == b'/';
    let is_for_urls = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
    let has = |kind: fn(&u8) -> bool| letters.as_bytes().iter().any(kind);
    let is_mixed = has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(|it| !it.is_ascii_alphabetic());
    let (plain, for_urls) = (letters.bytes().all(is_plain), letters.bytes().all(is_for_urls));
    match letters.len() {
        BASE64 if padding == 1 => plain || for_urls,
        BASE64 if padding == 0 => (plain || for_urls) && is_mixed,
        length => NEARLY.contains(&length) && padding <= 2 && plain && is_mixed,
    }
}

/// The text with secret keys removed, including a key joined to a folder's name.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    let text = without_pem(text);
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "+/=-_".contains(it);
    let mut out = String::new();
    let (mut rest, mut found) = (&text[..], false);
    while let Some(start) = rest.find(is_letter) {
        let word = &rest[start..];
        let end = word.find(|it| !is_letter(it)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        out.push_str(&rest[..start]);
        match secret_in(word) {
            Some((from, to)) => {
                found = true;
                out.push_str(&word[..from]);
                out.push_str(HIDDEN);
                out.push_str(&word[to..]);
            }
            None => out.push_str(word),
        }
        rest = after;
    }
    if !found {
        return text;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The position of a key within a word of base64 letters.
fn secret_in(word: &str) -> Option<(usize, usize)> {
    if is_key(word) {
        return Some((0, word.len()));
    }
    if let Some(from) = word.len().checked_sub(BASE64 + 1)
        && word.ends_with('=')
    {
        return Some((from, word.len()));
    }
    // Behind a folder, or behind an option.
    const WAYS: [&[char]; 2] = [&['/'], &['/', '=', '-']];
    WAYS.into_iter().find_map(|separators| {
        let mut from = 0;
        word.split(separators).find_map(|part| {
            let range = (from, from + part.len());
            from = range.1 + 1;
            is_key(part).then_some(range)
        })
    })
}

fn without_pem(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    while let Some(begin) = text.find(PEM_BEGIN).filter(|_| text.contains(PEM_SECRET)) {
        let inside = &text[begin..];
        let end = inside.find(PEM_END).and_then(|end| {
            let label = end + PEM_END.len();
            inside[label..].find(DASHES).map(|at| label + at + DASHES.len())
        });
        let after = end.map_or("", |end| &inside[end..]);
        text = Cow::Owned(format!("{}{HIDDEN}{after}", &text[..begin]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example, and nobody's.
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const HEX_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn keys_are_told_from_names_of_files() {
        let without_end = KEY.trim_end_matches('=');
        let for_urls = KEY.replace('w', "_").replace('Q', "-");
        let pem = format!("-----BEGIN EC PRIVATE KEY-----\n{KEY}\n-----END EC PRIVATE KEY-----\n");
        for key in [
            KEY,
            without_end,
            &KEY[1..],
            &KEY[..41],
            &format!("{KEY}="),
            &for_urls,
            HEX_KEY,
            &HEX_KEY.to_uppercase(),
            &format!(" {KEY}\n"),
            &pem,
        ] {
            assert!(is_key(key), "{key}");
        }
        for name in [
            "a.key",
            "/etc/trackway/keys/of/gateways/in/the/north",
            "keys/trackway-gateway-1-private-key-of-site-a1",
            "/var/lib/trackway/keys/gateway-north/private.key",
            "-----BEGIN CERTIFICATE-----",
            "",
        ] {
            assert!(!is_key(name), "{name}");
            assert_eq!(redact(name), name);
        }
    }

    #[test]
    fn a_text_loses_its_keys_and_nothing_else() {
        let pem = format!("-----BEGIN PRIVATE KEY-----\\n{KEY}\\n-----END PRIVATE KEY-----");
        for (text, expected) in [
            (format!("/etc/trackway/{KEY}: not found"), "/etc/trackway/#: not found"),
            (format!("/etc/trackway/{HEX_KEY}"), "/etc/trackway/#"),
            (format!("{KEY:?} is not allowed: a name"), "\"#\" is not allowed: a name"),
            (format!("unexpected argument '--{HEX_KEY}' found"), "unexpected argument '--#' found"),
            (format!("'--key={HEX_KEY}' and '--key={KEY}'"), "'--key=#' and '--key=#'"),
            (format!("[\"a\", \"{KEY}\", {HEX_KEY}]"), "[\"a\", \"#\", #]"),
            (format!("a {pem} b {pem}"), "a # b #"),
            ("a -----BEGIN PRIVATE KEY-----\\nAAEC".to_owned(), "a #"),
        ] {
            assert_eq!(redact(&text), expected.replace('#', HIDDEN), "{text}");
        }
    }
}
