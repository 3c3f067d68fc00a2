//! The connections of this host, and epoll to find the connections with work to do.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context as _;
use hf::hfpep::SessionId;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::connection::Connection;

/// Events taken from the kernel in one go.
const EVENTS: usize = 256;

/// Connections by session. The kernel tells which connections are ready: a look at each one would take time in
/// proportion to their number.
#[derive(Debug)]
pub struct Connections {
    epoll: Epoll,
    by_session: HashMap<SessionId, Connection>,
    events: Vec<EpollEvent>,
}

impl Connections {
    /// # Errors
    /// When there are no descriptors left.
    pub fn new() -> anyhow::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("cannot make an epoll")?;
        let events = vec![EpollEvent::empty(); EVENTS];
        Ok(Self { epoll, by_session: HashMap::new(), events })
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// When the kernel takes no more; the connection is given back.
    pub fn add(
        &mut self,
        session: SessionId,
        mut connection: Connection,
    ) -> Result<(), Connection> {
        let wanted = connection.take_wanted().unwrap_or(EpollFlags::empty());
        let event = EpollEvent::new(wanted, session.0);
        if self.epoll.add(&connection, event).is_err() {
            return Err(connection);
        }
        self.by_session.insert(session, connection);
        Ok(())
    }

    pub fn get_mut(&mut self, session: SessionId) -> Option<&mut Connection> {
        self.by_session.get_mut(&session)
    }

    /// Takes a connection out.
    pub fn remove(&mut self, session: SessionId) -> Option<Connection> {
        let connection = self.by_session.remove(&session)?;
        // Closing the connection would do as well, unless somebody else has it open.
        let _ = self.epoll.delete(&connection);
        Some(connection)
    }

    /// Tells of a connection no more: there is nothing that the kernel would not tell again and again.
    pub fn unwatch(&self, session: SessionId) {
        if let Some(connection) = self.by_session.get(&session) {
            let _ = self.epoll.delete(connection);
        }
    }

    /// Updates the events that the kernel watches for, if they have changed.
    pub fn watch(&mut self, session: SessionId) {
        let Some(connection) = self.by_session.get_mut(&session) else { return };
        if let Some(wanted) = connection.take_wanted() {
            let _ = self.epoll.modify(&*connection, &mut EpollEvent::new(wanted, session.0));
        }
    }

    /// The ready connections, each with its events.
    pub fn ready(&mut self) -> Vec<(SessionId, EpollFlags)> {
        let len = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or(0);
        self.events[..len].iter().map(|it| (SessionId(it.data()), it.events())).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Connection)> {
        self.by_session.iter().map(|(session, connection)| (*session, connection))
    }

    pub fn len(&self) -> usize {
        self.by_session.len()
    }
}

impl AsFd for Connections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
