//! All kinds of faults of a running gateway, each declared once; and which faults are shown, and since when.
//!
//! ```text
//!   services ── faults that there are now ──▶ Faults ──▶ shown: status, metrics
//!                                                  └──▶ begun and ended: the log, once each
//! ```
//! A fault is shown once it has lasted for the delay of its kind, unless a possible cause is shown in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use base::time::Time;

/// How grave a fault is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// All traffic is carried, but not as an operator might expect.
    Low,
    /// Some traffic is not carried, or may not be.
    Medium,
    /// A service carries no traffic, or traffic may be read or forged.
    High,
}

/// A kind of fault.
#[derive(Debug, Eq, PartialEq)]
pub struct Kind {
    /// The name for programs, never changed.
    pub code: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// The meaning of the fault, in a sentence.
    pub meaning: &'static str,
    /// Codes of possible causes: while a cause is shown, this fault is hidden.
    pub follows: &'static [&'static str],
    /// How long a fault has to last before it is shown: shorter faults mend themselves.
    pub delay: Duration,
}

const AT_ONCE: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_secs(1);

/// A service of the gateway does not run.
pub static SERVICE: Kind = Kind {
    code: "service-down",
    severity: Severity::High,
    meaning: "A service has failed, or waits for something of this host, and is started again.",
    follows: &[],
    delay: AT_ONCE,
};
/// An interface cannot be used.
pub static INTERFACE: Kind = Kind {
    code: "interface-missing",
    severity: Severity::High,
    meaning: "An interface is missing, down, or without an address: it is waited for.",
    follows: &[],
    delay: AT_ONCE,
};
/// Something of ours cannot be put into the kernel.
pub static MISSING: Kind = Kind {
    code: "route-missing",
    severity: Severity::High,
    meaning: "An address, route or rule of ours is not in the kernel, and cannot be put back.",
    follows: &[],
    delay: LATER,
};
/// A route of another program has come.
pub static DISPLACED: Kind = Kind {
    code: "route-displaced",
    severity: Severity::Low,
    meaning: "Another program has added a route to a network of ours: ours stands aside, and comes first.",
    follows: &[],
    delay: AT_ONCE,
};
/// Others change what is ours again and again.
pub static CONTESTED: Kind = Kind {
    code: "contested",
    severity: Severity::Medium,
    meaning: "Another program changes what is ours again and again: it is put back now and then.",
    follows: &[],
    delay: AT_ONCE,
};
/// Another program uses numbers of ours.
pub static CLASH: Kind = Kind {
    code: "numbers-clash",
    severity: Severity::Medium,
    meaning: "Another program uses a table, a priority of rules, a protocol number or a mark of ours.",
    follows: &[],
    delay: AT_ONCE,
};
/// A rule of another program comes before ours.
pub static OVERRULED: Kind = Kind {
    code: "rule-overruled",
    severity: Severity::High,
    meaning: "A rule of another program leads packets elsewhere that belong to a service.",
    follows: &["route-missing", "service-down", "interface-missing"],
    delay: LATER,
};
/// Longer routes of other programs cover a network.
pub static COVERED: Kind = Kind {
    code: "route-covered",
    severity: Severity::High,
    meaning: "Longer routes of other programs lead all of a network of ours elsewhere.",
    follows: &[],
    delay: LATER,
};
/// A table that drops packets in clear is missing.
pub static UNFENCED: Kind = Kind {
    code: "not-kept-out",
    severity: Severity::High,
    meaning: "Packets that come or leave in clear, and must not, are not dropped.",
    follows: &[],
    delay: AT_ONCE,
};
/// A setting of the kernel cannot be changed.
pub static SETTING: Kind = Kind {
    code: "setting-refused",
    severity: Severity::Medium,
    meaning: "A setting of the kernel is not as services need it, and cannot be changed.",
    follows: &[],
    delay: AT_ONCE,
};
/// Another node has our address.
pub static DISPUTED: Kind = Kind {
    code: "address-disputed",
    severity: Severity::Medium,
    meaning: "Another node of the MANET has an address of this node too, or somebody forges it.",
    follows: &[],
    delay: AT_ONCE,
};
/// A network that this node offers to others cannot be reached from it.
pub static UPLINK: Kind = Kind {
    code: "uplink-down",
    severity: Severity::Medium,
    meaning: "No link that is up leads to a network attached to this node: it is not announced.",
    follows: &[],
    delay: AT_ONCE,
};
/// No connection can be accepted.
pub static DEAF: Kind = Kind {
    code: "descriptors-exhausted",
    severity: Severity::High,
    meaning: "Connections are not accepted: the process has no descriptors or memory left.",
    follows: &[],
    delay: AT_ONCE,
};
/// An address or socket to listen at is gone.
pub static LISTEN: Kind = Kind {
    code: "listen-address-gone",
    severity: Severity::High,
    meaning: "An address or socket that a service listens at is gone: nobody reaches it there.",
    follows: &["interface-missing"],
    delay: LATER,
};

/// One version of IP goes through the tunnel, and the other beside it.
pub static BESIDE: Kind = Kind {
    code: "leaves-in-clear",
    severity: Severity::High,
    meaning: "Peers have everything of one version of IP, and the other leaves in clear.",
    follows: &[],
    delay: AT_ONCE,
};

/// Packets of hosts behind the gateway are not forwarded.
pub static FORWARDING: Kind = Kind {
    code: "forwarding",
    severity: Severity::Medium,
    meaning: "Packets of other hosts are not forwarded.",
    follows: &[],
    delay: LATER,
};
/// A firewall is in the way.
pub static FIREWALL: Kind = Kind {
    code: "firewall",
    severity: Severity::Medium,
    meaning: "Another firewall drops what services carry.",
    follows: &[],
    delay: LATER,
};
/// A firewall checks the way back.
pub static REVERSE_PATH: Kind = Kind {
    code: "reverse-path",
    severity: Severity::Medium,
    meaning: "A firewall drops packets whose answers go another way.",
    follows: &[],
    delay: LATER,
};
/// A peer cannot be reached.
pub static NO_ROUTE: Kind = Kind {
    code: "no-route",
    severity: Severity::Medium,
    meaning: "No route leads to a peer or a server.",
    follows: &["interface-missing", "listen-address-gone"],
    delay: LATER,
};
/// A further path to a peer cannot be used.
pub static PATH: Kind = Kind {
    code: "path-waiting",
    severity: Severity::Medium,
    meaning: "A further path to a peer waits for an interface, an address or a route.",
    follows: &[],
    delay: LATER,
};
/// The name of a peer has no address.
pub static NAME: Kind = Kind {
    code: "name-unknown",
    severity: Severity::Medium,
    meaning: "The name of a peer has no address, or nobody says which: it is asked for again.",
    follows: &["no-route"],
    delay: LATER,
};
/// Somebody who is needed does not answer.
pub static SILENT: Kind = Kind {
    code: "no-answer",
    severity: Severity::Medium,
    meaning: "A node, modem or gateway that a service needs refuses or is silent.",
    follows: &["no-route"],
    // Programs that start again are back by then.
    delay: Duration::from_secs(3),
};
/// Packets are dropped that a service should carry.
pub static DROPPED: Kind = Kind {
    code: "dropped-in-clear",
    severity: Severity::Medium,
    meaning: "Packets that a service should carry came past it, and are dropped.",
    follows: &["rule-overruled", "route-missing", "service-down"],
    delay: AT_ONCE,
};
/// An interface is too small.
pub static MTU: Kind = Kind {
    code: "mtu",
    severity: Severity::Medium,
    meaning: "An interface takes shorter packets than it should.",
    follows: &[],
    delay: LATER,
};

/// All kinds.
pub static KINDS: [&Kind; 24] = [
    &SERVICE,
    &INTERFACE,
    &MISSING,
    &DISPLACED,
    &CONTESTED,
    &CLASH,
    &OVERRULED,
    &COVERED,
    &UNFENCED,
    &SETTING,
    &DISPUTED,
    &UPLINK,
    &DEAF,
    &LISTEN,
    &BESIDE,
    &FORWARDING,
    &FIREWALL,
    &REVERSE_PATH,
    &NO_ROUTE,
    &PATH,
    &NAME,
    &SILENT,
    &DROPPED,
    &MTU,
];

/// A deviation on this host, with its details for an operator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: &'static Kind,
    /// The details: the missing thing, the obstacle and the remedy.
    pub said: String,
    /// The name of the peer that cannot be reached, if the fault is about one.
    pub peer: Option<String>,
    /// Whether an examination of the host has found it, and finds it again while it lasts.
    pub is_finding: bool,
}

/// Tracks the faults of a gateway: decides when each is shown.
#[derive(Debug, Default)]
pub struct Faults {
    known: BTreeMap<(&'static str, String), Known>,
}

#[derive(Debug)]
struct Known {
    fault: Fault,
    since: Time,
    is_shown: bool,
}

/// Changes of the shown faults since the last call of [`Faults::follow`].
#[derive(Debug, Default)]
pub struct News {
    /// All shown faults, the gravest first.
    pub shown: Vec<Fault>,
    /// Faults shown now and not before.
    pub begun: Vec<Fault>,
    /// Faults shown before and not now.
    pub ended: Vec<Fault>,
}

impl Fault {
    /// A fault of a kind, in words for an operator.
    #[must_use]
    pub fn new(kind: &'static Kind, said: impl Into<String>) -> Self {
        Self { kind, said: said.into(), peer: None, is_finding: false }
    }
}

impl Severity {
    /// Its name in status and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Faults {
    /// Takes all present faults, and returns the changes.
    pub fn follow(&mut self, now: Time, present: Vec<Fault>) -> News {
        let mut before = std::mem::take(&mut self.known);
        for fault in present {
            let key = (fault.kind.code, fault.said.clone());
            let known = before.remove(&key).unwrap_or(Known { fault, since: now, is_shown: false });
            self.known.insert(key, known);
        }
        let lasting = |it: &Known| it.since + it.fault.kind.delay <= now;
        let codes: BTreeSet<_> =
            self.known.values().filter(|it| lasting(it)).map(|it| it.fault.kind.code).collect();
        let mut news = News::default();
        for known in self.known.values_mut() {
            let fault = known.fault.clone();
            let shows =
                lasting(known) && !fault.kind.follows.iter().any(|code| codes.contains(code));
            match (known.is_shown, shows) {
                (false, true) => news.begun.push(fault.clone()),
                (true, false) => news.ended.push(fault.clone()),
                _ => {}
            }
            known.is_shown = shows;
            if shows {
                news.shown.push(fault);
            }
        }
        let gone = before.into_values().filter(|known| known.is_shown);
        news.ended.extend(gone.map(|known| known.fault));
        news.shown.sort_by_key(|fault| std::cmp::Reverse(fault.kind.severity));
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_fault_is_shown_after_its_delay_and_told_once_when_it_begins_and_ends() {
        let mut faults = Faults::default();
        let fault = Fault::new(&MISSING, "route to 10.2.0.0/16 is not there");
        let mut told = |now, present: &[&Fault]| {
            let present = present.iter().map(|it| (*it).clone()).collect();
            let News { shown, begun, ended } = faults.follow(at(now), present);
            (shown.len(), begun.len(), ended.len())
        };

        assert_eq!(told(0, &[&fault]), (0, 0, 0));
        assert_eq!(told(999, &[&fault]), (0, 0, 0));
        assert_eq!(told(1_000, &[&fault]), (1, 1, 0));
        assert_eq!(told(2_000, &[&fault]), (1, 0, 0));
        assert_eq!(told(3_000, &[]), (0, 0, 1));
        // It begins anew.
        assert_eq!(told(4_000, &[&fault]), (0, 0, 0));
        assert_eq!(told(4_500, &[]), (0, 0, 0));
    }

    #[test]
    fn what_follows_from_another_fault_is_not_shown_beside_it() {
        let mut faults = Faults::default();
        let address = Fault::new(&LISTEN, "192.0.2.1 is gone");
        let interface = Fault::new(&INTERFACE, "waits for wlan0");

        let none = faults.follow(at(0), vec![address.clone()]);
        let first = faults.follow(at(1_000), vec![address.clone()]);
        let both = faults.follow(at(1_001), vec![address.clone(), interface.clone()]);
        let last = faults.follow(at(1_002), vec![address.clone()]);

        assert_eq!(none.begun, []);
        assert_eq!(first.begun, std::slice::from_ref(&address));
        assert_eq!((both.shown, both.ended), (vec![interface], vec![address.clone()]));
        assert_eq!(last.begun, [address]);
    }

    #[test]
    fn the_kinds_have_names_of_their_own_and_follow_from_kinds_that_there_are() {
        let codes: BTreeSet<_> = KINDS.iter().map(|kind| kind.code).collect();

        assert_eq!(codes.len(), KINDS.len());
        for kind in KINDS {
            assert!(kind.follows.iter().all(|code| codes.contains(code)), "{}", kind.code);
            assert!(kind.meaning.ends_with('.'), "{}", kind.code);
        }
    }

    #[test]
    fn the_guide_lists_all_kinds() {
        let page = include_str!("../../../docs/guide/gateway.md");
        for Kind { code, severity, meaning, .. } in KINDS {
            let row = format!("| `{code}` | {severity} | {meaning} |");
            assert!(page.lines().any(|line| line == row), "{row}");
        }
    }
}
