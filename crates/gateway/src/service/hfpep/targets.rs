//! Connections that other ends ask for.

use std::net::SocketAddr;

use base::counter::Counters as Counted;
use base::time::Time;
use hf::hfpep::{Opening, Target};
use hf::slep::Reason;
use tracing::{debug, warn};

use super::admission::Admission;
use super::connection::{Stage, reason_of};
use super::termination::Termination;
use super::wire::{Parties, Wire};
use crate::ends::End;
use crate::linux::tcp::start_connecting_to_target;
use crate::service::complaints::{Complaints, Subject};
use crate::tls::Failure;

/// Connects to targets, and counts the outcomes.
pub struct Targets {
    admission: Admission,
    complaints: Complaints,
    termination: Termination,
    counters: Counters,
}

base::counters! {
    /// Counters of connections to targets.
    #[derive(Default)]
    pub(crate) struct Counters {
        /// Connections made to targets.
        connections_made: counter(connections);
        /// Targets that could not be connected to.
        targets_failed: counter(connections);
        /// Connections that others ask for, to targets unknown to this gateway.
        targets_unknown: counter(connections);
        /// Connections, and flows of UDP, that others ask for and must not have.
        targets_forbidden: counter(connections);
    }
}

impl Targets {
    pub fn new(admission: Admission, termination: Termination) -> Self {
        let complaints = Complaints::default();
        Self { admission, complaints, termination, counters: Counters::default() }
    }

    /// TLS with programs here.
    pub fn termination(&mut self) -> &mut Termination {
        &mut self.termination
    }

    /// The counters of TLS with programs here.
    pub fn tls_stats(&self) -> &impl Counted {
        self.termination.stats()
    }

    /// Replaces the rules of admission for connections that begin from now on.
    pub fn admit_by(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Begins to connect to a target that a node asks for, or another gateway.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn start(&mut self, now: Time, end: End, opening: &Opening) -> Result<Wire, Reason> {
        self.begin(now, end, opening).inspect_err(|reason| {
            debug!(%reason, target = %opening.target, "no connection to the target");
            self.counters.targets_unknown += u64::from(*reason == Reason::NO_SERVICE);
        })
    }

    fn begin(&mut self, now: Time, end: End, opening: &Opening) -> Result<Wire, Reason> {
        let source = self.admit(now, end, &opening.target)?;
        let (to, session) = match (&opening.target, &opening.tls) {
            (target, Some(tls)) => {
                let (to, session, parties) = self.termination.connect(now, target, tls)?;
                (to, Some((session, parties)))
            }
            (Target::Address { destination, .. }, None) => (*destination, None),
            (Target::AuthId(_), None) => return Err(Reason::NO_SERVICE),
        };
        let stream = start_connecting_to_target(source, to).map_err(|error| {
            self.fail();
            reason_of(&error)
        })?;
        Ok(Wire::to_program(stream, session))
    }

    /// Checks whether another end may have a target, and returns the source address of the connection.
    ///
    /// # Errors
    /// The reason for the other end.
    pub fn admit(
        &mut self,
        now: Time,
        end: End,
        target: &Target,
    ) -> Result<Option<SocketAddr>, Reason> {
        self.admission.check(end, target).map_err(|why| {
            self.counters.targets_forbidden += 1;
            if let Some(left_out) = self.complaints.admit(now, Subject::TargetForbidden) {
                warn!(left_out, "connection for another end not made: {why}");
            }
            Reason::BLOCKED
        })
    }

    /// A target has taken the connection.
    pub fn establish(&mut self) {
        self.counters.connections_made += 1;
    }

    /// A target has not.
    pub fn fail(&mut self) {
        self.counters.targets_failed += 1;
    }

    /// Counts a target that has not answered in time at its stage; returns the reason for the far end.
    pub fn handle_silence(&mut self, now: Time, (stage, parties): (Stage, Parties)) -> Reason {
        match stage {
            Stage::Greeting(_) => self.termination.fail(now, Failure::TimedOut, parties),
            Stage::Connecting(_) | Stage::Open => {
                self.fail();
                Reason::TARGET_TIMED_OUT
            }
        }
    }

    pub fn counters(&self) -> &impl Counted {
        &self.counters
    }
}
