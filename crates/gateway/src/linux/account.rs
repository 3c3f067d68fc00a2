//! The user as which the gateway runs.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use nix::unistd::{Gid, Group, Uid, User};

/// The account that is used where it exists.
const USUAL: &str = "trackway";

/// Users without a name, from which systemd's `DynamicUser=` takes its own, too.
const FIRST: u32 = 61_184;
const LAST: u32 = 65_519;
/// Always the same while it is free, so that what the gateway keeps stays its own.
const PREFERRED: u32 = 64_327;

/// A user and its group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    name: Option<String>,
}

impl Account {
    /// The user to become, `None` to stay what we are: root's choice alone.
    ///
    /// # Errors
    /// When there is no such user, or only root could become it.
    pub(crate) fn choose(named: Option<&str>) -> anyhow::Result<Option<Self>> {
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
                None => Self::without_name()?,
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

    /// A user that nobody else is.
    fn without_name() -> anyhow::Result<Self> {
        let count = LAST - FIRST + 1;
        for tried in 0..count {
            let number = FIRST + (PREFERRED - FIRST + tried) % count;
            if is_free(number)? {
                return Ok(Self::of(number, number));
            }
        }
        bail!("no user is free from {FIRST} to {LAST}: `useradd --system {USUAL}` makes an account")
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "user {name} ({})", self.uid),
            None => write!(f, "user {}, without a name", self.uid),
        }
    }
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
        let missing = Account::choose(Some("nobody-has-this")).unwrap_err().to_string();
        let [by_name, by_number] = ["root", "0"].map(|it| Account::find(it).unwrap().unwrap());

        assert!(missing.contains("there is no such account; `useradd --system"), "{missing}");
        assert_eq!(by_name, by_number);
        assert_eq!(by_name.to_string(), "user root (0)");
    }

    #[test]
    fn a_user_without_a_name_is_one_that_no_account_has() {
        let account = Account::without_name().unwrap();

        assert!((FIRST..=LAST).contains(&account.uid.as_raw()));
        assert_eq!(User::from_uid(account.uid).unwrap(), None);
        assert_eq!(account.gid.as_raw(), account.uid.as_raw());
    }
}
