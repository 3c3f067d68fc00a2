//! Reads a parameter and the values to try: `rto.initial=1s..120s`, `r1=2|3|4`.

use base::quantity::{BitRate, RATE_UNITS, TIME_UNITS, decimal, split};
use toml_edit::Value;

/// Values of a grid over a range, unless told.
pub const STEPS: usize = 9;
/// Values of a grid over a range at most.
const MOST_STEPS: usize = 1_000;

/// A parameter from the command: keys that get the same value, and the values to try.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The text of the parameter, without its values.
    pub name: String,
    /// The names of its keys.
    pub keys: Vec<String>,
    /// Its values.
    pub values: Values,
}

/// The values to be tried of a parameter.
#[derive(Clone, Debug)]
pub enum Values {
    /// These.
    List(Vec<Choice>),
    /// All between two.
    Range(Range),
}

/// One value of a parameter.
#[derive(Clone, Debug)]
pub struct Choice {
    /// As people read it.
    pub label: String,
    /// Where it stands on an axis.
    pub x: f64,
    /// What is written for each of the keys.
    pub values: Vec<Value>,
}

/// All values between two.
#[derive(Clone, Debug)]
pub struct Range {
    low: f64,
    high: f64,
    /// Whether equal ratios count as equally far apart.
    pub is_log: bool,
    steps: usize,
    unit: Unit,
    /// Text behind the quantity, such as `after r1`.
    suffix: String,
    keys: usize,
}

/// What a quantity is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    BitsPerSecond,
    Number,
    Octets,
    Percent,
    Seconds,
    Whole,
}

/// Units other than times and rates.
const UNITS: [(&str, Unit, f64); 7] = [
    ("%", Unit::Percent, 1.0),
    ("octets", Unit::Octets, 1.0),
    ("kB", Unit::Octets, 1e3),
    ("MB", Unit::Octets, 1e6),
    ("KiB", Unit::Octets, 1_024.0),
    ("MiB", Unit::Octets, 1_048_576.0),
    ("", Unit::Number, 1.0),
];

/// The unit of this name.
fn unit(name: &str) -> Option<(Unit, f64)> {
    let times = TIME_UNITS.iter().map(|(name, scale)| (*name, Unit::Seconds, *scale));
    let rates = RATE_UNITS.iter().map(|(name, scale)| (*name, Unit::BitsPerSecond, *scale));
    let mut all = times.chain(rates).chain(UNITS);
    let name = name.to_lowercase();
    all.find(|(known, ..)| known.to_lowercase() == name).map(|(_, unit, scale)| (unit, scale))
}
impl Asked {
    /// Reads parameters with commas between them.
    ///
    /// # Errors
    /// When a parameter is wrong; describes the first mistake.
    pub fn read_all(text: &str, steps: usize) -> Result<Vec<Self>, String> {
        split_outside(text, ',').into_iter().map(|part| Self::read(part, steps)).collect()
    }

    fn read(text: &str, steps: usize) -> Result<Self, String> {
        let example = "a key and its values, such as rto.initial=1s..120s or r1=2|3|4";
        let [name, ..] = split_outside(text, '=')[..] else {
            unreachable!("there is a first part")
        };
        let Some(values) = text[name.len()..].trim_start().strip_prefix('=') else {
            return Err(format!("{text:?} is not {example}"));
        };
        let keys: Vec<String> = split_outside(name, '+').into_iter().map(str::to_owned).collect();
        if keys.iter().any(String::is_empty) || values.trim().is_empty() {
            return Err(format!("{text:?} is not {example}"));
        }
        let name = name.trim().to_owned();
        let values = Values::read(values, keys.len(), steps)
            .map_err(|why| format!("{name}={}: {why}", values.trim()))?;
        Ok(Self { name, keys, values })
    }
}

impl Values {
    fn read(text: &str, keys: usize, steps: usize) -> Result<Self, String> {
        let items = split_outside(text, '|');
        match &items[..] {
            [range] => match range.split_once("..") {
                Some((low, rest)) => Range::read(low, rest, keys, steps).map(Self::Range),
                None => Err("a range such as 1s..120s, or two values at least, such as 2|3".into()),
            },
            _ => {
                let mut choices: Vec<Choice> = Vec::new();
                for item in items {
                    let choice = Choice::read(item, keys, choices.len())?;
                    if choices.iter().any(|other| other.label == choice.label) {
                        return Err(format!("{:?} stands there twice", choice.label));
                    }
                    choices.push(choice);
                }
                place(&mut choices);
                Ok(Self::List(choices))
            }
        }
    }

    /// The values of a grid, in order.
    #[must_use]
    pub fn grid(&self) -> Vec<Choice> {
        match self {
            Self::List(choices) => choices.clone(),
            Self::Range(range) => {
                let last = range.steps.max(2) - 1;
                let at = |step: usize| range.at(step as f64 / last as f64);
                let mut grid: Vec<Choice> = (0..=last).map(at).collect();
                grid.dedup_by(|a, b| a.label == b.label);
                grid
            }
        }
    }

    /// The value at a place from 0, the first, to 1, the last.
    #[must_use]
    pub fn at(&self, place: f64) -> Choice {
        match self {
            Self::List(choices) => {
                let index = (place.clamp(0.0, 1.0) * choices.len() as f64).floor();
                let last = choices.len() - 1;
                let index = (0..last).find(|it| *it as f64 >= index).unwrap_or(last);
                choices[index].clone()
            }
            Self::Range(range) => range.at(place),
        }
    }

    /// The first and the last.
    #[must_use]
    pub fn ends(&self) -> [Choice; 2] {
        [self.at(0.0), self.at(1.0)]
    }

    /// The unit of an axis; nothing for plain numbers and words.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let unit = match self {
            Self::Range(range) => range.unit,
            Self::List(choices) => match common_unit(choices) {
                Some(unit) => unit,
                None => return "",
            },
        };
        match unit {
            Unit::BitsPerSecond => "bit/s",
            Unit::Number | Unit::Whole => "",
            Unit::Octets => "octets",
            Unit::Percent => "%",
            Unit::Seconds => "s",
        }
    }

    /// Whether places on the axis only count the values, which are words.
    #[must_use]
    pub fn is_words(&self) -> bool {
        matches!(self, Self::List(choices) if common_unit(choices).is_none())
    }
}

impl Choice {
    fn read(text: &str, keys: usize, index: usize) -> Result<Self, String> {
        let label = text.trim().to_owned();
        let parts: Vec<&str> = match split_outside(&label, '+') {
            parts if parts.len() == keys => parts,
            parts if parts.len() == 1 || keys == 1 => vec![&label; keys],
            parts => return Err(format!("{label:?} has {} values for {keys} keys", parts.len())),
        };
        let values = parts.iter().map(|part| literal(part)).collect::<Result<_, _>>()?;
        Ok(Self { x: index as f64 + 1.0, values, label })
    }
}

/// Puts quantities of one unit where they belong on an axis; words stay at their numbers.
fn place(choices: &mut [Choice]) {
    if common_unit(choices).is_some() {
        for choice in choices {
            choice.x = quantity(&choice.label).map_or(choice.x, |(value, ..)| value);
        }
    }
}

fn common_unit(choices: &[Choice]) -> Option<Unit> {
    let mut units = choices.iter().map(|choice| match quantity(&choice.label) {
        Some((_, unit, "")) => Some(unit),
        _ => None,
    });
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then_some(first)
}

impl Range {
    fn read(low: &str, rest: &str, keys: usize, steps: usize) -> Result<Self, String> {
        let mut parts = rest.split(':');
        let high = parts.next().unwrap_or_default();
        let bad = |text: &str| {
            format!("{text:?} is not a quantity such as 35, 2.5, 120s, 64kbit, 5% or 512octets")
        };
        let (high, unit, suffix) = quantity(high).ok_or_else(|| bad(high))?;
        let (low_value, low_unit, low_suffix) = quantity(low).ok_or_else(|| bad(low))?;
        if !low_suffix.is_empty() && low_suffix != suffix {
            return Err(bad(low));
        }
        let (low, unit) = match (low_unit, unit) {
            (a, b) if a == b => (low_value, unit),
            // `1..120s` means the unit twice.
            (Unit::Number, _) => {
                let scale = scale_of(rest.split(':').next().unwrap_or_default());
                (low_value * scale, unit)
            }
            _ => return Err("both ends of a range have the same unit".to_owned()),
        };
        let is_whole = |value: f64| value.fract() == 0.0;
        let unit = match unit {
            Unit::Number if is_whole(low) && is_whole(high) => Unit::Whole,
            unit => unit,
        };
        if low >= high {
            return Err("a range goes from less to more".to_owned());
        }
        let mut range =
            Self { low, high, is_log: false, steps, unit, suffix: suffix.to_owned(), keys };
        for part in parts {
            match (part.trim(), part.trim().parse()) {
                ("log", _) if range.low > 0.0 => range.is_log = true,
                ("log", _) => return Err("a range with log begins above 0".to_owned()),
                (_, Ok(steps @ 2..=MOST_STEPS)) => range.steps = steps,
                (other, _) => {
                    return Err(format!(
                        "{other:?} is neither log nor a number of steps from 2 on"
                    ));
                }
            }
        }
        if range.unit == Unit::Whole {
            let count = (0..range.steps).find(|step| range.low + *step as f64 > range.high);
            range.steps = count.unwrap_or(range.steps).max(2);
        }
        Ok(range)
    }

    fn at(&self, place: f64) -> Choice {
        let Self { low, high, .. } = *self;
        let exact = if place <= 0.0 {
            low
        } else if place >= 1.0 {
            high
        } else if self.is_log {
            (low.ln() + place * (high.ln() - low.ln())).exp()
        } else {
            low + place * (high - low)
        };
        let (x, text) = self.written(exact);
        let label = match &self.suffix[..] {
            "" => text,
            suffix => format!("{text} {suffix}"),
        };
        let value = literal(&label).unwrap_or_else(|_| Value::from(&*label));
        Choice { x, values: vec![value; self.keys], label }
    }

    /// The nearest value that people would write: three digits, except at the ends.
    fn written(&self, exact: f64) -> (f64, String) {
        let is_end = exact == self.low || exact == self.high;
        let short = if is_end { exact } else { three_digits(exact) };
        let whole = exact.round();
        match self.unit {
            Unit::Whole | Unit::Octets => (whole, format!("{whole:.0}")),
            Unit::Number => (short, short.to_string()),
            Unit::Percent => (short, format!("{short}%")),
            Unit::Seconds => (short, seconds(short)),
            Unit::BitsPerSecond => {
                let bits = short.round();
                let rate = format!("{bits:.0}bit").parse::<BitRate>();
                (bits, rate.map_or(format!("{bits:.0}bit"), |rate| rate.to_string()))
            }
        }
    }
}

fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn seconds(value: f64) -> String {
    let scaled = |factor: f64, unit: &str| {
        // Twelve digits hide what the conversion leaves behind.
        let text = format!("{:.9}", value * factor);
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value {
        value if value >= 1.0 || value == 0.0 => scaled(1.0, "s"),
        value if value >= 1e-3 => scaled(1e3, "ms"),
        value if value >= 1e-6 => scaled(1e6, "us"),
        _ => scaled(1e9, "ns"),
    }
}

/// Splits a text into a number, its unit and the text behind them.
fn quantity(text: &str) -> Option<(f64, Unit, &str)> {
    let text = text.trim();
    let (number, rest) = split(text);
    let rest = rest.trim_start();
    let (name, suffix) = rest.split_once(' ').unwrap_or((rest, ""));
    let (unit, scale) = unit(name)?;
    Some((decimal(number)? * scale, unit, suffix.trim()))
}

/// What the unit behind a number multiplies it by.
fn scale_of(text: &str) -> f64 {
    let (_, name) = split(text.trim());
    let name = name.trim_start().split(' ').next().unwrap_or_default();
    unit(name).map_or(1.0, |(_, scale)| scale)
}

/// What a word of a command line is in a file: a flag, a number, or a text without quotes.
fn literal(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('"') {
        let inner = inner.strip_suffix('"').filter(|inner| !inner.contains('"'));
        return inner.map(Value::from).ok_or_else(|| format!("{text:?} has no second quote"));
    }
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("a value is missing".to_owned());
    }
    if text.starts_with(['[', '{']) {
        return text.parse().map_err(|_| format!("{text:?} is no list or table of TOML"));
    }
    if let Some((octets, Unit::Octets, "")) = quantity(text) {
        return Ok(text_of_whole(octets));
    }
    Ok(match (text.parse::<bool>(), text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(flag), ..) => Value::from(flag),
        (_, Ok(number), _) => Value::from(number),
        (_, _, Ok(number)) if number.is_finite() => Value::from(number),
        _ => Value::from(text),
    })
}

fn text_of_whole(number: f64) -> Value {
    format!("{number:.0}").parse::<i64>().map_or_else(|_| Value::from(number), Value::from)
}

/// The parts between separators that do not stand in quotes, parentheses or brackets.
pub fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut begin, mut deep, mut is_quoted) = (Vec::new(), 0, 0_i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' | '[' | '{' if !is_quoted => deep += 1,
            ')' | ']' | '}' if !is_quoted => deep -= 1,
            _ if c == separator && deep <= 0 && !is_quoted => {
                parts.push(text[begin..at].trim());
                begin = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Asked {
        Asked::read_all(text, STEPS).unwrap().remove(0)
    }

    fn labels(text: &str) -> Vec<String> {
        read(text).values.grid().into_iter().map(|choice| choice.label).collect()
    }

    #[test]
    fn quotes_hold_a_key_together() {
        let asked = read("node.\"a=1+2,3\".hbh.window+hbh.window = 2|3");

        assert_eq!(asked.keys, ["node.\"a=1+2,3\".hbh.window", "hbh.window"]);
        assert_eq!(labels("node.\"a=1\".x=2|3"), ["2", "3"]);
    }

    #[test]
    fn a_range_has_values_that_people_would_write() {
        assert_eq!(labels("a=1s..120s:4"), ["1s", "40.7s", "80.3s", "120s"]);
        assert_eq!(labels("a=10ms..10s:log:4"), ["10ms", "100ms", "1s", "10s"]);
        assert_eq!(labels("a=1..120s:2"), ["1s", "120s"]);
        assert_eq!(labels("a=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(labels("a=0.5..2:4"), ["0.5", "1", "1.5", "2"]);
        assert_eq!(labels("a=1%..4%:4"), ["1%", "2%", "3%", "4%"]);
        assert_eq!(labels("a=300bit..1.5mbit:3"), ["300bit", "750kbit", "1500kbit"]);
        assert_eq!(labels("a=1kB..3kB:3"), ["1000", "2000", "3000"]);
        assert_eq!(
            labels("a=40s..80s after r1:3"),
            ["40s after r1", "60s after r1", "80s after r1"]
        );
        assert_eq!(labels("a=2min..1h:2"), ["120s", "3600s"]);
        assert_eq!(labels("a=1s..120s").len(), STEPS);
    }

    #[test]
    fn what_is_written_into_the_file_is_of_its_type() {
        let values = |text: &str| -> Vec<String> {
            let grid = read(text).values.grid();
            grid.iter().flat_map(|it| &it.values).map(|it| it.to_string()).collect()
        };

        assert_eq!(values("a=1s|2min"), ["\"1s\"", "\"2min\""]);
        assert_eq!(values("a=2|3"), ["2", "3"]);
        assert_eq!(values("a=true|false"), ["true", "false"]);
        assert_eq!(values("a=0.5|\"7\""), ["0.5", "\"7\""]);
        assert_eq!(values("a=[1, 2]|[3, 4]"), ["[1, 2]", "[3, 4]"]);
        assert_eq!(values("a=1kB|2KiB"), ["1000", "2048"]);
        assert_eq!(values("loss=gilbert-elliott(mean=5%,burst=4)|5%")[1], "\"5%\"");
        assert_eq!(values("r1+r2=2+80s after r1|3+160s after r1")[..2], ["2", "\"80s after r1\""]);
        assert_eq!(values("a+b=1s..2s:2"), ["\"1s\"", "\"1s\"", "\"2s\"", "\"2s\""]);
    }

    #[test]
    fn several_parameters_have_commas_between_them() {
        let all = Asked::read_all("a=1..2,loss=x(m=1,n=2)|5%, b+c = 1s|2s", STEPS).unwrap();

        let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "loss", "b+c"]);
        assert_eq!(all[2].keys, ["b", "c"]);
    }

    #[test]
    fn a_list_of_quantities_has_places_on_an_axis_and_one_of_words_has_numbers() {
        let axis = |text: &str| {
            let values = read(text).values;
            let xs: Vec<f64> = values.grid().iter().map(|it| it.x).collect();
            (xs, values.unit(), values.is_words())
        };

        assert_eq!(axis("a=20s|1min"), (vec![20.0, 60.0], "s", false));
        assert_eq!(axis("a=cubic|new-reno"), (vec![1.0, 2.0], "", true));
        assert_eq!(axis("a=2|5|9"), (vec![2.0, 5.0, 9.0], "", false));
        assert_eq!(axis("a=64kbit..128kbit:2"), (vec![64e3, 128e3], "bit/s", false));
    }

    #[test]
    fn places_between_the_ends_give_all_values_of_a_list_the_same_share() {
        let values = read("a=x|y|z").values;
        let at = |place: f64| values.at(place).label;

        assert_eq!([0.0, 0.33, 0.34, 0.66, 0.67, 1.0].map(at), ["x", "x", "y", "y", "z", "z"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("rto.initial", "is not a key and its values, such as"),
            ("a=", "is not a key and its values"),
            ("a=5", "a=5: a range such as 1s..120s, or two values at least, such as 2|3"),
            ("a=5..5", "a range goes from less to more"),
            ("a=1s..5%", "both ends of a range have the same unit"),
            ("a=1s..5parsecs", "\"5parsecs\" is not a quantity such as"),
            ("a=0..5:log", "a range with log begins above 0"),
            ("a=0..5:lin", "\"lin\" is neither log nor a number of steps"),
            ("a=0..5:1", "\"1\" is neither log nor a number of steps"),
            ("a=2|2", "\"2\" stands there twice"),
            ("a=2|", "a value is missing"),
            ("a+b+c=1+2|3+4", "\"1+2\" has 2 values for 3 keys"),
            ("a=\"x|y", "a range such as"),
        ] {
            let said = Asked::read_all(text, STEPS).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
