//! Others change the host at random while a tunnel carries packets: three seconds later all is as it should be, or a
//! fault says what is missing; nothing of others is touched, and no packet leaves in clear.
//!
//! `TRACKWAY_SEED=7 TRACKWAY_SEQUENCES=1000` chooses which sequences of actions run, and how many.

use std::env;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use base::rng::Rng;
use nix::sys::signal::Signal;

use super::{Net, SOON, TRACKWAY};
use crate::namespaces::{undisturbed, wait_until};

/// Actions of a sequence.
const ACTIONS: usize = 20;
/// After the last action of a sequence.
const CALM: Duration = Duration::from_secs(3);
const INSIDE: [&str; 2] = ["10.77.0.2", "fd77::2"];

/// What is done to the host of gateway 0, a line of commands each; `;` separates them.
const COMMANDS: [&str; 34] = [
    "ip link set trackway-nc0 down",
    "ip link set trackway-nc0 down; ip link set trackway-nc0 up",
    "ip address del 10.77.0.1/24 dev trackway-nc0",
    "ip address del fd77::1/64 dev trackway-nc0",
    "ip address flush dev trackway-nc0",
    "ip address add 10.77.0.200/24 dev trackway-nc0; ip address del 10.77.0.1/24 dev trackway-nc0",
    "ip route del 10.77.0.2/32 dev trackway-nc0",
    "ip route del fd77::2/128 dev trackway-nc0",
    "ip route flush proto 117",
    "ip -6 route flush proto 117",
    "ip route del unreachable 10.77.0.2 metric 4000000000",
    "ip route flush dev trackway-nc0",
    "ip route flush table 51932",
    "ip rule del pref 30576",
    "ip rule del pref 30577",
    "ip rule flush; ip rule add pref 32766 table main; ip rule add pref 32767 table default",
    "ip route add 10.77.0.2/32 via 10.9.1.2",
    "ip route del 10.77.0.2/32 via 10.9.1.2",
    "ip route add 10.77.0.2/32 via 10.9.1.2 metric 100",
    "ip route del 10.77.0.2/32 via 10.9.1.2 metric 100",
    "ip route replace fd77::2/128 via fd09::2",
    "ip route del fd77::2/128 via fd09::2",
    "ip route add 198.51.100.0/24 via 10.9.1.2",
    "ip rule add pref 31000 to 198.51.100.0/24 table main",
    "nft flush ruleset",
    "nft delete table inet trackway_tunnel",
    "nft flush chain inet trackway_tunnel prerouting",
    "sysctl -qw net.ipv4.conf.all.rp_filter=1",
    "sysctl -qw net.ipv4.conf.eth1.rp_filter=1",
    "sysctl -qw net.ipv4.conf.trackway-nc0.accept_local=0",
    "sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=1",
    "sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=1; sysctl -qw net.ipv6.conf.trackway-nc0.disable_ipv6=0",
    "ip link set eth1 down; ip link set eth1 up; ip address replace fd09::1/64 dev eth1 nodad; \
     ip route replace default via 10.9.1.2; ip -6 route replace default via fd09::2",
    "ip link set lo up",
];

/// What is done to the gateway itself.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    Pause,
    Reload,
    DeleteDevice,
}

impl Net {
    /// Does something to the host or to the gateway, and says what.
    fn strike(&mut self, rng: &mut Rng) -> String {
        let choices = COMMANDS.len() + 4;
        match usize::try_from(rng.below(choices as u64)).unwrap() {
            at if at < COMMANDS.len() => {
                for command in COMMANDS[at].split("; ") {
                    self.try_run(0, command);
                }
                COMMANDS[at].to_owned()
            }
            at => {
                let blow = [Blow::Kill, Blow::Pause, Blow::Reload, Blow::DeleteDevice]
                    [at - COMMANDS.len()];
                match blow {
                    Blow::Kill => {
                        self.crash(0);
                        let file = self.nets.folder().join("0.toml");
                        let command = format!("{TRACKWAY} run {}", file.display());
                        let name = self.nodes[0].clone();
                        let (program, had_to_go) =
                            self.nets.start_gateway_despite_routes(&name, &command);
                        self.programs[0] = Some(program);
                        if had_to_go {
                            return "Kill, and the route that refuses the start is removed"
                                .to_owned();
                        }
                    }
                    Blow::Pause => {
                        self.gateway(0).signal(Signal::SIGSTOP);
                        thread::sleep(Duration::from_millis(300));
                        self.gateway(0).signal(Signal::SIGCONT);
                    }
                    Blow::Reload => drop(self.try_run(0, &format!("{TRACKWAY} reload"))),
                    Blow::DeleteDevice => drop(self.try_run(0, "ip link delete trackway-nc0")),
                }
                format!("{blow:?}")
            }
        }
    }

    /// What other programs have on the host of gateway 0, but what goes with our device.
    fn foreign(&self) -> String {
        let mut foreign = String::new();
        for version in ["-4", "-6"] {
            for what in ["route show table all", "rule show"] {
                let shown = self.run(0, &format!("ip {version} {what}"));
                let is_ours = |line: &&str| {
                    [
                        "proto 117",
                        "trackway",
                        "table local",
                        "proto kernel",
                        "table 519",
                        "suppress",
                    ]
                    .iter()
                    .any(|mark| line.contains(mark))
                };
                for line in shown.lines().filter(|line| !is_ours(line)) {
                    let _ = writeln!(foreign, "{}", line.trim_end());
                }
            }
        }
        foreign
    }
}

#[test]
#[ignore = "needs root: run by ./test"]
fn whatever_others_do_to_the_host_all_is_there_again_or_named() {
    let set = |name: &str, default: u64| {
        env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (seed, sequences) = (set("TRACKWAY_SEED", 7), set("TRACKWAY_SEQUENCES", 3));
    let mut net = Net::pair_with_default_routes();
    net.start_all();

    for sequence in 0..sequences {
        let mut rng = Rng::stream(seed + sequence, "host storm");
        let mut done = format!("TRACKWAY_SEED={} TRACKWAY_SEQUENCES=1:\n", seed + sequence);
        for _ in 0..ACTIONS {
            let before = net.foreign();
            let action = net.strike(&mut rng);
            let _ = writeln!(done, "  {action}");
            thread::sleep(Duration::from_millis(rng.below(200)));
            let is_ours = !COMMANDS.contains(&&action[..]) && !action.contains("removed");
            assert!(
                !is_ours || net.foreign() == before,
                "{done}before:\n{before}now:\n{}",
                net.foreign()
            );
        }
        let foreign = net.foreign();
        thread::sleep(CALM);

        let began = Instant::now();
        let answers = |address| {
            let said = net.try_run(0, &format!("ping -c 1 -W 1 {address}"));
            said.contains(" 0% packet loss")
        };
        for address in INSIDE {
            let comes = wait_until(SOON, || answers(address));
            assert!(comes, "{address} after\n{done}{}\n{}", net.claimed(0), net.status(0));
        }
        eprintln!("sequence {sequence}: answered {:?} after {CALM:?} of calm", began.elapsed());
        assert_eq!(net.clear((1, "eth0"), &INSIDE), 0, "{done}{}", net.claimed(0));
        assert_eq!(net.foreign(), foreign, "{done}");
    }

    let (code, said) = net.gateway(0).stop();
    assert_eq!((code, net.claimed(0)), (Some(0), String::new()), "{said}");
}

/// Tests that measure time, with the machine for themselves.
mod timed {
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use nix::libc;
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv,
        setsockopt, socket, sockopt,
    };
    use nix::sys::time::TimeVal;

    use super::*;

    /// Routes of others, and interfaces, as a router of the Internet and a host of containers have them.
    const ROUTES: u32 = 100_000;
    const INTERFACES: usize = 800;
    const CHANGES: usize = 5;
    /// Rules of others, for each of which the kernel is asked after a change.
    const RULES: u32 = 64;

    /// Kilobytes in memory that are not the program itself, and seconds of CPU so far.
    fn use_of(pid: i32) -> (u64, f64) {
        let place = Path::new("/proc").join(pid.to_string());
        let status = fs::read_to_string(place.join("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
        let kilobytes = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let stat = fs::read_to_string(place.join("stat")).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
        (kilobytes, f64::from(ticks) / 100.0)
    }

    impl Net {
        /// Removes the address of the tunnel's device, with which the kernel drops its routes; returns for how long
        /// the address and the route to the peer are gone.
        fn gap(&self) -> Duration {
            let listen = || {
                let (flags, part) = (SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute);
                let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, part).unwrap();
                setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(60, 0)).unwrap();
                let groups = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV4_ROUTE;
                let address = NetlinkAddr::new(0, groups.cast_unsigned());
                bind(socket.as_raw_fd(), &address).unwrap();
                socket
            };
            let socket = self.nets.within(&self.nodes[0], listen);
            thread::scope(|scope| {
                let heard = scope.spawn(move || {
                    let (mut gone, mut has_address, mut has_route) = (None, false, false);
                    let began = Instant::now();
                    // A message each time: a header of 16 octets, and `struct rtmsg` in those about routes.
                    let mut message = vec![0; 1 << 16];
                    loop {
                        let mut heard =
                            || recv(socket.as_raw_fd(), &mut message, MsgFlags::empty());
                        undisturbed(|| Ok(heard()?)).unwrap();
                        let now = Instant::now();
                        assert!(now < began + SOON, "{has_address} {has_route}");
                        match u16::from_ne_bytes([message[4], message[5]]) {
                            libc::RTM_DELADDR => drop(gone.get_or_insert(now)),
                            libc::RTM_NEWADDR => has_address |= gone.is_some(),
                            libc::RTM_NEWROUTE => has_route |= gone.is_some() && message[21] == 117,
                            _ => {}
                        }
                        if let Some(gone) = gone.filter(|_| has_address && has_route) {
                            return now - gone;
                        }
                    }
                });
                self.run(0, "ip address del 10.77.0.1/24 dev trackway-nc0");
                heard.join().unwrap()
            })
        }
    }

    #[test]
    #[ignore = "needs root: run by ./test"]
    fn a_hundred_thousand_routes_of_others_cost_nothing() {
        let mut net = Net::pair_with_default_routes();
        let start = |net: &mut Net| {
            let began = Instant::now();
            net.start(0);
            let took = began.elapsed();
            thread::sleep(CALM);
            let pid = net.pid(0);
            (took, use_of(pid).0)
        };
        let (alone, memory_alone) = start(&mut net);
        net.gateway(0).stop();

        let batch = net.nets.folder().join("batch");
        let mut lines = String::new();
        for number in 0..ROUTES {
            let [_, a, b, c] = (number << 4).to_be_bytes();
            let _ = writeln!(lines, "route add 44.{a}.{b}.{c}/28 via 10.9.1.2");
        }
        for number in 0..INTERFACES {
            let _ = writeln!(lines, "link add many{number} type veth peer name other{number}");
        }
        for number in 0..RULES {
            let priority = 1_000 + number;
            let _ = writeln!(lines, "rule add pref {priority} from 45.0.{number}.0/24 lookup main");
        }
        fs::write(&batch, lines).unwrap();
        net.run(0, &format!("ip -batch {}", batch.display()));
        let (beside, memory_beside) = start(&mut net);

        let pid = net.pid(0);
        let before = use_of(pid).1;
        thread::sleep(CALM);
        let rest = use_of(pid).1 - before;
        let whole = net.claimed(0);
        let mut waits = Vec::new();
        let mut works = Vec::new();
        for _ in 0..CHANGES {
            let before = use_of(pid).1;
            waits.push(net.gap());
            let has_all = || net.claimed(0) == whole;
            assert!(wait_until(SOON, has_all), "{}", net.claimed(0));
            // Not as somebody who does so all the time.
            thread::sleep(CALM);
            works.push(use_of(pid).1 - before);
        }
        waits.sort_unstable();
        works.sort_by(f64::total_cmp);

        eprintln!(
            "start {alone:?} alone, {beside:?} beside {ROUTES} routes, {RULES} rules and {INTERFACES} pairs of \
             interfaces; memory {memory_alone} and {memory_beside} kB; {rest} s of CPU in {CALM:?} of rest; a change is \
             answered in {:?} at the median, {:?} at most, with {:.2} s of CPU",
            waits[CHANGES / 2],
            waits[CHANGES - 1],
            works[CHANGES / 2]
        );
        assert!(beside < alone + Duration::from_secs(1), "{alone:?}, {beside:?}");
        assert!(memory_beside < 30_000, "{memory_alone}, {memory_beside}");
        assert!(rest < 0.1, "{rest}");
        assert!(waits[CHANGES / 2] < Duration::from_millis(100), "{waits:?}");
        assert!(works[CHANGES / 2] < 1.0, "{works:?}");
    }
}
