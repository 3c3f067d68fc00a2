//! Reads the list of HBH neighbours, and the key of their group.

use std::path::{Path, PathBuf};

use ::hbh::neighbours::Listed;
use base::keys::GroupSecret;
use base::parameter::Written;
use settings::{Complaint, Entry, each, schema};

use super::file;
use crate::keys;

/// The list of neighbours; `None` if neighbours are discovered.
pub fn list(entry: &Entry<'_>) -> Result<Option<Vec<Listed>>, Complaint> {
    let list = match entry.written() {
        Written::Text("discover") => return Ok(None),
        Written::List(_) => entry.list()?,
        written => {
            // Also where a key was written.
            if let Written::Text(_) = written {
                entry.text()?;
            }
            let what = format!("{written} is not allowed: \"discover\", or a list of addresses");
            return Err(entry.complain(what));
        }
    };
    if list.is_empty() {
        let what = "the list is empty: \"discover\", or at least one address";
        return Err(entry.complain(what));
    }
    let read = |entry: &Entry<'_>| {
        let text = entry.text()?;
        text.parse().map_err(|why| {
            entry.complain(format!(
                "{text:?} is not allowed: {why}; an address, and perhaps where it is: \
                 \"10.0.0.2 at 02:11:22:33:44:55\""
            ))
        })
    };
    each(&list, read).map(Some)
}

/// The file with the group's key, which is checked if there is a folder to look in.
pub fn group_key(entry: &Entry<'_>, folder: Option<&Path>) -> Result<PathBuf, Complaint> {
    let path = file(entry, folder)?;
    if folder.is_none() {
        return Ok(path);
    }
    match keys::read::<GroupSecret>(&path) {
        Ok(_) => Ok(path),
        Err(why) => {
            let remedy = if why.is_missing() {
                format!("; `trackway keygen --group --out {}` makes one", path.display())
            } else {
                String::new()
            };
            Err(entry.complain(format!("{}: {why}{remedy}", path.display())))
        }
    }
}

/// Describes the list for editors.
pub fn schema() -> serde_json::Value {
    schema::any([
        schema::like("^discover$"),
        schema::list(schema::like(r"^[0-9A-Fa-f:.]+(\s+at\s+\S+)?$"), 1, usize::MAX),
    ])
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
        fs::write(&config, "[hbh]\ninterfaces = [\"wlan0\"]\ngroup-key = \"group.key\"\n").unwrap();
        let read = || Config::read(&config).map_err(|why| why.to_string());

        let missing = read().unwrap_err();
        let secret = GroupSecret::generate(&mut keys::System).unwrap();
        keys::write_new(&key, &secret.to_base64()).unwrap();
        let config_read = read().unwrap().hbh.unwrap();
        let group_key = config_read.read_group_key().unwrap();
        fs::write(&key, "not a key").unwrap();
        let malformed = read().unwrap_err();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let open = read().unwrap_err();
        fs::remove_dir_all(&folder).unwrap();

        assert!(missing.contains("a.toml:3: hbh.group-key: "), "{missing}");
        assert!(missing.contains("`trackway keygen --group --out "), "{missing}");
        assert_eq!(config_read.group_key, Some(key));
        assert!(group_key.is_some());
        assert!(malformed.contains("group.key: not a key: 32 octets"), "{malformed}");
        assert!(open.contains("mode 0644): chmod 600"), "{open}");
    }
}
