//! One hop of HBH on real interfaces: two namespaces joined by a cable, plain and by gateways.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use anyhow::ensure;
use serde_json::Value;

use super::Case;
use super::namespaces::{Namespaces, Transfer, check_root, this_program};

const ADDRESSES: [&str; 2] = ["10.9.0.2", "fd09::2"];
/// A ping may take this much longer, in microseconds.
const PING_LIMIT: f64 = 200.0;
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Measures TCP's goodput and a ping's time, plain and by HBH.
pub(super) fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    check_root("trackway bench hbh")?;
    let mut pair = Namespaces::pair()?;
    let plain = measure(&mut pair)?;
    start_gateways(&mut pair)?;
    let hbh = measure(&mut pair)?;

    let bench = "hbh";
    let case = |case: String, value, unit, limit| Case { bench, case, value, unit, limit };
    for (version, (plain, hbh)) in [4, 6].into_iter().zip(plain.iter().zip(&hbh)) {
        let (tcp, ping) = (format!("tcp v{version}"), format!("ping v{version}"));
        print(case(format!("{tcp} plain"), plain.goodput, "bit/s", None))?;
        print(case(format!("{tcp} hbh"), hbh.goodput, "bit/s", Some(plain.goodput)))?;
        print(case(format!("{ping} plain"), plain.median, "us", None))?;
        print(case(format!("{ping} hbh"), hbh.median, "us", None))?;
        let added = hbh.median - plain.median;
        print(case(format!("{ping} added"), added, "us", Some(PING_LIMIT)))?;
        let added = hbh.mean - plain.mean;
        print(case(format!("{ping} added, mean"), added, "us", Some(PING_LIMIT)))?;
    }
    Ok(())
}

/// What one address was reached with; times in microseconds, goodput in bit/s.
struct Measured {
    goodput: f64,
    median: f64,
    mean: f64,
}

fn measure(pair: &mut Namespaces) -> anyhow::Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for address in ADDRESSES {
        // The first ones ask for hardware addresses, among other things.
        pair.ping(address, 10)?;
        let mut times = pair.ping(address, 300)?;
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let transfer = Transfer { between: (0, 1), address, seconds: 5, left_out: 1, args: &[] };
        let goodput = pair.transfer(&transfer)?;
        measured.push(Measured { goodput, median: times[times.len() / 2], mean });
    }
    Ok(measured)
}

fn start_gateways(pair: &mut Namespaces) -> anyhow::Result<()> {
    let file = pair.folder.join("node.toml");
    fs::write(&file, "interfaces = [\"eth0\"]\nlog = \"warn\"\n")?;
    let program = this_program()?;
    let file = file.to_string_lossy().into_owned();
    for namespace in pair.names.clone() {
        let command = ["netns", "exec", &namespace, &program, "run", &file];
        pair.start(&command, Stdio::null())?;
    }
    let deadline = Instant::now() + READY_WITHIN;
    for namespace in &pair.names {
        loop {
            pair.check_interrupted()?;
            let command = ["netns", "exec", namespace, &program, "status", "--json"];
            let output = Command::new("ip").args(command).output()?;
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if status["neighbours"] == 1 {
                break;
            }
            ensure!(Instant::now() < deadline, "the gateways do not find each other");
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}
