//! State of each destination: distance, capacity and waiting messages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use base::time::Time;

use super::config::{Config, Profile};
use super::estimate::{Filter, Shortest, Smoothed, Trip};
use super::waiting::Turn;

/// Transfers at a time to a destination that has never answered.
const TRANSFERS_OF_STRANGER: u16 = 8;
/// After this many timeouts without a question, the growth of the timeout is forgotten.
const REST: u32 = 2;
/// Doublings of a timeout at most.
const MOST_BACKOFF: u8 = 10;
/// What a timeout grows by at most because more is under way than was when round trips were measured.
const MOST_BURDEN: f64 = 4.0;
/// What the timeout grows by for each segment under way (SCUMF).
const PER_SEGMENT: f64 = 1.1;
/// What a timeout after the first is multiplied by (RFAITAF).
const AGAIN: f64 = 0.75;

/// All destinations.
#[derive(Debug)]
pub struct Peers {
    all: BTreeMap<IpAddr, Peer>,
    /// Those without transfers, the least recently used first.
    idle: BTreeSet<(Time, IpAddr)>,
    /// The mean of all destinations: the first guess for a new one.
    net: Option<Smoothed>,
    config: Config,
}

/// A destination.
#[derive(Debug)]
pub struct Peer {
    smoothed: Option<Smoothed>,
    filter: Option<Filter>,
    shortest: Shortest,
    /// Doublings since the last round trip that was measured (RFC 6298, 5.5).
    backoff: u8,
    /// Most segments of a transfer in flight.
    credit: f64,
    /// Whether something was missing, or no answer came, since nothing was known of it.
    has_lost: bool,
    /// Transfers to it.
    transfers: u32,
    /// Since when it has none.
    idle_since: Option<Time>,
    measured_at: Time,
    /// When it last did not answer in time.
    silent_at: Time,
    /// Octets of all transfers in flight at the latest measurement.
    load: u64,
    /// Messages waiting for other transfers to end.
    parked: BTreeSet<Turn>,
    /// Whether the destination is silent: messages then stay, and a single message tries until an answer comes.
    is_silent: bool,
    /// When something came from it last.
    heard_at: Time,
    /// For silent destinations: the pause before another sign counts, and the end of the pause.
    rest: Duration,
    rested_at: Time,
}

/// The pause between two signs that have a silent destination tried at once, and the longest one: it doubles as
/// long as nothing is answered, because signs may be made up.
const REST_OF_SIGNS: Duration = Duration::from_secs(1);
const MOST_REST_OF_SIGNS: Duration = Duration::from_secs(64);

impl Peers {
    pub fn new(config: &Config) -> Self {
        Self { all: BTreeMap::new(), idle: BTreeSet::new(), net: None, config: *config }
    }

    pub fn get(&self, address: IpAddr) -> Option<&Peer> {
        self.all.get(&address)
    }

    pub fn get_mut(&mut self, address: IpAddr) -> Option<&mut Peer> {
        self.all.get_mut(&address)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether another transfer to `address` may start.
    pub fn has_room(&self, address: IpAddr) -> bool {
        self.all.get(&address).is_none_or(|peer| peer.transfers < peer.most_transfers(&self.config))
    }

    /// A message waits until there are fewer transfers to `address`.
    pub fn park(&mut self, address: IpAddr, turn: Turn) {
        if let Some(peer) = self.all.get_mut(&address) {
            peer.parked.insert(turn);
        }
    }

    /// A transfer starts.
    pub fn begin(&mut self, now: Time, address: IpAddr) {
        let credit = f64::from(self.config.flow.credit);
        let rest = self.timeout(address, 0, false) * REST;
        let peer = self.all.entry(address).or_insert_with(|| Peer::new(now, credit));
        if let Some(since) = peer.idle_since.take() {
            self.idle.remove(&(since, address));
        }
        if peer.transfers == 0 && now.since(peer.silent_at) > rest {
            // Backing off is meant for transfers in quick succession; rare transfers would otherwise all begin with it.
            peer.backoff = 0;
        }
        peer.transfers += 1;
        if now.since(peer.measured_at) > self.config.times.cache {
            (peer.smoothed, peer.filter, peer.backoff) = (None, None, 0);
            (peer.credit, peer.has_lost) = (credit, false);
        }
        while self.all.len() > self.config.limits.peers
            && let Some((_, forgotten)) = self.idle.pop_first()
        {
            self.all.remove(&forgotten);
        }
    }

    /// A transfer is over for this destination.
    pub fn end(&mut self, now: Time, address: IpAddr) {
        let Some(peer) = self.all.get_mut(&address) else { return };
        peer.transfers = peer.transfers.saturating_sub(1);
        self.rest(now, address);
    }

    /// Takes the messages that may start now, among all waiting for `address`.
    pub fn take_parked(&mut self, now: Time, address: IpAddr) -> Vec<Turn> {
        let Some(peer) = self.all.get_mut(&address) else { return Vec::new() };
        let room = peer.most_transfers(&self.config).saturating_sub(peer.transfers);
        let taken = (0..room).map_while(|_| peer.parked.pop_first()).collect();
        self.rest(now, address);
        taken
    }

    /// A message does not wait for `address` any more.
    pub fn unpark(&mut self, now: Time, address: IpAddr, turn: Turn) {
        if let Some(peer) = self.all.get_mut(&address) {
            peer.parked.remove(&turn);
            self.rest(now, address);
        }
    }

    /// Marks a destination as silent after too many unanswered questions; messages still wait. True if the state is
    /// new.
    pub fn silence(&mut self, address: IpAddr) -> bool {
        let peer = self.all.get_mut(&address);
        peer.is_some_and(|peer| !std::mem::replace(&mut peer.is_silent, true))
    }

    pub fn is_silent(&self, address: IpAddr) -> bool {
        self.all.get(&address).is_some_and(|peer| peer.is_silent)
    }

    /// A silent destination showed a sign of life. Returns when to try again: now, or when the next sign counts.
    pub fn wake(&mut self, now: Time, address: IpAddr) -> Option<Time> {
        let peer = self.all.get_mut(&address)?;
        if now < peer.rested_at {
            return Some(peer.rested_at);
        }
        peer.backoff = 0;
        peer.rested_at = now + peer.rest;
        peer.rest = (peer.rest * 2).min(MOST_REST_OF_SIGNS);
        Some(now)
    }

    /// A destination has answered; true if it was silent.
    pub fn revive(&mut self, address: IpAddr) -> bool {
        let Some(peer) = self.all.get_mut(&address) else { return false };
        peer.rest = REST_OF_SIGNS;
        if !std::mem::take(&mut peer.is_silent) {
            return false;
        }
        peer.backoff = 0;
        true
    }

    /// Something came from an address.
    pub fn hear(&mut self, now: Time, address: IpAddr) {
        if let Some(peer) = self.all.get_mut(&address) {
            peer.heard_at = now;
        }
    }

    /// Whether nothing at all has come from a destination since then.
    pub fn is_unheard(&self, address: IpAddr, since: Time) -> bool {
        self.all.get(&address).is_some_and(|peer| peer.heard_at <= since)
    }

    /// Transfers to a destination.
    pub fn transfers(&self, address: IpAddr) -> u32 {
        self.all.get(&address).map_or(0, |peer| peer.transfers)
    }

    /// Marks a destination as idle, if nothing is sent or waiting.
    fn rest(&mut self, now: Time, address: IpAddr) {
        let Some(peer) = self.all.get_mut(&address) else { return };
        if peer.transfers == 0 && peer.parked.is_empty() && peer.idle_since.is_none() {
            peer.idle_since = Some(now);
            self.idle.insert((now, address));
        }
    }

    /// A round trip was measured, when so many octets were under way; it is returned beside the shortest
    /// one, if the destination is known.
    pub fn measure(
        &mut self,
        now: Time,
        address: IpAddr,
        (trip, load): (Duration, u64),
    ) -> Option<Trip> {
        match &mut self.net {
            Some(net) => net.add(trip),
            None => self.net = Some(Smoothed::new(trip)),
        }
        let peer = self.all.get_mut(&address)?;
        match &mut peer.smoothed {
            Some(smoothed) => smoothed.add(trip),
            None => peer.smoothed = Some(Smoothed::new(trip)),
        }
        peer.filter.get_or_insert(Filter::new(self.config.times.round_trip)).add(trip);
        peer.measured_at = now;
        peer.backoff = 0;
        peer.load = load;
        Some(Trip { took: trip, shortest: peer.shortest.add(now, trip) })
    }

    /// An answer came to a question that was asked more than once, so long after the first time.
    pub fn measure_repeated(&mut self, now: Time, address: IpAddr, (most, load): (Duration, u64)) {
        // Without any measurement, an upper bound of the round trip is better than a guess that was too short.
        if self.config.profile == Profile::Default && self.net.is_none() {
            _ = self.measure(now, address, (most, load));
        }
    }

    /// How long to wait for an answer of `address` with so many segments under way.
    pub fn timeout(&self, address: IpAddr, outstanding: u16, is_retry: bool) -> Duration {
        let times = &self.config.times;
        let peer = self.all.get(&address);
        match self.config.profile {
            Profile::Early | Profile::Seed => times.round_trip,
            // The transfer itself knows its phases.
            Profile::Basic => times.round_trip.mul_f64(2.2).min(times.most_timeout),
            Profile::Enhanced => {
                let filter = peer.and_then(|peer| peer.filter);
                let relaxed = filter.unwrap_or(Filter::new(times.round_trip)).relaxed();
                let factor =
                    if is_retry { AGAIN } else { PER_SEGMENT.powi(outstanding.min(100).into()) };
                relaxed.mul_f64(factor).min(times.most_timeout)
            }
            Profile::Default => {
                let least = times.least_timeout;
                let measured = peer.and_then(|peer| peer.smoothed).map(|it| it.timeout(least));
                // Whoever is new is thought to be as far as the others, whose differences the deviation has.
                let guess = || self.net.map(|net| net.timeout(least));
                let timeout = measured.or_else(guess).unwrap_or(times.round_trip);
                let doubled =
                    timeout * (1 << peer.map_or(0, |peer| peer.backoff.min(MOST_BACKOFF)));
                doubled.min(times.most_timeout)
            }
        }
    }
}

impl Peer {
    fn new(now: Time, credit: f64) -> Self {
        Self {
            smoothed: None,
            filter: None,
            shortest: Shortest::default(),
            backoff: 0,
            credit,
            has_lost: false,
            transfers: 0,
            idle_since: None,
            measured_at: now,
            silent_at: now,
            load: 0,
            parked: BTreeSet::new(),
            is_silent: false,
            heard_at: now,
            rest: REST_OF_SIGNS,
            rested_at: now,
        }
    }

    /// Whether a round trip to it was measured.
    pub fn is_measured(&self) -> bool {
        self.smoothed.is_some()
    }

    /// The factor by which a round trip may exceed the measured ones, because more data in flight may wait in the same
    /// queue.
    pub fn burden(&self, load: u64) -> f64 {
        if self.load == 0 {
            return 1.0;
        }
        (load as f64 / self.load as f64).clamp(1.0, MOST_BURDEN)
    }

    /// Most segments of a transfer in flight.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 1 and 3,216"
    )]
    pub fn credit(&self) -> u16 {
        self.credit as u16
    }

    /// Opens the window: of the segments in question this many have arrived, and few were missing. The window doubles
    /// until the first loss, and then grows by `step` per round.
    pub fn reward(&mut self, arrived: u16, (step, most): (u16, u16), is_anything_lacked: bool) {
        self.has_lost |= is_anything_lacked;
        let (arrived, step) = (f64::from(arrived), f64::from(step));
        let more = if self.has_lost { step * (arrived / self.credit).min(1.0) } else { arrived };
        self.credit = (self.credit + more).min(most.into());
    }

    /// Much is missing; `least` is what the air alone may lose.
    pub fn punish(&mut self, least: u16) {
        self.credit = (self.credit / 2.0).max(least.into());
        self.has_lost = true;
    }

    /// It did not answer in time.
    pub fn back_off(&mut self, now: Time, least: u16) {
        self.silent_at = now;
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
        self.punish(least);
    }

    /// Transfers to the destination at a time: a few before its first answer, a single one while it is silent.
    fn most_transfers(&self, config: &Config) -> u32 {
        let most = config.flow.transfers_of_peer;
        let most = match (self.backoff, self.smoothed) {
            _ if self.is_silent => 1,
            (0, Some(_)) => most,
            (0, None) => most.min(TRANSFERS_OF_STRANGER),
            _ => 1,
        };
        most.into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::Precedence;

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn turn(order: u64) -> Turn {
        Turn::new(Precedence::ROUTINE, order)
    }

    /// One destination, to which a transfer is under way.
    fn one() -> Peers {
        let mut peers = Peers::new(&Config::default());
        peers.begin(Time::ZERO, address(1));
        peers
    }

    #[test]
    fn whoever_was_used_longest_ago_is_forgotten_unless_something_is_sent_or_waits() {
        let mut config = Config::default();
        config.limits.peers = 4;
        let mut peers = Peers::new(&config);
        for last in 1..=4 {
            peers.begin(at(0.0), address(last));
        }
        // The first has two transfers, and a message waits for the second.
        peers.begin(at(0.0), address(1));
        peers.park(address(2), turn(1));
        for last in [1, 2, 4, 3] {
            peers.end(at(f64::from(last)), address(last));
        }
        assert_eq!([1, 2, 3].map(|last| peers.transfers(address(last))), [1, 0, 0]);

        let left = |peers: &Peers| -> Vec<u8> {
            (1..10).filter(|last| peers.get(address(*last)).is_some()).collect()
        };
        peers.begin(at(5.0), address(5));
        assert_eq!(left(&peers), [1, 2, 4, 5]);
        peers.begin(at(6.0), address(6));
        assert_eq!(left(&peers), [1, 2, 5, 6]);

        // The message is cancelled; so the second has nothing left.
        peers.unpark(at(7.0), address(2), turn(1));
        peers.begin(at(8.0), address(7));
        assert_eq!(left(&peers), [1, 5, 6, 7]);
        peers.begin(at(9.0), address(8));
        assert_eq!(left(&peers), [1, 5, 6, 7, 8], "all have something to do");
    }

    #[test]
    fn a_cancelled_message_takes_no_place_of_another() {
        let mut peers = one();
        for order in 1..=10 {
            peers.park(address(1), turn(order));
        }
        peers.unpark(Time::ZERO, address(1), turn(2));

        // A stranger may have eight transfers.
        let taken = peers.take_parked(Time::ZERO, address(1));

        assert_eq!(taken, [1, 3, 4, 5, 6, 7, 8].map(turn));
    }

    #[test]
    fn a_sign_of_a_silent_destination_counts_after_a_pause_that_doubles() {
        let mut peers = one();
        peers.silence(address(1));
        let first = peers.timeout(address(1), 0, false);
        let mut now = at(100.0);
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            peers.get_mut(address(1)).unwrap().back_off(now, 1);
            assert_eq!(peers.wake(now, address(1)), Some(now));
            assert_eq!(peers.timeout(address(1), 0, false), first, "a new beginning");

            let next = now + Duration::from_secs(pause);
            assert_eq!(peers.wake(now, address(1)), Some(next));
            assert_eq!(peers.wake(next - Duration::from_millis(1), address(1)), Some(next));
            now = next;
        }

        assert!(peers.revive(address(1)) && !peers.revive(address(1)));
        peers.wake(at(1_000.0), address(1));
        assert_eq!(peers.wake(at(1_000.0), address(1)), Some(at(1_001.0)));
    }

    #[test]
    fn a_timeout_grows_with_what_is_under_way_beyond_what_was_when_it_was_measured() {
        let mut peers = one();
        let burden = |peers: &Peers, load| peers.get(address(1)).unwrap().burden(load);
        assert!(!peers.get(address(1)).unwrap().is_measured());
        assert!((burden(&peers, 5_000) - 1.0).abs() < 1e-9);

        peers.measure(Time::ZERO, address(1), (Duration::from_secs(1), 1_000));

        assert!(peers.get(address(1)).unwrap().is_measured());
        for (load, expected) in [(500, 1.0), (2_000, 2.0), (50_000, MOST_BURDEN)] {
            assert!((burden(&peers, load) - expected).abs() < 1e-9, "{load}");
        }
    }

    #[test]
    fn whoever_was_heard_since_is_not_missed() {
        let mut peers = one();
        peers.hear(at(5.0), address(1));

        assert!(!peers.is_unheard(address(1), at(4.0)));
        assert!(peers.is_unheard(address(1), at(5.0)));
        assert!(!peers.is_unheard(address(2), at(5.0)), "nobody knows");
    }

    #[test]
    fn the_window_doubles_until_a_loss_and_then_grows_by_a_step_a_round() {
        let mut peer = Peer::new(Time::ZERO, 8.0);
        let most = 100;
        peer.reward(8, (4, most), false);
        assert_eq!(peer.credit(), 16);
        peer.reward(16, (4, most), true);
        assert_eq!(peer.credit(), 20);
        peer.reward(10, (4, most), false);
        assert_eq!(peer.credit(), 22, "half of a round");
        for _ in 0..100 {
            peer.reward(100, (4, most), false);
        }
        assert_eq!(peer.credit(), 100);

        peer.punish(5);
        assert_eq!(peer.credit(), 50);
        (0..10).for_each(|_| peer.punish(5));
        assert_eq!(peer.credit(), 5);
    }

    #[test]
    fn a_destination_falls_silent_once() {
        let mut peers = one();
        assert_eq!([(); 2].map(|()| peers.silence(address(1))), [true, false]);
        assert!(peers.is_silent(address(1)) && !peers.silence(address(2)));
    }

    #[test]
    fn what_a_timeout_has_grown_to_is_forgotten_by_a_measurement_or_a_rest() {
        let mut peers = one();
        let timeout = |peers: &Peers| peers.timeout(address(1), 0, false).as_secs();
        let grow = |peers: &mut Peers, now| {
            peers.get_mut(address(1)).unwrap().back_off(now, 1);
            timeout(peers)
        };
        peers.measure(at(0.0), address(1), (Duration::from_secs(1), 0));
        assert_eq!(timeout(&peers), 3);
        assert_eq!([(); 2].map(|()| grow(&mut peers, at(1.0))), [6, 12]);
        // The deviation is smaller by a quarter.
        peers.measure(at(1.0), address(1), (Duration::from_secs(1), 0));
        assert_eq!(timeout(&peers), 2);

        grow(&mut peers, at(2.0));
        peers.begin(at(100.0), address(1));
        assert_eq!(timeout(&peers), 5, "another transfer is under way");
        (0..2).for_each(|_| peers.end(at(100.0), address(1)));
        peers.begin(at(11.0), address(1));
        assert_eq!(timeout(&peers), 5, "too soon");
        peers.end(at(11.0), address(1));
        peers.begin(at(12.1), address(1));
        assert_eq!(timeout(&peers), 2);
    }

    #[test]
    fn no_timeout_is_longer_than_the_longest() {
        for (name, profile) in Profile::NAMES {
            let config = Config::of(profile);
            let mut peers = Peers::new(&config);
            peers.begin(Time::ZERO, address(1));
            peers.measure(Time::ZERO, address(1), (Duration::from_secs(50), 0));
            for _ in 0..20 {
                peers.get_mut(address(1)).unwrap().back_off(Time::ZERO, 1);
            }

            let timeout = peers.timeout(address(1), 100, false);

            assert!(timeout <= config.times.most_timeout, "{name}: {timeout:?}");
        }
    }
}
