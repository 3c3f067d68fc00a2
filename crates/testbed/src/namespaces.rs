//! Network namespaces that a run makes for itself: joined by cables and emulated links, with programs in them.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::{Context as _, ensure};
use gateway::keys::{self, System};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use serde_json::Value;
use tunnel::secure::PrivateKey;

use crate::give_back::{changing, remove_namespace};
use crate::{Program, SOON};

/// How the names of namespaces and temporary files begin; the number of our process follows.
pub const PREFIX: &str = "twtest";
/// The time between pings.
const GAP: Duration = Duration::from_millis(50);
/// Octets of an ICMP echo header.
const ECHO: usize = 8;

/// A set of namespaces, empty at first. Dropping it ends the programs and removes namespaces and files.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
    /// The path of the program `trackway`.
    trackway: String,
    names: Vec<String>,
    folder: PathBuf,
    programs: Vec<Program>,
}

/// An emulated cable between the interfaces `a` and `b` of a separate namespace.
#[derive(Clone, Debug)]
pub struct Emulated {
    /// The namespace.
    pub air: String,
    /// The emulator.
    pub program: usize,
}

impl Namespaces {
    /// An empty set with a folder for its files; `trackway` is the program that runs as gateway and emulator.
    ///
    /// Names have this process's prefix, so that other runs never use the same names.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(trackway: impl Into<String>) -> anyhow::Result<Self> {
        let _changing = changing();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{PREFIX}{}-{number}", process::id());
        let folder = env::temp_dir().join(&prefix);
        fs::create_dir(&folder).context("cannot make a folder for temporary files")?;
        let trackway = trackway.into();
        Ok(Self { prefix, trackway, names: Vec::new(), folder, programs: Vec::new() })
    }

    /// The folder for the set's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of the program `trackway`.
    #[must_use]
    pub fn trackway(&self) -> &str {
        &self.trackway
    }

    /// Takes another program as gateway and emulator from now on.
    pub fn set_trackway(&mut self, trackway: impl Into<String>) {
        self.trackway = trackway.into();
    }

    /// Makes a namespace with only its loopback up, and without IPv6; returns its full name.
    ///
    /// # Errors
    /// When we are not root, or `ip` is missing.
    pub fn add(&mut self, name: &str) -> anyhow::Result<String> {
        let name = format!("{}-{name}", self.prefix);
        {
            let _changing = changing();
            self.ip(&["netns", "add", &name])?;
        }
        self.names.push(name.clone());
        // Without automatic addresses, a namespace sends no packets of its own accord.
        self.enable_v6(&name, false)?;
        self.ip(&["-n", &name, "link", "set", "dev", "lo", "up"])?;
        Ok(name)
    }

    /// Switches IPv6 on or off for the present and future interfaces of a namespace.
    ///
    /// # Errors
    /// When we are not root.
    pub fn enable_v6(&self, namespace: &str, is_enabled: bool) -> anyhow::Result<()> {
        let value = if is_enabled { "0" } else { "1" };
        emulator::namespace::within(namespace, || {
            ["all", "default"].iter().try_for_each(|which| {
                fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), value)
            })
        })?
        .context("cannot change settings of a namespace")
    }

    /// Joins two namespaces by a cable: each end is a namespace and the name of an interface.
    ///
    /// # Errors
    /// When an interface with such a name exists.
    pub fn cable(
        &self,
        (ns_a, if_a): (&str, &str),
        (ns_b, if_b): (&str, &str),
    ) -> anyhow::Result<()> {
        let end = ["type", "veth", "peer", "name", if_b, "netns", ns_b];
        self.ip(&[&["-n", ns_a, "link", "add", "name", if_a], &end[..]].concat())?;
        for (ns, interface) in [(ns_a, if_a), (ns_b, if_b)] {
            self.ip(&["-n", ns, "link", "set", "dev", interface, "up"])?;
        }
        Ok(())
    }

    /// Joins two namespaces by an emulated cable: each end is a namespace, the name of an interface, and its address;
    /// `options` go to `trackway link`.
    ///
    /// # Errors
    /// As [`Self::cable`] and [`Self::start`].
    pub fn emulate(
        &mut self,
        ends: [(&str, &str, &str); 2],
        options: &str,
    ) -> anyhow::Result<Emulated> {
        let air = self.add(&format!("air{}", self.names.len()))?;
        for ((namespace, interface, address), inside) in ends.into_iter().zip(["a", "b"]) {
            self.cable((namespace, interface), (&air, inside))?;
            self.address(namespace, interface, &format!("{address}/24"))?;
        }
        // Known neighbours are not asked for by frames.
        for ((namespace, interface, _), (other, others, address)) in
            [(ends[0], ends[1]), (ends[1], ends[0])]
        {
            let mac = self.run(other, &format!("cat /sys/class/net/{others}/address"))?;
            let neighbour = format!("{address} lladdr {} dev {interface}", mac.trim());
            self.run(namespace, &format!("ip neigh add {neighbour} nud permanent"))?;
        }
        let program =
            self.start(&air, &format!("{} link a b {options}", self.trackway), "joined")?;
        Ok(Emulated { air, program })
    }

    /// Gives an interface an address such as `10.0.0.1/24`. An IPv6 address is usable at once.
    ///
    /// # Errors
    /// When the interface does not exist.
    pub fn address(&self, namespace: &str, interface: &str, address: &str) -> anyhow::Result<()> {
        let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        let add = ["-n", namespace, "address", "add", address, "dev", interface];
        self.ip(&[&add[..], nodad].concat())
    }

    /// Runs a command to its end and returns the output.
    ///
    /// # Errors
    /// When the command fails, with its complaint.
    pub fn run(&self, namespace: &str, command: &str) -> anyhow::Result<String> {
        completed(command, self.try_run(namespace, command))
    }

    /// Runs a command to its end, and returns the output and the exit status.
    ///
    /// # Errors
    /// When `ip` is missing.
    pub fn try_run(&self, namespace: &str, command: &str) -> io::Result<Output> {
        self.words(namespace, &command.split_whitespace().collect::<Vec<_>>()).output()
    }

    /// A command, given word by word, to be run in a namespace (`ip` becomes the program it starts).
    #[must_use]
    pub fn words(&self, namespace: &str, words: &[&str]) -> Command {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", namespace]).args(words).stdin(Stdio::null());
        ip
    }

    /// Starts a program that runs on; returns its number once it has printed `ready`.
    ///
    /// # Errors
    /// When the program ends without, or takes too long.
    pub fn start(&mut self, namespace: &str, command: &str, ready: &str) -> anyhow::Result<usize> {
        let words: Vec<_> = command.split_whitespace().collect();
        let program = Program::start(&mut self.words(namespace, &words), command)?;
        self.programs.push(program);
        let program = self.programs.len() - 1;
        let deadline = Instant::now() + SOON;
        while !self.printed(program).contains(ready) {
            let is_over = self.programs[program].has_ended() || Instant::now() > deadline;
            let printed = self.printed(program);
            ensure!(!is_over || printed.contains(ready), "{command}: no \"{ready}\" in\n{printed}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(program)
    }

    /// Starts the gateway of a namespace with a configuration, kept in [`Self::folder`] as `name.toml`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_gateway(
        &mut self,
        namespace: &str,
        name: &str,
        config: &str,
    ) -> anyhow::Result<usize> {
        let file = self.folder.join(format!("{name}.toml"));
        fs::write(&file, config)?;
        self.run_gateway(namespace, &file)
    }

    /// Starts the gateway of a namespace with this file.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn run_gateway(&mut self, namespace: &str, file: &Path) -> anyhow::Result<usize> {
        let command = format!("{} run {}", self.trackway, file.display());
        self.start(namespace, &command, "gateway ready")
    }

    /// The status of a namespace's gateway, as `trackway status --json` prints it; null if none answers.
    ///
    /// Asks the control socket directly, without starting a program, because waits ask often.
    #[must_use]
    pub fn status(&self, namespace: &str) -> Value {
        let number = fs::metadata(format!("/run/netns/{namespace}")).map_or(0, |it| it.ino());
        let socket = PathBuf::from(format!("/run/trackway/{number}/control.sock"));
        let answer = gateway::ask_status(Some(&socket)).unwrap_or_default();
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// A counter of a namespace's gateway; 0 if none answers.
    #[must_use]
    pub fn count(&self, namespace: &str, counter: &str) -> u64 {
        self.status(namespace)[counter].as_u64().unwrap_or_default()
    }

    /// Makes a key for one end of a tunnel in [`Self::folder`], replacing an earlier key; returns the file and the
    /// public key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn make_key(&self, name: &str) -> anyhow::Result<(PathBuf, String)> {
        let key = PrivateKey::generate(&mut System)?;
        let file = self.folder.join(name);
        let _ = fs::remove_file(&file);
        keys::write_new(&file, &key.to_base64())?;
        Ok((file, key.public_key().to_string()))
    }

    /// Standard output and standard error output of a program so far.
    #[must_use]
    pub fn printed(&self, program: usize) -> String {
        self.programs[program].printed()
    }

    /// The program with a number returned by [`Self::start`].
    pub fn program(&mut self, program: usize) -> &mut Program {
        &mut self.programs[program]
    }

    /// Waits until a condition holds.
    ///
    /// # Errors
    /// When the limit is over first, with `what` as the reason.
    pub fn wait(
        &self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        while !holds() {
            ensure!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until pings from a namespace to an address are answered.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_for_ping(&self, from: &str, to: &str, limit: Duration) -> anyhow::Result<()> {
        let ping = format!("ping -c 1 -W 1 {to}");
        self.wait(limit, &format!("nothing comes through to {to}"), || {
            self.try_run(from, &ping).is_ok_and(|it| it.status.success())
        })
    }

    /// Pings an address with so many octets of payload, and returns the numbers of the pings that nobody has answered
    /// [`SOON`] after the last.
    ///
    /// The program `ping` cannot judge this. It ends two round trips after its last ping and counts later answers as
    /// lost, such as the answer to a packet that was lost and sent again; `-W` applies only if no ping was answered
    /// before, as with a single ping.
    ///
    /// # Errors
    /// When the namespace has no way to the address.
    pub fn unanswered(
        &self,
        from: &str,
        to: &str,
        pings: u16,
        len: usize,
    ) -> anyhow::Result<BTreeSet<u16>> {
        let to: IpAddr = to.parse()?;
        let (family, protocol, request, answer) = match to {
            IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8, 0),
            IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128, 129),
        };
        let socket = emulator::namespace::within(from, || -> io::Result<_> {
            fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")?;
            let flags = SockFlag::SOCK_CLOEXEC;
            Ok(UdpSocket::from(socket(family, SockType::Datagram, flags, protocol)?))
        })??;
        socket.connect((to, 0))?;

        let mut unanswered: BTreeSet<u16> = (1..=pings).collect();
        let mut heard = vec![0; ECHO + len];
        let mut hear = |unanswered: &mut BTreeSet<u16>, until: Instant| -> io::Result<()> {
            while !unanswered.is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                socket.set_read_timeout(Some(left))?;
                // Errors are skipped too: a router's error about one ping is no answer.
                if socket.recv(&mut heard).is_ok_and(|got| got == ECHO + len) && heard[0] == answer
                {
                    unanswered.remove(&u16::from_be_bytes([heard[6], heard[7]]));
                }
            }
            Ok(())
        };
        for number in 1..=pings {
            // The kernel fills in the identifier and the checksum.
            let mut ping = vec![0; ECHO + len];
            ping[0] = request;
            ping[6..ECHO].copy_from_slice(&number.to_be_bytes());
            // What cannot be sent is not answered.
            let _ = socket.send(&ping);
            hear(&mut unanswered, Instant::now() + GAP)?;
        }
        hear(&mut unanswered, Instant::now() + SOON)?;
        Ok(unanswered)
    }

    fn ip(&self, args: &[&str]) -> anyhow::Result<()> {
        let output = Command::new("ip").args(args).stdin(Stdio::null()).output();
        completed(&format!("ip {}", args.join(" ")), output).map(drop)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _changing = changing();
        self.programs.clear();
        for name in &self.names {
            remove_namespace(name);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The output of a successful command.
fn completed(command: &str, output: io::Result<Output>) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!("`{command}`: apt install iproute2"),
        _ => error.into(),
    })?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let complaint = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "`{command}`: {status}\n{text}{}", complaint.trim());
    Ok(text)
}
