//! The TCP splitter between two gateways over IP: one stream and small requests, through both gateways and
//! by plain routing over the same cables.
//!
//! ```text
//!   client ──── near ──── far ──── server
//!  10.1.0.2   192.0.2.1  192.0.2.2  10.2.0.2
//! ```

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use emulator::namespace;
use testbed::probe::{Iperf, median};
use testbed::{Namespaces, Sites};

use super::unit::Unit;
use super::{Case, begin, check_programs, this_program};

/// Turns of each; the medians count.
const ROUNDS: usize = 3;
const SECONDS: u32 = 5;
const REQUESTS: usize = 300;
/// Octets of a request, and of an answer.
const MESSAGE: usize = 1_000;
/// Through both gateways, one stream shall have so many bit/s.
const RATE: f64 = 2e9;
/// A request may take so many microseconds longer.
const ADDED: f64 = 2_000.0;
const PORT: u16 = 7_007;
const PATIENCE: Duration = Duration::from_secs(20);

/// The outcome of a turn: goodput in bit/s, the median time of a request in microseconds, and octets of
/// memory of the greater gateway.
struct Turn {
    goodput: f64,
    request: f64,
    memory: f64,
}

/// Measures with gateways and without, in turn.
pub fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    begin("trackway bench split")?;
    check_programs(&["iperf3", "nft"])?;
    let mut nets = Namespaces::new(this_program()?)?;
    let sites = Sites::new(&mut nets, None)?;
    sites.forward()?;
    sites.route(&nets)?;
    let (mut plain, mut split) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(turn(&mut nets, &sites, &[])?);
        let gateways = start(&mut nets, &sites)?;
        split.push(turn(&mut nets, &sites, &gateways)?);
        for gateway in gateways {
            nets.program(gateway).end();
        }
    }

    let case = |case: &str, value, unit, limit| {
        print(Case { bench: "split", case: case.to_owned(), value, unit, limit })
    };
    let of = |turns: &[Turn], field: fn(&Turn) -> f64| median(turns.iter().map(field).collect());
    let goodputs = [&plain, &split].map(|turns| of(turns, |turn| turn.goodput));
    let requests = [&plain, &split].map(|turns| of(turns, |turn| turn.request));
    case("stream plain", goodputs[0], Unit::BitsPerSecond, None)?;
    case("stream split", goodputs[1], Unit::BitsPerSecond, Some(RATE))?;
    case("stream split / plain", goodputs[1] / goodputs[0], Unit::Times, None)?;
    case("request plain", requests[0], Unit::Microseconds, None)?;
    case("request split", requests[1], Unit::Microseconds, None)?;
    case("request split / plain", requests[1] / requests[0], Unit::Times, None)?;
    case("request added", requests[1] - requests[0], Unit::Microseconds, Some(ADDED))?;
    case("memory of a gateway", of(&split, |turn| turn.memory), Unit::Octets, None)?;
    Ok(())
}

/// Starts both gateways, and waits until they know each other; returns the numbers of the programs.
fn start(nets: &mut Namespaces, sites: &Sites) -> anyhow::Result<Vec<usize>> {
    let mut programs = Vec::new();
    for (number, gateway) in sites.gateways.iter().enumerate() {
        let (own, other) = (number + 1, 2 - number);
        let config = format!(
            "[hfpep.bearer]\n\
             listen = \"192.0.2.{own}:5099\"\n\
             [[hfpep.peer]]\n\
             gateway = \"192.0.2.{other}:5099\"\n\
             to = [\"10.{other}.0.0/24\"]\n"
        );
        programs.push(nets.start_gateway(gateway, &number.to_string(), &config)?);
    }
    for gateway in &sites.gateways {
        nets.wait(PATIENCE, "the gateways do not find each other", || {
            nets.status(gateway)["hfpep"]["gateways"][0]["spare"].as_u64() > Some(0)
        })?;
    }
    Ok(programs)
}

/// Measures the running network.
fn turn(nets: &mut Namespaces, sites: &Sites, gateways: &[usize]) -> anyhow::Result<Turn> {
    let request = median(requests(sites)?);
    let transfer = Iperf {
        between: (&sites.client, &sites.server),
        address: Sites::SERVER,
        seconds: SECONDS,
        left_out: 1,
        args: &[],
    };
    let goodput = transfer.goodput(nets)?;
    let mut memory: f64 = 0.0;
    for &gateway in gateways {
        memory = memory.max(nets.program(gateway).memory("VmHWM")?);
    }
    Ok(Turn { goodput, request, memory })
}

/// How long requests take, each over a connection of its own: in microseconds.
fn requests(sites: &Sites) -> anyhow::Result<Vec<f64>> {
    let address: SocketAddr = format!("{}:{PORT}", Sites::SERVER).parse()?;
    let listener = namespace::within(&sites.server, || TcpListener::bind(address))?
        .context("cannot listen for requests")?;
    listener.set_nonblocking(true)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &is_over));
        let asked = namespace::within(&sites.client, || {
            let times = (0..REQUESTS).map(|_| ask(address).context("a request"));
            times.collect::<anyhow::Result<Vec<f64>>>()
        });
        is_over.store(true, Ordering::Relaxed);
        server.join().expect("the server does not panic").context("the server of requests")?;
        asked?
    })
}

fn ask(address: SocketAddr) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[0x5a; MESSAGE])?;
    stream.read_exact(&mut [0; MESSAGE])?;
    Ok(began.elapsed().as_secs_f64() * 1e6)
}

/// Answers clients one after another.
fn serve(listener: &TcpListener, is_over: &AtomicBool) -> io::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_micros(50));
                continue;
            }
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut message = [0; MESSAGE];
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
    Ok(())
}
