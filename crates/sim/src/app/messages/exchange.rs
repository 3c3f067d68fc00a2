//! Messages over S/R: `sar` on UDP port 1624.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::ip::selective;
use base::ip::udp::Datagram;
use base::rng::Rng;
use base::time::Time;
use sar::{Arrival, Event, Message, MessageId, Options, Outcome, PORT, Ports, Sar, Transmit};

use super::tally::Tally;
use super::{Config, Submitted, class};

/// A node of S/R.
#[derive(Debug)]
pub struct Exchange {
    sar: Sar,
    /// When a message was made, and how many of its destinations have no outcome yet.
    under_way: BTreeMap<MessageId, (Time, usize)>,
    pdu: Vec<u8>,
}

impl Exchange {
    pub fn new(config: &Config, of_sar: sar::Config, rng: Rng) -> Self {
        let sar = Sar::new(config.start, of_sar, None, rng);
        Self { sar, under_way: BTreeMap::new(), pdu: Vec::new() }
    }

    pub fn sar(&self) -> &Sar {
        &self.sar
    }

    pub fn submit(&mut self, config: &Config, made: Submitted<'_>, tally: &mut Tally) {
        let ports = Ports { source: config.port, destination: config.port };
        let message = Message { ports, data: made.octets.into() };
        let to: Vec<IpAddr> = made.to.iter().map(|to| IpAddr::V4(*to)).collect();
        let options = Options {
            precedence: config.precedence,
            lifetime: config.lifetime,
            via: config.group.map(IpAddr::V4),
            ..Options::default()
        };
        match self.sar.submit(made.at, &message, &to, options) {
            Ok(id) => _ = self.under_way.insert(id, (made.at, to.len())),
            Err(_) => tally.refuse(),
        }
        self.settle(made.at, tally);
    }

    pub fn handle_datagram(
        &mut self,
        now: Time,
        config: &Config,
        datagram: &Datagram<'_>,
        tally: &mut Tally,
    ) {
        // All messages here have one precedence.
        let arrival = Arrival {
            from: datagram.source.ip(),
            is_group: config.group.is_some_and(|group| datagram.destination.ip() == group),
            precedence: config.precedence,
        };
        // What is no PDU is counted by the core.
        let _ = self.sar.handle_datagram(now, arrival, datagram.payload);
        self.settle(now, tally);
    }

    pub fn handle_timeout(&mut self, now: Time, tally: &mut Tally) {
        self.sar.handle_timeout(now);
        self.settle(now, tally);
    }

    /// Writes the next PDU as an IP packet; false when there is none.
    pub fn poll_transmit(&mut self, now: Time, local: Ipv4Addr, out: &mut Vec<u8>) -> bool {
        let Some(transmit) = self.sar.poll_transmit(now, &mut self.pdu) else { return false };
        let Transmit { to, precedence, listed } = transmit;
        let source = SocketAddr::new(local.into(), PORT);
        let destination = SocketAddr::new(to, PORT);
        let datagram = Datagram { source, destination, payload: &self.pdu };
        datagram.emit_in_class(class(precedence), out);
        if let Some(listed) = listed {
            selective::list(out, &listed);
        }
        true
    }

    /// Takes what the core has to tell.
    pub fn settle(&mut self, now: Time, tally: &mut Tally) {
        while let Some(event) = self.sar.poll_event() {
            match event {
                Event::Outcome { id, outcome, .. } => self.conclude(now, id, outcome, tally),
                Event::Received(message) => tally.receive(now, message.source, &message.data),
                Event::Forgotten { .. } | Event::Started { .. } => {}
            }
        }
    }

    fn conclude(&mut self, now: Time, id: MessageId, outcome: Outcome, tally: &mut Tally) {
        let Some((made, left)) = self.under_way.get_mut(&id) else { return };
        *left -= 1;
        match outcome {
            Outcome::Delivered => tally.tell(now, *made),
            Outcome::Cancelled | Outcome::Expired | Outcome::Failed(_) => tally.fail(1),
            Outcome::Sent => {}
        }
        if *left == 0 {
            self.under_way.remove(&id);
        }
    }
}
