//! The rules that a service follows, each with counters of its own; the supervisor adds them up.

use std::net::SocketAddr;

use anyhow::Context as _;
use base::ip::{Header, protocol};
use base::time::Time;
use rules::{Config, Counters, Decision, Flow, Rule, Stats, Table};

use crate::linux::entrances::Entrances;

/// The rules at work.
pub struct Rules {
    table: Table,
    /// Where packets come from, if a rule asks for it.
    entrances: Option<Entrances>,
}

/// Opens the lookup of the interfaces by which packets enter, if a rule asks for an interface.
fn entrances(rules: &Config) -> anyhow::Result<Option<Entrances>> {
    let asks = !rules.split_from.is_empty()
        || rules.rules.iter().any(|rule| !rule.selector.interfaces.is_empty());
    asks.then(Entrances::open).transpose().context("cannot ask the kernel")
}

impl Rules {
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Ok(Self { table: Table::new(config.clone()), entrances: entrances(config)? })
    }

    /// What becomes of a packet.
    pub fn handle_packet(&mut self, now: Time, header: &Header, packet: &[u8]) -> Decision<'_> {
        let entrances = self.entrances.as_mut();
        let interface = entrances.and_then(|it| it.find(now, header.source));
        self.table.handle_packet(header, packet, interface)
    }

    /// Decides on a TCP connection that the kernel has let in by a rule, or because no rule matched.
    pub fn decide_by(
        &mut self,
        now: Time,
        rule: Option<&str>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Decision<'_> {
        let flow = flow(self.entrances.as_mut(), now, protocol::TCP, from, to);
        self.table.decide_by(rule, &flow)
    }

    /// Decides on a TCP connection made to HF-PEP itself.
    pub fn decide(&mut self, now: Time, from: SocketAddr, to: SocketAddr) -> Decision<'_> {
        let flow = flow(self.entrances.as_mut(), now, protocol::TCP, from, to);
        self.table.decide_split(&flow, 0)
    }

    /// Decides on a datagram of so many octets sent to HF-PEP itself.
    pub fn decide_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: SocketAddr,
        octets: usize,
    ) -> Decision<'_> {
        let flow = flow(self.entrances.as_mut(), now, protocol::UDP, from, to);
        self.table.decide_split(&flow, octets)
    }

    /// Follows other rules from now on, and tells what has changed.
    ///
    /// # Errors
    /// When there are no descriptors left; nothing has changed.
    pub fn replace(&mut self, config: &Config) -> anyhow::Result<Vec<String>> {
        if config == self.table.config() {
            return Ok(Vec::new());
        }
        self.entrances = entrances(config)?;
        let changes = changes(self.table.config(), config);
        self.table.replace(config.clone());
        Ok(changes)
    }

    /// The counters of each rule by name; traffic that no rule matched has no name.
    pub fn counters(&self) -> Vec<(Option<String>, Counters)> {
        let counters = self.table.counters();
        counters.map(|(name, counted)| (name.map(str::to_owned), counted)).collect()
    }

    /// What is followed.
    pub fn config(&self) -> &Config {
        self.table.config()
    }

    /// What is counted beside them.
    pub fn stats(&self) -> Stats {
        self.table.stats()
    }
}

fn flow<'a>(
    entrances: Option<&'a mut Entrances>,
    now: Time,
    protocol: u8,
    from: SocketAddr,
    to: SocketAddr,
) -> Flow<'a> {
    Flow {
        source: from.ip(),
        destination: to.ip(),
        protocol,
        ports: Some((from.port(), to.port())),
        // Unknown for a connection that the kernel has accepted.
        dscp: 0,
        interface: entrances.and_then(|it| it.find(now, from.ip())),
    }
}

/// What differs between rules, for an operator.
fn changes(old: &Config, new: &Config) -> Vec<String> {
    let said = |is_enabled| if is_enabled { "enabled" } else { "disabled" };
    let mut changes = Vec::new();
    if old.is_enabled != new.is_enabled {
        changes.push(format!("traffic {}", said(new.is_enabled)));
    }
    for rule in &new.rules {
        match old.rules.iter().find(|before| before.name == rule.name) {
            None => changes.push(format!("rule {}: new", rule.name)),
            Some(before) if before == rule => {}
            Some(before)
                if (&before.selector, &before.action) == (&rule.selector, &rule.action) =>
            {
                changes.push(format!("rule {}: {}", rule.name, said(rule.is_enabled)));
            }
            Some(_) => changes.push(format!("rule {}: changed", rule.name)),
        }
    }
    let is_gone = |rule: &&Rule| new.rules.iter().all(|other| other.name != rule.name);
    changes
        .extend(old.rules.iter().filter(is_gone).map(|rule| format!("rule {}: gone", rule.name)));
    if changes.is_empty() {
        changes.push("rules: another order".to_owned());
    }
    changes
}
