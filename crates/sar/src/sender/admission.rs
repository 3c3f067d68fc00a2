//! Accepts messages from programs, and starts each in turn.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::time::Time;

use super::Sender;
use crate::config::Config;
use crate::message::{Event, Message, MessageId, NotTaken, Options, Precedence, Resume};
use crate::outgoing::Outgoing;
use crate::waiting::{To, Turn, Waiting};

/// Most transfers waiting for their first transmission. Other messages wait in the queue, so that a more urgent
/// message, or one to a responsive destination, can overtake.
pub(super) const READY: usize = 64;

impl Sender {
    /// Takes a message.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        config: &Config,
        message: &Message,
        destinations: &[IpAddr],
        options: Options,
    ) -> Result<MessageId, NotTaken> {
        let admitted = self.admit(config, message, destinations, options);
        let parts = match admitted {
            Ok(parts) => parts,
            Err(why) => {
                match why {
                    NotTaken::Full { .. } => self.messages.full += 1,
                    _ => self.messages.refused += 1,
                }
                return Err(why);
            }
        };
        self.messages.taken += 1;
        let id = MessageId(self.next_id);
        let expires = options.lifetime.map(|lifetime| now + lifetime);
        for to in parts {
            let turn = Turn::new(options.precedence, self.next_id);
            self.next_id += 1;
            let message = message.clone();
            let waiting = Waiting { id, message, to, options, expires, parked: None };
            self.queue.push(turn, waiting);
        }
        self.start(now, config);
        Ok(id)
    }

    /// The transfers that a message becomes.
    fn admit(
        &mut self,
        config: &Config,
        message: &Message,
        destinations: &[IpAddr],
        options: Options,
    ) -> Result<Vec<To>, NotTaken> {
        let limits = &config.limits;
        let segment = options.resume.map_or(config.segment, |resume| resume.segment).max(1);
        let most = (limits.message as usize).min(usize::from(u16::MAX) * usize::from(segment));
        let have = message.data.len();
        if have == 0 {
            return Err(NotTaken::Empty);
        }
        if have > most {
            return Err(NotTaken::TooLarge { have, most });
        }
        let different: BTreeSet<IpAddr> = destinations.iter().copied().collect();
        let count = different.len();
        if count == 0 {
            return Err(NotTaken::NoDestination);
        }
        if count > limits.destinations {
            return Err(NotTaken::TooManyDestinations { have: count, most: limits.destinations });
        }
        let parts: Vec<To> = match options.via {
            Some(_) if count > 1 => vec![To::Several(different.into_iter().collect())],
            _ => different.into_iter().map(To::Single).collect(),
        };
        let waiting = self.queue.len();
        let octets = self.queue.octets() + have * parts.len();
        if waiting + parts.len() > limits.waiting || octets > limits.waiting_octets {
            return Err(NotTaken::Full { waiting });
        }
        if let Some(Resume { serial, .. }) = options.resume {
            if parts.len() > 1 {
                return Err(NotTaken::TooManyDestinations { have: parts.len(), most: 1 });
            }
            if !self.serials.take_again(serial) {
                return Err(NotTaken::SerialInUse { serial });
            }
        }
        Ok(parts)
    }

    /// Starts messages in turn, as long as room lasts.
    pub(super) fn start(&mut self, now: Time, config: &Config) {
        self.start_at = None;
        while let Some((turn, waiting)) = self.queue.first() {
            let ready = self.new.range(..(turn, 0)).take(READY).count();
            if ready == READY || !self.has_room(config, turn.precedence()) {
                return;
            }
            let addresses = waiting.to.addresses();
            let is_full = |it: &&IpAddr| !self.peers.has_room(config, **it);
            // Responsive members of a group do not wait for the others.
            let busy = addresses.iter().filter(is_full).find(|it| !self.peers.is_silent(**it));
            let silent = addresses.first().filter(|_| addresses.iter().all(|it| is_full(&it)));
            if let Some(address) = busy.or(silent).copied() {
                self.queue.park(turn, address);
                self.peers.park(address, turn);
                continue;
            }
            let resume = match waiting.options.resume {
                Some(resume) => resume,
                None => match self.serials.take(now) {
                    Some(serial) => Resume { serial, segment: config.segment },
                    None => return,
                },
            };
            let Some(waiting) = self.queue.remove(turn) else { return };
            self.begin(now, config, turn, waiting, resume);
        }
    }

    /// Whether one more transfer of a precedence may be under way.
    fn has_room(&self, config: &Config, precedence: Precedence) -> bool {
        let at_least = &self.counts[usize::from(precedence.level())..];
        at_least.iter().sum::<u32>() < u32::from(config.flow.transfers)
    }

    fn begin(&mut self, now: Time, config: &Config, turn: Turn, waiting: Waiting, resume: Resume) {
        let destination = match &waiting.to {
            To::Several(_) => None,
            To::Single(address) => Some(*address),
        };
        self.counts[usize::from(turn.precedence().level())] += 1;
        for address in waiting.to.addresses() {
            self.peers.begin(now, config, *address);
        }
        if waiting.options.resume.is_none() {
            self.events.push_back(Event::Started { id: waiting.id, destination, resume });
        }
        let mut transfer = Outgoing::new(turn, waiting, resume.segment);
        if transfer.persists(config) {
            transfer.set_apart(|address| self.peers.is_silent(address));
        }
        self.transfers.insert(resume.serial, transfer);
        self.refresh(config, resume.serial);
    }
}
