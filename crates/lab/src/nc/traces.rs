//! Windows and buffers over time in the run with the first seed, as in the paper's Figures 8 to 10.

use std::time::Duration;

use sim::app::transfer;

use super::Scheme;
use super::build::GATEWAYS;
use super::grid::Load;
use super::network::Network;
use crate::prelude::*;
use crate::runner;
use crate::scenario::Built;

const LOSSES: [f64; 3] = [0.10, 0.15, 0.20];
const SESSIONS: u32 = 2;
const LENGTH: Duration = Duration::from_secs(120);
/// The number of points in a line.
const POINTS: usize = 600;
/// Octets of a segment's payload.
const SEGMENT: f64 = 960.0;
/// Octets of a packet.
const PACKET: f64 = 1_000.0;

/// The lines to draw for a run.
struct Trace {
    /// The congestion window of the first session, in segments.
    window: Vec<Mark>,
    /// The data that waits at the gateway, in packets.
    waiting: Vec<Mark>,
}

/// The paper's Figures 8, 9 and 10, and the same of our tunnel.
pub fn figures() -> Vec<Figure> {
    let run = |scheme: Scheme| LOSSES.map(|loss| trace(scheme, loss));
    let (nc, tunnel, ours) = (run(Scheme::TcpNc), run(Scheme::TcpNcTunnel), run(Scheme::Ours));
    let windows = |name: &str, scheme: Scheme, traces: &[Trace]| {
        let lines = traces.iter().map(|trace| &trace.window);
        figure(name, &format!("Congestion window over {}", scheme.title()), WINDOW, lines)
    };
    let buffers = |name: &str, title: &str, traces: &[Trace]| {
        figure(name, title, WAITING, traces.iter().map(|trace| &trace.waiting))
    };
    vec![
        windows("nc-two-window-tcpnc", Scheme::TcpNc, &nc),
        windows("nc-two-window-tunnel", Scheme::TcpNcTunnel, &tunnel),
        windows("nc-two-window-ours", Scheme::Ours, &ours),
        buffers("nc-two-buffer-tunnel", "Send buffer of the paper's tunnel", &tunnel),
        buffers("nc-two-buffer-ours", "Queue of our tunnel", &ours),
    ]
}

const WINDOW: (&str, &str, &str) = (
    "Congestion window of one of two sources",
    "segments",
    "At most 68 segments of a window are used, because 64 KB may be in flight.",
);
const WAITING: (&str, &str, &str) = ("Waiting at the gateway", "packets", "");

fn figure<'a>(
    name: &str,
    title: &str,
    (label, unit, note): (&str, &str, &str),
    lines: impl Iterator<Item = &'a Vec<Mark>>,
) -> Figure {
    let series = LOSSES.iter().zip(lines).enumerate().map(|(index, (loss, marks))| {
        let name = format!("{} loss", crate::words::percent(*loss));
        Series::new(name, Ink::Trace(index), marks.iter().copied())
    });
    Figure::new(name.to_owned(), title.to_owned())
        .under("Two sessions on the paper's topology, one run")
        .over(Axis::linear("Time", "s"))
        .up(Axis::linear(label, unit))
        .with(series.collect())
        .noting(note.to_owned())
}

fn trace(scheme: Scheme, loss: f64) -> Trace {
    let network = Network { trace_points: POINTS, ..Load::new(scheme, SESSIONS, loss).network() };
    let seed = runner::seed(&network.draws(), 0, 0);
    let plan = network.plan(seed, LENGTH);
    let built = plan.build_traced(seed, network.trace_points);
    let mut built = built.expect("every node of an experiment has a link");
    let step = LENGTH / u32::try_from(POINTS).unwrap_or(1);
    let begin = built.begin();
    let mut waiting = Vec::new();
    while built.world.now() < built.end() {
        built.world.run_until((built.world.now() + step).min(built.end()));
        if let Some(octets) = waiting_octets(&built) {
            waiting.push(mark(built.world.now().since(begin), octets as f64 / PACKET));
        }
    }
    let first = network.flows(&built).first().and_then(|[from, _]| built.world.app(*from));
    let windows = first.map(transfer::Sender::windows).unwrap_or_default().iter();
    Trace {
        window: windows
            .map(|(at, octets)| mark(at.since(begin), *octets as f64 / SEGMENT))
            .collect(),
        waiting,
    }
}

/// Octets that wait at the first gateway now; `None` without a tunnel.
fn waiting_octets(built: &Built<'_>) -> Option<u64> {
    if let Some(tunnel) = built.tcpnc_tunnels.first() {
        return Some(built.world.tunnel_buffer(*tunnel).last().map_or(0, |(_, octets)| *octets));
    }
    let end = built.world.tunnel(built.nodes[GATEWAYS[0]], *built.tunnels.first()?)?;
    Some(end.estimates.queued as u64)
}

fn mark(at: Duration, value: f64) -> Mark {
    Mark::exact(at.as_secs_f64(), value)
}
