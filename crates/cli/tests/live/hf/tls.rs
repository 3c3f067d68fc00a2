//! TLS that ends at the gateways: curl and a server of Python, with HF-PEP between.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;

use super::pep::pep;
use super::{Net, SOON};
use crate::namespaces::{TRACKWAY, wait_until};

/// A server of files that shows the certificate of one folder at one port, and of another at another.
const SERVER: &str = r#"
import http.server, os, socketserver, ssl, sys, threading
os.chdir(sys.argv[1])
def serve(port, pki):
    handler = http.server.SimpleHTTPRequestHandler
    server = socketserver.ThreadingTCPServer(("10.2.0.1", port), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki + "/tak.example.crt", pki + "/tak.example.key")
    if port == 8089:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(pki + "/ca.crt")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
"#;

pub const NEAR: &str = r#"
[[rule]]
name = "tak"
to-port = 8089
tls = "tak"
[[rule]]
name = "web"
to-port = ["443-447"]
tls = "web"
[[tls]]
name = "tak"
role = "server"
certificate = "near/tak.example.crt"
key = "near/tak.example.key"
client-trust-anchors = "near/ca.crt"
auth = [{ san = "bob@unit.example", id = "bob" }]
[[tls]]
name = "web"
role = "server"
certificate = "near/tak.example.crt"
key = "near/tak.example.key"
alpn = ["http/1.1"]
"#;

pub const FAR: &str = r#"
[[tls]]
name = "shore"
role = "client"
trust-anchors = "far/ca.crt"
[[tls.target]]
id = "bob"
to = "10.2.0.1:8089"
server-name = "tak.example"
certificate = "far/bob@unit.example.crt"
key = "far/bob@unit.example.key"
"#;

impl Net {
    /// HF-PEP that ends TLS between two hosts. Each side has its own authority; an authority that nobody trusts has
    /// issued the certificate of port 444.
    pub fn with_tls() -> Self {
        let mut net = Self::with_profiles("", NEAR, FAR);
        net.serve("serve(443, \"far\")\nserve(444, \"bad\")\nserve(8089, \"far\")");
        net
    }

    /// Starts the server of the page, on ports and with certificates that are lines of its program.
    pub fn serve(&mut self, ports: &str) {
        fs::write(self.nets.folder().join("page"), page()).unwrap();
        let program = format!("{SERVER}{ports}\nprint(\"serving\", flush=True)\n");
        fs::write(self.nets.folder().join("serve.py"), program).unwrap();
        let folder = self.nets.folder().display().to_string();
        let far = self.hosts[1].clone();
        self.nets.start(&far, &format!("python3 {folder}/serve.py {folder}"), "serving");
    }

    /// The same with these profiles, and without the server; `top` stands before all else.
    pub fn with_profiles(top: &str, near: &str, far: &str) -> Self {
        let mut net = Self::with_radio("--speed 240000 --seed 21");
        net.addresses();
        for pki in ["near", "far", "bad"] {
            net.certify("ca", pki, "");
            net.certify("issue", pki, "--san tak.example 10.2.0.1");
            for name in ["alice", "bob"] {
                net.certify("issue", pki, &format!("--san {name}@unit.example --client"));
            }
        }
        net.start_gateway(0, &format!("{top}{}{near}", pep(0)));
        net.start_gateway(1, &format!("{top}[hfpep]\ntls = \"shore\"\n{}{far}", pep(1)));
        for host in [0, 1] {
            net.expect_state(host, "hfpep", "bound");
        }
        net
    }

    pub fn certify(&self, what: &str, pki: &str, more: &str) {
        let folder = self.nets.folder().join(pki);
        let command = format!("{TRACKWAY} tls {what} {} {more}", folder.display());
        self.nets.run(&self.hosts[0], command.trim_end());
    }

    /// Fetches the page from a port of the far host, trusting one authority.
    pub fn fetch(&self, port: u16, authority: &str, more: &str) -> Output {
        let ca = self.nets.folder().join(authority).join("ca.crt");
        self.nets.try_run(
            &self.hosts[0],
            &format!(
                "curl -s -S -m 60 --cacert {} --resolve tak.example:{port}:10.2.0.1 {more} \
                 https://tak.example:{port}/page",
                ca.display()
            ),
        )
    }

    pub fn expect_counter(&self, host: usize, counter: &str, value: u64) {
        let comes = wait_until(SOON, || self.status(host)[counter].as_u64() == Some(value));
        assert!(comes, "{counter} is not {value}: {}", self.status(host));
    }
}

fn page() -> Vec<u8> {
    (0..30_000_u32).flat_map(|number| number.to_be_bytes()).collect()
}

fn expect_page(fetched: &Output) {
    let said = String::from_utf8_lossy(&fetched.stderr);
    assert!(fetched.status.success() && fetched.stdout == page(), "{said}");
}

/// Words of curl that show the certificate for Bob that an authority has issued.
pub fn as_bob(folder: &Path, authority: &str) -> String {
    let own = folder.join(authority).join("bob@unit.example");
    format!("--cert {0}.crt --key {0}.key", own.display())
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_page_comes_over_tls_that_ends_at_the_gateways() {
    let net = Net::with_tls();

    expect_page(&net.fetch(443, "near", ""));
    expect_page(&net.fetch(443, "near", "--tls-max 1.2"));

    for host in [0, 1] {
        net.expect_counter(host, "hfpep_tls_established", 2);
    }
    // The server ends TCP without ending TLS: all came, and then a reset.
    net.expect_counter(1, "hfpep_tls_cut", 2);
    let is_over = || [0, 1].iter().all(|&host| net.status(host)["hfpep"]["connections"] == 0);
    assert!(wait_until(SOON, is_over), "{}\n{}", net.status(0), net.status(1));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_is_not_trusted_is_refused_on_either_side() {
    let net = Net::with_tls();

    let server = net.fetch(444, "near", "");
    let gateway = net.fetch(443, "far", "");

    assert!(!server.status.success() && server.stdout.is_empty());
    // All authorities of `trackway tls` have one name, so it is the signature that does not fit.
    net.expect_counter(1, "hfpep_tls_certificate_bad", 1);
    assert_eq!(gateway.status.code(), Some(60), "curl trusts the gateway");
    net.expect_counter(0, "hfpep_tls_peer_refused", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn who_speaks_something_else_or_nothing_is_sent_away() {
    let net = Net::with_tls();
    let connect = || TcpStream::connect("10.2.0.1:443").unwrap();
    let mut silent = net.nets.within(&net.hosts[0], connect);

    let plain = net.nets.try_run(&net.hosts[0], "curl -s -m 5 http://10.2.0.1:443/");

    assert!(!plain.status.success() && plain.stdout.is_empty());
    net.expect_counter(0, "hfpep_tls_not_tls", 1);
    assert_eq!(net.status(0)["hfpep"]["handshakes"], 1);
    silent.set_read_timeout(Some(SOON)).unwrap();
    let told = silent.read_exact(&mut [0]).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::ConnectionReset);
    net.expect_counter(0, "hfpep_tls_timed_out", 1);
    // Nobody at the far end has heard of either.
    net.expect_counter(1, "hfpep_sessions_received", 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_is_known_by_its_certificate_and_the_server_sees_another_one_of_its() {
    let net = Net::with_tls();

    expect_page(&net.fetch(8089, "near", &as_bob(net.nets.folder(), "near")));
    let nobody = net.fetch(8089, "near", "");
    let stranger = net.fetch(8089, "near", &as_bob(net.nets.folder(), "bad"));

    assert!(!nobody.status.success() && !stranger.status.success());
    net.expect_counter(0, "hfpep_tls_certificate_missing", 1);
    net.expect_counter(0, "hfpep_tls_certificate_bad", 1);
    net.expect_counter(1, "hfpep_tls_established", 1);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn renewed_certificates_are_shown_after_a_reload() {
    let net = Net::with_tls();
    expect_page(&net.fetch(443, "near", ""));

    for file in ["tak.example.crt", "tak.example.key"] {
        let (from, to) =
            (net.nets.folder().join("far").join(file), net.nets.folder().join("near").join(file));
        fs::copy(from, to).unwrap();
    }
    net.nets.run(&net.hosts[0], &format!("{TRACKWAY} reload"));

    assert_eq!(net.fetch(443, "near", "").status.code(), Some(60), "another authority's");
    expect_page(&net.fetch(443, "far", ""));
}
