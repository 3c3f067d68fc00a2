//! Tests `./demo` with small transfers: its output, and that it cleans up.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, process, thread};

use nix::sys::signal::{Signal, killpg};

use crate::namespaces::{PREFIX, Program, SOON, TRACKWAY, wait_until};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo");

#[test]
#[ignore = "needs root: run by ./test"]
fn it_compares_and_leaves_nothing_behind() {
    let mut demo = Demo::start("whole", &[]);

    let (code, printed) = demo.program.finish(10 * SOON);

    assert_eq!(code, Some(0), "{printed}");
    let tables: Vec<&str> = printed.split("loss each way").skip(1).collect();
    assert_eq!(tables.len(), 2, "{printed}");
    for (table, extra) in tables.iter().zip(["HBH retransmissions", "sent again and repairs"]) {
        let row = |title| table.lines().find(|line| line.contains(title)).unwrap();
        assert!(row("mean of 1").contains(" s"), "{printed}");
        // Plain, iperf3 may have lost its first datagram again and again.
        assert!(row("delivered").contains(" %"), "{printed}");
        assert!(row(extra).contains('-'), "{printed}");
    }
    // Whole seconds of patience with a plain transfer are many round trips of the tunnel.
    let ratio = tables[1].lines().find(|line| line.contains("goodput")).unwrap();
    let ratio: Option<f64> = ratio.split_whitespace().last().and_then(|ratio| ratio.parse().ok());
    assert!(ratio.unwrap() > 2.0, "{printed}");
    // What came by radio.
    let row = |title| printed.lines().find(|line| line.contains(title)).unwrap_or_default();
    assert!(row("ping, 1 packets: answered").ends_with("1 of 1"), "{printed}");
    let [_, by_proxy, end_to_end, by_proxies] = [
        "http, TCP over IP client",
        "http, HF-PEP",
        "https, HF-PEP, TLS end to end",
        "https, HF-PEP, TLS proxies",
    ]
    .map(|way| Fetched::parse(row(way)).unwrap_or_else(|| panic!("{way}: {printed}")));
    // No bit errors: each turn of the radio that TLS takes from end to end is there every time.
    assert!(by_proxies.first < end_to_end.first, "{printed}");
    assert!(by_proxies.whole < end_to_end.whole, "{printed}");
    // Certificates stay on the LANs, and what is not encrypted is compressed.
    assert!(by_proxies.octets < 2_000 && 2_000 < end_to_end.octets, "{printed}");
    assert!(by_proxies.octets.abs_diff(by_proxy.octets) < 200, "{printed}");
    assert!(!printed.contains("unfinished"), "{printed}");
    // What moved away and came back: as many octets either way, and routes that changed.
    for title in ["curl, 600 kB", "routes set, all nodes", "packets given up by radios"] {
        assert!(row(title).contains(|letter: char| letter.is_ascii_digit()), "{title}: {printed}");
    }
    // A connection takes many transmissions, a datagram one: at each of two loads some messages arrive.
    for way in ["TCP, a connection each", "UDP, a datagram each", "S/R, trackway send"] {
        let rows: Vec<&str> = printed.lines().filter(|line| line.contains(way)).collect();
        let arrived = |row: &&str| {
            let cells = row.split(way).nth(1)?.split_whitespace().next()?;
            cells.parse::<u32>().ok()
        };
        let some = rows.iter().filter_map(arrived).filter(|arrived| *arrived > 0);
        assert_eq!((rows.len(), some.count()), (2, 2), "{way}: {printed}");
    }
    for file in
        ["hf.svg", "a.pcapng", "b.pcapng", "manet.html", "messages-tcp-15.svg", "index.html"]
    {
        let len = fs::metadata(demo.out.join(file)).map_or(0, |file| file.len());
        assert!(len > 1_000, "{file}: {len} octets");
    }
    let page = fs::read_to_string(demo.out.join("index.html")).unwrap();
    for part in ["hbh", "nc", "hf", "manet", "messages"] {
        assert!(page.contains(&format!("<section id=\"{part}\">")), "{part} is not on the page");
    }
    // The gain at a glance; that of messages is no time.
    assert_eq!(page.matches("<div class=\"bar\"").count(), 4, "bars are missing");
    for table in page.split("<table>").skip(1) {
        let rows = table.split("</table>").next().unwrap().split("<tr>").skip(1);
        let one_for_all = |row: &&str| row.contains("colspan");
        let cells: Vec<_> =
            rows.filter(|row| !one_for_all(row)).map(|row| row.matches("</t").count()).collect();
        assert!(
            cells.iter().all(|count| *count == cells[0]),
            "cells under other headings: {table}"
        );
        let has_heads = table.starts_with("\n<tr><th");
        assert!(cells[0] < 4 || has_heads, "columns without a heading: {table}");
    }
    // With its pictures in it: nothing is loaded from anywhere.
    assert!(page.contains("<svg") && page.contains("srcdoc="), "pictures are missing");
    let loads = |what: &str| page.contains(what);
    assert!(!loads("src=\"http") && !loads("href=\"http") && !loads("<img"), "it loads something");
    demo.assert_nothing_left();
}

#[test]
#[ignore = "needs root: run by ./test"]
fn stopped_at_any_moment_it_leaves_nothing_behind() {
    // Interrupts the demo while it makes namespaces, starts programs, runs programs, and runs gateways. Before its
    // first output the demo may be too young to stop cleanly; its progress messages are too rare to wait for.
    let moments = [
        ("hbh", "Five nodes", 50),
        ("nc", "Two networks", 350),
        ("hbh", "Five nodes", 950),
        ("nc", "Two networks", 2_450),
        ("hbh", GATEWAYS, 1_000),
        ("nc", GATEWAYS, 1_000),
        ("hf", "HF radio", 500),
        ("hf", "HF radio", 4_000),
        ("manet", "OLSR", 300),
        ("manet", "OLSR", 9_000),
        ("messages", "radio net", 1_000),
        ("messages", "radio net", 12_000),
    ];
    for (number, (part, text, millis)) in moments.into_iter().enumerate() {
        let mut demo = Demo::start(&format!("stopped-{number}"), &[part]);
        if text == GATEWAYS {
            let is_gateway = |command: &String| command.contains("\0run\0");
            let has_one = wait_until(2 * SOON, || demo.processes().iter().any(is_gateway));
            assert!(has_one, "stopped-{number}: {}", demo.program.printed());
        } else {
            demo.program.wait_for(text, SOON);
        }
        thread::sleep(Duration::from_millis(millis));

        // A terminal tells every program of the demo, `kill` only the demo itself.
        let pid = demo.program.pid();
        if number % 2 == 0 {
            killpg(pid, Signal::SIGINT).unwrap();
        } else {
            demo.program.signal(Signal::SIGINT);
        }
        let (code, printed) = demo.program.finish(SOON);

        assert_eq!(code, Some(130), "stopped-{number}: {printed}");
        demo.assert_nothing_left();
    }
}

#[test]
fn wrong_arguments_are_answered_with_the_usage() {
    for arguments in [&["all"][..], &["hbh", "--fast"], &["--tcp"], &["--tcp", "vegas", "nc"]] {
        let output = Command::new(DEMO).args(arguments).output().unwrap();

        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains("Usage: ./demo"), "{complaint}");
        assert!(output.stdout.is_empty());
    }
}

/// How a page came by radio, a row of the table.
struct Fetched {
    /// Seconds until its first octet came, and until it was there.
    first: f64,
    whole: f64,
    /// What both gateways gave to their nodes for it.
    octets: u64,
}

impl Fetched {
    fn parse(row: &str) -> Option<Self> {
        // ... 2.9 s  3.9 s  4110 bit/s  1397 octets
        let words: Vec<&str> = row.split_whitespace().collect();
        let [.., first, "s", whole, "s", _, "bit/s", octets, "octets"] = words[..] else {
            return None;
        };
        Some(Self {
            first: first.parse().ok()?,
            whole: whole.parse().ok()?,
            octets: octets.parse().ok()?,
        })
    }
}

/// Stands for the moment when a gateway runs.
const GATEWAYS: &str = "gateways";

/// A run of the demo, its files in a directory of their own.
struct Demo {
    program: Program,
    directory: PathBuf,
    /// What it leaves on purpose.
    out: PathBuf,
}

impl Demo {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let directory = env::temp_dir().join(format!("{PREFIX}{}-{name}", process::id()));
        let out = env::temp_dir().join(format!("{PREFIX}{}-{name}-out", process::id()));
        fs::create_dir(&directory).unwrap();
        // Who runs the tests in the background may have them ignore interrupts, for all they start.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", DEMO]);
        command.arg("--quick").args(arguments).env("TRACKWAY", TRACKWAY).env("TMPDIR", &directory);
        command.env("OUT", &out);
        let program = Program::start(command.process_group(0), "demo").unwrap();
        Self { program, directory, out }
    }

    fn assert_nothing_left(&self) {
        let files: Vec<_> = fs::read_dir(&self.directory).unwrap().flatten().collect();
        assert!(files.is_empty(), "{files:?}");

        let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let namespaces = String::from_utf8(namespaces.stdout).unwrap();
        let own = format!("tw{}-", self.program.pid());
        assert!(!namespaces.lines().any(|line| line.starts_with(&own)), "{namespaces}");

        // Whatever it started has its directory in the environment. What was told to end together
        // with the demo may take a moment longer.
        let gone = wait_until(SOON, || self.processes().is_empty());
        assert!(gone, "{:?}", self.processes());
    }

    /// The command lines of the demo's programs that still run.
    fn processes(&self) -> Vec<String> {
        let mark = self.directory.to_str().unwrap();
        let has_mark = |environment: Vec<u8>| String::from_utf8_lossy(&environment).contains(mark);
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|process| fs::read(process.path().join("environ")).is_ok_and(has_mark))
            .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
            .collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = killpg(self.program.pid(), Signal::SIGTERM);
        let _ = self.program.finish(SOON);
        let _ = fs::remove_dir_all(&self.directory);
        let _ = fs::remove_dir_all(&self.out);
    }
}
