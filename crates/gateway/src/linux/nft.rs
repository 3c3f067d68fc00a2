//! A process of `nft` that owns a table, which ends with it.
//!
//! ```text
//!   orders, a line each ─▶ nft -i ─▶ table `trackway` of a family
//!                             └─▶ complaints
//! ```
//! The process runs as long as we do. It ends when the pipe to it closes, however we end, and the
//! kernel removes the table of an owner that is gone: nothing stays behind.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Name of the table.
pub(crate) const TABLE: &str = "trackway";

/// A word that `nft` does not know: its complaint about it means that it has read all before.
const MARKER: &str = "trackway_marker";
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the rest of a complaint may take.
const REST: Duration = Duration::from_millis(100);
/// What `nft` may say before we stop listening.
const SAID: usize = 64 << 10;

/// The process that owns a table.
#[derive(Debug)]
pub(crate) struct Nft {
    process: Child,
    orders: ChildStdin,
    complaints: ChildStderr,
}

impl Nft {
    /// Makes the table of a family by these orders, which are carried out as a whole or not at all.
    ///
    /// # Errors
    /// When `nft` is missing or refuses; `needs` says what the kernel must have for this table.
    pub(crate) fn start(family: &str, orders: &[String], needs: &str) -> anyhow::Result<Self> {
        let mut process = Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Where it cannot leave a history of our orders.
            .env("HOME", "/dev/null")
            // Ctrl-C is for us: neighbours are told before the table goes.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => anyhow::anyhow!(
                    "the program `nft` is missing: install nftables (`apt install nftables`)"
                ),
                _ => anyhow::anyhow!("cannot start `nft`: {error}"),
            })?;
        let (Some(input), Some(complaints)) = (process.stdin.take(), process.stderr.take()) else {
            bail!("no pipe to `nft`");
        };
        for pipe in [input.as_fd(), complaints.as_fd()] {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).context("pipe to `nft`")?;
        }
        let mut nft = Self { process, orders: input, complaints };
        nft.order(orders)?;
        nft.write(MARKER)?;
        let said = nft.listen_for(MARKER)?;
        ensure!(!said.contains("rror"), "{}", explain(&said, family, needs));
        Ok(nft)
    }

    /// What `nft` has said since it was asked last, which is nothing but complaints.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub(crate) fn complaints(&mut self) -> anyhow::Result<String> {
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.complaints.read(&mut buffer) {
                Ok(0) => bail!("`nft` has ended, and the table `{TABLE}` with it"),
                Ok(len) if said.len() < SAID => said.extend_from_slice(&buffer[..len]),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("reading from `nft`"),
            }
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Changes the table, by orders that are carried out as a whole or not at all.
    ///
    /// # Errors
    /// When `nft` has ended.
    pub(crate) fn order(&mut self, orders: &[String]) -> anyhow::Result<()> {
        self.write(&orders.join("; "))
    }

    fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.orders.write_all(format!("{line}\n").as_bytes()).context("`nft` takes no orders")
    }

    fn listen_for(&mut self, word: &str) -> anyhow::Result<String> {
        let mut said = String::new();
        let deadline = Instant::now() + PATIENCE;
        while !is_complete(&said, word) {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "`nft -i` does not answer");
            let is_heard = said.contains(word);
            let wait = if is_heard { REST } else { left };
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
            let ready =
                poll(&mut [PollFd::new(self.complaints.as_fd(), PollFlags::POLLIN)], timeout)?;
            if ready == 0 && is_heard {
                break;
            }
            said += &self.complaints().with_context(|| said.clone())?;
        }
        // The marker's own complaint comes in several lines; none before it is about the marker.
        let before = said.find(word).unwrap_or(said.len());
        let start = said[..before].rfind("Error: syntax error").unwrap_or(before);
        said.truncate(start);
        Ok(said)
    }
}

impl AsFd for Nft {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.complaints.as_fd()
    }
}

impl Drop for Nft {
    fn drop(&mut self) {
        // Its end takes the table along; waiting means that it is gone when we are.
        let _ = self.orders.write_all(b"quit\n");
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether the complaint about `word` has ended, with a line that points at it.
fn is_complete(said: &str, word: &str) -> bool {
    let after = said.split_once(word).map_or("", |(_, after)| after);
    after.split_once('^').is_some_and(|(_, rest)| rest.contains('\n'))
}

/// What to do about a complaint of `nft`.
fn explain(said: &str, family: &str, needs: &str) -> String {
    let complaint =
        said.lines().find(|line| line.contains("rror")).unwrap_or("no complaint").trim();
    let remedy = if said.contains("not permitted") {
        "root, or the capability CAP_NET_ADMIN, is needed".to_owned()
    } else if said.contains("exists") || said.contains("busy") {
        format!(
            "a table `{TABLE}` exists already: another gateway runs here, or `nft delete table \
             {family} {TABLE}` removes it"
        )
    } else {
        needs.to_owned()
    };
    format!("cannot make the nftables table `{TABLE}`: {remedy} (nft says: {complaint})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_complete_with_the_line_that_points_at_it() {
        let complaint = "Error: syntax error, unexpected newline\nword\n    ^^^^\n";

        for (end, _) in complaint.char_indices() {
            assert!(!is_complete(&complaint[..end], "word"), "after {end} octets");
        }
        assert!(is_complete(complaint, "word"));
    }
}
