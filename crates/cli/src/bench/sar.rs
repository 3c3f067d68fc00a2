//! Measures reliable messages between two gateways in namespaces, from one program to another: beside plain UDP,
//! and with many waiting messages.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use emulator::namespace;
use serde_json::{Value, json};
use testbed::Pair;
use testbed::probe::median;

use super::unit::Unit;
use super::{Case, begin, this_program};

/// Octets of a message.
const OCTETS: usize = 500;
/// Messages in a round, and as datagrams of plain UDP.
const MESSAGES: usize = 50_000;
/// Messages handed in by the program and still without an outcome.
const WINDOW: usize = 1_024;
/// Turns of messages and plain UDP.
const ROUNDS: usize = 3;
/// Messages waiting for a dead destination.
const WAITING: usize = 100_000;
/// The goal in messages a second.
const GOAL: f64 = 10_000.0;
const MEMORY: f64 = 200e6;
const READY_WITHIN: Duration = Duration::from_secs(20);
const ADDRESS: &str = "10.9.0.2";
const PORT: u16 = 5_000;
/// Limits higher than usual for programs' messages; the protocol keeps its defaults.
const CONFIG: &str = "waiting = 200000\ninbox = 100000\nwindow = 10000\noutcomes = 10000\n";

/// Measures messages a second, also for each second of CPU, and the memory of waiting messages.
pub fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    begin("trackway bench sar")?;
    let mut pair = Pair::new(this_program()?)?;
    pair.nets.wait_for_ping(&pair.ends[0], ADDRESS, READY_WITHIN)?;
    let gateways = [start(&mut pair, 0)?, start(&mut pair, 1)?];
    let sockets = [0, 1].map(|end| socket(&pair, end));
    let (mut messages, mut echoes) = (Vec::new(), Vec::new());
    let mut cpu = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        echoes.push(echo(&pair)?);
        let mut used = |end: usize| pair.nets.program(gateways[end]).cpu();
        let before = [used(0)?, used(1)?];
        messages.push(transfer(&sockets)?);
        for (end, cpu) in cpu.iter_mut().enumerate() {
            cpu.push(MESSAGES as f64 / (used(end)? - before[end]));
        }
    }
    let [messages, echo] = [messages, echoes].map(median);
    let [sender, receiver] = cpu.map(median);
    let case = |case: &str, value, unit, limit| {
        print(Case { bench: "sar", case: case.to_owned(), value, unit, limit })
    };
    case("messages", messages, Unit::PerSecond, Some(GOAL))?;
    case("sender, of a core", sender, Unit::PerSecond, Some(GOAL))?;
    case("receiver, of a core", receiver, Unit::PerSecond, Some(GOAL))?;
    case("udp and its answer", echo, Unit::PerSecond, None)?;
    case("messages, to udp", messages, Unit::PerSecond, Some(echo))?;

    // Messages for a missing destination.
    send(&sockets[0], "10.9.0.9", WAITING, false)?;
    let memory = pair.nets.program(gateways[0]).memory("VmRSS")?;
    case("100,000 waiting", memory, Unit::Octets, Some(MEMORY))?;
    Ok(())
}

/// Starts the gateway of one end, and returns the number of the program.
fn start(pair: &mut Pair, end: usize) -> anyhow::Result<usize> {
    let (socket, store) = (socket(pair, end), pair.nets.folder().join(format!("{end}.store")));
    let config = format!("[sar]\nsocket = {socket:?}\nstore = {store:?}\n{CONFIG}");
    pair.nets.start_gateway(&pair.ends[end], &end.to_string(), &config)
}

/// The path of a gateway's socket for programs.
fn socket(pair: &Pair, end: usize) -> PathBuf {
    pair.nets.folder().join(format!("{end}.run/sar.sock"))
}

/// Sends a round from one program to another; returns messages a second.
fn transfer(sockets: &[PathBuf; 2]) -> anyhow::Result<f64> {
    let began = Instant::now();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&sockets[1]));
        let sent = send(&sockets[0], ADDRESS, MESSAGES, true);
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

/// Sends the octets of messages as datagrams, some in flight at a time, with answers of eight octets; returns
/// messages a second.
fn echo(pair: &Pair) -> anyhow::Result<f64> {
    let open = |end: usize, at: &str| {
        namespace::within(&pair.ends[end], || UdpSocket::bind(at))?.context("a UDP socket")
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
