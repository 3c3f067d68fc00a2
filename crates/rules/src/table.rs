//! The ordered table of rules: decides on packets and flows, and counts for each rule.

use std::ops::AddAssign;

use base::ip::{Fragment, Header, Prefix, protocol};

use super::fragments::{Decided, Fragments};
use super::rule::{Action, Options, Refusal, Rule, Service};
use super::selector::{Certainty, Field, Flow};

/// The configuration of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The rules, each name once; the first that matches decides.
    pub rules: Vec<Rule>,
    /// The networks behind a peer that splits TCP: TCP to these networks goes to HF-PEP unless a rule decides
    /// otherwise.
    pub split: Vec<Prefix>,
    /// The interfaces by which TCP to split enters; an empty list stands for all.
    pub split_from: Vec<String>,
    /// Whether any traffic passes; if not, every flow is refused ([`Refusal::Reset`]).
    pub is_enabled: bool,
}

/// Rules with their counters.
///
/// Decisions do not allocate, except to remember a first fragment. The memory for fragments is bounded.
#[derive(Clone, Debug)]
pub struct Table {
    config: Config,
    /// One entry for each rule, and a last one for flows without a matching rule.
    counters: Vec<Counters>,
    fragments: Fragments,
    stats: Stats,
}

base::counters! {
    /// What a rule decided.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Counters {
        /// Packets or connections.
        pub hits: counter(packets);
        /// Octets of them.
        pub octets: counter(octets);
        /// Blocked packets among the hits.
        pub blocked: counter(packets);
    }
}

base::counters! {
    /// What is counted beside the rules.
    #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
    pub struct Stats {
        /// Fragments whose first was not seen, or forgotten: the rules that might have their packet decided.
        pub fragments_orphaned: counter(packets);
        /// Fragments dropped because they have octets of the headers that the first has (RFC 1858, RFC 5722).
        pub fragments_overlapping: counter(packets);
        /// Packets and first fragments dropped because they end before their transport header does, or have too many
        /// extension headers before it (RFC 1858, RFC 7112).
        pub packets_headless: counter(packets);
    }
}

/// The verdict on a flow, with the rule behind the verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision<'t> {
    /// The matching rule; `None` if no rule matches.
    pub rule: Option<&'t Rule>,
    /// The verdict on the flow.
    pub verdict: Verdict<'t>,
}

/// Blocks a flow, or passes the flow to a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict<'t> {
    /// The flow is dropped.
    Block {
        /// The answer to the flow's sender.
        refusal: Refusal,
        /// Why.
        cause: Cause,
    },
    /// A service carries the flow.
    Pass {
        /// Which.
        service: Service,
        /// How.
        options: &'t Options,
    },
}

/// Why a flow is blocked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The rule says so.
    Blocked,
    /// The rule is disabled.
    RuleDisabled,
    /// All traffic is disabled.
    TrafficDisabled,
    /// The ports are missing, or another fragment would change the ports: no rule can decide reliably.
    Unreadable,
}

/// A decision with its reasons.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation<'t> {
    /// The rules before the matching rule, each with the first field that the flow does not fit.
    pub passed_over: Vec<(&'t Rule, Field)>,
    /// The decision.
    pub decision: Decision<'t>,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.hits += more.hits;
        self.octets += more.octets;
        self.blocked += more.blocked;
    }
}

impl Config {
    /// The rule of this name.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Rule> {
        self.rules.iter_mut().find(|rule| rule.name == name)
    }

    /// Positions of rules that can never decide, each with the position of the first earlier rule covering all their
    /// flows.
    pub fn shadowed(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rules.iter().enumerate().filter_map(|(at, rule)| {
            let covers = |before: &Rule| before.selector.covers(&rule.selector);
            self.rules[..at].iter().position(covers).map(|before| (at, before))
        })
    }

    /// Explains a decision: the matching rule, and for each earlier rule the field that did not match.
    #[must_use]
    pub fn explain(&self, flow: &Flow<'_>) -> Explanation<'_> {
        self.explain_as(flow, self.is_split(flow))
    }

    /// Like [`Self::explain`], for a flow that HF-PEP has already.
    #[must_use]
    pub fn explain_split(&self, flow: &Flow<'_>) -> Explanation<'_> {
        self.explain_as(flow, true)
    }

    fn explain_as(&self, flow: &Flow<'_>, is_split: bool) -> Explanation<'_> {
        let matching = self.position(flow);
        let before = &self.rules[..matching.unwrap_or(self.rules.len())];
        let misfit = |rule: &'_ Rule| rule.selector.misfit(flow);
        let passed_over = before.iter().filter_map(|rule| Some((rule, misfit(rule)?))).collect();
        Explanation { passed_over, decision: self.decision(matching, is_split) }
    }

    fn position(&self, flow: &Flow<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.selector.misfit(flow).is_none())
    }

    /// The rule for a later fragment if the first fragment was not seen: the first rule that surely matches, or may
    /// match and blocks.
    fn position_unseen(&self, fragment: &Flow<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| match rule.selector.fits_unseen(fragment) {
            Some(Certainty::Sure) => true,
            Some(Certainty::Perhaps) => !rule.is_enabled || matches!(rule.action, Action::Block(_)),
            None => false,
        })
    }

    /// The verdict on the flows of the rule at `position`, or on flows without a matching rule if `None`; `is_split`
    /// says whether a peer splits these flows.
    #[must_use]
    pub fn decision(&self, position: Option<usize>, is_split: bool) -> Decision<'_> {
        let rule = position.and_then(|at| self.rules.get(at));
        let block = |refusal, cause| Verdict::Block { refusal, cause };
        let verdict = match rule.map(|rule| (&rule.action, rule.is_enabled)) {
            Some((Action::Block(refusal), true)) => block(*refusal, Cause::Blocked),
            _ if !self.is_enabled => block(Refusal::Reset, Cause::TrafficDisabled),
            Some((_, false)) => block(Refusal::Reset, Cause::RuleDisabled),
            Some((Action::Pass(options), true)) => pass(options, is_split),
            None => pass(Options::AUTOMATIC, is_split),
        };
        Decision { rule, verdict }
    }

    /// Whether the flow is TCP that enters by an interface and goes to a network with splitting.
    fn is_split(&self, flow: &Flow<'_>) -> bool {
        let enters_by = |interface| self.split_from.iter().any(|own| own == interface);
        flow.protocol == protocol::TCP
            && self.split.iter().any(|network| network.contains(flow.destination))
            && (self.split_from.is_empty() || flow.interface.is_none_or(enters_by))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { rules: Vec::new(), split: Vec::new(), split_from: Vec::new(), is_enabled: true }
    }
}

impl Table {
    /// A table that has not decided anything yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let counters = vec![Counters::default(); config.rules.len() + 1];
        Self { config, counters, fragments: Fragments::default(), stats: Stats::default() }
    }

    /// Replaces the rules; rules that keep their name keep their counters.
    pub fn replace(&mut self, config: Config) {
        let mut counters: Vec<Counters> = config
            .rules
            .iter()
            .map(|rule| self.counters().find(|(name, _)| *name == Some(rule.name.as_str())))
            .map(|kept| kept.map_or_else(Counters::default, |(_, counters)| counters))
            .collect();
        counters.extend(self.counters.last());
        *self = Self { stats: self.stats, counters, ..Self::new(config) };
    }

    /// Decides on a packet, and counts it.
    ///
    /// The fragments of a packet share the decision on the first fragment. If the first fragment was not seen, a later
    /// fragment is blocked if a rule may block the packet. Packets without a whole transport header, and fragments that
    /// would overwrite the headers of another fragment, are dropped silently and belong to no rule.
    pub fn handle_packet(
        &mut self,
        header: &Header,
        packet: &[u8],
        interface: Option<&str>,
    ) -> Decision<'_> {
        let flow = Flow::of(header, packet, interface);
        let is_split = self.config.is_split(&flow);
        let (matching, is_split) = match header.fragment {
            Some(fragment) if fragment.is_later() => {
                let first = self.fragments.find(header, fragment);
                let headers = first.map_or_else(|| header.octets_of_headers(), |it| it.headers);
                if fragment.offset < headers {
                    self.stats.fragments_overlapping += 1;
                    return UNREADABLE;
                }
                self.stats.fragments_orphaned += u64::from(first.is_none());
                first.map_or_else(
                    || (self.config.position_unseen(&flow), is_split),
                    |first| (first.rule, first.is_split),
                )
            }
            _ if !header.transport.is_whole => {
                self.stats.packets_headless += 1;
                return UNREADABLE;
            }
            None => (self.config.position(&flow), is_split),
            Some(fragment) => (self.handle_first(header, fragment, &flow, is_split), is_split),
        };
        self.count(matching, is_split, header.total_len)
    }

    /// Decides on the first fragment of a packet, and so on the later fragments.
    fn handle_first(
        &mut self,
        header: &Header,
        fragment: Fragment,
        flow: &Flow<'_>,
        is_split: bool,
    ) -> Option<usize> {
        let rule = self.config.position(flow);
        let decided = Decided { rule, is_split, headers: header.octets_of_headers() };
        self.fragments.handle_first(header, fragment, decided);
        rule
    }

    /// Decides on a flow, and counts one hit with this many octets.
    pub fn decide(&mut self, flow: &Flow<'_>, octets: usize) -> Decision<'_> {
        self.count(self.config.position(flow), self.config.is_split(flow), octets)
    }

    /// Like [`Self::decide`], for a flow that HF-PEP has already: HF-PEP keeps the flow unless a rule decides
    /// otherwise.
    pub fn decide_split(&mut self, flow: &Flow<'_>, octets: usize) -> Decision<'_> {
        self.count(self.config.position(flow), true, octets)
    }

    /// Like [`Self::decide_split`] if the name of the matching rule is known; `None` says that no rule matched. If the
    /// named rule no longer exists, the current rules decide. Counts a hit without octets.
    pub fn decide_by(&mut self, rule: Option<&str>, flow: &Flow<'_>) -> Decision<'_> {
        let position =
            rule.and_then(|name| self.config.rules.iter().position(|it| it.name == name));
        let has_gone = position.is_none() && rule.is_some();
        let position = if has_gone { self.config.position(flow) } else { position };
        self.count(position, true, 0)
    }

    fn count(&mut self, position: Option<usize>, is_split: bool, octets: usize) -> Decision<'_> {
        let decision = self.config.decision(position, is_split);
        let place = position.unwrap_or(self.config.rules.len());
        if let Some(counters) = self.counters.get_mut(place) {
            counters.hits += 1;
            counters.octets += octets as u64;
            counters.blocked += u64::from(matches!(decision.verdict, Verdict::Block { .. }));
        }
        decision
    }

    /// The current configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The name and counters of each rule; `None` stands for flows without a matching rule.
    pub fn counters(&self) -> impl Iterator<Item = (Option<&str>, Counters)> {
        let names = self.config.rules.iter().map(|rule| Some(&*rule.name));
        names.chain([None]).zip(self.counters.iter().copied())
    }

    /// The counters of the table itself.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

/// The decision on packets that cannot be read: dropped silently.
const UNREADABLE: Decision<'static> = Decision {
    rule: None,
    verdict: Verdict::Block { refusal: Refusal::Silent, cause: Cause::Unreadable },
};

fn pass(options: &Options, is_split: bool) -> Verdict<'_> {
    let automatic = if is_split { Service::HfPep } else { Service::IpClient };
    Verdict::Pass { service: options.service.unwrap_or(automatic), options }
}
