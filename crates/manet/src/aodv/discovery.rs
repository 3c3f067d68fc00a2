//! Running route discoveries: how far and how long to search for each destination (RFC 3561, 6.3 and 6.4).

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use base::time::Time;

use super::config::Config;

/// How often a destination is asked for before its time, at most.
const HURRY: Duration = Duration::from_millis(250);

/// The destinations that are looked for.
#[derive(Debug, Default)]
pub struct Discoveries {
    pending: BTreeMap<Ipv4Addr, Discovery>,
}

#[derive(Clone, Copy, Debug)]
struct Discovery {
    /// How far the next request goes.
    ttl: u8,
    /// How often the whole network was asked.
    tries: u8,
    /// When the next request goes out, or the search ends.
    due: Time,
    /// When it was last asked for once more, before its time.
    hurried_at: Option<Time>,
    /// Whether the first request goes where the destination was last seen.
    is_hint: bool,
}

/// What is to be done for a destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Ask so far.
    Ask { ttl: u8 },
    /// It was not found.
    GiveUp,
}

impl Discoveries {
    /// Looks for a destination that was last seen so many hops away.
    pub fn begin(
        &mut self,
        now: Time,
        destination: Ipv4Addr,
        last_seen: Option<u8>,
        config: &Config,
    ) {
        let ring = config.ring;
        let first = last_seen.map_or(ring.start, |hops| hops.saturating_add(ring.increment));
        let discovery = Discovery {
            ttl: within(first, config),
            tries: 0,
            due: now,
            hurried_at: None,
            is_hint: last_seen.is_some(),
        };
        self.pending.insert(destination, discovery);
    }

    /// Takes a discovery step that is due; searches are put off until `not_before`, if later than now.
    pub fn poll(
        &mut self,
        now: Time,
        not_before: Time,
        config: &Config,
    ) -> Option<(Ipv4Addr, Step)> {
        for (&destination, discovery) in &mut self.pending {
            if discovery.due > now {
                continue;
            }
            if discovery.tries > config.rreq_retries {
                self.pending.remove(&destination);
                return Some((destination, Step::GiveUp));
            }
            if not_before > now {
                discovery.due = not_before;
                continue;
            }
            let ttl = discovery.ttl;
            let wait = if std::mem::take(&mut discovery.is_hint) && ttl >= config.net_diameter {
                // The distance may be forged like the rest of the route.
                config.ring_traversal_time(config.ring.threshold)
            } else if ttl < config.net_diameter {
                discovery.ttl = within(ttl.saturating_add(config.ring.increment), config);
                config.ring_traversal_time(ttl)
            } else {
                let doubled = 1_u32.checked_shl(discovery.tries.into()).unwrap_or(u32::MAX);
                discovery.tries += 1;
                config.net_traversal_time().saturating_mul(doubled)
            };
            // A wait that takes no time would be a search without end at one instant.
            discovery.due = now + wait.max(Duration::from_millis(1));
            return Some((destination, Step::Ask { ttl }));
        }
        None
    }

    /// Earlier requests cannot have been believed: repeats the request for each destination now.
    pub fn hurry(&mut self, now: Time) {
        for discovery in self.pending.values_mut() {
            discovery.hurry(now);
        }
    }

    /// The last answer of this destination could not be believed: repeats the request at this time.
    pub fn hurry_one(&mut self, destination: Ipv4Addr, at: Time) {
        if let Some(discovery) = self.pending.get_mut(&destination) {
            discovery.hurry(at);
        }
    }

    /// A destination was found, or is not wanted any more.
    pub fn end(&mut self, destination: Ipv4Addr) {
        self.pending.remove(&destination);
    }

    pub fn contains(&self, destination: Ipv4Addr) -> bool {
        self.pending.contains_key(&destination)
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.pending.values().map(|discovery| discovery.due).min()
    }
}

impl Discovery {
    /// Repeats the request at this time, if earlier than planned: not too often, since forged numbers can cause it.
    fn hurry(&mut self, at: Time) {
        let at = self.hurried_at.map_or(at, |last| at.max(last + HURRY));
        if self.due > at {
            self.hurried_at = Some(at);
            self.tries = self.tries.saturating_sub(1);
            self.due = at;
        }
    }
}

/// The TTL, or the TTL of the whole network beyond the ring's threshold.
fn within(ttl: u8, config: &Config) -> u8 {
    if ttl > config.ring.threshold { config.net_diameter } else { ttl.min(config.net_diameter) }
}

/// So many in any second.
#[derive(Debug)]
pub struct Limit {
    rate: usize,
    /// The last ones, oldest first.
    last: VecDeque<Time>,
}

impl Limit {
    pub fn new(rate: u32) -> Self {
        let rate = usize::try_from(rate).unwrap_or(usize::MAX).max(1);
        Self { rate, last: VecDeque::new() }
    }

    /// When the rate limit allows the next request.
    pub fn ready_at(&self) -> Time {
        match self.last.front() {
            Some(&oldest) if self.last.len() >= self.rate => oldest + Duration::from_secs(1),
            _ => Time::ZERO,
        }
    }

    /// Counts an event now; false if the last second had the most allowed.
    #[must_use]
    pub fn spend(&mut self, now: Time) -> bool {
        if self.ready_at() > now {
            return false;
        }
        if self.last.len() >= self.rate {
            self.last.pop_front();
        }
        self.last.push_back(now);
        true
    }
}
