//! Reads primitives from clients' streams, and passes each to the code concerned.

use base::time::Time;

use super::{ClientId, Event, Server};
use crate::s5066::sis::UnbindReason;
use crate::s5066::sis::primitive::{Malformed, Management, Primitive, Refusal};
use crate::s5066::sis::stream::{Stream, Unreadable};

/// Management messages that wait for the driver at most.
const MAX_MANAGEMENT: usize = 16;

impl Server {
    pub(super) fn handle_stream(&mut self, now: Time, client: ClientId, stream: &mut Stream) {
        while self.connections.get(&client).is_some_and(|connection| !connection.is_closing) {
            match stream.take() {
                Ok(None) => return,
                Ok(Some(fields)) => match Primitive::parse(fields) {
                    Ok(primitive) => self.handle_primitive(now, client, &primitive),
                    Err(why) => self.handle_malformed(now, client, fields, why),
                },
                Err(broken) => {
                    self.unreadable = Some((client, broken.into()));
                    self.stats.clients.invalid += 1;
                    self.stats.connections.closed_invalid += 1;
                    self.close(now, client, UnbindReason::BAD_PRIMITIVES);
                    *stream = Stream::default();
                    return;
                }
            }
        }
    }

    pub(super) fn handle_primitive(
        &mut self,
        now: Time,
        client: ClientId,
        primitive: &Primitive<'_>,
    ) {
        match *primitive {
            Primitive::BindRequest { sap, rank, service } => {
                self.handle_bind(now, client, sap, rank, service);
            }
            Primitive::UnbindRequest => {
                if self.binding(client).is_some() {
                    self.unbind(now, client, None);
                } else {
                    self.handle_unbound(now, client);
                }
            }
            Primitive::KeepAlive => {
                if let Some(connection) = self.connections.get_mut(&client) {
                    connection.keep_alive.handle_keep_alive(now);
                }
                self.keep_alive(now, client);
            }
            _ if self.binding(client).is_none() => self.handle_unbound(now, client),
            Primitive::UnidataRequest(request) => self.submit(now, client, request, false),
            Primitive::ExpeditedUnidataRequest(request) => self.submit(now, client, request, true),
            Primitive::HardLinkEstablish(link) => self.establish(now, client, link),
            Primitive::HardLinkTerminate { remote } => self.terminate(now, client, remote),
            Primitive::HardLinkAccept(link) => self.answer(now, client, link, None),
            Primitive::HardLinkReject { reason, link } => {
                self.answer(now, client, link, Some(reason));
            }
            Primitive::ManagementRequest(message) => self.handle_management(now, client, message),
            Primitive::BindAccepted { .. }
            | Primitive::BindRejected(_)
            | Primitive::UnbindIndication(_)
            | Primitive::HardLinkEstablished { .. }
            | Primitive::HardLinkRejected { .. }
            | Primitive::HardLinkTerminated { .. }
            | Primitive::HardLinkIndication { .. }
            | Primitive::SubnetAvailability { .. }
            | Primitive::DataFlowOn
            | Primitive::DataFlowOff
            | Primitive::ManagementIndication(_)
            | Primitive::UnidataIndication(_)
            | Primitive::UnidataConfirm(_)
            | Primitive::UnidataRejected(_)
            | Primitive::ExpeditedUnidataIndication(_)
            | Primitive::ExpeditedUnidataConfirm(_)
            | Primitive::ExpeditedUnidataRejected(_) => self.handle_invalid(now, client),
        }
    }

    /// A primitive that cannot be read, whose type and fields fill `octets`: whoever waits for an outcome is
    /// told that there will be none.
    fn handle_malformed(&mut self, now: Time, client: ClientId, octets: &[u8], why: Malformed) {
        self.unreadable = Some((client, Unreadable::primitive(octets, why)));
        let is_bound = self.binding(client).is_some();
        let refusal = Refusal::of(octets, why).filter(|it| is_bound || it.is_of_bind());
        if let Some(refusal) = refusal {
            self.stats.clients.binds_refused += u64::from(refusal.is_of_bind());
            let prefix = self.config.confirm.prefix;
            self.send_with(now, client, |out| refusal.emit(prefix, out));
        } else if !is_bound {
            self.handle_unbound(now, client);
            return;
        }
        self.handle_invalid(now, client);
    }

    pub(super) fn handle_invalid(&mut self, now: Time, client: ClientId) {
        self.stats.clients.invalid += 1;
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.invalid += 1;
        if connection.invalid > self.config.limits.max_invalid {
            self.stats.connections.closed_invalid += 1;
            self.close(now, client, UnbindReason::BAD_PRIMITIVES);
        }
    }

    pub(super) fn handle_management(
        &mut self,
        now: Time,
        client: ClientId,
        message: Management<'_>,
    ) {
        if self.handle_question(now, client, message) {
            return;
        }
        let may_manage = self.binding(client).is_some_and(|binding| binding.rank == 15);
        let is_management = |event: &&Event| matches!(event, Event::Management { .. });
        let waiting = self.events.iter().filter(is_management).count();
        if !may_manage || waiting >= MAX_MANAGEMENT {
            self.stats.clients.management_refused += 1;
            return;
        }
        let Management { kind, body } = message;
        self.events.push_back(Event::Management { client, kind, body: body.to_vec() });
    }
}
