//! Configuration of the IP client: access point, routes, queue, and window.

use std::net::IpAddr;
use std::time::Duration;

use base::parameter::{Kind, Value};

use super::route::Route;
use crate::s5066::Address;
use crate::s5066::seal;
use crate::s5066::service::MAX_PRIORITY;
use crate::s5066::sis::{Mode, Sap};

base::parameters! {
    /// What users may set of IP over STANAG 5066.
    pub static PARAMETERS = "ipclient";

    /// The parameters of an IP client.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from new(routes: Vec<Route>) {
        /// The access point of both ends (Annex F, table F-1).
        #[allowed(Kind::count(0..=15))]
        pub sap: Sap = Sap::IP_CLIENT;

        /// Against other clients of the same node: a higher rank takes the access point from a lower.
        #[allowed(Kind::count(0..=14))]
        pub rank: u8 = 0;

        /// The longest datagram; the node may say less.
        #[allowed(Kind::count(576..=2_048).of("octets"))]
        pub mtu: u16 = 2_048;

        /// How often a datagram without acknowledgement is sent again.
        #[allowed(Kind::count(0..=15))]
        #[get(|it| it.classes[0].group_repeats.into())]
        #[set(|it, to| it.set_repeats(to.count()))]
        "repeats";

        /// How datagrams to one node travel: acknowledged and in order, acknowledged and as they arrive, or not
        /// acknowledged.
        #[allowed(Kind::Word(&MODES))]
        #[get(|it| name(it.classes[0].unicast))]
        #[set(|it, to| it.set_unicast(mode(to.text(), it.classes[0].group_repeats)))]
        "unicast";

        /// How long a datagram is worth sending, waiting included; 0 is for ever.
        #[allowed(Kind::period(Duration::ZERO..=LONGEST))]
        #[get(|it| it.classes[0].ttl.unwrap_or_default().into())]
        #[set(|it, to| it.set_ttl(Some(to.period()).filter(|ttl| !ttl.is_zero())))]
        "ttl";

        /// What waits here before the node takes it.
        #[allowed(Kind::count(4_096..=16_777_216).of("octets"))]
        pub queue: usize = 256 << 10;

        /// Whether headers are compressed towards IP clients of ours, which are found by an announcement beside the
        /// first datagram to each node; others drop it.
        #[allowed(Kind::Flag)]
        pub compress_headers: bool = false;

        /// Where ICMP errors come from: an address of each version.
        pub addresses: Vec<IpAddr> = Vec::new();

        /// Routes from addresses to nodes and groups; the longest prefix counts.
        pub routes: Vec<Route> = routes;

        /// Where multicast and broadcast go that no route is for; `None` drops them.
        pub other_multicast: Option<Address> = None;

        /// How datagrams are carried, by their DSCP.
        pub classes: [Class; 64] = std::array::from_fn(|dscp| Class {
            // Annex F, table 9: twice the class selector.
            priority: u8::try_from(dscp >> 3).unwrap_or_default() * 2,
            // TCP takes datagrams that overtake a retransmitted one for a sign of loss.
            unicast: Mode::Arq { in_order: true },
            group_repeats: 0,
            ttl: None,
        });

        /// Least and most octets of a priority that the node has unconfirmed; for all priorities together, twice as
        /// many at most.
        pub window: (usize, usize) = (4 << 10, 4 << 20);

        /// How long the node's backlog may last: the window is the number of octets confirmed in this time.
        pub horizon: Duration = Duration::from_secs(150);

        /// Whether what a TCP sends again is dropped while the first is on its way, and a waiting acknowledgement gives
        /// way to a later one.
        pub supersede: bool = true;

        /// Octets of received datagrams that wait for the stack at most.
        pub received: usize = 1 << 20;

        /// How long until a client that was refused or unbound tries again: at first and at most.
        pub rebind: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

        /// The group that other clients are to be members of; `None` for everybody.
        pub group: Option<seal::Config> = None;
    }
}

base::parameters! {
    /// Parameters that users may set for datagrams with one code point.
    pub static CLASS = "ipclient-class";

    /// How a datagram is carried.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Class {
        /// Against other datagrams, 15 is the highest; without, twice the class selector (Annex F, table 9).
        #[allowed(Kind::count(0..=MAX_PRIORITY as u64))]
        pub priority: u8;

        /// How datagrams to one node travel.
        #[allowed(Kind::Word(&MODES))]
        #[get(|it| name(it.unicast))]
        #[set(|it, to| it.unicast = mode(to.text(), it.group_repeats))]
        pub unicast: Mode;

        /// To a group: times it is sent again, 0 to 15.
        pub group_repeats: u8;

        /// How long it is of use, waiting included; `None` for ever.
        pub ttl: Option<Duration>;
    }
}

/// What a rule says of a single datagram, whatever the class of its DSCP says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Override {
    /// Replaces the priority of the class.
    pub priority: Option<u8>,
    /// Replaces the time to live of the class; zero is for ever.
    pub ttl: Option<Duration>,
}

impl Class {
    /// The class with what a rule says of a datagram.
    #[must_use]
    pub fn with(self, said: Override) -> Self {
        Self {
            priority: said.priority.unwrap_or(self.priority),
            ttl: said.ttl.map_or(self.ttl, |ttl| Some(ttl).filter(|ttl| !ttl.is_zero())),
            ..self
        }
    }
}

impl Config {
    /// Carries all to nodes like this.
    pub fn set_unicast(&mut self, unicast: Mode) {
        for class in &mut self.classes {
            class.unicast = unicast;
        }
    }

    /// Sends all datagrams without ARQ so often again.
    pub fn set_repeats(&mut self, times: u8) {
        for class in &mut self.classes {
            class.group_repeats = times;
            if let Mode::NonArq { repeats, .. } = &mut class.unicast {
                *repeats = times;
            }
        }
    }

    /// Lets all datagrams live so long.
    pub fn set_ttl(&mut self, ttl: Option<Duration>) {
        for class in &mut self.classes {
            class.ttl = ttl;
        }
    }
}

/// How a datagram travels to one node.
const MODES: [&str; 3] = ["arq", "arq-any-order", "non-arq"];

fn name(mode: Mode) -> Value {
    let [in_order, any_order, non_arq] = MODES;
    let name = match mode {
        Mode::Arq { in_order: true } => in_order,
        Mode::Arq { in_order: false } => any_order,
        Mode::NonArq { .. } => non_arq,
    };
    Value::Text(name.to_owned())
}

/// The mode with this name; without ARQ, datagrams are repeated `repeats` times.
fn mode(name: &str, repeats: u8) -> Mode {
    let [_, any_order, non_arq] = MODES;
    if name == non_arq {
        Mode::NonArq { in_order: false, repeats }
    } else {
        Mode::Arq { in_order: name != any_order }
    }
}

/// The field has 20 bits of 2 s.
const LONGEST: Duration = Duration::from_secs(1_296_000);

#[cfg(test)]
mod tests {
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        let config = Config::new(Vec::new());

        prove(&CLASS, &config.classes);
        prove(&PARAMETERS, &[config]);
    }
}
