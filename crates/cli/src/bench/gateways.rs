//! Two gateways with a tunnel between them, in namespaces.

use testbed::Namespaces;

/// The configuration for one end of a tunnel.
pub struct Gateway {
    /// The gateway's namespace.
    pub namespace: String,
    /// The address that the peer connects to.
    pub outside: String,
    /// The gateway's address in the tunnel's network of 24 bits.
    pub inside: String,
    /// The network behind the gateway, with its prefix length.
    pub behind: Option<String>,
}

/// Starts both gateways with fresh keys; returns the numbers of the programs.
pub fn start(nets: &mut Namespaces, ends: &[Gateway; 2]) -> anyhow::Result<[usize; 2]> {
    let mut keys = Vec::new();
    for number in [0, 1] {
        keys.push(nets.make_key(&format!("{number}.key"))?);
    }
    let mut programs = [0; 2];
    for (number, here) in ends.iter().enumerate() {
        let (there, key, public) = (&ends[1 - number], &keys[number].0, &keys[1 - number].1);
        let mut routes = format!("\"{}/32\"", there.inside);
        if let Some(behind) = &there.behind {
            routes += &format!(", \"{behind}\"");
        }
        let config = format!(
            "[tunnel]\n\
             private-key = {key:?}\n\
             addresses = [\"{}/24\"]\n\
             [[tunnel.peer]]\n\
             name = \"peer\"\n\
             public-key = \"{public}\"\n\
             endpoint = \"{}:51900\"\n\
             routes = [{routes}]\n",
            here.inside, there.outside,
        );
        programs[number] = nets.start_gateway(&here.namespace, &number.to_string(), &config)?;
    }
    Ok(programs)
}
