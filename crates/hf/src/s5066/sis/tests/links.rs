//! Hard links between two nodes.

use std::time::Duration;

use super::{A, B, Bench, to_b};
use crate::s5066::Address;
use crate::s5066::service::{Command, Failure, LinkEvent, Outcome, Request};
use crate::s5066::sis::client::{self, Send};
use crate::s5066::sis::primitive::{HardLink, LinkKind};
use crate::s5066::sis::server::Backlog;
use crate::s5066::sis::spdu::SPdu;
use crate::s5066::sis::{Config, FlowControl, LinkReason, Sap};

const C: Address = Address::node(77);

#[test]
fn a_link_of_type_0_is_made_used_by_all_and_ended() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.run();
    assert_eq!(pair.near.take_trace(), ["0: link established"]);

    // To others nothing goes with ARQ; to the peer everybody sends.
    pair.near.send(1, to_b(b"x"));
    pair.near.send(1, Send { to: C, ..to_b(b"y") });
    assert_eq!(pair.near.requests().len(), 1);
    pair.near.clients[0].1.terminate(B);
    pair.run();

    assert!(pair.near.take_trace().is_empty());
    assert_eq!(pair.commands, ["make 0.10.20.31", "break 0.10.20.31"]);
    assert_eq!(pair.near.server.stats().submitted.u_pdus_sent, 2);
}

#[test]
fn a_link_of_type_1_is_for_one_client_here() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Reserved, 0, B));
    pair.run();
    for client in [0, 1] {
        pair.near.send(client, to_b(b"x"));
    }
    for to_sap in [1, 2] {
        let to_sap = Sap::new(to_sap);
        pair.far.send(0, Send { to: A, to_sap, ..to_b(b"x") });
    }

    assert_eq!(pair.near.requests().len(), 1);
    assert_eq!(pair.far.requests().len(), 1);
}

#[test]
fn a_link_of_type_2_is_for_two_clients_when_both_want_it() {
    let mut pair = Pair::new();
    let wanted = link(LinkKind::Exclusive, 0, B);
    pair.near.clients[0].1.establish(wanted);
    pair.run();
    assert_eq!(pair.far.take_trace(), ["0: link indicated"]);
    pair.far.clients[0].1.answer(HardLink { remote_sap: Sap::new(1), remote: A, ..wanted }, None);
    pair.run();
    assert_eq!(pair.near.take_trace(), ["0: link established"]);

    pair.near.send(0, to_b(b"x"));
    pair.near.send(0, Send { to_sap: Sap::new(3), ..to_b(b"y") });
    assert_eq!(pair.near.requests().len(), 1);
    for to_sap in [1, 2] {
        pair.far.send(0, Send { to: A, to_sap: Sap::new(to_sap), ..to_b(b"x") });
    }
    assert_eq!(pair.far.requests().len(), 1);
    pair.far.clients[0].1.terminate(A);
    pair.run();

    assert_eq!(
        pair.near.take_trace(),
        ["0: link terminated: terminated by the remote node", "1: received x from 0.10.20.31 Arq"]
    );
    assert_eq!(pair.near.server.stats().submitted.u_pdus_sent, 2);
}

#[test]
fn the_other_client_may_refuse_or_be_silent_or_not_be_there() {
    let wanted = link(LinkKind::Exclusive, 0, B);
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(wanted);
    pair.run();
    let indicated = HardLink { remote_sap: Sap::new(1), remote: A, ..wanted };
    pair.far.clients[0].1.answer(indicated, Some(LinkReason::BUSY));
    pair.run();
    assert_eq!(pair.near.take_trace(), ["0: link rejected: remote node busy"]);

    pair.near.clients[0].1.establish(wanted);
    pair.run();
    pair.wait(Duration::from_secs(31));
    assert_eq!(pair.near.take_trace(), ["0: link rejected: remote node not responding"]);

    pair.near.clients[0].1.establish(HardLink { remote_sap: Sap::new(5), ..wanted });
    pair.run();
    assert_eq!(pair.near.take_trace(), ["0: link rejected: destination access point not bound"]);
}

#[test]
fn higher_rank_and_priority_go_first() {
    let mut pair = Pair::new();
    let config = client::Config { rank: 5, ..client::Config::new(Sap::new(3)) };
    let ranked = pair.near.connect(config);
    pair.near.take_trace();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 1, B));
    pair.run();
    for (priority, to) in [(1, B), (0, B), (1, C)] {
        pair.near.clients[1].1.establish(link(LinkKind::Shared, priority, to));
        pair.run();
    }
    pair.near.clients[1].1.establish(link(LinkKind::Shared, 2, B));
    pair.run();
    pair.near.clients[ranked].1.establish(link(LinkKind::Shared, 0, C));
    pair.run();

    assert_eq!(
        pair.near.take_trace(),
        [
            "0: link established",
            "1: link rejected: the requested link of type 0 exists",
            "1: link rejected: a link of higher priority exists",
            "1: link rejected: a link of higher priority exists",
            "0: link terminated: a link of higher priority was requested",
            "1: link established",
            "1: link terminated: a link of higher priority was requested",
            // Nobody answers for C.
        ]
    );
    assert_eq!(pair.commands, ["make 0.10.20.31", "break 0.10.20.31", "make 0.0.0.77"]);
}

#[test]
fn of_two_links_with_one_node_the_higher_kind_goes_first() {
    let exists = ["1: link rejected: a link of higher priority exists"];
    let wins =
        ["0: link terminated: a link of higher priority was requested", "1: link established"];
    for (remote, expected) in [(B, &wins[..]), (C, &exists[..])] {
        let mut pair = Pair::new();
        pair.near.clients[0].1.establish(link(LinkKind::Shared, 1, B));
        pair.run();
        pair.near.take_trace();

        pair.near.clients[1].1.establish(link(LinkKind::Reserved, 1, remote));
        pair.run();

        assert_eq!(pair.near.take_trace(), expected);
    }
}

#[test]
fn a_link_yields_to_what_the_layers_below_have_of_a_higher_rank_and_of_no_other() {
    for rank in [5, 0] {
        let mut pair = Pair::new();
        let sender = pair.near.connect(client::Config { rank, ..client::Config::new(Sap::new(3)) });
        pair.near.connect(client::Config { rank: 6, ..client::Config::new(Sap::new(4)) });
        pair.near.send(sender, Send { to: C, ..to_b(b"x") });
        assert_eq!(pair.near.requests().len(), 1);
        pair.near.take_trace();

        pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
        pair.run();

        assert_eq!(pair.near.take_trace()[0], "0: link established");
        assert_eq!(pair.near.server.hard_link().is_some(), rank == 0, "rank {rank}");
    }
}

#[test]
fn a_node_that_does_not_answer_has_no_hard_link() {
    for has_answered in [false, true] {
        let mut bench = Bench::with_clients(&[1]);
        bench.clients[0].1.establish(link(LinkKind::Shared, 0, C));
        bench.run();
        bench.server.handle_link(bench.now, LinkEvent::NotMade { peer: C, has_answered });
        bench.run();

        let why = if has_answered { "busy" } else { "not responding" };
        assert_eq!(bench.take_trace(), [format!("0: link rejected: remote node {why}")]);
    }

    let mut bench = Bench::with_clients(&[1]);
    bench.clients[0].1.establish(link(LinkKind::Shared, 0, C));
    bench.run();
    let made = LinkEvent::Made { peer: C, is_exclusive: true, is_caller: true };
    bench.server.handle_link(bench.now, made);
    bench.wait(Duration::from_secs(121));
    assert_eq!(bench.take_trace(), ["0: link rejected: remote node not responding"]);
}

#[test]
fn a_confirmation_that_comes_too_late_ends_the_link_at_both_ends() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.near.run();
    let made = LinkEvent::Made { peer: B, is_exclusive: true, is_caller: true };
    pair.near.server.handle_link(pair.near.now, made);
    let [request] = &pair.near.requests()[..] else { panic!("one request") };
    pair.near.wait(Duration::from_secs(121));
    while pair.near.server.poll_command().is_some() {}

    pair.far.indicate(A, request);
    assert!(pair.far.server.hard_link().is_some());
    pair.run();

    assert_eq!(pair.near.take_trace(), ["0: link rejected: remote node not responding"]);
    assert_eq!((pair.near.server.hard_link(), pair.far.server.hard_link()), (None, None));
    assert_eq!(pair.commands, ["break 0.10.20.31"]);
}

#[test]
fn a_link_whose_end_does_not_come_to_the_other_node_is_over_all_the_same() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.run();
    pair.near.clients[0].1.terminate(B);
    pair.near.run();
    let [request] = &pair.near.requests()[..] else { panic!("one request") };

    pair.near.outcome(request, Outcome::not_arrived(Failure::NoResponse));

    assert_eq!(pair.near.server.hard_link(), None);
    assert_eq!(pair.near.server.poll_command(), Some(Command::BreakExclusive { peer: B }));
}

#[test]
fn a_broken_link_is_no_hard_link() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.run();
    let broken = LinkEvent::Broken { peer: B, is_exclusive: true };
    pair.near.server.handle_link(pair.near.now, broken);
    pair.run();

    assert_eq!(
        pair.near.take_trace(),
        ["0: link established", "0: link terminated: physical link broken"]
    );
}

#[test]
fn a_hard_link_asked_for_late_over_a_soft_link_breaks_with_it() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.near.run();
    let made = LinkEvent::Made { peer: B, is_exclusive: true, is_caller: true };
    pair.near.server.handle_link(pair.near.now, made);
    let [request] = &pair.near.requests()[..] else { panic!("one request") };
    pair.far.indicate(A, request);
    assert!(pair.far.server.hard_link().is_some());

    let broken = LinkEvent::Broken { peer: A, is_exclusive: false };
    pair.far.server.handle_link(pair.far.now, broken);

    assert_eq!(pair.far.server.hard_link(), None);
}

#[test]
fn a_client_that_goes_ends_its_link() {
    let mut pair = Pair::new();
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
    pair.run();
    pair.near.clients[0].1.unbind();
    pair.run();

    assert_eq!(pair.commands, ["make 0.10.20.31", "break 0.10.20.31"]);
    assert_eq!(pair.near.server.next_timeout().map(|_| ()), Some(()), "it may bind again");
}

#[test]
fn no_link_is_made_for_a_client_that_has_gone_or_changed_its_mind_while_it_waited() {
    for is_gone in [true, false] {
        let mut pair = Pair::new();
        pair.near.clients[0].1.establish(link(LinkKind::Shared, 0, B));
        pair.run();
        pair.near.clients[1].1.establish(link(LinkKind::Shared, 1, C));
        pair.near.run();

        let waiting = &mut pair.near.clients[1].1;
        if is_gone {
            waiting.unbind();
        } else {
            waiting.terminate(C);
        }
        pair.run();

        assert_eq!(pair.commands, ["make 0.10.20.31", "break 0.10.20.31"]);
    }
}

#[test]
fn a_crossed_request_that_its_node_ended_is_not_granted_later() {
    let mut pair = Pair::new();
    // Ours has the higher priority, and goes first.
    pair.near.clients[0].1.establish(link(LinkKind::Shared, 1, B));
    pair.far.clients[0].1.establish(link(LinkKind::Shared, 0, A));
    for (bench, peer) in [(&mut pair.near, B), (&mut pair.far, A)] {
        bench.run();
        let made = LinkEvent::Made { peer, is_exclusive: true, is_caller: true };
        bench.server.handle_link(bench.now, made);
    }
    let asked = pair.far.requests();
    pair.far.clients[0].1.terminate(A);
    pair.far.run();
    for request in asked.iter().chain(&pair.far.requests()) {
        pair.near.indicate(B, request);
    }
    let mut s_pdu = Vec::new();
    SPdu::HardLinkRejected(LinkReason::BUSY).emit(&mut s_pdu);
    let refusal = Request { s_pdu, ..asked[0].clone() };

    pair.near.indicate(B, &refusal);

    assert_eq!(pair.near.take_trace(), ["0: link rejected: remote node busy"]);
    assert_eq!(pair.near.server.hard_link(), None);
}

#[test]
fn a_client_ends_its_link_though_what_waits_behind_the_link_stops_its_octets() {
    let flood = Backlog { octets: 1_000, u_pdus: 100 };
    let flow = FlowControl { flood, ..FlowControl::default() };
    let mut pair = Pair::new();
    pair.near = Bench::new(Config { flow, ..Config::default() });
    pair.near.connect(client::Config::new(Sap::new(1)));
    pair.near.clients[0].1.establish(link(LinkKind::Reserved, 0, B));
    pair.run();

    pair.near.send(0, Send { to: C, ..to_b(&[0; 600]) });
    pair.near.clients[0].1.terminate(B);
    pair.run();

    assert_eq!(pair.commands, ["make 0.10.20.31", "break 0.10.20.31"]);
    assert_eq!(pair.near.server.stats().submitted.u_pdus_sent, 1);
}

#[test]
fn a_node_that_broadcasts_makes_no_hard_link() {
    let mut bench = Bench::new(Config { is_broadcast_only: true, ..Config::default() });
    bench.connect(super::non_arq(1));
    bench.clients[0].1.establish(link(LinkKind::Shared, 0, C));
    bench.run();

    assert_eq!(bench.take_trace()[1..], ["0: link rejected: remote node not responding"]);
    assert_eq!(bench.server.poll_command(), None);
}

/// Two nodes whose hard link S_PDUs arrive at once, and who reach nobody else.
struct Pair {
    near: Bench,
    far: Bench,
    commands: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        let near = Bench::with_clients(&[1, 2]);
        let mut far = Bench::at(Config::default(), B);
        far.connect(client::Config::new(Sap::IP_CLIENT));
        far.take_trace();
        Self { near, far, commands: Vec::new() }
    }

    fn run(&mut self) {
        loop {
            self.near.run();
            self.far.run();
            let mut is_idle = true;
            while let Some(command) = self.near.server.poll_command() {
                is_idle = false;
                match command {
                    Command::MakeExclusive { peer } => {
                        self.commands.push(format!("make {peer}"));
                        let made = LinkEvent::Made { peer, is_exclusive: true, is_caller: true };
                        self.near.server.handle_link(self.near.now, made);
                    }
                    Command::BreakExclusive { peer } => {
                        self.commands.push(format!("break {peer}"));
                    }
                    Command::AskRate { .. }
                    | Command::Describe { .. }
                    | Command::TakeBack { .. } => {
                        unreachable!("nobody asks");
                    }
                }
            }
            for request in self.near.requests() {
                is_idle = false;
                if request.to == B {
                    self.far.indicate(A, &request);
                }
            }
            for request in self.far.requests() {
                is_idle = false;
                self.near.indicate(B, &request);
            }
            if is_idle {
                return;
            }
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.near.wait(duration);
        self.far.wait(duration);
        self.run();
    }
}

fn link(kind: LinkKind, priority: u8, remote: Address) -> HardLink {
    HardLink { kind, priority, remote_sap: Sap::IP_CLIENT, remote }
}
