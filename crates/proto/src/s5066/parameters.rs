//! What users may choose of a node: which keys there are, and what is allowed.
//!
//! What is not chosen stays as in [`Config::new`].

use std::fmt;
use std::time::Duration;

use super::dts::policy::MAX_TRANSMISSION;
use super::node::Config;

/// What is chosen of a node; `None` for the default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Choices {
    /// How often an acknowledgement is sent in one transmission.
    pub ack_copies: Option<i64>,
    /// Requests sent before a call fails.
    pub calls: Option<i64>,
    /// How long stations may answer each other with data while others wait.
    pub exchange: Option<Duration>,
    /// How long a soft link stays up without data.
    pub idle: Option<Duration>,
    /// The longest transmission.
    pub longest: Option<Duration>,
    /// The longest transmission beside something more urgent.
    pub longest_beside_urgent: Option<Duration>,
    /// The modem's way from receiving to transmitting.
    pub switching: Option<Duration>,
}

/// One of the [`Choices`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parameter {
    /// `ack_copies`.
    AckCopies,
    /// `calls`.
    Calls,
    /// `exchange`.
    Exchange,
    /// `idle`.
    Idle,
    /// `longest`.
    Longest,
    /// `longest_beside_urgent`.
    LongestBesideUrgent,
    /// `switching`.
    Switching,
}

/// Why a choice is not allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{given} is not allowed: {least} to {most}{of}")]
pub struct Unfit {
    /// Which.
    pub parameter: Parameter,
    given: Amount,
    least: Amount,
    most: Amount,
    /// What the bound is, where that is another choice.
    of: &'static str,
}

/// A number, or a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Amount {
    Count(i64),
    Period(Duration),
}

/// The longest random wait for the frequency unless told otherwise: some slots of the slowest
/// waveforms.
pub const JITTER: Duration = Duration::from_secs(5);

const ACK_COPIES: (u8, u8) = (1, 5);
const CALLS: (u32, u32) = (1, 20);
const EXCHANGE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
const IDLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
const LONGEST: (Duration, Duration) = (Duration::from_secs(1), MAX_TRANSMISSION);
const SWITCHING: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(10));

impl Choices {
    /// Configures a node as chosen.
    ///
    /// # Errors
    /// With the first choice that is not allowed; what others change is then undefined.
    pub fn apply(&self, config: &mut Config) -> Result<(), Unfit> {
        number(Parameter::AckCopies, self.ack_copies, ACK_COPIES, &mut config.ack_copies)?;
        number(Parameter::Calls, self.calls, CALLS, &mut config.link.calls)?;
        period(Parameter::Exchange, self.exchange, EXCHANGE, &mut config.exchange)?;
        period(Parameter::Idle, self.idle, IDLE, &mut config.link.idle)?;
        period(Parameter::Longest, self.longest, LONGEST, &mut config.longest)?;
        period(Parameter::Switching, self.switching, SWITCHING, &mut config.switching)?;
        // A default must fit a shorter `longest`.
        let beside = &mut config.longest_beside_urgent;
        *beside = (*beside).min(config.longest);
        let bounds = (LONGEST.0, config.longest);
        period(Parameter::LongestBesideUrgent, self.longest_beside_urgent, bounds, beside)
            .map_err(|unfit| Unfit { of: ", which is the longest transmission", ..unfit })
    }
}

fn number<T>(
    parameter: Parameter,
    given: Option<i64>,
    (least, most): (T, T),
    to: &mut T,
) -> Result<(), Unfit>
where
    T: Copy + Into<i64> + Ord + TryFrom<i64>,
{
    let Some(given) = given else { return Ok(()) };
    match T::try_from(given) {
        Ok(fitting) if (least..=most).contains(&fitting) => *to = fitting,
        _ => {
            let [given, least, most] = [given, least.into(), most.into()].map(Amount::Count);
            return Err(Unfit { parameter, given, least, most, of: "" });
        }
    }
    Ok(())
}

fn period(
    parameter: Parameter,
    given: Option<Duration>,
    (least, most): (Duration, Duration),
    to: &mut Duration,
) -> Result<(), Unfit> {
    let Some(given) = given else { return Ok(()) };
    if !(least..=most).contains(&given) {
        let [given, least, most] = [given, least, most].map(Amount::Period);
        return Err(Unfit { parameter, given, least, most, of: "" });
    }
    *to = given;
    Ok(())
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(number) => number.fmt(f),
            Self::Period(Duration::ZERO) => f.write_str("0s"),
            Self::Period(period) => write!(f, "{period:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Address;
    use super::*;

    #[test]
    fn what_is_not_chosen_stays() {
        let mut config = node();

        Choices::default().apply(&mut config).unwrap();

        assert_eq!(config, node());
    }

    #[test]
    fn what_is_chosen_is_where_the_node_finds_it() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let mut config = node();

        let choices = Choices {
            ack_copies: Some(1),
            calls: Some(20),
            exchange: secs(5),
            idle: secs(9),
            longest: secs(30),
            longest_beside_urgent: secs(30),
            switching: secs(0),
        };
        choices.apply(&mut config).unwrap();

        assert_eq!((config.ack_copies, config.link.calls), (1, 20));
        assert_eq!((Some(config.exchange), Some(config.link.idle)), (secs(5), secs(9)));
        assert_eq!((Some(config.longest), Some(config.switching)), (secs(30), secs(0)));
        assert_eq!(Some(config.longest_beside_urgent), secs(30));
    }

    #[test]
    fn a_short_longest_transmission_is_so_beside_urgent_traffic_too() {
        let mut config = node();

        let choices = Choices { longest: Some(Duration::from_secs(3)), ..Choices::default() };
        choices.apply(&mut config).unwrap();

        assert_eq!(config.longest_beside_urgent, Duration::from_secs(3));
    }

    #[test]
    fn what_is_not_allowed_is_said_with_what_is() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let none = Choices::default();
        for (choices, expected) in [
            (Choices { ack_copies: Some(0), ..none }, "0 is not allowed: 1 to 5"),
            (Choices { ack_copies: Some(257), ..none }, "257 is not allowed: 1 to 5"),
            (Choices { calls: Some(-1), ..none }, "-1 is not allowed: 1 to 20"),
            (Choices { exchange: ms(4_900), ..none }, "4.9s is not allowed: 5s to 600s"),
            (Choices { idle: ms(0), ..none }, "0s is not allowed: 1s to 3600s"),
            (Choices { longest: ms(127_501), ..none }, "127.501s is not allowed: 1s to 127.5s"),
            (Choices { switching: ms(10_001), ..none }, "10.001s is not allowed: 0s to 10s"),
            (
                Choices { longest: ms(9_000), longest_beside_urgent: ms(9_001), ..none },
                "9.001s is not allowed: 1s to 9s, which is the longest transmission",
            ),
        ] {
            assert_eq!(choices.apply(&mut node()).unwrap_err().to_string(), expected);
        }
    }

    fn node() -> Config {
        Config::new(Address::node(1), "9600/short".parse().unwrap())
    }
}
