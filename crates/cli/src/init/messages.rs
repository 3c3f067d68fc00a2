//! Messages on a slow net: S/R on every host.

use std::net::{IpAddr, SocketAddr};

use super::Out;
use super::folder::{Folder, advise};
use super::question::{Question, expect_host, expect_two};

/// Messages on a slow net: each host keeps a message until its destination has it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  trackway init messages --here 10.9.0.1 --there 10.9.0.2 --out node"
)]
pub struct Args {
    /// This host's address on the net.
    #[arg(long, value_name = "IP")]
    here: Option<IpAddr>,
    /// Another host's address.
    #[arg(long, value_name = "IP")]
    there: Option<IpAddr>,
    #[command(flatten)]
    out: Out,
}

/// The registered port of MIL-STD-2045-47001.
const PORT: u16 = sar::PORT;

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let ask = |flag, words, given| Question { flag, words, usual: None }.ask(given);
        let here: IpAddr = ask("here", "What is this host's address on the net?", self.here)?;
        let there: IpAddr = ask("there", "What is the other host's address?", self.there)?;
        expect_host("--here", here)?;
        expect_host("--there", there)?;
        let [near, far] = [here, there].map(|it| SocketAddr::new(it, PORT));
        expect_two(near, far)?;
        let mut folder = Folder::new(&self.out.folder);
        for (name, own) in [("a", near), ("b", far)] {
            folder.config(
                &format!("{name}/gateway.toml"),
                &format!(
                    "# Messages for programs of this host, kept until they have arrived. docs/guide/sar-gateway.md.\n\n\
                     [sar]\nlisten = [\"{own}\"]    # UDP; open it in firewalls\n\
                     # lifetime = \"1day\"            # how long a message is tried\n\
                     # socket-group = \"adm\"         # who may send, besides root\n"
                ),
            );
        }
        folder.write()?;
        let at = self.out.folder.display();
        advise(&format!(
            "Here, and there by ssh as root:\n\n  {}\n  {}\n\n\
             Then there: sudo trackway receive 5000; here: sudo trackway send FILE {there} --port 5000\n",
            super::here(format_args!("{at}/a")),
            super::there(format_args!("{at}/b"), &there.to_string()),
        ))
    }
}
