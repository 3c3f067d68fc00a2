//! Others change the host at random beside HF-PEP and routing; the tunnel has a storm of its own. Three seconds later
//! the service works, or a fault says what is missing; nothing of others is touched, and nothing leaves in clear.
//!
//! `TRACKWAY_SEED=7 TRACKWAY_SEQUENCES=100` chooses which sequences of actions run, and how many of each service.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use ::gateway::sys::port::{OFFLOAD, Port};
use base::ip::protocol;
use base::rng::Rng;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::call::call;
use crate::namespaces::{Namespaces, SOON, TRACKWAY, wait_until};

/// Actions of a sequence.
const ACTIONS: usize = 20;
/// After the last action of a sequence.
const CALM: Duration = Duration::from_secs(3);

/// What is done to the host whatever the service is, a line of commands each; ` && ` separates them. `DEVICE` is the
/// service's, `PROTO` its number in routes and rules, `FAR` a network that it carries, and `HOST` a host there.
const COMMANDS: [&str; 56] = [
    "ip link set eth1 down && ip link set eth1 up && ip route replace default via 10.9.0.2",
    "ip link set eth1 down && ip address add 10.8.0.1/24 dev eth1 && ip link set eth1 up && ip route replace default via 10.9.0.2",
    "ip address del 10.9.0.1/24 dev eth1 && ip address add 10.9.0.1/24 dev eth1 && ip route replace default via 10.9.0.2",
    "ip address add 10.9.0.77/24 dev eth1",
    "ip address del 10.9.0.77/24 dev eth1",
    "ip address add 10.8.0.1/24 dev eth1",
    "ip address del 10.8.0.1/24 dev eth1",
    "ip link set eth1 mtu 1400",
    "ip link set eth1 mtu 1500",
    "ip link set eth1 promisc on",
    "ip link set eth1 promisc off",
    "ip link set eth1 txqueuelen 10",
    "ip link set eth1 alias uplink",
    "ip link set lo up",
    "ip neigh flush all",
    "ip link set DEVICE down",
    "ip link set DEVICE down && ip link set DEVICE up",
    "ip link set DEVICE mtu 1280",
    "ip link set DEVICE alias ours",
    "ip address flush dev DEVICE",
    "ip address add 10.99.9.9/32 dev DEVICE",
    "ip address del 10.99.9.9/32 dev DEVICE",
    "ip -6 address flush dev DEVICE",
    "ip route flush dev DEVICE",
    "ip route flush proto PROTO",
    "ip -6 route flush proto PROTO",
    "ip route flush cache",
    "ip route add FAR via 10.9.0.2",
    "ip route del FAR via 10.9.0.2",
    "ip route add FAR via 10.9.0.2 metric 100",
    "ip route del FAR via 10.9.0.2 metric 100",
    "ip route add blackhole 198.51.100.0/24",
    "ip route del blackhole 198.51.100.0/24",
    "ip route add 203.0.113.0/24 via 10.9.0.2 table 51999",
    "ip rule add pref 31000 to 198.51.100.0/24 table main",
    "ip rule del pref 31000",
    "ip rule del pref 100",
    "ip rule flush && ip rule add pref 32766 table main && ip rule add pref 32767 table default",
    "nft flush ruleset",
    "nft add table inet other",
    "nft delete table inet other",
    "nft delete table inet trackway_SERVICE",
    "nft flush table inet trackway_SERVICE",
    "sysctl -qw net.ipv4.conf.all.rp_filter=1",
    "sysctl -qw net.ipv4.conf.all.rp_filter=0",
    "sysctl -qw net.ipv4.conf.eth1.rp_filter=1",
    "sysctl -qw net.ipv4.conf.default.rp_filter=2",
    "sysctl -qw net.ipv4.conf.all.accept_redirects=1",
    "sysctl -qw net.ipv4.conf.all.send_redirects=1",
    "sysctl -qw net.ipv4.ip_forward=0 && sysctl -qw net.ipv4.ip_forward=1",
    "sysctl -qw net.ipv6.conf.DEVICE.disable_ipv6=1",
    "sysctl -qw net.ipv6.conf.DEVICE.disable_ipv6=1 && sysctl -qw net.ipv6.conf.DEVICE.disable_ipv6=0",
    "ip link add dummy7 type dummy && ip link set dummy7 up && ip address add 10.7.7.7/24 dev dummy7",
    "ip link delete dummy7",
    "tc qdisc replace dev eth1 root pfifo limit 100",
    "tc qdisc del dev eth1 root",
];

/// What is done to the gateway itself.
#[derive(Clone, Copy, Debug)]
enum Blow {
    DeleteDevice,
    Hangup,
    Kill,
    Pause,
    Quit,
    Reload,
    Second,
    UserSignal,
}

const BLOWS: [Blow; 8] = [
    Blow::DeleteDevice,
    Blow::Hangup,
    Blow::Kill,
    Blow::Pause,
    Blow::Quit,
    Blow::Reload,
    Blow::Second,
    Blow::UserSignal,
];

/// A service beside which others act.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    name: &'static str,
    device: &'static str,
    proto: &'static str,
    far: &'static str,
    host: &'static str,
    /// The configurations of the host and of the far gateway.
    configs: [&'static str; 2],
    /// Whether it works: sends something by it.
    pub(crate) works: fn(&Bed) -> bool,
    /// The protocol whose packets to the far host must not be seen in clear.
    hidden: Option<u8>,
}

/// Two hosts on a cable, each with a gateway; the far one has `HOST` of all services.
pub(crate) struct Bed {
    pub(crate) nets: Namespaces,
    pub(crate) host: String,
    pub(crate) far: String,
    programs: [usize; 2],
    pub(crate) folder: PathBuf,
    service: Service,
}

impl Bed {
    pub(crate) fn new(service: Service) -> Self {
        let mut nets = Namespaces::new();
        let [host, far] = ["h", "f"].map(|name| nets.add(name));
        nets.cable((&host, "eth1"), (&far, "eth0"));
        nets.address(&host, "eth1", "10.9.0.1/24");
        nets.address(&far, "eth0", "10.9.0.2/24");
        nets.address(&far, "lo", &format!("{}/32", service.host));
        nets.run(&host, "ip route add default via 10.9.0.2");
        nets.run(&far, "ip route add default via 10.9.0.1");
        nets.run(&far, "sysctl -qw net.ipv4.ip_forward=1");
        let folder = env::temp_dir().join(&host);
        fs::create_dir(&folder).unwrap();
        let mut bed = Self { nets, host, far, programs: [0; 2], folder, service };
        for end in [1, 0] {
            fs::write(bed.file(end), service.configs[end]).unwrap();
            bed.start(end);
        }
        let works = wait_until(SOON, || (service.works)(&bed));
        assert!(works, "{}: {}\n{}", service.name, bed.status(), bed.nets.printed(bed.programs[0]));
        bed
    }

    pub(crate) fn file(&self, end: usize) -> PathBuf {
        self.folder.join(format!("{end}.toml"))
    }

    fn start(&mut self, end: usize) {
        let name = [&self.host, &self.far][end].clone();
        let command = format!("{TRACKWAY} run {}", self.file(end).display());
        self.programs[end] = self.nets.start(&name, &command, "gateway ready");
    }

    fn try_run(&self, command: &str) -> String {
        let said = self.nets.try_run(&self.host, command);
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.try_run(&format!("{TRACKWAY} status --json")))
            .unwrap_or_default()
    }

    fn has_fault(&self) -> bool {
        let status = self.status();
        let is_troubled = |it: &Value| it["state"] != "running";
        status["faults"].as_array().is_some_and(|all| !all.is_empty())
            || status["services"].as_array().is_some_and(|all| all.iter().any(is_troubled))
    }

    /// Does something to the host or the gateway, and says what; and whether it was the gateway.
    fn strike(&mut self, rng: &mut Rng) -> (String, bool) {
        let all = COMMANDS.len() + BLOWS.len();
        let at = usize::try_from(rng.below(all as u64)).unwrap();
        let Some(blow) = at.checked_sub(COMMANDS.len()).map(|at| BLOWS[at]) else {
            let Service { name, device, proto, far, host, .. } = self.service;
            let line = COMMANDS[at]
                .replace("DEVICE", device)
                .replace("PROTO", proto)
                .replace("FAR", far)
                .replace("HOST", host)
                .replace("SERVICE", name);
            for command in line.split(" && ") {
                self.try_run(command);
            }
            return (line, false);
        };
        let run = format!("{TRACKWAY} run {}", self.file(0).display());
        let gateway = self.programs[0];
        match blow {
            Blow::Kill | Blow::Quit => {
                let signal =
                    if matches!(blow, Blow::Kill) { Signal::SIGKILL } else { Signal::SIGQUIT };
                self.nets.program(gateway).signal(signal);
                self.nets.program(gateway).finish(SOON);
                let is_gone =
                    || !self.try_run("ip link").contains(&format!("{}:", self.service.device));
                assert!(wait_until(SOON, is_gone), "the device is left");
                self.start(0);
            }
            Blow::Pause => {
                self.nets.program(gateway).signal(Signal::SIGSTOP);
                thread::sleep(Duration::from_millis(300));
                self.nets.program(gateway).signal(Signal::SIGCONT);
            }
            Blow::Hangup => self.nets.program(gateway).signal(Signal::SIGHUP),
            Blow::UserSignal => self.nets.program(gateway).signal(Signal::SIGUSR1),
            Blow::Reload => drop(self.try_run(&format!("{TRACKWAY} reload"))),
            Blow::DeleteDevice => {
                drop(self.try_run(&format!("ip link delete {}", self.service.device)));
            }
            Blow::Second => {
                let second = self.nets.try_run(&self.host, &run);
                let said = String::from_utf8_lossy(&second.stderr).into_owned();
                assert!(!second.status.success(), "a second gateway runs: {said}");
            }
        }
        (format!("{blow:?}"), true)
    }

    /// What other programs have in the routing of the host.
    fn foreign(&self) -> String {
        let mut foreign = String::new();
        for version in ["-4", "-6"] {
            for what in ["route show table all", "rule show"] {
                let shown = self.try_run(&format!("ip {version} {what}"));
                let ours = [
                    "proto 11",
                    "proto 12",
                    "trackway",
                    "table local",
                    "proto kernel",
                    "table 519",
                    "suppress",
                ];
                let is_ours = |line: &&str| ours.iter().any(|mark| line.contains(mark));
                let is_foreign = |line: &&str| line.contains("51999") || !is_ours(line);
                for line in shown.lines().filter(is_foreign) {
                    let _ = writeln!(foreign, "{}", line.trim_end());
                }
            }
        }
        foreign
    }

    /// Packets to the far host that are seen in clear beyond the cable.
    fn seen(&self, port: &Port, of: u8) -> usize {
        let host: std::net::Ipv4Addr = self.service.host.parse().unwrap();
        let mut frame = vec![0; 1 << 16];
        let mut seen = 0;
        while let Ok(Some(received)) = port.receive(&mut frame) {
            let packet = &frame[OFFLOAD + 14..received.len];
            let is_it = packet.len() >= 20
                && packet[0] >> 4 == 4
                && packet[9] == of
                && packet[16..20] == host.octets();
            seen += usize::from(is_it);
        }
        seen
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn pings(bed: &Bed) -> bool {
    bed.try_run(&format!("ping -c 1 -W 1 {}", bed.service.host)).contains(" 0% packet loss")
}

fn exchanges(bed: &Bed) -> bool {
    let at: SocketAddr = format!("{}:80", bed.service.host).parse().unwrap();
    let Ok(listener) = bed.nets.within(&bed.far, || TcpListener::bind(at)) else { return false };
    listener.set_nonblocking(true).unwrap();
    let dial = || call(None, at, 0, Duration::from_secs(2));
    let Ok(mut client) = bed.nets.within(&bed.host, dial) else { return false };
    let mut accepted = None;
    let comes = wait_until(Duration::from_secs(2), || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let Some((mut server, _)) = accepted.filter(|_| comes) else { return false };
    server.set_nonblocking(false).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut heard = [0; 5];
    client.write_all(b"storm").is_ok()
        && server.read_exact(&mut heard).is_ok()
        && &heard == b"storm"
}

pub(crate) const GRE: Service = Service {
    name: "gre",
    device: "trackway-gre0",
    proto: "119",
    far: "10.4.0.0/16",
    host: "10.4.0.9",
    configs: [
        "[[gre]]\nlocal = \"10.9.0.1\"\nremote = \"10.9.0.2\"\nto = [\"10.4.0.0/16\"]\naddresses = [\"10.44.0.1/32\"]\n",
        "[[gre]]\nlocal = \"10.9.0.2\"\nremote = \"10.9.0.1\"\nto = [\"10.44.0.0/16\"]\naddresses = [\"10.45.0.1/32\"]\n",
    ],
    works: pings,
    hidden: Some(protocol::ICMP),
};

const HF_PEP: Service = Service {
    name: "hfpep",
    device: "trackway-none",
    proto: "120",
    far: "10.2.0.0/16",
    host: "10.2.0.9",
    configs: [
        "[hfpep.bearer]\nlisten = \"10.9.0.1:5099\"\n[[hfpep.peer]]\ngateway = \"10.9.0.2:5099\"\nto = [\"10.2.0.0/16\"]\n",
        "[hfpep]\nallow = [{ gateway = \"10.9.0.0/24\", to = [\"10.2.0.0/16\"] }]\n[hfpep.bearer]\n\
         listen = \"10.9.0.2:5099\"\nfrom = [\"10.9.0.0/24\"]\n",
    ],
    works: exchanges,
    hidden: Some(protocol::TCP),
};

const ROUTING: Service = Service {
    name: "routing",
    device: "trackway-none",
    proto: "116",
    far: "10.5.0.0/16",
    host: "10.5.0.9",
    configs: [
        "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"eth1\"]\nhello-interval = \"200ms\"\nneighbour-hold = \"700ms\"\n\
         tc-interval = \"500ms\"\ntopology-hold = \"2s\"\nhna-interval = \"300ms\"\nmax-jitter = \"50ms\"\n",
        "[routing]\nprotocol = \"olsr\"\ninterfaces = [\"eth0\"]\nhello-interval = \"200ms\"\nneighbour-hold = \"700ms\"\n\
         tc-interval = \"500ms\"\ntopology-hold = \"2s\"\nhna-interval = \"300ms\"\nmax-jitter = \"50ms\"\n\
         attached = [\"10.5.0.0/16\"]\n",
    ],
    works: has_manet_route,
    hidden: None,
};

/// The route of the MANET is there, and leads there.
fn has_manet_route(bed: &Bed) -> bool {
    bed.try_run("ip route show proto 116").contains("10.5.0.0/16 via 10.9.0.2") && pings(bed)
}

fn storm(service: Service) {
    let set = |name: &str, default: u64| {
        env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (seed, sequences) = (set("TRACKWAY_SEED", 7), set("TRACKWAY_SEQUENCES", 1));
    let mut bed = Bed::new(service);
    for sequence in seed..seed + sequences {
        let mut rng = Rng::stream(sequence, "host storm");
        let mut done =
            format!("{}: TRACKWAY_SEED={sequence} TRACKWAY_SEQUENCES=1:\n", service.name);
        let beyond = bed.nets.within(&bed.far, || Port::open("eth0").unwrap());
        for _ in 0..ACTIONS {
            let before = bed.foreign();
            let (action, is_ours) = bed.strike(&mut rng);
            let _ = writeln!(done, "  {action}");
            if let Some(of) = service.hidden.filter(|_| !action.contains("nft flush ruleset")) {
                match of {
                    protocol::ICMP => {
                        drop(bed.try_run(&format!("ping -c 1 -W 0.1 {}", service.host)));
                    }
                    _ => drop((service.works)(&bed)),
                }
            }
            thread::sleep(Duration::from_millis(rng.below(200)));
            let now = bed.foreign();
            assert!(!is_ours || now == before, "{done}before:\n{before}now:\n{now}");
        }
        let foreign = bed.foreign();
        thread::sleep(CALM);

        let began = Instant::now();
        let mut is_right = false;
        wait_until(SOON, || {
            is_right = (service.works)(&bed) || bed.has_fault();
            is_right
        });
        let said = || format!("{done}{}\n{}", bed.try_run("ip route show table all"), bed.status());
        assert!(is_right, "{}", said());
        let works = (service.works)(&bed);
        eprintln!(
            "{} {sequence}: {} after {:?}",
            service.name,
            if works { "works" } else { "a fault" },
            began.elapsed()
        );
        if let Some(of) = service.hidden {
            assert_eq!(bed.seen(&beyond, of), 0, "in clear: {}", said());
        }
        assert_eq!(bed.foreign(), foreign, "{done}");
        if !works {
            // What stays in the way would stay so for the next sequence.
            drop(bed);
            bed = Bed::new(service);
        }
    }
    let gateway = bed.programs[0];
    let (code, printed) = bed.nets.program(gateway).stop();
    assert_eq!(code, Some(0), "{printed}");
    let proto = service.proto.parse().unwrap();
    assert_eq!(bed.nets.claimed(&bed.host, proto), "", "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn hf_pep_is_there_again_or_a_fault_is_named() {
    storm(HF_PEP);
}

#[test]
#[ignore = "needs root: run by ./test"]
fn routing_is_there_again_or_a_fault_is_named() {
    storm(ROUTING);
}

/// What nobody in their right mind would do.
mod hostile {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_manager_that_flushes_all_the_time_is_told_and_outlived() {
        let bed = Bed::new(GRE);
        let until = Instant::now() + Duration::from_secs(8);
        let mut is_told = false;
        while Instant::now() < until {
            for command in [
                "ip address flush dev trackway-gre0",
                "ip route flush proto 119",
                "nft flush ruleset",
            ] {
                bed.try_run(command);
            }
            is_told |= bed.has_fault();
        }

        assert!(is_told, "{}", bed.status());
        assert!(wait_until(SOON, || pings(&bed)), "{}", bed.status());
        let lines = bed.nets.printed(bed.programs[0]).lines().count();
        assert!(lines < 1_000, "{lines}");
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn whoever_may_talk_to_the_control_socket_stops_nobody() {
        let mut bed = Bed::new(GRE);
        let inode = bed.try_run("stat -Lc %i /proc/self/ns/net");
        let socket = format!("/run/trackway/{}/control.sock", inode.trim());
        let connect = || UnixStream::connect(&socket).unwrap();
        let mut idle = Vec::new();
        for round in 0..50 {
            let mut stream = connect();
            stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            let said: Vec<u8> = match round % 5 {
                0 => Vec::new(),
                1 => b"{\"status\"".to_vec(),
                2 => vec![b'x'; 1 << 20],
                3 => b"\"Status\"\n\"Reload\"\n\0\xff\n".to_vec(),
                _ => b"{\"Explain\":{\"protocol\":300}}\n".to_vec(),
            };
            let _ = stream.write_all(&said);
            idle.push(stream);
        }

        let answers = || bed.status()["services"].is_array();
        assert!(wait_until(SOON, answers));
        assert!(wait_until(SOON, || pings(&bed)), "{}", bed.status());
        drop(idle);
        let gateway = bed.programs[0];
        let (code, printed) = bed.nets.program(gateway).stop();
        assert_eq!(code, Some(0), "{printed}");
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_namespace_that_loses_its_name_goes_on_and_ends_cleanly() {
        let mut bed = Bed::new(GRE);
        let gateway = bed.programs[0];
        let pid = bed.nets.program(gateway).pid();
        let run = |command: &str| {
            let words: Vec<_> = command.split(' ').collect();
            let said = std::process::Command::new("nsenter")
                .args(["-t", &pid.to_string(), "-n"])
                .args(words)
                .output()
                .unwrap();
            String::from_utf8_lossy(&said.stdout).into_owned()
        };
        assert!(
            std::process::Command::new("ip")
                .args(["netns", "del", &bed.host])
                .status()
                .unwrap()
                .success()
        );

        assert!(run("ping -c 1 -W 5 10.4.0.9").contains(" 0% packet loss"));
        assert!(run(&format!("{TRACKWAY} status --json")).contains("running"));
        // The other end of the cable goes with its namespace.
        let far = bed.programs[1];
        bed.nets.program(far).stop();
        assert!(
            std::process::Command::new("ip")
                .args(["netns", "del", &bed.far])
                .status()
                .unwrap()
                .success()
        );
        assert!(run(&format!("{TRACKWAY} status --json")).contains("running"));
        let (code, printed) = bed.nets.program(gateway).stop();
        assert_eq!(code, Some(0), "{printed}");
    }
}
