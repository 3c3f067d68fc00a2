//! TCP over STANAG 5066 where no radio limits it: two gateways whose nodes' interfaces are joined
//! without modems.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use emulator::namespace::within;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use testbed::Pair;
use testbed::probe::hub::{Hub, NODES};
use testbed::probe::{interface, sessions};

use super::unit::Unit;
use super::{Case, begin, check_programs, this_program};

/// Connections that are open at a time.
const SESSIONS: usize = 10_000;
/// The most octets of memory for a gateway with all these connections.
const MEMORY: f64 = 1_073_741_824.0;
/// The required bit/s of U_PDUs between a client and its node.
const INTERFACE: f64 = 3e8;
/// Descriptors of each program: one for each connection, and some.
const DESCRIPTORS: u64 = 10_500;
const SECONDS: u32 = 9;
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Where the nodes listen, in the first namespace.
const NODE_PORTS: [u16; 2] = [5_066, 5_067];
const NEAR: &str = "10.9.0.1";
const FAR: &str = "10.9.0.2";
/// Ports of the near gateway, each with the port at the far end.
const TRANSFER: (u16, u16) = (7_001, 5_201);
const HELD: (u16, u16) = (7_002, 7_002);

/// TCP over STANAG 5066 where no radio limits it; needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sudo trackway bench hfpep")]
pub struct Options {
    /// Be the target of many connections, and listen there.
    #[arg(long, hide = true)]
    answer: Option<SocketAddr>,
}

/// Measures the interface, one connection, and many.
pub fn run(options: &Options, print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    take_descriptors()?;
    if let Some(at) = options.answer {
        return Ok(sessions::answer(at)?);
    }
    begin("trackway bench hfpep")?;
    check_programs(&["ip", "iperf3"])?;
    let mut pair = Pair::new(this_program()?)?;
    let nodes: [SocketAddr; 2] = [
        format!("{NEAR}:{}", NODE_PORTS[0]).parse()?,
        format!("{NEAR}:{}", NODE_PORTS[1]).parse()?,
    ];
    let stop = AtomicBool::new(false);
    let mut hub = within(&pair.ends[0], || Hub::bind(nodes))?.context("the nodes do not listen")?;
    thread::scope(|scope| {
        let joined = scope.spawn(|| hub.run(&stop));
        let measured = measure(&mut pair, nodes, &print);
        stop.store(true, Ordering::Relaxed);
        joined.join().map_err(|_| anyhow!("the nodes panicked"))??;
        measured
    })
}

fn measure(
    pair: &mut Pair,
    nodes: [SocketAddr; 2],
    print: &impl Fn(Case) -> io::Result<()>,
) -> anyhow::Result<()> {
    let bench = "hfpep";
    let case = |case: &str, value, unit, limit| {
        print(Case { bench, case: case.to_owned(), value, unit, limit })
    };
    let octets = within(&pair.ends[0], || interface::measure(nodes))??;
    case("interface alone", octets * 8.0, Unit::BitsPerSecond, Some(INTERFACE))?;

    let gateways = start(pair)?;
    let goodput = pair.goodput(NEAR, SECONDS, &["-p", &TRANSFER.0.to_string()])?;
    case("tcp by hf-pep", goodput, Unit::BitsPerSecond, Some(octets * 8.0))?;

    let entrance: SocketAddr = format!("{NEAR}:{}", HELD.0).parse()?;
    let (streams, took) = within(&pair.ends[0], || sessions::open(entrance, SESSIONS))??;
    case("connections", streams.len() as f64 / took.as_secs_f64(), Unit::PerSecond, None)?;
    for (name, gateway) in ["near", "far"].iter().zip(gateways) {
        case(
            &format!("memory {name}"),
            pair.nets.program(gateway).memory("VmHWM")?,
            Unit::Octets,
            Some(MEMORY),
        )?;
    }
    Ok(())
}

/// Raises the limit of open descriptors to its maximum.
fn take_descriptors() -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    ensure!(
        hard >= DESCRIPTORS,
        "{DESCRIPTORS} descriptors are needed, {hard} are allowed: see `ulimit -Hn`"
    );
    Ok(())
}

/// Starts both gateways, and the target of connections; returns the numbers of the gateways.
fn start(pair: &mut Pair) -> anyhow::Result<[usize; 2]> {
    let mut programs = [0; 2];
    for end in 0..2 {
        let mut config = format!(
            "[hfpep]\nserver = \"{NEAR}:{}\"\nmode = \"{}\"\n",
            NODE_PORTS[end],
            if end == 0 { "transparent" } else { "shore" },
        );
        if end == 0 {
            for (at, target) in [TRANSFER, HELD] {
                config += &format!(
                    "[[hfpep.listen]]\nat = \"{NEAR}:{at}\"\nnode = \"{}\"\ntarget = \"{FAR}:{target}\"\n",
                    NODES[1]
                );
            }
            // With compression, the test's octets would shrink to nothing.
            config += "[[rule]]\nname = \"all\"\ncompression = false\n";
        }
        programs[end] = pair.nets.start_gateway(&pair.ends[end], &end.to_string(), &config)?;
    }
    let answer = format!("{} bench hfpep --answer {FAR}:{}", pair.nets.trackway(), HELD.1);
    pair.nets.start(&pair.ends[1], &answer, "")?;
    let entrance: SocketAddr = format!("{NEAR}:{}", HELD.0).parse()?;
    pair.nets.wait(READY_WITHIN, "the gateway does not listen", || {
        within(&pair.ends[0], || TcpStream::connect(entrance).is_ok()).unwrap_or_default()
    })?;
    Ok(programs)
}
