//! The connection to the STANAG 5066 server, where there is one.

use std::time::{Duration, Instant};

use base::time::Time;
use host::Fault;
use nix::poll::PollFlags;
use tracing::{info, warn};

use super::Pep;
use crate::bearer::dial::Change;
use crate::service::complaints::Subject;

/// Pieces taken from the server before connections have their turn.
const READS: usize = 32;
/// How long the server may take our last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Pep {
    /// The fault of the connection to the server, if there should be one.
    pub fn fault_of_server(&self) -> Option<Fault> {
        let slep = self.pep.slep();
        let trouble = slep.fault().map(|fault| fault.to_string());
        let dial = self.dial.as_ref()?;
        dial.fault(("hfpep: the node", "hfpep.server"), self.pep.is_bound(), trouble)
    }

    /// Handles due timers of the connection to the server, and acts on its changes.
    pub fn follow_server(&mut self, now: Time) {
        let (Some(dial), Some(server)) = (&mut self.dial, self.config.server) else { return };
        dial.handle_timeout(now);
        match dial.poll_change() {
            Some(Change::Up) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    info!(%server, left_out, "connected to the STANAG 5066 node");
                }
                self.pep.handle_connected(now);
            }
            Some(Change::Down) => {
                if let Some(left_out) = self.complaints.admit(now, Subject::Server) {
                    warn!(
                        %server,
                        left_out,
                        "the connection to the STANAG 5066 node is lost, and is made again: does it run there?"
                    );
                }
                self.pep.handle_disconnected(now);
            }
            None => {}
        }
    }

    /// Sends the next octets to the server, if there is room; returns whether there were any.
    pub fn send_to_server(&mut self, now: Time) -> bool {
        let Some(dial) = self.dial.as_mut().filter(|dial| dial.has_room()) else { return false };
        self.buffer.clear();
        let has_some = self.pep.poll_octets(now, &mut self.buffer);
        if has_some {
            dial.send(now, &self.buffer);
        }
        has_some
    }

    /// Says the last words and takes leave of the server: it takes a client that goes without a word for lost.
    pub fn leave_server(&mut self, now: Time) {
        let until = Instant::now() + LAST_WORDS;
        self.send_all(now, until);
        self.pep.unbind(now);
        self.send_all(now, until);
        if let Some(dial) = &mut self.dial {
            dial.end(now, until);
        }
    }

    /// Sends everything to the server, at most until then.
    fn send_all(&mut self, now: Time, until: Instant) {
        loop {
            while self.send_to_server(now) {}
            let Some(dial) = &mut self.dial else { return };
            // With room left, there is nothing more to send.
            if dial.has_room() || !dial.is_up() || !dial.write_until(now, until) {
                return;
            }
        }
    }

    /// Takes what the server says; `ready` answers what the connection waits for.
    pub fn hear_server(&mut self, now: Time, ready: &[PollFlags]) {
        let Some(dial) = &mut self.dial else { return };
        dial.handle_ready(now, ready);
        if ready.iter().all(|ready| ready.is_empty()) {
            return;
        }
        for _ in 0..READS {
            let len = dial.receive(now, &mut self.received);
            if len == 0 {
                break;
            }
            self.pep.handle_octets(now, &self.received[..len]);
        }
    }
}
