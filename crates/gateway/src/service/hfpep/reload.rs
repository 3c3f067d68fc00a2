//! Takes another configuration: steps that the kernel may refuse come first, and existing connections go on.
//!
//! ```text
//!   ports, bearer, certificates ─▶ rules in the kernel ─▶ all the rest, which cannot fail
//!        │ refused                      │ refused
//!        ▼                              ▼
//!     nothing has changed
//! ```

use anyhow::Context as _;
use base::time::Time;
use hf::hfpep::SessionId;
use hf::s5066::Address;
use hf::slep::Reason;

use super::Pep;
use super::admission::Admission;
use super::companions::Companions;
use crate::bearer::Dial;
use crate::config::hfpep::{Listener, Peer, Transport};
use crate::config::{Config, HfPep};
use crate::service::{Reload, wall_clock};

impl Pep {
    /// # Errors
    /// When a part of the configuration cannot be had: nothing has changed.
    pub fn follow(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        let new = config.hf_pep.clone().context("no section [hfpep]")?;
        let key = new.core(wall_clock())?.slep.group.map(|group| group.key);
        if new.group != self.config.group || key != self.key {
            // The data of open streams was cut for the old seals, and strangers may have opened these streams.
            return Ok(Reload::Restart);
        }
        let rules = &config.rules.table;
        let loaded = self.targets.termination.load(&config.tls)?;
        if new == self.config && self.rules.config() == rules {
            self.targets.termination.follow(&config.tls, loaded, new.tls.as_deref());
            // Who may use a target stands in the profile.
            self.targets.admit_by(Admission::new(&new, &config.tls));
            return Ok(Reload::Taken(Vec::new()));
        }
        let ports = self.udp.open_ports(&new)?;
        let bearer = self.fast.prepare(&new)?;
        // The last connections of removed rules and ports are judged by the rules in force when they came.
        for arrived in self.entry.follow(&new, rules)? {
            self.take_client(now, arrived);
        }
        let ruled = match self.rules.replace(rules) {
            Ok(changes) => changes,
            Err(why) => {
                self.entry.follow(&self.config, self.rules.config())?;
                return Err(why);
            }
        };
        let mut changes = changes(&self.config, &new);
        changes.extend(ruled);
        self.udp.follow(&new, ports);
        self.fast.follow(now, &new, bearer);
        self.targets.termination.follow(&config.tls, loaded, new.tls.as_deref());
        self.targets.admit_by(Admission::new(&new, &config.tls));
        let before = std::mem::replace(&mut self.config, new);
        self.follow_parameters(now, &before);
        self.follow_rules(now, rules);
        Ok(Reload::Taken(changes))
    }

    /// Follows other parameters of streams, and another server: streams survive both.
    fn follow_parameters(&mut self, now: Time, before: &HfPep) {
        let rebinds = self.config.parameters != before.parameters
            && self.pep.set_config(now, self.config.parameters.clone());
        if !rebinds && self.config.server == before.server {
            return;
        }
        self.pep.handle_disconnected(now);
        self.dial = self.config.server.map(|server| Dial::new(now, server));
        // The file that survives a crash names the nodes of the existing streams; each server has a file of its own.
        self.companions = Companions::open(&self.config).map(|(mut companions, _)| {
            companions.begin(self.pep.slep().epoch());
            companions
        });
        let nodes: Vec<Address> = self.pep.slep().companions().map(|(node, _)| node).collect();
        if let Some(companions) = &mut self.companions {
            nodes.into_iter().for_each(|node| companions.add(now, node));
        }
        if self.dial.is_none() {
            // Nothing goes over HF any more, and nobody there could be told.
            let all = self.connections.iter().map(|(session, _)| session);
            for session in all.collect::<Vec<SessionId>>() {
                self.give_up(session, Reason::STOPPED);
            }
        }
    }
}

/// What has changed, a line each.
fn changes(before: &HfPep, after: &HfPep) -> Vec<String> {
    let mut changes = Vec::new();
    let name = |peer: &Peer| (format!("peer {}", peer.to), peer.far.to_string());
    let peers = |config: &HfPep| config.peers.iter().map(name).collect::<Vec<_>>();
    tell(&mut changes, &peers(before), &peers(after));
    let name = |it: &Listener| {
        let (is_udp, behind) = (it.transport != Transport::Tcp, format!("{it:?}"));
        (format!("port {}{}", it.at, if is_udp { " (UDP)" } else { "" }), behind)
    };
    let ports = |config: &HfPep| config.listeners.iter().map(name).collect::<Vec<_>>();
    tell(&mut changes, &ports(before), &ports(after));
    for (is_same, what) in [
        (before.server == after.server, "another server"),
        (before.mode == after.mode, "another mode"),
        (before.interfaces == after.interfaces, "other interfaces"),
        (before.handshake == after.handshake, "another handshake"),
        (before.confirm_close == after.confirm_close, "another confirm-close"),
        (before.allowed == after.allowed, "allow: changed"),
        (before.tls == after.tls, "another TLS profile for targets"),
        (before.bearer == after.bearer, "bearer: changed"),
        (before.parameters == after.parameters, "other parameters"),
    ] {
        if !is_same {
            changes.push(what.to_owned());
        }
    }
    changes
}

/// Appends to `changes` the entries that were added, removed or changed.
fn tell(changes: &mut Vec<String>, before: &[(String, String)], after: &[(String, String)]) {
    let find = |all: &[(String, String)], name: &String| {
        all.iter().find(|(its, _)| its == name).map(|(_, what)| what.clone())
    };
    for (name, what) in after {
        match find(before, name) {
            None => changes.push(format!("{name} added")),
            Some(old) if old != *what => changes.push(format!("{name}: changed")),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(name, _)| find(after, name).is_none());
    changes.extend(gone.map(|(name, _)| format!("{name} left")));
}
