//! Threads in named network namespaces.

use std::fs::File;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

/// Why nothing can be done in a network namespace.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// No namespace has this name.
    #[error("there is no network namespace {0}: `ip netns list` shows those there are")]
    Missing(String),
    /// The file with the namespace's name is something else.
    #[error("{path} is no network namespace: {errno}")]
    NotOne {
        /// The file.
        path: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// We may not enter the namespace.
    #[error("entering a network namespace needs root: run this with sudo")]
    NotPermitted,
}

/// Acts on a thread within the namespace; sockets opened there stay there.
///
/// # Errors
/// When the namespace does not exist, or we may not enter it.
///
/// # Panics
/// When `act` does.
pub fn within<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> Result<T, Unusable> {
    let path = format!("/run/netns/{name}");
    let file = File::open(&path).map_err(|_| Unusable::Missing(name.to_owned()))?;

    // A thread can enter a namespace without taking the process along.
    thread::scope(|scope| {
        let acted = scope.spawn(|| match setns(&file, CloneFlags::CLONE_NEWNET) {
            Err(Errno::EPERM) => Err(Unusable::NotPermitted),
            Err(errno) => Err(Unusable::NotOne { path, errno }),
            Ok(()) => Ok(act()),
        });
        acted.join().expect("what is done there does not panic")
    })
}
