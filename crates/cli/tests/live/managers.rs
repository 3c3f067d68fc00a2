//! Starts programs that manage a host, as a distribution would: in a network namespace, with files of their own.

use std::fs;

use crate::namespaces::{Namespaces, Program, is_installed};

/// As an administrator would write it who has never heard of us: the second file fits our devices too.
const NETWORKD: &str = "\
mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/network && cd /run/systemd/network || exit
mount -o remount,ro,bind /sys
printf '[Match]\\nName=eth1\\n[Network]\\nAddress=10.9.0.1/24\\nLinkLocalAddressing=no\\nIPv6AcceptRA=no\\n\
[Route]\\nDestination=10.55.0.0/16\\nGateway=10.9.0.2\\n' > 10-eth1.network
printf '[Match]\\nName=*\\n[Network]\\nAddress=10.98.0.1/24\\nLinkLocalAddressing=no\\n' > 20-all.network
exec /lib/systemd/systemd-networkd
";

/// Reloads, and trusts the interfaces of a site, once there are files of these names.
const FIREWALLD: &str = "\
mount -t tmpfs tmpfs /run/dbus && mount -t tmpfs tmpfs /etc/firewalld && mkdir /etc/firewalld/zones || exit
trap 'kill $(jobs -p); wait; exit' TERM
dbus-daemon --system --nofork --nopidfile &
until [ -S /run/dbus/system_bus_socket ]; do sleep 0.1; done
firewalld --nofork --nopid --log-file FOLDER/firewalld.log &
until firewall-cmd --state 2> /dev/null; do sleep 0.2; done
until [ -e FOLDER/reload ]; do sleep 0.1; done
firewall-cmd --reload; echo reloaded
until [ -e FOLDER/open ]; do sleep 0.1; done
for name in eth1 lan0 trackway-gre0; do firewall-cmd --zone=trusted --change-interface=$name; done; echo opened
wait
";

/// `systemd-networkd`; `None` where it is not installed.
pub fn networkd(nets: &Namespaces, host: &str) -> Option<Program> {
    is_installed("/lib/systemd/systemd-networkd", "systemd")
        .then(|| script(nets, host, "networkd", NETWORKD))
}

/// `firewalld`; `None` where it is not installed.
pub fn firewalld(nets: &Namespaces, host: &str) -> Option<Program> {
    let is_there = is_installed("/usr/sbin/firewalld", "firewalld")
        && is_installed("/usr/bin/dbus-daemon", "dbus");
    is_there.then(|| script(nets, host, "firewalld", FIREWALLD))
}

/// Runs a script in a namespace, with mounts of its own; `FOLDER` stands for the folder of the set.
pub fn script(nets: &Namespaces, host: &str, name: &str, text: &str) -> Program {
    let folder = nets.folder();
    let file = folder.join(name);
    fs::write(&file, text.replace("FOLDER", folder.to_str().unwrap())).unwrap();
    let words = ["unshare", "-m", "bash", file.to_str().unwrap()];
    Program::start(&mut nets.words(host, &words), name).unwrap()
}
