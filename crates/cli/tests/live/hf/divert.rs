//! Tests rules that decide on TCP connections before the answer, on the gateway and behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::pep::{FAST, pep};
use super::{Net, SOON, TRACKWAY};
use crate::namespaces::wait_until;
use testbed::traffic::call;

/// As long as a connection that must not be answered is watched: its SYN is repeated meanwhile.
pub const MOMENT: Duration = Duration::from_secs(2);

const RULES: &str = r#"
[[rule]]
name = "voice"
dscp = 46
to-port = 80
block = "icmp"
[[rule]]
name = "quiet"
to-port = 7
block = "silent"
[[rule]]
name = "told"
to-port = 8
block = "icmp"
[[rule]]
name = "reset"
to-port = 9
block = "reset"
[[rule]]
name = "plain"
to-port = 10
service = "ipclient"
[[rule]]
name = "web"
to-port = 80
"#;

/// Two gateways with both services, and a client behind the first.
pub struct Site {
    pub net: Net,
    pub client: String,
}

impl Site {
    pub fn new(seed: u32, rules: &str) -> Self {
        let mut net = Net::with_radio(&format!("--speed 240000 --seed {seed}"));
        net.addresses();
        let (client, gateway) = (net.nets.add("c"), net.hosts[0].clone());
        net.nets.cable((&client, "up"), (&gateway, "down"));
        net.nets.address(&client, "up", "10.1.7.2/24");
        net.nets.address(&gateway, "down", "10.1.7.1/24");
        net.nets.run(&client, "ip route add default via 10.1.7.1");
        net.nets.run(&gateway, "sysctl -qw net.ipv4.ip_forward=1");
        net.start_gateway(0, &(both(0) + rules));
        net.start_gateway(1, &both(1));
        for (host, service) in [(0, "hfpep"), (1, "hfpep"), (0, "ipclient"), (1, "ipclient")] {
            net.expect_state(host, service, "bound");
        }
        Self { net, client }
    }

    /// Listens on the far host.
    pub fn listen(&self, at: &str) -> TcpListener {
        self.net.nets.within(&self.net.hosts[1], || TcpListener::bind(at).unwrap())
    }

    /// Connects from a namespace, with a code point, and says what the client is told.
    pub fn dial(
        &self,
        from: &str,
        to: &str,
        dscp: u8,
        patience: Duration,
    ) -> Result<TcpStream, ErrorKind> {
        let to: SocketAddr = to.parse().unwrap();
        self.net.nets.within(from, || call(None, to, dscp, patience))
    }

    pub fn rule(&self, name: &str) -> [u64; 2] {
        let status = self.net.status(0);
        let rules = status["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["name"] == name).unwrap();
        ["hits", "blocked"].map(|key| rule[key].as_u64().unwrap())
    }

    pub fn ask(&self, command: &str) -> String {
        // What is blocked has an exit code of its own.
        let said = self.net.nets.try_run(&self.net.hosts[0], &format!("{TRACKWAY} {command}"));
        String::from_utf8_lossy(&said.stdout).into_owned()
    }
}

pub fn both(host: usize) -> String {
    let (own, far) = (host + 1, 2 - host);
    let node = ["0.10.20.31", "0.10.20.30"][host];
    format!(
        "[ipclient]\naddresses = [\"10.88.0.{own}/24\"]\n[[ipclient.route]]\nnode = \"{node}\"\n\
         to = [\"10.{far}.0.0/16\", \"10.88.0.{far}/32\"]\n"
    ) + &pep(host)
}

/// Sends something there and back.
pub fn exchange(client: &mut TcpStream, server: &mut TcpStream) {
    server.set_read_timeout(Some(SOON)).unwrap();
    let mut heard = [0; 5];
    client.write_all(b"hello").unwrap();
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    server.write_all(b"again").unwrap();
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"again");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn connections_are_diverted_on_a_host_without_a_list_of_protocols() {
    let mut net = Net::with_radio(FAST);
    net.addresses();
    let held = "[[rule]]\nname = \"held\"\nto-port = 11\nhandshake = \"end-to-end\"\n";
    let [script, file] = ["script", "0.toml"].map(|name| net.nets.folder().join(name));
    fs::write(&file, both(0) + RULES + held).unwrap();
    let hide = "test ! -e /etc/protocols || mount --bind /dev/null /etc/protocols || exit";
    fs::write(&script, format!("{hide}\nexec {TRACKWAY} run {}\n", file.display())).unwrap();
    let command = format!("unshare -m sh {}", script.display());

    net.gateways[0] = Some(net.nets.start(&net.hosts[0].clone(), &command, "gateway ready"));
    net.start_gateway(1, &both(1));

    for host in [0, 1] {
        net.expect_state(host, "hfpep", "bound");
    }
    let listener = net.listen(1, "10.2.0.1:80");
    let mut client = net.dial(0, "10.2.0.1:80");
    client.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange_rest(&mut client, &mut server);
    assert_eq!(net.status(0)["hfpep_connections_accepted"], 1, "{}", net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_rule_that_somebody_removes_is_put_back_and_nothing_passes_us_meanwhile() {
    let site = Site::new(31, "");
    let (gateway, far) = (&site.net.hosts[0], "10.2.0.1:4002");
    let server = site.listen(far);
    server.set_nonblocking(true).unwrap();
    let rules = || site.net.nets.run(gateway, "ip rule show pref 100");
    let before = rules();
    assert!(before.contains("lookup 29810"), "{before}");

    for removal in ["ip rule del pref 100", "ip route flush table 29810"] {
        site.net.nets.run(gateway, removal);
        let (mut near, _) = (site.dial(&site.client, far, 0, SOON).unwrap(), ());
        let mut accepted = None;
        let is_accepted = wait_until(SOON, || {
            accepted = server.accept().ok();
            accepted.is_some()
        });
        assert!(is_accepted, "after {removal}: {}", site.net.status(0));
        let (mut served, from) = accepted.unwrap();
        // A connection past us would come from the client itself without a session.
        served.set_nonblocking(false).unwrap();
        exchange(&mut near, &mut served);
        assert!(site.net.status(0)["hfpep_connections_accepted"].as_u64() > Some(0), "{from}");
        let is_back = wait_until(SOON, || rules() == before);
        assert!(is_back, "after {removal}: {}", rules());
    }
    let carried = site.net.status(0)["hfpep_connections_accepted"].as_u64();
    assert_eq!(carried, Some(2), "{}", site.net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_rule_of_another_program_that_decides_before_ours_is_a_fault_while_it_is_there() {
    let site = Site::new(31, "");
    let (gateway, far) = (&site.net.hosts[0], "10.2.0.1:4002");
    let listener = site.listen(far);
    // What the IP client lacks is another fault of this kind.
    let is_told = || site.net.status(0)["faults"].to_string().contains("are not led to this host");
    assert!(!is_told(), "{}", site.net.status(0));
    // Rules for other packets stay, and are nobody's fault.
    for others in [
        "pref 40 ipproto udp",
        "pref 41 fwmark 1",
        "pref 42 to 192.0.2.0/24",
        "pref 43 from 192.0.2.0/24",
        "pref 200 iif down ipproto tcp dport 4002",
    ] {
        site.net.nets.run(gateway, &format!("ip rule add {others} blackhole"));
    }

    let by_source = "from 10.1.7.0/24 ipproto tcp";
    for takes in
        ["fwmark 0x74727064", "iif down", "ipproto tcp dport 4002", "to 10.2.0.1", by_source]
    {
        let rule = format!("pref 50 {takes} blackhole");
        site.net.nets.run(gateway, &format!("ip rule add {rule}"));
        assert!(wait_until(SOON, is_told), "{takes}: {}", site.net.status(0));
        let refused = site.dial(&site.client, far, 0, MOMENT).map(|_| ()).unwrap_err();
        site.net.nets.run(gateway, &format!("ip rule del {rule}"));
        assert!(wait_until(SOON, || !is_told()), "{takes}: {}", site.net.status(0));
        for from in [&site.client, gateway] {
            let mut near = site.dial(from, far, 0, SOON).unwrap();
            let (mut served, _) = listener.accept().unwrap();
            exchange(&mut near, &mut served);
        }

        assert_eq!(refused, ErrorKind::TimedOut, "{takes}");
    }
}

/// The host's own connections are led to it by `lo`.
#[test]
#[ignore = "needs root: run by ./test"]
fn a_loopback_that_is_down_is_a_fault_until_it_is_up() {
    let site = Site::new(31, "");
    let gateway = &site.net.hosts[0];
    let is_told = || site.net.status(0)["faults"].to_string().contains("lo is down");
    assert!(!is_told(), "{}", site.net.status(0));

    site.net.nets.run(gateway, "ip link set lo down");
    assert!(wait_until(SOON, is_told), "{}", site.net.status(0));
    site.net.nets.run(gateway, "ip link set lo up");
    assert!(wait_until(SOON, || !is_told()), "{}", site.net.status(0));
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_blocked_is_refused_as_its_rule_says_before_it_is_answered() {
    let site = Site::new(21, RULES);
    let listener = site.listen("10.2.0.1:80");
    let own = site.net.hosts[0].clone();

    for from in [&own, &site.client] {
        let told = |port: u16, dscp| {
            let patience = if port == 7 { MOMENT } else { SOON };
            site.dial(from, &format!("10.2.0.1:{port}"), dscp, patience).unwrap_err()
        };
        assert_eq!(told(7, 0), ErrorKind::TimedOut, "{from}");
        assert_eq!(told(8, 0), ErrorKind::HostUnreachable, "{from}");
        assert_eq!(told(9, 0), ErrorKind::ConnectionRefused, "{from}");
        assert_eq!(told(80, 46), ErrorKind::HostUnreachable, "{from}");
        let mut client = site.dial(from, "10.2.0.1:80", 0, SOON).unwrap();
        client.write_all(b"hello").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        exchange_rest(&mut client, &mut server);
    }

    let v6 = site.dial(&own, "[fd02::1]:9", 0, SOON).unwrap_err();
    assert_eq!(v6, ErrorKind::ConnectionRefused);
    // A SYN is repeated where nobody answers, and where ICMP comes before its sender listens.
    for name in ["quiet", "voice", "told"] {
        let [hits, blocked] = site.rule(name);
        assert!(hits >= 2 && hits == blocked, "{name}: {hits} {blocked}");
    }
    for (name, hits, blocked) in [("reset", 3, 3), ("web", 2, 0)] {
        assert_eq!(site.rule(name), [hits, blocked], "{name}: {}", site.net.status(0));
    }
    let status = site.net.status(0);
    assert_eq!(status["hfpep_connections_refused"], 0, "{status}");
    assert_eq!(status["hfpep_connections_accepted"], 2, "{status}");
}

fn exchange_rest(client: &mut TcpStream, server: &mut TcpStream) {
    server.set_read_timeout(Some(SOON)).unwrap();
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    exchange(client, server);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn tcp_that_a_rule_gives_to_the_ip_client_goes_end_to_end_and_stays_there() {
    let site = Site::new(22, RULES);
    let listener = site.listen("10.2.0.1:10");
    let own = site.net.hosts[0].clone();

    let mut pairs = Vec::new();
    for from in [&own, &site.client] {
        let mut client = site.dial(from, "10.2.0.1:10", 0, SOON).unwrap();
        let (mut server, seen) = listener.accept().unwrap();
        assert_eq!(seen, client.local_addr().unwrap());
        exchange(&mut client, &mut server);
        pairs.push((client, server));
    }
    let status = site.net.status(0);
    assert_eq!(status["hfpep_connections_accepted"], 0, "{status}");
    assert!(site.rule("plain")[0] >= 6, "{status}");

    // New connections are split from now on, and those that there are go on.
    let rules = RULES.replace("name = \"plain\"\nto-port = 10", "name = \"plain\"\nto-port = 11");
    fs::write(site.net.nets.folder().join("0.toml"), both(0) + &rules).unwrap();
    let said = site.ask("reload");
    assert!(said.contains("hfpep: rule plain: changed"), "{said}");
    for (client, server) in &mut pairs {
        exchange(client, server);
    }
    let mut client = site.dial(&site.client, "10.2.0.1:10", 0, SOON).unwrap();
    client.write_all(b"hello").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange_rest(&mut client, &mut server);
    let status = site.net.status(0);
    assert_eq!(status["hfpep_connections_accepted"], 1, "{status}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn what_is_switched_off_is_refused_and_connections_that_there_are_go_on() {
    let site = Site::new(23, RULES);
    let listener = site.listen("10.2.0.1:80");
    let own = site.net.hosts[0].clone();
    let open = |from: &str| {
        let mut client = site.dial(from, "10.2.0.1:80", 0, SOON).unwrap();
        client.write_all(b"hello").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        exchange_rest(&mut client, &mut server);
        (client, server)
    };
    let mut pairs = vec![open(&own), open(&site.client)];

    for (switch, back) in [("disable web", "enable web"), ("disable", "enable")] {
        site.ask(&format!("hf {switch}"));
        for from in [&own, &site.client] {
            let told = site.dial(from, "10.2.0.1:80", 0, SOON).unwrap_err();
            assert_eq!(told, ErrorKind::ConnectionRefused, "{switch}");
        }
        for (client, server) in &mut pairs {
            exchange(client, server);
        }
        site.ask(&format!("hf {back}"));
        pairs.push(open(&site.client));
    }
    assert_eq!(site.rule("web"), [8, 4], "{}", site.net.status(0));
}

/// The same rules in the kernel and in `trackway explain`.
#[test]
#[ignore = "needs root: run by ./test"]
fn the_kernel_decides_as_trackway_explains() {
    const FLOWS: u64 = 60;
    // Every rule refuses, so that each attempt ends at once; the seed is fixed.
    let mut draw = Draw(7);
    let rules: String = (0..24).map(|number| random_rule(&mut draw, number)).collect();
    let last = "[[rule]]\nname = \"last\"\nblock = \"reset\"\n";
    let site = Site::new(24, &(rules.clone() + last));
    let own = site.net.hosts[0].clone();
    for host in 1..=4 {
        site.net
            .nets
            .try_run(&site.client, &format!("ip address add 10.1.7.{}/24 dev up", 2 + host));
    }

    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..FLOWS {
        let is_own = draw.below(4) == 0;
        let host = u8::try_from(2 + draw.below(5)).unwrap();
        let source = if is_own { [10, 1, 7, 1] } else { [10, 1, 7, host] };
        let from_port = u16::try_from(20_000 + number * 7 + draw.below(7)).unwrap();
        let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(source)), from_port);
        let to = [10, 2, 0, u8::try_from(draw.below(8)).unwrap()];
        let to = SocketAddr::from((to, u16::try_from(80 + draw.below(8)).unwrap()));
        let dscp = u8::try_from(draw.below(4)).unwrap();
        let (namespace, interface) = if is_own { (&own, "lo") } else { (&site.client, "down") };
        let asked = format!("explain tcp {from} {to} --dscp {dscp} --interface {interface} --json");
        let explained: Value = serde_json::from_str(&site.ask(&asked)).unwrap();
        let rule = explained["rule"].as_str().unwrap().to_owned();

        let told = site.net.nets.within(namespace, || call(Some(from), to, dscp, SOON));
        assert_eq!(told.unwrap_err(), ErrorKind::ConnectionRefused, "{asked}\n{rules}");

        *expected.entry(rule.clone()).or_default() += 1;
        assert_eq!(
            site.rule(&rule)[1],
            expected[&rule],
            "{asked}\n{}\n{rules}",
            site.net.status(0)
        );
    }
    assert!(expected.len() >= 8, "too few rules decided: {expected:?}");
}

fn random_rule(draw: &mut Draw, number: u64) -> String {
    let mut rule = format!("[[rule]]\nname = \"r{number}\"\nblock = \"reset\"\n");
    let mut key = |is_there: bool, line: String| {
        if is_there {
            rule += &line;
        }
    };
    let (port, dscp, host, far) = (draw.below(8), draw.below(4), draw.below(6), draw.below(8));
    let bits = 29 + draw.below(4);
    let network = |host: u64| host >> (32 - bits) << (32 - bits);
    let is_odd = number % 2 == 1;
    key(!is_odd, format!("to-port = [{}, \"90-92\"]\n", 80 + port));
    key(is_odd, format!("dscp = [{dscp}, 9]\n"));
    key(draw.below(3) == 0, format!("from = \"10.1.7.{}/{bits}\"\n", network(host)));
    key(draw.below(2) == 0, format!("to = [\"fd02::/32\", \"10.2.0.{}/{bits}\"]\n", network(far)));
    key(draw.below(4) == 0, format!("interface = \"{}\"\n", ["lo", "down"][usize::from(port > 3)]));
    key(
        draw.below(4) == 0,
        format!("from-port = \"{}-{}\"\n", 20_000 + port * 50, 20_200 + port * 50),
    );
    key(draw.below(8) == 0, "protocol = \"udp\"\n".to_owned());
    rule
}

/// Numbers that are the same every time (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_gateway_that_takes_from_others_alone_leaves_its_own_connections() {
    let mut net = Net::with_radio("--speed 240000 --seed 25");
    net.addresses();
    net.start_gateway(0, &format!("[hfpep]\ninterfaces = [\"eth9\"]\n{}", pep(0)));
    net.expect_state(0, "hfpep", "bound");

    let told =
        net.nets.within(&net.hosts[0], || call(None, "10.2.0.1:80".parse().unwrap(), 0, MOMENT));

    // Nobody is there: neither an answer nor a reset.
    assert_ne!(told.unwrap_err(), ErrorKind::ConnectionRefused);
    assert!(wait_until(SOON, || net.status(0)["hfpep_connections_accepted"] == 0));
}
