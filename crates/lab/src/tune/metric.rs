//! The metric to maximise or minimise: arithmetic on measures of a run.
//!
//! ```text
//!  sum     = product (("+" | "-") product)*
//!  product = factor (("*" | "/") factor)*
//!  factor  = "-" factor | "(" sum ")" | number | name
//! ```

use std::fmt;
use std::str::Chars;

use settings::nearest;

use super::measure::{MEASURES, Measured};

/// Parentheses and signs within each other at most.
const DEEPEST: u32 = 64;

/// An arithmetic expression such as `c/(d*t)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    /// Its place in [`MEASURES`].
    Measure(usize),
    Minus(Box<Self>),
    Both(char, Box<[Self; 2]>),
}

/// Why a text is no metric.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}, in {text:?} at character {at}")]
pub struct BadMetric {
    what: String,
    text: String,
    at: usize,
}

impl Metric {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it is none, or has a name that no measure has.
    pub fn parse(text: &str) -> Result<Self, BadMetric> {
        let mut reader = Reader { text, rest: text.chars(), deep: 0 };
        let root = reader.sum()?;
        match reader.peek() {
            None => Ok(Self { text: text.trim().to_owned(), root }),
            Some(')') => Err(reader.wrong("a ) without a (")),
            Some(_) => Err(reader.wrong("expected + - * / or the end")),
        }
    }

    /// Its value in a run, by the arithmetic of IEEE 754: also infinite, or not a number.
    #[must_use]
    pub fn value(&self, measured: &Measured) -> f64 {
        self.root.value(measured)
    }

    /// The names of the measures in it, in the order of [`MEASURES`].
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let has = |index: &usize| self.root.has(*index);
        (0..MEASURES.len()).filter(has).map(|index| MEASURES[index].name).collect()
    }
}

/// As it was written.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Node {
    fn value(&self, measured: &Measured) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Measure(index) => measured.0[*index],
            Self::Minus(node) => -node.value(measured),
            Self::Both(operator, nodes) => {
                let [left, right] = [&nodes[0], &nodes[1]].map(|node| node.value(measured));
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        }
    }

    fn has(&self, measure: usize) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Measure(index) => *index == measure,
            Self::Minus(node) => node.has(measure),
            Self::Both(_, nodes) => nodes.iter().any(|node| node.has(measure)),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: Chars<'a>,
    deep: u32,
}

impl<'a> Reader<'a> {
    fn sum(&mut self) -> Result<Node, BadMetric> {
        self.chain(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Node, BadMetric> {
        self.chain(&['*', '/'], Self::factor)
    }

    /// Parses parts joined by these operators, from left to right.
    fn chain(
        &mut self,
        operators: &[char],
        part: fn(&mut Self) -> Result<Node, BadMetric>,
    ) -> Result<Node, BadMetric> {
        let mut left = part(self)?;
        while let Some(operator) = self.peek().filter(|it| operators.contains(it)) {
            self.rest.next();
            left = Node::Both(operator, Box::new([left, part(self)?]));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node, BadMetric> {
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(self.wrong("too many parentheses or signs within each other"));
        }
        let node = match self.peek() {
            Some('-') => {
                self.rest.next();
                Node::Minus(Box::new(self.factor()?))
            }
            Some('(') => {
                self.rest.next();
                let node = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(self.wrong("expected a )"));
                }
                self.rest.next();
                node
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number()?,
            Some(c) if c.is_alphabetic() => self.name()?,
            Some(_) => return Err(self.wrong("expected a number, a measure or a (")),
            None => return Err(self.wrong("expected a number, a measure or a ( and not the end")),
        };
        self.deep -= 1;
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, BadMetric> {
        let before = self.clone_here();
        let mut word = self.word(|c| c.is_ascii_digit() || c == '.');
        let exponent = self.rest.as_str();
        if let Some(digits) = exponent.strip_prefix(['e', 'E']) {
            let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            let count = digits.bytes().take_while(u8::is_ascii_digit).count();
            if count > 0 {
                let end = word.len() + exponent.len() - digits.len() + count;
                word = &before.rest.as_str()[..end];
                self.rest = before.rest.as_str()[end..].chars();
            }
        }
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Node::Number).ok_or_else(|| before.wrong(&format!("{word} is no number")))
    }

    fn name(&mut self) -> Result<Node, BadMetric> {
        let before = self.clone_here();
        let name = self.word(char::is_alphanumeric);
        let names = || MEASURES.iter().map(|measure| measure.name);
        let found = names().position(|known| known == name).map(Node::Measure);
        found.ok_or_else(|| {
            let known = names().collect::<Vec<_>>().join(", ");
            before.wrong(&match nearest(name, names()) {
                Some(meant) => format!("no measure is called {name}; {meant} is probably meant"),
                None => format!("no measure is called {name}; there are {known}"),
            })
        })
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.as_str();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.rest = rest[end..].chars();
        &rest[..end]
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.as_str().trim_start().chars();
        self.rest.clone().next()
    }

    fn clone_here(&self) -> Self {
        Self { text: self.text, rest: self.rest.clone(), deep: self.deep }
    }

    fn wrong(&self, what: &str) -> BadMetric {
        let at = self.text.chars().count() - self.rest.clone().count() + 1;
        BadMetric { what: what.to_owned(), text: self.text.to_owned(), at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The value where each measure is its place in the list, counted from 1.
    fn value(text: &str) -> f64 {
        let mut measured = Measured::default();
        for (index, value) in measured.0.iter_mut().enumerate() {
            *value = index as f64 + 1.0;
        }
        Metric::parse(text).unwrap().value(&measured)
    }

    fn wrong(text: &str) -> String {
        Metric::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn arithmetic_is_as_at_school() {
        for (text, expected) in [
            ("1 + 2*3", 7.0),
            ("(1+2) * 3", 9.0),
            ("12/4/3", 1.0),
            ("10 - 3 - 2", 5.0),
            ("-2*-3", 6.0),
            ("2e3 + .5", 2_000.5),
            ("1.5E-1*10", 1.5),
            ("c", 1.0),
            ("c/(d*t)", 1.0 / (2.0 * 5.0)),
            ("d-c", 1.0),
            ("2*-(d)", -4.0),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, expected) in [
            ("c/(d*t", "expected a ), in \"c/(d*t\" at character 7"),
            ("c)", "a ) without a (, in \"c)\" at character 2"),
            ("c d", "expected + - * / or the end, in \"c d\" at character 3"),
            ("c^2", "expected + - * / or the end, in \"c^2\" at character 2"),
            ("1.2.3", "1.2.3 is no number, in \"1.2.3\" at character 1"),
            ("c + godput", "no measure is called godput; goodput is probably meant"),
            ("c/", "expected a number, a measure or a ( and not the end"),
            ("", "expected a number, a measure or a ( and not the end"),
            ("c ** d", "expected a number, a measure or a (, in \"c ** d\" at character 4"),
        ] {
            assert!(wrong(text).starts_with(expected), "{text}: {}", wrong(text));
        }
        assert!(wrong("throughput").contains("there are c, d, dmax, d90, t, goodput"));
        assert!(wrong(&"(".repeat(100)).starts_with("too many parentheses"));
    }

    #[test]
    fn the_measures_of_a_metric_are_known() {
        let metric = Metric::parse(" c/(d*t) + 0*c ").unwrap();

        assert_eq!(metric.names(), ["c", "d", "t"]);
        assert_eq!(metric.to_string(), "c/(d*t) + 0*c");
    }

    proptest! {
        #![proptest_config(harness::cases(256))]

        #[test]
        fn any_text_is_read_or_refused(text in "[cdt0-9e.+*/() é-]{0,60}") {
            let _ = Metric::parse(&text);
        }
    }
}
