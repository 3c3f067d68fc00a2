//! Certificates out of their time or for somebody else, where TLS ends at the gateways.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use gateway::keys;
use gateway::tls::authority::{Authority, Issued, Usage, Validity};

use super::tls::{FAR, NEAR, as_bob};
use super::{Net, SOON};
use crate::namespaces::wait_until;

const DAY: Duration = Duration::from_secs(86_400);
/// Exit status of curl for a reset connection.
const RESET: i32 = 56;

/// Issues a certificate by the authority in a folder, from the first until the second of these days
/// from now on, into another folder.
fn issue(folder: &Path, (pki, into): (&str, &str), name: &str, usage: Usage, days: (i32, i32)) {
    let read = |name: &str| fs::read_to_string(folder.join(pki).join(name)).unwrap();
    let authority = Issued { certificate: read("ca.crt"), key: read("ca.key") };
    let at = |days: i32| match days {
        0.. => SystemTime::now() + DAY * days.unsigned_abs(),
        _ => SystemTime::now() - DAY * days.unsigned_abs(),
    };
    let validity = Validity::between(at(days.0), at(days.1));
    let issued =
        Authority::open(&authority).unwrap().issue(&[name.to_owned()], usage, validity).unwrap();
    let file = if usage == Usage::Server { "tak.example" } else { name };
    let into = folder.join(into);
    fs::create_dir_all(&into).unwrap();
    keys::write_new(&into.join(format!("{file}.key")), issued.key.trim_end()).unwrap();
    fs::write(into.join(format!("{file}.crt")), issued.certificate).unwrap();
}

impl Net {
    fn expect_said(&mut self, host: usize, what: &str) {
        let gateway = self.gateways[host].unwrap();
        let is_said = wait_until(SOON, || self.nets.printed(gateway).contains(what));
        assert!(is_said, "no {what:?} in\n{}", self.nets.printed(gateway));
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_server_whose_certificate_is_not_good_now_or_another_s_is_not_trusted() {
    let mut net = Net::with_profiles("log = \"debug\"\n", NEAR, FAR);
    let cases = [
        (445, "old", "tak.example", (-2, -1), "expired", "has expired"),
        (446, "early", "tak.example", (1, 2), "not_yet_valid", "is not valid yet"),
        (447, "other", "other.example", (-1, 1), "wrong_name", "server is for another name"),
    ];
    for (_, into, name, days, _, _) in cases {
        issue(net.nets.folder(), ("far", into), name, Usage::Server, days);
    }
    net.serve(&cases.map(|(port, into, ..)| format!("serve({port}, \"{into}\")")).join("\n"));

    for (number, (port, _, _, _, counter, sentence)) in (1..).zip(cases) {
        let fetched = net.fetch(port, "near", "");

        // The gateway has already welcomed the client.
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert_eq!((fetched.status.code(), fetched.stdout.len()), (Some(RESET), 0), "{said}");
        net.expect_counter(1, &format!("hfpep_tls_certificate_{counter}"), 1);
        net.expect_counter(0, "hfpep_sessions_reset", number);
        net.expect_said(1, sentence);
    }
    // What the far gateway told the near one.
    net.expect_said(0, "reason=\"target not trusted\"");
    net.expect_counter(1, "hfpep_tls_established", 0);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_whose_certificate_is_not_good_now_is_refused_and_nobody_else_hears_of_it() {
    let mut net = Net::with_profiles("", NEAR, FAR);
    let cases = [
        ("old", (-2, -1), "expired", "has expired"),
        ("early", (1, 2), "not_yet_valid", "is not valid yet"),
    ];

    for (into, days, counter, sentence) in cases {
        issue(net.nets.folder(), ("near", into), "bob@unit.example", Usage::Client, days);
        for version in ["1.2", "1.3"] {
            let bob = format!("{} --tls-max {version}", as_bob(net.nets.folder(), into));
            let fetched = net.fetch(8089, "near", &bob);

            assert!(!fetched.status.success() && fetched.stdout.is_empty(), "{version}");
        }
        net.expect_counter(0, &format!("hfpep_tls_certificate_{counter}"), 2);
        net.expect_said(0, sentence);
    }
    net.expect_counter(0, "hfpep_tls_established", 0);
    net.expect_counter(1, "hfpep_sessions_received", 0);
}
