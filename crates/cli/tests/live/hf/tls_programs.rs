//! Tests TLS programs whose TLS ends at the gateways: a browser, and clients of a TAK server.

use std::env;
use std::fs;
use std::path::PathBuf;

use super::{Net, SOON};
use crate::namespaces::{is_installed, wait_until};

const CHROMIUM: &str = "/usr/bin/chromium";

/// What a browser shows only if it has run what stands in the page.
const PAGE: &str = "<!DOCTYPE html><title>HF</title><p id=\"it\"></p>\
                    <script>document.getElementById('it').append('over ' + 6 * 7 + ' hops')</script>";

#[test]
#[ignore = "needs root: run by ./test"]
fn a_browser_shows_a_page_whose_certificate_is_the_gateways() {
    if !is_installed(CHROMIUM, "chromium") || !is_installed("/usr/bin/certutil", "libnss3-tools") {
        return;
    }
    let net = Net::with_tls();
    let folder = net.nets.folder().display().to_string();
    fs::write(net.nets.folder().join("index.html"), PAGE).unwrap();
    // Whom a browser trusts is in a database at its home.
    let database = format!("{folder}/.pki/nssdb");
    fs::create_dir_all(&database).unwrap();
    let browse = || {
        let words = [
            "timeout",
            "120",
            "env",
            &format!("HOME={folder}"),
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            &format!("--user-data-dir={folder}/profile"),
            "--host-resolver-rules=MAP tak.example 10.2.0.1",
            "--dump-dom",
            "https://tak.example/index.html",
        ];
        let shown = net.nets.try_words(&net.hosts[0], &words);
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        (String::from_utf8_lossy(&shown.stdout).into_owned(), said)
    };
    net.nets.run(&net.hosts[0], &format!("certutil -d sql:{database} -N --empty-password"));

    let (untrusted, _) = browse();
    let trust = format!("certutil -d sql:{database} -A -n near -t C,, -i {folder}/near/ca.crt");
    net.nets.run(&net.hosts[0], &trust);
    // On a busy machine a browser without a screen now and then ends before it has printed anything.
    let mut browsed = browse();
    if browsed.0.is_empty() {
        browsed = browse();
    }
    let (shown, said) = browsed;

    assert!(!untrusted.contains("hops"), "{untrusted}");
    assert!(shown.contains("over 42 hops"), "{shown}\n{said}");
}

/// A client that announces itself to a TAK server and prints the server's messages.
const TAK: &str = r#"
import asyncio, configparser, sys
import pytak

name, own, authority = sys.argv[1:]
config = configparser.ConfigParser()
config["tak"] = {
    "COT_URL": "tls://10.2.0.1:8089",
    "PYTAK_TLS_CLIENT_CERT": own + ".crt",
    "PYTAK_TLS_CLIENT_KEY": own + ".key",
    "PYTAK_TLS_CLIENT_CAFILE": authority,
    "PYTAK_TLS_SERVER_EXPECTED_HOSTNAME": "tak.example",
}

async def main():
    reader, writer = await pytak.protocol_factory(config["tak"])
    print("connected", flush=True)
    writer.write(pytak.gen_cot(uid=name, cot_type="a-f-G-U-C", stale=600))
    await writer.drain()
    while True:
        event = await reader.readuntil(b"</event>")
        print(event.decode(), flush=True)

asyncio.run(main())
"#;

const TAKY: &str = "
[taky]
hostname = tak.example
bind_ip = 10.2.0.1
root_dir = taky
[cot_server]
port = 8089
mon_ip
[dp_server]
upload_path = taky
[ssl]
enabled = true
client_cert_required = true
ca = far/ca.crt
ca_key = far/ca.key
cert = far/tak.example.crt
key = far/tak.example.key
key_pw =
server_p12 =
cert_db = taky/certificates
";

const NEAR: &str = r#"
[[rule]]
name = "tak"
to-port = 8089
tls = "tak"
[[tls]]
name = "tak"
role = "server"
certificate = "near/tak.example.crt"
key = "near/tak.example.key"
client-trust-anchors = "near/ca.crt"
auth = [{ san = "alice@unit.example", id = "alice" }, { san = "bob@unit.example", id = "bob" }]
"#;

/// Where ./test has put what comes from PyPI.
fn python() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")));
    target.join("python/bin")
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_one_tak_client_says_reaches_another_by_auth_ids() {
    if !is_installed(python().join("taky"), "taky")
        || !is_installed(python().join("pytak"), "pytak")
    {
        return;
    }
    let far = ["alice", "bob"].map(|name| {
        format!(
            "[[tls.target]]\nid = \"{name}\"\nto = \"10.2.0.1:8089\"\n\
             server-name = \"tak.example\"\ncertificate = \"far/{name}@unit.example.crt\"\n\
             key = \"far/{name}@unit.example.key\"\n"
        )
    });
    let shore = "[[tls]]\nname = \"shore\"\nrole = \"client\"\ntrust-anchors = \"far/ca.crt\"\n";
    let mut net = Net::with_profiles("", NEAR, &(shore.to_owned() + &far.concat()));
    let folder = net.nets.folder().display().to_string();
    fs::create_dir(net.nets.folder().join("taky")).unwrap();
    fs::write(net.nets.folder().join("taky.conf"), TAKY).unwrap();
    fs::write(net.nets.folder().join("tak.py"), TAK).unwrap();
    let bin = python().display().to_string();
    let [a, b] = net.hosts.clone();
    net.nets.start(&b, &format!("{bin}/taky -c {folder}/taky.conf"), "Listening for ssl");
    let client = |name: &str| {
        format!(
            "{bin}/python -W ignore {folder}/tak.py {name} {folder}/near/{name}@unit.example \
             {folder}/near/ca.crt"
        )
    };

    let alice = net.nets.start(&a, &client("alice"), "connected");
    // A later client is told of earlier clients.
    net.expect_counter(1, "hfpep_tls_established", 1);
    let bob = net.nets.start(&a, &client("bob"), "connected");

    for (who, other) in [(alice, "bob"), (bob, "alice")] {
        let event = format!("uid=\"{other}\"");
        let comes = wait_until(SOON, || net.nets.printed(who).contains(&event));
        assert!(comes, "no event of {other}: {}\n{}", net.nets.printed(who), net.status(1));
    }
    for host in [0, 1] {
        net.expect_counter(host, "hfpep_tls_established", 2);
    }
    let targets = |net: &Net| {
        let status = net.status(1);
        let sessions = status["hfpep"]["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|it| it["target"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(targets(&net), ["alice", "bob"]);
    // A client that ends takes the server's end of it along.
    net.nets.program(bob).stop();
    assert!(wait_until(SOON, || targets(&net) == ["alice"]), "{}", net.status(1));
}
