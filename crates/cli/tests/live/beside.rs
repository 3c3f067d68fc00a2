//! Programs that people run beside a gateway: firewalls, network managers, routing daemons. Each does to the host what it
//! does everywhere; a tunnel of GRE goes on, what the program has stays, and `doctor` and `explain` say what is in the way.
//!
//! ```text
//!   lan 10.50.0.2 ── lan0  host  eth1 10.9.0.1 ═══ 10.9.0.2  far, with 10.4.0.9 behind GRE
//! ```

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::managers;
use crate::namespaces::{Program, SOON, TRACKWAY, is_installed, wait_until};
use crate::storm::{Bed, GRE};

/// The rules of Docker 24 with one network and no container, as `iptables-save` shows them, but those of NAT.
const DOCKER: [&str; 12] = [
    "-N DOCKER",
    "-N DOCKER-USER",
    "-N DOCKER-ISOLATION-STAGE-1",
    "-N DOCKER-ISOLATION-STAGE-2",
    "-A FORWARD -j DOCKER-USER",
    "-A FORWARD -j DOCKER-ISOLATION-STAGE-1",
    "-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "-A FORWARD -o docker0 -j DOCKER",
    "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
    "-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2",
    "-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP",
    "-P FORWARD DROP",
];

/// A host with GRE to another, and a host behind it.
struct Site {
    bed: Bed,
    lan: String,
}

impl Site {
    fn new() -> Self {
        let mut bed = Bed::new(GRE);
        let lan = bed.nets.add("lan");
        bed.nets.cable((&lan, "eth0"), (&bed.host, "lan0"));
        bed.nets.address(&lan, "eth0", "10.50.0.2/24");
        bed.nets.address(&bed.host, "lan0", "10.50.0.1/24");
        bed.nets.run(&lan, "ip route add default via 10.50.0.1");
        bed.nets.run(&bed.host, "sysctl -qw net.ipv4.ip_forward=1");
        // The far gateway has the network of the host behind.
        let file = bed.file(1);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("10.44.0.0/16", "10.44.0.0/16\", \"10.50.0.0/24")).unwrap();
        bed.nets.run(&bed.far, &format!("{TRACKWAY} reload"));
        let site = Self { bed, lan };
        assert!(wait_until(SOON, || site.reaches()), "{}", site.bed.status());
        site
    }

    fn run(&self, command: &str) -> String {
        self.bed.nets.run(&self.bed.host, command)
    }

    /// Whether the host behind reaches the far one.
    fn reaches(&self) -> bool {
        let said = self.bed.nets.try_run(&self.lan, "ping -c 1 -W 1 10.4.0.9");
        said.status.success()
    }

    /// Whether `explain` says so of the same flow, and all that it says.
    fn explained(&self) -> (bool, Value) {
        let asked = format!("{TRACKWAY} explain icmp 10.50.0.2 10.4.0.9 --json");
        let said = self.bed.nets.try_run(&self.bed.host, &asked);
        (said.status.success(), serde_json::from_slice(&said.stdout).unwrap_or_default())
    }

    /// The findings of `doctor` with this code.
    fn found(&self, code: &str) -> Vec<Value> {
        let asked = format!("{TRACKWAY} doctor --json {}", self.bed.file(0).display());
        let said = self.bed.nets.try_run(&self.bed.host, &asked).stdout;
        let all: Vec<Value> = serde_json::from_slice(&said).unwrap();
        all.into_iter().filter(|it| it["code"] == code).collect()
    }

    /// The host itself reaches the far one before long, and all routes of ours are there.
    fn expect_work(&self, what: &str) {
        let works = wait_until(SOON, || (GRE.works)(&self.bed));
        assert!(works, "{what}: {}\n{}", self.bed.status(), self.run("ip route show table all"));
    }

    /// Whoever is dropped is named, and the remedies of all findings let it pass.
    fn expect_remedies(&self, program: &str) {
        assert!(!self.reaches(), "{program} drops nothing");
        let (arrives, explained) = self.explained();
        assert!(!arrives && explained["obstacle"].to_string().contains("FORWARD"), "{explained}");
        let found = self.found("firewall");
        assert_eq!(found.len(), 1, "{program}: {found:?}");
        let remedy = found[0]["remedy"].as_str().unwrap();
        for order in remedy.split(" (").next().unwrap().split("; ") {
            self.run(order);
        }
        assert_eq!(self.found("firewall"), [Value::Null; 0]);
        let (arrives, explained) = self.explained();
        assert!(arrives, "{explained}");
        assert!(self.reaches());
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn rules_as_docker_writes_them_are_found_and_their_remedies_let_pass() {
    for (program, path) in [
        ("iptables-nft", "/usr/sbin/iptables-nft"),
        ("iptables-legacy", "/usr/sbin/iptables-legacy"),
    ] {
        if !is_installed(path, "iptables") {
            continue;
        }
        let site = Site::new();
        for rule in DOCKER {
            site.run(&format!("{program} {rule}"));
        }
        site.expect_remedies(program);
        site.expect_work(program);
        let left = site.run(&format!("{program} -S"));
        assert!(
            DOCKER.iter().filter(|it| it.starts_with("-A")).all(|rule| left.contains(rule)),
            "{left}"
        );
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_strict_firewall_that_lets_flows_of_the_lan_pass_is_no_fault() {
    let site = Site::new();
    let has_fault = || site.bed.status()["faults"].to_string().contains("is forwarded");

    for rules in [
        ["iifname lan0 oifname trackway-gre0", "iifname trackway-gre0 oifname lan0"],
        ["ct state established,related", "iifname lan0"],
    ] {
        site.run("nft add table inet site");
        site.run(
            "nft add chain inet site f { type filter hook forward priority 0 ; policy drop ; }",
        );
        assert!(wait_until(SOON, has_fault), "{}", site.bed.status());
        assert!(!site.reaches());
        for rule in rules {
            site.run(&format!("nft add rule inet site f {rule} accept"));
        }
        // At once: a fault with other words is shown after a moment only.
        assert_eq!(site.found("firewall"), [Value::Null; 0], "{rules:?}");
        assert!(wait_until(SOON, || !has_fault()), "{}", site.bed.status());
        assert!(site.reaches());
        site.run("nft delete table inet site");
    }
    site.run("nft add table inet site");
    site.run(
        "nft add chain inet site FORWARD { type filter hook forward priority 0 ; policy drop ; }",
    );
    // The remedy opens nothing but the way of these flows.
    let remedy = site.found("firewall")[0]["remedy"].to_string();
    let orders: Vec<_> = remedy.split(" (").next().unwrap().split("; ").collect();
    assert!(orders.iter().all(|it| it.contains("iifname") && it.contains("oifname")), "{remedy}");
    site.expect_remedies("nft");
}

/// Starts the gateway again with an `nft` of its own, whose first order is this; returns its `PATH`.
fn with_nft(bed: &mut Bed, order: &str) -> String {
    let nft = bed.nets.folder().join("nft");
    fs::write(&nft, format!("#!/bin/sh\n{order}\nexec /usr/sbin/nft \"$@\"\n")).unwrap();
    for path in [bed.nets.folder(), &nft] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", bed.nets.folder().display());
    bed.restart_with(&path);
    path
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_table_that_could_not_be_made_is_made_when_nft_works_again() {
    let mut bed = Bed::new(GRE);
    let broken = bed.nets.folder().join("broken");
    with_nft(&mut bed, &format!("[ -e {} ] && exit 1", broken.display()));
    let delete = "nft delete table inet trackway_gre";
    let has_fault = |bed: &Bed| bed.status()["faults"].to_string().contains("not-kept-out");

    fs::write(&broken, "").unwrap();
    bed.nets.run(&bed.host, delete);
    assert!(wait_until(SOON, || has_fault(&bed)), "{}", bed.status());
    fs::remove_file(&broken).unwrap();

    assert!(wait_until(SOON, || !has_fault(&bed)), "{}", bed.status());
    // It is there again, so that it can be deleted.
    bed.nets.run(&bed.host, delete);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_firewalls_program_that_hangs_holds_up_nobody_but_who_asks_about_firewalls() {
    let mut bed = Bed::new(GRE);
    let hang = bed.nets.folder().join("hang");
    // Whoever asks for rules waits, once `hang` is there.
    let path = with_nft(
        &mut bed,
        &format!(
            "[ -e {0} ] && [ \"$1\" = list ] && {{ echo x >> {0}; exec sleep 30; }}",
            hang.display()
        ),
    );
    // What is in the way at the start is only logged.
    assert!(wait_until(SOON, || bed.printed().contains("ip_forward is 0")), "{}", bed.printed());
    bed.nets.run(&bed.host, "sysctl -qw net.ipv4.ip_forward=1");
    fs::write(&hang, "").unwrap();
    fs::set_permissions(&hang, fs::Permissions::from_mode(0o666)).unwrap();
    let asked = || fs::metadata(&hang).is_ok_and(|it| it.len() > 0);

    // Faults of other kinds do not wait.
    bed.nets.run(&bed.host, "/usr/sbin/nft add table inet other");
    assert!(wait_until(SOON, asked));
    bed.nets.run(&bed.host, "sysctl -qw net.ipv4.conf.trackway-gre0.forwarding=0");
    let is_told = || bed.status()["faults"].to_string().contains("forwarding");
    assert!(wait_until(Duration::from_secs(5), is_told), "{}", bed.status());
    bed.nets.run(&bed.host, "sysctl -qw net.ipv4.ip_forward=0");
    fs::write(&hang, "").unwrap();

    let asked = format!("env {path} {TRACKWAY} explain icmp 10.50.0.2 10.4.0.9 --json");
    let words: Vec<_> = asked.split(' ').collect();
    let mut explain = Program::start(&mut bed.nets.words(&bed.host, &words), "explain").unwrap();
    assert!(wait_until(SOON, || fs::metadata(&hang).is_ok_and(|it| it.len() > 0)));
    for _ in 0..5 {
        let began = Instant::now();
        assert!(bed.status()["services"].is_array(), "{}", bed.status());
        // The program that hangs is given 10 s.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(!explain.has_ended(), "{}", explain.printed());
    }
    let (code, said) = explain.finish(SOON);

    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said["doubts"].to_string().contains("does not end within 10 s"), "{said}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn systemd_networkd_takes_away_what_it_did_not_make_and_it_is_there_again() {
    let site = Site::new();
    for round in 0..2 {
        let Some(mut networkd) = managers::networkd(&site.bed.nets, &site.bed.host) else { return };
        networkd.wait_for("Enumeration completed", SOON);
        let comes = wait_until(SOON, || site.run("ip route").contains("10.55.0.0/16 via 10.9.0.2"));
        assert!(comes, "{}", networkd.printed());
        site.expect_work(&format!("networkd, round {round}"));
        networkd.stop();
        assert!(site.run("ip route").contains("10.55.0.0/16 via 10.9.0.2"));
        site.expect_work("after networkd");
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn firewalld_comes_reloads_and_goes_and_explain_agrees_with_it() {
    let site = Site::new();
    let Some(mut firewalld) = managers::firewalld(&site.bed.nets, &site.bed.host) else { return };
    firewalld.wait_for("running", SOON);
    site.expect_work("firewalld");
    let agrees = |site: &Site| {
        let (arrives, explained) = site.explained();
        assert_eq!(site.reaches(), arrives, "{explained}");
        arrives
    };
    assert!(!agrees(&site));
    fs::write(site.bed.nets.folder().join("reload"), "").unwrap();
    firewalld.wait_for("reloaded", SOON);
    site.expect_work("after a reload of firewalld");
    fs::write(site.bed.nets.folder().join("open"), "").unwrap();
    firewalld.wait_for("opened", SOON);
    assert!(agrees(&site));
    assert!(site.run("nft list tables").contains("table inet firewalld"));
    assert!(site.run("nft list tables").contains("table inet trackway_gre"));
    firewalld.stop();
    site.expect_work("after firewalld");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn ufw_comes_reloads_and_goes_and_explain_agrees_with_it() {
    if !is_installed("/usr/sbin/ufw", "ufw") {
        return;
    }
    let site = Site::new();
    let _web = site.bed.nets.within(&site.bed.far, || TcpListener::bind("10.4.0.9:80").unwrap());
    // What ufw writes is a copy, for its script alone.
    let text = "cp -a /etc/ufw FOLDER/ufw && mount --bind FOLDER/ufw /etc/ufw || exit\n\
                step() { until [ -e FOLDER/$1 ]; do sleep 0.1; done; }\n\
                ufw --force enable; echo enabled\n\
                step reload; ufw reload; echo reloaded\n\
                step open; ufw route allow proto tcp to 10.4.0.9 port 80; echo opened\n\
                step end; ufw disable; echo ended\n"
        .replace("FOLDER", site.bed.nets.folder().to_str().unwrap());
    let step = |name: &str| fs::write(site.bed.nets.folder().join(name), "").unwrap();
    let agrees = || {
        let words = ["timeout", "3", "bash", "-c", "exec 3<>/dev/tcp/10.4.0.9/80"];
        let reaches = site.bed.nets.try_words(&site.lan, &words).status.success();
        let asked = format!("{TRACKWAY} explain tcp 10.50.0.2:40000 10.4.0.9:80 --json");
        let explained = site.bed.nets.try_run(&site.bed.host, &asked);
        let said = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert_eq!(reaches, explained.status.success(), "{said}");
        reaches
    };
    assert!(agrees());

    let mut ufw = managers::script(&site.bed.nets, &site.bed.host, "ufw.sh", &text);
    for (order, said, passes) in [
        (None, "enabled", false),
        (Some("reload"), "reloaded", false),
        (Some("open"), "opened", true),
    ] {
        order.into_iter().for_each(step);
        ufw.wait_for(said, SOON);
        site.expect_work(said);
        assert_eq!(agrees(), passes, "{said}: {}", ufw.printed());
        assert!(site.run("nft list tables").contains("table inet trackway_gre"));
        assert!(site.run("iptables -S").contains("ufw-before-forward"));
    }
    step("end");
    ufw.wait_for("ended", SOON);
    site.expect_work("after ufw");
    assert!(agrees());
}

#[test]
#[ignore = "needs root: run by ./test"]
fn keepalived_adds_and_takes_its_address_and_nothing_else_changes() {
    const KEEPALIVED: &str = "/usr/sbin/keepalived";
    if !is_installed(KEEPALIVED, "keepalived") {
        return;
    }
    let site = Site::new();
    let folder = site.bed.nets.folder().display().to_string();
    let config = "vrrp_instance v {\n interface eth1\n virtual_router_id 51\n priority 100\n advert_int 1\n state MASTER\n \
                  virtual_ipaddress {\n 10.9.0.100/24\n }\n virtual_routes {\n 10.56.0.0/16 via 10.9.0.2 dev eth1\n }\n}\n";
    fs::write(site.bed.nets.folder().join("k.conf"), config).unwrap();
    let claimed = site.bed.nets.claimed(&site.bed.host, 119);
    let words = format!(
        "{KEEPALIVED} -n -l -f {folder}/k.conf -p {folder}/k.pid -r {folder}/v.pid -c {folder}/c.pid"
    );
    let words: Vec<_> = words.split(' ').collect();
    let mut command = site.bed.nets.words(&site.bed.host, &words);
    let mut keepalived = Program::start(command.stdin(Stdio::null()), "keepalived").unwrap();
    let has_address = || site.run("ip address show dev eth1").contains("10.9.0.100/24");
    assert!(wait_until(SOON, has_address), "{}", keepalived.printed());
    assert!(site.run("ip route").contains("10.56.0.0/16"));
    site.expect_work("keepalived");
    assert_eq!(site.bed.nets.claimed(&site.bed.host, 119), claimed);
    keepalived.stop();
    assert!(wait_until(SOON, || !has_address()));
    site.expect_work("after keepalived");
    assert_eq!(site.bed.nets.claimed(&site.bed.host, 119), claimed);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn a_static_route_of_frr_to_our_network_gives_way_to_ours() {
    const FRR: &str = "/usr/lib/frr";
    if !is_installed(format!("{FRR}/staticd"), "frr") {
        return;
    }
    let mut site = Site::new();
    let folder = site.bed.nets.folder().join("frr");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("frr.conf");
    fs::write(&file, "ip route 10.4.0.0/16 10.9.0.2\nip route 10.57.0.0/16 10.9.0.2\n").unwrap();
    site.run(&format!("chown -R frr:frr {}", folder.display()));
    let mut programs = Vec::new();
    for daemon in ["zebra", "staticd"] {
        let command = format!(
            "{FRR}/{daemon} -f {1} -i {0}/{daemon}.pid -z {0}/zserv --vty_socket {0} -P 0",
            folder.display(),
            file.display()
        );
        let host = site.bed.host.clone();
        programs.push(site.bed.nets.start(&host, &command, ""));
        let socket = folder.join(format!("{daemon}.vty"));
        assert!(wait_until(SOON, || socket.exists()), "{daemon} does not start");
    }
    // The name of its protocol stands for another number in other programs.
    let has = |site: &Site, what: &str| {
        let routes = site.run("ip route");
        routes.lines().any(|it| it.starts_with(what) && it.contains("proto static"))
    };
    let comes = wait_until(SOON, || has(&site, "10.57.0.0/16"));
    let printed: String = programs.iter().map(|it| site.bed.nets.printed(*it)).collect();
    assert!(comes, "{printed}{}", site.run("ip route"));
    site.expect_work("frr");
    // Zebra takes routes of the kernel for better than its own, so ours stays before the static one.
    assert!(!has(&site, "10.4.0.0/16") && site.reaches());
    for program in programs.into_iter().rev() {
        site.bed.nets.program(program).stop();
    }
    site.expect_work("after frr");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn babeld_takes_our_network_for_its_own_and_ours_comes_before_it() {
    const BABELD: &str = "/usr/sbin/babeld";
    if !is_installed(BABELD, "babeld") {
        return;
    }
    let mut site = Site::new();
    let mut programs = Vec::new();
    for (host, interface) in [(site.bed.host.clone(), "eth1"), (site.bed.far.clone(), "eth0")] {
        site.bed.nets.run(&host, &format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0"));
        let folder = site.bed.nets.folder().join(format!("babel-{interface}"));
        fs::create_dir(&folder).unwrap();
        let text = format!(
            "interface {interface} type wired hello-interval 1\nredistribute local ip 10.4.0.9/32 allow\n\
             redistribute local deny\n"
        );
        fs::write(folder.join("babeld.conf"), text).unwrap();
        let command = format!(
            "{BABELD} -I {0}/pid -S {0}/state -c {0}/babeld.conf {interface}",
            folder.display()
        );
        programs.push(site.bed.nets.start(&host, &command, ""));
    }
    let has =
        |site: &Site| site.run("ip route").contains("10.4.0.9 via 10.9.0.2 dev eth1 proto babel");
    assert!(wait_until(SOON, || has(&site)), "{}", site.run("ip route"));
    // It is longer than ours: an administrator may mean it, so it is told, and packets go by it or by ours.
    site.expect_work("babeld");
    let is_told = || {
        let (_, explained) = site.explained();
        explained["outcome"]["pass"]["service"] == "ip"
            || site.bed.status()["faults"].to_string().contains("10.4.0")
    };
    assert!(wait_until(SOON, is_told), "{:?} {}", site.explained(), site.bed.status());
    assert!(has(&site));
    for program in programs {
        site.bed.nets.program(program).stop();
    }
    assert!(wait_until(SOON, || !has(&site)));
    site.expect_work("after babeld");
}
