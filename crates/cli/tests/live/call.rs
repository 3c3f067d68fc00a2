//! Opens TCP connections from a given address, of a given class, or with a time limit.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::namespaces::SOON;

/// A connection of the thread's namespace, from an address if that is given.
pub fn call(
    from: Option<SocketAddr>,
    to: SocketAddr,
    dscp: u8,
    patience: Duration,
) -> Result<TcpStream, ErrorKind> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    if to.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(dscp << 2)).unwrap();
    } else {
        setsockopt(&socket, sockopt::Ipv6TClass, &i32::from(dscp << 2)).unwrap();
    }
    let timeout =
        TimeVal::new(patience.as_secs().try_into().unwrap(), patience.subsec_micros().into());
    setsockopt(&socket, sockopt::SendTimeout, &timeout).unwrap();
    setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
    if let Some(from) = from {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(from)).unwrap();
    }
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => {
            let stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(SOON)).unwrap();
            Ok(stream)
        }
        // So the kernel calls what nobody has answered in time.
        Err(Errno::EINPROGRESS) => Err(ErrorKind::TimedOut),
        Err(error) => Err(std::io::Error::from(error).kind()),
    }
}
