//! Tests TLS terminated at both gateways.

use super::*;

/// A server that ends TCP without ending TLS.
const SERVE: &str = r#"
import http.server, os, socketserver, ssl, sys
os.chdir(sys.argv[1])
server = socketserver.ThreadingTCPServer(("10.2.0.2", 443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("far/tak.example.crt", "far/tak.example.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("serving", flush=True)
server.serve_forever()
"#;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_page_comes_whole_over_tls_though_its_server_cuts_it_off() {
    let mut net = Net::new(None);
    let folder = net.nets.folder().display().to_string();
    for pki in ["near", "far"] {
        net.nets.run(&net.sites.client, &format!("{TRACKWAY} tls ca {folder}/{pki}"));
        let issue = format!("{TRACKWAY} tls issue {folder}/{pki} --san tak.example {SERVER}");
        net.nets.run(&net.sites.client, &issue);
    }
    let page: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    fs::write(net.nets.folder().join("page"), &page).unwrap();
    fs::write(net.nets.folder().join("serve.py"), SERVE).unwrap();
    let server = net.sites.server.clone();
    net.nets.start(&server, &format!("python3 {folder}/serve.py {folder}"), "serving");
    let near = "[[rule]]\nname = \"web\"\nto-port = 443\ntls = \"web\"\n[[tls]]\nname = \"web\"\n\
                role = \"server\"\ncertificate = \"near/tak.example.crt\"\n\
                key = \"near/tak.example.key\"\n";
    let far = "[[tls]]\nname = \"shore\"\nrole = \"client\"\ntrust-anchors = \"far/ca.crt\"\n";
    net.start(0, &(bearer(0, "192.0.2.") + near));
    net.start(1, &format!("[hfpep]\ntls = \"shore\"\n{}{far}", bearer(1, "192.0.2.")));
    net.expect_spares();

    for _ in 0..5 {
        let fetched = net.nets.try_run(
            &net.sites.client,
            &format!(
                "curl -s -S -m 60 --cacert {folder}/near/ca.crt --resolve tak.example:443:{SERVER} \
                 https://tak.example/page"
            ),
        );
        let said = String::from_utf8_lossy(&fetched.stderr);
        assert!(fetched.status.success() && fetched.stdout == page, "{said}");
    }

    net.expect_counter(1, "hfpep_tls_cut", 5);
    for gateway in [0, 1] {
        net.expect(gateway, "no session", |status| status["hfpep"]["connections"] == 0);
    }
}
