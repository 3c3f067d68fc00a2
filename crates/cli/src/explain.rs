//! The command `trackway explain`: the fate of a flow under the rules of a gateway, with the reasons.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use gateway::Config;
use gateway::explain::{Explanation, Outcome, PassedOver, Question, Treatment, Via};

use crate::control::Control;
use crate::failure;
use crate::terminal;

/// Tell which rule decides on a flow, in which service it ends, whom that sends it to, and why.
///
/// The gateway that runs in this network namespace is asked, as its traffic is switched now, and the kernel's routes
/// decide where no rule does. Then the reverse path filter and all firewalls of this host are asked, as root. With
/// --config, a file is read, rules alone decide, and no gateway is needed. Exit code 1 if the flow would not arrive at the
/// next gateway, node or neighbour; what a rule that is not understood may do is told, and is no reason for exit code 1.
/// Exit code 4 if no gateway runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway explain tcp 10.1.2.3:5000 10.9.0.1:443
  trackway explain icmp 10.1.2.3 10.2.0.1 --config examples/hf/rules.toml")]
pub struct Args {
    /// The protocol: tcp, udp, icmp, or a number.
    protocol: String,
    /// Where it comes from: 10.1.2.3:5000, `[fd00::1]:5000`; without ports, only the address.
    from: String,
    /// Where it goes.
    to: String,
    /// The interface that it enters by.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Its code point, 0 to 63.
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: u8,
    /// The configuration, a TOML file; without, that of the gateway that runs here.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: Control,
}

/// Explains a flow.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { protocol, from, to, interface, dscp, config, json, control } = args;
    let question = Question::parse(&protocol, &from, &to).map_err(failure::misuse)?;
    let question = Question { interface, dscp, ..question };
    let explanation = match config {
        Some(file) => {
            let config = Config::read(&file).map_err(failure::misuse)?;
            if config.hf_pep.is_none() && config.ip_client.is_none() {
                return Err(failure::misuse(format!(
                    "{}: rules are for [hfpep] and [ipclient], and it has neither, so the kernel's routes decide: ask the \
                     gateway that runs it, without --config",
                    file.display()
                )));
            }
            question.explain(&config)
        }
        None => question.judge(gateway::ask_explanation(control.path(), question.clone())?),
    };
    let mut out = terminal::out();
    if json {
        writeln!(out, "{}", serde_json::to_string(&explanation)?)?;
    } else {
        print(&mut out, &explanation)?;
    }
    Ok(if explanation.arrives() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(out: &mut impl Write, explanation: &Explanation) -> anyhow::Result<()> {
    let Explanation { passed_over, rule, outcome, mtu, obstacle, doubts, otherwise } = explanation;
    for PassedOver { rule, key, has, wanted } in passed_over {
        writeln!(out, "rule {rule}: no, {key} is {has}, not {wanted}")?;
    }
    match rule {
        Some(rule) => writeln!(out, "rule {rule}: matches")?,
        None if passed_over.is_empty() => {}
        None => writeln!(out, "no rule matches: the automatic choice")?,
    }
    match outcome {
        Outcome::Block { told, why } => writeln!(out, "blocked: {why}; its sender gets {told}")?,
        Outcome::Pass { service, why, treatment, via } => {
            writeln!(out, "service {service}: {why}")?;
            match via {
                Some(Via::Gateway { network, gateway }) => {
                    writeln!(out, "to the gateway at {gateway}, which has {network}")?;
                }
                Some(Via::Peer { network, peer }) => {
                    writeln!(out, "to the peer {peer}, which has {network}")?;
                }
                Some(Via::Router { network, router }) => {
                    writeln!(out, "to the router {router}, which has {network}")?;
                }
                Some(Via::Neighbour { interface, neighbour }) => {
                    writeln!(out, "to {neighbour} on {interface}")?;
                }
                Some(Via::Node { network, node }) => {
                    writeln!(out, "to node {node}, which has {network}")?;
                }
                None if service == "none" => {}
                None => {
                    writeln!(out, "to nobody: no network of the configuration has the address")?;
                }
            }
            let told = tell(treatment);
            if !told.is_empty() {
                writeln!(out, "with {told}")?;
            }
        }
    }
    if let Some(mtu) = mtu {
        writeln!(out, "packets of at most {mtu} octets")?;
    }
    for doubt in doubts {
        writeln!(out, "perhaps does not arrive: {doubt}")?;
    }
    if let Some(obstacle) = obstacle {
        writeln!(out, "does not arrive: {obstacle}")?;
    }
    if let Some(otherwise) = otherwise {
        writeln!(out, "if {} were down: {otherwise}", service_of(outcome))?;
    }
    Ok(())
}

fn service_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Pass { service, .. } => service,
        Outcome::Block { .. } => "the gateway",
    }
}

fn tell(treatment: &Treatment) -> String {
    let Treatment { compression, priority, ttl_s, tls, handshake } = treatment;
    let compression = compression.map(|it| if it { "compression" } else { "no compression" });
    let told = [
        priority.map(|priority| format!("priority {priority}")),
        ttl_s.map(|seconds| format!("a time to live of {seconds} s")),
        compression.map(str::to_owned),
        tls.as_ref().map(|profile| format!("TLS profile {profile}")),
        handshake.as_ref().filter(|it| *it != "local").map(|it| format!("handshake {it}")),
    ];
    told.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
