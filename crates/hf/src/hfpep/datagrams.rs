//! Flows of UDP over the datagrams of SLEP.

use base::time::Time;

use super::event::Event;
use super::flows::wire::ADDRESSES;
use super::flows::{Arrived, Client, FlowId, NotCarried, Outgoing, Status};
use super::pep::HfPep;
use crate::slep::wire::DATAGRAM;
use crate::slep::{Datagram, Delivery, Reason};

impl HfPep {
    /// Sends a client's datagram to its target behind another node.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn send_datagram(
        &mut self,
        now: Time,
        client: Client,
        delivery: Delivery,
        data: &[u8],
    ) -> Result<(), NotCarried> {
        let most = self.datagram_room();
        self.flows.send(now, client, delivery, most, data)?;
        self.post(now)
    }

    /// Sends a target's answer to the client of a flow that another node has opened.
    ///
    /// # Errors
    /// When it is not carried.
    pub fn answer(&mut self, now: Time, flow: FlowId, data: &[u8]) -> Result<(), NotCarried> {
        let most = self.datagram_room();
        self.flows.answer(now, flow, most, data)?;
        self.post(now)
    }

    /// A flow that another node has opened is not carried, and is no more.
    pub fn refuse(&mut self, now: Time, flow: FlowId, reason: Reason) {
        self.flows.refuse(flow, reason);
        // Without room for it the other end asks again.
        let _ = self.post(now);
    }

    /// The next datagram for a client or target here.
    pub fn poll_datagram(&mut self, now: Time) -> Option<Arrived> {
        while let Some(Datagram { from, addresses, data }) = self.slep.poll_datagram() {
            if addresses != ADDRESSES {
                self.stats.datagrams_unwanted += 1;
                continue;
            }
            let arrived = self.flows.handle_message(now, from, &data);
            let _ = self.post(now);
            self.tell_ended();
            if arrived.is_some() {
                return arrived;
            }
        }
        None
    }

    /// How each flow of UDP is.
    pub fn flows(&self, now: Time) -> impl Iterator<Item = Status> {
        self.flows.status(now)
    }

    /// Octets of a message about a flow at most.
    fn datagram_room(&self) -> usize {
        usize::from(self.slep.mtu()).saturating_sub(DATAGRAM)
    }

    /// Hands to SLEP what flows have to say.
    fn post(&mut self, now: Time) -> Result<(), NotCarried> {
        let mut outcome = Ok(());
        while let Some(Outgoing { flow, delivery, octets }) = self.flows.poll() {
            let (len, most) = (octets.len(), self.config.flows.queue);
            let slep = &mut self.slep;
            let queue = self.flows.queue_mut(flow);
            let has_room = queue.is_none_or(|it| it.has_room(len, most, |id| slep.is_waiting(id)));
            let sent = if has_room {
                slep.send_datagram(now, flow.peer, ADDRESSES, delivery, &octets).ok()
            } else {
                None
            };
            if let Some(id) = sent {
                if let Some(queue) = self.flows.queue_mut(flow) {
                    queue.note(id, len);
                }
            } else {
                self.flows.handle_dropped();
                outcome = Err(NotCarried::Full);
            }
        }
        outcome
    }

    pub(super) fn expire_flows(&mut self, now: Time) {
        self.flows.handle_timeout(now);
        self.tell_ended();
    }

    fn tell_ended(&mut self) {
        let ended = std::iter::from_fn(|| self.flows.poll_ended());
        self.events.extend(ended.map(Event::FlowEnded));
    }
}
