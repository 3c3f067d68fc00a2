//! Declares parameters: each one is a row in the table of its protocol.
//!
//! A row gives the name, meaning, allowed values and place of a parameter in the protocol's `Config`; the defaults are
//! the ones of `Config`. Files, the command line, the documentation and the JSON schema are made from the rows, so a
//! new parameter is one row more.
//!
//! ```text
//!  Written ──▶ Kind ──▶ Value ──▶ Parameter::set ──▶ Config
//!  as people   what is            where it stands     ▲
//!  write it    allowed                                └── Rule: what must hold between several
//! ```

mod kind;
mod value;

pub use kind::{Kind, names};
pub use value::{Value, Written, named, word};

/// The parameters of a protocol with the configuration `C`.
#[derive(Debug)]
pub struct Table<C: 'static> {
    /// The protocol.
    pub name: &'static str,
    /// Rows in the order of setting: a parameter that decides on others comes before them.
    pub parameters: &'static [Parameter<C>],
    /// What must hold when all are set.
    pub rules: &'static [Rule<C>],
}

/// A parameter.
#[derive(Debug)]
pub struct Parameter<C: 'static> {
    /// In kebab-case; a dot leads into a group, such as `rto.gain`.
    pub name: &'static str,
    /// One sentence for its users.
    pub meaning: &'static str,
    /// What is allowed.
    pub kind: Kind,
    /// The condition under which the parameter is useful; `None` means always.
    pub condition: Option<Condition<C>>,
    /// Reads it.
    pub get: fn(&C) -> Value,
    /// Sets the parameter to a value allowed by its kind.
    pub set: fn(&mut C, Value),
}

/// When a parameter is of use.
#[derive(Debug)]
pub struct Condition<C: 'static> {
    /// The condition as users write it, such as `access = "jitter"`.
    pub text: &'static str,
    /// Whether it is so.
    pub holds: fn(&C) -> bool,
}

/// What must hold between several parameters.
#[derive(Debug)]
pub struct Rule<C: 'static> {
    /// The parameters concerned.
    pub names: &'static [&'static str],
    /// The rule in words.
    pub allowed: &'static str,
    /// Whether it is kept.
    pub holds: fn(&C) -> bool,
}

/// Why a value is not taken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}")]
pub struct Refused {
    /// The parameters concerned; the first that was given is to blame.
    pub names: Vec<&'static str>,
    /// The mistake, and the allowed values.
    pub what: String,
}

/// A table without its `Config`: what documentation is made of.
#[derive(Clone, Debug)]
pub struct Description {
    /// The protocol.
    pub name: &'static str,
    /// Headings of the columns of defaults.
    pub profiles: Vec<&'static str>,
    /// The parameters.
    pub rows: Vec<Row>,
    /// What must hold between several, in words.
    pub rules: Vec<&'static str>,
}

/// A parameter without its `Config`.
#[derive(Clone, Debug)]
pub struct Row {
    /// In kebab-case.
    pub name: &'static str,
    /// One sentence for its users.
    pub meaning: &'static str,
    /// What is allowed.
    pub kind: Kind,
    /// The condition under which the parameter is useful; `None` means always.
    pub condition: Option<&'static str>,
    /// Its default in each profile.
    pub defaults: Vec<Value>,
}

impl<C> Parameter<C> {
    /// A parameter that is useful everywhere.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        get: fn(&C) -> Value,
        set: fn(&mut C, Value),
    ) -> Self {
        Self { name, meaning, kind, condition: None, get, set }
    }

    /// The same, of use only where `holds` does.
    #[must_use]
    pub const fn only_with(self, text: &'static str, holds: fn(&C) -> bool) -> Self {
        Self { condition: Some(Condition { text, holds }), ..self }
    }
}

impl<C> Table<C> {
    /// The parameter of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static Parameter<C>> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Sets what is `given` by name and leaves the rest.
    ///
    /// # Errors
    /// With the first value that is not allowed; what others changed is then undefined.
    pub fn apply<'a>(
        &self,
        config: &mut C,
        given: impl Fn(&'static str) -> Option<Written<'a>>,
    ) -> Result<(), Refused> {
        for Parameter { name, kind, condition, set, .. } in self.parameters {
            let Some(written) = given(name) else { continue };
            let refused = |what| Refused { names: vec![name], what };
            let value = kind.read(&written).map_err(refused)?;
            if let Some(Condition { text, holds }) = condition
                && !holds(config)
            {
                return Err(refused(format!("it is for {text}")));
            }
            set(config, value);
        }
        self.check(config)
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// With the first that is broken.
    pub fn check(&self, config: &C) -> Result<(), Refused> {
        let Some(rule) = self.rules.iter().find(|rule| !(rule.holds)(config)) else {
            return Ok(());
        };
        let found = rule.names.iter().filter_map(|name| self.find(name));
        let found: Vec<String> =
            found.map(|it| format!("{} = {}", it.name, (it.get)(config))).collect();
        let what = format!("{} are not allowed together: {}", found.join(", "), rule.allowed);
        Err(Refused { names: rule.names.to_vec(), what })
    }

    /// The changes, in this order, that turn `base` into `config`, as far as parameters can.
    #[must_use]
    pub fn differences(&self, base: &C, config: &C) -> Vec<(&'static str, Value)>
    where
        C: Clone,
    {
        let (mut made, mut all) = (base.clone(), Vec::new());
        for Parameter { name, get, set, .. } in self.parameters {
            let value = get(config);
            if value != Value::Absent && value != get(&made) {
                set(&mut made, value.clone());
                all.push((*name, value));
            }
        }
        all
    }

    /// What documentation is made of; `profiles` are the columns of defaults.
    #[must_use]
    pub fn describe(&self, profiles: &[(&'static str, C)]) -> Description {
        let rows = self.parameters.iter().map(|parameter| Row {
            name: parameter.name,
            meaning: parameter.meaning,
            kind: parameter.kind,
            condition: parameter.condition.as_ref().map(|condition| condition.text),
            defaults: profiles.iter().map(|(_, config)| (parameter.get)(config)).collect(),
        });
        Description {
            name: self.name,
            profiles: profiles.iter().map(|(name, _)| *name).collect(),
            rows: rows.collect(),
            rules: self.rules.iter().map(|rule| rule.allowed).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Config {
        low: u8,
        high: u8,
        loud: bool,
    }

    static TABLE: Table<Config> = Table {
        name: "example",
        parameters: &[
            Parameter::new(
                "loud",
                Kind::Flag,
                "Whether it is heard.",
                |it| it.loud.into(),
                |it, to| it.loud = to.flag(),
            ),
            Parameter::new(
                "low",
                Kind::Count { least: 0, most: 9, unit: "" },
                "Where it begins.",
                |it| it.low.into(),
                |it, to| it.low = to.count(),
            ),
            Parameter::<Config>::new(
                "high",
                Kind::Count { least: 0, most: 9, unit: "" },
                "Where it ends.",
                |it| it.high.into(),
                |it, to| it.high = to.count(),
            )
            .only_with("loud = true", |it| it.loud),
        ],
        rules: &[Rule {
            names: &["low", "high"],
            allowed: "low is at most high",
            holds: |it| it.low <= it.high,
        }],
    };

    const CONFIG: Config = Config { low: 1, high: 5, loud: true };

    fn apply(given: &[(&str, i64)]) -> Result<Config, Refused> {
        let mut config = CONFIG;
        let given = |name: &str| given.iter().find(|it| it.0 == name).map(|it| it.1);
        TABLE.apply(&mut config, |name| {
            let written = given(name)?;
            Some(if name == "loud" {
                Written::Flag(written > 0)
            } else {
                Written::Integer(written)
            })
        })?;
        Ok(config)
    }

    #[test]
    fn what_is_not_given_stays() {
        assert_eq!(apply(&[]), Ok(CONFIG));
        assert_eq!(apply(&[("low", 5)]), Ok(Config { low: 5, ..CONFIG }));
    }

    #[test]
    fn what_is_refused_is_said_with_what_is_allowed() {
        let said = |given: &[(&str, i64)]| {
            let refused = apply(given).unwrap_err();
            (refused.names, refused.what)
        };

        assert_eq!(said(&[("low", 10)]), (vec!["low"], "10 is not allowed: 0 to 9".to_owned()));
        let together = "low = 6, high = 5 are not allowed together: low is at most high";
        assert_eq!(said(&[("low", 6)]), (vec!["low", "high"], together.to_owned()));
        let condition = "it is for loud = true".to_owned();
        assert_eq!(said(&[("loud", 0), ("high", 7)]), (vec!["high"], condition));
    }

    #[test]
    fn differences_are_what_makes_one_config_of_another() {
        let other = Config { low: 0, ..CONFIG };

        assert_eq!(TABLE.differences(&CONFIG, &CONFIG), []);
        assert_eq!(TABLE.differences(&CONFIG, &other), [("low", Value::Count(0))]);
    }

    #[test]
    fn a_description_has_the_defaults() {
        let described = TABLE.describe(&[("usual", CONFIG)]);

        let defaults = described.rows.iter().map(|row| row.defaults[0].to_string());
        assert_eq!(defaults.collect::<Vec<_>>(), ["true", "1", "5"]);
        assert_eq!(described.rows[2].condition, Some("loud = true"));
    }
}
