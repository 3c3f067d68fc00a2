//! Runs one connection of ours against the kernel at the other end, in a network namespace.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::ip::{self, FlowKey, protocol};
use base::rng::Rng;
use base::tcp::{Flags, Segment};
use base::time::{Time, earliest};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use tcp::{Config, Connection, Event, LossRecovery, Offer, Rto, State};
use tun_rs::{DeviceBuilder, SyncDevice};

/// A case that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The default with timers that do not make a test wait.
pub fn quick() -> Config {
    Config {
        time_wait: Duration::from_millis(100),
        rto: Rto {
            initial: Duration::from_millis(300),
            syn: Duration::from_millis(300),
            after_syn_timeout: Duration::from_millis(300),
            min: Duration::from_millis(100),
            max: Duration::from_secs(1),
            ..Rto::default()
        },
        ..Config::default()
    }
}

/// Each option on and off.
pub fn configs() -> [Config; 6] {
    let plain = Config {
        offer: Offer { sack: false, timestamps: false, window_scaling: false, ..quick().offer },
        recovery: LossRecovery { limited_transmit: false, ..quick().recovery },
        ..quick()
    };
    [
        quick(),
        plain,
        Config { offer: Offer { sack: true, ..plain.offer }, ..plain },
        Config { offer: Offer { timestamps: true, ..plain.offer }, mss: Some(536), ..plain },
        Config {
            offer: Offer { ecn: true, ..quick().offer },
            nagle: false,
            receive_buffer: 5_000,
            send_buffer: 3_000,
            ..quick()
        },
        Config {
            offer: Offer { window_scaling: true, ..plain.offer },
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            ..plain
        },
    ]
}

/// What happens to packets between the two ends.
#[derive(Clone, Copy)]
pub struct Trouble {
    loss: f64,
    delay: f64,
    double: f64,
}

impl Trouble {
    pub const NONE: Self = Self { loss: 0.0, delay: 0.0, double: 0.0 };
    pub const MUCH: Self = Self { loss: 0.03, delay: 0.05, double: 0.02 };
}

/// The driver of one connection.
pub struct Rig {
    device: SyncDevice,
    start: Instant,
    config: Config,
    tcp: Option<Connection>,
    /// Whether a SYN is taken.
    listens: bool,
    trouble: Trouble,
    rng: Rng,
    /// Packets that come or go later.
    late: BTreeMap<(Time, u64), (Way, Vec<u8>)>,
    count: u64,
    to_send: Vec<u8>,
    sent: usize,
    pub(crate) received: Vec<u8>,
    events: Vec<Event>,
    pub(crate) closes: bool,
    pub(crate) is_lazy: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    In,
    Out,
}

impl Rig {
    pub fn new(config: Config, trouble: Trouble) -> Self {
        let device = DeviceBuilder::new().name("peer0").mtu(1_500).build_sync().unwrap();
        device.set_nonblocking(true).unwrap();
        for arguments in [
            &["address", "add", "10.9.0.1/24", "dev", "peer0"][..],
            &["address", "add", "fd09::1/64", "dev", "peer0", "nodad"][..],
            &["link", "set", "peer0", "up"][..],
        ] {
            assert!(Command::new("ip").args(arguments).status().unwrap().success());
        }
        Self {
            device,
            start: Instant::now(),
            config,
            tcp: None,
            listens: false,
            trouble,
            rng: Rng::stream(5, "trouble"),
            late: BTreeMap::new(),
            count: 0,
            to_send: Vec::new(),
            sent: 0,
            received: Vec::new(),
            events: Vec::new(),
            closes: false,
            is_lazy: false,
        }
    }

    /// Moves `len` octets in both directions at once, then closes; all must arrive.
    pub fn exchange(&mut self, is_v6: bool, we_connect: bool, we_close_first: bool, len: usize) {
        let app = if we_connect {
            let listener = TcpListener::bind(kernel(is_v6, 0)).unwrap();
            self.connect(listener.local_addr().unwrap());
            thread::spawn(move || listener.accept().unwrap().0)
        } else {
            self.listens = true;
            thread::spawn(move || TcpStream::connect(ours(is_v6, 80)).unwrap())
        };
        let app = thread::spawn(move || {
            let mut stream = app.join().unwrap();
            let reader = read_to_end(stream.try_clone().unwrap());
            stream.write_all(&pattern(len)).unwrap();
            if we_close_first {
                // Reading ends by our FIN; this end closes when that is done.
                let read = reader.join().unwrap();
                drop(stream);
                read
            } else {
                stream.shutdown(Shutdown::Write).unwrap();
                reader.join().unwrap()
            }
        });
        self.send(&pattern(len));
        self.closes = we_close_first;
        if !we_close_first {
            self.run_until("the kernel's FIN", |rig| rig.has(Event::PeerClosed));
            self.closes = true;
        }
        self.run_until("the end", |rig| rig.has(Event::Closed) && app.is_finished());
        assert!(app.join().unwrap() == pattern(len), "what the kernel read");
        assert!(self.received == pattern(len), "what we read");
    }

    /// Opens a connection to a kernel that listens; returns its socket.
    pub fn connected(&mut self) -> TcpStream {
        let listener = TcpListener::bind(kernel(false, 0)).unwrap();
        self.connect(listener.local_addr().unwrap());
        self.run_until("connected", |rig| rig.has(Event::Connected));
        listener.accept().unwrap().0
    }

    pub fn connect(&mut self, remote: SocketAddr) {
        let local = ours(remote.is_ipv6(), 40_000);
        let now = self.now();
        self.tcp = Some(Connection::connect(now, self.config, local, remote, &mut self.rng));
    }

    pub fn send(&mut self, octets: &[u8]) {
        self.to_send.extend_from_slice(octets);
    }

    pub fn tcp(&mut self) -> &mut Connection {
        self.tcp.as_mut().unwrap()
    }

    pub fn has(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    pub fn run_until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.settle();
            if is_done(self) {
                return;
            }
            let story =
                || format!("{:?} {:?}", self.events, self.tcp.as_ref().map(Connection::stats));
            assert!(Instant::now() < deadline, "not in time: {what}: {}", story());

            let now = self.now();
            let timer = self.tcp.as_ref().and_then(Connection::next_timeout);
            let late = self.late.keys().next().map(|key| key.0);
            // The threads of a test end without a packet: look at them now and then.
            let wait = earliest(timer, late).map_or(Duration::MAX, |at| at.since(now));
            let wait = PollTimeout::try_from(wait.min(Duration::from_millis(20))).unwrap();
            let mut fds = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, wait).unwrap();
            self.receive();
            self.handle_due();
        }
    }

    pub fn receive(&mut self) {
        let mut buffer = [0; 2_000];
        while let Ok(len) = self.device.recv(&mut buffer) {
            self.pass(Way::In, &buffer[..len]);
        }
    }

    pub fn handle_due(&mut self) {
        let now = self.now();
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now) {
            let (way, packet) = entry.remove();
            self.arrive(way, &packet);
        }
        if let Some(tcp) = &mut self.tcp
            && tcp.next_timeout().is_some_and(|at| at <= now)
        {
            tcp.handle_timeout(now);
        }
        self.settle();
    }

    /// A packet enters the path between the ends.
    pub fn pass(&mut self, way: Way, packet: &[u8]) {
        let Trouble { loss, delay, double } = self.trouble;
        let copies = match (self.rng.chance(loss), self.rng.chance(double)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        for _ in 0..copies {
            if self.rng.chance(delay) {
                let at = self.now() + self.rng.within(Duration::from_millis(20));
                self.count += 1;
                self.late.insert((at, self.count), (way, packet.to_vec()));
            } else {
                self.arrive(way, packet);
            }
        }
    }

    pub fn arrive(&mut self, way: Way, packet: &[u8]) {
        if way == Way::Out {
            // A full device is one more loss.
            let _ = self.device.send(packet);
            return;
        }
        let Ok(header) = ip::Header::parse(packet) else { return };
        let (flow, offset) = FlowKey::of(&header, packet);
        if flow.protocol != protocol::TCP {
            return;
        }
        let segment = Segment::parse(&header, packet, offset).unwrap();
        let now = self.now();
        let (local, remote) = (segment.destination, segment.source);
        let is_ours = |tcp: &Connection| tcp.local() == local && tcp.remote() == remote;
        match &mut self.tcp {
            Some(tcp) if is_ours(tcp) => tcp.handle_segment(now, &segment),
            None if self.listens && segment.flags.has(Flags::SYN) => {
                let (config, rng) = (self.config, &mut self.rng);
                self.tcp = Some(Connection::accept(now, config, local, remote, &segment, rng));
            }
            Some(_) | None => {
                let mut out = Vec::new();
                if let Some(reset) = segment.reset_for() {
                    reset.emit(&mut out);
                    self.pass(Way::Out, &out);
                }
            }
        }
        self.settle();
    }

    /// What a driver does after each call.
    pub fn settle(&mut self) {
        let now = self.now();
        let Some(tcp) = &mut self.tcp else { return };
        while let Some(event) = tcp.poll_event() {
            self.events.push(event);
        }
        let mut buffer = [0; 65_536];
        while !self.is_lazy {
            let len = tcp.read(&mut buffer);
            if len == 0 {
                break;
            }
            self.received.extend_from_slice(&buffer[..len]);
        }
        self.sent += tcp.write(&self.to_send[self.sent..]);
        if self.closes && self.sent == self.to_send.len() && tcp.state() != State::SynSent {
            tcp.close();
        }
        let mut packets = Vec::new();
        let mut out = Vec::new();
        while tcp.poll_transmit(now, &mut out) {
            packets.push(std::mem::take(&mut out));
        }
        for packet in packets {
            self.pass(Way::Out, &packet);
        }
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }
}

/// Runs a test in a network namespace of its own, which ends with its threads.
pub fn in_a_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub fn read_to_end(mut stream: TcpStream) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).unwrap();
        octets
    })
}

pub fn kernel(is_v6: bool, port: u16) -> SocketAddr {
    let address = if is_v6 { "fd09::1" } else { "10.9.0.1" };
    SocketAddr::new(address.parse().unwrap(), port)
}

pub fn ours(is_v6: bool, port: u16) -> SocketAddr {
    let address = if is_v6 { "fd09::2" } else { "10.9.0.2" };
    SocketAddr::new(address.parse().unwrap(), port)
}

/// Octets that tell where in the stream they belong.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}
