//! The options of `trackway hf` as a TOML file: a key is the name of an option.

use std::error::Error as _;
use std::ops::Range;
use std::path::Path;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use toml::de::{DeTable, DeValue};

use super::options::Options;

/// As the command line reads it, so that both understand the same.
#[derive(Debug, Parser)]
#[command(name = "hf", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Options, String> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    parse(&file, &text)
}

/// Checks the text of a file.
pub(super) fn parse(file: &str, text: &str) -> Result<Options, String> {
    let at = |span: Range<usize>, what: String| {
        let line = 1 + text.bytes().take(span.start).filter(|&octet| octet == b'\n').count();
        format!("{file}, line {line}: {what}")
    };
    let table = DeTable::parse(text).map_err(|error| {
        let what = error.message().trim().replace('\n', ", ");
        at(error.span().unwrap_or_default(), what)
    })?;
    let mut words = Vec::new();
    // In the order of the file, so that the first mistake is the one that is told.
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let span = key.span();
        let key = key.get_ref();
        let word = match value.get_ref() {
            DeValue::String(text) => format!("--{key}={text}"),
            DeValue::Integer(number) => format!("--{key}={}", number.as_str()),
            DeValue::Float(number) => format!("--{key}={}", number.as_str()),
            DeValue::Boolean(true) => format!("--{key}"),
            DeValue::Boolean(false) => continue,
            DeValue::Array(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
                return Err(at(span, format!("{key}: a text, a number, or true is expected")));
            }
        };
        Line::try_parse_from([&word]).map_err(|error| at(span, complaint(key, &error)))?;
        words.push(word);
    }
    let line = Line::try_parse_from(words).map_err(|error| format!("{file}: {error}"))?;
    Ok(line.options)
}

/// What is wrong with the value of a key, in a line.
fn complaint(key: &str, error: &clap::Error) -> String {
    match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(other)) => {
                format!("unknown key `{key}`: is `{}` meant?", other.trim_start_matches('-'))
            }
            _ => format!("unknown key `{key}`: `trackway hf --help` shows those there are"),
        },
        ErrorKind::TooManyValues => format!("{key}: true or false is expected"),
        _ => match error.source() {
            Some(why) => format!("{key}: {why}"),
            None => format!("{key}: a value is expected"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_key() {
        for (text, expected) in [
            ("\nspede = 3", "line 2: unknown key `spede`: is `speed` meant?"),
            ("colour = \"red\"", "line 1: unknown key `colour`: `trackway hf --help`"),
            ("speed = \"fast\"", "line 1: speed: invalid digit"),
            ("speed = true", "line 1: speed: a value is expected"),
            ("json = 3", "line 1: json: true or false is expected"),
            ("ber = 0.7", "line 1: ber: \"0.7\" is no bit error rate: 0 to 0.5, such as 1e-5"),
            ("snr = -99", "line 1: snr: \"-99\" is no ratio in dB: -40 to 80"),
            (
                "\n\nfading = \"bad\"",
                "line 3: fading: \"bad\" is no fading: good, moderate or poor",
            ),
            ("interleaver = \"wide\"", "line 1: interleaver: an interleaver is one of ultra-short"),
            ("address-a = \"1.2.3\"", "line 1: address-a: a node address is four numbers"),
            ("sis-b = \"here\"", "line 1: sis-b: invalid socket address"),
            ("duration = \"long\"", "line 1: duration: "),
            ("seed = [1]", "line 1: seed: a text, a number, or true is expected"),
            ("speed = 1\nspeed = 2", "line 2: duplicate key"),
        ] {
            let said = parse("hf.toml", text).unwrap_err();
            assert!(said.starts_with(&format!("hf.toml, {expected}")), "{said}\nnot\n{expected}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
