//! Names the folders below `/run` where gateways keep their sockets, and notes that outlive a crash.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, access};

/// The folder with a folder for each network namespace's gateway, where its sockets are, and what outlives a crash.
pub const RUN: &str = "/run/trackway";
/// How the names of files begin that a gateway leaves to the one after it: see `settings` and `companions`.
pub const NOTES: [&str; 2] = ["settings", "hfpep-"];
/// The folder of this network namespace's gateway, where this user can have one.
#[must_use]
pub fn folder() -> PathBuf {
    base().join(namespace().to_string())
}

/// Where this user's gateways have their folders.
#[must_use]
pub fn base() -> PathBuf {
    let user = Uid::effective();
    let usual = Path::new(RUN);
    let may_write = |folder: &Path| access(folder, AccessFlags::W_OK).is_ok();
    if user.is_root() || may_write(usual) || may_write(&usual.join(namespace().to_string())) {
        return usual.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("trackway"),
        _ => env::temp_dir().join(format!("trackway-{user}")),
    }
}

/// The number of the network namespace that we are in.
#[must_use]
pub fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}
