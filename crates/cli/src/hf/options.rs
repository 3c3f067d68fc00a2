//! The options of `trackway hf`, from the command line, a file, or both.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use base::ip::Prefix;
use base::quantity::Span;
use gateway::bearer::Allow;
use hf::modem::Waveform;
use hf::s5066::cas::Access;
use hf::s5066::{Address, node};
use sim::hf::{Channel, Timing};

use super::parameters::NodeParameters;
use super::radio::Radio;

/// Everything that may be left out.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    #[command(flatten)]
    radio: Radio,
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    modems: Modems,

    /// Let clients in from these networks: 192.0.2.0/24,2001:db8::/32. Without, from this host alone.
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',')]
    allow: Vec<Prefix>,
    /// What the random choices derive from; without it, another each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End after this long: 60s. Without it, at Ctrl-C.
    #[arg(long)]
    duration: Option<Span>,
    /// Write the frames that each node sends and receives to a.pcapng and b.pcapng in this folder.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Draw who transmitted what and when, at the end.
    #[arg(long, value_name = "FILE.svg")]
    timeline: Option<PathBuf>,
    /// Print the summary at the end as one JSON object.
    #[arg(long)]
    json: bool,
    /// Show traffic without other clients: 200 octets go from A to B and back, again and again; each round trip is told.
    #[arg(long)]
    talk: bool,
}

/// The two nodes, and what is the same of both.
#[derive(Clone, Debug, Default, clap::Args)]
struct Nodes {
    /// Node address of A [default: 0.10.20.30].
    #[arg(long, value_name = "W.X.Y.Z", help_heading = "Nodes")]
    address_a: Option<Address>,
    /// Node address of B [default: 0.10.20.31].
    #[arg(long, value_name = "W.X.Y.Z", help_heading = "Nodes")]
    address_b: Option<Address>,
    /// Where A serves clients [default: 127.0.0.1:5066].
    #[arg(long, value_name = "IP:PORT", help_heading = "Nodes")]
    sis_a: Option<SocketAddr>,
    /// Where B serves clients [default: 127.0.0.1:5067, in another namespace 127.0.0.1:5066].
    #[arg(long, value_name = "IP:PORT", help_heading = "Nodes")]
    sis_b: Option<SocketAddr>,
    /// The network namespace where A listens [default: this one].
    #[arg(long, value_name = "NAME", help_heading = "Nodes")]
    netns_a: Option<String>,
    /// The network namespace where B listens [default: this one].
    #[arg(long, value_name = "NAME", help_heading = "Nodes")]
    netns_b: Option<String>,
    /// Numbers of 8 bits only, as in Edition 3: Wireshark knows no others. Costs speed from 2400 bit/s.
    #[arg(long, help_heading = "Nodes")]
    short_numbers: bool,
    #[command(flatten)]
    parameters: NodeParameters,
}

/// Modems without nodes.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Modems {
    /// Only modems, for nodes elsewhere.
    #[arg(long, help_heading = "Modems alone")]
    modem_only: bool,
    /// Where modem A listens [default: 127.0.0.1:3000].
    #[arg(long, value_name = "IP:PORT", help_heading = "Modems alone")]
    modem_a: Option<SocketAddr>,
    /// Where modem B listens [default: 127.0.0.1:3001, in another namespace 127.0.0.1:3000].
    #[arg(long, value_name = "IP:PORT", help_heading = "Modems alone")]
    modem_b: Option<SocketAddr>,
}

/// Options that fit together.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub waveform: Waveform,
    pub channel: Channel,
    pub ends: [End; 2],
    pub is_modem_only: bool,
    pub allow: Allow,
    pub nodes: [node::Config; 2],
    pub seed: Option<u64>,
    pub duration: Option<Duration>,
    pub capture: Option<PathBuf>,
    pub timeline: Option<PathBuf>,
    pub is_json: bool,
    pub talks: bool,
}

/// One node, or one modem.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub address: Address,
    pub namespace: Option<String>,
    pub listen: SocketAddr,
}

const ADDRESSES: [Address; 2] = [Address::node(0x000a_141e), Address::node(0x000a_141f)];
/// The registered port of SIS, and the suggested port of modems; B uses the next port.
const SIS_PORT: u16 = 5_066;
const MODEM_PORT: u16 = 3_000;

impl Options {
    /// Fills options that are not given from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            radio: self.radio.or(other.radio),
            nodes: self.nodes.or(other.nodes),
            modems: self.modems.or(other.modems),
            allow: if self.allow.is_empty() { other.allow } else { self.allow },
            seed: self.seed.or(other.seed),
            duration: self.duration.or(other.duration),
            capture: self.capture.or(other.capture),
            timeline: self.timeline.or(other.timeline),
            json: self.json || other.json,
            talk: self.talk || other.talk,
        }
    }

    pub fn check(self) -> Result<Plan, String> {
        let waveform = self.radio.waveform()?;
        let channel = self.radio.channel()?;
        let nodes = self.nodes.check(waveform)?;
        let ends = listen_at(&self.nodes, &self.modems)?;
        if self.talk
            && (self.modems.modem_only
                || self.nodes.netns_a.is_some()
                || self.nodes.netns_b.is_some())
        {
            return Err(
                "--talk is for two nodes here: without --modem-only, --netns-a and --netns-b"
                    .to_owned(),
            );
        }
        let [a, b] = &nodes;
        let [at_a, at_b] = ends;
        Ok(Plan {
            waveform,
            channel,
            ends: [
                End { address: a.address, namespace: self.nodes.netns_a, listen: at_a },
                End { address: b.address, namespace: self.nodes.netns_b, listen: at_b },
            ],
            is_modem_only: self.modems.modem_only,
            allow: Allow::networks(self.allow),
            nodes,
            seed: self.seed,
            duration: self.duration.map(|span| span.0),
            capture: self.capture,
            timeline: self.timeline,
            is_json: self.json,
            talks: self.talk,
        })
    }
}

impl Nodes {
    fn or(self, other: Self) -> Self {
        Self {
            address_a: self.address_a.or(other.address_a),
            address_b: self.address_b.or(other.address_b),
            sis_a: self.sis_a.or(other.sis_a),
            sis_b: self.sis_b.or(other.sis_b),
            netns_a: self.netns_a.or(other.netns_a),
            netns_b: self.netns_b.or(other.netns_b),
            short_numbers: self.short_numbers || other.short_numbers,
            parameters: self.parameters.or(other.parameters),
        }
    }

    fn check(&self, waveform: Waveform) -> Result<[node::Config; 2], String> {
        let mut node = Timing::default().station(ADDRESSES[0], waveform);
        self.parameters.apply(&mut node).map_err(|refused| {
            let options: Vec<String> = refused.names.iter().map(|it| format!("--{it}")).collect();
            format!("{}: {refused}", options.join(" and "))
        })?;
        let addresses = [self.address_a, self.address_b];
        let [a, b] = [0, 1].map(|end| addresses[end].unwrap_or(ADDRESSES[end]));
        for (address, name) in [(a, "a"), (b, "b")] {
            if address.is_group() {
                return Err(format!(
                    "--address-{name}: {address} is a group: 0.0.0.0 to 15.255.255.255 are not"
                ));
            }
        }
        if a == b {
            return Err(format!("--address-a and --address-b: both are {a}"));
        }
        node.extensions.long_numbers &= !self.short_numbers;
        Ok([(a, 0), (b, 1)].map(|(address, own)| {
            let mut node = node::Config { address, ..node.clone() };
            if let Access::Slotted { position, .. } = &mut node.access {
                *position = own;
            }
            node
        }))
    }
}

impl Modems {
    fn or(self, other: Self) -> Self {
        Self {
            modem_only: self.modem_only || other.modem_only,
            modem_a: self.modem_a.or(other.modem_a),
            modem_b: self.modem_b.or(other.modem_b),
        }
    }
}

/// Where the two ends listen: the nodes for clients, or modems alone for nodes.
fn listen_at(nodes: &Nodes, modems: &Modems) -> Result<[SocketAddr; 2], String> {
    let sis = ("sis", [nodes.sis_a, nodes.sis_b], SIS_PORT);
    let modem = ("modem", [modems.modem_a, modems.modem_b], MODEM_PORT);
    let ((name, own, port), unused, why) = if modems.modem_only {
        (modem, sis, "modems alone have no clients: --modem-only")
    } else {
        (sis, modem, "it is for --modem-only")
    };
    for (given, end) in unused.1.into_iter().zip(["a", "b"]) {
        if given.is_some() {
            return Err(format!("--{}-{end}: {why}", unused.0));
        }
    }
    let has_namespaces = nodes.netns_a != nodes.netns_b;
    let at = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let first = own[0].unwrap_or(at(port));
    let second = own[1].unwrap_or(at(if has_namespaces { port } else { port + 1 }));
    if first == second && !has_namespaces && first.port() != 0 {
        return Err(format!("--{name}-a and --{name}-b: both are {first}"));
    }
    Ok([first, second])
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn nothing_is_needed() {
        let plan = Options::default().check().unwrap();

        assert_eq!(plan.waveform.to_string(), "9600/short");
        assert_eq!(plan.channel, Channel::Clear);
        let listen = plan.ends.each_ref().map(|end| end.listen.to_string());
        assert_eq!(listen, ["127.0.0.1:5066", "127.0.0.1:5067"]);
    }

    #[test]
    fn the_example_is_valid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hf/hf.toml");

        let plan = file::read(path.as_ref()).unwrap().check().unwrap();

        assert_eq!(plan.waveform.bits_per_s(), 9_600);
    }

    #[test]
    fn the_command_line_counts_more_than_the_file() {
        let text = "speed = 300\nber = 1e-5\naddress-a = \"0.0.0.7\"\njson = true\n";
        let from_file = file::parse(text).unwrap();
        let given = Options {
            radio: Radio { snr: Some(12.0), speed: Some(600), ..Radio::default() },
            ..Options::default()
        };

        let plan = given.or(from_file).check().unwrap();

        assert_eq!(plan.waveform.bits_per_s(), 600);
        assert_eq!(plan.channel, Channel::Awgn { snr_db: 12.0 });
        assert_eq!(plan.ends[0].address.to_string(), "0.0.0.7");
        assert!(plan.is_json);
    }

    #[test]
    fn other_namespaces_have_the_port_of_their_own() {
        let options = Options {
            nodes: Nodes { netns_b: Some("b".to_owned()), ..Nodes::default() },
            ..Options::default()
        };
        let modems = Options {
            modems: Modems { modem_only: true, ..Modems::default() },
            ..Options::default()
        };

        let ends = options.check().unwrap().ends;
        let modems = modems.check().unwrap().ends.map(|end| end.listen.to_string());

        assert_eq!(ends[1].listen, ends[0].listen);
        assert_eq!(modems, ["127.0.0.1:3000", "127.0.0.1:3001"]);
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        for (text, expected) in [
            ("speed = 9601", "--speed: no 9601 bit/s"),
            ("speed = 300\ninterleaver = \"medium\"", "--speed: no 300 bit/s with medium"),
            ("ber = 0\nsnr = 3", "--ber and --snr: one of them"),
            ("fading = \"poor\"", "--fading needs --snr"),
            ("address-a = \"16.0.0.1\"", "--address-a: 16.0.0.1 is a group"),
            ("address-a = \"0.10.20.31\"", "--address-a and --address-b: both are 0.10.20.31"),
            ("sis-a = \"127.0.0.1:5067\"", "--sis-a and --sis-b: both are 127.0.0.1:5067"),
            ("modem-a = \"127.0.0.1:3000\"", "--modem-a: it is for --modem-only"),
            ("jitter = \"3s\"", "--jitter: it is for access = \"jitter\""),
            (
                "longest = \"9s\"\nlongest-beside-urgent = \"10s\"",
                "--longest-beside-urgent and --longest: longest-beside-urgent = \"10s\", longest",
            ),
            ("modem-only = true\nsis-b = \"127.0.0.1:1\"", "--sis-b: modems alone have no"),
        ] {
            let said = file::parse(text).unwrap().check().unwrap_err();
            assert!(said.starts_with(expected), "{said}\nnot\n{expected}");
        }
    }
}
