//! Sends every datagram back to where it came from.

use std::collections::VecDeque;

use base::ip::udp::Datagram;
use base::time::Time;

use super::App;

/// Most queued replies; replies are sent immediately.
const WAITING: usize = 16;

/// A UDP echo server.
#[derive(Debug)]
pub struct Echo {
    port: u16,
    from_port: Option<u16>,
    replies: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    stats: Stats,
}

/// Statistics of an echo server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Datagrams answered.
    pub answered: u64,
    /// Datagrams that came while too many replies waited.
    pub dropped: u64,
}

impl Echo {
    /// An echo server on this port.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self {
            port,
            from_port: None,
            replies: VecDeque::new(),
            spare: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// The same for what comes from one port alone, where several servers of a node share theirs.
    #[must_use]
    pub fn only_from(self, port: u16) -> Self {
        Self { from_port: Some(port), ..self }
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl App for Echo {
    fn handle_datagram(&mut self, _now: Time, datagram: &Datagram<'_>) {
        if self.replies.len() == WAITING {
            self.stats.dropped += 1;
            return;
        }
        let mut reply = self.spare.pop().unwrap_or_default();
        reply.clear();
        let Datagram { source, destination, payload } = *datagram;
        Datagram { source: destination, destination: source, payload }.emit(&mut reply);
        self.replies.push_back(reply);
    }

    fn poll_transmit(&mut self, _now: Time, out: &mut Vec<u8>) -> bool {
        let Some(reply) = self.replies.pop_front() else { return false };
        out.extend_from_slice(&reply);
        self.spare.push(reply);
        self.stats.answered += 1;
        true
    }

    fn udp_port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn source_port(&self) -> Option<u16> {
        self.from_port
    }
}
