//! Network namespaces that a test makes for itself, with programs running in them.
//!
//! Dropping them ends the programs and removes the namespaces, also when the test fails.
//!
//! Tests run side by side, but for those that measure time: they are in modules called `timed`.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use nix::unistd::Pid;

/// The program under test.
pub const TRACKWAY: &str = env!("CARGO_BIN_EXE_trackway");

/// Time limit for an event that is sure to happen. The wait ends with the event, so the limit is generous for a busy
/// machine.
pub const SOON: Duration = Duration::from_secs(60);

/// Between pings.
const GAP: Duration = Duration::from_millis(50);
/// Octets of an ICMP echo header.
const ECHO: usize = 8;

/// A set of namespaces, empty at first.
pub struct Namespaces {
    prefix: String,
    namespaces: Vec<String>,
    programs: Vec<Program>,
}

/// A cable that a namespace of its own emulates, between its interfaces `a` and `b`.
pub struct Emulated {
    /// The namespace.
    pub(crate) air: String,
    /// The emulator.
    pub(crate) program: usize,
}

/// A program that runs in a namespace until it is stopped or dropped.
pub struct Program {
    name: String,
    child: Child,
    output: PathBuf,
}

impl Namespaces {
    /// The prefix of their names is this process's alone: other tests never meet them.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("twtest{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { prefix, namespaces: Vec::new(), programs: Vec::new() }
    }

    /// Makes a namespace with only its loopback up, and returns its full name.
    pub fn add(&mut self, name: &str) -> String {
        let name = format!("{}-{name}", self.prefix);
        run("ip", &["netns", "add", &name]);
        self.namespaces.push(name.clone());
        // Disable automatic addresses, so the namespace sends only packets the tests ask for.
        for sysctl in ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"] {
            self.try_run(&name, &format!("sysctl -qw {sysctl}"));
        }
        run("ip", &["-n", &name, "link", "set", "dev", "lo", "up"]);
        name
    }

    /// Joins two namespaces by a cable: each end is a namespace and the name of an interface.
    pub fn cable(&self, (ns_a, if_a): (&str, &str), (ns_b, if_b): (&str, &str)) {
        let end = ["peer", "name", if_b, "netns", ns_b];
        let start = ["-n", ns_a, "link", "add", "name", if_a, "type", "veth"];
        run("ip", &[&start[..], &end].concat());
        for (ns, interface) in [(ns_a, if_a), (ns_b, if_b)] {
            run("ip", &["-n", ns, "link", "set", "dev", interface, "up"]);
        }
    }

    /// Joins two namespaces by an emulated cable: each end is a namespace, the name of an
    /// interface, and its address.
    pub fn emulate(&mut self, ends: [(&str, &str, &str); 2], options: &str) -> Emulated {
        let air = self.add(&format!("air{}", self.namespaces.len()));
        for ((namespace, interface, address), inside) in ends.into_iter().zip(["a", "b"]) {
            self.cable((namespace, interface), (&air, inside));
            self.address(namespace, interface, &format!("{address}/24"));
        }
        // Neighbours that are known send no frames of their own.
        for ((namespace, interface, _), (other, others, address)) in
            [(ends[0], ends[1]), (ends[1], ends[0])]
        {
            let mac = self.run(other, &format!("cat /sys/class/net/{others}/address"));
            let neighbour = format!("{address} lladdr {} dev {interface}", mac.trim());
            self.run(namespace, &format!("ip neigh add {neighbour} nud permanent"));
        }
        let program = self.start(&air, &format!("{TRACKWAY} link a b {options}"), "joined");
        Emulated { air, program }
    }

    /// Gives an interface an address: `10.0.0.1/24`.
    pub fn address(&self, namespace: &str, interface: &str, address: &str) {
        run("ip", &["-n", namespace, "address", "add", address, "dev", interface]);
    }

    /// Runs a command to its end and returns what it printed; a failure fails the test.
    pub fn run(&self, namespace: &str, command: &str) -> String {
        let output = self.try_run(namespace, command);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {}\n{text}{complaint}", output.status);
        text
    }

    /// Runs a command to its end.
    pub fn try_run(&self, namespace: &str, command: &str) -> Output {
        in_namespace(namespace, command).output().unwrap()
    }

    /// Runs a command, given word by word, to its end.
    pub fn try_words(&self, namespace: &str, words: &[&str]) -> Output {
        self.words(namespace, words).output().unwrap()
    }

    /// A command, given word by word, to be run in a namespace.
    pub fn words(&self, namespace: &str, words: &[&str]) -> Command {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", namespace]).args(words);
        ip
    }

    /// Opens a socket, or whatever belongs to the namespace of the thread that opens it.
    pub fn within<T: Send>(&self, namespace: &str, open: impl FnOnce() -> T + Send) -> T {
        let netns = fs::File::open(format!("/run/netns/{namespace}")).unwrap();
        thread::scope(|scope| {
            let opened = scope.spawn(|| {
                setns(&netns, CloneFlags::CLONE_NEWNET).unwrap();
                open()
            });
            opened.join().unwrap()
        })
    }

    /// Pings an address with so many octets of payload, and returns the numbers of the pings that
    /// nobody has answered [`SOON`] after the last.
    ///
    /// The program `ping` cannot judge this. It ends two round trips after its last ping and counts later answers as
    /// lost, such as the answer to a packet that was lost and sent again; `-W` applies only if no ping was answered
    /// before, as with a single ping.
    pub fn unanswered(&self, from: &str, to: &str, pings: u16, len: usize) -> BTreeSet<u16> {
        let to: IpAddr = to.parse().unwrap();
        let (family, protocol, request, answer) = match to {
            IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8, 0),
            IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128, 129),
        };
        let socket = self.within(from, || {
            fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
            let flags = SockFlag::SOCK_CLOEXEC;
            UdpSocket::from(socket(family, SockType::Datagram, flags, protocol).unwrap())
        });
        socket.connect((to, 0)).unwrap();

        let mut unanswered: BTreeSet<u16> = (1..=pings).collect();
        let mut heard = vec![0; ECHO + len];
        let mut hear = |unanswered: &mut BTreeSet<u16>, until: Instant| {
            while !unanswered.is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                socket.set_read_timeout(Some(left)).unwrap();
                // Also errors: what a router says of one ping is no answer.
                if socket.recv(&mut heard).is_ok_and(|got| got == ECHO + len) && heard[0] == answer
                {
                    unanswered.remove(&u16::from_be_bytes([heard[6], heard[7]]));
                }
            }
        };
        for number in 1..=pings {
            // The kernel fills in the identifier and the checksum.
            let mut ping = vec![0; ECHO + len];
            ping[0] = request;
            ping[6..ECHO].copy_from_slice(&number.to_be_bytes());
            // What cannot be sent is not answered.
            let _ = socket.send(&ping);
            hear(&mut unanswered, Instant::now() + GAP);
        }
        hear(&mut unanswered, Instant::now() + SOON);
        unanswered
    }

    /// Starts a program that runs on; what it prints is kept for [`Program::stop`].
    ///
    /// Returns once it has printed `ready`.
    pub fn start(&mut self, namespace: &str, command: &str, ready: &str) -> usize {
        self.programs.push(Program::start(&mut in_namespace(namespace, command), command));
        let program = self.programs.len() - 1;
        self.programs[program].wait_for(ready, SOON);
        program
    }

    /// Starts a gateway. If a route of others refuses the start, removes the route by the command that the gateway names,
    /// and starts it again; returns whether that was so.
    pub fn start_gateway_despite_routes(&mut self, host: &str, command: &str) -> (usize, bool) {
        let program = self.start(host, command, "");
        let is_over = wait_until(SOON, || {
            self.printed(program).contains("gateway ready") || self.programs[program].has_ended()
        });
        let printed = self.printed(program);
        assert!(is_over, "{printed}");
        if printed.contains("gateway ready") {
            return (program, false);
        }
        let (_, rest) = printed.split_once("remove it with `").expect(&printed);
        let (remedy, _) = rest.split_once('`').expect(&printed);
        self.run(host, remedy);
        (self.start_gateway_despite_routes(host, command).0, true)
    }

    /// All output of this program so far.
    pub fn printed(&self, program: usize) -> String {
        self.programs[program].printed()
    }

    /// A program that [`Self::start`] returned the number of.
    pub fn program(&mut self, program: usize) -> &mut Program {
        &mut self.programs[program]
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.programs.clear();
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

impl Program {
    /// Starts a command, its output in a file.
    pub fn start(command: &mut Command, name: &str) -> Self {
        Self::start_with(command, name, None, None)
    }

    /// The same, with descriptors in place of its standard input and of its standard error output.
    pub fn start_with(
        command: &mut Command,
        name: &str,
        input: Option<OwnedFd>,
        error: Option<OwnedFd>,
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output = env::temp_dir().join(format!("twtest{}-{number}.out", process::id()));
        let file = fs::File::create(&output).unwrap();
        let error = error.map_or_else(|| file.try_clone().unwrap().into(), Stdio::from);
        command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stderr(error).stdout(file);
        Self { name: name.to_owned(), child: command.spawn().unwrap(), output }
    }

    /// Waits until the program has printed this text.
    pub fn wait_for(&mut self, text: &str, at_most: Duration) {
        let has_text = wait_until(at_most, || self.printed().contains(text) || self.has_ended());
        let printed = self.printed();
        assert!(has_text && printed.contains(text), "{}: no \"{text}\" in\n{printed}", self.name);
    }

    /// All output of this program so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned()
    }

    /// Whether it does not run any more.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The process id, which is also the group's id if the process leads a group.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Asks it to end, waits until it has, and returns its exit code and what it printed.
    pub fn stop(&mut self) -> (Option<i32>, String) {
        self.signal(Signal::SIGTERM);
        self.finish(SOON)
    }

    /// Waits until the program ends by itself.
    pub fn finish(&mut self, at_most: Duration) -> (Option<i32>, String) {
        let ended = wait_until(at_most, || self.has_ended());
        assert!(ended, "{} does not end:\n{}", self.name, self.printed());
        (self.child.wait().unwrap().code(), self.printed())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(Signal::SIGTERM);
            if !wait_until(Duration::from_secs(5), || self.has_ended()) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        let _ = fs::remove_file(&self.output);
    }
}

/// Whether a program is installed; if not, reports that the test is skipped.
pub fn is_installed(program: impl AsRef<Path>, package: &str) -> bool {
    let is_there = program.as_ref().exists();
    if !is_there {
        // Bypass the test harness, which shows only the output of failed tests.
        let _ = writeln!(io::stderr(), "\nskipped: {package} is not installed");
    }
    is_there
}

/// Copies the program to where others may run it. Another process does it: what this one has open for writing, children
/// that other tests start just then have open too, and the kernel runs no program that somebody may write.
pub fn copy_program(to: &Path) {
    let is_copied = Command::new("cp").arg(TRACKWAY).arg(to).status().unwrap().success();
    assert!(is_copied, "{}", to.display());
}

/// Waits for something that takes its own time; false if it has not come by then.
pub fn wait_until(at_most: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Receives, as often as the wait is interrupted: a machine that stands still for a moment interrupts waits with a limit
/// (signal(7), "Interruption of system calls").
pub fn undisturbed<T>(mut receive: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A command line without quotes, to run in a namespace (`ip` becomes the program it starts).
fn in_namespace(namespace: &str, command: &str) -> Command {
    let mut ip = Command::new("ip");
    ip.args(["netns", "exec", namespace]).args(command.split_whitespace());
    ip
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {complaint}", args.join(" "));
}
