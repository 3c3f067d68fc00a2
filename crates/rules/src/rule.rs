//! One rule: a selector of flows, and the action on the selected flows.

use std::time::Duration;

use base::name;
use base::parameter::{Kind, Rule as Condition, named, names, word};
use hf::s5066::service::MAX_PRIORITY;

use super::selector::Selector;

/// A rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// The name that users give the rule, unique in a table.
    pub name: String,
    /// Selects the flows of the rule.
    pub selector: Selector,
    /// Blocks or passes the flows.
    pub action: Action,
    /// Whether the rule is enabled; a disabled rule refuses its flows ([`Refusal::Reset`]).
    pub is_enabled: bool,
}

/// Whether a rule blocks or passes flows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Drops the flows.
    Block(Refusal),
    /// Lets a service carry the flows.
    Pass(Options),
}

/// The answer to the sender of a blocked packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// ICMP: administratively prohibited.
    Prohibited,
    /// A reset for TCP; for everything else ICMP: administratively prohibited.
    Reset,
    /// Nothing.
    Silent,
}

base::parameters! {
    /// A rule's choices for the flows that pass.
    pub static PARAMETERS = "rule";

    /// How a service carries flows; `None` leaves it to the service.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct Options from default() {
        /// Which service carries it; `auto` is the choice for what no rule matches.
        #[allowed(Kind::Word(&names(&SERVICES)))]
        #[get(|it| word(&SERVICES, &it.service))]
        #[set(|it, to| it.service = named(&SERVICES, to.text()).flatten())]
        pub service: Option<Service> = None;

        /// Whether streams and datagrams are compressed, where that makes them shorter; by default the
        /// service's setting holds.
        #[allowed(Kind::Flag)]
        pub compression: Option<bool> = None;

        /// Against other traffic, 15 is the highest; by default the service's setting holds.
        #[allowed(Kind::count(0..=MAX_PRIORITY as u64))]
        pub priority: Option<u8> = None;

        /// How long a packet or U_PDU is worth sending, waiting included; 0 is for ever; by default
        /// the service's setting holds.
        #[allowed(Kind::period(Duration::ZERO..=LONGEST))]
        pub ttl: Option<Duration> = None;

        /// The TLS profile by which TLS is ended here; by default TLS passes unchanged.
        #[allowed(Kind::Text { allowed: name::ALLOWED, check: name::check, examples: &["office"] })]
        pub tls: Option<String> = None;

        /// When HF-PEP answers a client's SYN: `local`, at once; `end-to-end`, when the far end says that the target
        /// accepts; by default the service's setting holds.
        #[allowed(Kind::Word(&names(&Handshake::NAMES)))]
        pub handshake: Option<Handshake> = None;

        /// Whether HF-PEP tells a client that has ended the end of the answer only when the target has all that the
        /// client said; by default the service's setting holds, and always with `end-to-end`.
        #[allowed(Kind::Flag)]
        pub confirm_close: Option<bool> = None;
    }

    rules [
        Condition {
            names: &["tls", "service"],
            allowed: "tls is not for service = \"ipclient\", which carries packets as they are",
            holds: |it| it.tls.is_none() || it.service != Some(Service::IpClient),
        },
        Condition {
            names: &["handshake", "tls"],
            allowed: "end-to-end is not where TLS ends here: whom a client wants is known only behind its TCP \
                      handshake",
            holds: |it| it.tls.is_none() || it.handshake != Some(Handshake::EndToEnd),
        },
    ]
}

base::words!(Handshake: Handshake::NAMES);

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
    pub(crate) const AUTOMATIC: &Self = &Self {
        service: None,
        compression: None,
        priority: None,
        ttl: None,
        tls: None,
        handshake: None,
        confirm_close: None,
    };

    /// When a client is answered; `otherwise` holds for rules that do not say.
    #[must_use]
    pub fn handshake(&self, otherwise: Handshake) -> Handshake {
        match self.handshake {
            Some(handshake) => handshake,
            // The client's target is known only after the client's handshakes.
            None if self.tls.is_some() => Handshake::Local,
            None => otherwise,
        }
    }
}

const SERVICES: [(&str, Option<Service>); 3] = [
    ("auto", None),
    (Service::HfPep.name(), Some(Service::HfPep)),
    (Service::IpClient.name(), Some(Service::IpClient)),
];
/// The longest lifetime of a U_PDU: the field has 20 bits, in units of 2 s.
const LONGEST: Duration = Duration::from_secs(1_296_000);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Options::default()]);
    }
}
