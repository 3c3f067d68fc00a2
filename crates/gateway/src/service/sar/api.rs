//! Requests of programs and the answers: each a line of JSON, then as many octets as the line says.
//!
//! ```text
//!  {"do":"send","to":["10.2.0.1"],"port":5000,"octets":5}\n hello
//!                     {"is":"accepted","id":17}\n      {"is":"outcome","id":17,"to":"10.2.0.1","outcome":"delivered","left":0}\n
//!  {"do":"receive","port":5000}\n      {"is":"received","number":4,"from":"10.1.0.1",…,"octets":5}\n hello
//!  {"do":"taken","number":4}\n
//! ```
//! On the Unix socket they follow each other; on the UDP port each datagram holds one.

use std::net::IpAddr;

use sar::{Failure, Outcome};
use serde::{Deserialize, Serialize};

/// Octets of a line at most.
pub const LONGEST_LINE: usize = 16 << 10;
/// Octets of a name at most.
pub const LONGEST_NAME: usize = 64;

/// What a program asks.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Give a message up.
    Cancel { id: u64 },
    /// Tell me the outcomes of a message, given by its id or name; open outcomes follow once known.
    Outcome { id: Option<u64>, name: Option<String> },
    /// Give me the messages for this port; without a port, all messages that nobody else wants.
    Receive { port: Option<u16> },
    /// Send the octets behind the line.
    Send(Send),
    /// I have this message, and the gateway need not keep it.
    Taken { number: u64 },
}

/// A message to be sent.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Send {
    pub to: Vec<IpAddr>,
    pub port: u16,
    #[serde(default)]
    pub from_port: u16,
    #[serde(default)]
    pub precedence: u8,
    /// Seconds.
    pub lifetime: Option<f64>,
    #[serde(default = "yes")]
    pub acknowledged: bool,
    /// An address that reaches all destinations at once.
    pub via: Option<IpAddr>,
    /// The program's own name for the message: a message sent again under this name counts as the same.
    #[serde(default)]
    pub name: String,
    /// A tag, repeated in the first answer.
    pub tag: Option<u64>,
    pub octets: usize,
}

fn yes() -> bool {
    true
}

impl Request {
    /// Octets behind the line.
    pub fn octets(&self) -> usize {
        match self {
            Self::Send(send) => send.octets,
            Self::Cancel { .. }
            | Self::Outcome { .. }
            | Self::Receive { .. }
            | Self::Taken { .. } => 0,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When the line is not a request; the error says what is expected.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }
}

/// What a program is told.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// A message is stored, and will be sent.
    Accepted {
        id: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        tag: Option<u64>,
        /// Whether a message of this name had been accepted before.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A message is given up, for so many destinations.
    Cancelled { id: u64, count: usize },
    /// What was asked cannot be understood; the connection ends.
    Error { why: String },
    /// How a message is.
    Message { id: u64, outcomes: Vec<Fate> },
    /// The outcome of a message for a destination.
    Outcome {
        id: u64,
        to: IpAddr,
        outcome: &'static str,
        /// Destinations without an outcome.
        left: usize,
    },
    /// A message has come.
    Received(Received),
    /// A message is not sent.
    Refused {
        #[serde(skip_serializing_if = "Option::is_none")]
        tag: Option<u64>,
        why: String,
    },
    /// No such message exists, or its outcomes are forgotten.
    Unknown {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// A message that has come; its octets are behind the line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Received {
    pub number: u64,
    pub from: IpAddr,
    pub from_port: u16,
    pub port: u16,
    pub precedence: u8,
    /// Milliseconds since 1970.
    pub at: u64,
    pub octets: usize,
}

/// The outcome of a message for a destination, if known.
#[derive(Clone, Debug, Serialize)]
pub struct Fate {
    pub to: IpAddr,
    pub outcome: Option<&'static str>,
}

impl Answer {
    /// Appends the line.
    pub fn emit(&self, out: &mut Vec<u8>) {
        // Numbers and texts can always be written.
        let _ = serde_json::to_writer(&mut *out, self);
        out.push(b'\n');
    }
}

/// As programs are told.
pub fn said(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Cancelled => "cancelled",
        Outcome::Delivered => "delivered",
        Outcome::Expired => "expired",
        Outcome::Failed(Failure::Aborted) => "refused",
        Outcome::Failed(Failure::Lost) => "lost",
        Outcome::Failed(Failure::Silent) => "silent",
        Outcome::Sent => "sent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_needs_destinations_a_port_and_its_length() {
        let read = |line: &str| Request::parse(line.as_bytes());

        let least = read(r#"{"do":"send","to":["10.2.0.1"],"port":5000,"octets":5}"#).unwrap();
        let Request::Send(send) = &least else { panic!("{least:?}") };
        assert_eq!((send.port, send.from_port, send.precedence, send.octets), (5_000, 0, 0, 5));
        assert_eq!((send.acknowledged, send.lifetime, send.tag), (true, None, None));
        assert_eq!(least.octets(), 5);
        for (line, expected) in [
            (r#"{"do":"send","to":["10.2.0.1"],"port":5000}"#, "missing field `octets`"),
            (r#"{"do":"send","to":["10.2.0"],"port":5,"octets":5}"#, "invalid IP address"),
            (r#"{"do":"send","to":[],"port":70000,"octets":5}"#, "70000"),
            (r#"{"do":"send","to":[],"port":7,"octets":5,"urgent":1}"#, "unknown field `urgent`"),
            (r#"{"do":"taken","number":-1}"#, "-1"),
            (r#"{"do":"fly"}"#, "unknown variant `fly`"),
            ("hello", "expected value"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn answers_are_these_lines() {
        let outcome = said(Outcome::Failed(Failure::Silent));
        let to = IpAddr::from([10, 2, 0, 1]);
        let mut out = Vec::new();
        Answer::Accepted { id: 7, tag: None, again: false }.emit(&mut out);
        Answer::Outcome { id: 7, to, outcome, left: 0 }.emit(&mut out);
        Answer::Received(Received {
            number: 4,
            from: to,
            from_port: 1,
            port: 2,
            precedence: 0,
            at: 9,
            octets: 5,
        })
        .emit(&mut out);

        let expected = "{\"is\":\"accepted\",\"id\":7}\n\
            {\"is\":\"outcome\",\"id\":7,\"to\":\"10.2.0.1\",\"outcome\":\"silent\",\"left\":0}\n\
            {\"is\":\"received\",\"number\":4,\"from\":\"10.2.0.1\",\"from-port\":1,\"port\":2,\
            \"precedence\":0,\"at\":9,\"octets\":5}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
