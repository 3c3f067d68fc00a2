//! Keeps the operator's traffic switches, and sums each rule's counters over all services, also over services
//! started anew for another configuration.

use std::collections::BTreeMap;
use std::time::Instant;

use base::counter::{Counter, named};
use rules::Counters;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use crate::config::{Config, NO_RULE};
use crate::service::{Report, Sample};

/// Switches and counters that outlive a configuration.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    is_disabled: bool,
    /// Rules that were switched, by name, whatever the file says.
    switched: BTreeMap<String, bool>,
    /// Counters of each rule from services that ended; no name for flows that matched no rule.
    counted: BTreeMap<Option<String>, Counters>,
}

/// What is to be switched.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Switch {
    /// A rule; without, all traffic of the HF services.
    pub rule: Option<String>,
    pub is_enabled: bool,
}

/// What came of switching traffic.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Switched {
    /// The switch took effect, with these changes.
    Changed(Vec<String>),
    /// A service cannot follow. Nothing has changed.
    Refused(String),
    /// There is no such rule; these there are.
    Unknown(Vec<String>),
}

/// A rule, for an operator.
#[derive(Debug, Serialize)]
struct Status<'a> {
    name: &'a str,
    state: &'static str,
    #[serde(flatten)]
    counted: Counters,
}

impl Traffic {
    /// Takes what the operator wants.
    pub fn switch(&mut self, Switch { rule, is_enabled }: Switch) {
        match rule {
            Some(rule) => {
                self.switched.insert(rule, is_enabled);
            }
            None => self.is_disabled = !is_enabled,
        }
    }

    /// Puts the switches in force in a configuration, and forgets rules that it does not have.
    pub fn apply(&mut self, config: &mut rules::Config) {
        config.is_enabled = !self.is_disabled;
        self.switched.retain(|name, is_enabled| match config.find_mut(name) {
            Some(rule) => {
                rule.is_enabled = *is_enabled;
                true
            }
            None => false,
        });
        self.counted
            .retain(|name, _| name.as_ref().is_none_or(|name| config.find_mut(name).is_some()));
    }

    /// Ends a service, and keeps what the rules counted in it.
    pub fn end(&mut self, slot: &mut Slot) {
        let report =
            slot.running().and_then(|worker| worker.ask_report().wait(Instant::now()).ok());
        for (name, counters) in report.into_iter().flat_map(|report| report.rules) {
            *self.counted.entry(name).or_default() += counters;
        }
        slot.stop();
    }

    /// How the traffic of the HF services is switched, and what the rules counted together.
    pub fn reports(&self, config: &Config, reports: &[Report]) -> Vec<Report> {
        if config.ip_client.is_none() && config.hf_pep.is_none() {
            return Vec::new();
        }
        let mut counted = self.counted.clone();
        for (name, counters) in reports.iter().flat_map(|report| &report.rules) {
            *counted.entry(name.clone()).or_default() += *counters;
        }
        let table = &config.rules.table;
        let mut all: Vec<_> =
            table.rules.iter().map(|it| (Some(&*it.name), it.is_enabled)).collect();
        all.push((None, true));
        let all: Vec<_> = all
            .into_iter()
            .map(|(name, is_enabled)| Status {
                name: name.unwrap_or(NO_RULE),
                state: said(is_enabled && table.is_enabled),
                counted: counted.get(&name.map(str::to_owned)).copied().unwrap_or_default(),
            })
            .collect();
        let mut rules = Report::new(Vec::new(), "rules", &all);
        rules.samples = all.iter().flat_map(samples).collect();
        let state = BTreeMap::from([("state", said(table.is_enabled))]);
        vec![rules, Report::new(Vec::new(), "hf", &state)]
    }
}

fn said(is_enabled: bool) -> &'static str {
    if is_enabled { "enabled" } else { "disabled" }
}

fn samples(status: &Status<'_>) -> Vec<Sample> {
    let Status { name, state, counted } = status;
    let enabled = const { &Counter::gauge("enabled", "rules", "Whether the rule acts.") };
    let mut all = vec![(enabled, u64::from(*state == said(true)))];
    all.extend(named(counted));
    let sample = |(counter, value): (&'static Counter, u64)| Sample {
        name: format!("rule_{}", counter.name),
        counter,
        of: ("rule", (*name).to_owned()),
        value: value as f64,
    };
    all.into_iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn switches_and_counters_outlive_a_configuration_but_not_their_rule() {
        let mut traffic = Traffic::default();
        let counted = Counters { hits: 3, octets: 300, blocked: 1 };
        traffic.counted.insert(Some("a".to_owned()), counted);
        traffic.switch(Switch { rule: Some("a".to_owned()), is_enabled: false });
        let mut config = config(&["a", "b"]);
        traffic.apply(&mut config.rules.table);
        let rules = vec![(Some("a".to_owned()), counted), (None, counted)];
        let running = Report { rules, ..Report::default() };

        let reports = traffic.reports(&config, &[running]);

        let told = reports.iter().map(|report| report.status.clone().unwrap());
        let rule = |name, state, hits| {
            let (octets, blocked) = (hits * 100, hits / 3);
            json!({"name": name, "state": state, "hits": hits, "octets": octets, "blocked": blocked})
        };
        let rules =
            [rule("a", "disabled", 6), rule("b", "enabled", 0), rule("default", "enabled", 3)];
        let expected = [("rules", json!(rules)), ("hf", json!({"state": "enabled"}))];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let samples = reports[0].samples.iter().filter(|sample| sample.of.1 == "a");
        let samples: Vec<_> = samples.map(|it| (&*it.name, it.value)).collect();
        let expected = [
            ("rule_enabled", 0.0),
            ("rule_hits", 6.0),
            ("rule_octets", 600.0),
            ("rule_blocked", 2.0),
        ];
        assert_eq!(samples, expected);

        // It is removed, and comes back.
        traffic.apply(&mut self::config(&["b"]).rules.table);
        let mut config = self::config(&["a"]);
        traffic.apply(&mut config.rules.table);

        assert!(config.rules.table.rules[0].is_enabled);
        assert_eq!(traffic.counted.len(), 0);
    }

    fn config(rules: &[&str]) -> Config {
        let mut text = "[ipclient]\naddresses = [\"10.66.0.1/24\"]\n\
                        route = [{ node = \"0.0.0.2\", to = [\"10.2.0.0/16\"] }]\n"
            .to_owned();
        for name in rules {
            text += &format!("[[rule]]\nname = \"{name}\"\nto-port = {}\n", name.len());
        }
        Config::parse("a.toml", &text).unwrap()
    }
}
