//! Clients of two nodes: they measure the subnetwork interface alone, or send each other U_PDUs in turn.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base::time::Time;
use gateway::bearer::Dial;
use gateway::bearer::dial::Change;
use hf::s5066::Address;
use hf::s5066::sis::client::{Client, Config, Event, Send};
use hf::s5066::sis::{Sap, Service};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::hub::NODES;

/// For arbitrary use (Annex F, table F-1).
const SAP: Sap = Sap::new(12);
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
    let mut ends = at.map(End::new);
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
                    ends[0].submit(now, NODES[1], &u_pdu)?;
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

/// Sends a U_PDU from the first node's client to the second's, which sends it back, and again a `pause` after its return.
/// `told` hears of each round trip, or why a U_PDU was not delivered, and ends it all by `false`.
///
/// # Errors
/// When a node does not take its client.
pub fn talk(
    at: [SocketAddr; 2],
    nodes: [Address; 2],
    u_pdu: &[u8],
    pause: Duration,
    mut told: impl FnMut(Result<Duration, String>) -> bool,
) -> anyhow::Result<()> {
    let mut ends = at.map(End::new);
    let began = Instant::now();
    let mut received = vec![0; READ];
    let (mut bound, mut asked) = (0, Time::ZERO);
    // Which client is to send, and when; `None` while a U_PDU is under way.
    let mut next = Some((0, Time::ZERO));
    loop {
        let now = Time::ZERO + began.elapsed();
        for (place, end) in ends.iter_mut().enumerate() {
            end.follow(now, &mut received);
            while let Some(event) = end.client.poll_event() {
                let goes_on = match event {
                    Event::Bound { .. } => {
                        bound += 1;
                        true
                    }
                    Event::Received(_) if place == 0 => {
                        next = Some((0, now + pause));
                        told(Ok(now.since(asked)))
                    }
                    Event::Received(_) => {
                        next = Some((1, now));
                        true
                    }
                    Event::Rejected { reason, .. } => {
                        next = Some((0, now + pause));
                        told(Err(reason.to_string()))
                    }
                    Event::Close(_) | Event::Refused(_) | Event::Unbound(_) => {
                        anyhow::bail!(
                            "a node does not take its client: another has its access point"
                        )
                    }
                    _ => true,
                };
                if !goes_on {
                    return Ok(());
                }
            }
        }
        if let Some((from, due)) = next
            && bound == 2
            && due <= now
            && ends[from].client.is_ready()
        {
            if from == 0 {
                asked = now;
            }
            ends[from].submit(now, nodes[1 - from], u_pdu)?;
            next = None;
        }
        for end in &mut ends {
            end.send(now);
        }
        wait(&mut ends, now)?;
    }
}

impl End {
    fn new(at: SocketAddr) -> Self {
        let client = Client::new(Config { service: Service::ARQ, ..Config::new(SAP) });
        Self { dial: Dial::new(Time::ZERO, at), client, octets: Vec::new() }
    }

    /// Sends a U_PDU to the client of another node.
    fn submit(&mut self, now: Time, to: Address, u_pdu: &[u8]) -> anyhow::Result<()> {
        let send = Send {
            to,
            to_sap: SAP,
            priority: 4,
            is_expedited: false,
            service: None,
            ttl: Duration::ZERO,
            u_pdu,
        };
        self.client.send(now, send).context("a client that is ready takes it")?;
        Ok(())
    }

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
