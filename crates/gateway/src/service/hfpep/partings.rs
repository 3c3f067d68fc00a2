//! Connections whose stream is no more: each is reset when its program has all that came before.

use std::time::Duration;

use base::time::Time;

use super::connection::Connection;

/// How long a program may take to read some of what came before a reset by the far program, ...
const LAST_WORDS: Duration = Duration::from_secs(10);
/// ... and the data from before the stream broke by itself.
const LOOSE_WORDS: Duration = Duration::from_secs(2);
/// Between two looks at whether it has all.
pub const LOOK: Duration = Duration::from_millis(50);
/// Connections that may wait here; if there are more, the oldest is reset at once.
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
}

impl Partings {
    /// Resets a connection when its program has all.
    pub fn add(&mut self, now: Time, mut connection: Connection, is_killed: bool) {
        if connection.is_broken() || connection.flush().is_err() || connection.is_acknowledged() {
            return connection.abort();
        }
        if self.all.len() == MOST {
            self.all.remove(0).connection.abort();
        }
        let left = connection.undelivered();
        let patience = if is_killed { LOOSE_WORDS } else { LAST_WORDS };
        self.all.push(Parting { connection, left, patience, until: now + patience });
        self.look_at.get_or_insert(now + LOOK);
    }

    /// Resets connections whose program has all data or takes none.
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
        for parting in self.all.extract_if(.., is_over) {
            parting.connection.abort();
        }
        self.look_at = (!self.all.is_empty()).then(|| now + LOOK);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.look_at
    }
}
