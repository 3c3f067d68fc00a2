//! Lists what may drop packets of services and is not judged: it is named, with the command that shows it.

use crate::firewalls::{Firewalls, ask};

/// Objects of each kind that are named at most.
const MOST: usize = 4;

/// Possible droppers of packets, each with a command to show it.
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
            "let packets of services be tracked, or pass the second rule".to_owned(),
        ));
    }
    all.extend(policies(&said("ip", &["xfrm", "policy"])));
    all.extend(programs(&said("ip", &["-o", "link", "show"])));
    for (device, side) in filtered(&said("tc", &["qdisc", "show"])) {
        let words = ["filter", "show", "dev", &device, side];
        if drops(&said("tc", &words)) {
            all.push((
                format!("a filter of traffic control at the {side} of {device} may drop packets"),
                format!("`tc {}` shows it", words.join(" ")),
            ));
        }
    }
    all
}

/// What a program says; nothing where it is missing or refuses.
fn said(program: &str, arguments: &[&str]) -> String {
    let answer = ask(program, arguments, "").and_then(|answer| answer.success());
    answer.map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
}

/// Policies of IPsec, by the output of `ip xfrm policy`: each begins with its selector, and the other lines are indented.
/// Policies of sockets, which `ip` lists too, concern their own sockets alone.
fn policies(said: &str) -> Option<(String, String)> {
    let mut selectors = Vec::new();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let is_of_socket =
            lines.peek().is_some_and(|next| next.trim_start().starts_with("socket "));
        if line.starts_with("src ") && !is_of_socket {
            selectors.push(line.trim());
        }
    }
    selectors.dedup();
    let more = if selectors.len() > MOST { ", …" } else { "" };
    selectors.truncate(MOST);
    (!selectors.is_empty()).then(|| {
        (
            format!(
                "policies of IPsec encrypt or block packets that they select: {}{more}",
                selectors.join(", ")
            ),
            "`ip xfrm policy` shows them".to_owned(),
        )
    })
}

/// Interfaces with an XDP program, by the output of `ip -o link show`.
fn programs(said: &str) -> Vec<(String, String)> {
    let has = said.lines().filter(|line| line.contains(" xdp") || line.contains("prog/xdp"));
    let names = has.filter_map(|line| line.split(": ").nth(1)?.split('@').next());
    let names = names.filter(|name| !name.starts_with("trackway")).take(MOST);
    names
        .map(|name| {
            (
                format!("an XDP program sees what comes by {name} first, and may drop it"),
                format!("`ip link show {name}` shows it"),
            )
        })
        .collect()
}

/// Interfaces that are not ours and can have filters, and the sides, by the output of `tc qdisc show`.
fn filtered(said: &str) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    for line in said.lines() {
        let mut words = line.split_whitespace();
        let kind = words.nth(1);
        let Some(device) = words.skip_while(|word| *word != "dev").nth(1) else { continue };
        let sides: &[_] = match kind {
            Some("clsact") => &["ingress", "egress"],
            Some("ingress") => &["ingress"],
            _ => continue,
        };
        if !device.starts_with("trackway") {
            all.extend(sides.iter().map(|side| (device.to_owned(), *side)));
        }
    }
    all.truncate(2 * MOST);
    all
}

/// Whether filters may drop packets, by the output of `tc filter show`: programs decide for themselves.
fn drops(said: &str) -> bool {
    said.contains("action drop") || said.contains(" bpf ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_ipsec_are_named_by_their_selectors() {
        let said = "src 10.1.0.0/16 dst 10.2.0.0/16 \n\tdir out action block priority 0 \n\
                    src 0.0.0.0/0 dst 0.0.0.0/0 \n\tsocket in priority 0 ptype main \n";

        let (what, _) = policies(said).unwrap();
        assert!(what.ends_with(": src 10.1.0.0/16 dst 10.2.0.0/16"), "{what}");
        assert_eq!(policies(""), None);
    }

    #[test]
    fn programs_of_interfaces_are_named() {
        let said = "1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue\n\
                    2: eth0@if3: <BROADCAST,UP> mtu 1500 xdpgeneric qdisc noqueue\\    prog/xdp id 9 tag 3b\n";

        let named: Vec<_> = programs(said).into_iter().map(|(_, how)| how).collect();
        assert_eq!(named, ["`ip link show eth0` shows it"]);
    }

    #[test]
    fn filters_that_drop_are_told_from_others() {
        let said = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc clsact ffff: dev eth0 parent ffff:fff1 \n\
                    qdisc ingress ffff: dev eth1 parent ffff:fff1 ---------------- \n\
                    qdisc clsact ffff: dev trackway0 parent ffff:fff1 \n";

        let expected = [("eth0", "ingress"), ("eth0", "egress"), ("eth1", "ingress")];
        assert_eq!(filtered(said), expected.map(|(name, side)| (name.to_owned(), side)));
        assert!(drops("filter protocol ip u32\n\taction order 1: gact action drop\n"));
        assert!(!drops("filter protocol ip u32\n\taction order 1: gact action pass\n"));
    }
}
