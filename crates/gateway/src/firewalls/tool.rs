//! Runs a program of this host, with limits on its run time and its output.

use std::io::{self, ErrorKind, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Limit on the run time: a ruleset with 100,000 elements takes a second.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit on the output, in octets.
const LONGEST: usize = 64 << 20;

/// The exit status and output of a program.
#[derive(Debug)]
pub struct Answer {
    is_success: bool,
    said: Vec<u8>,
    complaints: Vec<u8>,
}

impl Answer {
    /// The program's output, if successful.
    ///
    /// # Errors
    /// One line of the program's error output.
    pub fn success(self) -> Result<Vec<u8>, String> {
        if self.is_success {
            return Ok(self.said);
        }
        let complaints = String::from_utf8_lossy(&self.complaints);
        let mut lines = complaints.lines().filter(|line| !line.trim().is_empty());
        let first = lines.clone().find(|line| line.contains("rror")).or_else(|| lines.next());
        Err(first.unwrap_or("it fails without an error message").trim().to_owned())
    }
}

/// A running program; dropping it kills the program.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program with this input.
///
/// # Errors
/// When the program cannot be started, or exceeds a limit.
pub fn ask(program: &str, arguments: &[&str], input: &str) -> Result<Answer, String> {
    ask_for(program, arguments, input, PATIENCE)
}

fn ask_for(
    program: &str,
    arguments: &[&str],
    input: &str,
    patience: Duration,
) -> Result<Answer, String> {
    let deadline = Instant::now() + patience;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("HOME", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let spawned = command.spawn().map(Running);
    let mut running = spawned.map_err(|why| format!("`{program}` cannot be started: {why}"))?;
    converse(&mut running.0, input.as_bytes(), deadline).map_err(|why| match why.kind() {
        ErrorKind::TimedOut => {
            format!("`{program}` does not end within {}", base::readable::delay(patience))
        }
        _ => format!("`{program}`: {why}"),
    })
}

/// Writes the input, reads all output, and waits for the end.
fn converse(process: &mut Child, mut input: &[u8], deadline: Instant) -> io::Result<Answer> {
    let (Some(to), Some(mut out), Some(mut err)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(io::Error::other("no pipes"));
    };
    for pipe in [to.as_fd(), out.as_fd(), err.as_fd()] {
        fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut to = Some(to);
    let (mut said, mut complaints) = (Vec::new(), Vec::new());
    let mut is_open = [true; 2];
    while is_open != [false; 2] {
        if let Some(pipe) = to.as_mut().filter(|_| !input.is_empty()) {
            match pipe.write(input) {
                Ok(len) => input = &input[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The program has ended; its error output says why.
                Err(_) => input = &[],
            }
        }
        if input.is_empty() {
            to = None;
        }
        if is_open[0] {
            is_open[0] = take(&mut out, &mut said)?;
        }
        if is_open[1] {
            is_open[1] = take(&mut err, &mut complaints)?;
        }
        let mut fds: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::new();
        fds.extend(to.as_ref().map(|to| (to.as_fd(), PollFlags::POLLOUT)));
        fds.extend(is_open[0].then(|| (out.as_fd(), PollFlags::POLLIN)));
        fds.extend(is_open[1].then(|| (err.as_fd(), PollFlags::POLLIN)));
        let mut fds: Vec<_> = fds.into_iter().map(|(fd, flags)| PollFd::new(fd, flags)).collect();
        if !fds.is_empty() {
            let left = left(deadline)?;
            poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX))?;
        }
    }
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(Answer { is_success: status.success(), said, complaints });
        }
        left(deadline)?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads all available output; returns whether more may come.
fn take(from: &mut impl Read, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(len) if to.len() + len <= LONGEST => to.extend_from_slice(&buffer[..len]),
            Ok(_) => return Err(io::Error::other(format!("its output exceeds {LONGEST} octets"))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_or_is_given_up() {
        let long = "x".repeat(1 << 20);
        assert_eq!(ask("cat", &[], &long).unwrap().success(), Ok(long.into_bytes()));
        let refused = ask("sh", &["-c", "echo Error: so >&2; exit 3"], "").unwrap().success();
        assert_eq!(refused, Err("Error: so".to_owned()));
        let missing = ask("trackway-no-such-program", &[], "").unwrap_err();
        assert!(missing.contains("cannot be started"), "{missing}");

        for late in ["sleep 60", "exec > /dev/null 2> /dev/null; sleep 60"] {
            let began = Instant::now();
            let said = ask_for("sh", &["-c", late], "", Duration::from_millis(50)).unwrap_err();
            assert_eq!(said, "`sh` does not end within 50.0 ms");
            assert!(began.elapsed() < Duration::from_secs(30));
        }
        let said = ask("sh", &["-c", "exec yes"], "").unwrap_err();
        assert!(said.contains("output exceeds"), "{said}");
    }
}
