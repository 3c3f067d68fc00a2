//! The parameters of both nodes as options, one option for each row of the table.

use base::parameter::{Kind, Parameter, Refused, Written};
use clap::{Arg, ArgMatches, Command, Error};
use hf::s5066::node::Config;
use hf::s5066::node::PARAMETERS;

/// Parameters of the nodes given by options, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeParameters(Vec<(&'static str, String)>);

/// The rows that are options. The waveform is given by `--speed` and `--interleaver` instead.
fn rows() -> impl Iterator<Item = &'static Parameter<Config>> {
    PARAMETERS.parameters.iter().filter(|row| row.name != "waveform")
}

/// The kind of value of an option, if the option is a parameter of the nodes.
pub fn kind(name: &str) -> Option<Kind> {
    rows().find(|row| row.name == name).map(|row| row.kind)
}

impl NodeParameters {
    /// Fills parameters that are not given from `other`.
    pub fn or(mut self, other: Self) -> Self {
        let is_new = |(name, _): &(&str, String)| self.0.iter().all(|(own, _)| own != name);
        let new: Vec<_> = other.0.into_iter().filter(is_new).collect();
        self.0.extend(new);
        self
    }

    /// Sets the given parameters.
    pub fn apply(&self, config: &mut Config) -> Result<(), Refused> {
        let given = |name| self.0.iter().find(|(given, _)| *given == name);
        PARAMETERS.apply(config, |name| given(name).map(|(_, text)| Written::argument(text)))
    }
}

impl clap::Args for NodeParameters {
    fn augment_args(command: Command) -> Command {
        command.args(rows().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for NodeParameters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |name| matches.get_one::<String>(name).map(|text| (name, text.clone()));
        Ok(Self(rows().filter_map(|row| given(row.name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let given = Self::from_arg_matches(matches)?;
        *self = given.or(std::mem::take(self));
        Ok(())
    }
}

fn argument(row: &'static Parameter<Config>) -> Arg {
    let kind = row.kind;
    let read = move |text: &str| kind.read(&Written::argument(text)).map(|_| text.to_owned());
    let argument = Arg::new(row.name)
        .long(row.name)
        .help(format!("{} [{kind}]", row.meaning))
        .help_heading("Parameters of both nodes");
    match kind {
        Kind::Flag => argument
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("BOOL")
            .value_parser(read),
        Kind::Count { .. } => argument.value_name("N").value_parser(read),
        Kind::Period { .. } => argument.value_name("TIME").value_parser(read),
        _ => argument.value_name("VALUE").value_parser(read),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use hf::s5066::Address;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        parameters: NodeParameters,
    }

    #[test]
    fn each_row_but_the_waveform_is_an_option() {
        let line = ["--longest", "30s", "--calls=9", "--edition-3"];
        let given = Line::try_parse_from(line).unwrap().parameters;
        let mut config = Config::new(Address::node(1), "9600/short".parse().unwrap());

        given.apply(&mut config).unwrap();

        assert_eq!((config.longest, config.link.calls), (Duration::from_secs(30), 9));
        assert!(!config.sis.has_messages);
    }

    #[test]
    fn what_is_not_allowed_is_said_with_what_is() {
        let error = Line::try_parse_from(["--calls", "21"]).unwrap_err();

        assert!(error.to_string().contains("21 is not allowed: 1 to 20"), "{error}");
    }
}
