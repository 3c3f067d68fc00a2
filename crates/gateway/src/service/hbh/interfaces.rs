//! MANET interfaces that come and go, by the kernel's word or another configuration's.

use std::time::Duration;

use anyhow::Context as _;
use base::ethernet::Mac;
use base::time::{Time, earliest};
use host::links::{self, LinkState};
use nix::libc;
use tracing::{info, warn};

use super::port::Port;
use super::release::Release;
use super::{Hbh, SETTLE, ports};
use crate::config::{self, Config};
use crate::service::Reload;
use crate::service::complaints::Subject;

/// Between two looks for absent interfaces.
const RETRY: Duration = Duration::from_secs(2);

impl Hbh {
    /// An interface is there and was opened.
    pub fn put(&mut self, now: Time, position: usize, port: Port) {
        let interface = port.interface();
        self.ports.put(position, port);
        let takes_datagrams = self.ports.iter().all(|(_, port)| port.tap().takes_datagram_trains());
        self.release.flush(&self.ports, &mut self.counters);
        self.release = Release::new(takes_datagrams);
        self.host.handle_interface(now, position, Some(interface));
    }

    /// Lets go of an interface, to look for it again.
    pub fn lose(&mut self, now: Time, position: usize, why: &str) {
        warn!(interface = %self.ports.name(position), %why, "interface lost: it is waited for");
        self.let_go(now, position, why);
        self.expect_absent(now);
    }

    /// Schedules the next look for absent interfaces.
    pub fn expect_absent(&mut self, now: Time) {
        self.retry_at = (!self.ports.absent().is_empty()).then_some(now + RETRY);
    }

    /// Opens the absent interfaces that have appeared.
    pub fn find_absent(&mut self, now: Time) {
        for (position, name) in self.ports.absent() {
            match ports::open(&mut self.kernel, &self.config, position, &name) {
                Ok(port) => {
                    self.firewall.attach(position, &name, &ports::device(position));
                    self.put(now, position, port);
                    info!(interface = %name, "interface is back");
                }
                Err(why) => {
                    let why = format!("{why:#}");
                    if self.ports.take_away(position, &why) {
                        info!(interface = %name, %why, "interface is waited for");
                    }
                }
            }
        }
        self.expect_absent(now);
    }

    /// Takes what the kernel says has changed of links, addresses and routes.
    ///
    /// # Errors
    /// When the kernel cannot be asked any more.
    pub fn take_changes(&mut self, now: Time) -> anyhow::Result<()> {
        let (mut changes, mut has_links, mut has_own) = (0, false, false);
        let mut concerned = 0_u32;
        let ports = &self.ports;
        let is_lossy = self.changes.read(usize::MAX, |message| {
            changes += 1;
            let Some(index) = links::subject(message) else { return };
            has_links = true;
            has_own |= ports.iter().any(|(_, port)| port.has_device(index));
            if let Some(position) = ports.with_index(index) {
                concerned |= 1 << position;
            }
        });
        if is_lossy {
            (concerned, has_links, has_own) = (u32::MAX, true, true);
        }
        self.counters.route_changes += changes;
        self.host.handle_route_change(now);
        if has_own {
            self.keep_at = earliest(self.keep_at, Some(now + SETTLE));
        }
        for position in self.ports.positions() {
            if concerned & (1 << position) != 0 {
                self.look_at(now, position)?;
            }
        }
        if has_links {
            self.host.handle_addresses(self.observer.addresses());
        }
        if has_links && self.retry_at.is_some() {
            self.find_absent(now);
        }
        Ok(())
    }

    /// Restores our devices if somebody has changed them: a device that is switched off, or in another namespace, loses
    /// the kernel's packets without a word. A deleted device is noticed when we read from it, too.
    pub fn keep_devices(&mut self, now: Time) {
        self.keep_at = None;
        let mut gone = Vec::new();
        for (position, port) in self.ports.iter() {
            let outcome = port.keep_device(&mut self.kernel);
            if matches!(outcome, Ok(false)) {
                continue;
            }
            if let Err(error) = &outcome
                && error.raw_os_error() == Some(libc::ENODEV)
            {
                gone.push(position);
                continue;
            }
            if let Some(left_out) = self.complaints.admit(now, Subject::Device) {
                let (interface, error) =
                    (port.name(), outcome.err().map(|error| error.to_string()));
                warn!(%interface, error, left_out, "somebody has changed our device: it is made as it was");
            }
        }
        for position in gone {
            self.lose(now, position, "its device is gone");
        }
    }

    /// Checks the state of an interface.
    fn look_at(&mut self, now: Time, position: usize) -> anyhow::Result<()> {
        let Some(port) = self.ports.get_mut(position) else { return Ok(()) };
        let state = LinkState::read(&mut self.kernel, port.name())?;
        match port.set_state(state) {
            Ok(()) => {
                let interface = port.interface();
                self.host.handle_interface(now, position, Some(interface));
            }
            Err(why) => self.lose(now, position, why),
        }
        Ok(())
    }

    /// Tells the neighbours on an interface that we leave it, if it can still send.
    pub fn say_goodbye(&mut self, now: Time, position: usize) {
        let Some(port) = self.ports.get_mut(position) else { return };
        for hello in self.host.goodbyes(now, position) {
            port.push(Mac::EVERYONE, &hello);
        }
        port.flush(&mut self.counters);
    }

    /// Forgets an interface: its neighbours, rules and device.
    fn let_go(&mut self, now: Time, position: usize, why: &str) {
        if self.ports.get(position).is_some() {
            // From the former hardware address, too, if that is what has changed.
            self.say_goodbye(now, position);
            self.host.handle_interface(now, position, None);
            self.settle(now);
            self.firewall.detach(position);
        }
        self.ports.take_away(position, why);
    }

    /// Takes another configuration: interfaces come and go, and most parameters change, while neighbours stay up.
    ///
    /// # Errors
    /// When a new interface is absent.
    pub fn follow(&mut self, now: Time, config: &Config) -> anyhow::Result<Reload> {
        let config = config.hbh.as_ref().context("no section [hbh]")?;
        let is_new = |name: &&String| self.ports.with_name(name).is_none();
        let come: Vec<_> = config.interfaces.iter().filter(is_new).cloned().collect();
        for name in &come {
            if LinkState::read(&mut self.kernel, name)?.and_then(|state| state.mac).is_none() {
                anyhow::bail!(
                    "there is no Ethernet-like interface {name}: `ip link` lists those that exist"
                );
            }
        }
        let key = config.read_group_key().context("group-key")?;
        if !self.config.can_become(config) || !self.host.has_key(key.as_ref()) {
            return Ok(Reload::Restart);
        }

        let mut changes = Vec::new();
        for position in self.ports.positions() {
            let name = self.ports.name(position).to_owned();
            if !name.is_empty() && !config.interfaces.contains(&name) {
                self.let_go(now, position, "it is not asked for");
                self.ports.remove(position);
                changes.push(format!("interface {name} left"));
            }
        }
        for name in come {
            self.ports.add(&name);
            changes.push(format!("interface {name} added"));
        }
        let keys = self.config.changed_keys(config);
        if !keys.is_empty() {
            let config::Hbh { core, hello, intercept, .. } = config;
            let times = (hello.interval, hello.hold);
            self.host.set_config(now, *core, times, intercept.clamp_mss);
            changes.push(format!("{} changed", keys.join(", ")));
        }
        self.config = config.clone();
        self.find_absent(now);
        Ok(Reload::Taken(changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_followed_does_not_disturb_neighbours() {
        let read = |more: &str| {
            let text = format!("[hbh]\ninterfaces = [\"eth0\"]\n{more}");
            Config::parse("a.toml", &text).unwrap().hbh.unwrap()
        };
        let before = read("");

        for others in [
            "[[rule]]\nname = \"all\"\nblock = \"reset\"\n",
            "[hfpep]\nstreams = 7\n",
            "[s5066]\naddress = \"0.0.0.1\"\nmodem = \"127.0.0.1:3000\"\nwaveform = \"9600/short\"\n",
            "[[gre]]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\nto = [\"10.9.0.0/16\"]\n",
        ] {
            assert_eq!(before, read(others), "{others}");
        }
        for (followed, keys) in [
            ("queue = 300\nrto.minimum = \"3ms\"\n", vec!["queue", "rto.minimum"]),
            ("hello.hold = \"9s\"\n", vec!["hello.hold"]),
            ("intercept.clamp-mss = false\n", vec!["intercept.clamp-mss"]),
            ("", Vec::new()),
        ] {
            let after = read(followed);
            assert!(before.can_become(&after), "{followed}");
            assert_eq!(before.changed_keys(&after), keys, "{followed}");
            assert_eq!(after.changed_keys(&before), keys, "{followed}");
        }
        for anew in [
            "profile = \"paper\"\n",
            "protocol = 254\n",
            "neighbours = [\"10.0.0.2\"]\n",
            "intercept.plain-udp = [5000]\n",
            "limits.neighbours = 10\n",
        ] {
            assert!(!before.can_become(&read(anew)), "{anew}");
        }
    }
}
