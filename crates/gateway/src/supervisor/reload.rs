//! Another configuration: checked as a whole, then put in force as a whole or not at all.
//!
//! ```text
//!   file ─▶ checked ─▶ services leave ─▶ those that stay take it ─▶ others start (anew)
//!              │                                │ refused                 │ failed
//!              ▼                                ▼                         ▼
//!       nothing changed ◀──────────────── the old configuration, in the same way
//! ```

use std::sync::Arc;
use std::time::Instant;

use proto::time::Time;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::Supervisor;
use super::metrics::Metrics;
use super::traffic::{Switch, Switched};
use crate::config::{Config, Process};
use crate::service::Reload;

/// What came of reading the configuration again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reloaded {
    /// It is in force, and this has changed.
    Changed(Vec<String>),
    /// It is wrong: file, line and what is allowed. Nothing has changed.
    Invalid(String),
    /// A service cannot follow it. Nothing has changed.
    Refused(String),
}

impl Supervisor {
    /// Reads the configuration again, and puts it in force.
    pub(super) fn reload(&mut self, now: Time) -> Reloaded {
        let config = match Config::read(&self.file) {
            Ok(mut config) => {
                self.traffic.apply(&mut config.rules.table);
                super::warn_of(&config);
                Arc::new(config)
            }
            Err(why) => {
                warn!(%why, "configuration not read again: nothing has changed");
                return Reloaded::Invalid(why.to_string());
            }
        };
        if self.config.process.user != config.process.user {
            let why = "user: it is root no more that could become another: start the gateway again";
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
                let had = self.metrics.take();
                // One that stays is open, which may not be possible again.
                self.metrics = metrics.as_deref().map(|path| {
                    had.filter(|it| it.is_at(path)).unwrap_or_else(|| Metrics::new(path))
                });
                if old.process.metrics != *metrics {
                    self.metrics_at = Some(now);
                    changes.push("metrics: another file".to_owned());
                }
                info!(?changes, "configuration read again");
                Reloaded::Changed(changes)
            }
            Err(why) => {
                self.config = Arc::clone(&old);
                warn!(why = %format!("{why:#}"), "configuration cannot be followed: back to the old one");
                if let Err(why) = self.apply(now, &old, false) {
                    warn!(why = %format!("{why:#}"), "not all is as before");
                }
                Reloaded::Refused(format!("{why:#}"))
            }
        }
    }

    /// Switches traffic on or off.
    pub(super) fn switch(&mut self, now: Time, switch: Switch) -> Switched {
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
                info!(?changes, "traffic switched");
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
        let mut changes = Vec::new();
        let mut fault = None;
        for slot in &mut self.slots {
            if !slot.is_off() && !(slot.kind.is_wanted)(config) {
                self.traffic.end(slot);
                changes.push(format!("{}: ended", slot.kind.name));
            }
        }

        let mut anew = Vec::new();
        for (position, slot) in self.slots.iter_mut().enumerate() {
            if !(slot.kind.is_wanted)(config) {
                continue;
            }
            let name = slot.kind.name;
            let Some(worker) = slot.running() else {
                if slot.is_off() {
                    anew.push((position, false));
                } else {
                    slot.retry_now(now);
                }
                continue;
            };
            match worker.ask_reload(Arc::clone(config)).wait(Instant::now()) {
                Some(Ok(Reload::Taken(said))) => {
                    changes.extend(said.into_iter().map(|change| format!("{name}: {change}")));
                }
                Some(Ok(Reload::Restart)) => anew.push((position, true)),
                Some(Err(why)) => {
                    fault.get_or_insert(why.context(name));
                    if is_strict {
                        break;
                    }
                }
                // It has just ended, and starts again with what is in force then.
                None => {}
            }
        }
        if fault.is_none() || !is_strict {
            // All make room before the first takes it.
            for &(position, _) in &anew {
                self.traffic.end(&mut self.slots[position]);
            }
            for (position, is_restart) in anew {
                let name = self.slots[position].kind.name;
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
        }
        match fault {
            Some(why) => Err(why),
            None => Ok(changes),
        }
    }
}
