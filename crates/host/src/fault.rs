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
/// Programs that start again are back by then.
const RESTARTED: Duration = Duration::from_secs(3);

/// Declares kinds: name, code, severity, delay, codes of causes, and meaning.
macro_rules! kinds {
    ($($name:ident = $code:literal, $severity:ident, $delay:ident $(, $follows:literal)*: $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub static $name: Kind = Kind {
                code: $code,
                severity: Severity::$severity,
                meaning: $meaning,
                follows: &[$($follows),*],
                delay: $delay,
            };
        )*
        /// All kinds.
        pub static KINDS: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    SERVICE = "service-down", High, AT_ONCE:
        "A service has failed, or waits for something of this host, and is started again.";
    INTERFACE = "interface-missing", High, AT_ONCE:
        "An interface is missing, down, or without an address; the service waits for it.";
    MISSING = "route-missing", High, LATER:
        "An address, route or rule of ours is not in the kernel, and cannot be put back.";
    DISPLACED = "route-displaced", Low, AT_ONCE:
        "Another program has added a route to a network of ours; ours moved to a table before it.";
    CONTESTED = "contested", Medium, AT_ONCE:
        "Another program keeps changing entries of ours; we restore them only now and then.";
    CLASH = "numbers-clash", Medium, AT_ONCE:
        "Another program uses a table, a priority of rules, a protocol number or a mark of ours.";
    OVERRULED = "rule-overruled", High, LATER, "route-missing":
        "A rule of another program diverts packets that belong to a service.";
    COVERED = "route-covered", High, LATER:
        "Longer routes of other programs divert all packets of a network of ours.";
    UNFENCED = "not-kept-out", High, AT_ONCE:
        "Packets that must not arrive or leave in clear are not dropped.";
    SETTING = "setting-refused", Medium, AT_ONCE:
        "A kernel setting is not as services need it, and cannot be changed.";
    NOTES = "notes-unwritten", Medium, LATER:
        "Notes below /run cannot be written: a crash would leave settings changed.";
    KEEPER = "keeper-gone", Medium, AT_ONCE:
        "A process that keeps root's files or the folder in /run for the gateway has ended.";
    DISPUTED = "address-disputed", Medium, AT_ONCE:
        "Another node of the MANET has an address of this node too, or somebody forges it.";
    UPLINK = "uplink-down", Medium, AT_ONCE:
        "No link that is up leads to a network attached to this node: it is not announced.";
    DEAF = "descriptors-exhausted", High, AT_ONCE:
        "Connections are not accepted: the process has no descriptors or memory left.";
    LISTEN = "listen-address-gone", High, LATER, "interface-missing":
        "An address or socket of a listening service is gone: nobody reaches it there.";
    BESIDE = "leaves-in-clear", High, AT_ONCE:
        "Peers carry all of one IP version, and the other leaves in clear.";
    FORWARDING = "forwarding", Medium, LATER:
        "Packets of other hosts are not forwarded.";
    FIREWALL = "firewall", Medium, LATER:
        "A firewall drops packets of services.";
    REVERSE_PATH = "reverse-path", Medium, LATER:
        "A firewall drops packets whose answers go another way.";
    NO_ROUTE = "no-route", Medium, LATER, "interface-missing", "listen-address-gone":
        "No route leads to a peer or a server.";
    PATH = "path-waiting", Medium, LATER:
        "A further path to a peer waits for an interface, an address or a route.";
    NAME = "name-unknown", Medium, LATER, "no-route":
        "The name of a peer has no address, or no name server answers; the query is repeated.";
    SILENT = "no-answer", Medium, RESTARTED, "no-route":
        "A node, modem or gateway that a service needs refuses or is silent.";
    DROPPED = "dropped-in-clear", Medium, AT_ONCE, "rule-overruled", "route-missing", "service-down":
        "Packets bypassed the service that should carry them, and are dropped.";
    MTU = "mtu", Medium, LATER:
        "The MTU of an interface is smaller than it should be.";
}

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
