//! Decides whether and how the connection of a new client is carried.

use std::net::SocketAddr;

use base::time::Time;
use hf::hfpep::{Opening, Target, Tls};
use hf::slep::{Options, Reason};
use rules::{Service, Verdict};
use tracing::debug;

use super::Pep;
use super::connection::Connection;
use super::entry::{Arrived, Origin};
use super::handshakes::{Call, Greeted};
use super::wire::{Parties, Wire};
use crate::config::hfpep::Far;

/// How the rules want a connection to be carried.
pub struct Carriage {
    pub(super) options: Options,
    /// The profile by which TLS ends here.
    tls: Option<String>,
    /// Whether the client is told the end only when the target has all that it said.
    pub(super) confirms_close: bool,
}

impl Pep {
    /// Takes a connection that a client has made.
    pub fn take_client(&mut self, now: Time, arrived: Arrived) {
        let Arrived { stream, client, far, target, origin } = arrived;
        // Its SYN was held, and came again when another rule was in force.
        if let Some(asked) = self.held.withdraw(client, target) {
            self.withdraw(now, asked, Reason::CANCELLED);
        }
        let decided = self.decide(now, &origin, client, target).zip(far);
        let Some((Carriage { options, tls, confirms_close }, far)) = decided else {
            return self.refuse(Wire::new(stream, None));
        };
        let call = Call { far, client, target, options, confirms_close };
        let Some(profile) = tls else {
            let target = Target::Address { source: client, destination: target };
            return self.open(
                now,
                Wire::to_program(stream, None),
                &call,
                Opening { target, tls: None },
            );
        };
        let parties = Parties { client: Some(client), target: Some(target) };
        let session = self.targets.termination.accept(&profile).map(|it| (it, parties));
        let has_session = session.is_some();
        let wire = Wire::to_program(stream, session);
        if !has_session {
            return self.refuse(wire);
        }
        if let Err(wire) = self.handshakes.add(now, wire, call) {
            self.refuse(wire);
        }
    }

    /// Goes on with a client whose handshake is complete.
    pub fn take_greeted(&mut self, now: Time, greeted: Greeted) {
        let Greeted { wire, call, terms } = greeted;
        self.targets.termination.establish();
        let (target, sni) = match terms.auth_id {
            Some(id) => (Target::AuthId(id.as_str().to_owned()), None),
            None => {
                let target = Target::Address { source: call.client, destination: call.target };
                (target, terms.sni)
            }
        };
        let tls = Some(Tls { sni, alpn: terms.alpn });
        self.open(now, wire, &call, Opening { target, tls });
    }

    fn open(&mut self, now: Time, wire: Wire, call: &Call, opening: Opening) {
        let node = match call.far {
            Far::Node(node) => node,
            Far::Gateway(gateway) => {
                let confirms = call.confirms_close;
                return match self.fast.carry(
                    now,
                    gateway,
                    (wire, call.client.ip()),
                    opening,
                    confirms,
                    &mut self.targets,
                ) {
                    Ok(()) => self.counters.connections_accepted += 1,
                    Err(wire) => self.refuse(wire),
                };
            }
        };
        let Ok(session) = self.pep.open(now, node, opening, call.options) else {
            return self.refuse(wire);
        };
        self.accompany(now, node);
        self.counters.connections_accepted += 1;
        let mut connection = Connection::accepted(wire);
        connection.confirms_close = call.confirms_close;
        if let Err(connection) = self.connections.add(session, connection) {
            connection.abort();
            return self.pep.reset(session, Reason::NO_ROOM);
        }
        // What came with the end of a handshake goes with the opening.
        self.read(now, session);
        self.connections.watch(session);
    }

    pub fn refuse(&mut self, wire: Wire) {
        debug!("connection refused: a rule, no peer, or too many");
        self.counters.connections_refused += 1;
        wire.abort();
    }

    /// How the rules want a connection to be carried; `None` if it is not carried.
    pub fn decide(
        &mut self,
        now: Time,
        origin: &Origin,
        client: SocketAddr,
        target: SocketAddr,
    ) -> Option<Carriage> {
        let decision = match origin {
            Origin::Diverted(rule) => self.rules.decide_by(now, rule.as_deref(), client, target),
            Origin::LetIn | Origin::Made(..) => self.rules.decide(now, client, target),
        };
        match decision.verdict {
            Verdict::Pass { service: Service::HfPep, options } => {
                let ttl = options.ttl.filter(|ttl| !ttl.is_zero());
                let own = Options {
                    priority: options.priority.unwrap_or(Options::default().priority),
                    ttl,
                    is_compressed: options.compression.unwrap_or(true),
                    source: client.ip().to_canonical().into(),
                };
                Some(Carriage {
                    options: own,
                    tls: options.tls.clone(),
                    confirms_close: options.confirm_close.unwrap_or(self.config.confirm_close),
                })
            }
            Verdict::Pass { service: Service::IpClient, .. } | Verdict::Block { .. } => None,
        }
    }
}
