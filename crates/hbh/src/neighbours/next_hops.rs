//! Remembers the stations that packets go to by plain IP, and when each was asked whether it speaks HBH.

use std::collections::VecDeque;
use std::time::Duration;

use base::ethernet::Mac;
use base::time::Time;

/// Stations remembered on an interface: the latest.
const MOST: usize = 64;
/// Between the first two questions to a station; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(300);
/// The pause doubles this often at most.
const MOST_DOUBLED: u32 = 6;

/// The stations on one interface.
#[derive(Debug, Default)]
pub struct NextHops {
    /// By when a packet went there, the latest last.
    stations: VecDeque<NextHop>,
}

#[derive(Debug)]
struct NextHop {
    station: Mac,
    used: Time,
    asked: Time,
    /// Questions so far.
    times: u32,
}

impl NextHops {
    /// Notes that a packet goes to a station, and forgets those that none went to for `hold`. Returns whether the station
    /// is to be asked now: it counts as asked then.
    pub fn note(&mut self, now: Time, station: Mac, hold: Duration) -> bool {
        self.stations.retain(|it| now.since(it.used) < hold);
        let known = self.stations.iter().position(|it| it.station == station);
        let is_new = known.is_none();
        let mut next_hop = known.and_then(|at| self.stations.remove(at)).unwrap_or(NextHop {
            station,
            used: now,
            asked: now,
            times: 0,
        });
        next_hop.used = now;
        let pause = FIRST_PAUSE * 2_u32.pow(next_hop.times.saturating_sub(1).min(MOST_DOUBLED));
        let may_ask = is_new || now.since(next_hop.asked) >= pause;
        if may_ask {
            (next_hop.asked, next_hop.times) = (now, next_hop.times.saturating_add(1));
        }
        if self.stations.len() == MOST {
            self.stations.pop_front();
        }
        self.stations.push_back(next_hop);
        may_ask
    }

    /// Whether a packet went to a station within this time.
    pub fn contains(&self, now: Time, station: Mac, within: Duration) -> bool {
        self.stations.iter().any(|it| it.station == station && now.since(it.used) < within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(20);

    #[test]
    fn a_station_is_asked_ever_more_seldom_and_anew_after_a_while_without_packets() {
        let (mut next_hops, station) = (NextHops::default(), Mac([2; 6]));
        let at = |millis| Time::ZERO + Duration::from_millis(millis);

        let asked: Vec<u64> =
            (0..60_000).step_by(100).filter(|&ms| next_hops.note(at(ms), station, HOLD)).collect();
        let is_anew = next_hops.note(at(80_000), station, HOLD);

        assert_eq!(asked, [0, 300, 900, 2_100, 4_500, 9_300, 18_900, 38_100, 57_300]);
        assert!(is_anew);
    }

    #[test]
    fn the_latest_are_remembered_while_packets_go_there() {
        let mut next_hops = NextHops::default();
        let station = |number: u8| Mac([2, 0, 0, 0, 0, number]);

        for number in 0..65 {
            next_hops.note(Time::ZERO, station(number), HOLD);
        }

        let later = Time::ZERO + HOLD;
        assert!(!next_hops.contains(Time::ZERO, station(0), HOLD));
        assert!(next_hops.contains(Time::ZERO, station(1), HOLD));
        assert!(!next_hops.contains(later, station(1), HOLD));
    }
}
