//! Options that assign interfaces to the stations of a scenario.

use std::path::PathBuf;
use std::str::FromStr;

use ::lab::scenario::Plan;
use base::quantity::Span;
use emulator::End;

use crate::animation::Animate;
use crate::failure::misuse;

/// Give Ethernet interfaces radios on the simulated channel of a scenario, in real time.
///
/// The stations of the scenario's radio or combat net move, fall silent and share the channel as in `trackway sim run`,
/// from the moment when all interfaces are joined; links, routes and flows of the scenario do not count.
/// What an interface sends goes on the air as its station, and comes out where it is heard. Nothing about the
/// interfaces changes for good. Stations without an interface keep silent.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trackway air examples/scenarios/manet-chain5.toml --join n0=veth0 --join n1=radio:veth1
  trackway air examples/scenarios/manet-chain5.toml --join '*=air:*'   # in the namespace air, interfaces n0, n1 ...
  trackway air examples/scenarios/manet-chain5.toml --join '*=*:wlan0' # in namespaces n0, n1 ..., each its wlan0
  trackway air examples/scenarios/manet-chain5.toml --join '*=*' --animate run.html    # a picture of it at the end
  trackway air examples/scenarios/tactical-squad.toml --join '*=*:cnr0' --timeline net.svg    # a combat net")]
pub struct Args {
    /// The scenario, a TOML file with a radio or a net; docs/guide/scenario.md says what may stand in it.
    pub scenario: PathBuf,

    /// A node of the scenario and its interface, in this network namespace or in a named one; * is every
    /// node, and stands for its name in the interface. Repeat it for others.
    #[arg(long, value_name = "NODE=[NETNS:]INTERFACE", required = true)]
    join: Vec<Join>,
    /// Which radio or net of the scenario, if it has several: its name.
    #[arg(long, value_name = "NAME")]
    radio: Option<String>,
    /// What back-offs and random motion derive from [default: the scenario's].
    #[arg(long)]
    pub seed: Option<u64>,
    /// End after this long: 10s. Without it, at Ctrl-C.
    #[arg(long)]
    pub duration: Option<Span>,
    #[command(flatten)]
    pub animate: Animate,
    #[command(flatten)]
    pub net: NetFiles,
    /// Print the statistics at the end as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What is written of a combat net.
#[derive(Clone, Debug, clap::Args)]
pub struct NetFiles {
    /// Write the packets on a net to net-N.pcapng in this folder, as `trackway sim run` does.
    #[arg(long, value_name = "DIR")]
    pub pcap: Option<PathBuf>,
    /// Draw who transmitted what and when on a net, at the end.
    #[arg(long, value_name = "FILE.svg")]
    pub timeline: Option<PathBuf>,
    /// Write what was on the air of a net, a JSON object in each line, as it happens.
    #[arg(long, value_name = "FILE.jsonl")]
    pub record: Option<PathBuf>,
}

impl NetFiles {
    fn are_wanted(&self) -> bool {
        self.pcap.is_some() || self.timeline.is_some() || self.record.is_some()
    }
}

/// One `--join`.
#[derive(Clone, Debug)]
struct Join {
    /// The node, or `*`.
    node: String,
    end: String,
}

/// A station with an interface.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The station's place in the scenario's radio or net.
    pub station: usize,
    pub node: String,
    pub end: End,
}

/// A channel of a scenario, by index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Channel {
    /// A combat net.
    Net(usize),
    /// A radio channel.
    Radio(usize),
}

/// The stations of a channel.
#[derive(Debug)]
pub struct Stations {
    pub channel: Channel,
    pub joined: Vec<Joined>,
    /// Nodes whose stations have no interface.
    pub silent: Vec<String>,
}

const ALL: &str = "*";

impl Args {
    /// Finds the channel, and the interface of each station.
    pub fn stations(&self, plan: &Plan) -> anyhow::Result<Stations> {
        let channel = self.channel(plan)?;
        let (mut joined, mut silent) = (Vec::new(), Vec::new());
        let nodes: Vec<usize> = match channel {
            Channel::Net(net) => plan.nets[net].stations.clone(),
            Channel::Radio(radio) => plan.radios[radio].stations.iter().map(|it| it.node).collect(),
        };
        let names = nodes.iter().map(|node| plan.nodes[*node].name.as_str());
        let names: Vec<&str> = names.collect();
        for join in &self.join {
            if join.node != ALL && !names.contains(&join.node.as_str()) {
                return Err(misuse(format_args!(
                    "--join {}={}: no station is called so; there are {}",
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
        Ok(Stations { channel, joined, silent })
    }

    fn channel(&self, plan: &Plan) -> anyhow::Result<Channel> {
        let file = self.scenario.display();
        let radios =
            plan.radios.iter().zip(0..).map(|(it, place)| (&it.name, Channel::Radio(place)));
        let nets = plan.nets.iter().zip(0..).map(|(it, place)| (&it.name, Channel::Net(place)));
        let all: Vec<(&Option<String>, Channel)> = radios.chain(nets).collect();
        let names = || {
            let name = |(name, _): &(&Option<String>, _)| match name {
                Some(name) => name.clone(),
                None => "(no name)".to_owned(),
            };
            all.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        let channel = match (&self.radio, &all[..]) {
            (_, []) => {
                return Err(misuse(format_args!(
                    "{file} has no radio: a table [[radio]] or [[net]] describes one, see docs/guide/scenario.md"
                )));
            }
            (None, [(_, only)]) => *only,
            (None, _) => {
                return Err(misuse(format_args!(
                    "{file} has several radios, {}: --radio NAME chooses one",
                    names()
                )));
            }
            (Some(name), all) => {
                let found = all.iter().find(|(other, _)| other.as_ref() == Some(name));
                let missing =
                    || misuse(format_args!("{file} has no radio \"{name}\", but {}", names()));
                found.ok_or_else(missing)?.1
            }
        };
        if matches!(channel, Channel::Radio(_)) && self.net.are_wanted() {
            return Err(misuse(
                "--pcap, --timeline and --record are for nets, and this is a [[radio]]: --animate shows it",
            ));
        }
        Ok(channel)
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
