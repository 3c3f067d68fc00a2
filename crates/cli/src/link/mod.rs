//! `trackway link`: two interfaces joined by one of the simulator's links, in real time.
//!
//! ```text
//!            ┌──────────────── worker ────────────────┐
//!   port A ──│─▶ segment, checksum ─▶ direction A to B │──▶ port B
//!          ◀─│── direction B to A ◀─ segment, checksum │◀──
//!            └──────────────── worker ────────────────┘
//! ```

mod direction;
mod end;
mod options;
mod report;
mod worker;

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use gateway::sys::port::Port;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::failure::misuse;
use direction::Direction;
pub(crate) use options::Args;
use report::Report;
use worker::{Outcome, Worker};

/// Runs the subcommand of `args`.
#[expect(clippy::needless_pass_by_value, reason = "all subcommands alike")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.a == args.b {
        return Err(misuse(format_args!("a link has two ends, both are {}", args.a)));
    }
    let seed = args.seed.unwrap_or_else(any_seed);
    let directions = args.directions(seed)?;
    let (a, b) = (end::open(&args.a)?, end::open(&args.b)?);

    // Before the threads start, so that they inherit it and only we hear of signals.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().context("blocking signals")?;
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "joined {} and {} with seed {seed}", args.a, args.b);
    let start = Instant::now();
    let ended = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
    let [ab, ba] = join(&a, &b, directions, |stop| {
        let deadline = args.duration.map(|duration| start + duration.0);
        while !has_ended(&ended, stop, deadline)? {
            for (port, end) in [(&a, &args.a), (&b, &args.b)] {
                ensure!(!port.is_gone(), "{end} is gone");
            }
        }
        Ok(())
    })?;

    Report { args: &args, seed, seconds: start.elapsed().as_secs_f64(), ab, ba }.print()?;
    Ok(ExitCode::SUCCESS)
}

/// Carries frames both ways until `wait` returns or a direction cannot go on.
fn join(
    a: &Port,
    b: &Port,
    [ab, ba]: [Direction; 2],
    wait: impl FnOnce(&EventFd) -> anyhow::Result<()>,
) -> anyhow::Result<[Outcome; 2]> {
    let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).context("eventfd")?;
    let epoch = Instant::now();
    thread::scope(|scope| {
        let stop = &stop;
        let start = |from, to, direction| {
            scope.spawn(move || {
                let outcome = Worker { from, to, direction, epoch, stop }.run();
                // However one direction ends, it ends the other.
                stop.write(1).context("ending both directions")?;
                outcome
            })
        };
        let workers = [start(a, b, ab), start(b, a, ba)];
        let waited = wait(stop);
        stop.write(1).context("ending both directions")?;
        let [ab, ba] = workers.map(|worker| worker.join().expect("workers do not panic"));
        waited?;
        Ok([ab?, ba?])
    })
}

/// Waits a moment for a signal, the deadline, or a worker that cannot go on.
fn has_ended(
    signals: &SignalFd,
    stop: &EventFd,
    deadline: Option<Instant>,
) -> anyhow::Result<bool> {
    let left = deadline.map_or(MOMENT, |at| at.saturating_duration_since(Instant::now()));
    // A started millisecond counts as a whole one.
    let millis = left.min(MOMENT).as_millis() + 1;
    let mut wanted = [
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        PollFd::new(stop.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut wanted, PollTimeout::try_from(millis).unwrap_or(PollTimeout::ZERO)) {
        Ok(0) | Err(Errno::EINTR) => Ok(deadline.is_some_and(|at| Instant::now() >= at)),
        Ok(_) => Ok(true),
        Err(errno) => Err(errno).context("waiting"),
    }
}

/// How often to look whether the interfaces still exist; nothing tells us.
const MOMENT: Duration = Duration::from_millis(500);

/// The time, as good as any when nobody asks for the same again.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}
