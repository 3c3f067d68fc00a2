//! The commands `trackway hf enable` and `disable`, which switch the local gateway's HF traffic, or one rule.

use std::io::Write as _;
use std::process::ExitCode;

use gateway::Switched;

use crate::control::Control;
use crate::failure;
use crate::terminal;

/// The command for the running gateway's traffic.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Traffic {
    /// Carry traffic over HF again, until the gateway ends or `disable`.
    #[command(after_help = "Example:\n  trackway hf enable web")]
    Enable {
        /// Only that of this rule.
        rule: Option<String>,
        #[command(flatten)]
        control: Control,
    },
    /// Refuse traffic over HF with TCP resets and ICMP, until the gateway ends or `enable`.
    #[command(after_help = "Example:\n  trackway hf disable web")]
    Disable {
        /// Only that of this rule.
        rule: Option<String>,
        #[command(flatten)]
        control: Control,
    },
}

/// Asks the gateway, and prints what has changed.
pub fn run(traffic: Traffic) -> anyhow::Result<ExitCode> {
    let (rule, control, is_enabled) = match traffic {
        Traffic::Enable { rule, control } => (rule, control, true),
        Traffic::Disable { rule, control } => (rule, control, false),
    };
    let wanted = rule.clone().unwrap_or_default();
    match gateway::ask_switch(control.path(), rule, is_enabled)? {
        Switched::Changed(changes) => {
            let mut out = terminal::out();
            if changes.is_empty() {
                writeln!(out, "nothing has changed")?;
            }
            for change in changes {
                writeln!(out, "{change}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Switched::Unknown(rules) if rules.is_empty() => {
            Err(failure::misuse(format!("{wanted}: the gateway has no rules")))
        }
        Switched::Unknown(rules) => {
            let there_are = rules.join(", ");
            Err(failure::misuse(format!("{wanted}: there is no such rule; there are {there_are}")))
        }
        Switched::Refused(why) => anyhow::bail!("nothing has changed: {why}"),
    }
}
