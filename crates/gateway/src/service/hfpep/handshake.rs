//! Clients that are answered when the far end has accepted for the target.

use base::time::Time;
use hf::hfpep::{Opening, Target};
use hf::slep::Reason;
use rules::{Config, Handshake, Verdict};
use tracing::{debug, warn};

use super::Pep;
use super::clients::Carriage;
use super::connection::Connection;
use super::entry::{Arrived, Come, Origin};
use super::held::{Asked, Next};
use super::wire::Wire;
use crate::config::hfpep::Far;
use crate::linux::divert::Syn;
use crate::service::complaints::Subject;

impl Pep {
    /// Takes what has come in: connections, and SYNs that are held.
    pub fn take(&mut self, now: Time, come: Come) {
        self.held.drop_syns(come.syns_dropped);
        // SYNs before connections: the client of a repeated SYN is still held.
        for (rule, syn) in come.syns {
            match self.held.hear(now, &syn) {
                Next::Ask(before) => {
                    before.into_iter().for_each(|it| self.withdraw(now, it, Reason::CANCELLED));
                    self.ask(now, rule, syn);
                }
                Next::Deny(denial) => self.entry.deny(&syn, denial),
                Next::LetIn => _ = self.entry.let_in(&syn),
                Next::Nothing => {}
            }
        }
        for arrived in come.arrived {
            match arrived.origin {
                Origin::LetIn => self.take_let_in(now, arrived),
                Origin::Diverted(_) | Origin::Made(..) => self.take_client(now, arrived),
            }
        }
    }

    /// Asks the far end whether a target accepts.
    fn ask(&mut self, now: Time, rule: Option<String>, syn: Syn) {
        let origin = Origin::Diverted(rule.clone());
        let decided = self.decide(now, &origin, syn.client, syn.target);
        let Some((Carriage { options, confirms_close, .. }, far)) =
            decided.zip(self.entry.far_of(syn.target))
        else {
            // The rules have changed meanwhile: what is repeated meets the others.
            return self.held.drop_syns(1);
        };
        let target = Target::Address { source: syn.client, destination: syn.target };
        let opening = Opening { target, tls: None };
        let asked = match far {
            Far::Node(node) => {
                self.accompany(now, node);
                self.pep.open_confirmed(now, node, opening, options).map(Asked::Session).ok()
            }
            Far::Gateway(gateway) => {
                let client = syn.client.ip();
                let targets = &mut self.targets;
                let asked = self.fast.ask(now, gateway, client, opening, confirms_close, targets);
                asked.map(Asked::Link)
            }
        };
        match asked {
            Some(asked) => self.held.add(now, rule, syn, asked),
            None => {
                debug!("SYN dropped: too many connections");
                self.held.drop_syns(1);
            }
        }
    }

    /// Follows what other gateways have answered.
    pub fn follow_links(&mut self, now: Time) {
        for (link, outcome) in self.fast.take_outcomes() {
            match outcome {
                Ok(()) => self.confirm(now, Asked::Link(link)),
                Err(reason) => self.deny(now, Asked::Link(link), reason),
            }
        }
    }

    /// The far end has a target for a client, which is let in.
    pub fn confirm(&mut self, now: Time, asked: Asked) {
        let Some(syn) = self.held.accept(now, asked) else { return };
        if !self.entry.let_in(&syn) {
            self.held.withdraw(syn.client, syn.target);
            self.withdraw(now, asked, Reason::CANCELLED);
        }
    }

    /// Tells a client that there is no target.
    pub fn deny(&mut self, now: Time, asked: Asked, reason: Reason) {
        let Some((syn, denial)) = self.held.refuse(now, asked, reason) else { return };
        debug!(%reason, "SYN refused");
        if reason == Reason::NO_SERVICE
            && let Some(left_out) = self.complaints.admit(now, Subject::HandshakeUnknown)
        {
            warn!(
                left_out,
                "the far gateway knows of no handshake = \"end-to-end\", and its targets cannot be \
                 reached so: update it, or set handshake = \"local\" here"
            );
        }
        self.entry.deny(&syn, denial);
    }

    /// Goes on with a client that was let in.
    fn take_let_in(&mut self, now: Time, arrived: Arrived) {
        let wire = Wire::to_program(arrived.stream, None);
        let session = match self.held.take(arrived.client, arrived.target) {
            Some(Asked::Session(session)) => session,
            Some(Asked::Link(link)) => {
                return match self.fast.join(now, link, wire, &mut self.targets) {
                    Ok(()) => self.counters.connections_accepted += 1,
                    Err(wire) => self.refuse(wire),
                };
            }
            // The far end has broken it off meanwhile.
            None => return self.refuse(wire),
        };
        self.counters.connections_accepted += 1;
        let mut connection = Connection::accepted(wire);
        connection.confirms_close = true;
        if let Err(connection) = self.connections.add(session, connection) {
            connection.abort();
            return self.pep.reset(session, Reason::NO_ROOM);
        }
        self.read(now, session);
        // The target may have spoken first.
        self.write(now, session);
    }

    /// Gives up a request to the far end.
    pub fn withdraw(&mut self, now: Time, asked: Asked, reason: Reason) {
        match asked {
            Asked::Link(link) => self.fast.withdraw(now, link),
            Asked::Session(session) => self.pep.reset(session, reason),
        }
    }

    /// Gives up waiting clients whose rule holds no clients any more.
    pub fn follow_rules(&mut self, now: Time, rules: &Config) {
        let otherwise = self.config.handshake;
        let gone = self.held.follow(|rule| {
            let position = rule.and_then(|name| rules.rules.iter().position(|it| it.name == name));
            let is_there = position.is_some() == rule.is_some();
            is_there
                && match rules.decision(position, true).verdict {
                    Verdict::Block { .. } => false,
                    Verdict::Pass { options, .. } => {
                        options.handshake(otherwise) == Handshake::EndToEnd
                    }
                }
        });
        for asked in gone {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
    }
}
