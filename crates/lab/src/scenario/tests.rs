use std::path::Path;

use proptest::prelude::*;

use super::Plan;

const CHAIN: &str = r#"
nodes = ["a", "b", "c"]
hbh = true

[defaults.link]
rate = "300kbit"
delay = "50ms"
loss = "5%"

[[link]]
between = ["a", "b"]

[[link]]
between = ["b", "c"]
back = { loss = "none", rate = "9600bit" }

[[tcp]]
from = "a"
to = "c"
octets = 100_000
"#;

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(Path::new("x.toml"), text.to_owned()).map_err(|complaint| complaint.to_string())
}

/// The complaint about the chain after a change.
#[track_caller]
fn complaint(old: &str, new: &str) -> String {
    assert!(CHAIN.contains(old), "{old} is not in the chain");
    parse(&CHAIN.replace(old, new)).expect_err("a mistake")
}

#[test]
fn directions_inherit_from_links_and_links_from_defaults() {
    let plan = parse(CHAIN).expect("a scenario");

    let rate = |index: usize| {
        let config = &plan.links[index].config;
        [config.there.rate.to_string(), config.back.rate.to_string()]
    };
    assert_eq!(rate(0), ["300kbit", "300kbit"]);
    assert_eq!(rate(1), ["300kbit", "9600bit"]);
    assert!((plan.links[0].config.back.loss.mean() - 0.05).abs() < 1e-12);
    assert!(plan.links[1].config.back.loss.mean().abs() < 1e-12);
    assert!(plan.nodes.iter().all(|node| node.hbh.is_some()));
}

#[test]
fn complaints_name_file_line_and_key_and_say_what_is_allowed() {
    let cases = [
        (
            r#"between = ["b", "c"]"#,
            r#"between = ["b", "d"]"#,
            "x.toml:14: link.between: there is no node \"d\"; the nodes are a, b, c",
        ),
        (
            r#"loss = "5%""#,
            r#"loss = "150%""#,
            "x.toml:8: defaults.link.loss: \"150%\" is not a probability such as 10% or 0.1, at most 100%",
        ),
        (
            r#"delay = "50ms""#,
            "delay = 50",
            "x.toml:7: defaults.link.delay: \"50\" is not a time with its unit such as 50ms, 1.5s or 200us",
        ),
        (
            r#"rate = "9600bit""#,
            r#"rate = "9600""#,
            "x.toml:15: link.rate: \"9600\" is not a bit rate such as 300kbit, 1.5mbit or unlimited",
        ),
        (r#"["a", "b", "c"]"#, r#"["a", "b", "a"]"#, "x.toml:2: nodes: node \"a\" is there twice"),
        (
            r#"between = ["a", "b"]"#,
            r#"between = ["a", "a"]"#,
            "x.toml:11: link.between: a link joins two different nodes",
        ),
    ];

    for (old, new, expected) in cases {
        assert_eq!(complaint(old, new), expected);
    }
}

#[test]
fn an_unknown_key_is_answered_with_those_that_exist() {
    let text = complaint(r#"loss = "5%""#, r#"los = "5%""#);

    assert!(text.starts_with("x.toml:8: defaults.link.los: unknown field `los`"), "{text}");
    assert!(text.contains("`loss`"), "{text}");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let hbh = |text: &str| complaint("hbh = true", &format!("hbh = {{ {text} }}"));
    let tcp =
        |text: &str| complaint("octets = 100_000", &format!("octets = 1\noptions = {{ {text} }}"));

    assert_eq!(
        hbh("window = [9, 200]"),
        "x.toml:3: hbh: window is 9 to 200; allowed are 1 to 127, least first"
    );
    assert!(hbh("retries = 256").contains("u8"), "{}", hbh("retries = 256"));
    assert!(hbh("congestion = 60, queue = 50").ends_with("at most queue, which is 50"));
    assert!(hbh("profile = \"sed\"").contains("`seed`"), "{}", hbh("profile = \"sed\""));
    assert_eq!(tcp("mss = 7"), "x.toml:21: tcp.options: mss is at least 32");
    assert!(tcp("rto = { min = \"2s\", max = \"1s\" }").ends_with("at least rto.min"));
}

#[test]
fn syntax_errors_have_a_line() {
    assert!(parse("nodes = [\n\"a\"\n").expect_err("no end").starts_with("x.toml:"));
    assert!(parse("").expect_err("no nodes").contains("missing field `nodes`"));
}

#[test]
fn flow_ports_do_not_collide() {
    let flows = "[[udp]]\nfrom = \"a\"\nto = \"c\"\nrate = \"8kbit\"\npayload = 100\nport = 5001\n";

    let error = parse(&format!("{CHAIN}\n{flows}")).expect_err("a port taken twice");

    assert_eq!(error, "x.toml:24: udp.to: port 5001 is taken by another flow");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        at in 0..CHAIN.len(), cut in 0..40_usize, put in "[\\[\\]\"=a-z0-9%\n. -]{0,12}",
    ) {
        let mut text = CHAIN.as_bytes().to_vec();
        text.splice(at..(at + cut).min(CHAIN.len()), put.bytes());
        if let Ok(text) = String::from_utf8(text) {
            let _ = parse(&text);
        }
    }
}
