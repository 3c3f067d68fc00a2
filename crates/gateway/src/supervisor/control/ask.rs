//! Asks the running gateway of this network namespace.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::unistd::{Uid, User};
use serde::de::DeserializeOwned;

use super::{Request, far};
use crate::config::edit::PeerChange;
use crate::explain::{Explanation, Question};
use crate::supervisor::hand_over::HandedOver;
use crate::supervisor::reload::Reloaded;
use crate::supervisor::traffic::{Switch, Switched};

/// Longest wait for an answer: during a reload the gateway may have to wait for services to start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for the status of this network namespace's gateway, or of the gateway with its control socket `at` this
/// path; the answer is a JSON object.
///
/// # Errors
/// When no gateway runs, or we may not ask it.
pub fn ask_status(at: Option<&Path>) -> anyhow::Result<String> {
    ask(at, &Request::Status)
}

/// Lets the gateway read its configuration again.
///
/// # Errors
/// As [`ask_status`].
pub fn ask_reload(at: Option<&Path>) -> anyhow::Result<Reloaded> {
    ask_for(at, &Request::Reload)
}

/// Lets the gateway take another peer of its tunnel, or leave one; returns the outcome, and the gateway's file.
///
/// # Errors
/// As [`ask_status`].
pub fn ask_peer(at: Option<&Path>, change: PeerChange) -> anyhow::Result<(Reloaded, PathBuf)> {
    ask_for(at, &Request::Peer(change))
}

/// Lets the gateway leave its devices to its successor.
///
/// # Errors
/// As [`ask_status`].
pub fn ask_hand_over(at: Option<&Path>) -> anyhow::Result<HandedOver> {
    ask_for(at, &Request::HandOver)
}

/// Lets the gateway carry or refuse the traffic of a rule, or all traffic of its HF services.
///
/// # Errors
/// As [`ask_status`].
pub fn ask_switch(
    at: Option<&Path>,
    rule: Option<String>,
    is_enabled: bool,
) -> anyhow::Result<Switched> {
    ask_for(at, &Request::Switch(Switch { rule, is_enabled }))
}

/// Asks the gateway to explain what it does with a flow.
///
/// # Errors
/// As [`ask_status`].
pub fn ask_explanation(at: Option<&Path>, question: Question) -> anyhow::Result<Explanation> {
    ask_for(at, &Request::Explain(question))
}

/// No gateway runs.
#[derive(Debug, thiserror::Error)]
pub enum NoGateway {
    /// No gateway has its control socket at this path.
    #[error("no gateway has its control socket at {}", .0.display())]
    At(PathBuf),
    /// No gateway is in this network namespace.
    #[error("no gateway runs in this network namespace: `trackway run FILE` starts one")]
    Here,
}

fn ask_for<T: DeserializeOwned>(at: Option<&Path>, request: &Request) -> anyhow::Result<T> {
    serde_json::from_str(&ask(at, request)?).context("the gateway's answer")
}

fn ask(at: Option<&Path>, request: &Request) -> anyhow::Result<String> {
    let mut stream = connect(at)?;
    if let Some(process) = far::stopped(&stream) {
        bail!("the gateway is stopped, and answers nobody: `kill -CONT {process}` lets it go on");
    }
    for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        set(&stream, Some(ANSWER_TIMEOUT))?;
    }
    let request = serde_json::to_vec(request).context("the question")?;
    let mut answer = String::new();
    let outcome = stream
        .write_all(&request)
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.read_to_string(&mut answer));
    match outcome {
        Err(error) if !is_cut_off(&error) => Err(error).context("the gateway does not answer"),
        _ if answer.is_empty() => bail!("the gateway has ended, or does not answer this user"),
        _ => Ok(answer),
    }
}

fn connect(at: Option<&Path>) -> anyhow::Result<UnixStream> {
    let candidates = at.map_or_else(host::run::candidates, |path| vec![PathBuf::from(path)]);
    let mut why = None;
    for path in candidates {
        match UnixStream::connect(&path) {
            Ok(stream) if far::is_gateway(&stream) => return Ok(stream),
            // After a gateway has ended, its user owns the folder until the next gateway starts.
            Ok(_) if at.is_none() => {
                why.get_or_insert(anyhow::anyhow!(
                    "another user's program answers at {}, and is no gateway of this network namespace",
                    path.display()
                ));
            }
            Ok(stream) => return Ok(stream),
            Err(error) if is_nobody(&error) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                why.get_or_insert(forbidden(&path));
            }
            Err(error) => {
                let what = format!("cannot ask the gateway at {}", path.display());
                why.get_or_insert(anyhow::Error::from(error).context(what));
            }
        }
    }
    Err(why.unwrap_or_else(|| match at {
        Some(path) => NoGateway::At(path.to_owned()).into(),
        None => NoGateway::Here.into(),
    }))
}

fn is_cut_off(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

/// The error for a caller without permission: names the user who may ask, as far as can be seen.
fn forbidden(path: &Path) -> anyhow::Error {
    let owner = fs::metadata(path).map(|it| Uid::from_raw(it.uid())).ok();
    let name = owner.and_then(|owner| User::from_uid(owner).ok().flatten()).map(|user| user.name);
    let user = match (name, owner) {
        (Some(name), _) => format!("{name}, its user"),
        (None, Some(owner)) => format!("its user, {owner}"),
        (None, None) => "its user".to_owned(),
    };
    anyhow::anyhow!(
        "no right to ask the gateway: only root and {user}, may: `sudo trackway ...` ({})",
        path.display()
    )
}
