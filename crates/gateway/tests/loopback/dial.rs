//! Tests connections to loopback servers that are absent, appear, and disappear.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use base::time::Time;
use gateway::bearer::dial::{Change, Dial};
use nix::poll::{PollFlags, PollTimeout, poll};

#[test]
fn octets_go_both_ways() {
    let (listener, mut driver) = Driver::with_listener();

    let mut server = driver.connect(&listener);
    driver.dial.send(driver.now, b"question");
    let mut question = [0; 8];
    server.read_exact(&mut question).unwrap();
    server.write_all(b"answer").unwrap();

    assert_eq!((&question, &driver.receive()[..]), (b"question", &b"answer"[..]));
}

#[test]
fn a_server_that_is_not_there_is_tried_again_soon_and_every_four_seconds_in_the_end() {
    // At an address of its own, lest another listens at this port as soon as it is free.
    let (listener, mut driver) = Driver::with_listener_at([127, 0, 0, 77]);
    drop(listener);

    let mut waits = Vec::new();
    for _ in 0..8 {
        let due = driver.dial.next_timeout().unwrap();
        waits.push(due.since(driver.now).as_millis());
        driver.now = due;
        driver.dial.handle_timeout(due);
        driver.turn();
    }

    assert_eq!(waits, [0, 250, 500, 1_000, 2_000, 4_000, 4_000, 4_000]);
    assert_eq!((driver.dial.stats().tried, driver.dial.stats().connected), (8, 0));
    assert_eq!(driver.dial.poll_change(), None);
}

#[test]
fn a_server_that_starts_again_is_found_again() {
    let (listener, mut driver) = Driver::with_listener();
    let server = driver.connect(&listener);
    driver.now += Duration::from_secs(100);

    drop(server);
    assert_eq!(driver.receive(), [0_u8; 0]);
    assert_eq!(driver.dial.poll_change(), Some(Change::Down));
    assert!(!driver.dial.is_up() && !driver.dial.has_room());
    driver.now = driver.dial.next_timeout().unwrap();

    let mut server = driver.connect(&listener);
    server.write_all(b"again").unwrap();
    assert_eq!(driver.receive(), b"again");
}

#[test]
fn a_server_that_takes_nothing_is_left_after_a_while() {
    let (listener, mut driver) = Driver::with_listener();
    let _server = driver.connect(&listener);

    while driver.dial.has_room() {
        driver.dial.send(driver.now, &[0; 4_096]);
    }
    let due = driver.dial.next_timeout().unwrap();
    driver.dial.handle_timeout(due);

    assert_eq!(due.since(driver.now), Duration::from_secs(60));
    assert_eq!(driver.dial.poll_change(), Some(Change::Down));
}

struct Driver {
    dial: Dial,
    now: Time,
}

impl Driver {
    fn with_listener() -> (TcpListener, Self) {
        Self::with_listener_at([127, 0, 0, 1])
    }

    fn with_listener_at(address: [u8; 4]) -> (TcpListener, Self) {
        let listener = TcpListener::bind(SocketAddr::from((address, 0))).unwrap();
        let dial = Dial::new(Time::ZERO, listener.local_addr().unwrap());
        (listener, Self { dial, now: Time::ZERO })
    }

    fn connect(&mut self, listener: &TcpListener) -> TcpStream {
        self.dial.handle_timeout(self.now);
        let (server, _) = listener.accept().unwrap();
        while !self.dial.is_up() {
            self.turn();
        }
        assert_eq!(self.dial.poll_change(), Some(Change::Up));
        server
    }

    /// What a driver does once.
    fn turn(&mut self) {
        let mut fds = Vec::new();
        self.dial.watch(&mut fds);
        poll(&mut fds, PollTimeout::from(1_000_u16)).unwrap();
        let ready: Vec<_> =
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        self.dial.handle_ready(self.now, &ready);
    }

    /// The next octets, or none at the end.
    fn receive(&mut self) -> Vec<u8> {
        self.turn();
        let mut buffer = [0; 100];
        let len = self.dial.receive(self.now, &mut buffer);
        buffer[..len].to_vec()
    }
}
