//! Sends requests at an interval and measures the time to each answer.

use std::net::{IpAddr, SocketAddr};

use base::ip::udp::Datagram;
use base::time::Time;

use super::App;
use super::stamp::Stamp;
use super::stream::{Sender, SenderConfig};
use crate::summary::Summary;

/// Sends requests to an echo server.
#[derive(Debug)]
pub struct Ping {
    requests: Sender,
    server: SocketAddr,
    /// The number of the next answer that is in order.
    next: u64,
    stats: Stats,
}

/// Statistics of a ping client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Requests sent.
    pub sent: u64,
    /// Answers received in order.
    pub answered: u64,
    /// Answers that came again or after one to a later request.
    pub late: u64,
    /// ICMP errors about requests.
    pub errors: u64,
    /// From request to answer.
    pub rtt: Summary,
}

impl Ping {
    /// A client whose requests are a stream.
    #[must_use]
    pub fn new(requests: SenderConfig) -> Self {
        Self {
            requests: Sender::new(requests),
            server: requests.destination,
            next: 0,
            stats: Stats::default(),
        }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let requests = self.requests.stats();
        Stats { sent: requests.sent, errors: requests.errors, ..self.stats }
    }
}

impl App for Ping {
    fn handle_datagram(&mut self, now: Time, datagram: &Datagram<'_>) {
        let Some(stamp) = Stamp::parse(datagram.payload) else { return };
        if datagram.source != self.server || stamp.number >= self.requests.stats().sent {
            return;
        }
        if stamp.number < self.next {
            self.stats.late += 1;
            return;
        }
        self.next = stamp.number + 1;
        self.stats.answered += 1;
        self.stats.rtt.add(now.since(stamp.sent));
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        self.requests.poll_transmit(now, out)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.requests.next_timeout()
    }

    fn handle_error(&mut self) {
        self.requests.handle_error();
    }

    fn bind(&mut self, local: IpAddr) {
        self.requests.bind(local);
    }

    fn unbound_to(&self) -> Option<IpAddr> {
        self.requests.unbound_to()
    }

    fn udp_port(&self) -> Option<u16> {
        self.requests.udp_port()
    }
}
