//! The tunnel on a clean cable: one TCP stream and idle pings, plain, by us, and by wireguard-go
//! where it is installed.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ::tunnel::secure::PrivateKey;
use anyhow::{Context as _, ensure};
use gateway::keys::System;
use testbed::Pair;
use testbed::probe::median;

use super::gateways::{self, Gateway};
use super::unit::Unit;
use super::{Case, begin, changes, this_program};

/// Turns of each; the medians count.
const ROUNDS: usize = 3;
const SECONDS: u32 = 9;
const PINGS: u32 = 300;
/// A ping may take this much longer, in microseconds.
const PING_LIMIT: f64 = 300.0;
/// The goal: so many times what wireguard-go carries.
const GAIN: f64 = 2.0;
/// Reads one figure from a turn.
type Figure = fn(&Turn) -> f64;
/// The figures of a stream that are compared with wireguard-go, with their units.
const CARRIED: [(&str, Unit, Figure); 2] = [
    ("tcp", Unit::BitsPerSecond, |turn| turn.goodput),
    ("tcp per CPU", Unit::BitsPerCpuSecond, |turn| turn.bits_per_cpu),
];
const READY_WITHIN: Duration = Duration::from_secs(20);
const PLAIN: &str = "10.9.0.2";
/// Addresses in the tunnels of us and of wireguard-go; the last octet is the end's number.
const INSIDE: [&str; 2] = ["10.77.0.", "10.88.0."];

/// The outcome of a turn: goodput in bit/s, the bits carried for each second of CPU of both ends, the median ping in
/// microseconds, octets of memory of the greater of both ends.
#[derive(Clone, Copy)]
struct Turn {
    goodput: f64,
    bits_per_cpu: f64,
    ping: f64,
    memory: f64,
}

/// Measures us, and wireguard-go in turn.
pub fn run(
    wireguard_go: Option<&Path>,
    print: impl Fn(Case) -> io::Result<()>,
) -> anyhow::Result<()> {
    begin("trackway bench tunnel")?;
    let wireguard_go = match wireguard_go {
        Some(path) => {
            ensure!(path.is_file(), "there is no {}", path.display());
            Some(path.to_owned())
        }
        None => find("wireguard-go"),
    };
    let mut pair = Pair::new(this_program()?)?;
    let (mut plain, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(median(pair.ping(PLAIN, PINGS)?));
        ours.push(our_turn(&mut pair)?);
        if let Some(program) = &wireguard_go {
            theirs.push(their_turn(&mut pair, program)?);
        }
    }

    let bench = "tunnel";
    let case = |case: &str, value, unit, limit| {
        print(Case { bench, case: case.to_owned(), value, unit, limit })
    };
    let of = |turns: &[Turn], field: Figure| median(turns.iter().map(field).collect());
    let plain = median(plain);
    let has_theirs = !theirs.is_empty();
    let theirs_times = |field: Figure| has_theirs.then(|| GAIN * of(&theirs, field));
    for (what, unit, field) in CARRIED {
        case(&format!("{what} ours"), of(&ours, field), unit, theirs_times(field))?;
    }
    case("ping plain", plain, Unit::Microseconds, None)?;
    case(
        "ping ours added",
        of(&ours, |turn| turn.ping) - plain,
        Unit::Microseconds,
        Some(PING_LIMIT),
    )?;
    case("memory ours", of(&ours, |turn| turn.memory), Unit::Octets, None)?;
    if has_theirs {
        for (what, unit, field) in CARRIED {
            case(&format!("{what} wireguard-go"), of(&theirs, field), unit, None)?;
        }
        case(
            "ping wireguard-go added",
            of(&theirs, |turn| turn.ping) - plain,
            Unit::Microseconds,
            None,
        )?;
        case("memory wireguard-go", of(&theirs, |turn| turn.memory), Unit::Octets, None)?;
    }
    Ok(())
}

/// Measures the cost of watching changed routes.
pub fn run_beside_changes(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    begin("trackway bench tunnel --changes")?;
    let mut pair = Pair::new(this_program()?)?;
    let programs = start(&mut pair)?;
    let address = format!("{}2", INSIDE[0]);
    pair.nets.wait_for_ping(&pair.ends[0], &address, READY_WITHIN)?;
    changes::run("tunnel", &mut pair, &address, &programs, print)
}

fn our_turn(pair: &mut Pair) -> anyhow::Result<Turn> {
    let programs = start(pair)?;
    turn(pair, INSIDE[0], &programs)
}

/// Starts our gateways at both ends.
fn start(pair: &mut Pair) -> anyhow::Result<[usize; 2]> {
    let [a, b] =
        ["1", "2"].map(|number| (format!("10.9.0.{number}"), INSIDE[0].to_owned() + number));
    let [near, far] = pair.ends.clone();
    let gateway =
        |namespace, (outside, inside)| Gateway { namespace, outside, inside, behind: None };
    gateways::start(&mut pair.nets, &[gateway(near, a), gateway(far, b)])
}

fn their_turn(pair: &mut Pair, program: &Path) -> anyhow::Result<Turn> {
    let keys = [PrivateKey::generate(&mut System)?, PrivateKey::generate(&mut System)?];
    let program = program.to_string_lossy().into_owned();
    let mut programs = Vec::new();
    for (end, number) in [(0, 1), (1, 2)] {
        let other = 3 - number;
        // Their control sockets have no namespaces.
        let device = format!("twb{}-{number}", std::process::id());
        let namespace = pair.ends[end].clone();
        programs.push(pair.nets.start(&namespace, &format!("{program} -f {device}"), "")?);
        let mut control = connect(&device)?;
        write!(
            control,
            "set=1\nprivate_key={}\nlisten_port=51901\npublic_key={}\n\
             endpoint=10.9.0.{other}:51901\nallowed_ip={inside}{other}/32\n\n",
            hexadecimal(&keys[end].to_base64()),
            hexadecimal(&keys[1 - end].public_key().to_string()),
            inside = INSIDE[1],
        )?;
        let mut answer = [0; 64];
        let len = control.read(&mut answer)?;
        ensure!(answer[..len].starts_with(b"errno=0"), "wireguard-go refuses its configuration");
        let address = format!("{}{number}/24", INSIDE[1]);
        pair.nets.address(&namespace, &device, &address)?;
        pair.nets.run(&namespace, &format!("ip link set dev {device} mtu 1420 up"))?;
    }
    turn(pair, INSIDE[1], &programs)
}

/// Measures the running programs, and ends them.
fn turn(pair: &mut Pair, inside: &str, programs: &[usize]) -> anyhow::Result<Turn> {
    let address = format!("{inside}2");
    pair.nets.wait_for_ping(&pair.ends[0], &address, READY_WITHIN)?;
    let ping = median(pair.ping(&address, PINGS)?);
    let cpu = |pair: &mut Pair| -> anyhow::Result<f64> {
        programs.iter().map(|&program| pair.nets.program(program).cpu()).sum()
    };
    let before = cpu(pair)?;
    let goodput = pair.goodput(&address, SECONDS, &[])?;
    // The second that iperf3 leaves out carries as much.
    let bits_per_cpu = goodput * f64::from(SECONDS + 1) / (cpu(pair)? - before);
    let mut memory: f64 = 0.0;
    for &program in programs {
        memory = memory.max(pair.nets.program(program).memory("VmHWM")?);
    }
    for &program in programs {
        pair.nets.program(program).end();
    }
    Ok(Turn { goodput, bits_per_cpu, ping, memory })
}

fn connect(device: &str) -> anyhow::Result<UnixStream> {
    let path = format!("/var/run/wireguard/{device}.sock");
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        match UnixStream::connect(&path) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("wireguard-go does not answer");
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?;
    (!path.trim().is_empty()).then(|| PathBuf::from(path.trim()))
}

/// A key in base64 as wireguard-go wants it.
fn hexadecimal(base64: &str) -> String {
    let (mut bits, mut held, mut text) = (0_u32, 0, String::new());
    for letter in base64.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            text += &format!("{:02x}", bits >> held & 0xff);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_in_hexadecimal() {
        assert_eq!(hexadecimal("AAECAwQ="), "0001020304");
    }
}
