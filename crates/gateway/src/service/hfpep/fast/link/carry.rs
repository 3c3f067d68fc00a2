//! Carries octets between both connections of a link, also the octets received before a reset.
//!
//! ```text
//!   one end is reset:   read there ─ the rest ─▶ flush to the other ─ it has all ─▶ reset that
//!   both are reset:     nobody is left for anything
//! ```

use std::time::Duration;

use base::time::Time;
use hf::slep::Reason;
use nix::sys::epoll::EpollFlags;

use super::confirm::Confirming;
use super::{Link, Ready, Side, Stage, Step};
use crate::service::hfpep::fast::relay::{Carried, Form, Relay};
use crate::service::hfpep::partings::LOOK;
use crate::service::hfpep::targets::Targets;
use crate::sys::tcp::unacknowledged;

/// How long a program may take to read some of the data from before a reset, and the last of this data.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl Link {
    /// Carries octets; back only when the answer has come.
    pub fn carry(
        &mut self,
        now: Time,
        ready: Ready,
        relay: &mut Relay,
        targets: &mut Targets,
    ) -> Step {
        let (local, is_open) = match &mut self.stage {
            Stage::Open { local } => (local, true),
            Stage::Asked { local, .. } => (local, false),
            Stage::Arriving { .. }
            | Stage::Connecting { .. }
            | Stage::Cut { .. }
            | Stage::Held { .. }
            | Stage::Refused { .. }
            | Stage::Spare => return Step::Wait,
        };
        let bearer = &mut self.bearer;
        // Data can be read, or data already read can be written.
        let moves = |from: EpollFlags, to: EpollFlags| {
            from.intersects(!EpollFlags::EPOLLOUT) || to.intersects(!EpollFlags::EPOLLIN)
        };
        let mut has_more = false;
        self.look_at = None;
        if !self.is_bearer_broken && moves(ready.local, ready.bearer) {
            let form = match self.confirming {
                Some(Confirming::Owed { .. }) => Form::ToPieces,
                Some(Confirming::Awaited(_)) | None => Form::Plain,
            };
            match relay.carry(local, bearer, &mut self.written, form) {
                Carried::Idle => {}
                Carried::More => has_more = true,
                // Data received from the bearer before is not read yet.
                Carried::Gone => {
                    self.is_bearer_broken = true;
                    has_more = true;
                }
                Carried::Malformed | Carried::Reset => return self.cut(now, Side::Bearer),
                Carried::Failed(failure) => {
                    targets.termination.fail(now, failure, local.parties());
                    return self.cut(now, Side::Bearer);
                }
            }
        }
        if is_open && !self.is_local_broken && moves(ready.bearer, ready.local) {
            let form = match &mut self.confirming {
                Some(Confirming::Awaited(pieces)) => Form::FromPieces(pieces),
                Some(Confirming::Owed { .. }) | None => Form::Plain,
            };
            match relay.carry(bearer, local, &mut self.read, form) {
                Carried::Idle => {}
                Carried::More => has_more = true,
                Carried::Gone => {
                    self.is_local_broken = true;
                    has_more = true;
                }
                Carried::Malformed => return Step::Broken(Reason::PROTOCOL_ERROR),
                // The bearer has no TLS of ours that could fail.
                Carried::Reset | Carried::Failed(_) => return self.cut(now, Side::Local),
            }
        }
        if is_open
            && !self.is_local_broken
            && !self.is_bearer_broken
            && let Some(confirming) = &mut self.confirming
        {
            match confirming.follow(now, local, bearer) {
                Ok(look_at) => self.look_at = look_at,
                Err(Side::Bearer) => self.is_bearer_broken = true,
                Err(Side::Local) => self.is_local_broken = true,
            }
        }
        if local.is_over() && bearer.is_over() {
            return Step::Over;
        }
        if self.is_local_broken && self.is_bearer_broken {
            return Step::Broken(Reason::CONNECTION_RESET);
        }
        if has_more {
            return Step::Again;
        }
        // Unsent data for the remaining end goes first, and the data behind it.
        if self.is_local_broken && !bearer.has_unsent() {
            return self.cut(now, Side::Bearer);
        }
        if self.is_bearer_broken && !local.has_unsent() {
            return self.cut(now, Side::Local);
        }
        // The bearer's own time counts otherwise, as below.
        self.waits_until = self.is_bearer_broken.then(|| now + LAST_WORDS);
        Step::Wait
    }

    /// Resets the remaining side as soon as this side has all data from before.
    fn cut(&mut self, now: Time, left: Side) -> Step {
        // The bearer's own time counts for a path that is silent.
        let last = (left == Side::Local).then(|| now + LAST_WORDS);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Spare) {
            Stage::Open { local } | Stage::Asked { local, .. } => {
                Stage::Cut { local, left, until: now, last }
            }
            other => other,
        };
        self.look(now)
    }

    /// Looks whether the remaining side has all data from before.
    pub fn look(&mut self, now: Time) -> Step {
        let Stage::Cut { local, left, until, last } = &mut self.stage else { return Step::Wait };
        let (waits_for, is_broken) = match left {
            Side::Bearer => (&mut self.bearer, self.is_bearer_broken),
            Side::Local => (local, self.is_local_broken),
        };
        *until = now + LOOK;
        let is_over =
            is_broken || last.is_some_and(|last| last <= now) || waits_for.flush().is_err();
        let waits = waits_for.has_unsent() || unacknowledged(waits_for).is_ok_and(|it| it > 0);
        if is_over || !waits { Step::Broken(Reason::CONNECTION_RESET) } else { Step::Wait }
    }
}
