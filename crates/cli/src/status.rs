//! `trackway status`: the services and the counters of the gateway that runs here.

mod events;
mod hbh;
mod tunnel;

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use base::readable::{self, span};
use serde_json::{Map, Value};
use settings::plain::shown;

use crate::control::Control;
use crate::failure::{misuse, no_such};
use crate::terminal;

/// Print the services, neighbours, tunnels and counters of the gateway that runs in this network namespace.
///
/// Root and the gateway's user may ask, and the group that `status-group` of the configuration names.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 all is as it should be, 1 the gateway does not answer this user, 2 wrong arguments,
  3 the gateway has faults, 4 no gateway runs here

Examples:
  trackway status
  trackway status tunnel --watch
  trackway status --json")]
pub struct Args {
    /// Only this service: hbh, tunnel, s5066, ipclient, hfpep, sar, gre or routing.
    service: Option<String>,
    /// Print one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
    /// Print the counters of each tunnel too.
    #[arg(long, conflicts_with = "json")]
    counters: bool,
    /// Print the last 64 lines of the log that matter to an operator.
    #[arg(long, conflicts_with_all = ["counters", "service"])]
    events: bool,
    /// Print it again every so many seconds, until Ctrl-C.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    watch: Option<u64>,
    #[command(flatten)]
    control: Control,
}

/// The gateway has faults.
const FAULTY: u8 = 3;

/// The services, and the prefixes of their counters' names. All other counters are HBH's.
const SERVICES: [(&str, &[&str]); 8] = [
    ("hbh", &[]),
    ("tunnel", &["tunnel_", "secure_"]),
    ("s5066", &["s5066_"]),
    ("ipclient", &["ipclient_"]),
    ("hfpep", &["hfpep_", "slep_"]),
    ("sar", &["sar_"]),
    ("gre", &["gre_"]),
    ("routing", &["routing_", "aodv_", "dsdv_", "olsr_"]),
];
/// The prefix of counters without a service.
const SHARED: &str = "rules_";

/// Asks the gateway.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(service) = &args.service
        && SERVICES.iter().all(|(name, _)| name != service)
    {
        return Err(no_such("service", service, &SERVICES.map(|(name, _)| name)));
    }
    let mut out = terminal::out();
    loop {
        let answer = gateway::ask_status(args.control.path())?;
        let status: Map<String, Value> =
            serde_json::from_str(&answer).context("the gateway's answer")?;
        let has_faults =
            status.get("faults").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
        if let Some(service) = &args.service
            && !names(&status).any(|name| name == service)
        {
            let running: Vec<_> = names(&status).collect();
            return Err(misuse(format!(
                "{service}: this gateway does not have it; it has {}",
                if running.is_empty() { "no service".to_owned() } else { running.join(", ") }
            )));
        }
        let outcome = ExitCode::from(if has_faults { FAULTY } else { 0 });
        if args.watch.is_some() {
            terminal::clear()?;
        }
        if args.json && args.service.is_none() && !args.events {
            out.write_all(answer.as_bytes())?;
        } else {
            print(&mut out, args, &only(status, args))?;
        }
        out.flush()?;
        let Some(seconds) = args.watch else { return Ok(outcome) };
        thread::sleep(Duration::from_secs(seconds));
    }
}

/// The names of the gateway's services.
fn names(status: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let services = status.get("services").and_then(Value::as_array).into_iter().flatten();
    services.filter_map(|service| service["name"].as_str())
}

/// Reduces a status to the events, or to one service, if asked for.
fn only(mut status: Map<String, Value>, args: &Args) -> Map<String, Value> {
    if args.events {
        status.retain(|name, _| name == "events");
    }
    let Some(service) = args.service.as_deref() else { return status };
    let is_its = |counter: &str| {
        let owner =
            SERVICES.iter().find(|(_, begins)| begins.iter().any(|it| counter.starts_with(it)));
        owner.map_or(service == "hbh" && !counter.starts_with(SHARED), |(name, _)| *name == service)
    };
    status.retain(|name, value| match name.as_str() {
        "services" | "faults" => true,
        "tunnels" => service == "tunnel",
        "rules" => ["hfpep", "ipclient"].contains(&service),
        "events" => false,
        name if value.is_number() => is_its(name),
        name => name == service,
    });
    if let Some(services) = status.get_mut("services").and_then(Value::as_array_mut) {
        services.retain(|it| it["name"] == service);
    }
    status
}

/// Prints a status for a person.
fn print(out: &mut impl Write, args: &Args, status: &Map<String, Value>) -> anyhow::Result<()> {
    let list = |name: &str| status.get(name).and_then(Value::as_array).into_iter().flatten();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(status)?)?;
        return Ok(());
    }
    if args.events {
        return events::print(out, list("events"));
    }
    for service in list("services") {
        print_service(out, service)?;
    }
    for fault in list("faults") {
        let [said, code] = ["said", "code"].map(|key| text(&fault[key]));
        writeln!(out, "fault: {said} [{code}]")?;
    }
    for tunnel in list("tunnels") {
        tunnel::print(out, tunnel, args.counters)?;
    }
    for (name, value) in status {
        if let Value::Object(service) = value {
            print_state(out, name, service)?;
        }
        if name == "hbh" {
            hbh::print(out, value)?;
        }
    }
    let node = status.get("s5066").unwrap_or(&Value::Null);
    print_air(out, node)?;
    let pep = status.get("hfpep").unwrap_or(&Value::Null);
    for session in pep["sessions"].as_array().into_iter().flatten() {
        print_session(out, session)?;
    }
    for flow in pep["flows"].as_array().into_iter().flatten() {
        print_flow(out, flow)?;
    }
    for rule in list("rules") {
        print_rule(out, rule)?;
    }
    let counters = || status.iter().filter(|(_, value)| value.is_number() && *value != 0);
    let width = counters().map(|(name, _)| name.len()).fold(28, usize::max);
    for (name, value) in counters() {
        writeln!(out, "{name:<width$} {value:>14}")?;
    }
    Ok(())
}

/// Formats a number of octets of the gateway.
fn octets(value: &Value) -> String {
    readable::octets(value.as_f64().unwrap_or_default())
}

/// Formats a short time given in milliseconds by the gateway.
fn delay(ms: f64) -> String {
    readable::delay(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

/// Formats a time given in seconds by the gateway.
fn seconds(value: &Value) -> String {
    span(value.as_f64().unwrap_or_default())
}

/// A text from the gateway, or from a station, on one line; `-` if there is none.
fn text(value: &Value) -> Cow<'_, str> {
    shown(value.as_str().unwrap_or("-"))
}

/// Whether a service runs, since when, and how it failed last.
fn print_service(out: &mut impl Write, service: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&service[key]);
    let since = UNIX_EPOCH + Duration::from_secs(service["since"].as_u64().unwrap_or_default());
    let lasts = SystemTime::now().duration_since(since).unwrap_or_default().as_secs();
    write!(out, "{}: {} for {}", text("name"), text("state"), span(lasts as f64))?;
    if service["restarts"] != 0 {
        write!(out, ", restarts {}", service["restarts"])?;
    }
    if service["why"].is_string() {
        write!(out, ", failed last: {}", text("why"))?;
    }
    writeln!(out)?;
    Ok(())
}

/// A service's own state in a line.
fn print_state(
    out: &mut impl Write,
    name: &str,
    service: &Map<String, Value>,
) -> anyhow::Result<()> {
    write!(out, "{}: {}", shown(name), text(service.get("state").unwrap_or(&Value::Null)))?;
    let said = service
        .iter()
        .filter(|(key, value)| *key != "state" && !value.is_array() && !value.is_object());
    for (key, value) in said {
        let key = key.replace('_', " ");
        match value {
            Value::String(value) => write!(out, ", {} {}", shown(&key), shown(value))?,
            other => write!(out, ", {} {other}", shown(&key))?,
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Prints the use of the air, the stations and the waiting data, a line each.
fn print_air(out: &mut impl Write, node: &Value) -> anyhow::Result<()> {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let share = |value: &Value| readable::share(number(value));
    let rate = |value: &Value| readable::rate(number(value));
    for span in node["air"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "  last {:>2} min: transmitting {}, receiving {}; data sent {}, received {}, {} of the waveform",
            span["minutes"].as_u64().unwrap_or_default(),
            share(&span["transmitting"]),
            share(&span["receiving"]),
            rate(&span["sent_bit_s"]),
            rate(&span["received_bit_s"]),
            share(&span["utilisation"]),
        )?;
    }
    for station in node["stations"].as_array().into_iter().flatten() {
        let text = |key: &str| text(&station[key]);
        write!(out, "  station {}: link {}", text("address"), text("link"))?;
        match station["heard_s"].as_u64() {
            Some(seconds) => write!(out, ", heard {} ago", span(seconds as f64))?,
            None => write!(out, ", never heard")?,
        }
        writeln!(out, ", {} wait", octets(&station["waiting_octets"]))?;
    }
    for (priority, waiting) in node["queues"].as_object().into_iter().flatten() {
        writeln!(out, "  priority {priority:>2}: {} wait", octets(waiting))?;
    }
    Ok(())
}

/// A TCP connection over HF in a line.
fn print_session(out: &mut impl Write, session: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&session[key]);
    writeln!(
        out,
        "  {} {} {} to {}: {} for {}, waits for {}; written {} (sent {}), read {} (arrived {})",
        text("direction"),
        text("node"),
        text("client"),
        text("target"),
        text("state"),
        seconds(&session["age_s"]),
        text("waits_for"),
        octets(&session["octets_written"]),
        octets(&session["octets_sent"]),
        octets(&session["octets_read"]),
        octets(&session["octets_arrived"]),
    )?;
    Ok(())
}

/// A flow of UDP over HF in a line.
fn print_flow(out: &mut impl Write, flow: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&flow[key]);
    writeln!(
        out,
        "  {} {} udp {} to {}: {} for {}, idle for {}; datagrams sent {} ({}), arrived {} ({})",
        text("direction"),
        text("node"),
        text("client"),
        text("target"),
        text("state"),
        seconds(&flow["age_s"]),
        seconds(&flow["idle_s"]),
        flow["sent"],
        octets(&flow["octets_sent"]),
        flow["arrived"],
        octets(&flow["octets_arrived"]),
    )?;
    Ok(())
}

/// A rule and its decisions, in a line.
fn print_rule(out: &mut impl Write, rule: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&rule[key]);
    writeln!(
        out,
        "rule {}: {}, hits {}, octets {}, blocked {}",
        text("name"),
        text("state"),
        rule["hits"],
        rule["octets"],
        rule["blocked"],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn printed(line: &[&str], status: &Value) -> String {
        let Line { args } = Line::try_parse_from(line).unwrap();
        let mut out = Vec::new();
        let status = only(status.as_object().unwrap().clone(), &args);
        print(&mut out, &args, &status).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_use_of_the_air_has_numbers_like_all_others() {
        let node = json!({ "air": [{
            "minutes": 5, "transmitting": 0.712, "receiving": 0.0, "sent_bit_s": 6834.0,
            "received_bit_s": 112.0, "utilisation": 0.004,
        }] });
        let mut out = Vec::new();

        print_air(&mut out, &node).unwrap();

        let said = "  last  5 min: transmitting 71.2 %, receiving 0 %; data sent 6.83 kbit/s, received 112 bit/s, \
                    0.40 % of the waveform\n";
        assert_eq!(String::from_utf8(out).unwrap(), said);
    }

    #[test]
    fn a_service_is_shown_alone_with_its_own_counters() {
        let status = json!({
            "services": [
                { "name": "hbh", "state": "running", "since": u64::MAX >> 32, "restarts": 0, "why": null },
                { "name": "sar", "state": "running", "since": u64::MAX >> 32, "restarts": 0, "why": null },
            ],
            "faults": [], "hbh": { "state": "ready", "interfaces": [], "peers": [] },
            "sar": { "state": "ready" }, "frames_sent": 7, "hbh_flows": 2, "sar_messages_taken": 5,
            "rules_hits": 9, "events": [{ "at_s": 0, "level": "info", "what": "up" }],
        });

        let of = |service: &str| printed(&[service], &status);
        let counters = |text: &str| {
            ["frames_sent", "hbh_flows", "sar_messages_taken", "rules_hits"]
                .map(|it| text.contains(it))
        };

        assert_eq!(counters(&of("hbh")), [true, true, false, false]);
        assert_eq!(counters(&of("sar")), [false, false, true, false]);
        assert!(!of("sar").contains("hbh"), "{}", of("sar"));
        assert_eq!(counters(&printed(&[], &status)), [true; 4]);
        let json: Value = serde_json::from_str(&printed(&["sar", "--json"], &status)).unwrap();
        assert_eq!((&json["sar_messages_taken"], &json["hbh"]), (&json!(5), &Value::Null));
        assert!(printed(&["--events"], &status).ends_with("info  up\n"));
        let json: Value = serde_json::from_str(&printed(&["--events", "--json"], &status)).unwrap();
        assert_eq!(json, json!({ "events": status["events"] }));
    }

    #[test]
    fn watching_has_a_period_of_two_seconds_unless_given() {
        let watch = |line: &[&str]| Line::try_parse_from(line).map(|line| line.args.watch).ok();

        assert_eq!(watch(&[]), Some(None));
        assert_eq!(watch(&["--watch"]), Some(Some(2)));
        assert_eq!(watch(&["--watch", "10"]), Some(Some(10)));
        assert_eq!(watch(&["--watch", "0"]), None);
    }
}
