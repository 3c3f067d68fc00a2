//! Handles the requests of programs and tells programs the outcomes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::time::Time;
use sar::{Message, Options, Ports, Precedence};

use super::api::{self, Answer, LONGEST_NAME, Request};
use super::clients::ClientId;
use super::store::{Accepted, Record, Ticket};
use super::{After, RECORD, Sar, milliseconds, wall_clock};

base::counters! {
    /// What is counted of requests.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct Counters {
        /// Messages accepted: they are stored.
        pub(super) requests_accepted: counter(messages);
        /// Messages that had been accepted by the same name.
        requests_again: counter(messages);
        /// Messages refused: for what they are, or because too many wait.
        requests_refused: counter(messages);
        /// Messages refused: no room in the store.
        requests_no_room: counter(messages);
        /// Messages given up by their programs.
        requests_cancelled: counter(messages);
        /// Messages that programs have taken.
        requests_taken: counter(messages);
        /// Messages that programs wanted to take and did not have.
        requests_not_held: counter(messages);
    }
}

/// The most urgent.
const HIGHEST_PRECEDENCE: u8 = 5;
/// The longest lifetime, in seconds: a year.
const LONGEST_LIFETIME: f64 = 366.0 * 86_400.0;

impl Sar {
    /// Does what a program asks.
    pub(super) fn ask(&mut self, now: Time, client: ClientId, request: Request, octets: Vec<u8>) {
        match request {
            Request::Cancel { id } => self.cancel(now, client, id),
            Request::Outcome { id, name } => self.tell_outcome(client, id, name),
            Request::Receive { port } => {
                self.inbox.want(client, port);
                self.has_news = true;
            }
            Request::Send(send) => {
                let tag = send.tag;
                if let Err(why) = self.accept(now, client, send, octets) {
                    self.clients.tell(client, &Answer::Refused { tag, why }, &[]);
                }
            }
            Request::Taken { number } => {
                if self.inbox.take(client, number) {
                    self.counters.requests_taken += 1;
                    self.store.push(&Record::Taken(number));
                } else {
                    self.counters.requests_not_held += 1;
                }
                self.has_news = true;
            }
        }
    }

    /// Takes a message; its program is told once the message is stored.
    fn accept(
        &mut self,
        now: Time,
        client: ClientId,
        send: api::Send,
        octets: Vec<u8>,
    ) -> Result<(), String> {
        let refused = |sar: &mut Self, why: String| {
            sar.counters.requests_refused += 1;
            Err(why)
        };
        let api::Send { name, tag, .. } = &send;
        if name.len() > LONGEST_NAME {
            let have = name.len();
            return refused(self, format!("a name of {have} octets: {LONGEST_NAME} are allowed"));
        }
        if let Some(id) = self.outbox.find(name) {
            self.counters.requests_again += 1;
            let answer = Answer::Accepted { id, tag: *tag, again: true };
            let ticket = self.store.latest();
            self.after.push_back((ticket, After::Answer(client, answer)));
            for notice in self.outbox.notices(id) {
                let outcome = api::said(notice.outcome);
                let answer = Answer::Outcome { id, to: notice.to, outcome, left: notice.left };
                self.after.push_back((ticket, After::Answer(client, answer)));
            }
            self.outbox.watch(id, client);
            return Ok(());
        }
        if send.precedence > HIGHEST_PRECEDENCE {
            let have = send.precedence;
            return refused(
                self,
                format!("precedence {have}: 0 to {HIGHEST_PRECEDENCE} are allowed"),
            );
        }
        if send.lifetime.is_some_and(|it| !(0.0..=LONGEST_LIFETIME).contains(&it)) {
            return refused(self, "lifetime: seconds, up to a year, are needed".to_owned());
        }
        let room = self.store.room();
        if room < octets.len() as u64 + RECORD {
            self.counters.requests_no_room += 1;
            return Err(format!(
                "no room in the store {}: {room} octets are left; make room on the disk, raise store-octets, or \
                 let programs take what has come",
                self.config.store.display()
            ));
        }
        let tag = send.tag;
        match self.submit(now, send, octets.into()) {
            Ok((id, ticket)) => {
                let answer = Answer::Accepted { id, tag, again: false };
                self.after.push_back((ticket, After::Answer(client, answer)));
                self.outbox.watch(id, client);
                // What has started is stored after the message itself.
                self.take_events();
                Ok(())
            }
            Err(why) => refused(self, why),
        }
    }

    /// Hands a message to the node; returns the message's number and the ticket of its record.
    pub(super) fn submit(
        &mut self,
        now: Time,
        send: api::Send,
        data: Arc<[u8]>,
    ) -> Result<(u64, Ticket), String> {
        let different: BTreeSet<IpAddr> = send.to.iter().map(IpAddr::to_canonical).collect();
        if let Some(own) = different.iter().find(|it| !self.is_reachable(**it)) {
            return Err(format!("{own} cannot be a destination: no socket of [sar] sends there"));
        }
        let via = send.via.or_else(|| self.via(&different));
        let destinations: Vec<IpAddr> = different.into_iter().collect();
        let ports = Ports { source: send.from_port, destination: send.port };
        let message = Message { ports, data };
        let usual = self.config.service.lifetime;
        let lifetime = Some(send.lifetime.map_or(usual, Duration::from_secs_f64));
        let options = Options {
            precedence: Precedence::new(send.precedence),
            lifetime,
            is_acknowledged: send.acknowledged,
            via,
            resume: None,
        };
        let submitted = self.node.submit(now, &message, &destinations, options);
        let core = submitted.map_err(|why| why.to_string())?;
        let id = self.outbox.take_id();
        let parts = destinations.iter().map(|to| (*to, None)).collect();
        self.outbox.insert(id, send.name.clone(), parts, vec![core]);
        let ticket = self.store.push(&Record::Accepted(Accepted {
            id,
            name: send.name,
            ports,
            precedence: send.precedence,
            is_acknowledged: send.acknowledged,
            via,
            expires: lifetime.map(|it| wall_clock().saturating_add(milliseconds(it))),
            destinations,
            data: message.data,
        }));
        self.counters.requests_accepted += 1;
        Ok((id, ticket))
    }

    /// Whether there is a socket for a destination.
    pub(super) fn is_reachable(&self, to: IpAddr) -> bool {
        let is_one = !to.is_unspecified() && !to.is_multicast();
        is_one && self.config.listen.iter().any(|at| at.is_ipv4() == to.is_ipv4())
    }

    /// The address that reaches all of several destinations, if a group has them.
    fn via(&self, destinations: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        if destinations.len() < 2 {
            return None;
        }
        let mut groups = self.config.groups.iter();
        groups.find(|group| destinations.is_subset(&group.members)).map(|group| group.via)
    }

    fn cancel(&mut self, now: Time, client: ClientId, id: u64) {
        let mut count = 0;
        for core in self.outbox.cores(id) {
            count += self.node.cancel(now, core);
        }
        self.counters.requests_cancelled += u64::from(count > 0);
        let answer = match self.outbox.fates(id) {
            Some(_) => Answer::Cancelled { id, count },
            None => Answer::Unknown { id: Some(id), name: None },
        };
        let ticket = self.store.latest();
        self.after.push_back((ticket, After::Answer(client, answer)));
        // The outcomes are told behind the answer.
        self.take_events();
    }

    /// Tells the known outcomes of a message now, and the open outcomes later.
    fn tell_outcome(&mut self, client: ClientId, id: Option<u64>, name: Option<String>) {
        let found = id.or_else(|| self.outbox.find(name.as_deref()?));
        let known = found.and_then(|id| Some((id, self.outbox.fates(id)?)));
        let answer = match known {
            Some((id, outcomes)) => {
                self.outbox.watch(id, client);
                Answer::Message { id, outcomes }
            }
            None => Answer::Unknown { id, name },
        };
        // Everything that is told is stored.
        let ticket = self.store.latest();
        self.after.push_back((ticket, After::Answer(client, answer)));
    }
}
