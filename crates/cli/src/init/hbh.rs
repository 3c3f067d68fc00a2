//! Radios that lose packets: HBH on every node.

use anyhow::Context as _;
use base::keys::GroupSecret;
use gateway::keys::System;

use super::Out;
use super::folder::{Folder, advise};
use super::question::Question;

/// Radios that lose packets: hop-by-hop reliability, the same file and key on every node.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  trackway init hbh --interface wlan0 --out node")]
pub struct Args {
    /// The radio's interface on each node.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    #[command(flatten)]
    out: Out,
}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let interface = ask_interface(self.interface)?;
        let mut folder = Folder::new(&self.out.folder);
        folder.secret("group.key", &group_key()?);
        folder.config(
            "gateway.toml",
            &format!(
                "# A node of a radio network: the same on all nodes. docs/guide/gateway.md.\n\n{}",
                section(&interface)
            ),
        );
        folder.write()?;
        advise(&copies(&self.out))
    }
}

/// Asks for the radio's interface.
pub fn ask_interface(given: Option<String>) -> anyhow::Result<String> {
    let words = "Which interface is the radio, such as wlan0?";
    Question { flag: "interface", words, usual: None }.ask(given)
}

/// A new secret of a group.
pub fn group_key() -> anyhow::Result<String> {
    Ok(GroupSecret::generate(&mut System).context("cannot make a key")?.to_base64())
}

/// The section for an interface.
pub fn section(interface: &str) -> String {
    format!(
        "[hbh]\ninterfaces = [{interface:?}]          # where neighbours speak HBH\n\
         group-key = \"group.key\"         # who may: nodes with this key; others are reached by plain IP\n"
    )
}

/// Advice about files that are the same for all nodes.
pub fn copies(out: &Out) -> String {
    let copied = super::there(out.folder.display(), "NODE");
    format!(
        "To every node, this one too (group.key is the network's secret):\n\n  {copied}\n\n\
         Then: sudo trackway status hbh lists the neighbours. `trackway doctor` says what a host lacks.\n"
    )
}
