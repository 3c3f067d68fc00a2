//! Files that are refused before anybody relies on them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::super::authority::Usage;
use super::super::*;
use super::rig::{Rig, wrong_times};

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let rig = Rig::new();
    let good = rig.server_profile();
    let CredentialFiles { certificate, key } = good.credentials.clone();
    let names = &["tak.example"];
    let other = rig.issue("ours", Usage::Server, names);
    let [past, future] = wrong_times().map(|it| rig.issue_for("ours", Usage::Server, names, it));
    let empty = rig.path("empty");
    fs::write(&empty, "no certificate").unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    let long = rig.path("long");
    fs::write(&long, vec![b'x'; 2 << 20]).unwrap();
    let many = rig.path("many");
    fs::write(&many, fs::read_to_string(&certificate).unwrap().repeat(9)).unwrap();
    let broken = rig.path("broken");
    let der = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    fs::write(&broken, der).unwrap();
    let open = rig.path("open");
    fs::copy(&key, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let missing = rig.path("missing");
    for (certificate, key, blamed, expected) in [
        (&past.certificate, &past.key, &past.certificate, "certificate 1 expired on 20"),
        (
            &future.certificate,
            &future.key,
            &future.certificate,
            "certificate 1 is not valid before",
        ),
        (&other.certificate, &key, &key, "the key does not fit the certificate"),
        (&empty, &key, &empty, "there is no certificate in it"),
        (&long, &key, &long, "more than 8 certificates, or longer than 1048576"),
        (&many, &key, &many, "more than 8 certificates, or longer"),
        (&broken, &key, &broken, "certificate 1 is malformed"),
        (&rig.anchors("ours"), &key, &rig.anchors("ours"), "the certificate names nobody"),
        (
            &certificate,
            &open,
            &open,
            "others than its owner may read or change it (mode 0644): chmod 600",
        ),
        (&certificate, &empty, &empty, "there is no private key in it"),
        (&certificate, &missing, &missing, "No such file"),
    ] {
        let credentials = CredentialFiles { certificate: certificate.clone(), key: key.clone() };
        let profile = ServerProfile { credentials, ..good.clone() };

        let refused = Server::load(&profile).unwrap_err();

        assert_eq!(refused.file, *blamed, "{refused}");
        let said = refused.why.to_string();
        assert!(said.starts_with(expected), "{said}\nnot\n{expected}");
        assert_eq!(refused.why.is_missing(), *blamed == missing);
    }
    for (trust_anchors, expected) in [
        (&empty, "there is no certificate in it"),
        (&broken, "certificate 1 is malformed"),
        (&missing, "No such file"),
    ] {
        let profile =
            ClientProfile { trust_anchors: trust_anchors.clone(), ..rig.client_profile() };
        let refused = Client::load(&profile).unwrap_err();
        assert!(refused.why.to_string().starts_with(expected), "{refused}");
    }
}
