//! Queue of events for the driver: the routes that changed, and notices for an operator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::ip::Prefix;

use super::{Event, Notice, Route};

/// What the driver has not fetched.
#[derive(Debug, Default)]
pub struct Events {
    /// The driver's routes once all events are fetched.
    routes: BTreeMap<Prefix, Route>,
    changed: VecDeque<Event>,
    /// Each notice once, and a few at most, since whoever is in radio range can cause them.
    notices: BTreeSet<Notice>,
}

/// Notices between two polls. Counters say how often there was a reason.
const MOST_NOTICES: usize = 8;

impl Events {
    /// Replaces all routes, and tells the differences: ended routes first.
    pub fn set_routes(&mut self, routes: BTreeMap<Prefix, Route>) {
        let before = std::mem::replace(&mut self.routes, routes);
        let gone = before.keys().filter(|prefix| !self.routes.contains_key(prefix));
        self.changed.extend(gone.map(|prefix| Event::Route(*prefix, None)));
        let new = self.routes.iter().filter(|(prefix, route)| before.get(prefix) != Some(route));
        self.changed.extend(new.map(|(prefix, route)| Event::Route(*prefix, Some(*route))));
    }

    pub fn add_notice(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.insert(notice);
        }
    }

    pub fn poll(&mut self) -> Option<Event> {
        let event = self.changed.pop_front();
        event.or_else(|| self.notices.pop_first().map(Event::Notice))
    }

    pub fn routes(&self) -> Vec<(Prefix, Route)> {
        self.routes.iter().map(|(prefix, route)| (*prefix, *route)).collect()
    }
}
