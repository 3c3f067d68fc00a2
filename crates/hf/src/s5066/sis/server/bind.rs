//! Clients take an access point and give it up (A.2.1.1 to A.2.1.5).

use base::time::Time;

use super::connection::{Binding, Queue};
use super::{ClientId, Server};
use crate::s5066::sis::primitive::Primitive;
use crate::s5066::sis::{BindReason, Delivery, Sap, Service, UnbindReason};

impl Server {
    pub(super) fn handle_bind(
        &mut self,
        now: Time,
        client: ClientId,
        sap: Sap,
        rank: u8,
        service: Delivery,
    ) {
        let service = match self.may_bind(client, sap, rank, service) {
            Ok(service) => service,
            Err(reason) => {
                self.stats.clients.binds_refused += 1;
                self.send(now, client, &Primitive::BindRejected(reason));
                return;
            }
        };
        if let Some(holder) = self.saps[usize::from(sap.number())] {
            self.stats.clients.preempted += 1;
            self.unbind(now, holder, Some(UnbindReason::PREEMPTED));
        }
        let Some(connection) = self.connections.get_mut(&client) else { return };
        connection.bind_until = None;
        connection.binding = Some(Binding {
            sap,
            rank,
            service,
            queue: Queue::new(),
            is_flow_off: false,
            undecided: 0,
            expedited: 0,
        });
        self.saps[usize::from(sap.number())] = Some(client);
        self.stats.clients.binds += 1;
        self.send(now, client, &Primitive::BindAccepted { sap, mtu: self.mtu_of(service) });
        self.introduce(now, client);
    }

    pub(super) fn may_bind(
        &self,
        client: ClientId,
        sap: Sap,
        rank: u8,
        service: Delivery,
    ) -> Result<Service, BindReason> {
        if self.config.saps & 1 << sap.number() == 0 {
            return Err(BindReason::BAD_SAP);
        }
        // A connection has one access point; a service that does not exist needs resources that do
        // not either.
        if self.binding(client).is_some_and(|binding| binding.sap != sap)
            || (rank == 15 && !self.config.may_manage)
        {
            return Err(BindReason::NO_RESOURCES);
        }
        let service = service.service().map_err(|_| BindReason::NO_RESOURCES)?;
        if self.config.is_broadcast_only && service.mode.is_arq() {
            return Err(BindReason::NO_ARQ);
        }
        let holder = self.saps[usize::from(sap.number())];
        match holder.and_then(|holder| self.binding(holder)) {
            Some(holder) if !self.config.preempts || holder.rank >= rank => {
                Err(BindReason::SAP_IN_USE)
            }
            _ if holder == Some(client) => Err(BindReason::SAP_IN_USE),
            _ => Ok(service),
        }
    }

    /// A request on an unbound connection: the client is told, and goes on at its own risk.
    pub(super) fn handle_unbound(&mut self, now: Time, client: ClientId) {
        self.stats.clients.unbound_requests += 1;
        let told = Primitive::UnbindIndication(UnbindReason::BAD_PRIMITIVES);
        self.send(now, client, &told);
        self.handle_invalid(now, client);
    }

    /// Unbinds a client: the access point becomes free, and the client's waiting U_PDUs are dropped.
    pub(super) fn unbind(&mut self, now: Time, client: ClientId, reason: Option<UnbindReason>) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let Some(binding) = connection.binding.take() else { return };
        connection.bind_until = Some(now + self.config.bind_wait);
        self.saps[usize::from(binding.sap.number())] = None;
        for item in binding.queue.items() {
            self.stats.submitted.dropped_unbound += 1;
            if let Some(at) = item.expires {
                self.deadlines.remove(&(at, item.id, client));
            }
        }
        self.forget_pending(client);
        self.handle_unbound_link(now, client);
        if let Some(reason) = reason {
            self.push(client, &Primitive::UnbindIndication(reason));
        }
    }
}
