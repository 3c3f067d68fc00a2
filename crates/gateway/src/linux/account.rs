//! Chooses the user for the gateway: a named account, or a free number.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nix::unistd::{Gid, Group, Uid, User};

/// The account that is used where it exists.
pub(crate) const USUAL: &str = "trackway";

/// Users without a name, from which systemd's `DynamicUser=` takes its own, too.
const FIRST: u32 = 61_184;
const LAST: u32 = 65_519;
/// For the processes of a killed gateway to end, in steps.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);

/// A user and its group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    name: Option<String>,
}

impl Account {
    /// The user to become for the gateway of a network namespace, `None` to stay what we are: root's choice alone.
    ///
    /// # Errors
    /// When there is no such user, or only root could become it.
    pub(crate) fn choose(named: Option<&str>, namespace: u64) -> anyhow::Result<Option<Self>> {
        let current = Uid::effective();
        let account = match named {
            Some(named) => Self::find(named)?.with_context(|| {
                format!(
                    "user = {named:?}: there is no such account; `useradd --system --shell \
                     /usr/sbin/nologin {named}` makes one"
                )
            })?,
            None if !current.is_root() => return Ok(None),
            None => match Self::find(USUAL)? {
                Some(account) => account,
                None => Self::without_name(namespace)?,
            },
        };
        if account.uid == current {
            return Ok(None);
        }
        ensure!(
            current.is_root(),
            "only root can become {account}: run as root or as {account}, or leave `user` out"
        );
        Ok(Some(account))
    }

    /// A user that was chosen before.
    pub(crate) fn of(uid: u32, gid: u32) -> Self {
        Self { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), name: None }
    }

    /// An account by its name or number.
    fn find(named: &str) -> anyhow::Result<Option<Self>> {
        let found = match named.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number)),
            Err(_) => User::from_name(named),
        };
        let found = found.with_context(|| format!("cannot look for the account {named:?}"))?;
        Ok(found.map(|User { name, uid, gid, .. }| Self { uid, gid, name: Some(name) }))
    }

    /// A user that nobody else is, also no other gateway: they could stop each other and take each other's sockets.
    fn without_name(namespace: u64) -> anyhow::Result<Self> {
        // Programs started by a killed gateway of this namespace are about to end.
        let mut patience = PATIENCE;
        for number in candidates(namespace) {
            if is_free(number)? && runs_nothing(number, &mut patience)? {
                return Ok(Self::of(number, number));
            }
        }
        bail!("no user is free from {FIRST} to {LAST}: `useradd --system {USUAL}` makes an account")
    }
}

/// The group with this name or number.
///
/// # Errors
/// When there is none.
pub(crate) fn group(named: &str) -> anyhow::Result<Gid> {
    if let Ok(number) = named.parse() {
        return Ok(Gid::from_raw(number));
    }
    let found =
        Group::from_name(named).with_context(|| format!("cannot look for the group {named}"))?;
    let missing =
        || format!("status-group: there is no group {named}: `groupadd --system {named}` makes it");
    Ok(found.with_context(missing)?.gid)
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "user {name} ({})", self.uid),
            None => write!(f, "user {}, without a name", self.uid),
        }
    }
}

/// Whether a number belongs to a gateway without an account, or was chosen by systemd for another program.
pub(crate) fn is_dynamic(number: u32) -> bool {
    (FIRST..=LAST).contains(&number)
        && User::from_uid(Uid::from_raw(number)).is_ok_and(|user| user.is_none())
}

/// Whether no process has a number, now or after as much patience.
fn runs_nothing(number: u32, patience: &mut Duration) -> anyhow::Result<bool> {
    while running().context("cannot see whose processes run")?.contains(&number) {
        if patience.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(STEP);
        *patience = patience.saturating_sub(STEP);
    }
    // Only the first number is waited for.
    *patience = Duration::ZERO;
    Ok(true)
}

/// All user numbers, in an order specific to the network namespace: a gateway gets the same number again while
/// this number is free.
fn candidates(namespace: u64) -> impl Iterator<Item = u32> {
    let count = LAST - FIRST + 1;
    // Namespaces made one after the other have consecutive numbers.
    let mixed = namespace.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let first = u32::try_from(mixed % u64::from(count)).unwrap_or_default();
    (0..count).map(move |tried| FIRST + (first + tried) % count)
}

/// The users and groups of all processes.
fn running() -> io::Result<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for process in fs::read_dir("/proc")? {
        // It may have ended meanwhile.
        let Ok(status) = fs::read_to_string(process?.path().join("status")) else { continue };
        // A zombie: the process has ended, but its parent has not waited for it yet.
        if status.lines().any(|line| line.starts_with("State:") && line.contains('Z')) {
            continue;
        }
        let lines = status
            .lines()
            .filter_map(|line| line.strip_prefix("Uid:").or_else(|| line.strip_prefix("Gid:")));
        all.extend(lines.flat_map(str::split_whitespace).filter_map(|it| it.parse::<u32>().ok()));
    }
    Ok(all)
}

fn is_free(number: u32) -> anyhow::Result<bool> {
    let asked = "cannot look for accounts";
    Ok(User::from_uid(Uid::from_raw(number)).context(asked)?.is_none()
        && Group::from_gid(Gid::from_raw(number)).context(asked)?.is_none()
        && !Path::new(&format!("/run/systemd/dynamic-uid/{number}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_named_or_numbered_and_have_to_exist() {
        let missing = Account::choose(Some("nobody-has-this"), 7).unwrap_err().to_string();
        let [by_name, by_number] = ["root", "0"].map(|it| Account::find(it).unwrap().unwrap());

        assert!(missing.contains("there is no such account; `useradd --system"), "{missing}");
        assert_eq!(by_name, by_number);
        assert_eq!(by_name.to_string(), "user root (0)");
    }

    #[test]
    fn a_user_without_a_name_is_one_that_no_account_has() {
        let account = Account::without_name(7).unwrap();

        assert!((FIRST..=LAST).contains(&account.uid.as_raw()));
        assert_eq!(User::from_uid(account.uid).unwrap(), None);
        assert_eq!(account.gid.as_raw(), account.uid.as_raw());
        assert!(!running().unwrap().contains(&account.uid.as_raw()));
    }

    #[test]
    fn each_network_namespace_begins_elsewhere_with_the_same_numbers() {
        let firsts: BTreeSet<_> =
            (4_026_531_840..4_026_531_940).filter_map(|it| candidates(it).next()).collect();
        let all: BTreeSet<_> = candidates(4_026_532_271).collect();

        assert!(firsts.len() >= 98, "{firsts:?}");
        assert_eq!((all.first(), all.last()), (Some(&FIRST), Some(&LAST)));
        assert_eq!(all.len(), usize::try_from(LAST - FIRST + 1).unwrap());
        assert!(running().unwrap().contains(&Uid::effective().as_raw()));
    }
}
