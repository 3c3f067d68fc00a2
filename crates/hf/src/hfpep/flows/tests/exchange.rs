//! Two ends, one thing at a time.

use std::net::SocketAddr;
use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use crate::hfpep::flows::wire::{Body, Message, Opening, Word};
use crate::hfpep::flows::{
    Arrived, Client, Config, FlowId, Flows, NotCarried, Outgoing, Phase, Status,
};
use crate::s5066::Address;
use crate::slep::{Delivery, Reason};

pub(crate) const NODES: [Address; 2] = [Address::node(1), Address::node(2)];
const MOST: usize = 200;
/// Octets of a message before the datagram that opens a flow of IPv4.
const OPENING: usize = 16;

pub(crate) fn client(port: u16) -> Client {
    let address = ([10, 1, 0, 9], port).into();
    Client { peer: NODES[1], entrance: 3, address, target: ([10, 2, 0, 1], 53).into() }
}

struct Ends {
    now: Time,
    near: Flows,
    far: Flows,
    config: Config,
    processes: u64,
}

impl Ends {
    fn new(config: Config) -> Self {
        let flows = |seed| Flows::new(config, &mut Rng::stream(seed, "flows"));
        Self { now: Time::ZERO, near: flows(0), far: flows(1), config, processes: 2 }
    }

    fn fresh(&mut self) -> Flows {
        self.processes += 1;
        Flows::new(self.config, &mut Rng::stream(self.processes, "flows"))
    }

    fn send(&mut self, port: u16, data: &[u8]) -> Outgoing {
        self.try_send(port, data).unwrap()
    }

    fn try_send(&mut self, port: u16, data: &[u8]) -> Result<Outgoing, NotCarried> {
        self.near.send(self.now, client(port), Delivery::default(), MOST, data)?;
        Ok(self.near.poll().unwrap())
    }

    fn reach_far(&mut self, message: &Outgoing) -> Option<Arrived> {
        self.far.handle_message(self.now, NODES[0], &message.octets)
    }

    fn reach_near(&mut self, message: &Outgoing) -> Option<Arrived> {
        self.near.handle_message(self.now, NODES[1], &message.octets)
    }

    fn answer(&mut self, flow: FlowId, data: &[u8]) -> Outgoing {
        self.far.answer(self.now, flow, MOST, data).unwrap();
        self.far.poll().unwrap()
    }

    /// What the far end says of itself.
    fn word(&mut self) -> Option<Outgoing> {
        self.far.poll()
    }

    fn status(&self) -> Status {
        self.near.status(self.now).next().unwrap()
    }
}

fn flow(arrived: Option<Arrived>) -> FlowId {
    match arrived {
        Some(Arrived::Request { flow, .. }) => flow,
        other => panic!("{other:?}"),
    }
}

fn body(message: &Outgoing) -> Body<'_> {
    Message::parse(&message.octets).unwrap().body
}

fn is_opening(message: &Outgoing) -> bool {
    matches!(body(message), Body::Open(..))
}

#[test]
fn an_exchange_takes_two_messages_and_later_ones_are_short() {
    let mut ends = Ends::new(Config::default());

    let query = ends.send(7, b"query");
    let arrived = ends.reach_far(&query);
    let opening = Opening {
        source: client(7).address,
        destination: client(7).target,
        is_reliable: false,
        priority: 4,
    };
    let Some(Arrived::Request { flow, from, opening: said, data }) = arrived else { panic!() };
    assert_eq!((from, said, &data[..]), (NODES[0], opening, &b"query"[..]));
    assert_eq!(ends.word(), None, "the answer tells that the flow is known");
    let answer = ends.answer(flow, b"answer");
    let told = ends.reach_near(&answer);
    let more = ends.send(7, b"query");

    assert_eq!(told, Some(Arrived::Answer { client: client(7), data: b"answer".to_vec() }));
    let octets = [&query, &answer, &more].map(|it| it.octets.len());
    assert_eq!(octets, [OPENING + 5, 3 + 6, 3 + 5]);
    let Some(Arrived::Request { flow: same, data, .. }) = ends.reach_far(&more) else { panic!() };
    assert_eq!((same, &data[..]), (flow, &b"query"[..]));
    let Status { traffic, phase, .. } = ends.status();
    assert_eq!((traffic.sent, traffic.arrived, phase), (2, 1, Phase::Open));
}

#[test]
fn a_target_that_never_answers_is_known_after_the_second_datagram() {
    let mut ends = Ends::new(Config::default());

    let first = ends.send(7, b"");
    ends.reach_far(&first);
    assert_eq!(ends.word(), None);
    let second = ends.send(7, b"");
    ends.reach_far(&second);
    // This word is lost, and comes again with the fourth.
    assert_eq!(ends.word().as_ref().map(body), Some(Body::Word(Word::Accepted)));
    for expected in [None, Some(Body::Word(Word::Accepted))] {
        let again = ends.send(7, b"");
        assert!(is_opening(&again));
        ends.reach_far(&again);
        let word = ends.word();
        assert_eq!(word.as_ref().map(body), expected);
        word.iter().for_each(|word| drop(ends.reach_near(word)));
    }

    let short = ends.send(7, b"");
    assert!(!is_opening(&short));
    assert_eq!(ends.status().phase, Phase::Open);
    ends.reach_far(&short);

    // A word that was late lets it open the flow again, which is known again as soon.
    let mut late = Vec::new();
    let body = Body::Word(Word::Unknown(1));
    Message { flow: short.flow.number, body }.emit(&mut late);
    ends.near.handle_message(ends.now, NODES[1], &late);
    for expected in [false, true] {
        let again = ends.send(7, b"");
        assert!(is_opening(&again));
        ends.reach_far(&again);
        assert_eq!(ends.word().is_some(), expected);
    }
}

#[test]
fn a_responder_that_has_restarted_gets_the_opening_and_the_datagram_again() {
    for is_overtaken in [false, true] {
        goes_again_behind(is_overtaken);
    }
}

/// The last datagram of two goes again to a responder that took none, whichever it tells of first.
fn goes_again_behind(is_overtaken: bool) {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let known = flow(ends.reach_far(&query));
    let answer = ends.answer(known, b"answer");
    ends.reach_near(&answer);
    ends.far = ends.fresh();

    let lost = ends.send(7, b"before");
    let asked = ends.send(7, b"second");
    assert_eq!((ends.reach_far(&lost), ends.reach_far(&asked)), (None, None));
    let mut words: Vec<Outgoing> = std::iter::from_fn(|| ends.word()).collect();
    assert_eq!(words.len(), 2);
    if is_overtaken {
        words.reverse();
    }
    for word in &words {
        assert_eq!(ends.reach_near(word), None);
    }
    let again = ends.near.poll().unwrap();

    assert_eq!(ends.near.poll(), None);
    let Some(Arrived::Request { data, .. }) = ends.reach_far(&again) else { panic!() };
    assert_eq!(data, b"second");
    assert_eq!((ends.near.stats().again, ends.far.stats().unknown), (1, 2));
    assert!(is_opening(&ends.send(7, b"third")));
}

#[test]
fn a_datagram_goes_again_only_if_it_is_the_one_that_was_not_taken() {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let known = flow(ends.reach_far(&query));
    let answer = ends.answer(known, b"answer");
    ends.reach_near(&answer);
    let slow = ends.send(7, b"slow");
    let taken = ends.send(7, b"fast");
    assert!(ends.reach_far(&taken).is_some());
    ends.far = ends.fresh();
    ends.reach_far(&slow);
    let word = ends.word().unwrap();

    for _ in 0..2 {
        ends.reach_near(&word);
    }

    assert_eq!(ends.near.poll(), None, "the one that is kept was taken");
    assert_eq!(ends.status().phase, Phase::Opening);
}

#[test]
fn answers_to_a_process_that_is_gone_are_dropped_and_close_the_flow() {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let known = flow(ends.reach_far(&query));
    ends.near = ends.fresh();
    let query = ends.send(8, b"query");
    let other = flow(ends.reach_far(&query));

    let late = ends.answer(known, b"late");
    assert_eq!(ends.reach_near(&late), None);
    let word = ends.near.poll().unwrap();
    ends.reach_far(&word);

    assert_eq!(body(&word), Body::Word(Word::Closed));
    assert_eq!((ends.far.poll_ended(), ends.far.poll_ended()), (Some(known), None));
    assert_eq!(ends.near.stats().unknown, 1);
    assert_eq!(ends.far.answer(ends.now, known, MOST, b"more"), Err(NotCarried::Unknown));
    let answer = ends.answer(other, b"answer");
    assert!(ends.reach_near(&answer).is_some());
}

#[test]
fn a_number_that_comes_with_another_client_is_another_flow() {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let known = flow(ends.reach_far(&query));
    // A process after it that has drawn the same number.
    ends.near = Flows::new(ends.config, &mut Rng::stream(0, "flows"));
    let query = ends.send(8, b"query");

    let other = flow(ends.reach_far(&query));

    assert_ne!(known, other);
    assert_eq!(ends.far.poll_ended(), Some(known));
    assert_eq!((ends.far.stats().opened_there, ends.far.stats().closed), (1, 1));
}

#[test]
fn a_refused_flow_is_not_asked_for_again_for_a_while() {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let asked = flow(ends.reach_far(&query));
    ends.far.refuse(asked, Reason::BLOCKED);
    let word = ends.word().unwrap();
    ends.reach_near(&word);

    assert_eq!(ends.try_send(7, b"again"), Err(NotCarried::Blocked(Reason::BLOCKED)));
    assert_eq!((ends.status().phase, ends.near.stats().blocked), (Phase::Refused, 1));
    assert_eq!((ends.far.stats().opened_there, ends.far.poll_ended()), (0, None));
    ends.now += ends.config.refused;
    ends.near.handle_timeout(ends.now);

    assert!(is_opening(&ends.send(7, b"again")));
}

#[test]
fn idle_flows_are_forgotten_and_used_ones_are_not() {
    let mut ends = Ends::new(Config::default());
    let query = ends.send(7, b"query");
    let known = flow(ends.reach_far(&query));
    let query = ends.send(8, b"query");
    let used = flow(ends.reach_far(&query));
    // What is sent may be under way for as long as it lives.
    let kept = Delivery::default().lifetime + ends.config.idle;
    assert_eq!(ends.near.next_timeout(), Some(Time::ZERO + kept));
    let kept_there = ends.config.lifetime + ends.config.idle;
    assert_eq!(ends.far.next_timeout(), Some(Time::ZERO + kept_there));
    ends.now += Duration::from_secs(400);
    // Either direction is use.
    let answer = ends.answer(used, b"answer");
    ends.reach_near(&answer);
    ends.now = Time::ZERO + kept_there;
    ends.far.handle_timeout(ends.now);
    assert_eq!((ends.far.poll_ended(), ends.far.poll_ended()), (Some(known), None));
    ends.now = Time::ZERO + Duration::from_secs(600);
    let answer = ends.answer(used, b"answer");
    ends.reach_near(&answer);
    ends.now = Time::ZERO + kept;
    ends.near.handle_timeout(ends.now);
    assert_eq!((ends.near.stats().idle, ends.near.stats().opened_here), (1, 1));
    assert!(is_opening(&ends.send(7, b"query")), "it begins anew");
}

#[test]
fn there_are_so_many_flows_and_no_more_at_either_end() {
    let mut ends = Ends::new(Config { flows: 2, ..Config::default() });
    let openings = [7, 8].map(|port| ends.send(port, b"query"));
    assert_eq!(ends.try_send(9, b"query"), Err(NotCarried::Full));
    assert!(ends.try_send(8, b"query").is_ok(), "those that there are go on");
    for opening in &openings {
        flow(ends.reach_far(opening));
    }

    // Another node's initiator, which has its own.
    let mut other = ends.fresh();
    other.send(ends.now, client(9), Delivery::default(), MOST, b"query").unwrap();
    let asked = other.poll().unwrap();
    let taken = ends.far.handle_message(ends.now, Address::node(3), &asked.octets);

    assert_eq!(taken, None);
    let word = ends.word().unwrap();
    assert_eq!(body(&word), Body::Word(Word::Refused(Reason::NO_ROOM)));
    assert_eq!(word.flow.peer, Address::node(3));
    assert_eq!((ends.near.stats().refused, ends.far.stats().refused), (1, 1));
}

#[test]
fn what_is_too_long_is_refused_whether_or_not_the_flow_is_known() {
    let mut ends = Ends::new(Config::default());
    let most = MOST - OPENING;
    let too_long = Err(NotCarried::TooLong { len: most + 1, most });
    let longest = vec![1; most];

    let query = ends.send(7, &longest);
    let known = flow(ends.reach_far(&query));
    let answer = ends.answer(known, &[2; MOST - 3]);
    ends.reach_near(&answer);

    assert_eq!((query.octets.len(), answer.octets.len()), (MOST, MOST));
    assert_eq!(ends.try_send(7, &vec![1; most + 1]), too_long);
    assert_eq!(ends.try_send(8, &vec![1; most + 1]), too_long);
    let refused = ends.far.answer(ends.now, known, MOST, &[2; MOST - 2]);
    assert_eq!(refused, Err(NotCarried::TooLong { len: MOST - 2, most: MOST - 3 }));
    assert_eq!((ends.near.stats().too_long, ends.near.stats().opened_here), (2, 1));
}

#[test]
fn each_entrance_and_client_has_a_flow_of_its_own() {
    let mut ends = Ends::new(Config::default());
    let mut flows = Vec::new();
    for (port, entrance) in [(7, 3), (7, 4), (8, 3)] {
        let client = Client { entrance, ..client(port) };
        ends.near.send(ends.now, client, Delivery::default(), MOST, b"query").unwrap();
        let query = ends.near.poll().unwrap();
        flows.push((client, flow(ends.reach_far(&query))));
    }

    for (client, flow) in flows {
        let answer = ends.answer(flow, b"answer");
        let data = b"answer".to_vec();
        assert_eq!(ends.reach_near(&answer), Some(Arrived::Answer { client, data }));
    }
    let target: SocketAddr = client(7).target;
    assert!(ends.far.status(ends.now).all(|it| it.target == target && !it.is_initiator));
}
