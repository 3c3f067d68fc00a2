//! Calls, answers and ends of links, as stories of two stations.

use super::*;

const SOFT: Cpdu<'static> = Cpdu::Request { is_exclusive: false };
const ACCEPTED: Cpdu<'static> = Cpdu::Accepted;

fn link() -> PhysicalLink {
    PhysicalLink::new(Config::default())
}

type Step = fn(&mut PhysicalLink);

fn take(link: &mut PhysicalLink, c_pdu: Cpdu<'_>) {
    link.handle_c_pdu(Time::ZERO, c_pdu, 7, true, None);
}

fn end(link: &mut PhysicalLink) {
    link.end(BreakReason::NoMoreData);
}

fn story(link: &mut PhysicalLink) -> Vec<String> {
    let outgoing =
        std::iter::from_fn(|| link.poll_outgoing()).map(|it| format!("send {:?}", it.c_pdu));
    let mut story: Vec<String> = outgoing.collect();
    story.extend(std::iter::from_fn(|| link.poll_event()).map(|it| format!("{it:?}")));
    story
}

#[test]
fn a_call_is_answered_and_the_link_is_up_at_both_ends() {
    let (mut caller, mut called) = (link(), link());

    caller.call(7, false, true, None);
    let asked = story(&mut caller);
    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    let answered = story(&mut called);
    caller.handle_c_pdu(Time::ZERO, ACCEPTED, 0, true, None);

    assert_eq!(asked, ["send Request { is_exclusive: false }"]);
    assert_eq!(
        answered,
        [
            "send Accepted",
            "Made { is_exclusive: false, is_caller: false, is_long: true, in_doubt: false }"
        ]
    );
    assert_eq!(
        story(&mut caller),
        ["Made { is_exclusive: false, is_caller: true, is_long: true, in_doubt: false }"]
    );
    assert!(caller.is_up() && called.is_up());
}

#[test]
fn a_repeated_call_is_answered_again_and_a_new_one_starts_anew() {
    let mut called = link();
    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    let _ = story(&mut called);

    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    assert_eq!(story(&mut called), ["send Accepted"]);

    called.handle_c_pdu(Time::ZERO, SOFT, 8, true, None);
    assert_eq!(
        story(&mut called),
        [
            "send Accepted",
            "Broken { is_exclusive: false }",
            "Made { is_exclusive: false, is_caller: false, is_long: true, in_doubt: false }"
        ]
    );
}

#[test]
fn silence_means_calling_again_and_giving_up() {
    let mut caller = PhysicalLink::new(Config { calls: 2, ..Config::default() });
    let request = "send Request { is_exclusive: false }";

    caller.call(7, false, true, None);
    assert_eq!(story(&mut caller), [request]);
    caller.handle_silence();
    assert_eq!(story(&mut caller), [request]);
    caller.handle_silence();

    assert_eq!(story(&mut caller), ["Unanswered"]);
    assert!(caller.is_down());
}

#[test]
fn a_call_that_failed_is_not_made_once_more_for_a_peer_that_calls() {
    let mut caller = PhysicalLink::new(Config { calls: 1, ..Config::default() });
    caller.call(7, true, true, None);
    let _ = story(&mut caller);

    // To the peer's call for a soft link ours would be the answer.
    caller.handle_c_pdu(Time::ZERO, SOFT, 8, true, None);
    caller.handle_silence();

    assert_eq!(story(&mut caller), ["Unanswered"]);
    assert!(caller.is_down());
}

#[test]
fn a_call_after_one_that_failed_is_in_doubt_until_the_peer_has_spoken() {
    let mut caller = PhysicalLink::new(Config { calls: 1, breaks: 2, ..Config::default() });
    let made = "Made { is_exclusive: false, is_caller: true, is_long: true, in_doubt: true }";

    caller.call(7, false, true, None);
    assert!(caller.may_pipeline());
    let _ = story(&mut caller);
    caller.handle_silence();
    caller.call(8, false, true, None);
    assert!(!caller.may_pipeline());
    caller.handle_c_pdu(Time::ZERO, ACCEPTED, 0, true, None);
    assert_eq!(story(&mut caller), ["Unanswered", made]);

    caller.end(BreakReason::NoMoreData);
    let _ = story(&mut caller);
    caller.handle_c_pdu(Time::ZERO, Cpdu::BreakConfirm, 1, true, None);
    caller.call(9, false, true, None);
    assert!(caller.may_pipeline());
}

#[test]
fn a_call_that_is_heard_again_after_its_link_has_ended_is_in_doubt() {
    let mut called = link();
    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    called.forget();
    let _ = story(&mut called);

    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);

    assert_eq!(
        story(&mut called),
        [
            "send Accepted",
            "Made { is_exclusive: false, is_caller: false, is_long: true, in_doubt: true }"
        ]
    );
}

#[test]
fn a_refusal_ends_a_call_and_is_told() {
    let (mut caller, mut called) = (link(), link());
    caller.call(7, false, true, None);
    let _ = story(&mut caller);

    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, Some(RejectReason::ExclusiveLink));
    assert_eq!(story(&mut called), ["send Rejected(ExclusiveLink)"]);
    let refusal = Cpdu::Rejected(RejectReason::ExclusiveLink);
    caller.handle_c_pdu(Time::ZERO, refusal, 0, true, None);

    assert_eq!(story(&mut caller), ["Refused(ExclusiveLink)"]);
    assert!(called.is_down() && caller.is_down());
}

#[test]
fn what_was_to_be_said_of_a_link_is_not_said_once_it_is_outdated() {
    let exclusive = "send Request { is_exclusive: true }";
    let mut calling = link();
    calling.call(7, false, true, None);
    let mut called = link();
    take(&mut called, SOFT);
    let _ = std::iter::from_fn(|| called.poll_event()).count();

    let mut ended = calling.clone();
    end(&mut ended);
    assert_eq!(story(&mut ended), [""; 0], "the call was not made");
    let mut other = calling.clone();
    other.call(8, true, true, None);
    assert_eq!(story(&mut other), [exclusive], "in place of the soft link");
    let mut gone = calling.clone();
    gone.forget();
    assert_eq!(story(&mut gone), [""; 0]);

    let mut ended = called.clone();
    end(&mut ended);
    let broken = ["send Break(NoMoreData)", "Broken { is_exclusive: false }"];
    assert_eq!(story(&mut ended), broken, "and is not accepted first");
    ended.handle_silence();
    take(&mut ended, Cpdu::BreakConfirm);
    assert_eq!(story(&mut ended), [""; 0], "the break was confirmed");

    let _ = story(&mut calling);
    calling.handle_silence();
    take(&mut calling, Cpdu::Rejected(RejectReason::Unknown));
    assert_eq!(story(&mut calling), ["Refused(Unknown)"], "without another call");
}

#[test]
fn a_request_is_refused_and_a_break_confirmed_though_the_link_changes_meanwhile() {
    let busy = Some(RejectReason::ExclusiveLink);
    let refuse = |link: &mut PhysicalLink| link.handle_c_pdu(Time::ZERO, SOFT, 8, true, busy);
    let refusal = "send Rejected(ExclusiveLink)".to_owned();
    let mut calling = PhysicalLink::new(Config { calls: 1, breaks: 1, ..Config::default() });
    calling.call(7, false, true, None);
    let _ = story(&mut calling);
    let mut up = calling.clone();
    take(&mut up, ACCEPTED);
    let mut breaking = up.clone();
    end(&mut breaking);
    let _ = (story(&mut up), story(&mut breaking));
    let changes: [(&PhysicalLink, Step); 6] = [
        (&up, end),
        (&calling, end),
        (&calling, |link| take(link, Cpdu::Rejected(RejectReason::Unknown))),
        (&calling, PhysicalLink::handle_silence),
        (&breaking, PhysicalLink::handle_silence),
        (&breaking, |link| take(link, Cpdu::BreakConfirm)),
    ];

    for (place, (link, change)) in changes.into_iter().enumerate() {
        let mut link = link.clone();
        refuse(&mut link);
        change(&mut link);
        assert!(story(&mut link).contains(&refusal), "{place}");
    }
    take(&mut calling, Cpdu::Break(BreakReason::NoMoreData));
    calling.handle_silence();
    assert_eq!(story(&mut calling), ["send BreakConfirm", "Unanswered"]);
}

#[test]
fn an_idle_link_is_broken_at_both_ends() {
    let (mut caller, mut called) = (link(), link());
    caller.call(7, false, true, None);
    called.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    caller.handle_c_pdu(Time::ZERO, ACCEPTED, 0, true, None);
    let _ = (story(&mut caller), story(&mut called));

    let idle = caller.next_timeout().expect("a soft link has one");
    caller.handle_timeout(idle);
    assert_eq!(story(&mut caller), ["send Break(NoMoreData)", "Broken { is_exclusive: false }"]);
    called.handle_c_pdu(idle, Cpdu::Break(BreakReason::NoMoreData), 1, true, None);
    assert_eq!(story(&mut called), ["send BreakConfirm", "Broken { is_exclusive: false }"]);
    caller.handle_c_pdu(idle, Cpdu::BreakConfirm, 1, true, None);

    assert!(caller.is_down() && called.is_down());
    assert_eq!(caller.next_timeout(), None);
}

#[test]
fn a_break_that_nobody_confirms_is_repeated_and_then_counts() {
    let mut ending = PhysicalLink::new(Config { breaks: 3, ..Config::default() });
    ending.handle_c_pdu(Time::ZERO, SOFT, 7, true, None);
    let _ = story(&mut ending);
    ending.end(BreakReason::HigherLayer);

    let mut breaks = 0;
    while !ending.is_down() {
        breaks += story(&mut ending).iter().filter(|it| *it == "send Break(HigherLayer)").count();
        ending.handle_silence();
    }

    assert_eq!((breaks, story(&mut ending)), (3, Vec::new()));
}

#[test]
fn calls_that_cross_make_one_link() {
    let (mut a, mut b) = (link(), link());
    a.call(1, false, true, None);
    b.call(2, false, false, None);
    let _ = (story(&mut a), story(&mut b));

    a.handle_c_pdu(Time::ZERO, SOFT, 2, false, None);
    b.handle_c_pdu(Time::ZERO, SOFT, 1, true, None);

    assert_eq!((a.is_up(), a.is_long()), (true, false));
    assert_eq!((b.is_up(), b.is_long()), (true, false));
}
