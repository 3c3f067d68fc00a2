//! Threads in named network namespaces.

use std::fs::File;
use std::thread;

use anyhow::anyhow;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::failure::misuse;

/// Acts on a thread within the namespace; sockets that it opens stay there.
///
/// # Errors
/// When there is no such namespace, or we may not enter it.
pub(crate) fn within<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let path = format!("/run/netns/{name}");
    let file = File::open(&path).map_err(|_| {
        misuse(format_args!(
            "there is no network namespace {name}: `ip netns list` shows those there are"
        ))
    })?;

    // A thread can enter a namespace without taking the process along.
    thread::scope(|scope| {
        let acted = scope.spawn(|| match setns(&file, CloneFlags::CLONE_NEWNET) {
            Err(Errno::EPERM) => {
                Err(anyhow!("entering a network namespace needs root: run this with sudo"))
            }
            Err(errno) => Err(anyhow!("{path} is no network namespace: {errno}")),
            Ok(()) => Ok(act()),
        });
        acted.join().expect("what is done there does not panic")
    })
}
