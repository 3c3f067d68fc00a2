//! Tests clients that are answered once the far end has accepted for the target.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread::scope;

use super::SOON;
use super::divert::{MOMENT, Site, both, exchange};
use crate::namespaces::wait_until;

const RULE: &str = "[[rule]]\nname = \"asked\"\nto-port = \"80-99\"\nhandshake = \"end-to-end\"\n";

impl Site {
    /// Gives the client behind the first gateway an address of IPv6 too.
    fn with_v6(self) -> Self {
        let (nets, gateway) = (&self.net.nets, &self.net.hosts[0]);
        for (host, interface, own) in [(&self.client, "up", 2), (gateway, "down", 1)] {
            nets.run(host, "sysctl -qw net.ipv6.conf.all.disable_ipv6=0");
            nets.run(host, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
            let address = format!("fd01:0:7::{own}/64 dev {interface} nodad");
            nets.run(host, &format!("ip address add {address}"));
        }
        nets.run(&self.client, "ip -6 route add default via fd01:0:7::1");
        nets.run(gateway, "sysctl -qw net.ipv6.conf.all.forwarding=1");
        self
    }

    /// Lets what is said to a port of the far host come to nobody.
    fn silence(&self, port: u16) {
        let drop = format!("tcp dport {port} drop");
        for order in [
            "add table inet silence",
            "add chain inet silence output { type filter hook output priority 0; }",
            &format!("add rule inet silence output {drop}"),
        ] {
            self.order(1, order);
        }
    }

    /// A client is told that a port is closed, that nobody is at an address, and that it is connected.
    fn expect_truth(
        &self,
        from: &str,
        (at, port): (&str, u16),
        nowhere: &str,
        listener: &TcpListener,
    ) {
        let told = |to: String| self.dial(from, &to, 0, SOON).unwrap_err();
        assert_eq!(told(format!("{at}:90")), ErrorKind::ConnectionRefused, "{from} {at}");
        assert_eq!(told(format!("{nowhere}:90")), ErrorKind::HostUnreachable, "{from} {at}");

        let mut client = self.dial(from, &format!("{at}:{port}"), 0, SOON).unwrap();
        let mut server = accepted(listener);
        let (seen, own) = (server.peer_addr().unwrap(), client.local_addr().unwrap());
        if own.ip() == IpAddr::from([10, 88, 0, 1]) {
            // The device of the IP client is behind no peer of the far gateway.
            assert_eq!(seen.ip(), server.local_addr().unwrap().ip());
        } else {
            assert_eq!(seen, own);
        }
        server.write_all(b"220").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        exchange(&mut client, &mut server);
    }

    /// A firewall on the first gateway that accepts only known traffic.
    fn guard(&self) {
        for order in [
            "add table inet guard",
            "add chain inet guard before { type filter hook prerouting priority 0; }",
            "add rule inet guard before ct state invalid drop",
            "add chain inet guard after { type filter hook output priority 0; }",
            "add rule inet guard after ct state invalid drop",
            "add chain inet guard input { type filter hook input priority 0; policy drop; }",
            "add rule inet guard input ct state established,related accept",
            "add rule inet guard input meta l4proto icmpv6 accept",
            "add rule inet guard input iifname lo accept",
        ] {
            self.order(0, order);
        }
    }

    fn order(&self, host: usize, order: &str) {
        let output = self.net.nets.try_words(&self.net.hosts[host], &["nft", order]);
        assert!(output.status.success(), "{order}: {output:?}");
    }

    fn counter(&self, host: usize, name: &str) -> u64 {
        self.net.status(host)[name].as_u64().unwrap_or_default()
    }

    fn expect(&self, what: &str, is_so: impl Fn() -> bool) {
        assert!(wait_until(SOON, is_so), "{what}: {}\n{}", self.net.status(0), self.net.status(1));
    }
}

/// The connection that a target has, at once.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let (stream, _) = listener.accept().expect("connected before the target has accepted");
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_client_is_told_what_the_target_says_before_anything_is_sent() {
    let site = Site::new(41, RULE).with_v6();
    site.guard();
    let own = site.net.hosts[0].clone();
    for route in ["unreachable 10.2.9.9/32", "unreachable fd02::9:9/128"] {
        site.net.nets.run(&site.net.hosts[1], &format!("ip route add {route}"));
    }

    scope(|scope| {
        for (at, nowhere) in [("10.2.0.1", "10.2.9.9"), ("[fd02::1]", "[fd02::9:9]")] {
            for (from, port) in [(&own, 80), (&site.client, 81)] {
                let (site, listener) = (&site, site.listen(&format!("{at}:{port}")));
                scope.spawn(move || site.expect_truth(from, (at, port), nowhere, &listener));
            }
        }
    });
    let status = site.net.status(0);
    for (counter, value) in [
        ("hfpep_handshakes_asked", 12),
        ("hfpep_handshakes_confirmed", 4),
        ("hfpep_sessions_confirmed", 4),
        ("hfpep_handshakes_refused", 8),
        ("hfpep_connections_accepted", 4),
        ("hfpep_connections_refused", 0),
        ("hfpep_syns_dropped", 0),
    ] {
        assert_eq!(status[counter], value, "{counter}: {status}");
    }
    assert_eq!(status["hfpep"]["held"], 0, "{status}");
    assert_eq!(site.rule("asked"), [12, 0], "{status}");
    let said = site.ask("explain tcp 10.1.7.2:5000 10.2.0.1:80");
    assert!(said.contains("with handshake end-to-end"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_syn_that_comes_again_asks_nobody_anew_and_follows_rules_that_change() {
    let site = Site::new(42, RULE);
    site.silence(82);
    let listener = site.listen("10.2.0.1:80");

    let told = site.dial(&site.client, "10.2.0.1:82", 0, 2 * MOMENT).unwrap_err();
    assert_eq!(told, ErrorKind::TimedOut);
    let status = site.net.status(0);
    assert_eq!(status["hfpep_handshakes_asked"], 1, "{status}");
    assert!(status["hfpep_syns_repeated"].as_u64() > Some(0), "{status}");
    assert_eq!(status["hfpep"]["held"], 1, "{status}");
    let session = &status["hfpep"]["sessions"][0];
    assert_eq!(
        (&session["state"], &session["target"]),
        (&"confirming".into(), &"10.2.0.1:82".into())
    );
    site.expect("the far gateway asks", || site.counter(1, "hfpep_sessions_received") == 1);

    // What waits by a rule that is switched off is given up, and refused when it comes again.
    let told = scope(|scope| {
        let waiting = scope.spawn(|| site.dial(&site.client, "10.2.0.1:82", 0, SOON));
        site.expect("both wait", || site.counter(1, "hfpep_sessions_received") == 2);
        site.ask("hf disable asked");
        waiting.join().unwrap()
    });
    assert_eq!(told.unwrap_err(), ErrorKind::ConnectionRefused);
    assert_eq!(site.net.status(0)["hfpep"]["held"], 0, "{}", site.net.status(0));
    site.expect("the far end has given up", || site.net.status(1)["hfpep"]["connections"] == 0);

    // Where another rule answers at once, it does so for what waits.
    site.ask("hf enable asked");
    let told = scope(|scope| {
        let waiting = scope.spawn(|| site.dial(&site.client, "10.2.0.1:82", 0, SOON));
        site.expect("it waits", || site.counter(1, "hfpep_sessions_received") == 3);
        let rule = RULE.replace("end-to-end", "local");
        fs::write(site.net.nets.folder().join("0.toml"), both(0) + &rule).unwrap();
        site.ask("reload");
        waiting.join().unwrap()
    });
    assert!(told.is_ok(), "{told:?}");
    drop(told);
    fs::write(site.net.nets.folder().join("0.toml"), both(0) + RULE).unwrap();
    site.ask("reload");
    let mut client = site.dial(&site.client, "10.2.0.1:80", 0, SOON).unwrap();
    exchange(&mut client, &mut accepted(&listener));
}
