//! Hard links (Annex A, section 3.2.2) of real nodes on one frequency, beside everybody else's traffic.

use std::time::Duration;

use proto::modem::Waveform;
use proto::rng::Rng;
use proto::s5066::cas::Access;
use proto::s5066::sis::client::{self, HardLinkEvent};
use proto::s5066::sis::primitive::{HardLink, LinkKind};
use proto::s5066::sis::{Client, ClientId, LinkReason, Sap, Service, TerminateReason};
use proto::s5066::{Address, Node, node};
use proto::time::Time;
use sim::hf::{Channel, Config, Medium, Net, StationId};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const KINDS: [LinkKind; 3] = [LinkKind::Shared, LinkKind::Reserved, LinkKind::Exclusive];
/// Stations, by their place.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
/// Nobody has this address.
const NOBODY: Address = Address::node(99);
/// Clients of each station: the first asks for hard links, the second outranks it, the third does not.
const OWNER: usize = 0;
const RANKED: usize = 1;
const OTHER: usize = 2;
const RANKS: [u8; 3] = [0, 9, 0];

#[test]
fn two_hosts_that_ask_at_once_get_one_hard_link() {
    for (a_kind, b_kind) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
        for (a_priority, b_priority) in [(0, 0), (1, 0), (0, 1)] {
            let case = format!("{a_kind:?} {a_priority}, {b_kind:?} {b_priority}");
            let mut band = Band::new("2400", 2);
            band.establish(A, a_kind, a_priority, address(B));
            band.establish(B, b_kind, b_priority, address(A));

            band.run(MINUTE * 3);

            // A has the lower address, so it goes first where all else is equal.
            let a_wins = (a_priority, a_kind) >= (b_priority, b_kind);
            let (winner, loser) = if a_wins { (A, B) } else { (B, A) };
            let shared = (a_kind, b_kind) == (LinkKind::Shared, LinkKind::Shared);
            let reason =
                if shared { LinkReason::TYPE_0_EXISTS } else { LinkReason::HIGHER_PRIORITY };
            assert_eq!(band.told(winner, OWNER), ["established".to_owned()], "{case}");
            assert_eq!(
                band.told(loser, OWNER).last(),
                Some(&format!("rejected: {reason}")),
                "{case}"
            );
            assert_eq!(band.hard_links(), 1, "{case}");
        }
    }
}

#[test]
fn of_two_that_ask_shortly_after_each_other_one_has_the_link_and_the_other_knows() {
    for (quarters, traffic) in (1..40).flat_map(|quarters| [0, 1, 8].map(|it| (quarters, it))) {
        for (a_kind, b_kind) in [(KINDS[0], KINDS[0]), (KINDS[1], KINDS[0]), (KINDS[0], KINDS[2])] {
            let case = format!("{a_kind:?}, {b_kind:?} after {quarters} quarters, {traffic}");
            let mut band = Band::new("2400", 2);
            for (from, to) in std::iter::repeat_n([(A, B), (B, A)], traffic).flatten() {
                band.send(from, OTHER, to, 0);
            }
            if traffic == 8 {
                band.run(SECOND * 4);
            }
            band.establish(A, a_kind, 0, address(B));
            band.run(SECOND * quarters / 4);
            band.establish(B, b_kind, 0, address(A));

            band.run(MINUTE * 5);

            let up =
                [A, B].map(|at| band.told(at, OWNER).last().is_some_and(|it| it == "established"));
            assert_eq!(band.hard_links(), 1, "{case}");
            assert_ne!(up[0], up[1], "{case}: {:?}", band.story);
        }
    }
}

#[test]
fn of_two_that_ask_at_once_one_has_the_link_on_a_noisy_channel() {
    for seed in 1..=30 {
        let mut band = Band::on("2400", 2, "ber:1e-3".parse().expect("a channel"), seed);
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.establish(B, LinkKind::Shared, 0, address(A));

        band.run(MINUTE * 20);

        assert_eq!(band.hard_links(), 1, "{seed}: {:?}", band.story);
    }
}

#[test]
fn of_two_that_ask_at_once_the_second_has_the_link_when_the_first_calls_no_client() {
    let mut band = Band::new("2400", 2);
    band.unbind(B, OTHER);
    band.establish(A, LinkKind::Exclusive, 3, address(B));
    band.establish(B, LinkKind::Shared, 0, address(A));

    band.run(MINUTE * 3);

    let why = LinkReason::SAP_NOT_BOUND;
    assert_eq!(band.told(A, OWNER), [format!("rejected: {why}")]);
    assert_eq!(band.told(B, OWNER), ["established"]);
    assert_eq!(band.hard_links(), 1);
}

#[test]
fn of_two_that_ask_at_once_one_may_go_meanwhile() {
    for quarters in 0..48 {
        for (stays, goes) in [(A, B), (B, A)] {
            let case = format!("{goes} goes after {quarters} quarters of a second");
            let mut band = Band::new("2400", 2);
            band.establish(A, LinkKind::Shared, 0, address(B));
            band.establish(B, LinkKind::Shared, 0, address(A));
            band.run(SECOND * quarters / 4);
            band.unbind(goes, OWNER);
            band.run(MINUTE * 3);

            // B asks in vain only where A's request goes first, and was not given up before it got there.
            let is_up = band.hard_links() == 1;
            let told = band.told(stays, OWNER);
            assert_eq!(is_up, told == ["established"], "{case}: {told:?}");
            assert!(is_up || stays == B, "{case}: {told:?}");
            band.send(A, OTHER, B, 0);
            band.run(MINUTE);
            assert_eq!(band.received[B], 1, "{case}");
        }
    }
}

#[test]
fn a_call_for_a_hard_link_that_crosses_data_is_answered_and_the_data_has_an_outcome() {
    for quarters in 0..24 {
        let mut band = Band::new("2400", 2);
        band.send(B, OTHER, A, 0);
        band.run(SECOND * quarters / 4);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.send(B, OTHER, A, 0);

        band.run(MINUTE * 3);

        assert_eq!(band.told(A, OWNER), ["established"], "{quarters}");
        assert_eq!(band.confirmed[B] + band.rejected[B], 2, "{quarters}");
        assert!(band.received[A] <= 2 && band.received[A] >= band.confirmed[B], "{quarters}");
    }
}

#[test]
fn what_a_higher_rank_sends_to_others_ends_a_hard_link_at_both_ends() {
    for (sender, is_before) in [(A, false), (B, false), (A, true), (B, true)] {
        let mut band = Band::new("2400", 3);
        if is_before {
            band.send(sender, RANKED, C, 0);
        }
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.run(MINUTE);
        band.send(sender, RANKED, C, 0);

        band.run(MINUTE * 3);

        let why = TerminateReason::HIGHER_PRIORITY;
        assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        assert_eq!(band.received[C], 1 + usize::from(is_before), "{sender}, {is_before}");
        assert_eq!(band.hard_links(), 0);
    }
}

#[test]
fn what_a_higher_rank_is_sending_to_others_when_a_hard_link_is_made_arrives() {
    for sender in [A, B] {
        let mut band = Band::new("2400", 3);
        for _ in 0..200 {
            band.send(sender, RANKED, C, 0);
        }
        band.run(SECOND * 5);
        band.establish(A, LinkKind::Shared, 0, address(B));

        band.run(MINUTE * 20);

        let why = TerminateReason::HIGHER_PRIORITY;
        assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        assert_eq!((band.received[C], band.confirmed[sender], band.hard_links()), (200, 200, 0));
    }
}

#[test]
fn what_the_same_rank_sends_to_others_waits_for_the_end_of_a_hard_link() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    band.send(A, OTHER, C, 15);
    band.send(A, RANKED, B, 0);

    band.run(MINUTE * 10);
    assert_eq!((band.received[B], band.received[C]), (1, 0));
    band.terminate(A, B);
    band.run(MINUTE * 3);

    assert_eq!(band.told(A, OWNER), ["established"]);
    assert_eq!(band.received[C], 1);
}

#[test]
fn a_call_to_nobody_leaves_the_others_their_links_and_their_turns() {
    let mut band = Band::new("2400", 3);
    band.send(A, OTHER, C, 0);
    band.run(SECOND * 30);
    let began = band.now;
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    // No link is up with B yet.
    band.send(A, OTHER, B, 0);
    for _ in 0..30 {
        band.send(A, OTHER, C, 0);
        band.run(SECOND * 2);
    }
    band.run(MINUTE * 3);

    let longest = |at| band.waits(at, began).into_iter().max().unwrap_or_default();
    assert_eq!(band.told(A, OWNER), ["rejected: remote node not responding"]);
    assert_eq!((band.received[B], band.received[C]), (1, 31));
    // B has not said yet what it can do: it is called first.
    assert!(longest(B) < SECOND * 35, "{:?}", longest(B));
    assert!(longest(C) < SECOND * 20, "{:?}", longest(C));
    assert_eq!(band.node(A).stats().links_broken, 0, "no link was ended for it");

    // It was lost a moment ago: it costs less now.
    let calls = band.node(A).stats().silences;
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    band.run(MINUTE);
    assert_eq!((calls, band.node(A).stats().silences), (5, 7));
}

#[test]
fn a_station_that_calls_nobody_is_there_for_others() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, NOBODY);
    band.run(SECOND * 3);
    band.send(C, OTHER, A, 0);

    band.run(MINUTE * 3);

    assert_eq!((band.received[A], band.confirmed[C]), (1, 1));
}

#[test]
fn what_others_have_begun_arrives_once_when_a_hard_link_is_made() {
    for seconds in [1, 4, 7, 12, 20] {
        for (from, to, owner, peer) in
            [(A, C, A, B), (A, B, A, B), (B, A, A, B), (B, C, A, B), (A, B, B, A)]
        {
            let case = format!("{from} to {to} beside {owner} with {peer}, {seconds} s");
            let mut band = Band::new("2400", 3);
            let sent = 60;
            for _ in 0..sent {
                band.send(from, OTHER, to, 0);
            }
            band.run(SECOND * seconds);
            band.establish(owner, LinkKind::Shared, 0, address(peer));
            band.run(MINUTE * 5);
            assert_eq!(band.told(owner, OWNER), ["established"], "{case}");
            band.terminate(owner, peer);
            band.run(MINUTE * 20);

            assert_eq!(band.rejected[from], 0, "{case}");
            assert_eq!((band.received[to], band.confirmed[from]), (sent, sent), "{case}");
        }
    }
}

#[test]
fn what_others_have_begun_arrives_once_beside_a_hard_link_on_a_noisy_channel() {
    for seed in 1..=20 {
        let mut band = Band::on("2400", 3, "ber:3e-4".parse().expect("a channel"), seed);
        let sent = 40;
        for _ in 0..sent {
            band.send(A, OTHER, C, 0);
        }
        band.run(SECOND * 5);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE * 5);
        assert_eq!(band.told(A, OWNER), ["established"], "{seed}");
        band.terminate(A, B);
        band.run(MINUTE * 40);

        assert_eq!((band.received[C], band.rejected[A]), (sent, 0), "{seed}");
    }
}

#[test]
fn a_hard_link_does_not_wait_for_all_that_waits_for_its_node() {
    let mut band = Band::new("2400", 2);
    let sent = 800;
    for _ in 0..sent {
        band.send(A, OTHER, B, 0);
    }
    band.run(SECOND * 5);
    band.establish(A, LinkKind::Shared, 0, address(B));

    band.run(MINUTE * 4);
    assert_eq!(band.told(A, OWNER), ["established"]);
    assert!(band.received[B] < sent, "most of it still waits");
    band.run(MINUTE * 40);

    assert_eq!((band.received[B], band.confirmed[A]), (sent, sent));
}

#[test]
fn three_stations_make_one_hard_link_after_the_other() {
    let mut band = Band::new("2400", 3);
    band.establish(A, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    band.establish(C, LinkKind::Shared, 0, address(B));
    band.run(MINUTE * 2);
    assert_eq!(band.told(C, OWNER), ["rejected: remote node busy"]);

    band.terminate(A, B);
    band.run(MINUTE);
    band.establish(C, LinkKind::Shared, 0, address(B));
    band.run(MINUTE);
    assert_eq!(band.told(C, OWNER).last().map(String::as_str), Some("established"));

    // One that goes first displaces it, at the called end.
    band.establish(A, LinkKind::Shared, 1, address(B));
    band.run(MINUTE * 3);
    let why = TerminateReason::HIGHER_PRIORITY;
    assert_eq!(band.told(C, OWNER).last(), Some(&format!("terminated: {why}")));
    assert_eq!(band.told(A, OWNER), ["established", "established"]);
    assert_eq!(band.hard_links(), 1);

    // And at the caller's.
    band.establish(A, LinkKind::Shared, 2, address(C));
    band.run(MINUTE * 3);
    let told = ["established".into(), format!("terminated: {why}"), "established".into()];
    assert_eq!(band.told(A, OWNER)[1..], told);
    assert_eq!(band.hard_links(), 1);
}

#[test]
fn a_client_that_goes_while_it_asks_leaves_no_link_behind() {
    for kind in KINDS {
        for quarters in 0..48 {
            let case = format!("{kind:?} after {quarters} quarters of a second");
            let mut band = Band::new("2400", 3);
            band.establish(A, kind, 0, address(B));
            band.run(SECOND * quarters / 4);
            band.unbind(A, OWNER);

            band.run(MINUTE * 6);
            for (from, to) in [(C, A), (C, B), (B, C), (A, C)] {
                band.send(from, OTHER, to, 0);
            }
            band.run(MINUTE * 3);

            assert_eq!(band.hard_links(), 0, "{case}");
            assert_eq!(band.received, [1, 1, 2], "{case}");
        }
    }
}

#[test]
fn a_hard_link_with_a_station_that_restarts_is_broken_and_said_to_be() {
    for (restarted, sender, receiver) in [(B, A, B), (B, B, A), (A, B, A)] {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE);
        band.restart(restarted);
        band.run(SECOND * 10);
        band.send(sender, OTHER, receiver, 0);
        band.run(MINUTE * 3);
        band.send(sender, OTHER, C, 0);
        band.run(MINUTE * 6);

        let case = format!("{restarted}, {sender} to {receiver}");
        assert_eq!((band.received[receiver], band.received[C]), (1, 1), "{case}");
        assert_eq!(band.hard_links(), 0, "{case}");
        if restarted == B {
            let why = TerminateReason::LINK_BROKEN;
            assert_eq!(band.told(A, OWNER), ["established".into(), format!("terminated: {why}")]);
        }
    }
}

#[test]
fn a_hard_link_whose_other_end_is_gone_or_has_forgotten_it_keeps_nobody_waiting_without_end() {
    for (lost, is_gone) in [(A, true), (B, true), (A, false), (B, false)] {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Shared, 0, address(B));
        band.run(MINUTE * 20);
        assert_eq!(band.hard_links(), 1, "it stays, however long nothing passes");
        let left = if lost == A { B } else { A };
        if is_gone {
            band.replace(lost, NOBODY);
        } else {
            band.restart(lost);
        }
        band.run(SECOND * 10);
        // Rank 0 waits for the end of the hard link.
        band.send(left, OTHER, C, 0);

        band.run(MINUTE * 12);

        assert_eq!(band.received[C], 1, "{lost} {is_gone}");
    }
}

#[test]
fn a_station_that_is_asked_by_one_that_restarts_is_there_for_others_again() {
    for quarters in 4..48 {
        let mut band = Band::new("2400", 3);
        band.establish(A, LinkKind::Exclusive, 0, address(B));
        band.run(SECOND * quarters / 4);
        band.restart(A);
        band.run(MINUTE * 40);
        if band.node(B).sis().hard_link().is_some() {
            continue;
        }
        band.send(C, OTHER, B, 0);
        band.run(MINUTE * 3);

        assert_eq!(band.received[B], 1, "{quarters}");
    }
}

#[test]
fn who_asks_over_the_link_of_a_station_that_restarted_is_told() {
    for quarters in 4..32 {
        let mut band = Band::new("2400", 2);
        band.establish(A, LinkKind::Reserved, 0, address(B));
        band.run(SECOND * quarters / 4);
        band.restart(A);
        band.run(SECOND);
        band.establish(B, LinkKind::Reserved, 1, address(A));
        band.run(MINUTE * 10);

        assert!(!band.told(B, OWNER).is_empty(), "{quarters}");
    }
}

/// Stations with clients of several ranks.
struct Band {
    net: Net,
    now: Time,
    clients: Vec<Vec<(ClientId, Client)>>,
    /// When who was told what of hard links.
    story: Vec<(Time, usize, usize, String)>,
    arrivals: Vec<(usize, Time)>,
    received: Vec<usize>,
    confirmed: Vec<usize>,
    rejected: Vec<usize>,
    waveform: Waveform,
}

impl Band {
    fn new(waveform: &str, stations: usize) -> Self {
        Self::on(waveform, stations, Channel::Clear, 1)
    }

    fn on(waveform: &str, stations: usize, channel: Channel, seed: u64) -> Self {
        let waveform: Waveform = waveform.parse().expect("a waveform");
        let medium = Medium::new(Config { channel, ..Config::default() }, stations, seed);
        let nodes =
            (0..stations).map(|at| new_node(Time::ZERO, waveform, at, address(at), stations));
        let net = Net::new(medium, nodes.collect());
        let mut band = Self {
            net,
            now: Time::ZERO,
            clients: (0..stations).map(|_| Vec::new()).collect(),
            story: Vec::new(),
            arrivals: Vec::new(),
            received: vec![0; stations],
            confirmed: vec![0; stations],
            rejected: vec![0; stations],
            waveform,
        };
        for at in 0..stations {
            band.connect(at);
        }
        band
    }

    fn connect(&mut self, at: usize) {
        let now = self.now;
        let clients = RANKS.iter().enumerate().map(|(number, &rank)| {
            let id = self.net.at(now, StationId(at), |node| node.handle_connected(now));
            let config = client::Config { rank, ..client::Config::new(sap(number)) };
            let mut client = Client::new(config);
            client.handle_connected(now);
            (id.expect("room for a client"), client)
        });
        self.clients[at] = clients.collect();
        self.settle();
    }

    /// The station stops and starts anew, with new clients.
    fn restart(&mut self, at: usize) {
        self.replace(at, address(at));
    }

    /// Another station takes its place.
    fn replace(&mut self, at: usize, by: Address) {
        let node = new_node(self.now, self.waveform, at, by, self.clients.len());
        if self.net.medium().is_transmitting(StationId(at)) {
            self.net.medium_mut().end(StationId(at));
        }
        self.net.at(self.now, StationId(at), |old| *old = node);
        self.connect(at);
    }

    fn establish(&mut self, at: usize, kind: LinkKind, priority: u8, remote: Address) {
        let link = HardLink { kind, priority, remote_sap: sap(OTHER), remote };
        self.clients[at][OWNER].1.establish(link);
        self.settle();
    }

    fn terminate(&mut self, at: usize, peer: usize) {
        self.clients[at][OWNER].1.terminate(address(peer));
        self.settle();
    }

    fn unbind(&mut self, at: usize, client: usize) {
        self.clients[at][client].1.unbind();
        self.settle();
    }

    fn send(&mut self, from: usize, client: usize, to: usize, priority: u8) {
        let send = client::Send {
            to: address(to),
            to_sap: sap(OTHER),
            priority,
            is_expedited: false,
            service: Some(Service::ARQ),
            ttl: Duration::ZERO,
            u_pdu: &[7; 300],
        };
        self.clients[from][client].1.send(send).expect("the client takes it");
        self.settle();
    }

    fn node(&self, at: usize) -> &Node {
        self.net.node(StationId(at))
    }

    /// What a client was told of hard links.
    fn told(&self, at: usize, client: usize) -> Vec<String> {
        let its = self.story.iter().filter(|(_, one, number, _)| (*one, *number) == (at, client));
        its.map(|(.., what)| what.clone()).collect()
    }

    /// Hard links that are up, each known at both of its ends and nowhere else.
    fn hard_links(&self) -> usize {
        let stations = 0..self.clients.len();
        let ends: Vec<_> = stations
            .filter_map(|at| Some((address(at), self.node(at).sis().hard_link()?)))
            .collect();
        for (at, link) in &ends {
            let is_other = |(other, same): &&(Address, HardLink)| {
                (*other, same.remote) == (link.remote, *at)
                    && (same.kind, same.priority) == (link.kind, link.priority)
            };
            assert!(ends.iter().any(|end| is_other(&end)), "only {at} knows of {link:?}");
        }
        ends.len() / 2
    }

    /// How long a station waited for each U_PDU since the one before.
    fn waits(&self, at: usize, from: Time) -> Vec<Duration> {
        let times = self.arrivals.iter().filter(|(one, _)| *one == at).map(|(_, at)| *at);
        let times: Vec<Time> = std::iter::once(from).chain(times.filter(|at| *at > from)).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.net.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.net.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Carries octets between clients and nodes until nothing is left; who is asked for a hard link
    /// takes it.
    fn settle(&mut self) {
        let now = self.now;
        let mut is_busy = true;
        while std::mem::take(&mut is_busy) {
            for (at, clients) in self.clients.iter_mut().enumerate() {
                let station = StationId(at);
                for (number, (id, client)) in clients.iter_mut().enumerate() {
                    let mut octets = Vec::new();
                    if client.poll_octets(now, &mut octets) {
                        is_busy = true;
                        self.net.at(now, station, |node| node.handle_octets(now, *id, &octets));
                    }
                    octets.clear();
                    if self.net.at(now, station, |node| node.poll_octets(now, *id, &mut octets)) {
                        is_busy = true;
                        client.handle_octets(now, &octets);
                    }
                    self.net.at(now, station, |node| while node.poll_event().is_some() {});
                    while let Some(event) = client.poll_event() {
                        let what = match event {
                            client::Event::Received(_) => {
                                self.received[at] += 1;
                                self.arrivals.push((at, now));
                                continue;
                            }
                            client::Event::Confirmed(_) => {
                                self.confirmed[at] += 1;
                                continue;
                            }
                            client::Event::Rejected { .. } => {
                                self.rejected[at] += 1;
                                continue;
                            }
                            client::Event::HardLink(HardLinkEvent::Established(_)) => {
                                "established".into()
                            }
                            client::Event::HardLink(HardLinkEvent::Rejected(why, _)) => {
                                format!("rejected: {why}")
                            }
                            client::Event::HardLink(HardLinkEvent::Terminated(why, _)) => {
                                format!("terminated: {why}")
                            }
                            client::Event::HardLink(HardLinkEvent::Indicated(link)) => {
                                is_busy = true;
                                client.answer(link, None);
                                continue;
                            }
                            _ => continue,
                        };
                        self.story.push((now, at, number, what));
                    }
                }
            }
        }
    }
}

fn new_node(now: Time, waveform: Waveform, at: usize, address: Address, stations: usize) -> Node {
    let mut config = node::Config::new(address, waveform);
    if stations > 2 {
        let [position, stations] = [at, stations].map(|it| u8::try_from(it).expect("a few"));
        config.access = Access::Slotted { position, stations };
    }
    Node::new(now, config, Rng::stream(now.as_nanos() + at as u64, "node"))
}

fn address(at: usize) -> Address {
    Address::node(u32::try_from(at + 1).expect("a few"))
}

fn sap(client: usize) -> Sap {
    Sap::new(u8::try_from(client + 1).expect("a few"))
}
