//! Reliable messages between two gateways in namespaces, from one program to another; beside plain UDP, and with
//! many messages that wait.

use std::fs;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use emulator::namespace;
use serde_json::{Value, json};

use super::Case;
use super::namespaces::{Namespaces, check_root, this_program};

/// Octets of a message.
const OCTETS: usize = 500;
/// Messages in a round, and as datagrams of plain UDP.
const MESSAGES: usize = 50_000;
/// Messages handed in by the program and still without an outcome.
const WINDOW: usize = 1_024;
/// Turns of each.
const ROUNDS: usize = 3;
/// Messages waiting for a dead destination.
const WAITING: usize = 100_000;
/// To be reached.
const GOAL: f64 = 10_000.0;
const MEMORY: f64 = 200e6;
const READY_WITHIN: Duration = Duration::from_secs(20);
const ADDRESS: &str = "10.9.0.2";
const PORT: u16 = 5_000;
/// Limits higher than usual for programs' messages; the protocol keeps its defaults.
const CONFIG: &str = "waiting = 200000\ninbox = 100000\nwindow = 10000\noutcomes = 10000\n";

/// Measures messages a second, also for each second of CPU, and what waiting messages take of memory.
pub fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    check_root("trackway bench sar")?;
    let mut pair = Namespaces::pair()?;
    pair.wait_for_ping(ADDRESS, READY_WITHIN)?;
    let gateways = [Gateway::start(&mut pair, 0)?, Gateway::start(&mut pair, 1)?];
    let (mut messages, mut echoes) = (Vec::new(), Vec::new());
    let mut cpu = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        echoes.push(echo(&pair)?);
        let before = [gateways[0].cpu()?, gateways[1].cpu()?];
        messages.push(transfer(&gateways)?);
        for (end, cpu) in cpu.iter_mut().enumerate() {
            cpu.push(MESSAGES as f64 / (gateways[end].cpu()? - before[end]));
        }
        pair.check_interrupted()?;
    }
    let [messages, echo] = [messages, echoes].map(|it| median(&it));
    let [sender, receiver] = cpu.map(|it| median(&it));
    let case = |case: &str, value, unit, limit| {
        print(Case { bench: "sar", case: case.to_owned(), value, unit, limit })
    };
    case("messages", messages, "/s", Some(GOAL))?;
    case("sender, of a core", sender, "/s", Some(GOAL))?;
    case("receiver, of a core", receiver, "/s", Some(GOAL))?;
    case("udp and its answer", echo, "/s", None)?;
    case("messages, to udp", messages, "/s", Some(echo))?;

    wait(&gateways[0])?;
    case("100,000 waiting", gateways[0].memory()?, "octets", Some(MEMORY))?;
    for gateway in gateways {
        pair.end(gateway.program);
    }
    Ok(())
}

/// A gateway that runs.
struct Gateway {
    program: usize,
    pid: u32,
    socket: PathBuf,
}

impl Gateway {
    fn start(pair: &mut Namespaces, end: usize) -> anyhow::Result<Self> {
        let socket = pair.folder.join(format!("{end}.run/sar.sock"));
        let store = pair.folder.join(format!("{end}.store"));
        let file = pair.folder.join(format!("{end}.toml"));
        fs::write(
            &file,
            format!("log = \"warn\"\n[sar]\nsocket = {socket:?}\nstore = {store:?}\n{CONFIG}"),
        )?;
        let name = pair.names[end].clone();
        let file = file.to_string_lossy().into_owned();
        let command = ["netns", "exec", &name, &this_program()?, "run", &file];
        let program = pair.start(&command, Stdio::null())?;
        let deadline = Instant::now() + READY_WITHIN;
        while UnixStream::connect(&socket).is_err() {
            pair.check_interrupted()?;
            ensure!(Instant::now() < deadline, "the gateway does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { program, pid: pair.pid(program), socket })
    }

    /// Seconds of CPU so far.
    fn cpu(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name may have spaces; user and system time are fields 14 and 15.
        let (_, rest) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
    }

    /// Octets of memory that the gateway uses.
    fn memory(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("no VmRSS")? * 1024.0)
    }
}

/// Sends a round from one program to another; messages a second.
fn transfer(gateways: &[Gateway; 2]) -> anyhow::Result<f64> {
    let began = Instant::now();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&gateways[1].socket));
        let sent = send(&gateways[0].socket, ADDRESS, MESSAGES, true);
        sent.and(receiver.join().unwrap_or_else(|_| bail!("the receiver failed")))
    })?;
    Ok(MESSAGES as f64 / began.elapsed().as_secs_f64())
}

fn receive(socket: &Path) -> anyhow::Result<()> {
    let (mut input, mut output) = connect(socket)?;
    writeln!(output, "{}", json!({"do": "receive", "port": PORT}))?;
    output.flush()?;
    for left in (0..MESSAGES).rev() {
        let answer = answer(&mut input)?;
        writeln!(output, "{{\"do\":\"taken\",\"number\":{}}}", answer["number"])?;
        if input.buffer().is_empty() || left == 0 {
            output.flush()?;
        }
    }
    Ok(())
}

/// Hands messages in, and waits for their outcomes, or only until they are accepted.
fn send(socket: &Path, to: &str, count: usize, waits: bool) -> anyhow::Result<()> {
    let (mut input, mut output) = connect(socket)?;
    let line = json!({"do": "send", "to": [to], "port": PORT, "octets": OCTETS}).to_string() + "\n";
    let octets = [b'x'; OCTETS];
    let (mut asked, mut done) = (0, 0);
    while done < count {
        while asked < count && asked - done < WINDOW {
            output.write_all(line.as_bytes())?;
            output.write_all(&octets)?;
            asked += 1;
        }
        output.flush()?;
        loop {
            let answer = answer(&mut input)?;
            match answer["is"].as_str() {
                Some("accepted") => done += usize::from(!waits),
                Some("outcome") if waits => {
                    ensure!(answer["outcome"] == "delivered", "{answer}");
                    done += 1;
                }
                Some("outcome") => {}
                _ => bail!("{answer}"),
            }
            if input.buffer().is_empty() || done == count {
                break;
            }
        }
    }
    Ok(())
}

type Ends = (BufReader<UnixStream>, BufWriter<UnixStream>);

fn connect(socket: &Path) -> anyhow::Result<Ends> {
    let stream = UnixStream::connect(socket).context("the gateway does not listen")?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok((BufReader::with_capacity(1 << 16, stream.try_clone()?), BufWriter::new(stream)))
}

fn answer(input: &mut BufReader<UnixStream>) -> anyhow::Result<Value> {
    let mut line = String::new();
    ensure!(input.read_line(&mut line)? > 0, "the gateway has ended the connection");
    let answer: Value = serde_json::from_str(&line)?;
    let octets = answer["octets"].as_u64().unwrap_or_default();
    io::copy(&mut input.by_ref().take(octets), &mut io::sink())?;
    Ok(answer)
}

/// Messages for a destination that is not there.
fn wait(gateway: &Gateway) -> anyhow::Result<()> {
    send(&gateway.socket, "10.9.0.9", WAITING, false)
}

/// The octets of messages as datagrams and answers of eight octets, some under way at a time: a second's.
fn echo(pair: &Namespaces) -> anyhow::Result<f64> {
    let open = |end: usize, at: &str| {
        namespace::within(&pair.names[end], || UdpSocket::bind(at))?.context("a UDP socket")
    };
    let (near, far) = (open(0, "10.9.0.1:0")?, open(1, "10.9.0.2:7")?);
    near.connect("10.9.0.2:7")?;
    near.set_read_timeout(Some(Duration::from_secs(5)))?;
    far.set_read_timeout(Some(Duration::from_secs(5)))?;
    let began = Instant::now();
    thread::scope(|scope| {
        let answering = scope.spawn(|| -> io::Result<()> {
            let mut datagram = [0; OCTETS + 12];
            for _ in 0..MESSAGES {
                let (_, from) = far.recv_from(&mut datagram)?;
                far.send_to(&datagram[..8], from)?;
            }
            Ok(())
        });
        let asking = || -> io::Result<()> {
            let datagram = [0; OCTETS + 12];
            let (mut sent, mut got) = (0, 0);
            while got < MESSAGES {
                while sent < MESSAGES && sent - got < 64 {
                    near.send(&datagram)?;
                    sent += 1;
                }
                near.recv(&mut [0; 8])?;
                got += 1;
            }
            Ok(())
        };
        asking().context("plain UDP")?;
        answering.join().map_or_else(|_| bail!("plain UDP failed"), |it| it.context("plain UDP"))
    })?;
    Ok(MESSAGES as f64 / began.elapsed().as_secs_f64())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
