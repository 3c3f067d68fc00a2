//! The beginning of the service: what an earlier process had stored goes on.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base::rng::Rng;
use base::time::Time;
use sar::{Message, MessageId, NotTaken, Options, Outcome, Precedence, Resume, Source};
use tracing::{info, warn};

use super::carrier::Carrier;
use super::clients::Clients;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::port::Port;
use super::store::{self, NotOpened, Open, Recovered, Store};
use super::way::Ways;
use super::{Sar, Setup, Transfers, programs, wall_clock};
use crate::config;
use crate::config::sar::Damaged;

/// Least octets of a segment of the store, and the number of largest messages that fit into a segment.
const SEGMENT: u64 = 4 << 20;
const MESSAGES: u64 = 4;

/// Opens the sockets and the store.
///
/// # Errors
/// When something of it is taken, damaged or not allowed.
pub(super) fn set_up(setup: &Setup<'_>) -> anyhow::Result<Sar> {
    let config = setup.config.sar.clone().context("no section [sar]")?;
    let port = Port::open(&config)?;
    let (store, recovered) = open_store(&config, setup)?;
    let carrier = config.carry.as_ref().map(Carrier::open).transpose()?;
    let clients = Clients::open(&config)?;
    let ways = Ways::open()?;
    let now = setup.clock.now();
    let next = recovered.next;
    let serial = (next.starts > 0).then(|| next.serial.wrapping_add(1));
    let mut parameters = config.parameters;
    // What was accepted once is not refused now.
    let waiting: usize = recovered.open.values().map(|it| it.accepted.destinations.len()).sum();
    let octets: usize = recovered.open.values().map(octets_of).sum();
    let limits = &mut parameters.limits;
    limits.waiting = limits.waiting.max(waiting);
    limits.waiting_octets = limits.waiting_octets.max(octets);
    let node = sar::Sar::new(now, parameters, serial, Rng::stream(setup.seed, "sar"));
    let mut sar = Sar {
        config,
        node,
        store,
        port,
        carrier,
        clients,
        outbox: Outbox::new(next.id.max(1)),
        inbox: Inbox::default(),
        transfers: Transfers {
            starts: next.starts,
            next: next.number.max(1),
            ..Transfers::default()
        },
        after: std::collections::VecDeque::new(),
        has_news: true,
        ways,
        counters: programs::Counters::default(),
        buffer: Vec::new(),
    };
    sar.restore(now, recovered);
    sar.announce(now);
    Ok(sar)
}

fn octets_of(open: &Open) -> usize {
    open.accepted.data.len() * open.accepted.destinations.len()
}

fn open_store(config: &config::Sar, setup: &Setup<'_>) -> anyhow::Result<(Store, Recovered)> {
    let longest = u64::from(config.parameters.limits.message);
    let options = store::Options {
        folder: config.store.clone(),
        segment: SEGMENT.max(MESSAGES * longest),
        most: config.service.store_octets,
    };
    let folder = config.store.display();
    match Store::open(options.clone(), setup.waker) {
        Ok(opened) => Ok(opened),
        Err(NotOpened::Damaged(damage)) if config.damaged == Damaged::SetAside => {
            let aside = set_aside(&config.store)
                .with_context(|| format!("cannot put the damaged store {folder} aside"))?;
            warn!(%damage, kept = %aside.display(), "the store is damaged: it is put aside, and messages in it are not sent");
            Store::open(options, setup.waker).map_err(|why| anyhow!("the store {folder}: {why}"))
        }
        Err(NotOpened::Damaged(damage)) => Err(anyhow!(
            "the store {folder} is damaged: {damage}; messages in it may be lost: move the folder away, or let \
             `damaged = \"set-aside\"` in [sar] do that, and the service begins anew"
        )),
        Err(NotOpened::InUse) => Err(anyhow!(
            "the store {folder} is in use by another gateway: end it, or name another `store` in [sar]"
        )),
        Err(NotOpened::NoRoom(octets)) => Err(anyhow!(
            "no room for the store {folder}: {octets} octets are needed at least; make room, or name another `store` \
             in [sar]"
        )),
        Err(NotOpened::Io(error)) => Err(anyhow!("cannot open the store {folder}: {error}")),
    }
}

/// Puts what is in the folder into a new one within.
fn set_aside(folder: &PathBuf) -> std::io::Result<PathBuf> {
    let aside = folder.join(format!("damaged-{}", wall_clock()));
    fs::create_dir(&aside)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            fs::rename(entry.path(), aside.join(entry.file_name()))?;
        }
    }
    fs::File::open(folder)?.sync_all()?;
    Ok(aside)
}

/// Most nodes that are told of a start.
const ANNOUNCED: usize = 1_024;

impl Sar {
    /// Greets the nodes that may hold messages for this gateway: the latest senders, the destinations of its own
    /// messages, and the nodes of the configuration.
    fn announce(&mut self, now: Time) {
        let heard = self.transfers.order.iter().rev().map(|(_, _, (source, _))| *source);
        let mut told = BTreeSet::new();
        let all = self.named().chain(heard).chain(self.outbox.destinations());
        let peers: Vec<IpAddr> = all
            .filter(|it| told.insert(*it))
            .take(ANNOUNCED)
            .filter(|it| self.is_reachable(*it))
            .collect();
        self.node.announce(now, peers);
    }

    /// Nodes that the configuration names.
    fn named(&self) -> impl Iterator<Item = IpAddr> {
        let groups = self.config.groups.iter().flat_map(|group| group.members.iter().copied());
        let carried = self.config.carry.iter().flat_map(|it| it.peers.iter().map(|(_, at)| *at));
        groups.chain(carried)
    }

    /// Goes on with what was stored.
    fn restore(&mut self, now: Time, recovered: Recovered) {
        let Recovered { open, ended, arrived, known, .. } = recovered;
        for node in self.named().collect::<Vec<_>>() {
            self.inbox.meet(Source::of(node));
        }
        if !open.is_empty() || !arrived.is_empty() {
            let (to_send, to_take) = (open.len(), arrived.len());
            info!(to_send, to_take, "messages of an earlier process go on");
        }
        for (number, known) in known {
            self.node.remember(now, known.identity);
            self.remember(number, known.at, &known.identity);
        }
        let mut ended: Vec<_> = ended.into_values().collect();
        ended.sort_by_key(|ended| (ended.at, ended.id));
        for it in ended {
            let delivered =
                it.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Delivered);
            delivered.for_each(|(to, _)| self.inbox.meet(Source::of(*to)));
            self.outbox.insert_ended(it);
        }
        for (number, arrived) in arrived {
            if !self.transfers.has_known(number) {
                self.node.remember(now, arrived.identity);
                self.remember(number, arrived.at, &arrived.identity);
            }
            let source = Source::of(arrived.source);
            let standing = self.inbox.standing(source, arrived.ports.destination, false);
            self.inbox.insert(arrived, standing);
            if !self.deliver_carried(number) {
                self.inbox.handle_stored(number);
            }
        }
        for (id, open) in open {
            self.resume(now, id, open);
        }
        self.take_events();
    }

    /// Hands a message to the node again, as its transfers were.
    fn resume(&mut self, now: Time, id: u64, open: Open) {
        let Open { accepted, started, outcomes } = open;
        let mut parts: Vec<(IpAddr, Option<Outcome>)> =
            accepted.destinations.iter().map(|to| (*to, None)).collect();
        for (part, outcome) in outcomes {
            if let Some(part) = parts.get_mut(usize::from(part)) {
                part.1 = Some(outcome);
            }
        }
        let left = |part: &(usize, &(IpAddr, Option<Outcome>))| part.1.1.is_none();
        let of_group = started.iter().find(|(part, _)| part.is_none()).map(|(_, resume)| *resume);
        let mut submissions: Vec<(Vec<IpAddr>, Option<Resume>)> = Vec::new();
        let mut fresh = Vec::new();
        for (position, (to, _)) in parts.iter().enumerate().filter(left) {
            let own = started
                .iter()
                .find(|(part, _)| part.is_some_and(|part| usize::from(part) == position));
            match own {
                Some((_, resume)) => submissions.push((vec![*to], Some(*resume))),
                None => fresh.push(*to),
            }
        }
        if !fresh.is_empty() {
            submissions.push((fresh, of_group));
        }
        let message = Message { ports: accepted.ports, data: accepted.data };
        let left_over = accepted.expires.map(|at| at.saturating_sub(wall_clock()));
        let mut cores: Vec<MessageId> = Vec::new();
        let mut failed: Vec<IpAddr> = Vec::new();
        for (destinations, resume) in submissions {
            let options = Options {
                precedence: Precedence::new(accepted.precedence),
                lifetime: left_over.map(Duration::from_millis),
                is_acknowledged: accepted.is_acknowledged,
                via: accepted.via,
                resume,
            };
            let submitted = self.node.submit(now, &message, &destinations, options);
            // Two transfers had one number only if the store was tampered with; as new ones they go.
            let submitted = match submitted {
                Err(NotTaken::SerialInUse { .. }) => {
                    let options = Options { resume: None, ..options };
                    self.node.submit(now, &message, &destinations, options)
                }
                other => other,
            };
            match submitted {
                Ok(core) => cores.push(core),
                Err(why) => {
                    warn!(id, %why, "a message of an earlier process is given up");
                    failed.extend(destinations);
                }
            }
        }
        self.outbox.insert(id, accepted.name, parts, cores);
        for to in failed {
            let told = self.outbox.conclude(id, to, Outcome::Cancelled, wall_clock());
            if let Some((record, _)) = told {
                self.store.push(&record);
            }
        }
        self.take_events();
    }
}
