//! Terminates TLS: keeps the profiles, and counts the outcomes of their sessions.

use std::net::SocketAddr;

use anyhow::Context as _;
use base::time::Time;
use hf::hfpep::{Target, Tls};
use hf::slep::Reason;
use tracing::warn;

use super::wire::Parties;
use crate::service::complaints::{Complaints, Subject};
use crate::tls::{Destination, Failure, Profile, Profiles, Session, Stats};

/// The profiles at work.
pub struct Termination {
    /// The profiles as configured.
    said: Vec<Profile>,
    profiles: Profiles,
    /// The profile for targets, if there is one.
    client: Option<String>,
    stats: Stats,
    complaints: Complaints,
}

impl Termination {
    /// # Errors
    /// When a file cannot be used.
    pub fn new(said: &[Profile], client: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self {
            said: said.to_vec(),
            profiles: Profiles::load(said).context("[[tls]]")?,
            client: client.map(str::to_owned),
            stats: Stats::default(),
            complaints: Complaints::default(),
        })
    }

    /// Reads all files anew. If a file cannot be used and the profiles have not changed, the old ones stay: `None`.
    ///
    /// # Errors
    /// When a file of a changed profile cannot be used.
    pub fn load(&self, said: &[Profile]) -> anyhow::Result<Option<Profiles>> {
        match Profiles::load(said) {
            Ok(profiles) => Ok(Some(profiles)),
            Err(why) if self.said == said => {
                warn!(%why, "certificates not read anew: those that there are stay");
                Ok(None)
            }
            Err(why) => Err(why).context("[[tls]]"),
        }
    }

    /// Uses the [loaded](Self::load) profiles for sessions that begin from now on; `client` is the profile for targets.
    pub fn follow(&mut self, said: &[Profile], loaded: Option<Profiles>, client: Option<&str>) {
        self.said = said.to_vec();
        self.profiles = loaded.unwrap_or_else(|| std::mem::take(&mut self.profiles));
        self.client = client.map(str::to_owned);
    }

    /// The session with a client that has just connected; `None` for an unknown profile.
    pub fn accept(&mut self, profile: &str) -> Option<Session> {
        let session = Session::accept(self.profiles.server(profile)?);
        self.stats.begun += 1;
        Some(session)
    }

    /// Where a target is, and the session with it.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn connect(
        &mut self,
        now: Time,
        target: &Target,
        tls: &Tls,
    ) -> Result<(SocketAddr, Session, Parties), Reason> {
        let client = self.client.as_ref().and_then(|name| self.profiles.client(name));
        let client = client.ok_or(Reason::NO_SERVICE)?;
        let alpn = tls.alpn.as_deref();
        let made = match target {
            Target::Address { destination, .. } => client
                .connect(tls.sni.as_deref(), destination.ip(), alpn)
                .map(|session| (*destination, session)),
            Target::AuthId(id) => client.target(id).and_then(|target| {
                let Destination::Address(to) = *target.destination() else {
                    return Err(Failure::UnknownAuthId);
                };
                target.connect(alpn).map(|session| (to, session))
            }),
        };
        self.stats.begun += 1;
        let client = match target {
            Target::Address { source, .. } => Some(*source),
            Target::AuthId(_) => None,
        };
        let its = |target| Parties { client, target };
        made.map(|(to, session)| (to, session, its(Some(to)))).map_err(|failure| {
            let to = match target {
                Target::Address { destination, .. } => Some(*destination),
                Target::AuthId(_) => None,
            };
            self.fail(now, failure, its(to))
        })
    }

    /// A handshake is complete.
    pub fn establish(&mut self) {
        self.stats.established += 1;
    }

    /// Counts and logs a failure, and returns the reason for the far end.
    pub fn fail(&mut self, now: Time, failure: Failure, parties: Parties) -> Reason {
        self.stats.count(failure);
        if let Some(left_out) = self.complaints.admit(now, Subject::TlsFailed) {
            warn!(left_out, "TLS: {failure} ({parties})");
        }
        reason_of(failure)
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

fn reason_of(failure: Failure) -> Reason {
    match failure {
        Failure::Cut => Reason::CONNECTION_RESET,
        Failure::BadCertificate
        | Failure::Expired
        | Failure::NotYetValid
        | Failure::UnknownCa
        | Failure::WrongName
        | Failure::WrongUse => Reason::NOT_TRUSTED,
        Failure::AlpnMismatch
        | Failure::AlpnRefused
        | Failure::EndedEarly
        | Failure::InvalidName
        | Failure::NoClientCertificate
        | Failure::NotTls
        | Failure::Oversized
        | Failure::PeerRefused(_)
        | Failure::TimedOut
        | Failure::UnknownAuthId
        | Failure::UnknownName
        | Failure::UnmatchedClient
        | Failure::Unsupported
        | Failure::Violation => Reason::TLS_FAILED,
    }
}
