//! One rule: which flows it is about, and what becomes of them.

use std::time::Duration;

use super::selector::Selector;

/// A rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// What its users call it; no other rule of a table is called so.
    pub name: String,
    /// The flows that it is about.
    pub selector: Selector,
    /// What becomes of them.
    pub action: Action,
    /// Whether it acts; one that does not refuses its flows ([`Refusal::Reset`]).
    pub is_enabled: bool,
}

/// What becomes of the flows of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// They are dropped.
    Block(Refusal),
    /// A service carries them.
    Pass(Options),
}

/// What the sender of a blocked packet is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// ICMP: administratively prohibited.
    Prohibited,
    /// A reset for TCP; for everything else ICMP: administratively prohibited.
    Reset,
    /// Nothing.
    Silent,
}

/// How a service carries flows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Which service; `None` for the automatic choice.
    pub service: Option<Service>,
    /// Whether streams are compressed; `None` for the service's own way.
    pub compression: Option<bool>,
    /// Against other traffic, 0 to 15, the highest; `None` for the service's own way.
    pub priority: Option<u8>,
    /// How long a packet, and the U_PDU that it becomes, is of use, waiting included: zero is for
    /// ever, `None` for the service's own way.
    pub ttl: Option<Duration>,
    /// The TLS profile that ends TLS here; `None` for none.
    pub tls: Option<String>,
    /// When the handshake of TCP with a client that HF-PEP carries is complete; `None` for the service's
    /// own way.
    pub handshake: Option<Handshake>,
    /// Whether a client that HF-PEP carries is told an end that follows its own only when the target has all
    /// that it said; `None` for the service's own way.
    pub confirm_close: Option<bool>,
}

/// When a gateway that ends TCP completes the handshake with a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handshake {
    /// When the far end says that the target has taken the connection.
    EndToEnd,
    /// At once.
    Local,
}

/// A service that rules can name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// Split TCP over SLEP streams.
    HfPep,
    /// IP datagrams over STANAG 5066.
    IpClient,
}

impl Service {
    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HfPep => "hfpep",
            Self::IpClient => "ipclient",
        }
    }
}

impl Refusal {
    /// What users call them.
    pub const NAMES: [(&str, Self); 3] =
        [("silent", Self::Silent), ("icmp", Self::Prohibited), ("reset", Self::Reset)];
}

impl Handshake {
    /// What users call them.
    pub const NAMES: [(&str, Self); 2] = [("local", Self::Local), ("end-to-end", Self::EndToEnd)];

    /// What users call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndToEnd => "end-to-end",
            Self::Local => "local",
        }
    }
}

impl Options {
    pub(super) const AUTOMATIC: &Self = &Self {
        service: None,
        compression: None,
        priority: None,
        ttl: None,
        tls: None,
        handshake: None,
        confirm_close: None,
    };

    /// When a client is answered, with what holds for rules that do not say.
    #[must_use]
    pub fn handshake(&self, otherwise: Handshake) -> Handshake {
        match self.handshake {
            Some(handshake) => handshake,
            // Whom a client wants is known only behind its handshakes.
            None if self.tls.is_some() => Handshake::Local,
            None => otherwise,
        }
    }
}

/// What a name of a rule or profile is, in words.
pub const NAME: &str = "1 to 32 letters, digits and -";

/// Whether a text can be the name of a rule or profile.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (1..=32).contains(&text.len()) && text.chars().all(is_plain)
}
