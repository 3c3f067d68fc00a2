//! A close that is confirmed: the client is told the end of the answer only when the target's host has all that the
//! client said, and the client has ended.
//!
//! ```text
//!   client ── its end ─▶ initiator ─────────▶ responder ── its end ─▶ target
//!   client ◀─ the end ── initiator ◀─ words ─ responder ◀─ all acknowledged
//! ```

use base::time::Time;
use hf::hfpep::pieces::{Pieces, Word};

use super::Side;
use crate::service::hfpep::connection::Connection;
use crate::service::hfpep::partings::LOOK;

/// How far such a close is.
#[derive(Debug)]
pub enum Confirming {
    /// The other gateway is to say when the target's host has all: its octets come in pieces.
    Awaited(Pieces),
    /// The other gateway waits for our word.
    Owed { is_said: bool },
}

impl Confirming {
    /// A close that we want to know of.
    pub fn awaited() -> Self {
        Self::Awaited(Pieces::default())
    }

    /// A close that the other gateway wants to know of.
    pub fn owed() -> Self {
        Self::Owed { is_said: false }
    }

    /// Whether the target's host has all, as far as is known.
    pub fn is_confirmed(&self) -> bool {
        match self {
            Self::Awaited(pieces) => pieces.has_all(),
            Self::Owed { is_said } => *is_said,
        }
    }

    /// Tells the ends that can be told now. Returns when to look again.
    ///
    /// # Errors
    /// The side that is broken.
    pub fn follow(
        &mut self,
        now: Time,
        local: &mut Connection,
        bearer: &mut Connection,
    ) -> Result<Option<Time>, Side> {
        match self {
            Self::Awaited(pieces) => {
                // A client that has not ended need not wait for the word: it learns nothing by the end.
                if pieces.has_end() && (pieces.has_all() || !local.has_ended()) {
                    local.finish();
                    if local.flush().is_err() {
                        return Err(Side::Local);
                    }
                }
                Ok(None)
            }
            Self::Owed { is_said } => {
                if !*is_said && local.has_told_end() {
                    if !local.is_acknowledged() {
                        return Ok(Some(now + LOOK));
                    }
                    *is_said = true;
                    if bearer.send(&Word::HasAll.octets()).is_err() {
                        return Err(Side::Bearer);
                    }
                }
                if *is_said && local.has_heard_end() {
                    bearer.finish();
                    if bearer.flush().is_err() {
                        return Err(Side::Bearer);
                    }
                }
                Ok(None)
            }
        }
    }
}
