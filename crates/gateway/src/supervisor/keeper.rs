//! Two helper processes of a gateway without root: `keep-files` opens its files, `keep-folder` keeps its folder.
//!
//! ```text
//!   gateway ── number, path ─────────────▶ keeper: may read all files, and has no other right
//!           ◀─ number, descriptor or why ── opens what the configuration names, and no other file
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use host::fault::{self, Fault};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Gid;
use tracing::warn;

use crate::config::Config;
use crate::files::{self, NUMBER};
use crate::linux::account::Account;
use crate::linux::{rights, seccomp};
use crate::sys::passing;
use crate::trust::Owners;

/// Octets of a question at most: its number and a path.
const LONGEST: usize = NUMBER + 4_096;
/// Seconds that a file may take to be opened.
const OPEN_TIMEOUT: i64 = 5;

/// A running helper process. Nobody can start it again: the gateway is root no more.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    /// What is missing without it, in words for an operator.
    task: &'static str,
}

impl Keeper {
    /// The fault once the process has ended.
    pub fn fault(&mut self) -> Option<Fault> {
        let has_ended = !matches!(self.process.try_wait(), Ok(None));
        has_ended.then(|| {
            let said = format!("{}: only a new start of the gateway mends that", self.task);
            Fault::new(&fault::KEEPER, said)
        })
    }
}

/// Lets helpers and firewall programs go on that somebody has stopped: they would do nothing, and nobody would notice.
pub fn let_children_go_on() {
    let stopped = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    while let Ok(WaitStatus::Stopped(pid, _)) = waitid(Id::All, stopped) {
        match kill(pid, Signal::SIGCONT) {
            Ok(()) => warn!(%pid, "somebody has stopped a program of ours: it goes on"),
            Err(error) => warn!(%pid, %error, "somebody has stopped a program of ours"),
        }
    }
}

/// Starts the keeper of a configuration's files; while we are root.
///
/// # Errors
/// When the process cannot be started.
pub fn start(config: &Path, account: &Account) -> anyhow::Result<Keeper> {
    let (ours, its) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    setsockopt(&ours, sockopt::ReceiveTimeout, &TimeVal::seconds(OPEN_TIMEOUT))?;
    // Questions wait in the socket until the process has time, and only a limited number of them.
    setsockopt(&ours, sockopt::SendTimeout, &TimeVal::seconds(OPEN_TIMEOUT))?;
    let process = Command::new("/proc/self/exe")
        .arg0("trackway")
        .arg("keep-files")
        .args([account.uid.as_raw(), account.gid.as_raw()].map(|it| it.to_string()))
        .arg(Owners::of_this_process().to_string())
        .arg(config)
        .env_clear()
        .stdin(Stdio::from(its))
        .stdout(Stdio::null())
        // Ctrl-C is for us, and it ends with us.
        .process_group(0)
        .spawn()
        .context("cannot start the process that reads files for us")?;
    files::ask_at(ours);
    let task =
        "the process `keep-files` has ended, and files of root's cannot be read again at a reload";
    Ok(Keeper { process, task })
}

/// Starts the keeper of the gateway's folder below `/run`, which only root may make; while we are root. `control` is
/// the path of a control socket elsewhere, and `link` that of a link to a socket in our folder.
///
/// # Errors
/// When the process cannot be started.
pub fn start_for_folder(
    account: &Account,
    group: Option<Gid>,
    control: Option<&Path>,
    link: Option<&Path>,
) -> anyhow::Result<Keeper> {
    let control = control.map(std::path::absolute).transpose()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("trackway")
        .arg("keep-folder")
        .args([account.uid.as_raw(), account.gid.as_raw()].map(|it| it.to_string()))
        .args(group.map(|group| group.to_string()));
    if let Some(link) = link {
        command.arg("--link").arg(link);
    }
    if let Some((folder, socket)) =
        control.as_deref().and_then(|it| it.parent().zip(it.file_name()))
    {
        // Whatever becomes of the path, names are removed in this folder alone.
        command.current_dir(folder).arg("--socket").arg(Path::new(".").join(socket));
    }
    let mut process = command
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // Ctrl-C is for us, and it ends with us.
        .process_group(0)
        .spawn()
        .context("cannot start the process that keeps our folder")?;
    // Our end of the pipe closes when we end, however we end.
    std::mem::forget(process.stdin.take());
    let task = "the process `keep-folder` has ended, and the folder in /run is not made again if somebody removes it";
    Ok(Keeper { process, task })
}

/// Opens the files of a configuration for the process at standard input, until this process ends; as this user,
/// with no right but to read.
///
/// Opens only files that `owners` alone could have changed (`0,1000:1000`: users, each with the group of its own).
/// So nobody else can write the configuration, and each time it is read anew for the names of its files.
///
/// # Errors
/// When rights cannot be given up, or `owners` cannot be read.
pub fn keep_files(config: &Path, uid: u32, gid: u32, owners: &str) -> anyhow::Result<()> {
    // Whatever the file is called by which it was started.
    let _ = prctl::set_name(c"trackway-keeper");
    files::trust(owners.parse().context("whose files may be opened")?);
    rights::read_only(&Account::of(uid, gid))?;
    // Even without a filter the process can do no more than its rights allow.
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
        let opened = open_named(config, path);
        let why = opened.as_ref().err().map(files::reason).unwrap_or_default();
        let answer = [&number[..], &why].concat();
        passing::send(asking.as_fd(), &answer, opened.as_ref().ok().map(AsFd::as_fd))?;
    }
}

/// Opens the configuration, or a file named in its current content.
///
/// # Errors
/// When the configuration does not name the file, or either file cannot be opened or trusted.
fn open_named(config: &Path, path: &Path) -> io::Result<File> {
    let itself = files::open(config)?;
    if path == config {
        return Ok(itself);
    }
    // A configuration with a fault names the files before the fault; nobody reads further either.
    let named = files::opened_by(|| Config::read(config));
    if !named.iter().any(|name| name == path) {
        let why = "the configuration does not name it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    files::open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_a_configuration_names_is_opened_for_others() {
        let folder = std::env::temp_dir().join(format!("trackway-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [config, key, other] = ["a.toml", "group.key", "b.key"].map(|name| folder.join(name));
        fs::write(&config, "[hbh]\ninterfaces = [\"wlan0\"]\ngroup-key = \"group.key\"\n").unwrap();
        fs::write(&key, "").unwrap();
        fs::write(&other, "").unwrap();

        let opened = [&config, &key, &other].map(|path| open_named(&config, path).is_ok());
        fs::remove_dir_all(&folder).unwrap();

        assert_eq!(opened, [true, true, false]);
    }
}
