//! Tests the pages that people look at in a browser: the animation of a run, and what all show on a telephone.

use std::fs;
use std::process::Command;
use std::time::Duration;

use base::time::Time;
use lab::animation::{Node, Radio, Recording, to_html};
use serde_json::Value;
use sim::mobility::{Motion, Position};

use crate::namespaces::is_installed;

const CHROMIUM: &str = "/usr/bin/chromium";
const LARGEST: usize = 10_000_000;

#[test]
#[ignore = "needs chromium: run by ./test"]
fn a_browser_plays_a_scenario_as_it_was() {
    let Some(seen) = browse("scenario", &page_of("route-change"), "0,7,25") else { return };

    assert_eq!(seen["troubles"], Value::Array(vec![]));
    let ways = [0, 1, 2].map(|time| seen["shown"][time]["ways"][0].as_str().unwrap());
    let [upper, lower] = ["a → b → d (2 hops)", "a → c → d (2 hops)"];
    assert_eq!(ways, [upper, lower, upper], "b's link is down from 5 to 20 s");
    for shown in seen["shown"].as_array().unwrap() {
        assert_eq!(shown["drawn"], 4, "all nodes are in the picture: {shown}");
    }
    assert!(seen["shown"][1]["packets"].as_u64() > Some(10), "{seen}");
}

#[test]
#[ignore = "needs chromium: run by ./test"]
fn a_browser_shows_the_way_through_a_half_tunnel() {
    let Some(seen) = browse("half-tunnel", &page_of("manet-chain5"), "15,25,58") else { return };

    assert_eq!(seen["troubles"], Value::Array(vec![]));
    let ways = [0, 1, 2].map(|time| seen["shown"][time]["ways"][0].as_str().unwrap());
    let [silent, by_n1, by_n4] =
        ["no route (n5 …)", "n5 → n1 → n2 → host (3 hops)", "n5 → n4 → n3 → n2 → host (4 hops)"];
    assert_eq!(ways, [silent, by_n1, by_n4], "nothing is sent before 20 s");
    let begins = seen["begins"].as_f64().unwrap();
    assert!((19.0..20.0).contains(&begins), "it begins shortly before that: {begins}");
}

#[test]
#[ignore = "needs chromium: run by ./test"]
fn a_browser_shows_nodes_where_they_are() {
    let at = |seconds| Time::ZERO + Duration::from_millis(seconds);
    let mut walks = Motion::at_rest(Position::new(-120.0, 40.5));
    walks.go(at(1_000), at(5_000), Position::new(310.25, 87.5)).unwrap();
    walks.go(at(5_000), at(5_500), Position::new(310.25, -12.0)).unwrap();
    walks.go(at(8_000), at(20_000), Position::new(0.0, 0.0)).unwrap();
    let rests = Motion::at_rest(Position::new(200.0, 200.0));
    let motions = [walks, rests];
    let node = |motion: &Motion| Node {
        name: "</script> & co".to_owned(),
        motion: motion.clone(),
        is_placed: true,
        radio: Some(Radio { range: 250.0, off: Vec::new() }),
    };
    let recording = Recording {
        title: "walk".to_owned(),
        duration: Duration::from_secs(30),
        nodes: motions.iter().map(node).collect(),
        ..Recording::default()
    };

    let seen = browse("walk", &to_html(recording, LARGEST), "0,0.9,2.5,5.25,6,9.125,19.99,30");

    let Some(seen) = seen else { return };
    assert_eq!(seen["troubles"], Value::Array(vec![]));
    for shown in seen["shown"].as_array().unwrap() {
        let now = Time::ZERO + Duration::from_secs_f64(shown["time"].as_f64().unwrap());
        for (motion, place) in motions.iter().zip(shown["places"].as_array().unwrap()) {
            let [x, y] = [0, 1].map(|axis| place[axis].as_f64().unwrap());
            let away = motion.position(now).distance_squared(Position::new(x, y)).sqrt();
            assert!(away < 0.02, "{away} m: {shown}");
        }
        assert_eq!(shown["drawn"], 2, "{shown}");
    }
}

#[test]
#[ignore = "needs chromium: run by ./test"]
fn pages_fit_a_telephone() {
    let folder = std::env::temp_dir().join(format!("trackway-telephone-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let run = |program: &str, words: &[&str]| {
        let done = Command::new(program).args(words).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let lab = ["lab", "run", "hbh-lossless", "--runs", "2", "--out", "report"];
    run(env!("CARGO_BIN_EXE_trackway"), &lab);
    let table = "A file over a link that loses packets.\n\n                      plain   with Trackway  \
                 gain\ncurl, 5 % loss:       37.2 s  4.1 s           9 times\n";
    fs::write(folder.join("told-hbh"), table).unwrap();
    run(
        "python3",
        &[
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/demo/page.py"),
            ".",
            ".",
            "simulated",
            "hbh",
        ],
    );
    let [report, demo] =
        ["report/report.html", "index.html"].map(|it| fs::read_to_string(folder.join(it)).unwrap());
    fs::remove_dir_all(&folder).unwrap();
    assert!(!demo.contains("Unmodified programs") && demo.contains("simulator"), "{demo}");

    let pages = [("animation", page_of("manet-chain5")), ("report", report), ("demo", demo)];
    for (name, page) in pages {
        let Some(seen) = browse(name, &on_a_telephone(&page), "") else { return };

        let width = seen["width"].as_u64();
        assert!((300..=TELEPHONE).contains(&width.unwrap()), "{name}: {seen}");
        if name == "animation" {
            let places =
                ["stage", "controls", "flows"].map(|it| seen["tops"][it].as_f64().unwrap());
            assert!(places.is_sorted(), "the controls are not under the picture: {seen}");
        }
    }
}

/// Pixels across a telephone.
const TELEPHONE: u64 = 390;

/// A page that shows another one as wide as a telephone does, and tells how wide that becomes and where its parts begin.
fn on_a_telephone(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        r#"<!doctype html><pre id="check" hidden></pre>
<iframe id="telephone" style="width: {TELEPHONE}px; height: 844px; border: 0" srcdoc="{page}"></iframe>
<script>
telephone.onload = () => {{
  const page = telephone.contentDocument, tops = {{}};
  for (const part of page.querySelectorAll("[id]")) tops[part.id] = part.getBoundingClientRect().top;
  check.textContent = JSON.stringify({{ width: page.documentElement.scrollWidth, tops }});
}};
</script>"#
    )
}

/// The page of an example.
fn page_of(example: &str) -> String {
    let name = format!("trackway-animation-{example}-{}.html", std::process::id());
    let path = std::env::temp_dir().join(name);
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios");
    let made = Command::new(env!("CARGO_BIN_EXE_trackway"))
        .args(["sim", "run", &format!("{examples}/{example}.toml"), "--animate"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let page = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    page
}

/// What the page tells of itself at these times; `None` without a browser.
pub fn browse(name: &str, page: &str, times: &str) -> Option<Value> {
    if !is_installed(CHROMIUM, "chromium") {
        return None;
    }
    let folder =
        std::env::temp_dir().join(format!("trackway-browser-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.html");
    fs::write(&path, page).unwrap();
    let shown = Command::new("timeout")
        .args(["120", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"])
        .args(["--disable-component-update", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=20000", "--window-size=1200,800", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}#check={times}", path.display()))
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let (dom, said) =
        (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(!said.contains("CONSOLE"), "{said}");
    let (_, rest) = dom.split_once("<pre id=\"check\" hidden=\"\">").unwrap_or_else(|| {
        panic!("the page has not told of itself: {said}");
    });
    let (json, _) = rest.split_once("</pre>").unwrap();
    let json = json.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&");
    Some(serde_json::from_str(&json).unwrap())
}
