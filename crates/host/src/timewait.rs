//! Makes the kernel forget TCP connections that ended in peace and had borrowed addresses of other hosts.
//!
//! Linux gives a packet of a connection that it knows to the connection's socket before it looks for a route, and drops
//! the packet if the route then leads to another host. A connection that ended in peace is known for a minute
//! (`TIME_WAIT`). As long as a gateway leads packets for borrowed addresses to this host, the socket is the right
//! receiver. Once the gateway is gone, the other hosts could not connect with the same addresses and ports past this
//! host for that minute.
//!
//! The sockets are found by the upper half of their mark ([`Numbers::marks`]), and ended as `ss -K` does it
//! (`CONFIG_INET_DIAG_DESTROY`). Connections of this host's own addresses stay: their packets are delivered here.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use anyhow::Context as _;
use nix::libc;
use nix::sys::socket::SockProtocol;

use crate::links;
use crate::netlink::{self, Kernel, Message, Request};
use crate::numbers::{Mark, Numbers};

/// The firewall mark of redirected connections, on the accepted socket.
pub const LED: Mark = Mark(0x7061);

// linux/sock_diag.h, linux/inet_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
const INET_DIAG_BC_MARK_COND: u8 = 10;
/// `TCP_TIME_WAIT`, as a bit of the states that are asked for. A connection whose end was not acknowledged by the other
/// host is told as `TCP_FIN_WAIT2` although it waits in the same way.
const STATES: u32 = 1 << 6 | 1 << 5;
/// `idiag_timer` of a connection of which the kernel keeps no more than `TIME_WAIT` needs.
const TIMER: u8 = 3;
/// Octets of `struct inet_diag_sockid`; ports and addresses come first.
const SOCKET: usize = 48;
/// Octets of `struct inet_diag_msg` up to the end of its socket.
const FIXED: usize = 4 + SOCKET;
/// Connections ended after one look, and looks at most: some hundred thousand connections, which take a second.
const EACH: usize = 1 << 16;
const LOOKS: usize = 8;

/// Ends connections that wait in `TIME_WAIT`.
#[derive(Debug)]
pub struct TimeWait {
    sockets: Kernel,
    routes: Kernel,
}

/// A connection in the kernel's terms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Connection {
    family: u8,
    socket: [u8; SOCKET],
}

impl TimeWait {
    /// Opens sockets to the kernel.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        let sockets = Kernel::open_to(SockProtocol::NetlinkSockDiag)?;
        Ok(Self { sockets, routes: Kernel::open()? })
    }

    /// Ends all connections of ours with borrowed addresses that ended in peace; returns how many there were.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or ends no connections on request.
    pub fn forget(&mut self) -> io::Result<usize> {
        let own = links::own_addresses(&mut self.routes)?;
        let mut ended = 0;
        for family in [libc::AF_INET, libc::AF_INET6] {
            let family = u8::try_from(family).map_err(io::Error::other)?;
            for _ in 0..LOOKS {
                let found = self.find(family, &own)?;
                for connection in &found {
                    match self.sockets.ask(&connection.end(), |_| {}) {
                        Ok(()) => ended += 1,
                        // Its minute was over.
                        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                        Err(error) => return Err(error),
                    }
                }
                if found.len() < EACH {
                    break;
                }
            }
        }
        Ok(ended)
    }

    fn find(&mut self, family: u8, own: &BTreeSet<IpAddr>) -> io::Result<Vec<Connection>> {
        let marks = u32::from(Numbers::chosen().marks) << 16;
        let found = self.sockets.dump(&question(family, marks), |message, found| {
            let is_borrowed = |it: &Connection| it.source().is_some_and(|its| !own.contains(&its));
            if found.len() < EACH {
                found.extend(Connection::parse(message).filter(is_borrowed));
            }
        });
        match found {
            // This IP version is disabled in the kernel.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
            found => found,
        }
    }
}

/// Makes the kernel forget connections of ours that ended in peace. Call it only when no gateway leads their packets
/// here. Errors are logged.
pub fn forget() {
    let forgotten = TimeWait::open().and_then(|mut it| it.forget());
    match forgotten.context("connections that ended") {
        Ok(0) => {}
        Ok(count) => tracing::debug!(count, "connections that ended are forgotten"),
        Err(why) => tracing::warn!(
            why = %format!("{why:#}"),
            "for a minute nobody connects past this host with the addresses and ports of a connection that ended here: \
             the kernel needs INET_DIAG and INET_DIAG_DESTROY (`modprobe -a inet_diag tcp_diag`)"
        ),
    }
}

impl Connection {
    /// Reads `struct inet_diag_msg`; `None` if the connection is still in use.
    fn parse(message: Message<'_>) -> Option<Self> {
        let [family, _state, timer, _retransmissions, socket @ ..] = message.fixed::<FIXED>()?;
        (*timer == TIMER).then_some(Self { family: *family, socket: *socket })
    }

    /// The address at this host's side.
    fn source(&self) -> Option<IpAddr> {
        let len = if i32::from(self.family) == libc::AF_INET { 4 } else { 16 };
        netlink::address(self.socket.get(4..4 + len)?)
    }

    /// The order that ends it.
    fn end(&self) -> Request {
        Request::set(SOCK_DESTROY, 0, &fixed(self.family, u32::MAX, &self.socket))
    }
}

/// Asks for all connections of a version of IP whose mark has this upper half.
fn question(family: u8, marks: u32) -> Request {
    // `struct inet_diag_bc_op`, which goes on behind its 12 octets if the mark is one of ours, and otherwise 4 octets
    // behind the end, which passes the socket over; then `struct inet_diag_markcond`.
    let mut code = vec![INET_DIAG_BC_MARK_COND, 12];
    code.extend(16_u16.to_ne_bytes());
    code.extend(marks.to_ne_bytes());
    code.extend(0xffff_0000_u32.to_ne_bytes());
    Request::dump(SOCK_DIAG_BY_FAMILY, &fixed(family, STATES, &[0; SOCKET]))
        .with(INET_DIAG_REQ_BYTECODE, &code)
}

/// `struct inet_diag_req_v2` about TCP.
fn fixed(family: u8, states: u32, socket: &[u8; SOCKET]) -> Vec<u8> {
    let protocol = u8::try_from(libc::IPPROTO_TCP).unwrap_or_default();
    let mut fixed = vec![family, protocol, 0, 0];
    fixed.extend(states.to_ne_bytes());
    fixed.extend(socket);
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 told of a connection from 10.2.0.2 port 7 to 10.1.0.2 port 40000, which had ended.
    fn told(state: u8, timer: u8) -> Vec<u8> {
        let mut octets = vec![2, state, timer, 0];
        octets.extend([0, 7, 0x9c, 0x40]);
        octets.extend([10, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        octets.extend([10, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        octets.extend([0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0]);
        octets.extend([0; 20]);
        octets
    }

    #[test]
    fn a_connection_that_waits_is_ended_by_its_own_name_and_one_in_use_is_left_alone() {
        let parse = |octets: &[u8]| Connection::parse(Message::new(SOCK_DIAG_BY_FAMILY, octets));

        let waits = parse(&told(6, 3)).unwrap();

        assert_eq!(waits.source(), Some([10, 2, 0, 2].into()));
        let order = fixed(waits.family, u32::MAX, &waits.socket);
        assert_eq!((&order[..4], &order[4..8]), (&[2, 6, 0, 0][..], &[0xff; 4][..]));
        assert_eq!(order[8..], told(6, 3)[4..FIXED]);
        // What an application still has open, or the kernel still sends for, has another timer or none.
        for (state, timer) in [(1, 0), (1, 1), (5, 2), (9, 1)] {
            assert_eq!(parse(&told(state, timer)), None, "{state} {timer}");
        }
        for len in 0..FIXED {
            assert_eq!(parse(&told(6, 3)[..len]), None, "{len}");
        }
    }
}
