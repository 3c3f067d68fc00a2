//! Lists a service's routes and rules in the kernel, and packets that leave another way.

use ::gateway::sys::port::{OFFLOAD, Port};

use crate::namespaces::Namespaces;

impl Namespaces {
    /// All routes and rules with this protocol number, the mark of a service.
    pub fn claimed(&self, host: &str, protocol: u8) -> String {
        let mark = format!("proto {protocol}");
        let routes = ["-4", "-6"]
            .map(|version| self.run(host, &format!("ip {version} route show table all {mark}")));
        let rules = ["-4", "-6"].map(|version| self.run(host, &format!("ip {version} rule")));
        let ours = rules.iter().flat_map(|rules| rules.lines()).filter(|it| it.contains(&mark));
        routes.concat() + &ours.map(|rule| format!("{rule}\n")).collect::<String>()
    }

    /// Pings these addresses from a host, twice each, and returns how many of the echoes came to an
    /// interface of another as they are.
    pub fn clear(&self, host: &str, beyond: (&str, &str), addresses: &[&str]) -> usize {
        let (beyond, interface) = beyond;
        let port = self.within(beyond, || Port::open(interface).unwrap());
        for address in addresses {
            self.try_run(host, &format!("ping -c 2 -i 0.1 -W 1 {address}"));
        }
        let mut frame = vec![0; 1 << 16];
        let mut clear = 0;
        while let Ok(Some(received)) = port.receive(&mut frame) {
            let packet = &frame[OFFLOAD + 14..received.len];
            let (protocol, kind) = match packet[0] >> 4 {
                4 => (packet[9], packet[20]),
                6 => (packet[6], packet[40]),
                _ => continue,
            };
            clear += usize::from(matches!((protocol, kind), (1, 8) | (58, 128)));
        }
        clear
    }
}
