//! Acts on neighbours that come and go: rules of the firewall, and lines for an operator.

use std::time::Duration;

use base::time::Time;
use hbh::hello::Malformed;
use hbh::host::{Event, Reason};
use hbh::neighbours::{Departure, Place};
use host::links;
use tracing::{debug, info, warn};

use super::Hbh;
use crate::service::complaints::Subject;

/// Between two looks at the kernel's neighbours.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Hbh {
    /// Does what HBH says.
    pub fn take_events(&mut self, now: Time) {
        while let Some(event) = self.host.poll_event() {
            match event {
                Event::Up { place: (position, mac), address } => {
                    self.firewall.add_neighbour(position, mac);
                    self.tell_kernel((position, mac));
                    if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourUp) {
                        let interface = self.ports.name(position);
                        info!(%address, station = %mac, %interface, left_out, "neighbour speaks HBH");
                    }
                    debug!(%mac, %address, "neighbour");
                }
                Event::Down { place: (position, mac), address, why } => {
                    self.firewall.remove_neighbour(position, mac);
                    if let Some(left_out) = self.complaints.admit(now, Subject::NeighbourDown) {
                        let interface = self.ports.name(position);
                        let address = address.map(tracing::field::display);
                        let why = match why {
                            Departure::Ended => "its host speaks no HBH any more",
                            Departure::Goodbye => "it has said goodbye",
                            Departure::Lost => "it is not heard any more, or its interface is gone",
                        };
                        info!(
                            address,
                            station = %mac,
                            %interface,
                            left_out,
                            "neighbour gone, {why}; what waits for it takes other ways, or goes as plain IP"
                        );
                    }
                }
                Event::GaveUp { peer, packets } => debug!(?peer, packets, "gave up"),
                Event::Plain(place, reason) => {
                    let (subject, what) = match reason {
                        Reason::Disputed => (
                            Subject::AddressDisputed,
                            "a station claims an address of a neighbour and is reached by plain IP",
                        ),
                        Reason::Incompatible => (
                            Subject::ProfileDiffers,
                            "a neighbour runs another profile of HBH and is reached by plain IP",
                        ),
                        Reason::Misplaced => (
                            Subject::AddressMisplaced,
                            "a station claims an address that `neighbours` gives to another",
                        ),
                        Reason::NoAddress => (
                            Subject::NoAddress,
                            "neighbour without an address of a version that we have",
                        ),
                    };
                    self.complain_of(now, subject, place, what);
                }
            }
        }
    }

    /// When to ask the kernel which stations it sends to, if HBH has to know.
    pub fn next_hops_due(&self) -> Option<Time> {
        self.host.neighbours().needs_next_hops().then_some(self.next_hops_at)
    }

    /// Tells HBH to which stations the kernel sends packets past it.
    pub fn take_next_hops(&mut self, now: Time) {
        self.next_hops_at = now + LOOK_INTERVAL;
        match links::neighbours(&mut self.kernel, links::IN_USE) {
            Ok(in_use) => {
                for (index, _, station) in in_use {
                    if let Some(position) = self.ports.with_index(index) {
                        self.host.handle_next_hop(now, (position, station));
                    }
                }
            }
            Err(error) => debug!(%error, "the kernel does not tell its neighbours"),
        }
    }

    /// Lets the kernel send to a neighbour where it is, if the kernel knows it by a former hardware address: otherwise
    /// packets would go there for half a minute, and past HBH.
    fn tell_kernel(&mut self, place: Place) {
        let Some(port) = self.ports.get(place.0) else { return };
        for &address in self.host.neighbours().addresses(place) {
            let told = links::move_neighbour(&mut self.kernel, port.index(), address, place.1);
            if let Err(error) = told {
                debug!(%address, %error, "the kernel keeps the neighbour's former hardware address");
            }
        }
    }

    /// Says why the hello of a station does not count, unless that was said a moment ago.
    pub fn take_bad_hello(&mut self, now: Time, place: Place, why: Malformed) {
        let (subject, what) = match why {
            Malformed::Forged => {
                (Subject::HelloForged, "a station without the group key forges hellos")
            }
            Malformed::Keyed => {
                (Subject::KeyDiffers, "a neighbour uses a group key, and we have none")
            }
            Malformed::Keyless | Malformed::OtherKey => (
                Subject::KeyDiffers,
                "a neighbour uses another group key or none, and is reached by plain IP",
            ),
            Malformed::Version(_) => (
                Subject::VersionDiffers,
                "a neighbour speaks another version of HBH and is reached by plain IP",
            ),
            Malformed::Family(_)
            | Malformed::Checksum
            | Malformed::Kind
            | Malformed::Profile(_)
            | Malformed::TooMany
            | Malformed::Trailing { .. }
            | Malformed::Truncated { .. } => {
                debug!(station = %place.1, %why, "hello");
                return;
            }
        };
        self.complain_of(now, subject, place, what);
    }

    /// Logs a line provoked by a station, unless a line of the same kind was written a moment ago.
    fn complain_of(&mut self, now: Time, subject: Subject, (position, mac): Place, what: &str) {
        if let Some(left_out) = self.complaints.admit(now, subject) {
            let interface = self.ports.name(position);
            warn!(%interface, left_out, "{what}");
            debug!(%mac, "{what}");
        }
    }
}
