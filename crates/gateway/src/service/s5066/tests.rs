//! A node on the loopback interface, a modem that goes and comes, and clients that hear of it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use hf::modem::Waveform;
use hf::modem::lan::wire::Packet;
use hf::modem::lan::{self, Dce};
use hf::s5066::Address;
use hf::s5066::cas::Access;
use hf::s5066::node::Rate;
use hf::s5066::sis::{Sap, client};
use nix::poll::ppoll;
use nix::sys::time::TimeSpec;

use super::*;

#[test]
fn clients_are_told_when_the_modem_goes_and_comes_and_those_who_bind_meanwhile() {
    let mut stage = Stage::new("9600/short");
    stage.connect(3);
    stage.run();
    assert_eq!(stage.take_story(), ["0 bound", "0 off"]);

    // Whoever accepts and says nothing, or hangs up, is no modem.
    drop(stage.accept());
    stage.run();
    assert!(stage.take_story().is_empty());

    stage.start_modem("9600/short");
    assert_eq!(stage.take_story(), ["0 on"]);
    stage.stop_modem();
    assert_eq!(stage.take_story(), ["0 off"]);
    stage.connect(4);
    stage.run();
    assert_eq!(stage.take_story(), ["1 bound", "1 off"]);

    stage.start_modem("9600/short");
    assert_eq!(stage.take_story(), ["0 on", "1 on"]);
    stage.connect(5);
    stage.run();
    assert_eq!(stage.take_story(), ["2 bound"]);
}

#[test]
fn a_node_follows_what_its_modem_is_set_to() {
    let mut stage = Stage::new("9600/short");
    let within = stage.station.node.turn_bound();
    let waveform = |stage: &Stage| stage.station.node.waveform().to_string();

    // The modem ignores what the node was told.
    stage.start_modem("1200/short");
    assert_eq!(waveform(&stage), "1200/short");
    assert_eq!(stage.station.status(stage.now).waveform, "1200/short");
    assert!(stage.station.node.turn_bound() > within);

    // Its operator turns the knob.
    stage.tell(&Packet::TransmitSetup { bits_per_s: 2_400, block_bits: 11_520 });
    assert_eq!(waveform(&stage), "2400/long");
    // A block that we do not know, and then a rate.
    stage.tell(&Packet::TransmitSetup { bits_per_s: 600, block_bits: 17 });
    assert_eq!(waveform(&stage), "600/long");
    stage.tell(&Packet::TransmitSetup { bits_per_s: 601, block_bits: 17 });
    assert_eq!(waveform(&stage), "600/long");

    stage.stop_modem();
    stage.start_modem("4800/long");
    assert_eq!(waveform(&stage), "4800/long");
    assert_eq!(stage.station.node.stats().rate_changes, 4);
}

struct Stage {
    now: Time,
    station: Station,
    listener: TcpListener,
    modem: Option<(TcpStream, Dce)>,
    clients: Vec<(TcpStream, client::Client)>,
    /// `number of the client, what it hears`.
    story: Vec<String>,
}

impl Stage {
    fn new(waveform: &str) -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(anywhere).unwrap();
        let server = Server::bind(anywhere).unwrap();
        let mut config = node::Config::new(Address::node(1), waveform.parse().unwrap());
        config.rate = Rate::Modem;
        config.access = Access::Slotted { position: 0, stations: 2 };
        Self {
            now: Time::ZERO,
            station: Station::new(Time::ZERO, config, server, listener.local_addr().unwrap(), 1),
            listener,
            modem: None,
            clients: Vec::new(),
            story: Vec::new(),
        }
    }

    /// A client that binds this access point.
    fn connect(&mut self, sap: u8) {
        let stream = TcpStream::connect(self.station.server.local_address().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut client = client::Client::new(client::Config::new(Sap::new(sap)));
        client.handle_connected(self.now);
        self.clients.push((stream, client));
    }

    /// Takes the station's connection.
    fn accept(&mut self) -> TcpStream {
        // It dials again after half a minute at the latest.
        self.now += Duration::from_secs(30);
        self.station.act(self.now);
        let mut fds = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let patience = TimeSpec::from(Duration::from_secs(10));
        assert_eq!(ppoll(&mut fds, Some(patience), None), Ok(1), "the station does not dial");
        self.listener.accept().unwrap().0
    }

    fn start_modem(&mut self, waveform: &str) {
        let stream = self.accept();
        stream.set_nonblocking(true).unwrap();
        let waveform: Waveform = waveform.parse().unwrap();
        let config = lan::Config { waveform, is_receiver_master: false };
        self.modem = Some((stream, Dce::new(self.now, config)));
        // It may speak before the station sees that there is a connection.
        self.turn_modem();
        self.run();
    }

    fn stop_modem(&mut self) {
        self.modem = None;
        self.run();
    }

    /// Has the modem say something.
    fn tell(&mut self, packet: &Packet<'_>) {
        let mut octets = Vec::new();
        packet.emit(&mut octets);
        self.modem.as_mut().unwrap().0.write_all(&octets).unwrap();
        self.run();
    }

    /// Carries octets until nothing has moved for a while.
    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < 5 {
            self.now += Duration::from_millis(1);
            self.station.act(self.now);
            let ready = self.wait(Duration::from_millis(10));
            self.station.handle_ready(self.now, &ready);
            let has_moved = self.turn_modem() | self.turn_clients();
            quiet = if has_moved { 0 } else { quiet + 1 };
        }
    }

    /// What of the station's is ready, after a while at most.
    fn wait(&self, patience: Duration) -> Vec<PollFlags> {
        let mut fds = Vec::new();
        self.station.watch(&mut fds);
        ppoll(&mut fds, Some(TimeSpec::from(patience)), None).unwrap();
        fds.iter().map(|fd| fd.revents().unwrap()).collect()
    }

    fn turn_modem(&mut self) -> bool {
        let Some((stream, dce)) = &mut self.modem else { return false };
        let read = receive(stream);
        dce.handle_octets(self.now, &read);
        dce.handle_timeout(self.now);
        let mut octets = Vec::new();
        while dce.poll_octets(&mut octets) {}
        stream.write_all(&octets).unwrap();
        !(read.is_empty() && octets.is_empty())
    }

    fn turn_clients(&mut self) -> bool {
        let mut has_moved = false;
        for (number, (stream, client)) in self.clients.iter_mut().enumerate() {
            let read = receive(stream);
            client.handle_octets(self.now, &read);
            let mut octets = Vec::new();
            while client.poll_octets(self.now, &mut octets) {}
            stream.write_all(&octets).unwrap();
            has_moved |= !(read.is_empty() && octets.is_empty());
            while let Some(event) = client.poll_event() {
                self.story.push(match event {
                    client::Event::Bound { .. } => format!("{number} bound"),
                    client::Event::Availability { status, .. } => format!("{number} {status}"),
                    other => format!("{number} {other:?}"),
                });
            }
        }
        has_moved
    }

    fn take_story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.story)
    }
}

/// What has come.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut octets = vec![0; 4_096];
    let len = match stream.read(&mut octets) {
        Ok(len) => len,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    };
    octets.truncate(len);
    octets
}
