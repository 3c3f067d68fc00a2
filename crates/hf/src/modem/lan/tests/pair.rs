//! A station and a modem, with a connection between them that loses nothing.

use std::time::Duration;

use base::time::{Time, earliest};

use super::super::scan::{Found, scan};
use super::super::wire::Packet;
use super::super::{Config, Dce, Dte};
use crate::modem::{Event, Keying, Waveform};

/// A station, a modem, and a transmitter that sends a block when its time is over.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) dte: Dte,
    pub(super) dce: Dce,
    /// What the station wants to send.
    waiting: Option<Vec<u8>>,
    /// When the transmitter wants its next block, or has sent its last.
    block_at: Option<Time>,
    is_last: bool,
    pub(super) on_air: Vec<u8>,
    pub(super) sent: usize,
    pub(super) heard: Vec<Event>,
    pub(super) story: Vec<String>,
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(config())
    }

    pub(super) fn with(config: Config) -> Self {
        Self {
            now: Time::ZERO,
            dte: Dte::new(Time::ZERO),
            dce: Dce::new(Time::ZERO, config),
            waiting: None,
            block_at: None,
            is_last: false,
            on_air: Vec::new(),
            sent: 0,
            heard: Vec::new(),
            story: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, octets: Vec<u8>) {
        self.dte.start(self.now, waveform());
        self.waiting = Some(octets);
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let timeouts = earliest(self.dte.next_timeout(), self.dce.next_timeout());
            let next = earliest(timeouts, self.block_at);
            let Some(next) = next.filter(|&next| next <= end) else { break };
            assert!(next > self.now, "it spins");
            self.now = next;
            self.dte.handle_timeout(next);
            self.dce.handle_timeout(next);
            self.transmit();
        }
        self.now = end;
    }

    /// Asks for the block that is due.
    fn transmit(&mut self) {
        if self.block_at != Some(self.now) {
            return;
        }
        if self.is_last {
            self.block_at = None;
            self.dce.handle_modem(self.now, Event::Sent);
            return;
        }
        let mut octets = Vec::new();
        while octets.len() < 1_296 && !self.is_last {
            let room = 1_296 - octets.len();
            match self.dce.poll_transmit(self.now, room, &mut octets) {
                Some(Keying::End) => self.is_last = true,
                Some(Keying::Octets) => {}
                Some(Keying::Start(_)) | None => panic!("the transmitter is on"),
            }
        }
        self.on_air.extend(octets);
        self.block_at = Some(self.now + waveform().block_time());
    }

    fn settle(&mut self) {
        loop {
            let room = self.dte.room();
            if let Some(octets) = self.waiting.as_mut().filter(|_| room > 0) {
                let rest = octets.split_off(room.min(octets.len()));
                self.dte.supply(self.now, octets);
                *octets = rest;
                if octets.is_empty() {
                    self.waiting = None;
                    self.dte.end(self.now);
                }
            }
            if self.block_at.is_none() {
                let mut out = Vec::new();
                if let Some(Keying::Start(_)) = self.dce.poll_transmit(self.now, 0, &mut out) {
                    self.block_at = Some(self.now + ms(200));
                    self.is_last = false;
                }
            }
            let (mut there, mut back) = (Vec::new(), Vec::new());
            self.dte.poll_octets(&mut there);
            self.dce.poll_octets(&mut back);
            if there.is_empty() && back.is_empty() {
                break;
            }
            self.story.extend(names(&there).into_iter().map(|name| format!("> {name}")));
            self.story.extend(names(&back).into_iter().map(|name| format!("< {name}")));
            self.dce.handle_octets(self.now, &there);
            self.dte.handle_octets(self.now, &back);
        }
        while let Some(event) = self.dte.poll_event() {
            self.sent += usize::from(event == Event::Sent);
            self.heard.push(event);
        }
    }
}

pub(super) fn names(mut octets: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Found::Packet(len, packet) = scan(octets) {
        octets = &octets[len..];
        names.push(match packet {
            Packet::Transfer { order, octets, .. } => {
                format!("Transfer {order:?} {}", octets.len())
            }
            Packet::Status(status) => format!("Status {:?}", status.state),
            Packet::InitialSetup(_) => "InitialSetup".to_owned(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(scan(octets), Found::Nothing);
    names
}

pub(super) fn config() -> Config {
    Config { waveform: waveform(), is_receiver_master: false }
}

pub(super) fn waveform() -> Waveform {
    "9600/short".parse().unwrap()
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
