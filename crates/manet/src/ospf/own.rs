//! Progress of the router's own LSA: its latest number, and the next one due.

use base::time::Time;

use super::config::Config;

/// State of the router's own LSA: the number of the latest instance, and when the next one is due.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Sequence number of our latest instance, or of one that another router held.
    pub(super) number: Option<i32>,
    /// When that was made.
    pub(super) made_at: Option<Time>,
    /// Whether it may have to say something else.
    pub(super) is_wanted: bool,
    /// Whether a new instance is needed even if it says the same.
    pub(super) is_forced: bool,
    /// Whether the last number is taken out of all databases, so that the first can follow.
    pub(super) is_wrapping: bool,
}

impl Own {
    /// When the next instance is due.
    pub(super) fn next_timeout(&self, config: &Config) -> Option<Time> {
        let wait = if self.is_wanted { config.min_ls_interval } else { config.refresh_interval };
        // Neighbours have to acknowledge first.
        if self.is_wrapping { None } else { Some(self.made_at? + wait) }
    }
}
