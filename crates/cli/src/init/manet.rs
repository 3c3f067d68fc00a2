//! Radios that move: routing, and HBH on its routes.

use super::Out;
use super::folder::{Folder, advise};
use super::hbh::{ask_interface, copies, group_key, section};

/// Radios that move: OLSR finds routes, and HBH repairs each hop; the same file and key on every node.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway init manet --interface wlan0 --out node")]
pub struct Args {
    /// The radio's interface on each node, with an IPv4 address.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The routing protocol.
    #[arg(long, default_value = "olsr", value_parser = ["olsr", "dsdv"])]
    protocol: String,
    #[command(flatten)]
    out: Out,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let interface = ask_interface(self.interface)?;
        let protocol = &self.protocol;
        let mut folder = Folder::new(&self.out.folder);
        folder.secret("group.key", &group_key()?);
        folder.config(
            "gateway.toml",
            &format!(
                "# A node of a network of radios that move: the same on all nodes. docs/guide/routing.md.\n\n\
                 [routing]\nprotocol = \"{protocol}\"              # nodes tell each other what they hear\n\
                 interfaces = [{interface:?}]\n\n{}",
                section(&interface)
            ),
        );
        folder.write()?;
        let copies = copies(&self.out);
        advise(&format!(
            "{copies}`ip route` shows routes to all nodes that are reached, within some 10 s.\n"
        ))
    }
}
