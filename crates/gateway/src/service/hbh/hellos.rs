//! Logs stations whose hellos do not count, and why.

use base::time::Time;
use hbh::hello::Malformed;
use hbh::neighbours::Place;
use tracing::{debug, warn};

use super::Hbh;
use crate::service::complaints::Subject;

impl Hbh {
    /// Says why the hello of a station does not count, unless that was said a moment ago.
    pub fn take_bad_hello(&mut self, now: Time, place: Place, why: Malformed) {
        let (subject, what) = match why {
            Malformed::Forged => {
                self.counters.hellos.hellos_forged += 1;
                (Subject::HelloForged, "a station without the group key forges hellos")
            }
            Malformed::Keyed | Malformed::Keyless | Malformed::OtherKey => {
                self.counters.hellos.hellos_unauthenticated += 1;
                let what = match why {
                    Malformed::Keyed => "a neighbour uses a group key, and we have none",
                    _ => "a neighbour uses another group key or none, and is reached by plain IP",
                };
                (Subject::KeyDiffers, what)
            }
            Malformed::Version(_) => {
                self.counters.hellos.hellos_other_version += 1;
                let what = "a neighbour speaks another version of HBH and is reached by plain IP";
                (Subject::VersionDiffers, what)
            }
            Malformed::Family(_)
            | Malformed::Checksum
            | Malformed::Kind
            | Malformed::Profile(_)
            | Malformed::TooMany
            | Malformed::Trailing { .. }
            | Malformed::Truncated { .. } => {
                self.counters.hellos.hellos_malformed += 1;
                debug!(station = %place.1, %why, "hello");
                return;
            }
        };
        self.complain_of(now, subject, place, what);
    }

    /// Logs a line provoked by a station, unless a line of the same kind was written a moment ago.
    pub fn complain_of(&mut self, now: Time, subject: Subject, (position, mac): Place, what: &str) {
        if let Some(left_out) = self.complaints.admit(now, subject) {
            let interface = self.ports.name(position);
            warn!(%interface, left_out, "{what}");
            debug!(%mac, "{what}");
        }
    }
}
