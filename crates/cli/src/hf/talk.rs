//! `trackway hf --talk`: clients of the program's own, which send each other messages in turn.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use gateway::bearer::Server;
use testbed::probe::interface;

use super::options::Plan;

/// Octets of a message.
const OCTETS: usize = 200;
/// From an answer to the next message.
const PAUSE: Duration = Duration::from_secs(2);

/// The talk of the two clients, on a thread that ends with the process.
pub struct Talk {
    said: Receiver<String>,
}

impl Talk {
    /// Begins to talk, if that is wanted.
    pub fn start(plan: &Plan, servers: &[Server; 2]) -> anyhow::Result<Option<Self>> {
        if !plan.talks {
            return Ok(None);
        }
        let at = |end: usize| servers[end].local_address().context("where clients connect");
        let (at, nodes) = ([at(0)?, at(1)?], plan.ends.each_ref().map(|end| end.address));
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            let told = |outcome: Result<Duration, String>| {
                let words = match outcome {
                    Ok(trip) => {
                        format!("{OCTETS} octets to B and back in {:.1} s", trip.as_secs_f64())
                    }
                    Err(why) => format!("{OCTETS} octets were not delivered: {why}"),
                };
                sender.send(words).is_ok()
            };
            if let Err(why) = interface::talk(at, nodes, &[b'.'; OCTETS], PAUSE, told) {
                let _ = sender.send(format!("{why:#}"));
            }
        });
        Ok(Some(Self { said }))
    }

    /// The next line about the talk for the terminal, if there is one.
    pub fn poll(&self) -> Option<String> {
        self.said.try_recv().ok()
    }
}
