//! Reads the sections `tls`: TLS profiles of this gateway, for use by rules.

use std::path::{Path, PathBuf};
use std::slice;

use base::name;
use rustls::pki_types::ServerName;
use settings::schema::{self, Shape};
use settings::{Complaint, Entry, Section, each, nearest};

use super::{ends, file, some};
use crate::tls::names::AuthRule;
use crate::tls::{
    ClientProfile, CredentialFiles, Destination, Profile, Profiles, Role, ServerProfile,
    TargetProfile, TwoWay, Version,
};

/// Profiles, and rules or targets of each, at most.
const MAX: usize = 256;
const MAX_PROTOCOLS: usize = 16;
const ROLES: [(&str, End); 2] = [("client", End::Client), ("server", End::Server)];
const CLIENT_KEYS: [&str; 2] = ["trust-anchors", "target"];
const SERVER_KEYS: [&str; 5] = ["certificate", "key", "client-trust-anchors", "auth", "alpn"];
const VERSIONS: [(&str, Version); 2] = [("1.2", Version::Tls12), ("1.3", Version::Tls13)];

#[derive(Clone, Copy)]
enum End {
    Client,
    Server,
}

/// The file names of a profile, and where they stand.
struct Files<'d, 'f> {
    folder: Option<&'f Path>,
    read: Vec<(Entry<'d>, PathBuf)>,
}

/// Reads the sections; with the folder of the configuration, their files too.
pub fn read(root: &Section<'_>, folder: Option<&Path>) -> Result<Vec<Profile>, Complaint> {
    let Some(list) = root.get("tls")? else { return Ok(Vec::new()) };
    some(&list, MAX)?;
    let mut profiles: Vec<Profile> = Vec::new();
    each(&root.sections("tls")?, |section| {
        let name = section.needed("name").and_then(|entry| {
            let name = entry.text()?;
            name::check(name).map_err(|what| entry.complain(what))?;
            if profiles.iter().any(|other| other.name == name) {
                return Err(entry.complain(format!("{name:?} is there twice")));
            }
            Ok(name.to_owned())
        });
        let mut files = Files { folder, read: Vec::new() };
        let role = section.needed("role").and_then(|entry| entry.word(&ROLES));
        let role = match role {
            Ok(End::Client) => {
                let others = refuse(section, &SERVER_KEYS, "server");
                client(section, &mut files).map(Role::Client).and_then(|role| others.map(|()| role))
            }
            Ok(End::Server) => {
                let others = refuse(section, &CLIENT_KEYS, "client");
                server(section, &mut files).map(Role::Server).and_then(|role| others.map(|()| role))
            }
            Err(complaint) => {
                section.pass_over();
                Err(complaint)
            }
        };
        let profile = Profile { name: name?, role: role? };
        files.check(section, &profile)?;
        profiles.push(profile);
        Ok(())
    })?;
    Ok(profiles)
}

/// The name of an existing profile with the needed role: `"client"` or `"server"`.
pub fn name(entry: &Entry<'_>, profiles: &[Profile], needed: &str) -> Result<String, Complaint> {
    let name = entry.text()?;
    let Some(profile) = profiles.iter().find(|profile| profile.name == name) else {
        let names = profiles.iter().map(|profile| &*profile.name);
        let meant = nearest(name, names);
        let meant = meant.map_or(String::new(), |it| format!("; {it:?} is probably meant"));
        let what = format!("there is no [[tls]] with the name {name:?}{meant}");
        return Err(entry.complain(what));
    };
    let role = match profile.role {
        Role::Client(_) => "client",
        Role::Server(_) => "server",
    };
    if role != needed {
        let what = format!("the role of {name:?} is {role:?}: one with {needed:?} is needed");
        return Err(entry.complain(what));
    }
    Ok(name.to_owned())
}

/// Refuses keys of the other role.
fn refuse(section: &Section<'_>, keys: &[&str], role: &str) -> Result<(), Complaint> {
    let others = each(keys, |key| match section.get(key)? {
        Some(entry) => Err(entry.complain_of_key(format!("it is for role = {role:?}"))),
        None => Ok(()),
    });
    others.map(|_| ())
}

fn server<'d>(
    section: &Section<'d>,
    files: &mut Files<'d, '_>,
) -> Result<ServerProfile, Complaint> {
    let credentials = credentials(section, files).and_then(|credentials| {
        let certificate = section.needed("certificate")?;
        credentials.ok_or_else(|| certificate.complain("key is missing"))
    });
    let anchors = section.get("client-trust-anchors");
    let anchors =
        anchors.and_then(|entry| Ok((entry.clone(), entry.map(|it| files.name(it)).transpose()?)));
    let rules = section.sections("auth");
    let auth = rules.clone().and_then(|rules| {
        each(&rules, |rule| {
            let (san, id) = (rule.needed("san"), rule.needed("id"));
            let (san, id) = (san.and_then(|it| it.parsed()), id.and_then(|it| it.parsed()));
            Ok(AuthRule { san: san?, id: id? })
        })
    });
    let (alpn, versions) = (alpn(section), versions(section));
    let (anchors, rules) = (anchors?, rules?);
    let two_way = match anchors {
        (Some(entry), _) if rules.is_empty() || rules.len() > MAX => {
            let what = format!("{} rules in auth: 1 to {MAX} are needed with it", rules.len());
            return Err(entry.complain(what));
        }
        (_, Some(trust_anchors)) => Some(TwoWay { trust_anchors, auth: auth? }),
        (_, None) if rules.is_empty() => None,
        (_, None) => {
            let what = "client-trust-anchors is needed with auth: who issues the certificates";
            return Err(section.needed("auth")?.complain(what));
        }
    };
    Ok(ServerProfile { credentials: credentials?, two_way, alpn: alpn?, versions: versions? })
}

fn client<'d>(
    section: &Section<'d>,
    files: &mut Files<'d, '_>,
) -> Result<ClientProfile, Complaint> {
    let trust_anchors = section.needed("trust-anchors").and_then(|it| files.name(it));
    let versions = versions(section);
    let sections = section.sections("target")?;
    if let Some(first) = sections.get(MAX) {
        return Err(first.complain(format!("more than {MAX} targets")));
    }
    let mut targets: Vec<TargetProfile> = Vec::new();
    let read = each(&sections, |section| {
        let target = target(section, files)?;
        if targets.iter().any(|other| other.id == target.id) {
            let what = format!("{} is there twice", target.id);
            return Err(section.needed("id")?.complain(what));
        }
        targets.push(target);
        Ok(())
    });
    read?;
    Ok(ClientProfile { trust_anchors: trust_anchors?, targets, versions: versions? })
}

fn target<'d>(
    section: &Section<'d>,
    files: &mut Files<'d, '_>,
) -> Result<TargetProfile, Complaint> {
    let id = section.needed("id").and_then(|entry| entry.parsed());
    let to_entry = section.needed("to");
    let to = to_entry.clone().and_then(|entry| entry.parsed::<Destination>());
    let name = section.get("server-name");
    let trust_anchors = section.get("trust-anchors");
    let trust_anchors = trust_anchors.and_then(|it| it.map(|entry| files.name(entry)).transpose());
    let credentials = credentials(section, files);
    let users = ends::read(section);
    let (entry, host) = match (name?, to_entry?, &to) {
        (Some(entry), ..) => {
            let name = entry.text()?.to_owned();
            (entry, name)
        }
        (None, entry, Ok(Destination::Address(address))) => (entry, address.ip().to_string()),
        (None, entry, Ok(Destination::Host(host, _))) => (entry, host.clone()),
        (None, _, Err(complaint)) => return Err(complaint.clone()),
    };
    let server_name = ServerName::try_from(host.clone())
        .map_err(|_| entry.complain(format!("{host:?} is not allowed: a host name or an address")));
    Ok(TargetProfile {
        id: id?,
        to: to?,
        server_name: server_name?,
        trust_anchors: trust_anchors?,
        credentials: credentials?,
        users: users?,
    })
}

/// A certificate and its key: both or none.
fn credentials<'d>(
    section: &Section<'d>,
    files: &mut Files<'d, '_>,
) -> Result<Option<CredentialFiles>, Complaint> {
    let (certificate, key) = (section.get("certificate"), section.get("key"));
    match (certificate?, key?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (files.name(certificate), files.name(key));
            Ok(Some(CredentialFiles { certificate: certificate?, key: key? }))
        }
        (Some(entry), None) => Err(entry.complain("key is missing: the file with its private key")),
        (None, Some(entry)) => Err(entry.complain("certificate is missing: the file it fits")),
    }
}

fn alpn(section: &Section<'_>) -> Result<Vec<String>, Complaint> {
    let Some(entry) = section.get("alpn")? else { return Ok(Vec::new()) };
    let mut protocols: Vec<String> = Vec::new();
    each(&some(&entry, MAX_PROTOCOLS)?, |entry| {
        let name = entry.text()?;
        if !(1..=32).contains(&name.len()) || !name.chars().all(|it| it.is_ascii_graphic()) {
            let what = format!("{name:?} is not allowed: a protocol, such as \"http/1.1\"");
            return Err(entry.complain(what));
        }
        if protocols.iter().any(|other| other == name) {
            return Err(entry.complain(format!("{name:?} is there twice")));
        }
        protocols.push(name.to_owned());
        Ok(())
    })?;
    Ok(protocols)
}

fn versions(section: &Section<'_>) -> Result<Vec<Version>, Complaint> {
    let Some(entry) = section.get("versions")? else {
        return Ok(vec![Version::Tls12, Version::Tls13]);
    };
    let mut versions = Vec::new();
    each(&some(&entry, VERSIONS.len())?, |entry| {
        let version = entry.word(&VERSIONS)?;
        if versions.contains(&version) {
            return Err(entry.complain("it is there twice"));
        }
        versions.push(version);
        Ok(())
    })?;
    Ok(versions)
}

impl<'d> Files<'d, '_> {
    /// The file that an entry names.
    fn name(&mut self, entry: Entry<'d>) -> Result<PathBuf, Complaint> {
        let path = file(&entry, self.folder)?;
        self.read.push((entry, path.clone()));
        Ok(path)
    }

    /// Loads the files once, if there is a folder to look in.
    fn check(&self, section: &Section<'_>, profile: &Profile) -> Result<(), Complaint> {
        if self.folder.is_none() {
            return Ok(());
        }
        let Err(bad) = Profiles::load(slice::from_ref(profile)) else { return Ok(()) };
        let remedy = if bad.why.is_missing() {
            "; `trackway tls --help` says how to make one for a test"
        } else {
            ""
        };
        let what = format!("{bad}{remedy}");
        let entry = self.read.iter().find(|(_, path)| *path == bad.file);
        Err(entry.map_or_else(|| section.complain(&what), |(entry, _)| entry.complain(&what)))
    }
}

/// Describes the sections for editors: a profile of a server or of a client.
pub fn schema() -> serde_json::Value {
    let profile = |role: &str| {
        Shape::new()
            .needed("name", "What rules call it.", schema::like(name::PATTERN))
            .needed("role", "What this gateway is.", schema::like(&format!("^{role}$")))
            .key(
                "versions",
                "Those that are spoken.",
                schema::list(schema::words(&VERSIONS), 1, VERSIONS.len()),
            )
    };
    let auth = Shape::new()
        .needed("san", "Names in certificates of clients.", schema::text())
        .needed("id", "The Auth ID of such a client.", auth_id());
    let server = profile("server")
        .needed("certificate", "The file with the certificate.", schema::text())
        .needed("key", "The file with its private key.", schema::text())
        .key(
            "client-trust-anchors",
            "The file with who issues certificates of clients.",
            schema::text(),
        )
        .key("auth", "Who clients are.", schema::list(auth.table(), 0, MAX))
        .key(
            "alpn",
            "Protocols that are spoken inside.",
            schema::list(schema::text(), 1, MAX_PROTOCOLS),
        );
    let target = Shape::new()
        .needed("id", "The Auth ID that leads there.", auth_id())
        .needed("to", "Where it is.", schema::like(":[+0-9]+$"))
        .key("server-name", "What its certificate is for.", schema::text())
        .key("trust-anchors", "The file with who issues its certificate.", schema::text())
        .key("certificate", "The file with our certificate for it.", schema::text())
        .key("key", "The file with its private key.", schema::text());
    let client = profile("client")
        .needed(
            "trust-anchors",
            "The file with who issues certificates of servers.",
            schema::text(),
        )
        .key("target", "Where Auth IDs lead.", schema::list(ends::schema(target).table(), 0, MAX));
    schema::list(schema::any([server.table(), client.table()]), 1, MAX)
}

fn auth_id() -> serde_json::Value {
    schema::like("^[A-Za-z0-9._@-]{1,64}$")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Config;
    use super::*;
    use crate::keys;
    use crate::tls::authority::{Authority, Usage, Validity};

    const TEXT: &str = r#"
        [hbh]
        interfaces = ["wlan0"]

        [[tls]]
        name = "web"
        role = "server"
        certificate = "web.crt"
        key = "web.key"

        [[tls]]
        name = "shore"
        role = "client"
        trust-anchors = "ca.crt"
    "#;

    #[test]
    fn a_profile_is_read_for_each_end() {
        let two_way = r#"
            versions = ["1.3"]
            [[tls.target]]
            id = "bob"
            to = "tak.example:8089"
            certificate = "bob.crt"
            key = "bob.key"
            [[tls.target]]
            id = "alice"
            to = "10.9.0.1:8089"
            trust-anchors = "tak.crt"
            [[tls]]
            name = "tak"
            role = "server"
            certificate = "tak.crt"
            key = "tak.key"
            client-trust-anchors = "clients.crt"
            auth = [{ san = "bob@unit.example", id = "bob" }, { san = "*.unit.example", id = "unit" }]
            alpn = ["h2", "http/1.1"]
        "#;

        let profiles = Config::parse("a.toml", &format!("{TEXT}{two_way}")).unwrap().tls;

        let [web, shore, tak] = &profiles[..] else { panic!("{profiles:?}") };
        let Role::Server(web) = &web.role else { panic!("{web:?}") };
        assert_eq!((&web.two_way, web.alpn.len(), web.versions.len()), (&None, 0, 2));
        let Role::Client(shore) = &shore.role else { panic!("{shore:?}") };
        assert_eq!(shore.versions, [Version::Tls13]);
        let names: Vec<_> = shore.targets.iter().map(|it| it.server_name.to_str()).collect();
        assert_eq!(names, ["tak.example", "10.9.0.1"]);
        assert_eq!(shore.targets[1].trust_anchors, Some("tak.crt".into()));
        let Role::Server(tak) = &tak.role else { panic!("{tak:?}") };
        assert_eq!(tak.alpn, ["h2", "http/1.1"]);
        let auth = &tak.two_way.as_ref().unwrap().auth;
        assert_eq!(auth.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["bob", "unit"]);
    }

    #[test]
    fn an_error_names_file_line_key_and_what_is_allowed() {
        let with_auth =
            |auth: &str| format!("key = \"k\"\nclient-trust-anchors = \"c\"\n{auth}\n#");
        let with_target =
            |target: &str| format!("trust-anchors = \"c\"\ntarget = [{{{target}}}]\n#");
        for (from, to, expected) in [
            ("\"web\"", "\"a b\"", "6: tls.name: \"a b\" is not allowed: 1 to 32 letters"),
            ("\"shore\"", "\"web\"", "12: tls.name: \"web\" is there twice"),
            (
                "\"server\"",
                "\"both\"",
                "7: tls.role: \"both\" is not allowed: \"client\", \"server\"",
            ),
            ("key =", "kye =", "8: tls.certificate: key is missing"),
            ("key =", "alpn = []\nkey =", "9: tls.alpn: 0 of them: 1 to 16 are allowed"),
            ("key =", "alpn = [\"\"]\nkey =", "9: tls.alpn: \"\" is not allowed: a protocol"),
            (
                "key =",
                "versions = [\"1.1\"]\nkey =",
                "9: tls.versions: \"1.1\" is not allowed: \"1.2\"",
            ),
            ("key =", "auth = [{}]\nkey =", "9: tls.auth: client-trust-anchors is needed"),
            ("key =", &with_auth(""), "10: tls.client-trust-anchors: 0 rules in auth: 1 to 256"),
            (
                "key =",
                &with_auth("auth = [{ san = \"*\", id = \"a\" }]"),
                "11: tls.auth.san: \"*\" is not allowed: a domain such as",
            ),
            (
                "key =",
                &with_auth("auth = [{ san = \"a.b\", id = \"\" }]"),
                "11: tls.auth.id: \"\" is not allowed: 1 to 64 letters",
            ),
            ("trust-anchors = \"ca.crt\"", "", "11: tls: trust-anchors is missing"),
            (
                "trust-anchors =",
                &with_target("id = \"a\", to = \"tak\""),
                "15: tls.target.to: \"tak\" is not allowed: an address or host name and a port",
            ),
            (
                "trust-anchors =",
                &with_target("id = \"a\", to = \"tak:1\", key = \"k\""),
                "15: tls.target.key: certificate is missing",
            ),
            (
                "trust-anchors =",
                "key = \"k\"\ntrust-anchors =",
                "14: tls.key: it is for role = \"server\"",
            ),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let said = Config::parse("a.toml", &text).unwrap_err().to_string();
            let is_told = said.lines().any(|line| line.starts_with(&format!("a.toml:{expected}")));
            assert!(is_told, "{said}\nnot\n{expected}");
        }
    }

    #[test]
    fn the_files_are_checked_with_the_configuration() {
        let folder =
            std::env::temp_dir().join(format!("trackway-tls-config-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        fs::write(path("a.toml"), TEXT).unwrap();
        let read = || Config::read(&path("a.toml")).map_err(|why| why.to_string());
        let issued = Authority::make("test", Validity::of_days(1)).unwrap();
        let authority = Authority::open(&issued).unwrap();
        let web = ["web.example".to_owned()];
        let web = authority.issue(&web, Usage::Server, Validity::of_days(1)).unwrap();

        let missing = read().unwrap_err();
        fs::write(path("web.crt"), &web.certificate).unwrap();
        keys::write_new(&path("web.key"), &web.key).unwrap();
        let no_anchors = read().unwrap_err();
        fs::write(path("ca.crt"), &issued.certificate).unwrap();
        let good = read().map(|config| config.tls.len());
        fs::write(path("web.key"), &issued.key).unwrap();
        let mismatch = read().unwrap_err();
        fs::remove_dir_all(&folder).unwrap();

        assert!(
            missing.contains("a.toml:8: tls.certificate: ") && missing.contains("trackway tls")
        );
        assert!(no_anchors.contains("a.toml:14: tls.trust-anchors: "), "{no_anchors}");
        assert_eq!(good, Ok(2));
        assert!(mismatch.contains("a.toml:9: tls.key: ") && mismatch.contains("does not fit"));
    }
}
