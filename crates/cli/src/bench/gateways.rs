//! Two gateways with a tunnel between them, in namespaces.

use std::fs;
use std::process::Stdio;

use gateway::keys::{self, System};
use tunnel::secure::PrivateKey;

use super::namespaces::{Namespaces, this_program};

/// The configuration for one end of a tunnel.
pub struct Gateway {
    /// The position of its namespace.
    pub(super) namespace: usize,
    /// Where its peer calls it.
    pub(super) outside: String,
    /// Its address in the tunnel's network of 24 bits.
    pub(super) inside: String,
    /// The network behind the gateway, with its prefix length.
    pub(super) behind: Option<String>,
}

/// Starts both with fresh keys; the positions of the programs.
pub fn start(nets: &mut Namespaces, ends: &[Gateway; 2]) -> anyhow::Result<[usize; 2]> {
    let secrets = [PrivateKey::generate(&mut System)?, PrivateKey::generate(&mut System)?];
    let program = this_program()?;
    let mut programs = [0; 2];
    for (number, here) in ends.iter().enumerate() {
        let there = &ends[1 - number];
        let key = nets.folder.join(format!("{number}.key"));
        let _ = fs::remove_file(&key);
        keys::write_new(&key, &secrets[number].to_base64())?;
        let mut routes = format!("\"{}/32\"", there.inside);
        if let Some(behind) = &there.behind {
            routes += &format!(", \"{behind}\"");
        }
        let config = format!(
            "log = \"warn\"\n\
             [tunnel]\n\
             private-key = {key:?}\n\
             addresses = [\"{}/24\"]\n\
             [[tunnel.peer]]\n\
             name = \"peer\"\n\
             public-key = \"{}\"\n\
             endpoint = \"{}:51900\"\n\
             routes = [{routes}]\n",
            here.inside,
            secrets[1 - number].public_key(),
            there.outside,
        );
        let file = nets.folder.join(format!("{number}.toml"));
        fs::write(&file, config)?;
        let name = nets.names[here.namespace].clone();
        let command = ["netns", "exec", &name, &program, "run", &file.to_string_lossy()];
        programs[number] = nets.start(&command, Stdio::null())?;
    }
    Ok(programs)
}
