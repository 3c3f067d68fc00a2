//! Walks the guide's walks, word for word.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use nix::sys::signal::{Signal, killpg};

use crate::namespaces::{PREFIX, Program, SOON, TRACKWAY};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/walks.md");
/// How long a walk may take beside other tests.
const AT_MOST: Duration = Duration::from_secs(300);

#[test]
#[ignore = "needs root: run by ./test"]
fn the_walk_through_the_tunnel_shows_its_gain() {
    let walk = Walk::start("tunnel", &["a", "b", "cable"]);

    let (printed, _) = walk.end();

    // Two reports of iperf3: "[  5]   0.00-37.20  sec  2.00 MBytes   451 Kbits/sec   75   sender".
    let senders = printed.lines().filter(|line| line.trim_end().ends_with("sender"));
    let seconds = senders.map(|line| {
        let (_, until) = line.split_once('-').unwrap();
        until.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    });
    let seconds: Vec<_> = seconds.collect();
    let [plain, coded] = seconds[..] else { panic!("{seconds:?}: {printed}") };
    assert!(coded * 2.0 < plain, "{plain} s without the tunnel, {coded} s with it: {printed}");
    assert!(printed.contains("peer b: up"), "{printed}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_walk_over_hf_fetches_a_page() {
    let walk = Walk::start("hf", &["near", "far"]);

    let (printed, folder) = walk.end();

    let said = printed.lines().find(|line| line.starts_with("10 kB over HF: ")).unwrap();
    let seconds: f64 = said.split(' ').nth(4).unwrap().parse().unwrap();
    assert!(seconds > 3.0, "nothing is so fast at 9600 bit/s: {said}");
    assert!(folder.iter().any(|file| file == "got"), "{folder:?}");
}

#[test]
#[ignore = "needs root: run by ./test"]
fn the_walk_through_the_laboratory_makes_a_figure() {
    let walk = Walk::start("lab", &[]);

    let (printed, folder) = walk.end();

    assert!(printed.contains("hbh-delay.svg"), "{printed}");
    assert_eq!(folder, ["paper"]);
}

/// A walk under way, in a folder of its own.
struct Walk {
    program: Program,
    folder: PathBuf,
    /// The network namespaces that it makes and deletes.
    namespaces: &'static [&'static str],
}

impl Walk {
    fn start(name: &str, namespaces: &'static [&'static str]) -> Self {
        let page = fs::read_to_string(PAGE).unwrap();
        let (_, from) = page.split_once(&format!("<!-- walk {name} -->\n```sh\n")).unwrap();
        let (lines, _) = from.split_once("```\n<!-- end -->").unwrap();
        let folder = env::temp_dir().join(format!("{PREFIX}{}-walk-{name}", process::id()));
        fs::create_dir(&folder).unwrap();
        let programs = Path::new(TRACKWAY).parent().unwrap().display();
        let path = format!("{programs}:{}", env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command
            .args(["-e", "-c", lines])
            .current_dir(&folder)
            .env("PATH", path)
            .stdin(Stdio::null());
        let program = Program::start(command.process_group(0), name).unwrap();
        Self { program, folder, namespaces }
    }

    /// Waits for its end; what it printed, and what is in its folder.
    fn end(mut self) -> (String, Vec<String>) {
        let (code, printed) = self.program.finish(AT_MOST);

        assert_eq!(code, Some(0), "{printed}");
        let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let left = String::from_utf8(left.stdout).unwrap();
        let left = left.lines().filter_map(|line| line.split_whitespace().next());
        let left: Vec<_> = left.filter(|name| self.namespaces.contains(name)).collect();
        assert_eq!(left, [""; 0]);
        let files = fs::read_dir(&self.folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        (printed, files.collect())
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let _ = killpg(self.program.pid(), Signal::SIGTERM);
        let _ = self.program.finish(SOON);
        for name in self.namespaces {
            let delete = ["netns", "delete", name];
            let _ = Command::new("ip").args(delete).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
