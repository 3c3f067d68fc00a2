//! Settings of the kernel for interfaces (`net.ipv4.conf`), changed for a while and given back.

use std::fs;
use std::io;

use tracing::{debug, info, warn};

/// What was changed, and what it was before.
#[derive(Debug, Default)]
pub(crate) struct Settings(Vec<Changed>);

#[derive(Debug)]
struct Changed {
    path: String,
    before: String,
    now: String,
}

impl Settings {
    /// What an interface is set to, or `all` or `default` of them.
    pub(crate) fn read(interface: &str, key: &str) -> Option<String> {
        Some(fs::read_to_string(path(interface, key)).ok()?.trim().to_owned())
    }

    /// The interfaces that there are, without the loopback.
    pub(crate) fn interfaces() -> Vec<String> {
        let Ok(folders) = fs::read_dir("/proc/sys/net/ipv4/conf") else { return Vec::new() };
        let names = folders.flatten().filter_map(|folder| folder.file_name().into_string().ok());
        names.filter(|name| !matches!(&name[..], "all" | "default" | "lo")).collect()
    }

    /// Sets it, and remembers what it was.
    pub(crate) fn set(&mut self, interface: &str, key: &str, value: &str) {
        let path = path(interface, key);
        let Some(before) = Self::read(interface, key) else { return };
        if before == value {
            return;
        }
        if let Err(error) = fs::write(&path, value) {
            warn!(%path, %error, "setting not changed");
            return;
        }
        info!(%path, %before, now = value, "setting changed until the end");
        // An interface that went and came begins with the defaults; the first value is given back.
        if !self.0.iter().any(|changed| changed.path == path) {
            self.0.push(Changed { path, before, now: value.to_owned() });
        }
    }

    /// Gives back what nobody else has changed meanwhile.
    fn restore(&mut self) {
        while let Some(Changed { path, before, now }) = self.0.pop() {
            let is_ours = fs::read_to_string(&path).is_ok_and(|is| is.trim() == now);
            if !is_ours {
                continue;
            }
            match fs::write(&path, &before) {
                Ok(()) => debug!(%path, %before, "setting given back"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => warn!(%path, %error, "setting not given back"),
            }
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.restore();
    }
}

fn path(interface: &str, key: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{interface}/{key}")
}
