//! Gives back at once what this process has made, when a signal ends a benchmark.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use std::{env, fs, mem, process};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{PREFIX, wait_until};

/// How long programs may take to end, before they are killed and again afterwards.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
const NAMESPACES: &str = "/run/netns";

/// Read by whoever makes or removes something; [`give_back`] takes it for writing and keeps it.
static CHANGING: RwLock<()> = RwLock::new(());

/// To be held while a namespace, a program or a file is made or removed. Waits for ever once [`give_back`] has begun, so
/// that nothing is made after it and no failure is reported that it has caused.
pub(crate) fn changing() -> RwLockReadGuard<'static, ()> {
    CHANGING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the programs in all namespaces of this process, and removes namespaces and files. For a process that ends now:
/// its other threads stop as soon as they want to make or remove something.
pub fn give_back() {
    mem::forget(CHANGING.write().unwrap_or_else(PoisonError::into_inner));
    let namespaces = ours(Path::new(NAMESPACES));
    let numbers: BTreeSet<u64> = namespaces.iter().filter_map(|it| number(it)).collect();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for program in programs(&numbers) {
            // It may have ended meanwhile.
            let _ = kill(program, signal);
        }
        if wait_until(ENDS_WITHIN, || programs(&numbers).is_empty()) {
            break;
        }
    }
    for name in namespaces.iter().filter_map(|path| path.file_name()?.to_str()) {
        remove_namespace(name);
    }
    for path in ours(&env::temp_dir()) {
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}

/// What a folder holds with a name of this process.
fn ours(folder: &Path) -> Vec<PathBuf> {
    let prefix = format!("{PREFIX}{}-", process::id());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Removes a namespace.
pub(crate) fn remove_namespace(name: &str) {
    // The next namespace may get this one's number, and with it the notes of its gateway.
    if let Ok(namespace) = fs::metadata(Path::new(NAMESPACES).join(name)) {
        let folder = format!("/run/trackway/{}", namespace.ino());
        // A test may have mounted a disk there.
        let _ = Command::new("umount").args(["-l", &folder]).stderr(Stdio::null()).status();
        let _ = fs::remove_dir_all(folder);
    }
    let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
}

/// All other processes in some namespaces.
fn programs(namespaces: &BTreeSet<u64>) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .map(Pid::from_raw)
        .filter(|pid| *pid != Pid::this())
        .filter(|pid| {
            number(Path::new(&format!("/proc/{pid}/ns/net")))
                .is_some_and(|number| namespaces.contains(&number))
        })
        .collect()
}

/// The number of the namespace that a file stands for.
fn number(path: &Path) -> Option<u64> {
    Some(fs::metadata(path).ok()?.ino())
}
