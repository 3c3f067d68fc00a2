//! Two sites with HF modems: a node on each, and TCP between them by HF-PEP.

use std::net::SocketAddr;

use hf::s5066::Address;

use super::Out;
use super::folder::{Folder, advise};
use super::hbh::group_key;
use super::question::{Networks, Question};
use crate::failure::misuse;

/// Two sites with HF modems: a STANAG 5066 node on each modem, and TCP by HF-PEP, for members of a group.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  trackway init hf --modem-here 192.0.2.7:3000 --modem-there 192.0.2.8:3000 \\
      --networks-here 10.1.0.0/16 --networks-there 10.2.0.0/16 --out hf")]
pub struct Args {
    /// This end's modem.
    #[arg(long, value_name = "IP:PORT")]
    modem_here: Option<SocketAddr>,
    /// The other end's modem: host and port.
    #[arg(long, value_name = "IP:PORT")]
    modem_there: Option<SocketAddr>,
    /// Networks behind this end, with commas between.
    #[arg(long, value_name = "NETWORKS")]
    networks_here: Option<Networks>,
    /// Networks behind the other end.
    #[arg(long, value_name = "NETWORKS")]
    networks_there: Option<Networks>,
    /// This node's address.
    #[arg(long, value_name = "W.X.Y.Z", default_value = "0.10.20.30")]
    node_here: Address,
    /// The address of the other end's node.
    #[arg(long, value_name = "W.X.Y.Z", default_value = "0.10.20.31")]
    node_there: Address,
    /// What the modems transmit with: bits a second and interleaver.
    #[arg(long, default_value = "9600/short")]
    waveform: String,
    #[command(flatten)]
    out: Out,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        self.waveform
            .parse::<hf::modem::Waveform>()
            .map_err(|why| misuse(format!("--waveform: {why}")))?;
        let modem = |flag, words, given| Question { flag, words, usual: None }.ask(given);
        let here = modem(
            "modem-here",
            "Where is this end's modem, such as 192.0.2.7:3000?",
            self.modem_here,
        )?;
        let there = modem(
            "modem-there",
            "Where is the other end's modem, as it is reached there?",
            self.modem_there,
        )?;
        let networks = |flag, words, given| Question { flag, words, usual: None }.ask(given);
        let behind_here: Networks = networks(
            "networks-here",
            "Which networks are behind this end, such as 10.1.0.0/16?",
            self.networks_here,
        )?;
        let behind_there: Networks = networks(
            "networks-there",
            "Which networks are behind the other end, such as 10.2.0.0/16?",
            self.networks_there,
        )?;
        if self.node_here == self.node_there {
            return Err(misuse("--node-here and --node-there: both nodes have the same address"));
        }
        if let Some(both) = behind_here.0.iter().find(|network| behind_there.0.contains(network)) {
            return Err(misuse(format!(
                "{both} is behind both ends: take it out of --networks-here or --networks-there"
            )));
        }
        let key = group_key()?;
        let mut folder = Folder::new(&self.out.folder);
        for (name, own, modem, other, behind) in [
            ("a", self.node_here, here, self.node_there, &behind_there),
            ("b", self.node_there, there, self.node_here, &behind_here),
        ] {
            folder.secret(&format!("{name}/group.key"), &key);
            folder.config(
                &format!("{name}/gateway.toml"),
                &format!(
                    "# A STANAG 5066 node on an HF modem, and TCP to the networks behind the other node.\n\
                     # docs/guide/hf.md and docs/guide/hfpep.md explain all keys.\n\n\
                     [s5066]\naddress = \"{own}\"           # of this node\n\
                     modem = \"{modem}\"        # MIL-STD-188-110D, appendix A\n\
                     waveform = \"{}\"          # as the modem is set\n\n\
                     [hfpep]\ngroup-key = \"group.key\"           # both ends have the same; clocks differ by 5 minutes at most\n\n\
                     [[hfpep.peer]]\nnode = \"{other}\"\nto = {}          # whose TCP goes by the radio\n",
                    self.waveform,
                    behind.toml(&[]),
                ),
            );
        }
        folder.write()?;
        let at = self.out.folder.display();
        advise(&format!(
            "Here, and there by ssh as root (before the radio is the only way):\n\n  {}\n  {}\n\n\
             Then: curl a page behind the other end, and sudo trackway status. Without modems, `trackway hf` emulates\n\
             both and the channel.\n",
            super::here(format_args!("{at}/a")),
            super::there(format_args!("{at}/b"), "THERE"),
        ))
    }
}
