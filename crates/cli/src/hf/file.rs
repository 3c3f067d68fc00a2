//! The options of `trackway hf` as a TOML file: a key is the name of an option.

use std::error::Error as _;
use std::path::Path;

use base::parameter::Written;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory as _, Parser};
use serde_json::{Value as Json, json};
use settings::kind::Kind;
use settings::schema::{self, Shape};
use settings::{Complaint, Source};

use super::options::Options;
use super::parameters;

/// Parsed as on the command line.
#[derive(Debug, Parser)]
#[command(name = "hf", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// The most octets of a file.
const MAX_OCTETS: u64 = 1 << 20;

/// Reads a file.
pub fn read(path: &Path) -> Result<Options, Complaint> {
    let source = Source::read(path, MAX_OCTETS)?;
    from_source(&source).map_err(|complaint| Kind::HfOptions.instead(&source).unwrap_or(complaint))
}

fn from_source(source: &Source) -> Result<Options, Complaint> {
    let document = source.parse()?;
    let mut words = Vec::new();
    for entry in document.root().entries() {
        let key = entry.name();
        let word = match entry.written() {
            Written::Text(text) => format!("--{key}={text}"),
            Written::Integer(number) => format!("--{key}={number}"),
            Written::Float(number) => format!("--{key}={number}"),
            Written::Flag(true) => format!("--{key}"),
            // A flag that is false is left out; other options are given the value `false`.
            Written::Flag(false) => match Line::try_parse_from([format!("--{key}")]) {
                Ok(_) if parameters::kind(key).is_none() => continue,
                _ => format!("--{key}=false"),
            },
            Written::List(_) | Written::Other => {
                return Err(entry.complain("a text, a number, or true is expected"));
            }
        };
        Line::try_parse_from([&word]).map_err(|error| entry.complain(complaint(&error)))?;
        words.push(word);
    }
    let line = Line::try_parse_from(words).map_err(|error| source.about(error))?;
    Ok(line.options)
}

/// A JSON schema of the file, for editors.
pub fn schema() -> Json {
    let mut keys = Shape::new();
    for option in Line::command().get_arguments() {
        let Some(name) = option.get_long() else { continue };
        let value = match (parameters::kind(name), option.get_action()) {
            (Some(kind), _) => schema::any([schema::of_kind(&kind), json!({ "type": "string" })]),
            (None, ArgAction::SetTrue) => schema::flag(),
            (None, _) => json!({ "type": ["string", "number"] }),
        };
        let meaning = option.get_help().map(ToString::to_string).unwrap_or_default();
        keys = keys.key(name, &meaning, value);
    }
    schema::document("Options of trackway hf", keys, Vec::new())
}

/// What is wrong with the value of a key, in a line.
fn complaint(error: &clap::Error) -> String {
    match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(other)) => {
                let other = other.trim_start_matches('-');
                format!("there is no such key; {other} is probably meant")
            }
            _ => "there is no such key; `trackway hf --help` shows those there are".to_owned(),
        },
        ErrorKind::TooManyValues => "true or false is expected".to_owned(),
        _ => match error.source() {
            Some(why) => why.to_string(),
            None => "a value is expected".to_owned(),
        },
    }
}

/// Whether the text of a file can be used.
#[cfg(test)]
pub fn check_text(text: &str) -> Result<(), Complaint> {
    from_source(&Source::new("hf.toml", text.to_owned())).map(drop)
}

/// Reads the text of a file.
#[cfg(test)]
pub fn parse(text: &str) -> Result<Options, Complaint> {
    from_source(&Source::new("hf.toml", text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_key() {
        for (text, expected) in [
            ("\nspede = 3", "2: spede: there is no such key; speed is probably meant"),
            ("colour = \"red\"", "1: colour: there is no such key; `trackway hf --help`"),
            ("speed = \"fast\"", "1: speed: invalid digit"),
            ("speed = true", "1: speed: a value is expected"),
            ("json = 3", "1: json: true or false is expected"),
            ("ber = 0.7", "1: ber: \"0.7\" is no bit error rate: 0 to 0.5, such as 1e-5"),
            ("snr = -99", "1: snr: \"-99\" is no ratio in dB: -40 to 80"),
            ("\n\nfading = \"bad\"", "3: fading: \"bad\" is no fading: good, moderate or poor"),
            ("interleaver = \"wide\"", "1: interleaver: an interleaver is one of ultra-short"),
            ("address-a = \"1.2.3\"", "1: address-a: a node address is four numbers"),
            ("sis-b = \"here\"", "1: sis-b: invalid socket address"),
            ("duration = \"long\"", "1: duration: "),
            ("seed = [1]", "1: seed: a text, a number, or true is expected"),
            ("speed = 1\nspeed = 2", "2: duplicate key"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("hf.toml:{expected}")), "{said}\nnot\n{expected}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
