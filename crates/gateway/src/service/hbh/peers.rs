//! Handles neighbours that come and go, for HBH.

use base::time::{Time, earliest};
use hbh::PeerConfig;
use hbh::neighbours::{self, Place};
use tracing::{debug, info};

use super::known::Known;
use super::orphans::Reason;
use super::{Hbh, SETTLE};
use crate::service::complaints::Subject;

impl Hbh {
    /// Acts on neighbours that came and went; `reason` is why neighbours went.
    pub fn take_neighbours(&mut self, now: Time, reason: Option<Reason>) -> anyhow::Result<()> {
        while let Some(event) = self.neighbours.poll_event() {
            self.take_neighbour(now, event, reason)?;
        }
        Ok(())
    }

    fn take_neighbour(
        &mut self,
        now: Time,
        event: neighbours::Event,
        reason: Option<Reason>,
    ) -> anyhow::Result<()> {
        match event {
            neighbours::Event::Up(place @ (position, mac), peer) => {
                let (Some(config), Some((ours, theirs))) =
                    (self.peer_config(place), self.neighbours.ends(place))
                else {
                    let what = "neighbour without an address of a version that we have";
                    self.complain_of(now, Subject::NoAddress, place, what);
                    return Ok(());
                };
                self.relay.add_peer(peer, config);
                let addresses = self.neighbours.addresses(place).to_vec();
                self.known.add(peer, Known { place, addresses, since: now });
                self.guard.add_peer(peer, ours, theirs);
                self.firewall.add_neighbour(position, mac);
                if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourUp) {
                    let interface = self.ports.name(position);
                    let address = config.remote;
                    info!(%address, station = %mac, %interface, left_out, "neighbour speaks HBH");
                }
                debug!(%mac, address = %config.remote, ?peer, "neighbour");
                self.reroute_at = earliest(self.reroute_at, Some(now + SETTLE));
                self.orphans.handle_up(now, place);
                self.give_back();
            }
            neighbours::Event::Down((position, mac), peer) => {
                if self.known.up(peer).is_some() {
                    self.firewall.remove_neighbour(position, mac);
                }
                if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourDown) {
                    let interface = self.ports.name(position);
                    let known = self.known.up(peer).and_then(|known| known.addresses.first());
                    let address = known.map(tracing::field::display);
                    let why = match reason {
                        Some(Reason::Known) => "it has said goodbye, or its interface is gone",
                        Some(Reason::Silence(_)) | None => "it is not heard any more",
                    };
                    info!(
                        address,
                        station = %mac,
                        %interface,
                        left_out,
                        "neighbour gone, {why}; what waits for it takes other ways, or goes as plain IP"
                    );
                }
                let mut orphans = Vec::new();
                self.relay.remove_peer(peer, |packet, from| orphans.push((packet.to_vec(), from)));
                self.known.remove(peer);
                self.guard.remove_peer(peer);
                self.adopt(now, orphans, reason.unwrap_or(Reason::Silence(peer)));
            }
            neighbours::Event::Disputed(place) => {
                let what = "a station claims an address of a neighbour and is reached by plain IP";
                self.complain_of(now, Subject::AddressDisputed, place, what);
            }
            neighbours::Event::Incompatible(place) => {
                let what = "a neighbour runs another profile of HBH and is reached by plain IP";
                self.complain_of(now, Subject::ProfileDiffers, place, what);
            }
            neighbours::Event::Measured(peer, report) => {
                self.relay.handle_link_report(peer, report);
            }
            neighbours::Event::Misplaced(place) => {
                let what = "a station claims an address that `neighbours` gives to another";
                self.complain_of(now, Subject::AddressMisplaced, place, what);
            }
        }
        Ok(())
    }

    pub fn peer_config(&self, place @ (position, _): Place) -> Option<PeerConfig> {
        let port = self.ports.get(position)?;
        let theirs = self.neighbours.addresses(place);
        let (local, remote) = port.state.addresses.iter().find_map(|&local| {
            let remote = theirs.iter().find(|remote| remote.is_ipv4() == local.is_ipv4());
            remote.map(|&remote| (local, remote))
        })?;
        let link = hbh::Link(u32::try_from(position).ok()?);
        let mtu = port.state.mtu.saturating_sub(self.guard.overhead());
        Some(PeerConfig { link, local, remote, mtu })
    }
}
