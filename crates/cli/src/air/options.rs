//! Which stations of a scenario have which interfaces.

use std::path::PathBuf;
use std::str::FromStr;

use ::lab::scenario::{Plan, Radio};
use emulator::End;
use proto::quantity::Span;

use crate::animation::Animate;
use crate::failure::misuse;

/// Give Ethernet interfaces radios on the simulated channel of a scenario, in real time.
///
/// The stations of the scenario's radio move, fall silent and share the channel as in `trackway sim run`,
/// from the moment when all interfaces are joined; links, routes and flows of the scenario do not count.
/// What an interface sends goes on the air as its station, and comes out where it is heard. Nothing about the
/// interfaces changes for good. Stations without an interface keep silent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway air examples/manet-chain5.toml --join n0=veth0 --join n1=radio:veth1
  trackway air examples/manet-chain5.toml --join '*=air:*'   # in the namespace air, interfaces n0, n1 ...
  trackway air examples/manet-chain5.toml --join '*=*:wlan0' # in namespaces n0, n1 ..., each its wlan0
  trackway air examples/manet-chain5.toml --join '*=*' --animate run.html    # a picture of it at the end")]
pub(crate) struct Args {
    /// The scenario, a TOML file with a radio; docs/scenario.md says what may stand in it.
    pub(super) scenario: PathBuf,

    /// A node of the scenario and its interface, in this network namespace or in a named one; * is every
    /// node, and stands for its name in the interface. Repeat it for others.
    #[arg(long, value_name = "NODE=[NETNS:]INTERFACE", required = true)]
    join: Vec<Join>,
    /// Which radio of the scenario, if it has several: its name.
    #[arg(long, value_name = "NAME")]
    radio: Option<String>,
    /// What back-offs and random motion derive from [default: the scenario's].
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// End after this long: 10s. Without it, at Ctrl-C.
    #[arg(long)]
    pub(super) duration: Option<Span>,
    #[command(flatten)]
    pub(super) animate: Animate,
    /// Print the statistics at the end as one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// One `--join`.
#[derive(Clone, Debug)]
struct Join {
    /// The node, or `*`.
    node: String,
    end: String,
}

/// A station that has an interface.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    /// Its place in the scenario's radio.
    pub(super) station: usize,
    pub(super) node: String,
    pub(super) end: End,
}

/// The stations of a radio.
#[derive(Debug)]
pub(super) struct Stations {
    /// The radio's place in the scenario.
    pub(super) radio: usize,
    pub(super) joined: Vec<Joined>,
    /// Nodes whose stations have no interface.
    pub(super) silent: Vec<String>,
}

const ALL: &str = "*";

impl Args {
    /// Which radio, and who has which interface.
    pub(super) fn stations(&self, plan: &Plan) -> anyhow::Result<Stations> {
        let radio = self.radio(plan)?;
        let (mut joined, mut silent) = (Vec::new(), Vec::new());
        let names = plan.radios[radio].stations.iter().map(|it| plan.nodes[it.node].name.as_str());
        let names: Vec<&str> = names.collect();
        for join in &self.join {
            if join.node != ALL && !names.contains(&join.node.as_str()) {
                return Err(misuse(format_args!(
                    "--join {}={}: no station of the radio is called so; it has {}",
                    join.node,
                    join.end,
                    names.join(", ")
                )));
            }
        }
        for (station, name) in names.into_iter().enumerate() {
            let mut own = self.join.iter().filter(|join| join.node == name);
            let first = own.next();
            if own.next().is_some() {
                return Err(misuse(format_args!("--join: {name} has one interface, not several")));
            }
            match first.or_else(|| self.join.iter().find(|join| join.node == ALL)) {
                Some(join) => {
                    joined.push(Joined { station, node: name.to_owned(), end: join.end(name)? });
                }
                None => silent.push(name.to_owned()),
            }
        }
        for (index, Joined { node, end, .. }) in joined.iter().enumerate() {
            if let Some(other) = joined[..index].iter().find(|other| other.end == *end) {
                return Err(misuse(format_args!(
                    "--join: {} and {node} cannot both have {end}",
                    other.node
                )));
            }
        }
        Ok(Stations { radio, joined, silent })
    }

    fn radio(&self, plan: &Plan) -> anyhow::Result<usize> {
        let file = self.scenario.display();
        let names = || {
            let name = |radio: &Radio| radio.name.clone().unwrap_or_else(|| "(no name)".to_owned());
            plan.radios.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        match (&self.radio, plan.radios.len()) {
            (_, 0) => Err(misuse(format_args!(
                "{file} has no radio: a table [[radio]] describes one, see docs/scenario.md"
            ))),
            (None, 1) => Ok(0),
            (None, _) => Err(misuse(format_args!(
                "{file} has several radios, {}: --radio NAME chooses one",
                names()
            ))),
            (Some(name), _) => {
                let is_it = |radio: &Radio| radio.name.as_ref() == Some(name);
                plan.radios.iter().position(is_it).ok_or_else(|| {
                    misuse(format_args!("{file} has no radio \"{name}\", but {}", names()))
                })
            }
        }
    }
}

impl Join {
    /// The interface of a node.
    fn end(&self, node: &str) -> anyhow::Result<End> {
        let text = self.end.replace(ALL, node);
        text.parse().map_err(|why| misuse(format_args!("--join {node}={text}: {why}")))
    }
}

impl FromStr for Join {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (node, end) = text.split_once('=').ok_or("NODE=INTERFACE or NODE=NETNS:INTERFACE")?;
        if node == ALL && !end.contains(ALL) {
            return Err("one interface cannot be that of all nodes: write *=*, or *=*:wlan0");
        }
        Ok(Self { node: node.to_owned(), end: end.to_owned() })
    }
}
