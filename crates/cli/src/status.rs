//! `trackway status`: the services and the counters of the gateway that runs here.

mod tunnel;

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::{Map, Value};
use settings::plain::shown;

use crate::control::Control;
use crate::terminal;

/// Print the tunnels, the other services and the counters of the gateway that runs in this network namespace.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway status --json")]
pub(crate) struct Args {
    /// Print one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
    /// Print the counters of each tunnel too.
    #[arg(long, conflicts_with = "json")]
    counters: bool,
    #[command(flatten)]
    control: Control,
}

/// Asks the gateway.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { json, counters: with_counters, control } = args;
    let status = gateway::ask_status(control.path())?;
    let mut out = terminal::out();
    if json {
        out.write_all(status.as_bytes())?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let counters: Map<String, Value> =
        serde_json::from_str(&status).context("the gateway's answer")?;
    for service in counters.get("services").and_then(Value::as_array).into_iter().flatten() {
        print_service(&mut out, service)?;
    }
    for fault in counters.get("faults").and_then(Value::as_array).into_iter().flatten() {
        writeln!(out, "fault: {}", text(fault))?;
    }
    let tunnels = counters.get("tunnels").and_then(Value::as_array);
    for tunnel in tunnels.into_iter().flatten() {
        tunnel::print(&mut out, tunnel, with_counters)?;
    }
    for (name, value) in &counters {
        if let Value::Object(service) = value {
            print_state(&mut out, name, service)?;
        }
    }
    let node = counters.get("s5066").unwrap_or(&Value::Null);
    print_air(&mut out, node)?;
    let pep = counters.get("hfpep").unwrap_or(&Value::Null);
    for session in pep["sessions"].as_array().into_iter().flatten() {
        print_session(&mut out, session)?;
    }
    for flow in pep["flows"].as_array().into_iter().flatten() {
        print_flow(&mut out, flow)?;
    }
    for rule in counters.get("rules").and_then(Value::as_array).into_iter().flatten() {
        print_rule(&mut out, rule)?;
    }
    for (name, value) in &counters {
        if value.is_number() && value != 0 {
            writeln!(out, "{name:<28} {value:>14}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A text of the gateway's, which may be a station's: on one line. `-` if there is none.
fn text(value: &Value) -> Cow<'_, str> {
    shown(value.as_str().unwrap_or("-"))
}

/// Whether a service runs, since when, and how it failed last.
fn print_service(out: &mut impl Write, service: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&service[key]);
    let since = UNIX_EPOCH + Duration::from_secs(service["since"].as_u64().unwrap_or_default());
    let lasts = SystemTime::now().duration_since(since).unwrap_or_default().as_secs();
    write!(out, "{}: {} for {lasts} s", text("name"), text("state"))?;
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
    let percent = |value: &Value| value.as_f64().unwrap_or_default() * 100.0;
    for span in node["air"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "  last {:>2} min: transmitting {:.1} %, receiving {:.1} %; data sent {} bit/s, received {} \
             bit/s, {:.1} % of the waveform",
            span["minutes"],
            percent(&span["transmitting"]),
            percent(&span["receiving"]),
            span["sent_bit_s"],
            span["received_bit_s"],
            percent(&span["utilisation"]),
        )?;
    }
    for station in node["stations"].as_array().into_iter().flatten() {
        let text = |key: &str| text(&station[key]);
        write!(out, "  station {}: link {}", text("address"), text("link"))?;
        match station["heard_s"].as_u64() {
            Some(seconds) => write!(out, ", heard {seconds} s ago")?,
            None => write!(out, ", never heard")?,
        }
        writeln!(out, ", {} octets wait", station["waiting_octets"])?;
    }
    for (priority, octets) in node["queues"].as_object().into_iter().flatten() {
        writeln!(out, "  priority {priority:>2}: {octets} octets wait")?;
    }
    Ok(())
}

/// A TCP connection over HF in a line.
fn print_session(out: &mut impl Write, session: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&session[key]);
    writeln!(
        out,
        "  {} {} {} to {}: {} for {} s, waits for {}; octets written {} (sent {}), read {} (arrived {})",
        text("direction"),
        text("node"),
        text("client"),
        text("target"),
        text("state"),
        session["age_s"],
        text("waits_for"),
        session["octets_written"],
        session["octets_sent"],
        session["octets_read"],
        session["octets_arrived"],
    )?;
    Ok(())
}

/// A flow of UDP over HF in a line.
fn print_flow(out: &mut impl Write, flow: &Value) -> anyhow::Result<()> {
    let text = |key: &str| text(&flow[key]);
    writeln!(
        out,
        "  {} {} udp {} to {}: {} for {} s, idle for {} s; datagrams sent {} ({} octets), arrived {} ({} octets)",
        text("direction"),
        text("node"),
        text("client"),
        text("target"),
        text("state"),
        flow["age_s"],
        flow["idle_s"],
        flow["sent"],
        flow["octets_sent"],
        flow["arrived"],
        flow["octets_arrived"],
    )?;
    Ok(())
}

/// What a rule decided, in a line.
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
