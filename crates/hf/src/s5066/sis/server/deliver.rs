//! The way up: S_PDUs from other nodes.

use std::ops::Range;

use base::time::Time;

use super::Server;
use super::pending::Which;
use crate::s5066::service::Indication;
use crate::s5066::sis::UnidataReason;
use crate::s5066::sis::primitive::{Arrival, Block, Primitive, UnidataIndication};
use crate::s5066::sis::spdu::{Data, SPdu};

/// Why a U_PDU could not be delivered, between nodes.
const SAP_NOT_BOUND: u8 = 1;

impl Server {
    /// Takes an S_PDU from another node.
    pub fn handle_indication(&mut self, now: Time, indication: &Indication) {
        let from = indication.from;
        let Ok(s_pdu) = SPdu::parse(&indication.s_pdu) else {
            self.stats.delivered.malformed += 1;
            return;
        };
        let is_damaged = !indication.errored.is_empty() || !indication.missing.is_empty();
        match s_pdu {
            SPdu::Data(data) => self.deliver(now, indication, data),
            // Only U_PDUs may have errors.
            _ if is_damaged => self.stats.delivered.malformed += 1,
            SPdu::DeliveryConfirm { from: source, to, u_pdu } => {
                self.handle_delivery(now, from, [source, to], Which::Start(u_pdu), Ok(()));
            }
            SPdu::DeliveryFail { from: source, to, u_pdu, .. } => {
                // There is one reason only.
                let result = Err(UnidataReason::SAP_NOT_BOUND);
                self.handle_delivery(now, from, [source, to], Which::Start(u_pdu), result);
            }
            SPdu::CompactConfirm { from: source, to, id } => {
                self.handle_delivery(now, from, [source, to], Which::Id(id), Ok(()));
            }
            SPdu::HardLinkRequest { .. }
            | SPdu::HardLinkConfirm
            | SPdu::HardLinkRejected(_)
            | SPdu::HardLinkTerminate(_)
            | SPdu::HardLinkTerminateConfirm => self.handle_link_pdu(now, from, s_pdu),
        }
    }

    fn deliver(&mut self, now: Time, indication: &Indication, data: Data<'_>) {
        let clock = self.clock(now);
        if data.ttd.is_some_and(|ttd| ttd.time(clock) + self.config.clock_error < clock) {
            self.stats.delivered.received_late += 1;
            return;
        }
        let client = self.saps[usize::from(data.to.number())];
        let bound = client.and_then(|client| Some((client, self.binding(client)?)));
        let Some((client, binding)) = bound else {
            self.stats.delivered.not_bound += 1;
            self.unclaimed = Some((indication.from, data.to));
            let s_pdu = SPdu::DeliveryFail {
                reason: SAP_NOT_BOUND,
                from: data.from,
                to: data.to,
                u_pdu: self.start(data.u_pdu),
            };
            // A node of ours reports each U_PDU acknowledged in vain, if the sender is one of ours too.
            let is_told = indication.mode.is_arq() && self.ours.contains(&indication.from);
            self.answer_data(indication, data, &s_pdu, is_told);
            return;
        };
        let takes_errors = binding.service.takes_errors;
        let Some(arrival) = arrival(indication, data.header(), takes_errors) else {
            self.stats.delivered.received_damaged += 1;
            return;
        };

        let is_expedited = indication.is_expedited;
        let told = UnidataIndication {
            priority: if is_expedited { 0 } else { data.priority },
            to_sap: data.to,
            to: indication.to,
            arrival,
            from_sap: data.from,
            from: indication.from,
            u_pdu: data.u_pdu,
        };
        let primitive = if is_expedited {
            Primitive::ExpeditedUnidataIndication(told)
        } else {
            Primitive::UnidataIndication(told)
        };
        self.send(now, client, &primitive);
        // A client that does not read was unbound instead.
        if self.binding(client).is_none() {
            return;
        }
        self.stats.delivered.u_pdus_delivered += 1;
        self.stats.delivered.octets_delivered += data.u_pdu.len() as u64;
        let s_pdu = match data.id {
            Some(id) => SPdu::CompactConfirm { from: data.from, to: data.to, id },
            None => SPdu::DeliveryConfirm {
                from: data.from,
                to: data.to,
                u_pdu: self.start(data.u_pdu),
            },
        };
        self.answer_data(indication, data, &s_pdu, false);
    }

    /// Tells the other node what became of its U_PDU, if it wants to know, or is told anyway.
    fn answer_data(
        &mut self,
        indication: &Indication,
        data: Data<'_>,
        s_pdu: &SPdu<'_>,
        is_told: bool,
    ) {
        if !(data.is_confirmed || is_told) || indication.to.is_group() {
            return;
        }
        let _ = self.send_own(indication.from, indication.is_expedited, data.priority, s_pdu);
    }

    fn start<'a>(&self, u_pdu: &'a [u8]) -> &'a [u8] {
        &u_pdu[..u_pdu.len().min(self.config.confirm.air_prefix)]
    }
}

/// How it came; `None` when it has errors that the client does not take, or the header has some.
fn arrival(indication: &Indication, header: usize, takes_errors: bool) -> Option<Arrival> {
    let Indication { mode, s_pdu, errored, missing, .. } = indication;
    if mode.is_arq() {
        return Some(Arrival::Arq);
    }
    if errored.is_empty() && missing.is_empty() && !takes_errors {
        return Some(Arrival::NonArq);
    }
    let hits_header = |range: &Range<u16>| usize::from(range.start) < header;
    if !takes_errors || errored.iter().chain(missing).any(hits_header) {
        return None;
    }
    let header = u16::try_from(header).ok()?;
    let end = u16::try_from(s_pdu.len()).unwrap_or(u16::MAX);
    let blocks = |ranges: &[Range<u16>]| {
        let clipped = ranges.iter().map(|range| range.start.min(end)..range.end.min(end));
        let within = clipped.filter(|range| !range.is_empty());
        within
            .map(|range| Block { offset: range.start - header, len: range.end - range.start })
            .collect()
    };
    Some(Arrival::NonArqWithErrors { errored: blocks(errored), missing: blocks(missing) })
}
