//! Connections that are asked for: with their client, or before it is answered, which it is when the far
//! end has accepted.

use std::net::{IpAddr, SocketAddr};

use base::time::Time;
use hf::hfpep::{Answer, Opening};
use hf::slep::Reason;
use nix::sys::epoll::EpollFlags;

use super::Fast;
use super::answer::read_answer;
use super::link::{Link, LinkId, Ready, Stage, Step};
use super::pool::Pool;
use crate::service::hfpep::connection::Connection;
use crate::service::hfpep::targets::Targets;
use crate::service::hfpep::wire::Wire;

impl Fast {
    /// Carries a client's connection to a gateway.
    ///
    /// # Errors
    /// When it cannot be; the client is given back.
    pub fn carry(
        &mut self,
        now: Time,
        gateway: SocketAddr,
        (client, address): (Wire, IpAddr),
        opening: Opening,
        confirms_close: bool,
        targets: &mut Targets,
    ) -> Result<(), Wire> {
        let Some(id) = self.find(now, gateway, address) else { return Err(client) };
        let Some(link) = self.links.get_mut(&id) else { return Err(client) };
        if self.epoll.add(&client, id.watch(false)).is_err() {
            self.drop_link(now, id);
            return Err(client);
        }
        link.ask(now, address, Connection::accepted(client), opening, self.magic, confirms_close);
        self.begin(id);
        self.advance(now, id, Ready { bearer: EpollFlags::empty(), ..Ready::ALL }, targets);
        Ok(())
    }

    /// Asks a gateway for a connection; [`Self::take_outcomes`] returns the outcome. `None` if there are too many.
    pub fn ask(
        &mut self,
        now: Time,
        gateway: SocketAddr,
        client: IpAddr,
        opening: Opening,
        confirms_close: bool,
        targets: &mut Targets,
    ) -> Option<LinkId> {
        let id = self.find(now, gateway, client)?;
        self.links.get_mut(&id)?.hold(now, client, opening, self.magic, confirms_close);
        self.begin(id);
        let none = EpollFlags::empty();
        self.advance(now, id, Ready { bearer: none, local: none }, targets);
        Some(id)
    }

    /// Takes the outcomes of requested connections.
    pub fn take_outcomes(&mut self) -> Vec<(LinkId, Result<(), Reason>)> {
        std::mem::take(&mut self.outcomes)
    }

    /// The client of an accepted connection has come.
    ///
    /// # Errors
    /// When the connection is no more; the client is given back.
    pub fn join(
        &mut self,
        now: Time,
        id: LinkId,
        client: Wire,
        targets: &mut Targets,
    ) -> Result<(), Wire> {
        let Some(link) = self.links.get_mut(&id) else { return Err(client) };
        if self.epoll.add(&client, id.watch(false)).is_err() {
            self.withdraw(now, id);
            return Err(client);
        }
        link.join(client);
        // Epoll does not report earlier events again.
        self.advance(now, id, Ready::ALL, targets);
        Ok(())
    }

    /// Finds a connection to a gateway for a client, if the client may have one.
    fn find(&mut self, now: Time, gateway: SocketAddr, client: IpAddr) -> Option<LinkId> {
        if !self.has_place(client) {
            return None;
        }
        let spare = self.pools.get_mut(&gateway).and_then(Pool::take);
        spare.or_else(|| self.dial(now, gateway))
    }

    /// A spare connection has found its use.
    fn begin(&mut self, id: LinkId) {
        let Some(link) = self.links.get(&id) else { return };
        self.stats.opened_on_spare += u64::from(!link.is_dialling());
        self.stats.sessions_opened += 1;
        self.stats.spare -= 1;
        self.stats.sessions += 1;
        self.sockets.begin(&link.bearer);
        if let Some(client) = link.client() {
            self.clients.add(client);
        }
    }

    /// Gives up a connection that was asked for.
    pub fn withdraw(&mut self, now: Time, id: LinkId) {
        if let Some(link) = self.remove(now, id) {
            self.stats.sessions_reset += 1;
            link.abort();
        }
    }
}

impl Link {
    /// The client has come.
    fn join(&mut self, client: Wire) {
        self.stage = Stage::Open { local: Connection::accepted(client) };
    }

    /// Reads the answer; what follows waits for the client.
    pub fn await_answer(&mut self, magic: u8) -> Step {
        // Without an answer the other gateway knows nothing of the connection any more.
        if self.bearer.flush().is_err() || self.is_bearer_broken {
            return Step::Broken(Reason::RESTARTED);
        }
        let Stage::Held { answer, until } = &mut self.stage else { return Step::Wait };
        if until.is_none() {
            return Step::Wait;
        }
        match read_answer(&mut self.bearer, answer, magic) {
            None => Step::Wait,
            Some(Err(Reason::CONNECTION_RESET)) => Step::Broken(Reason::RESTARTED),
            Some(Err(reason)) => Step::Broken(reason),
            Some(Ok(Answer::Refused(reason))) => Step::Refused(reason),
            Some(Ok(Answer::Accepted)) => {
                *until = None;
                Step::Agreed
            }
        }
    }
}
