//! What must not be seen: keys in logs and messages.

use std::fs;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::super::*;
use super::rig::{PeerClient, Rig, talk};

#[test]
fn nothing_that_can_be_logged_shows_a_key() {
    let rig = Rig::new();
    let profile = rig.two_way_profile(&[("*@unit.example", "unit")]);
    let server = Arc::new(Server::load(&profile).unwrap());
    let mut session = Session::accept(&server);
    talk(&mut session, &mut rig.peer_client(&PeerClient::default()));
    let profiles =
        Profiles::load(&[Profile { name: "web".to_owned(), role: Role::Server(profile.clone()) }])
            .unwrap();
    let pem = fs::read_to_string(&profile.credentials.key).unwrap();
    let issued = authority::Issued { certificate: String::new(), key: pem.clone() };
    let authority = authority::Authority::open(&authority::Issued {
        certificate: fs::read_to_string(rig.path("ours.crt")).unwrap(),
        key: fs::read_to_string(rig.path("ours.key")).unwrap(),
    });
    // A key where a certificate is expected, and half a key.
    let swapped = files::chain(&profile.credentials.key).unwrap_err();
    fs::write(&profile.credentials.key, &pem[..pem.len() / 2]).unwrap();
    let half = Server::load(&profile).unwrap_err();

    let told = format!(
        "{server:?} {server:#?} {session:?} {profiles:?} {profile:?} {issued:?} {authority:?} \
         {swapped:?} {swapped} {half:?} {half}"
    );

    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let octets = key.secret_der();
    let decimal = format!("{:?}", &octets[40..48]);
    let lines = pem.lines().filter(|line| !line.is_empty() && !line.starts_with('-'));
    for secret in lines.chain([decimal.trim_matches(['[', ']'])]) {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    assert!(half.to_string().contains("there is no private key in it"), "{half}");
}
