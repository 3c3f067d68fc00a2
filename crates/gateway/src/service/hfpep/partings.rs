//! Connections whose stream is no more: each ends when its program has all that came before.
//!
//! A connection that both programs have ended stays here as well until its program's host has acknowledged all. If the
//! kernel had it alone, nobody would reset it when this gateway is gone, and with it the way for the acknowledgements.

use std::time::Duration;

use base::time::Time;

use super::connection::Connection;

/// How long a program may take to read some of what came before a reset by the far program, ...
const LAST_WORDS: Duration = Duration::from_secs(10);
/// ... and the data from before the stream broke by itself.
const LOOSE_WORDS: Duration = Duration::from_secs(2);
/// How long a program may take to read some of what came before the end, until the kernel has the connection alone.
const PEACE: Duration = Duration::from_secs(60);
/// Between two looks at whether it has all.
pub const LOOK: Duration = Duration::from_millis(50);
/// Connections that may wait here; if there are more, the oldest ends at once.
const MOST: usize = 1_024;

/// The connections that wait here.
#[derive(Debug, Default)]
pub struct Partings {
    all: Vec<Parting>,
    look_at: Option<Time>,
}

#[derive(Debug)]
struct Parting {
    connection: Connection,
    /// Octets that its program still lacked at the last progress.
    left: usize,
    patience: Duration,
    until: Time,
    /// Whether both programs have ended it.
    is_in_peace: bool,
}

impl Parting {
    fn end(self) {
        if self.is_in_peace { self.connection.close() } else { self.connection.abort() }
    }
}

impl Partings {
    /// Resets a connection when its program has all.
    pub fn add(&mut self, now: Time, connection: Connection, is_killed: bool) {
        let patience = if is_killed { LOOSE_WORDS } else { LAST_WORDS };
        self.wait(now, connection, patience, false);
    }

    /// Closes a connection that both programs have ended when its program has all.
    pub fn close(&mut self, now: Time, connection: Connection) {
        self.wait(now, connection, PEACE, true);
    }

    fn wait(&mut self, now: Time, connection: Connection, patience: Duration, is_in_peace: bool) {
        let (left, until) = (connection.undelivered(), now + patience);
        let mut parting = Parting { connection, left, patience, until, is_in_peace };
        let connection = &mut parting.connection;
        if connection.is_broken() || connection.flush().is_err() || connection.is_acknowledged() {
            return parting.end();
        }
        if self.all.len() == MOST {
            self.all.remove(0).end();
        }
        self.all.push(parting);
        self.look_at.get_or_insert(now + LOOK);
    }

    /// Ends connections whose program has all data or takes none.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.look_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        let is_over = |parting: &mut Parting| {
            let connection = &mut parting.connection;
            if connection.flush().is_err() || connection.is_acknowledged() {
                return true;
            }
            let left = connection.undelivered();
            if left < parting.left {
                (parting.left, parting.until) = (left, now + parting.patience);
            }
            parting.until <= now
        };
        self.all.extract_if(.., is_over).for_each(Parting::end);
        self.look_at = (!self.all.is_empty()).then(|| now + LOOK);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.look_at
    }
}
