//! Prints the counters of modems, for people and for programs.

use std::io::{self, Write as _};

use base::readable::span;
use emulator::hf::Modems;
use serde_json::json;

use super::options::Plan;

use crate::terminal;

/// Prints what the modems did to standard output.
pub fn print(modems: &Modems, plan: &Plan, seed: u64, seconds: f64) -> io::Result<()> {
    let ends = modems.stats();
    let mut out = terminal::out();
    if plan.is_json {
        let modem = |end: usize| {
            let (stats, server) = &ends[end];
            json!({
                "transmissions": stats.transmissions,
                "blocks": stats.blocks,
                "underruns": stats.underrun_octets,
                "connections_accepted": server.accepted,
            })
        };
        let summary = json!({
            "waveform": plan.waveform.to_string(),
            "channel": plan.channel.to_string(),
            "seed": seed,
            "seconds": (seconds * 1e3).round() / 1e3,
            "a": modem(0),
            "b": modem(1),
        });
        return writeln!(out, "{summary}");
    }
    let (waveform, channel) = (plan.waveform, plan.channel);
    writeln!(out, "{} at {waveform}, channel {channel}, seed {seed}", span(seconds))?;
    for (name, (stats, server)) in ["A", "B"].into_iter().zip(&ends) {
        writeln!(
            out,
            "modem {name}: {} transmissions of {} blocks, {} connections",
            stats.transmissions, stats.blocks, server.accepted
        )?;
        if stats.underrun_octets > 0 {
            writeln!(out, "  {} octets came too late for the air", stats.underrun_octets)?;
        }
    }
    Ok(())
}
