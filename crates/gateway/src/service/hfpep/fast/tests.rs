use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use hf::hfpep::Target;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};

use super::*;
use crate::config::Config;
use crate::service::hfpep::admission::Admission;
use crate::service::hfpep::termination::Termination;

/// How long the kernel may take for what is sure to come.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn who_fills_the_gateway_with_silence_keeps_nobody_else_out() {
    let mut rig = Rig::new(2, 4);
    let mut silent: Vec<_> = (0..6).map(|_| rig.dial("127.0.0.1")).collect();
    let mut other = rig.dial("127.0.0.2");

    other.write_all(&rig.opening()).unwrap();
    rig.run_until(|fast| fast.stats.sessions_received == 1);

    let stats = rig.fast.stats;
    assert_eq!((stats.arrivals_displaced, stats.arriving), (3, 3));
    for gone in silent.drain(..3) {
        assert_eq!(end_of(gone), Err(ErrorKind::ConnectionReset));
    }
    silent[0].write_all(&rig.opening()).unwrap();
    rig.run_until(|fast| fast.stats.sessions_received == 2);
}

#[test]
fn silent_connections_stay_if_they_are_spare_and_no_more() {
    let mut rig = Rig::new(2, 100);
    let mut silent: Vec<_> = (0..5).map(|_| rig.dial("127.0.0.1")).collect();
    rig.now += SILENCE / 2;
    let late = rig.dial("127.0.0.1");

    for _ in 0..3 {
        rig.now += SILENCE;
        rig.fast.act(rig.now, &mut rig.targets);
    }

    assert_eq!((rig.fast.stats.arrivals_silent, rig.fast.stats.arriving), (4, 2));
    for gone in silent.drain(..4) {
        assert_eq!(end_of(gone), Err(ErrorKind::ConnectionReset));
    }
    for mut spare in [silent.remove(0), late] {
        spare.write_all(&rig.opening()).unwrap();
    }
    rig.run_until(|fast| fast.stats.sessions_received == 2);
}

#[test]
fn who_is_refused_again_and_again_has_bounded_room_too() {
    let mut rig = Rig::new(2, 4);
    let nobody = rig.opening();
    rig.target = TcpListener::bind("127.0.0.1:0").unwrap();

    for (round, said) in (0..).zip([b"GET / HTTP/1.1\r\n\r\n".to_vec(), nobody]) {
        let refused: Vec<_> = (1..=10)
            .map(|number| {
                let mut stranger = rig.dial("127.0.0.1");
                stranger.write_all(&said).unwrap();
                rig.run_until(|fast| fast.stats.sessions_declined == round * 10 + number);
                stranger
            })
            .collect();

        let stats = rig.fast.stats;
        assert_eq!((rig.fast.links.len(), stats.arrivals_displaced), (4, (round + 1) * 6));
        drop(refused);
        rig.run_until(|fast| fast.links.is_empty());
    }
}

#[test]
fn a_client_here_leaves_places_for_others() {
    let mut rig = Rig::new(2, 4);
    rig.fast.limit = 8;
    let gateway = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = gateway.local_addr().unwrap();
    let ask = |rig: &mut Rig, client: &str| {
        let target = Target::Address { source: at, destination: at };
        let opening = Opening { target, tls: None };
        let client = client.parse().unwrap();
        rig.fast.ask(rig.now, at, client, opening, false, &mut rig.targets)
    };

    let greedy: Vec<_> = (0..20).filter_map(|_| ask(&mut rig, "10.9.0.1")).collect();

    // Three quarters of all places; the others are for others.
    assert_eq!((greedy.len(), rig.fast.stats.sessions_over_share), (6, 14));
    assert!(ask(&mut rig, "10.9.0.2").is_some());
    rig.fast.withdraw(rig.now, greedy[0]);
    assert!(ask(&mut rig, "10.9.0.1").is_some(), "what is over does not count");
    assert!(ask(&mut rig, "10.9.0.1").is_none());
    assert!(ask(&mut rig, "10.9.0.3").is_some(), "the last place");
}

#[test]
fn a_client_of_another_gateway_leaves_places_for_others() {
    let mut rig = Rig::new(2, 100);
    rig.fast.limit = 8;
    let ask = |rig: &mut Rig, client: &str| {
        let destination = rig.target.local_addr().unwrap();
        let source = SocketAddr::new(client.parse().unwrap(), 4_000);
        let mut octets = Vec::new();
        let target = Target::Address { source, destination };
        Opening { target, tls: None }.emit(rig.fast.magic, &mut octets);
        let mut gateway = rig.dial("127.0.0.1");
        gateway.write_all(&octets).unwrap();
        let told = |fast: &Fast| fast.stats.sessions_received + fast.stats.sessions_declined;
        let before = told(&rig.fast);
        rig.run_until(|fast| told(fast) > before);
        gateway
    };

    let mut gateways: Vec<_> = (0..10).map(|_| ask(&mut rig, "10.9.0.1")).collect();
    gateways.push(ask(&mut rig, "10.9.0.2"));

    let stats = rig.fast.stats;
    assert_eq!((stats.sessions_received, stats.sessions_declined), (7, 4));
    assert_eq!(stats.sessions_over_share, 4);
    drop(gateways);
    rig.run_until(|fast| fast.stats.sessions == 0);
    let _gateway = ask(&mut rig, "10.9.0.1");
    assert_eq!(rig.fast.stats.sessions_received, 8, "what is over does not count");
}

/// What other gateways connect to.
struct Rig {
    fast: Fast,
    targets: Targets,
    now: Time,
    target: TcpListener,
}

impl Rig {
    /// So many spare connections are agreed on, and so many may carry nothing.
    fn new(spare: usize, most: usize) -> Self {
        let config = format!(
            "[hfpep]\nmode = \"shore\"\nallow = [{{ to = \"127.0.0.1/32\" }}]\n[hfpep.bearer]\n\
             listen = \"127.0.0.1:5099\"\nfrom = [\"127.0.0.0/8\"]\nspare = {spare}\n"
        );
        let mut config = Config::parse("a.toml", &config).unwrap().hf_pep.unwrap();
        config.bearer.listen = "127.0.0.1:0".parse().ok();
        let termination = Termination::new(&[], None).unwrap();
        let targets = Targets::new(Admission::new(&config, &[]), termination);
        let mut fast = Fast::open(&config).unwrap();
        fast.arrivals = Arrivals::new(most);
        Self { fast, targets, now: Time::ZERO, target: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    /// A connection from an address of this host, which the gateway has taken.
    fn dial(&mut self, from: &str) -> TcpStream {
        let to = self.fast.listener.as_ref().unwrap().local_addr().unwrap();
        let flags = SockFlag::SOCK_CLOEXEC;
        let made = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let from = SocketAddr::new(from.parse::<IpAddr>().unwrap(), 0);
        bind(made.as_raw_fd(), &SockaddrStorage::from(from)).unwrap();
        connect(made.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
        let before = self.fast.next;
        self.run_until(|fast| fast.next > before);
        let stream = TcpStream::from(made);
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    fn opening(&self) -> Vec<u8> {
        let at = self.target.local_addr().unwrap();
        let target = Target::Address { source: at, destination: at };
        let mut octets = Vec::new();
        Opening { target, tls: None }.emit(self.fast.magic, &mut octets);
        octets
    }

    fn run_until(&mut self, is_so: impl Fn(&Fast) -> bool) {
        let began = Instant::now();
        while !is_so(&self.fast) {
            assert!(began.elapsed() < SOON, "{:?}", self.fast.stats);
            let mut fds = [PollFd::new(self.fast.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(100_u8)).unwrap();
            self.fast.handle_ready(self.now, &mut self.targets);
            self.fast.act(self.now, &mut self.targets);
        }
    }
}

fn end_of(mut stream: TcpStream) -> Result<usize, ErrorKind> {
    stream.read(&mut [0; 1]).map_err(|error| error.kind())
}
