//! Describes a core's counters and state.

use base::counter::{Counters, named};
use tcp::State;

/// The counters that are not zero, by their names.
pub fn counted(counters: &impl Counters) -> String {
    let counted = named(counters).into_iter().filter(|(_, value)| *value > 0);
    let counted: Vec<_> =
        counted.map(|(counter, value)| format!("{} {value}", counter.name)).collect();
    if counted.is_empty() { "nothing counted".to_owned() } else { counted.join(", ") }
}

/// The state's name in RFC 9293.
pub fn state(state: State) -> &'static str {
    match state {
        State::Closed => "CLOSED",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::Established => "ESTABLISHED",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::LastAck => "LAST-ACK",
        State::SynReceived => "SYN-RECEIVED",
        State::SynSent => "SYN-SENT",
        State::TimeWait => "TIME-WAIT",
    }
}
