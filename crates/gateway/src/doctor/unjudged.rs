//! Lists what may drop packets and cannot be evaluated, each object with the command that shows it.

use crate::firewalls::{Firewalls, ask};

/// Limit on the objects listed of each kind.
const MOST: usize = 4;

/// Possible droppers of any packet, each with the command that shows it.
pub(crate) fn list(firewalls: &Firewalls) -> Vec<(String, String)> {
    let mut all: Vec<_> = firewalls
        .unjudged()
        .iter()
        .take(MOST)
        .map(|chain| {
            (
                format!("chain {chain} drops packets, and is not judged here"),
                format!("`nft list chain {chain}` shows it"),
            )
        })
        .collect();
    if let Some((untracks, drops)) = firewalls.drops_untracked() {
        all.push((
            format!(
                "{untracks} keeps packets from connection tracking, and {drops} drops by its state"
            ),
            "let the first rule spare packets of services, or the second rule accept them"
                .to_owned(),
        ));
    }
    all.extend(programs(&said("ip", &["-o", "link", "show"])));
    all
}

/// Possible droppers of some packets, each with the command that shows it.
pub(super) fn doubts(firewalls: &Firewalls) -> Vec<(String, String)> {
    let all = firewalls.doubts().into_iter().take(MOST);
    all.map(|culprit| {
        let shows = culprit.shown_by();
        (format!("{culprit} may drop packets"), format!("`{shows}` shows it"))
    })
    .collect()
}

/// The output of a program; empty if it fails.
fn said(program: &str, arguments: &[&str]) -> String {
    let answer = ask(program, arguments, "").and_then(|answer| answer.success());
    answer.map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
}

/// Interfaces with an XDP program, by the output of `ip -o link show`.
fn programs(said: &str) -> Vec<(String, String)> {
    let has = said.lines().filter(|line| line.contains(" xdp") || line.contains("prog/xdp"));
    let names = has.filter_map(|line| line.split(": ").nth(1)?.split('@').next());
    let names = names.filter(|name| !name.starts_with("trackway")).take(MOST);
    names
        .map(|name| {
            (
                format!(
                    "an XDP program on {name} sees all incoming packets first, and may drop them"
                ),
                format!("`ip link show {name}` shows it"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_interfaces_are_named() {
        let said = "1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue\n\
                    2: eth0@if3: <BROADCAST,UP> mtu 1500 xdpgeneric qdisc noqueue\\    prog/xdp id 9 tag 3b\n";

        let named: Vec<_> = programs(said).into_iter().map(|(_, how)| how).collect();
        assert_eq!(named, ["`ip link show eth0` shows it"]);
    }
}
