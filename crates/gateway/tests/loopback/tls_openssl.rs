//! Tests TLS sessions with OpenSSL at the other end, where OpenSSL is installed.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use gateway::ends::Ends;
use gateway::keys;
use gateway::tls::authority::{Authority, Issued, Usage, Validity};
use gateway::tls::{
    Client, ClientProfile, CredentialFiles, Failure, Plain, Server, ServerProfile, Session,
    TargetProfile, TwoWay, Version,
};

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

#[test]
fn openssl_is_served_and_says_goodbye() {
    if !has_openssl() {
        return;
    }
    let folder = Folder::new("served");
    let profile = ServerProfile {
        credentials: folder.issue("tak.example", Usage::Server),
        two_way: Some(TwoWay {
            trust_anchors: folder.0.join("ca.crt"),
            auth: vec![gateway::tls::names::AuthRule {
                san: "*@unit.example".parse().unwrap(),
                id: "unit".parse().unwrap(),
            }],
        }),
        alpn: vec!["http/1.1".to_owned()],
        versions: vec![Version::Tls12, Version::Tls13],
    };
    let bob = folder.issue("bob@unit.example", Usage::Client);
    let server = Arc::new(Server::load(&profile).unwrap());
    for version in VERSIONS {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut client = openssl(&folder)
            .args(["s_client", "-connect", &address, "-servername", "tak.example", version])
            .args(["-alpn", "h2,http/1.1", "-CAfile", "ca.crt", "-verify_return_error", "-quiet"])
            .args(["-verify_hostname", "tak.example"])
            .args(["-cert".as_ref(), bob.certificate.as_os_str()])
            .args(["-key".as_ref(), bob.key.as_os_str()])
            .spawn()
            .unwrap();
        let (tcp, _) = listener.accept().unwrap();
        client.stdin.as_mut().unwrap().write_all(b"question\n").unwrap();

        let mut session = Session::accept(&server);
        let question = until(&mut session, &tcp, b"question\n".len()).unwrap();
        let terms = session.terms().unwrap().clone();
        session.write(b"answer\n");
        session.end();
        flush(&mut session, &tcp);
        let mut answer = String::new();
        client.stdout.as_mut().unwrap().read_to_string(&mut answer).unwrap();
        end(client);

        assert_eq!(question, b"question\n", "{version}");
        assert_eq!(terms.auth_id.unwrap().as_str(), "unit");
        assert_eq!(
            (terms.sni.as_deref(), terms.is_tls13),
            (Some("tak.example"), version == VERSIONS[1])
        );
        assert_eq!(terms.alpn.as_deref(), Some(&b"http/1.1"[..]));
        assert_eq!(answer, "answer\n");
    }
}

#[test]
fn openssl_is_called_and_checked() {
    if !has_openssl() {
        return;
    }
    let folder = Folder::new("called");
    let shown = folder.issue("tak.example", Usage::Server);
    let target = |id: &str, name: &str| TargetProfile {
        id: id.parse().unwrap(),
        to: "192.0.2.1:1".parse().unwrap(),
        server_name: name.to_owned().try_into().unwrap(),
        trust_anchors: None,
        credentials: Some(folder.issue(&format!("{id}@unit.example"), Usage::Client)),
        users: Ends::default(),
    };
    let profile = ClientProfile {
        trust_anchors: folder.0.join("ca.crt"),
        targets: vec![target("bob", "tak.example"), target("eve", "other.example")],
        versions: vec![Version::Tls12, Version::Tls13],
    };
    let client = Client::load(&profile).unwrap();
    for version in VERSIONS {
        for (id, expected) in [("bob", None), ("eve", Some(Failure::WrongName))] {
            let mut server = openssl(&folder)
                .args(["s_server", "-accept", "127.0.0.1:0", version, "-naccept", "1"])
                .args(["-alpn", "http/1.1", "-CAfile", "ca.crt", "-Verify", "1", "-rev"])
                .args(["-cert".as_ref(), shown.certificate.as_os_str()])
                .args(["-key".as_ref(), shown.key.as_os_str()])
                .spawn()
                .unwrap();
            let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
            let address = said
                .find_map(|line| line.unwrap().strip_prefix("ACCEPT ").map(str::to_owned))
                .unwrap();
            let tcp = TcpStream::connect(address).unwrap();

            let mut session = client.target(id).unwrap().connect(Some(b"http/1.1")).unwrap();
            flush(&mut session, &tcp);
            let made = until(&mut session, &tcp, 0);
            session.write(b"question\n");
            flush(&mut session, &tcp);
            let answer = made.and_then(|_| until(&mut session, &tcp, b"noitseuq\n".len()));
            drop(tcp);
            end(server);

            match expected {
                None => assert_eq!(answer, Ok(b"noitseuq\n".to_vec()), "{version}"),
                Some(failure) => assert_eq!(answer, Err(failure), "{version}"),
            }
        }
    }
}

/// Goes on until the handshake is complete and so many plain octets have come.
fn until(session: &mut Session, mut tcp: &TcpStream, count: usize) -> Result<Vec<u8>, Failure> {
    let (mut plain, mut buffer) = (Vec::new(), [0; 4_096]);
    while session.terms().is_none() || plain.len() < count {
        let got = tcp.read(&mut buffer).expect("a connection");
        if got == 0 {
            session.receive_end()?;
            break;
        }
        let taken = session.receive(&buffer[..got]);
        flush(session, tcp);
        assert_eq!(taken?, got);
        while let Plain::Octets(count) = session.read(&mut buffer) {
            plain.extend_from_slice(&buffer[..count]);
        }
    }
    Ok(plain)
}

fn flush(session: &mut Session, mut tcp: &TcpStream) {
    while session.wants_transmit() {
        session.transmit(&mut tcp).expect("a connection");
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("trackway-openssl-{name}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(folder));
        fs::create_dir_all(&folder.0).expect("a folder");
        let issued = Authority::make("ca", Validity::of_days(1)).expect("an authority");
        write(&folder.0, "ca", &issued);
        folder
    }

    fn issue(&self, name: &str, usage: Usage) -> CredentialFiles {
        let read = |name: &str| fs::read_to_string(self.0.join(name)).expect("the authority's");
        let ca = Issued { certificate: read("ca.crt"), key: read("ca.key") };
        let issued = Authority::open(&ca)
            .and_then(|ca| ca.issue(&[name.to_owned()], usage, Validity::of_days(1)))
            .expect("a certificate");
        write(&self.0, name, &issued)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(folder: &Path, name: &str, issued: &Issued) -> CredentialFiles {
    let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    fs::write(&certificate, &issued.certificate).expect("a file");
    keys::write_new(&key, &issued.key).expect("a file");
    CredentialFiles { certificate, key }
}

fn openssl(folder: &Folder) -> Command {
    let mut command = Command::new("openssl");
    command.current_dir(&folder.0).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    command
}

fn has_openssl() -> bool {
    let has = Command::new("openssl").arg("version").output().is_ok();
    if !has {
        println!("skipped: openssl is not installed");
    }
    has
}

fn end(mut program: Child) {
    let _ = program.kill();
    let _ = program.wait();
}
