//! The process that opens the files of a configuration for a gateway that may not.
//!
//! ```text
//!   gateway ── number, path ─────────────▶ keeper: may read all files, and has no other right
//!           ◀─ number, descriptor or why ── opens what the configuration names, and no other file
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use nix::libc;
use nix::sys::prctl;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use nix::unistd::Uid;

use crate::config::Config;
use crate::files::{self, NUMBER};
use crate::linux::account::Account;
use crate::linux::{rights, seccomp};
use crate::sys::passing;

/// Octets of a question at most: its number and a path.
const LONGEST: usize = NUMBER + 4_096;
/// Seconds that a file may take to be opened.
const PATIENCE: i64 = 5;

/// Starts the keeper of a configuration's files; while we are root.
///
/// # Errors
/// When the process cannot be started.
pub(super) fn start(config: &Path, account: &Account) -> anyhow::Result<()> {
    let (ours, its) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    setsockopt(&ours, sockopt::ReceiveTimeout, &TimeVal::seconds(PATIENCE))?;
    // Questions wait until it has time for them, and only so many.
    setsockopt(&ours, sockopt::SendTimeout, &TimeVal::seconds(PATIENCE))?;
    Command::new("/proc/self/exe")
        .arg0("trackway")
        .arg("keep-files")
        .args([account.uid.as_raw(), account.gid.as_raw()].map(|it| it.to_string()))
        .arg(config)
        .env_clear()
        .stdin(Stdio::from(its))
        .stdout(Stdio::null())
        // Ctrl-C is for us, and it ends with us.
        .process_group(0)
        .spawn()
        .context("cannot start the process that reads files for us")?;
    files::ask_at(ours);
    Ok(())
}

/// Opens the files of a configuration for who asks at standard input, until nobody does; as this user, with no
/// right but to read.
///
/// # Errors
/// When rights cannot be given up.
pub fn keep_files(config: &Path, uid: u32, gid: u32) -> anyhow::Result<()> {
    // Whatever the file is called by which it was started.
    let _ = prctl::set_name(c"trackway-keeper");
    rights::read_only(&Account::of(uid, gid))?;
    // Without a filter it can do no more either than its rights let it.
    let _ = seccomp::confine_reader();
    let asking = io::stdin();
    let mut asked = vec![0; LONGEST];
    loop {
        let (len, _) = passing::receive(asking.as_fd(), &mut asked)?;
        if len == 0 {
            return Ok(());
        }
        let Some((number, path)) = asked[..len].split_first_chunk::<NUMBER>() else { continue };
        let path = Path::new(OsStr::from_bytes(path));
        let opened = if is_named(config, path) && is_trusted(path, Uid::effective()) {
            File::open(path)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        };
        let why = match &opened {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EACCES),
        };
        let answer = [*number, why.to_ne_bytes()].concat();
        passing::send(asking.as_fd(), &answer, opened.as_ref().ok().map(AsFd::as_fd))?;
    }
}

/// Whether this is the configuration, or a file that it names as it is now.
fn is_named(config: &Path, path: &Path) -> bool {
    // One that is wrong names what stands before the fault, which is all that anybody reads of it.
    path == config || files::opened_by(|| Config::read(config)).iter().any(|it| it == path)
}

/// Whether nothing on the way is the gateway's own, which it could have made lead elsewhere.
fn is_trusted(path: &Path, user: Uid) -> bool {
    let is_its = |it: &Path| fs::symlink_metadata(it).is_ok_and(|it| it.uid() == user.as_raw());
    path.ancestors().all(|it| it.as_os_str().is_empty() || !is_its(it))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn only_what_a_configuration_names_is_opened_for_others() {
        let folder = std::env::temp_dir().join(format!("trackway-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [config, key, other] = ["a.toml", "group.key", "b.key"].map(|name| folder.join(name));
        fs::write(&config, "[hbh]\ninterfaces = [\"wlan0\"]\ngroup-key = \"group.key\"\n").unwrap();

        let named = [&config, &key, &other].map(|path| is_named(&config, path));
        let trusted = [Uid::current(), Uid::from_raw(64_999)].map(|it| is_trusted(&key, it));
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(named, [true, true, false]);
        assert_eq!(trusted, [false, true]);
    }
    #[test]
    fn a_way_that_the_gateway_could_have_made_is_not_trusted() {
        let link = std::env::temp_dir().join(format!("trackway-way-{}", std::process::id()));
        let _ = fs::remove_file(&link);
        symlink("/dev/null", &link).unwrap();
        // Without the right to give it away, we are not root ourselves.
        let _ = lchown(&link, Some(64_999), None);
        let owner = fs::symlink_metadata(&link).unwrap().uid();

        let trusted = [owner, 0, 64_998].map(|user| is_trusted(&link, Uid::from_raw(user)));
        fs::remove_file(&link).unwrap();

        assert_eq!(trusted, [false, false, true], "its own link, a folder on the way, nothing");
    }
}
