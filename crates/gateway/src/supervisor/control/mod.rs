//! The control socket: answers questions about the running gateway, and takes orders.
//!
//! ```text
//!   client ── request in JSON, end ──▶ gateway
//!          ◀─── answer in JSON, end ──
//! ```
//! Root and the gateway's own user may ask and order; a group that the configuration names may ask for the status and for
//! explanations. Nobody is waited for.

mod ask;
mod far;
mod place;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use base::time::{Time, earliest};
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};
use tracing::debug;

use super::traffic::Switch;
use crate::config::edit::PeerChange;
use crate::explain::Question;
use crate::linux::account::Account;
use crate::reactor::has_input;

pub use ask::{
    NoGateway, ask_explanation, ask_hand_over, ask_peer, ask_reload, ask_status, ask_switch,
};
use place::{Access, Place};
pub use place::{keep_folder, remove_left};

/// A client that has not asked, or not read its answer, after so long is cut off.
const ASKING: Duration = Duration::from_secs(1);
const ANSWERING: Duration = Duration::from_secs(5);
/// Until callers are looked at again when there were no descriptors for them.
const DEAF: Duration = Duration::from_secs(1);
/// Clients at a time; others wait in the kernel.
const CLIENTS: usize = 8;
/// Octets of a request at most: a peer may have a thousand networks.
const LONGEST: usize = 64 << 10;

/// What can be asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    Explain(Question),
    HandOver,
    /// Lets a service panic: tests then check the fate of its streams.
    #[cfg(debug_assertions)]
    Panic(String),
    Peer(PeerChange),
    Reload,
    Status,
    Switch(Switch),
}

/// The gateway's end.
#[derive(Debug)]
pub struct Control {
    place: Place,
    /// Whether others than root and our own user may be at the socket: members of its group.
    has_group: bool,
    clients: Vec<Client>,
    /// Of the last client.
    number: u64,
    /// Set while no connection can be accepted: the listener is not polled until then, because a waiting caller
    /// would end each poll at once.
    deaf_until: Option<Time>,
    /// Given up for a caller when there is no other descriptor: an operator who asks why nothing works is answered.
    spare: Option<File>,
}

/// Identifies the client to which an answer goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientId(u64);

#[derive(Debug)]
struct Client {
    id: ClientId,
    stream: UnixStream,
    /// Whether the client may give orders besides asking.
    may_order: bool,
    stage: Stage,
    until: Time,
}

#[derive(Debug)]
enum Stage {
    Asking {
        asked: Vec<u8>,
    },
    /// It is about to be answered.
    Waiting,
    Answering {
        answer: Vec<u8>,
        written: usize,
    },
}

impl Control {
    /// Opens the socket, `at` this path or the usual one, for this `account` or our own user; members of the group
    /// may ask for the status.
    ///
    /// # Errors
    /// When another gateway runs in this network namespace or has the socket, or it cannot be made.
    pub fn open(
        at: Option<&Path>,
        account: Option<&Account>,
        group: Option<Gid>,
    ) -> anyhow::Result<Self> {
        let place = Place::open(at, Access { account, group })?;
        Ok(Self { has_group: group.is_some(), ..Self::new(place) })
    }

    /// A control socket whose network namespace may have other gateways.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(test)]
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        Place::at(path).map(Self::new)
    }

    fn new(place: Place) -> Self {
        Self {
            place,
            has_group: false,
            clients: Vec::new(),
            number: 0,
            deaf_until: None,
            spare: spare(),
        }
    }

    /// Whether others find the socket by its name.
    pub fn is_there(&self) -> bool {
        self.place.is_there()
    }

    /// Opens the socket again after others have removed its name. Clients that have connected are answered.
    ///
    /// # Errors
    /// When its folder is missing and this user may not make it, or another gateway has the place by now.
    pub fn restore(&mut self) -> anyhow::Result<()> {
        self.place.restore()
    }

    /// Appends what to wait for.
    pub fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let has_room = self.clients.len() < CLIENTS && self.deaf_until.is_none();
        let wanted = if has_room { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.push(PollFd::new(self.place.listener().as_fd(), wanted));
        fds.extend(self.clients.iter().map(|client| {
            let wanted = match client.stage {
                Stage::Asking { .. } => PollFlags::POLLIN,
                Stage::Waiting => PollFlags::empty(),
                Stage::Answering { .. } => PollFlags::POLLOUT,
            };
            PollFd::new(client.stream.as_fd(), wanted)
        }));
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.clients.iter().map(|client| Some(client.until)).fold(self.deaf_until, earliest)
    }

    /// Takes what has come; returns who asks what.
    pub fn handle_ready(&mut self, now: Time, ready: &[PollFlags]) -> Vec<(ClientId, Request)> {
        let mut requests = Vec::new();
        let mut ready = ready.iter().copied();
        let has_callers = ready.next().is_some_and(has_input);
        self.clients.retain_mut(|client| {
            let flags = ready.next().unwrap_or(PollFlags::empty());
            if !flags.is_empty() && !client.go_on(&mut requests) {
                return false;
            }
            // The gateway may have been slow itself: read the client's octets before judging the client.
            let is_slow = client.until <= now && !matches!(client.stage, Stage::Waiting);
            if is_slow {
                debug!("a client of the control socket is too slow");
            }
            !is_slow
        });
        if self.spare.is_none() && self.clients.is_empty() {
            self.spare = spare();
        }
        if has_callers {
            self.accept(now, |listener| listener.accept().map(|(stream, _)| stream));
        } else {
            self.deaf_until.take_if(|until| *until <= now);
        }
        requests
    }

    /// Answers with a line of JSON.
    pub fn answer(&mut self, now: Time, to: ClientId, answer: &impl Serialize) {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == to) else { return };
        let mut text = serde_json::to_vec(answer).unwrap_or_default();
        text.push(b'\n');
        client.stage = Stage::Answering { answer: text, written: 0 };
        client.until = now + ANSWERING;
    }

    fn accept(&mut self, now: Time, accept: impl Fn(&UnixListener) -> io::Result<UnixStream>) {
        while self.clients.len() < CLIENTS {
            let stream = match accept(self.place.listener()) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_short(&error) && self.spare.take().is_some() => continue,
                Err(error) => {
                    debug!(%error, "nobody can be accepted at the control socket");
                    self.deaf_until = Some(now + DEAF);
                    return;
                }
            };
            // Also where the file's mode was changed. With a group the file's mode lets in nobody but its members.
            let may_order = may_order(&stream);
            if !(may_order || self.has_group) || stream.set_nonblocking(true).is_err() {
                debug!("somebody else's program at the control socket: it is not answered");
                continue;
            }
            self.number += 1;
            let stage = Stage::Asking { asked: Vec::new() };
            let until = now + ASKING;
            let id = ClientId(self.number);
            self.clients.push(Client { id, stream, may_order, stage, until });
        }
    }
}

impl Client {
    /// Reads or writes what can be; returns whether that was not all.
    fn go_on(&mut self, requests: &mut Vec<(ClientId, Request)>) -> bool {
        match &mut self.stage {
            Stage::Asking { asked } => {
                let mut some = [0; 512];
                loop {
                    match self.stream.read(&mut some) {
                        Ok(0) => break,
                        Ok(len) => asked.extend_from_slice(&some[..len]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                        Err(_) => return false,
                    }
                    if asked.len() > LONGEST {
                        return false;
                    }
                }
                let Ok(request) = serde_json::from_slice(asked) else { return false };
                let is_order = match &request {
                    Request::Explain(_) | Request::Status => false,
                    #[cfg(debug_assertions)]
                    Request::Panic(_) => true,
                    Request::HandOver | Request::Peer(_) | Request::Reload | Request::Switch(_) => {
                        true
                    }
                };
                if is_order && !self.may_order {
                    debug!("an order at the control socket by who may only ask");
                    return false;
                }
                requests.push((self.id, request));
                self.stage = Stage::Waiting;
                true
            }
            // It has gone.
            Stage::Waiting => false,
            Stage::Answering { answer, written } => loop {
                match self.stream.write(&answer[*written..]) {
                    Ok(0) => return false,
                    Ok(len) => *written += len,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                    Err(_) => return false,
                }
                if *written == answer.len() {
                    return false;
                }
            },
        }
    }
}

fn is_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn may_order(stream: &UnixStream) -> bool {
    let user = getsockopt(stream, sockopt::PeerCredentials).map(|who| Uid::from_raw(who.uid()));
    user.is_ok_and(|user| user.is_root() || user == Uid::effective())
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use nix::poll::{PollTimeout, poll};

    use super::*;

    const BEGIN: Time = Time::ZERO;

    /// A gateway that answers every question with the same.
    fn turn(control: &mut Control, now: Time, answer: &str) -> usize {
        let mut fds = Vec::new();
        control.watch(&mut fds);
        poll(&mut fds, PollTimeout::ZERO).unwrap();
        let ready: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap()).collect();
        let requests = control.handle_ready(now, &ready);
        for (client, _) in &requests {
            control.answer(now, *client, &answer);
        }
        requests.len()
    }

    fn open(name: &str) -> (Control, std::path::PathBuf) {
        let name = format!("trackway-{name}-{}.sock", std::process::id());
        let at = std::env::temp_dir().join(name);
        (Control::at(&at).unwrap(), at)
    }

    #[test]
    fn the_silent_make_room_after_a_second_and_who_waited_is_answered() {
        let (mut control, at) = open("silent");
        let silent: Vec<_> = (0..CLIENTS).map(|_| UnixStream::connect(&at).unwrap()).collect();
        let mut asking = UnixStream::connect(&at).unwrap();
        asking.write_all(b"\"status\"").unwrap();
        asking.shutdown(Shutdown::Write).unwrap();

        let early: usize = (0..5).map(|_| turn(&mut control, BEGIN, "so it is")).sum();
        let full = control.clients.len();
        let mut fds = Vec::new();
        control.watch(&mut fds);
        assert!(fds[0].events().is_empty(), "who waits in the kernel would wake us in vain");
        drop(fds);
        let due = control.next_timeout();
        let late: usize = (0..5).map(|_| turn(&mut control, BEGIN + ASKING, "so it is")).sum();
        let mut said = String::new();
        asking.read_to_string(&mut said).unwrap();

        assert_eq!((early, full, due), (0, CLIENTS, Some(BEGIN + ASKING)));
        assert_eq!((late, &said[..]), (1, "\"so it is\"\n"));
        assert!(control.clients.is_empty());
        drop(silent);
    }

    #[test]
    fn the_guide_says_after_how_long_the_silent_are_cut_off() {
        let page = include_str!("../../../../../docs/guide/gateway.md");

        assert!(page.contains(&format!("cut off after {} s |", ASKING.as_secs())));
    }

    #[test]
    fn an_answer_that_is_not_read_holds_up_nobody() {
        let (mut control, at) = open("unread");
        let long = "x".repeat(4 << 20);
        let mut asking = UnixStream::connect(&at).unwrap();
        asking.write_all(b"\"status\"").unwrap();
        asking.shutdown(Shutdown::Write).unwrap();

        let asked: usize = (0..5).map(|_| turn(&mut control, BEGIN, &long)).sum();
        let before = control.clients.len();
        turn(&mut control, BEGIN + ANSWERING, &long);

        assert_eq!((asked, before, control.clients.len()), (1, 1, 0));
    }

    #[test]
    fn the_last_descriptor_is_for_a_caller() {
        let (mut control, at) = open("spare");
        let _caller = UnixStream::connect(&at).unwrap();
        let tries = std::cell::Cell::new(0);

        control.accept(BEGIN, |listener| {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
                _ => listener.accept().map(|(stream, _)| stream),
            }
        });

        assert_eq!((control.clients.len(), control.deaf_until), (1, None));
        assert!(control.spare.is_none());
        control.clients.clear();
        turn(&mut control, BEGIN, "");
        assert!(control.spare.is_some());
    }

    #[test]
    fn without_descriptors_callers_are_looked_at_again_after_a_second() {
        let (mut control, at) = open("deaf");
        let wanted = |control: &Control| {
            let mut fds = Vec::new();
            control.watch(&mut fds);
            fds[0].events()
        };

        control.accept(BEGIN, |_| Err(io::Error::from_raw_os_error(nix::libc::EMFILE)));
        let (deaf, due) = (wanted(&control), control.next_timeout());
        let mut asking = UnixStream::connect(&at).unwrap();
        asking.write_all(b"\"status\"").unwrap();
        asking.shutdown(Shutdown::Write).unwrap();
        turn(&mut control, BEGIN + DEAF / 2, "");
        let half = wanted(&control);
        let asked: usize = (0..5).map(|_| turn(&mut control, BEGIN + DEAF, "")).sum();

        assert_eq!((deaf, half), (PollFlags::empty(), PollFlags::empty()));
        assert_eq!(due, Some(BEGIN + DEAF));
        assert_eq!((asked, control.next_timeout()), (1, None));
    }

    #[test]
    fn what_is_no_request_or_too_long_is_cut_off() {
        let (mut control, at) = open("long");
        // Blanks before a request are a part of it.
        let request = "\"status\"";
        let long = " ".repeat(LONGEST + 1 - request.len()) + request;
        for said in ["\"nothing\"", &long] {
            let mut asking = UnixStream::connect(&at).unwrap();
            asking.write_all(said.as_bytes()).unwrap();
            asking.shutdown(Shutdown::Write).unwrap();

            let asked: usize = (0..5).map(|_| turn(&mut control, BEGIN, "")).sum();

            assert_eq!((asked, control.clients.len()), (0, 0));
        }
        let mut asking = UnixStream::connect(&at).unwrap();
        asking.write_all(&long.as_bytes()[1..]).unwrap();
        asking.shutdown(Shutdown::Write).unwrap();
        assert_eq!((0..5).map(|_| turn(&mut control, BEGIN, "")).sum::<usize>(), 1);
    }
}
