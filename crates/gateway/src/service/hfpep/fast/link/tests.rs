use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Instant;

use hf::hfpep::Target;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;
use crate::config::Config;
use crate::service::hfpep::admission::Admission;
use crate::service::hfpep::termination::Termination;
use crate::service::hfpep::wire::{Wire, reset_when_closed};
use crate::sys::tcp::unacknowledged;

const NOW: Time = Time::ZERO;
/// How long the kernel may take for what is sure to come.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn what_the_far_end_said_before_its_reset_reaches_a_program_that_is_sending() {
    let (rig, mut program, mut far_end) = Rig::open();
    let said: Vec<u8> = (0..60_000_u32).map(|at| at.to_be_bytes()[3]).collect();

    far_end.write_all(&said).unwrap();
    reset(far_end, &rig.link.bearer);
    program.write_all(b"are you still there?").unwrap();
    wait_for(rig.local(), PollFlags::POLLIN);
    // What the program says is noticed before the reset.
    rig.finish(Ready { bearer: EpollFlags::empty(), local: EpollFlags::EPOLLIN });

    let (heard, error) = hear(&mut program);
    assert_eq!((heard.len(), error), (said.len(), Some(ErrorKind::ConnectionReset)));
    assert!(heard == said);
}

#[test]
fn what_a_program_said_before_its_reset_reaches_a_far_end_that_reads_late() {
    let (mut rig, mut program, mut far_end) = Rig::open();
    program.set_nonblocking(true).unwrap();
    let mut said = 0;
    // The path is full, so that something waits here.
    while !rig.link.bearer.has_unsent() {
        said += program.write(&[7; 100_000]).unwrap_or(0);
        rig.advance(Ready::ALL);
    }
    reset(program, rig.local());

    let step = rig.advance(Ready { bearer: EpollFlags::empty(), local: EpollFlags::EPOLLERR });
    let waits = matches!(step, Step::Wait);
    far_end.set_nonblocking(true).unwrap();
    let mut heard = Vec::new();
    let began = Instant::now();
    while waits && !matches!(rig.advance(Ready::ALL), Step::Broken(_)) {
        let _ = far_end.read_to_end(&mut heard);
        assert!(began.elapsed() < SOON, "{} of {said}", heard.len());
    }
    rig.link.abort();
    far_end.set_nonblocking(false).unwrap();
    let (rest, error) = hear(&mut far_end);

    assert!(waits, "{step:?}");
    assert_eq!((heard.len() + rest.len(), error), (said, Some(ErrorKind::ConnectionReset)));
}

#[test]
fn who_does_not_read_what_came_before_a_reset_is_not_waited_for_without_end() {
    let (mut rig, _program, mut far_end) = Rig::open();
    far_end.set_nonblocking(true).unwrap();
    while !rig.local().has_unsent() {
        let _ = far_end.write(&[7; 100_000]);
        rig.advance(Ready::ALL);
    }
    assert_eq!(rig.link.next_timeout(), None);
    reset(far_end, &rig.link.bearer);
    let step = rig.advance(Ready { bearer: EpollFlags::EPOLLERR, local: EpollFlags::empty() });
    let limit = rig.link.next_timeout();

    assert!(matches!(step, Step::Wait), "{step:?}");
    assert_eq!(limit, Some(NOW + Duration::from_secs(10)));
}

#[test]
fn what_was_said_to_a_target_before_a_reset_waits_until_it_is_connected_to() {
    let (mut rig, _, mut far_end) = Rig::open();
    let (local, mut target) = pair();
    let at = target.local_addr().unwrap();
    let opening = Opening { target: Target::Address { source: at, destination: at }, tls: None };
    rig.link.connect(NOW, Connection::connecting(NOW, local), opening, b"GET".to_vec());

    far_end.write_all(b" /").unwrap();
    reset(far_end, &rig.link.bearer);
    rig.finish(Ready { bearer: EpollFlags::EPOLLERR, local: EpollFlags::empty() });

    assert_eq!(hear(&mut target), (b"GET /".to_vec(), Some(ErrorKind::ConnectionReset)));
}

#[test]
fn an_end_before_a_reset_is_told_and_a_reset_is_no_end() {
    for is_finished in [true, false] {
        let (rig, mut program, mut far_end) = Rig::open();
        far_end.write_all(b"all").unwrap();
        if is_finished {
            far_end.shutdown(Shutdown::Write).unwrap();
        }
        reset(far_end, &rig.link.bearer);

        rig.finish(Ready { bearer: EpollFlags::EPOLLERR, local: EpollFlags::empty() });

        let error = (!is_finished).then_some(ErrorKind::ConnectionReset);
        assert_eq!(hear(&mut program), (b"all".to_vec(), error), "finished: {is_finished}");
    }
}

#[test]
fn a_client_that_has_ended_is_told_the_end_when_the_target_has_all_and_any_other_at_once() {
    for (has_ended, has_all) in [(false, false), (true, false), (true, true)] {
        let (mut rig, mut program, mut far_end) = Rig::open();
        rig.link.confirming = Some(Confirming::awaited());
        if has_ended {
            program.shutdown(Shutdown::Write).unwrap();
            wait_for(rig.local(), PollFlags::POLLIN);
        }
        far_end.write_all(b"\0\x02hi\0\0\0").unwrap();
        if has_all {
            far_end.write_all(b"\0\0\x01").unwrap();
        }
        let began = Instant::now();
        while rig.link.read < 2 || has_all && !rig.link.is_confirmed() {
            rig.advance(Ready::ALL);
            assert!(began.elapsed() < SOON, "{:?}", rig.link);
        }

        let mut heard = [0; 2];
        program.read_exact(&mut heard).unwrap();
        program.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let end = program.read(&mut [0; 1]).map_err(|error| error.kind());
        let is_told = !has_ended || has_all;
        let expected = if is_told { Ok(0) } else { Err(ErrorKind::WouldBlock) };
        assert_eq!((heard, end), (*b"hi", expected), "ended: {has_ended}, has all: {has_all}");
    }
}

#[test]
fn a_bearer_that_ends_before_the_word_or_says_nonsense_is_no_end_for_a_client() {
    for (said, reason) in
        [(&b"\0\x02hi\0\0\0"[..], Reason::CONNECTION_RESET), (b"\0\0\x07", Reason::PROTOCOL_ERROR)]
    {
        let (mut rig, mut program, mut far_end) = Rig::open();
        rig.link.confirming = Some(Confirming::awaited());
        program.shutdown(Shutdown::Write).unwrap();
        far_end.write_all(said).unwrap();
        far_end.shutdown(Shutdown::Write).unwrap();

        let began = Instant::now();
        let broken = loop {
            match rig.advance(Ready::ALL) {
                Step::Broken(reason) => break reason,
                step => assert!(began.elapsed() < SOON, "{step:?} {:?}", rig.link),
            }
        };
        rig.link.abort();

        assert_eq!(broken, reason);
        assert_eq!(hear(&mut program).1, Some(ErrorKind::ConnectionReset));
    }
}

#[test]
fn the_other_gateway_is_told_that_a_target_has_all_once_it_has_heard_the_end() {
    let (mut rig, mut target, mut far_end) = Rig::open();
    rig.link.confirming = Some(Confirming::owed());
    far_end.write_all(b"question").unwrap();
    target.write_all(b"hm").unwrap();
    let mut asked = [0; 8];
    rig.advance(Ready::ALL);
    far_end.set_nonblocking(true).unwrap();
    let mut told = Vec::new();
    let began = Instant::now();
    while told.len() < 4 {
        rig.advance(Ready::ALL);
        let _ = far_end.read_to_end(&mut told);
        assert!(began.elapsed() < SOON, "{:?}", rig.link);
    }
    target.read_exact(&mut asked).unwrap();

    far_end.shutdown(Shutdown::Write).unwrap();
    target.write_all(b"yes").unwrap();
    drop(target);
    while !matches!(rig.advance(Ready::ALL), Step::Over) {
        assert!(began.elapsed() < SOON, "{:?}", rig.link);
    }
    rig.link.close().unwrap().close();
    far_end.set_nonblocking(false).unwrap();
    let (rest, error) = hear(&mut far_end);

    assert_eq!((told, asked), (b"\0\x02hm".to_vec(), *b"question"));
    assert_eq!(error, None);
    // The word comes when the kernel has the acknowledgement, before the target's end or after.
    let [before, between, after] =
        [&b"\0\0\x01\0\x03yes\0\0\0"[..], b"\0\x03yes\0\0\x01\0\0\0", b"\0\x03yes\0\0\0\0\0\x01"];
    assert!([before, between, after].contains(&&rest[..]), "{rest:?}");
}

/// A link that carries octets between a program and the other gateway.
struct Rig {
    link: Link,
    relay: Relay,
    targets: Targets,
}

impl Rig {
    /// The link, the program, and what the other gateway has of the bearer.
    fn open() -> (Self, TcpStream, TcpStream) {
        let config = Config::parse("a.toml", "[hfpep]\nmode = \"shore\"\n").unwrap();
        let admission = Admission::new(&config.hf_pep.unwrap(), &[]);
        let targets = Targets::new(admission, Termination::new(&[], None).unwrap());
        let ((bearer, far_end), (local, program)) = (pair(), pair());
        let stage = Stage::Open { local: Connection::accepted(local) };
        let far = far_end.local_addr().unwrap();
        let link = Link::new(NOW, far, Connection::accepted(bearer), stage, true);
        (Self { link, relay: Relay::new().unwrap(), targets }, program, far_end)
    }

    fn local(&self) -> &Connection {
        self.link.stage.local().unwrap()
    }

    fn advance(&mut self, ready: Ready) -> Step {
        self.link.advance(NOW, ready, &mut self.relay, 0x50, &mut self.targets)
    }

    /// Goes on with what epoll says first until it is broken, and breaks both connections off.
    fn finish(mut self, mut ready: Ready) {
        let began = Instant::now();
        while !matches!(self.advance(ready), Step::Broken(_)) {
            ready = Ready::ALL;
            assert!(began.elapsed() < SOON, "{:?}", self.link);
        }
        self.link.abort();
    }
}

/// Both ends of a connection, of which one is the gateway's.
fn pair() -> (Wire, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (own, _) = listener.accept().unwrap();
    own.set_nonblocking(true).unwrap();
    other.set_read_timeout(Some(SOON)).unwrap();
    (Wire::new(own, None), other)
}

/// Resets a connection, behind all that was said, until the other end is told of it.
fn reset(stream: TcpStream, other: &Connection) {
    let began = Instant::now();
    while unacknowledged(&stream).unwrap() > 0 {
        assert!(began.elapsed() < SOON, "not acknowledged");
    }
    reset_when_closed(&stream, true);
    drop(stream);
    wait_for(other, PollFlags::POLLERR);
}

fn wait_for(connection: &Connection, what: PollFlags) {
    let mut fds = [PollFd::new(connection.as_fd(), what)];
    poll(&mut fds, PollTimeout::try_from(SOON).unwrap()).unwrap();
    assert!(fds[0].revents().unwrap().contains(what), "{:?}", fds[0].revents());
}

/// All that there is to read, and the error behind it; none at the end.
fn hear(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut heard = Vec::new();
    let error = stream.read_to_end(&mut heard).err();
    (heard, error.map(|error| error.kind()))
}
