//! Measures the subnetwork interface alone: a client submits U_PDUs as fast as its node accepts them.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base::time::Time;
use gateway::bearer::Dial;
use gateway::bearer::dial::Change;
use hf::s5066::sis::client::{Client, Config, Event, Send};
use hf::s5066::sis::{Sap, Service};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::hub::NODES;

const SAP: Sap = Sap::new(9);
const U_PDU: usize = 2_048;
/// The most U_PDUs without a confirmation.
const UNCONFIRMED: usize = 512;
const SECONDS: Duration = Duration::from_secs(5);
const BOUND_WITHIN: Duration = Duration::from_secs(10);
const READ: usize = 64 << 10;
const PAUSE: u16 = 10;

/// A client and its connection.
struct End {
    dial: Dial,
    client: Client,
    octets: Vec<u8>,
}

/// Octets of U_PDUs in a second, from one node's client to the other node's client.
///
/// # Errors
/// When a node does not take its client.
pub fn measure(at: [SocketAddr; 2]) -> anyhow::Result<f64> {
    let client = || Client::new(Config { service: Service::ARQ, ..Config::new(SAP) });
    let mut ends =
        at.map(|at| End { dial: Dial::new(Time::ZERO, at), client: client(), octets: Vec::new() });
    let began = Instant::now();
    let mut received = vec![0; READ];
    let u_pdu = [7; U_PDU];
    let (mut bound, mut unconfirmed, mut arrived) = (0, 0, 0.0);
    let mut measured_from = None;
    loop {
        let now = Time::ZERO + began.elapsed();
        for end in &mut ends {
            end.follow(now, &mut received);
            while let Some(event) = end.client.poll_event() {
                match event {
                    Event::Bound { .. } => bound += 1,
                    Event::Confirmed(_) => unconfirmed -= 1,
                    Event::Received(received) => arrived += received.u_pdu.len() as f64,
                    Event::Close(_)
                    | Event::Refused(_)
                    | Event::Unbound(_)
                    | Event::Rejected { .. } => {
                        anyhow::bail!("the node does not take its client: {event:?}")
                    }
                    _ => {}
                }
            }
        }
        match measured_from {
            None if bound == 2 => measured_from = Some(now),
            None => ensure!(began.elapsed() < BOUND_WITHIN, "the nodes do not bind their clients"),
            Some(from) if now.since(from) >= SECONDS => {
                return Ok(arrived / now.since(from).as_secs_f64());
            }
            Some(_) => {
                while unconfirmed < UNCONFIRMED && ends[0].client.is_ready() {
                    let to = Send {
                        to: NODES[1],
                        to_sap: SAP,
                        priority: 4,
                        is_expedited: false,
                        service: None,
                        ttl: Duration::ZERO,
                        u_pdu: &u_pdu,
                    };
                    ends[0].client.send(now, to).context("a client that is ready takes it")?;
                    unconfirmed += 1;
                }
            }
        }
        for end in &mut ends {
            end.send(now);
        }
        wait(&mut ends, now)?;
    }
}

impl End {
    fn follow(&mut self, now: Time, received: &mut [u8]) {
        self.dial.handle_timeout(now);
        match self.dial.poll_change() {
            Some(Change::Up) => self.client.handle_connected(now),
            Some(Change::Down) => self.client.handle_disconnected(),
            None => {}
        }
        loop {
            let len = self.dial.receive(now, received);
            if len == 0 {
                break;
            }
            self.client.handle_octets(now, &received[..len]);
        }
        self.client.handle_timeout(now);
    }

    fn send(&mut self, now: Time) {
        while self.dial.has_room() && self.client.poll_octets(now, &mut self.octets) {
            self.dial.send(now, &self.octets);
            self.octets.clear();
        }
    }
}

/// Waits until one of the connections is ready.
fn wait(ends: &mut [End; 2], now: Time) -> io::Result<()> {
    let mut fds = Vec::new();
    ends[0].dial.watch(&mut fds);
    let first = fds.len();
    ends[1].dial.watch(&mut fds);
    match poll(&mut fds, PollTimeout::from(PAUSE)) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let said = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
    let ready: Vec<PollFlags> = fds.iter().map(said).collect();
    drop(fds);
    let (a, b) = ready.split_at(first);
    ends[0].dial.handle_ready(now, a);
    ends[1].dial.handle_ready(now, b);
    Ok(())
}
