//! Declares parameters: each is a row in the table of its protocol.
//!
//! A row gives the name, meaning, allowed values and place of a parameter in the protocol's `Config`. Files, the
//! command line, the documentation and the JSON schema are made from the rows. [`parameters!`](crate::parameters)
//! makes row, field and default from one declaration, so a new parameter is one declaration more.
//!
//! ```text
//!  Written ──▶ Kind ──▶ Value ──▶ Parameter::set ──▶ Config
//!  as people   what is            where it stands     ▲
//!  write it    allowed                                └── Rule: what must hold between several
//! ```

mod declare;
mod kind;
mod settable;
mod value;

pub use kind::{Kind, MOST_MEMORY, names};
pub use settable::Settable;
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
    /// The condition in the notation of users, for example `access = "jitter"`.
    pub text: &'static str,
    /// Whether the condition holds.
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
    /// A heading for each column of defaults.
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

/// A field's name for users: with hyphens instead of underscores.
///
/// # Panics
/// When `N` is not the length of the name, which stops the compilation of a constant.
#[must_use]
pub const fn kebab<const N: usize>(snake: &str) -> [u8; N] {
    let (snake, mut kebab) = (snake.as_bytes(), [0; N]);
    assert!(snake.len() == N, "the length of the name");
    let mut at = 0;
    while at < N {
        kebab[at] = if snake[at] == b'_' { b'-' } else { snake[at] };
        at += 1;
    }
    kebab
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

    /// Sets the parameters `given` by name, and leaves the others unchanged.
    ///
    /// # Errors
    /// With the first refused value; the other parameters are then undefined.
    pub fn apply<'a>(
        &self,
        config: &mut C,
        given: impl Fn(&'static str) -> Option<Written<'a>>,
    ) -> Result<(), Refused> {
        self.apply_all(config, given).into_iter().next().map_or(Ok(()), Err)
    }

    /// Sets the parameters `given` by name if allowed, and returns all refusals. Rules between several parameters are
    /// checked if each of the values is allowed.
    #[must_use]
    pub fn apply_all<'a>(
        &self,
        config: &mut C,
        given: impl Fn(&'static str) -> Option<Written<'a>>,
    ) -> Vec<Refused> {
        let mut all = Vec::new();
        for Parameter { name, kind, condition, set, .. } in self.parameters {
            let Some(written) = given(name) else { continue };
            let mut refuse = |what| all.push(Refused { names: vec![name], what });
            match kind.read(&written) {
                Err(what) => refuse(what),
                Ok(value) => match condition {
                    Some(Condition { text, holds }) if !holds(config) => {
                        refuse(format!("it is for {text}"));
                    }
                    _ => set(config, value),
                },
            }
        }
        if all.is_empty() { self.broken_rules(config).collect() } else { all }
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// With the first that is broken.
    pub fn check(&self, config: &C) -> Result<(), Refused> {
        self.broken_rules(config).next().map_or(Ok(()), Err)
    }

    fn broken_rules(&self, config: &C) -> impl Iterator<Item = Refused> {
        self.rules.iter().filter(|rule| !(rule.holds)(config)).map(|rule| {
            let found = rule.names.iter().filter_map(|name| self.find(name));
            let found: Vec<String> =
                found.map(|it| format!("{} = {}", it.name, (it.get)(config))).collect();
            let what = format!("{} are not allowed together: {}", found.join(", "), rule.allowed);
            Refused { names: rule.names.to_vec(), what }
        })
    }

    /// Changes of parameters, to be made in this order, for turning `base` into `config`, as far as parameters can.
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
    use std::time::Duration;

    use super::*;
    use crate::quantity::BitRate;
    use crate::{parameters, words};

    parameters! {
        static TABLE = "example";

        /// The settings of the example.
        #[derive(Clone, Debug, PartialEq)]
        struct Config {
            /// Whether it is heard.
            #[allowed(Kind::Flag)]
            loud: bool;

            /// Where it begins.
            #[allowed(Kind::count(0..=9))]
            low: u8;

            /// Where it ends.
            #[allowed(Kind::count(0..=9))]
            #[only("loud = true", |it| it.loud)]
            high: u8;
        }

        rules [Rule {
            names: &["low", "high"],
            allowed: "low is at most high",
            holds: |it| it.low <= it.high,
        }]
    }

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
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Profile {
        Quick,
        Thorough,
    }

    const PROFILES: [(&str, Profile); 2] =
        [("quick", Profile::Quick), ("thorough", Profile::Thorough)];
    words!(Profile: PROFILES);

    /// Constants of callers that could be taken for constants of the macro.
    const NAME: u64 = 9;
    const SNAKE: u64 = 1;

    parameters! {
        static ALL = "all";

        /// One of each form that a declaration has.
        #[derive(Clone, Debug, PartialEq)]
        struct All from new(profile: Profile, seed: u64) {
            /// Decides on the
            /// others.
            #[allowed(Kind::Word(&names(&PROFILES)))]
            #[set(|it, to| *it = All::new(named(&PROFILES, to.text()).unwrap_or(it.profile), it.seed))]
            profile: Profile = profile;

            /// No parameter.
            seed: u64 = seed;

            /// Its weight.
            #[allowed(Kind::share(0.1..=0.9))]
            weight_of_all as "weight": f64 = 0.5, Thorough: 0.25;

            /// How long.
            timer: struct Timer {
                /// At first.
                #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(9)))]
                first_wait: Duration = Duration::from_secs(1), Thorough: Duration::from_secs(3);

                /// How often, unless for ever.
                #[allowed(Kind::count(SNAKE..=NAME).of("times"))]
                times: Option<u8> = None;
            }

            /// Bounds.
            limits: flat struct Limits {
                /// Packets.
                #[allowed(Kind::span(1..=99).of("packets"))]
                packets_held: (u8, u8) = (1, 9);
            }

            /// Its name.
            #[allowed(Kind::Text { allowed: "a name", check: |_| Ok(()), examples: &[] })]
            called: String = "it".to_owned();

            /// How fast.
            #[allowed(Kind::Rate { may_be_unlimited: true })]
            speed: BitRate = BitRate::Unlimited;

            /// Bits a second.
            #[allowed(Kind::Rate { may_be_unlimited: false })]
            #[get(|_| Value::Absent)]
            #[set(|_, _| ())]
            "rate";

            /// The first wait once more.
            #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(9)))]
            "again" at timer.first_wait;
        }
    }

    #[test]
    fn a_declaration_makes_field_default_and_row() {
        let quick = All::new(Profile::Quick, 7);
        let thorough = All::new(Profile::Thorough, 7);

        let rows: Vec<String> = ALL
            .describe(&[("quick", quick.clone()), ("thorough", thorough)])
            .rows
            .iter()
            .map(|row| {
                format!(
                    "{}: {} {} {} {}",
                    row.name, row.meaning, row.kind, row.defaults[0], row.defaults[1]
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                r#"profile: Decides on the others. "quick" or "thorough" "quick" "thorough""#,
                r#"weight: Its weight. 10% to 90% "50%" "25%""#,
                r#"timer.first-wait: At first. 0s to 9s "1s" "3s""#,
                "timer.times: How often, unless for ever. 1 to 9 times none none",
                "packets-held: Packets. 1 to 99 packets, or [least, most] [1, 9] [1, 9]",
                r#"called: Its name. a name "it" "it""#,
                r#"speed: How fast. a rate such as 300kbit, or unlimited "unlimited" "unlimited""#,
                "rate: Bits a second. a rate such as 300kbit none none",
                r#"again: The first wait once more. 0s to 9s "1s" "3s""#,
            ]
        );

        let mut config = quick;
        for (name, written) in [
            ("profile", Written::Text("thorough")),
            ("weight", Written::Text("80%")),
            ("timer.times", Written::Integer(3)),
            ("packets-held", Written::Integer(5)),
            ("called", Written::Text("that")),
            ("speed", Written::Text("1kbit")),
            ("again", Written::Text("2s")),
        ] {
            ALL.apply(&mut config, |it| (it == name).then(|| written.clone())).unwrap();
        }
        assert_eq!(
            config,
            All {
                profile: Profile::Thorough,
                seed: 7,
                weight_of_all: 0.8,
                timer: Timer { first_wait: Duration::from_secs(2), times: Some(3) },
                limits: Limits { packets_held: (5, 5) },
                called: "that".to_owned(),
                speed: "1kbit".parse().unwrap(),
            }
        );
    }
}
