//! Changes the kernel's settings of interfaces (`net.ipv4.conf`) for a while, and restores them.
//!
//! ```text
//!   set ──▶ /run/trackway/4026531840/settings   a heading; a line for each: interface, key, before, now
//!       ──▶ /proc/sys/net/ipv4/conf
//!   dropped: given back, and the line goes      crashed: the next start gives back, or `trackway down`
//! ```
//! The file belongs to one network namespace, and is locked as long as its gateway lives.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, bail};
use nix::fcntl::{Flock, FlockArg};
use tracing::{debug, info, warn};

use crate::fault::{self, Fault};
use crate::run;

/// The only settings that are ever changed: lines of a file about others are ignored.
const KEYS: [&str; 4] = ["accept_redirects", "forwarding", "rp_filter", "send_redirects"];
/// The values that gateways set, in the order of [`KEYS`].
const OURS: [&str; 4] = ["0", "1", "2", "0"];
/// Octets read of a file at most.
const LONGEST: u64 = 1 << 20;

/// All settings changed by this process.
static MEMORY: Mutex<Memory> = Mutex::new(Memory { file: None, all: Vec::new(), unwritten: None });

/// Changed settings, each with its value before.
#[derive(Debug, Default)]
pub struct Settings {
    changed: Vec<Changed>,
    /// Settings that could not be changed, and why.
    refused: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Changed {
    interface: String,
    key: String,
    before: String,
    now: String,
}

impl Settings {
    /// The value of a setting for an interface, or for `all` or `default`.
    #[must_use]
    pub fn read(interface: &str, key: &str) -> Option<String> {
        Some(fs::read_to_string(path(interface, key)).ok()?.trim().to_owned())
    }

    /// All interfaces except the loopback.
    #[must_use]
    pub fn interfaces() -> Vec<String> {
        let Ok(folders) = fs::read_dir("/proc/sys/net/ipv4/conf") else { return Vec::new() };
        let names = folders.flatten().filter_map(|folder| folder.file_name().into_string().ok());
        names.filter(|name| !matches!(&name[..], "all" | "default" | "lo")).collect()
    }

    /// Changes a setting of an interface, and remembers the old value.
    pub fn set(&mut self, interface: &str, key: &str, value: &str) {
        debug_assert!(KEYS.contains(&key), "{key} would not be given back");
        let Some(before) = Self::read(interface, key) else { return };
        if before == value {
            self.refused.remove(&path(interface, key));
            return;
        }
        let [of, what, now] = [interface, key, value].map(str::to_owned);
        let changed = Changed { interface: of, key: what, before: before.clone(), now };
        // An interface that was removed and made again starts with the defaults; the first value is given back.
        let is_first = !self.changed.iter().any(|it| it.path() == changed.path());
        if is_first {
            memory().add(changed.clone());
        }
        if let Err(error) = fs::write(changed.path(), value) {
            let why = format!(
                "net.ipv4.conf.{interface}.{key} is {before} and cannot be changed: {error}: {}; on the host, in \
                 this network namespace: `sysctl -w net.ipv4.conf.{interface}.{key}={value}`",
                consequence(key)
            );
            if self.refused.insert(changed.path(), why.clone()).is_none() {
                warn!("{why}");
            }
            if is_first {
                memory().remove(&changed);
            }
            return;
        }
        self.refused.remove(&changed.path());
        info!(setting = %changed, now = value, "setting changed until the end");
        if is_first {
            self.changed.push(changed);
        }
    }

    /// Forgets that a setting could not be changed on other interfaces than these.
    pub(crate) fn forgive_all_but(&mut self, interfaces: &[String], key: &str) {
        let needed: Vec<_> = interfaces.iter().map(|it| path(it, key)).collect();
        self.refused.retain(|path, _| needed.contains(path));
    }

    /// Settings that could not be changed, in words for an operator.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        self.refused.values().map(|why| Fault::new(&fault::SETTING, why))
    }
}

/// Writes the file of changed settings again if it was removed or could not be written; returns a fault while it cannot.
#[must_use]
pub fn keep_file() -> Option<Fault> {
    let mut memory = memory();
    let is_named = memory.file.as_ref().is_some_and(|file| {
        match (file.metadata(), fs::symlink_metadata(place())) {
            (Ok(is), Ok(named)) => (is.dev(), is.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    });
    let is_lost = !is_named && !memory.all.is_empty() && run::folder().is_dir();
    if is_lost {
        memory.file = None;
    }
    if is_lost || memory.unwritten.is_some() {
        memory.write();
    }
    memory.unwritten.as_ref().map(|why| Fault::new(&fault::NOTES, why))
}

/// Whether a file of settings changed in this network namespace exists.
pub(crate) fn has_notes() -> bool {
    let text = run::open_own(&place(), false).and_then(|file| read_notes(&file));
    text.is_ok_and(|text| run::of_this_namespace(&text).is_some())
}

fn read_notes(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Settings of interfaces with a gateway's value instead of the default for new interfaces, in words for an operator.
pub(crate) fn doubtful() -> Vec<String> {
    let mut said = Vec::new();
    for name in Settings::interfaces() {
        for (key, ours) in KEYS.into_iter().zip(OURS) {
            let begins = Settings::read("default", key);
            let Some(begins) = begins.filter(|begins| begins != ours) else { continue };
            if Settings::read(&name, key).as_deref() == Some(ours) {
                said.push(format!(
                    "perhaps left changed: net.ipv4.conf.{name}.{key} = {ours}; the notes of the gateway that crashed are \
                     gone, and new interfaces begin with {begins}: `sysctl -w net.ipv4.conf.{name}.{key}={begins}`, unless \
                     somebody else has set it"
                ));
            }
        }
    }
    said
}

/// The effect of a wrong setting.
fn consequence(key: &str) -> &'static str {
    match key {
        "rp_filter" => "packets whose answers leave by a device of ours are dropped here",
        "forwarding" => "packets of others are not forwarded",
        _ => "hosts may be told of ways that do not exist",
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        while let Some(changed) = self.changed.pop() {
            if changed.give_back() {
                debug!(setting = %changed, "setting given back");
            }
            memory().remove(&changed);
        }
    }
}

/// Restores settings left changed by a crashed gateway of this network namespace, and returns the restored
/// settings.
///
/// # Errors
/// When a gateway runs, or what it has left cannot be read.
pub fn give_back() -> anyhow::Result<Vec<String>> {
    let at = place();
    let said = || format!("cannot give back the settings in {}", at.display());
    let file = match run::open_own(&place(), false) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.with_context(said)?,
    };
    let Ok(locked) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
        bail!(
            "a gateway runs in this network namespace: end `trackway run`, which gives settings back"
        );
    };
    let read = read_notes(&locked);
    // The file is removed even if it is no text: nobody will ever read it.
    fs::remove_file(&at).with_context(said)?;
    let text = read.with_context(said)?;
    let Some(lines) = run::of_this_namespace(&text) else {
        debug!(at = %at.display(), "notes of a namespace that had this number before");
        return Ok(Vec::new());
    };
    let left: Vec<_> = lines.lines().filter_map(Changed::parse).collect();
    let given = left.iter().rev().filter(|changed| changed.give_back());
    Ok(given.map(ToString::to_string).collect())
}

impl Changed {
    /// Reads a line; `None` if the line does not describe a setting of ours, whoever wrote it.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let &[interface, key, before, now] = &words[..] else { return None };
        let is_name = !interface.contains('/') && !matches!(interface, "" | "." | "..");
        let is_value = |value: &str| {
            (1..=3).contains(&value.len()) && value.bytes().all(|it| it.is_ascii_digit())
        };
        if !is_name || !KEYS.contains(&key) || !is_value(before) || !is_value(now) {
            return None;
        }
        let [interface, key, before, now] = [interface, key, before, now].map(str::to_owned);
        Some(Self { interface, key, before, now })
    }

    fn line(&self) -> String {
        let Self { interface, key, before, now } = self;
        format!("{interface} {key} {before} {now}\n")
    }

    fn path(&self) -> String {
        path(&self.interface, &self.key)
    }

    /// Restores the old value, unless somebody else has changed the setting meanwhile; returns whether it was restored.
    fn give_back(&self) -> bool {
        if Settings::read(&self.interface, &self.key).as_ref() != Some(&self.now) {
            return false;
        }
        match fs::write(self.path(), &self.before) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => {
                warn!(setting = %self, %error, "setting not given back");
                false
            }
        }
    }
}

/// The setting with its value before.
impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, key, before, .. } = self;
        write!(f, "net.ipv4.conf.{interface}.{key} = {before}")
    }
}

/// The content of the file.
struct Memory {
    /// Open while there are changed settings to note.
    file: Option<Flock<File>>,
    all: Vec<Changed>,
    /// Why the last write failed.
    unwritten: Option<String>,
}

impl Memory {
    fn add(&mut self, changed: Changed) {
        self.all.push(changed);
        self.write();
    }

    fn remove(&mut self, changed: &Changed) {
        self.all.retain(|it| it != changed);
        self.write();
    }

    fn write(&mut self) {
        let why = |error| {
            let (at, folder) = (place(), run::folder());
            format!(
                "{} is not written: {error}: a crash would leave settings of this host changed; `df {}` shows whether \
                 there is room",
                at.display(),
                folder.display()
            )
        };
        let unwritten = self.try_write().err().map(why);
        if let Some(why) = unwritten.as_ref().filter(|_| self.unwritten.is_none()) {
            warn!("{why}");
        }
        self.unwritten = unwritten;
    }

    fn try_write(&mut self) -> io::Result<()> {
        if self.all.is_empty() {
            // While the file is locked nobody else has made another.
            return match self.file.take().map(|_locked| fs::remove_file(place())) {
                Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        if self.file.is_none() {
            // The settings of an earlier run were restored before. Never write to an existing file.
            let mut options = OpenOptions::new();
            let made = options.read(true).write(true).create_new(true).mode(0o600).open(place())?;
            let locked = Flock::lock(made, FlockArg::LockExclusiveNonblock);
            self.file = Some(locked.map_err(|(_, error)| error)?);
        }
        let text = run::heading() + &self.all.iter().map(Changed::line).collect::<String>();
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }
}

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place() -> PathBuf {
    run::folder().join(run::NOTES[0])
}

fn path(interface: &str, key: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{interface}/{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_leads_nowhere_else() {
        let [interface, key, before, now] = ["eth1", "rp_filter", "1", "2"].map(str::to_owned);
        let changed = Changed { interface, key, before, now };

        assert_eq!(Changed::parse(changed.line().trim_end()), Some(changed));
        for line in [
            "",
            "eth1 rp_filter 1",
            "eth1 rp_filter 1 2 3",
            "../../../vm rp_filter 1 2",
            ".. rp_filter 1 2",
            "eth1 ../../../../kernel/core_pattern 1 2",
            "eth1 log_martians 1 2",
            "eth1 rp_filter |/bin/sh 2",
            "eth1 rp_filter 1 ",
        ] {
            assert_eq!(Changed::parse(line), None, "{line}");
        }
    }
}
