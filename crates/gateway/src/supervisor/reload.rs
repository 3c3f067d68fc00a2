//! Reloads the configuration: checks it as a whole, then puts it in force as a whole or not at all.
//!
//! ```text
//!   file ─▶ checked ─▶ services that stay take it ─▶ others leave, others start (anew) ─▶ what left is cleaned up
//!              │                  │ refused                    │ failed
//!              ▼                  ▼                            ▼
//!       nothing changed ◀── the old configuration, in the same way
//! ```

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use base::time::Time;
use serde::{Deserialize, Serialize};
use settings::Complaints;
use tracing::{info, warn};

use super::Supervisor;
use super::metrics::Metrics;
use super::traffic::{Switch, Switched};
use crate::config::edit::{PeerChange, Unchanged};
use crate::config::{Config, Process};
use crate::files;
use crate::linux::rights;
use crate::service::Reload;

/// The outcome of reading the configuration again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reloaded {
    /// The configuration is in force, with these changes.
    Changed(Vec<String>),
    /// It is wrong: file, line and what is allowed. Nothing has changed.
    Invalid(String),
    /// A service cannot follow it. Nothing has changed.
    Refused(String),
}

/// A configuration with peers that were added or removed since the file was read.
#[derive(Debug)]
pub struct Edited {
    /// Its text.
    text: String,
    /// Texts of the file that let `text` stay in force: the file before the change, and the file after `trackway peer
    /// --save`.
    in_file: [Option<String>; 2],
}

/// All changes in a line.
fn said(changes: &[String]) -> String {
    if changes.is_empty() { "none".to_owned() } else { changes.join("; ") }
}

impl Supervisor {
    /// Reads the configuration again, and puts it in force; the service manager is told.
    pub fn reload(&mut self, now: Time) -> Reloaded {
        self.notify.reloading();
        let outcome = self.read_again(now);
        self.notify.ready();
        outcome
    }

    fn read_again(&mut self, now: Time) -> Reloaded {
        if let Some(why) = self.handed_over() {
            warn!(%why, "configuration not read again: nothing has changed");
            return Reloaded::Refused(why);
        }
        match Config::read(&self.file) {
            Ok(config) => {
                // If it is refused, they stay walled until the next reload.
                self.observer.name_networks(&config.networks);
                let outcome = self.take(now, config);
                if matches!(outcome, Reloaded::Changed(_)) {
                    self.edited = None;
                    self.observer.forget_networks(&self.config.networks);
                }
                outcome
            }
            Err(why) => {
                for why in why.all() {
                    warn!(%why, "configuration not read again: nothing has changed");
                }
                Reloaded::Invalid(why.to_string())
            }
        }
    }

    /// Why the file cannot be read again, if so.
    fn handed_over(&self) -> Option<String> {
        let file = self.file.display();
        (!files::is_lasting(&self.file)).then(|| format!(
            "{file} was handed over at the start and is read only once: start the gateway with the name of a file to read it again"
        ))
    }

    /// Adds a peer of the tunnel or removes one, until the file is read again; the service manager is told.
    pub fn change_peers(&mut self, now: Time, change: &PeerChange) -> Reloaded {
        self.notify.reloading();
        let outcome = self.change_text(now, change);
        self.notify.ready();
        outcome
    }

    fn change_text(&mut self, now: Time, change: &PeerChange) -> Reloaded {
        if let Some(why) = self.handed_over() {
            return Reloaded::Refused(why);
        }
        let invalid = |why: Complaints| Reloaded::Invalid(why.to_string());
        let in_file = match Config::text(&self.file) {
            Ok(text) => text,
            Err(why) => return invalid(why),
        };
        let (text, before) = match self.in_force(&in_file) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let why = "the file has changed since it was read: `trackway reload` first";
                return Reloaded::Refused(why.to_owned());
            }
            Err(why) => return invalid(why),
        };
        let text = match change.apply(&text, &before) {
            Ok(text) => text,
            Err(why @ Unchanged::Unknown { .. }) => return Reloaded::Invalid(why.to_string()),
            Err(why) => return Reloaded::Refused(why.to_string()),
        };
        let after = match Config::with_text(&self.file, text.clone()) {
            Ok(config) => config,
            Err(why) => return invalid(why),
        };
        if !change.leads(&before, &after) {
            return Reloaded::Refused(Unchanged::Otherwise.to_string());
        }
        let outcome = self.take(now, after);
        if matches!(outcome, Reloaded::Changed(_)) {
            let its = Config::with_text(&self.file, in_file.clone()).ok();
            let saved = its.and_then(|its| change.apply(&in_file, &its).ok());
            self.edited = Some(Edited { text, in_file: [Some(in_file), saved] });
        }
        outcome
    }

    /// The text in force, and what it says: the file's, or the one that it was changed to since, if nobody else has
    /// written the file.
    fn in_force(&self, in_file: &str) -> Result<Option<(String, Config)>, Complaints> {
        let is_its =
            |edited: &&Edited| edited.in_file.iter().flatten().any(|text| *text == in_file);
        let edited = self.edited.as_ref().filter(is_its);
        for text in [Some(in_file), edited.map(|edited| edited.text.as_str())].into_iter().flatten()
        {
            let config = Config::with_text(&self.file, text.to_owned())?;
            let mut switched = config.clone();
            self.traffic.clone().apply(&mut switched.rules.table);
            if switched == *self.config {
                return Ok(Some((text.to_owned(), config)));
            }
        }
        Ok(None)
    }

    /// Puts a configuration in force, or leaves the old one.
    fn take(&mut self, now: Time, mut config: Config) -> Reloaded {
        self.traffic.apply(&mut config.rules.table);
        super::warn_of(&config);
        let config = Arc::new(config);
        if self.config.numbers != config.numbers {
            let why = "host: what is on the host has these numbers: start the gateway again";
            return Reloaded::Refused(why.to_owned());
        }
        if self.config.process.user != config.process.user {
            let why = "user: it is root no more that could become another: start the gateway again";
            return Reloaded::Refused(why.to_owned());
        }
        if self.config.process.status_group != config.process.status_group {
            let why = "status-group: the control socket keeps its group: start the gateway again";
            return Reloaded::Refused(why.to_owned());
        }
        // Ports that are listened at are refused when they are opened; these only when an answer would leave.
        if rights::needs_low_port(&self.config, &config) && rights::carries_low_port(&config) {
            let why = "sar.carry: the first port below 1024 takes a new start of the gateway";
            return Reloaded::Refused(why.to_owned());
        }
        let old = std::mem::replace(&mut self.config, Arc::clone(&config));
        match self.apply(now, &config, true) {
            Ok(mut changes) => {
                let Process { log, metrics, .. } = &config.process;
                if old.process.log != *log {
                    (self.set_level)(*log);
                    changes.push("log: another level".to_owned());
                }
                // Keep an open file of the same path: it might not be possible to open it again.
                let is_other =
                    |it: &mut Metrics| metrics.as_deref().is_none_or(|path| !it.is_at(path));
                if let Some(had) = self.metrics.take_if(is_other) {
                    had.end();
                }
                if self.metrics.is_none() {
                    self.metrics = metrics.as_deref().map(Metrics::new);
                }
                if old.process.metrics != *metrics {
                    self.metrics_at = Some(now);
                    changes.push("metrics: another file".to_owned());
                }
                info!(changes = %said(&changes), "configuration read again");
                Reloaded::Changed(changes)
            }
            Err(mut why) => {
                self.config = Arc::clone(&old);
                if is_forbidden(&why) && rights::needs_low_port(&old, &config) {
                    why = why.context("the first port below 1024 takes a new start of the gateway");
                }
                warn!(why = %format!("{why:#}"), "configuration cannot be followed: back to the old one");
                if let Err(why) = self.apply(now, &old, false) {
                    warn!(why = %format!("{why:#}"), "not all is as before");
                }
                Reloaded::Refused(format!("{why:#}"))
            }
        }
    }

    /// Switches traffic on or off.
    pub fn switch(&mut self, now: Time, switch: Switch) -> Switched {
        if self.config.hf_pep.is_none() && self.config.ip_client.is_none() {
            let why = "this gateway has neither [hfpep] nor [ipclient], whose traffic is switched";
            return Switched::Refused(why.to_owned());
        }
        let mut config = Config::clone(&self.config);
        let rules = &config.rules.table.rules;
        if let Some(wanted) = &switch.rule
            && rules.iter().all(|rule| rule.name != *wanted)
        {
            return Switched::Unknown(rules.iter().map(|rule| rule.name.clone()).collect());
        }
        let before = self.traffic.clone();
        self.traffic.switch(switch);
        self.traffic.apply(&mut config.rules.table);
        let config = Arc::new(config);
        match self.apply(now, &config, true) {
            Ok(changes) => {
                self.config = config;
                info!(changes = %said(&changes), "traffic switched");
                Switched::Changed(changes)
            }
            Err(why) => {
                self.traffic = before;
                let old = Arc::clone(&self.config);
                if let Err(why) = self.apply(now, &old, false) {
                    warn!(why = %format!("{why:#}"), "not all is as before");
                }
                Switched::Refused(format!("{why:#}"))
            }
        }
    }

    /// Brings all services to a configuration, and says what has changed.
    ///
    /// # Errors
    /// The first service's that cannot follow; the others follow then only if not `is_strict`.
    fn apply(
        &mut self,
        now: Time,
        config: &Arc<Config>,
        is_strict: bool,
    ) -> anyhow::Result<Vec<String>> {
        let (mut changes, mut fault) = (Vec::new(), None);
        let (mut leaving, mut anew) = (Vec::new(), Vec::new());
        for (position, slot) in self.slots.iter_mut().enumerate() {
            if !(slot.kind().is_wanted)(config) {
                if !slot.is_off() {
                    leaving.push(position);
                }
                continue;
            }
            let name = slot.kind().name;
            let Some(worker) = slot.running() else {
                if slot.is_off() {
                    anew.push((position, false));
                } else {
                    slot.retry_now(now);
                }
                continue;
            };
            match worker.ask_reload(Arc::clone(config)).wait(Instant::now()) {
                Ok(Ok(Reload::Taken(said))) => {
                    changes.extend(said.into_iter().map(|change| format!("{name}: {change}")));
                }
                Ok(Ok(Reload::Restart)) => anew.push((position, true)),
                Ok(Err(why)) => {
                    fault.get_or_insert(why.context(name));
                    if is_strict {
                        break;
                    }
                }
                // It may still take it: it is told to go back as the others are.
                Err(RecvTimeoutError::Timeout) => {
                    fault.get_or_insert(anyhow::anyhow!("{name}: it does not answer"));
                    if is_strict {
                        break;
                    }
                }
                // It has just ended, and starts again with what is in force then.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        if let Some(why) = fault.take_if(|_| is_strict) {
            return Err(why);
        }
        // All make room before the first takes it.
        for &position in leaving.iter().chain(anew.iter().map(|(position, _)| position)) {
            self.traffic.end(&mut self.slots[position]);
        }
        changes.extend(leaving.iter().map(|&at| format!("{}: ended", self.slots[at].kind().name)));
        for (position, is_restart) in anew {
            let name = self.slots[position].kind().name;
            match self.start_and_wait(position, config, is_restart) {
                Ok(()) if is_restart => changes.push(format!("{name}: started anew")),
                Ok(()) => changes.push(format!("{name}: started")),
                Err(why) => {
                    fault.get_or_insert(why.context(name));
                    if is_strict {
                        break;
                    }
                }
            }
        }
        // If the reload is refused, the removed services start again: until then their routes that refuse packets stay.
        if fault.is_none() || !is_strict {
            leaving.iter().for_each(|&position| self.slots[position].clean_up());
        }
        match fault {
            Some(why) => Err(why),
            None => Ok(changes),
        }
    }
}

fn is_forbidden(why: &anyhow::Error) -> bool {
    let error = why.root_cause().downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
}
