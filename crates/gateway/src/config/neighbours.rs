//! With whom HBH is spoken: a list, and the key of the group.

use std::path::{Path, PathBuf};

use proto::hbh::neighbours::Listed;
use proto::secure::GroupSecret;
use serde::Deserialize;
use toml::Spanned;

use super::value::Span;
use crate::keys;

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"discover\" or a list of addresses")]
pub(super) enum Choice {
    Listed(Vec<String>),
    Word(Discover),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Discover {
    Discover,
}

/// The list, if there is one.
pub(super) fn check_list(choice: Spanned<Choice>) -> Result<Option<Vec<Listed>>, (Span, String)> {
    let span = choice.span();
    let Choice::Listed(texts) = choice.into_inner() else { return Ok(None) };
    if texts.is_empty() {
        let what = "neighbours: the list is empty: \"discover\", or at least one address";
        return Err((span, what.to_owned()));
    }
    let read = |text: &String| {
        text.parse::<Listed>().map_err(|why| {
            let what = format!(
                "neighbours: {text:?} is not allowed: {why}; an address, and perhaps where it is: \
                 \"10.0.0.2 at 02:11:22:33:44:55\""
            );
            (span.clone(), what)
        })
    };
    texts.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// Paths are meant from where the configuration is.
pub(super) fn check_group_key(
    file: &Spanned<PathBuf>,
    folder: Option<&Path>,
) -> Result<PathBuf, (Span, String)> {
    let Some(folder) = folder else { return Ok(file.get_ref().clone()) };
    let path = folder.join(file.get_ref());
    match keys::read::<GroupSecret>(&path) {
        Ok(_) => Ok(path),
        Err(why) => {
            let remedy = if why.is_missing() {
                format!("; `trackway keygen --group --out {}` makes one", path.display())
            } else {
                String::new()
            };
            Err((file.span(), format!("group_key: {}: {why}{remedy}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::Config;
    use super::*;

    #[test]
    fn a_group_key_is_read_from_a_file_of_its_own() {
        let folder = std::env::temp_dir().join(format!("trackway-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [config, key] = ["a.toml", "group.key"].map(|name| folder.join(name));
        fs::write(&config, "interfaces = [\"wlan0\"]\ngroup_key = \"group.key\"\n").unwrap();
        let read = || Config::read(&config).map_err(|why| why.to_string());

        let missing = read().unwrap_err();
        let secret = GroupSecret::generate(&mut keys::System).unwrap();
        keys::write_new(&key, &secret.to_base64()).unwrap();
        let config_read = read().unwrap();
        let group_key = config_read.read_group_key().unwrap();
        fs::write(&key, "not a key").unwrap();
        let malformed = read().unwrap_err();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let open = read().unwrap_err();
        fs::remove_dir_all(&folder).unwrap();

        assert!(missing.contains("a.toml, line 2: group_key: "), "{missing}");
        assert!(missing.contains("`trackway keygen --group --out "), "{missing}");
        assert_eq!(config_read.group_key, Some(key));
        assert!(group_key.is_some());
        assert!(malformed.contains("group.key: not a key: 32 octets"), "{malformed}");
        assert!(open.contains("mode 0644): chmod 600"), "{open}");
    }
}
