mod hostile;

use super::*;
use crate::hello::Reception;

#[test]
fn two_gateways_find_each_other() {
    let mut pair = Pair::new();

    let story = pair.run(Duration::from_secs(10), |_| false);

    assert_eq!(sorted(&story), ["0 left up", "0 right up"]);
    let peer = pair.left.peer_with(0, address(1)).unwrap();
    assert_eq!(pair.left.place_of(peer), Some((0, mac(1))));
}

#[test]
fn losses_delay_but_do_not_prevent_it() {
    let mut pair = Pair::new();
    let mut rng = Rng::stream(1, "losses");

    let story = pair.run(Duration::from_secs(60), |_| rng.chance(0.4));

    let sides: Vec<_> = story.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    let sides = sorted(&sides);
    assert_eq!(sides, ["left up", "right up"], "{story:?}");
}

#[test]
fn one_way_links_are_not_used() {
    let mut pair = Pair::new();

    let story = pair.run(Duration::from_secs(60), |from_left| from_left);

    assert!(story.is_empty(), "{story:?}");
}

#[test]
fn silence_brings_a_neighbour_down_and_both_start_afresh() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);

    let silence = pair.run(Duration::from_secs(30), |from_left| !from_left);
    let again = pair.run(Duration::from_secs(5), |_| false);

    assert_eq!(silence.len(), 2, "{silence:?}");
    assert!(silence.iter().all(|line| line.ends_with("down")), "{silence:?}");
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(again.iter().all(|line| line.ends_with("up")), "{again:?}");
}

#[test]
fn a_restart_is_noticed_at_once() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    pair.right = gateway(3, Profile::Default);
    pair.right.handle_interface(pair.now, 0, mac(1), &[address(1)], true);

    let story = pair.run(Duration::from_secs(1), |_| false);

    assert_eq!(sorted(&story), ["5 left down", "5 left up", "5 right up"]);
}

#[test]
fn a_node_with_another_hardware_address_comes_up_and_stays_up() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    pair.right_at = mac(9);
    pair.right.handle_interface(pair.now, 0, mac(9), &[address(1)], true);
    pair.run(Duration::from_secs(2), |_| false);
    // Packets go where it was: it is missed there.
    pair.left.handle_sent(pair.now, (0, mac(1)), None);

    pair.run(Duration::from_secs(30), |_| false);
    let after = pair.run(Duration::from_secs(60), |_| false);

    assert!(after.is_empty(), "{after:?}");
    let peer = pair.left.peer_with(0, address(1)).unwrap();
    assert_eq!(pair.left.place_of(peer), Some((0, mac(9))));
    assert!(pair.right.peer_with(0, address(0)).is_some());
}

/// The first station, among as many others as make a crowd, which it has greeted.
fn in_a_crowd() -> Neighbours {
    let mut gateway = with(config());
    for station in 2..12 {
        gateway.handle_hello(Time::ZERO, (0, mac(station)), hello(station));
    }
    while gateway.poll_transmit(Time::ZERO + ANSWER_SPREAD * 5, 0).is_some() {}
    gateway
}

/// The stations that hellos went to within `time`.
fn told(gateway: &mut Neighbours, from: Time, time: Duration) -> Vec<Mac> {
    let mut told = Vec::new();
    for ms in (0..time.as_millis()).step_by(10) {
        let now = from + Duration::from_millis(ms.try_into().unwrap());
        gateway.handle_timeout(now);
        told.extend(std::iter::from_fn(|| gateway.poll_transmit(now, 0)).map(|(to, _)| to));
    }
    told
}

#[test]
fn in_a_crowd_only_stations_that_packets_go_to_are_greeted() {
    let now = Time::ZERO + Duration::from_secs(1);
    let second = Duration::from_secs(1);
    let mut gateway = in_a_crowd();
    let newcomer = Hello { number: 1, wants_answer: true, ..hello(20) };
    gateway.handle_hello(now, (0, mac(20)), newcomer);
    let unasked = told(&mut gateway, now, second);
    let is_due = gateway.handle_next_hop(now + second, (0, mac(20)));
    let asked = told(&mut gateway, now + second, second);
    // One that was not heard yet is asked, too.
    gateway.handle_next_hop(now + second * 2, (0, mac(21)));
    let unheard = told(&mut gateway, now + second * 2, second);

    assert!(!unasked.contains(&mac(20)), "{unasked:?}");
    assert!(is_due && asked.contains(&mac(20)), "{asked:?}");
    assert!(unheard.contains(&mac(21)), "{unheard:?}");
}

#[test]
fn whoever_asks_a_station_in_a_crowd_alone_is_answered() {
    let now = Time::ZERO + Duration::from_secs(1);
    let mut gateway = in_a_crowd();

    gateway.handle_hello(now, (0, mac(20)), Hello { wants_answer: true, ..hello(20) });

    assert!(told(&mut gateway, now, Duration::from_secs(1)).contains(&mac(20)));
}

#[test]
fn a_crowd_says_hello_a_fourth_as_often_and_names_only_stations_that_packets_go_to() {
    let mut gateway = in_a_crowd();
    let (mut times, mut named) = (0, Vec::new());
    for ms in (100..100_000).step_by(100) {
        let now = Time::ZERO + Duration::from_millis(ms);
        for station in 2..12 {
            gateway.handle_alive(now, (0, mac(station)));
        }
        gateway.handle_next_hop(now, (0, mac(3)));
        gateway.handle_timeout(now);
        while let Some((to, hello)) = gateway.poll_transmit(now, 0) {
            if to == Mac::EVERYONE {
                times += 1;
                named.extend(hello.neighbours.iter().map(|heard| heard.boot));
            }
        }
    }

    assert!((10..=16).contains(&times), "{times}");
    named.dedup();
    assert_eq!(named, [boot(3)]);
}

#[test]
fn a_station_that_leaves_us_out_is_not_greeted_unless_packets_go_there() {
    let mut gateway = with(config());
    let second = Duration::from_secs(1);
    let now = Time::ZERO + second;
    while gateway.poll_transmit(now, 0).is_some() {}
    let crowded = Hello { is_partial: true, number: 1, ..hello(20) };
    gateway.handle_hello(now, (0, mac(20)), crowded);

    let unasked = told(&mut gateway, now, second * 3);
    gateway.handle_next_hop(now + second * 3, (0, mac(20)));
    let asked = told(&mut gateway, now + second * 3, second);

    assert!(unasked.len() <= 3 && !unasked.contains(&mac(20)), "{unasked:?}");
    assert!(asked.contains(&mac(20)), "{asked:?}");
}

#[test]
fn in_a_crowd_a_missed_neighbour_is_forgotten_as_any_other() {
    let mut gateway = in_a_crowd();
    meet(&mut gateway, Time::ZERO, hello(20));
    let mut now = Time::ZERO;
    while now < Time::ZERO + Duration::from_secs(30) {
        now += Duration::from_millis(100);
        for station in 2..12 {
            gateway.handle_alive(now, (0, mac(station)));
        }
        gateway.handle_sent(now, (0, mac(20)), None);
        gateway.handle_timeout(now);
        while gateway.poll_transmit(now, 0).is_some() {}
    }

    assert!(!gateway.known.contains_key(&(0, mac(20))));
}

#[test]
fn where_answers_take_seconds_hellos_and_questions_are_rarer() {
    let second = Duration::from_secs(1);
    let counts = |answer_after: Duration, silence: u32| {
        let mut gateway = with(config());
        let (_, first) = gateway.poll_transmit(Time::ZERO, 0).unwrap();
        let now = Time::ZERO + answer_after;
        gateway.handle_hello(now, (0, mac(2)), hello(2));
        let session = gateway.known[&(0, mac(2))].session;
        let reception = Reception { heard: 1, lost: 0, last: first.number, age: 0 };
        let us = Heard { reception, ..heard(gateway.boot, 7, session) };
        let named = Hello { counter: 2, neighbours: vec![us], ..hello(2) };
        gateway.handle_hello(now, (0, mac(2)), named);
        let hellos = told(&mut gateway, now, second * 18).len();
        // It is heard once more, and then owes an answer.
        gateway.handle_alive(now + second * 18, (0, mac(2)));
        let now = now + second * (18 + silence);
        gateway.handle_sent(now, (0, mac(2)), None);
        let questions = told(&mut gateway, now, second * 4).len();
        (hellos, questions)
    };

    let (fast, slow) = (counts(Duration::from_millis(30), 2), counts(second * 3, 2));

    let after = |silence| counts(Duration::from_millis(600), silence).1;
    assert!(after(12) >= 1 && after(12) + 2 <= after(2), "{} {}", after(12), after(2));
    assert!(fast.0 >= 8 && (2..=6).contains(&slow.0), "{fast:?} {slow:?}");
    assert!(fast.1 >= 9 && (1..=4).contains(&slow.1), "{fast:?} {slow:?}");
}

#[test]
fn a_newcomer_that_does_not_answer_is_greeted_ever_more_seldom() {
    let mut gateway = with(config());
    while gateway.poll_transmit(Time::ZERO, 0).is_some() {}
    let now = Time::ZERO + Duration::from_secs(2);
    while gateway.poll_transmit(now, 0).is_some() {}

    gateway.handle_hello(now, (0, mac(2)), hello(2));
    let to_everyone =
        told(&mut gateway, now, EAGER_FOR).iter().filter(|to| **to == Mac::EVERYONE).count();

    assert!((1..=5).contains(&to_everyone), "{to_everyone}");
}

#[test]
fn silence_is_noticed_sooner_while_packets_go_there() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);

    let mut story = Vec::new();
    while story.is_empty() {
        pair.left.handle_sent(pair.now, (0, mac(1)), None);
        story = pair.run(Duration::from_millis(100), |from_left| !from_left);
    }

    assert!(story[0].ends_with("left down"), "{story:?}");
    assert!(pair.now < Time::ZERO + Duration::from_secs(12), "{story:?}");
}

#[test]
fn a_neighbour_is_doubted_when_packets_stay_unanswered_and_not_because_it_had_nothing_to_say() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    pair.run(DOUBT_AFTER * 3 / 2, |_| true);
    let is_doubted = |pair: &mut Pair| {
        pair.left.handle_sent(pair.now, (0, mac(1)), Some(Duration::from_millis(200)));
        pair.left.known[&(0, mac(1))].is_doubted
    };

    let doubted: Vec<bool> = (0..13)
        .map(|_| {
            pair.now += Duration::from_millis(100);
            is_doubted(&mut pair)
        })
        .collect();

    assert_eq!(doubted.iter().position(|&it| it), Some(11), "{doubted:?}");
}

#[test]
fn a_neighbour_whose_answers_take_long_is_asked_less_often_and_missed_later() {
    let down_after = |patience: Duration| {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(5), |_| false);
        let (from, before) = (pair.now, pair.left.stats().hellos_sent);
        let mut story = Vec::new();
        while story.is_empty() {
            pair.left.handle_sent(pair.now, (0, mac(1)), Some(patience));
            story = pair.run(Duration::from_millis(100), |_| true);
        }
        (pair.now.since(from).as_secs(), pair.left.stats().hellos_sent - before)
    };

    let (soon, often) = down_after(Duration::from_millis(100));
    let (late, seldom) = down_after(config().hold / 5);
    let (latest, _) = down_after(config().hold);

    let hold = config().hold.as_secs();
    assert!(soon <= hold / 3 && (hold / 2..hold).contains(&late), "{soon} s, {late} s");
    assert!(seldom < often, "{seldom}, {often}");
    assert!(latest <= hold, "{latest} s");
}

#[test]
fn hellos_are_rare_while_packets_go_both_ways() {
    let hellos = |are_talking: bool| {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(5), |_| false);
        let before = pair.left.stats().hellos_sent;
        for _ in 0..1_000 {
            if are_talking {
                pair.left.handle_sent(pair.now, (0, mac(1)), Some(Duration::from_millis(200)));
                pair.right.handle_alive(pair.now, (0, mac(0)));
                pair.right.handle_sent(pair.now, (0, mac(0)), Some(Duration::from_millis(200)));
                pair.left.handle_alive(pair.now, (0, mac(1)));
            }
            assert_eq!(pair.run(Duration::from_millis(100), |_| false), [""; 0]);
        }
        pair.left.stats().hellos_sent - before
    };

    let (usual, rare) = (hellos(false), hellos(true));

    assert!(rare * 3 < usual && rare * 5 > usual, "{rare}, {usual}");
}

#[test]
fn only_whoever_owes_an_answer_is_asked_alone_and_three_times_at_most() {
    let patience = Some(Duration::from_millis(50));
    let asked = |pauses: &[u64]| {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(5), |_| false);
        pair.left.handle_alive(pair.now, (0, mac(1)));
        let mut questions = 0;
        for &pause in pauses {
            pair.left.handle_sent(pair.now, (0, mac(1)), patience);
            pair.left.handle_timeout(pair.now);
            while let Some((to, _)) = pair.left.poll_transmit(pair.now, 0) {
                questions += u32::from(to == mac(1));
            }
            pair.now += Duration::from_millis(pause);
        }
        questions
    };

    assert_eq!(asked(&[10, 10, 10, 10]), 0, "too early");
    assert_eq!(asked(&[50, 50, 50]), 1, "not again for a while");
    assert_eq!(asked(&[60; 50]), 3);
    // At 60 ms, 200 ms after that, and 400 ms after that, at the next packet.
    assert_eq!([5, 6, 12, 13].map(|count| asked(&vec![60; count])), [1, 2, 2, 3]);
    assert_eq!(asked(&[100, 100]), 1);
    assert_eq!(asked(&[500, 500]), 0, "an acknowledgement needs no answer");
}

#[test]
fn a_neighbour_that_is_doubted_answers_at_once() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    let heard = |pair: &Pair| pair.left.last_heard((0, mac(1))).unwrap();
    // Its next two hellos are lost.
    let silent_at = heard(&pair);
    while pair.now.since(silent_at) <= DOUBT_AFTER {
        pair.run(Duration::from_millis(10), |_| true);
    }

    pair.left.handle_sent(pair.now, (0, mac(1)), None);
    let asked_at = pair.now;
    pair.run(Duration::from_millis(50), |_| false);

    assert!(heard(&pair) >= asked_at);
}

#[test]
fn what_seems_to_come_from_a_neighbour_is_a_sign_of_it_unless_its_host_says_that_it_has_ended() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    let heard = |pair: &Pair| pair.left.last_heard((0, mac(1))).unwrap();

    pair.left.handle_flow(pair.now, (0, mac(1)));
    assert_eq!(heard(&pair), pair.now);

    let before = pair.now;
    pair.now += Duration::from_secs(1);
    assert!(pair.left.handle_refusal(pair.now, (0, mac(1)), Duration::ZERO));
    pair.left.handle_flow(pair.now, (0, mac(1)));
    assert_eq!(heard(&pair), before);
}

/// Three questions 40 ms apart or a quarter of the round trip, and then one round trip and a quarter with 40 ms more.
#[test]
fn a_neighbour_whose_host_says_that_it_has_ended_is_gone_soon_after_the_last_question() {
    for (round_trip, ends_after) in [(8, 2 * 40 + 10 + 40), (400, 2 * 100 + 500 + 40)] {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(5), |_| false);
        let start = pair.now;

        pair.left.handle_refusal(start, (0, mac(1)), Duration::from_millis(round_trip));
        while pair.left.peer_at((0, mac(1))).is_some() {
            pair.run(Duration::from_millis(1), |_| true);
        }

        let took = pair.now.since(start).as_millis();
        assert!((ends_after..=ends_after + 1).contains(&took), "{took} ms of {ends_after}");
    }
}

#[test]
fn shorter_intervals_count_from_now_on() {
    let mut gateway = with(Config { interval: Duration::from_secs(100), ..config() });
    gateway.poll_transmit(Time::ZERO, 0).unwrap();
    assert!(gateway.next_timeout() > Some(Time::ZERO + Duration::from_secs(50)));

    gateway.set_times(Time::ZERO, Duration::from_secs(1), Duration::from_secs(10));

    assert_eq!(gateway.next_timeout(), Some(Time::ZERO + Duration::from_secs(1)));
}

#[test]
fn each_conversation_has_a_number_of_its_own_and_after_a_while_another() {
    let mut sessions = Sessions::new(&mut Rng::stream(1, "sessions"));
    let number = |sessions: &Sessions| sessions.number((0, mac(1)), 7);
    let first = number(&sessions);
    let others = [((1, mac(1)), 7), ((0, mac(2)), 7), ((0, mac(1)), 8)];
    assert!(others.iter().all(|&(place, boot)| sessions.number(place, boot) != first));

    let time = Duration::from_secs(20);
    sessions.renew_after(Time::ZERO + time - Duration::from_millis(1), time);
    assert_eq!(number(&sessions), first);
    sessions.renew_after(Time::ZERO + time, time);
    let second = number(&sessions);
    assert_ne!(second, first);
    sessions.renew_after(Time::ZERO + time * 3 / 2, time);
    assert_eq!(number(&sessions), second);
}

#[test]
fn a_neighbour_that_is_missed_is_up_within_a_second_of_its_return() {
    for outage in [15, 60, 600] {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(5), |_| false);
        pair.left.handle_sent(pair.now, (0, mac(1)), None);
        pair.run(Duration::from_secs(2), |_| true);
        pair.left.handle_sent(pair.now, (0, mac(1)), None);
        pair.run(Duration::from_secs(outage), |_| true);
        assert_eq!(pair.left.peer_at((0, mac(1))), None, "{outage} s");

        let story = pair.run(Duration::from_secs(1), |_| false);

        assert!(pair.left.peer_at((0, mac(1))).is_some(), "{outage} s: {story:?}");
        assert!(pair.right.peer_at((0, mac(0))).is_some(), "{outage} s: {story:?}");
    }
}

#[test]
fn a_neighbour_that_is_missed_is_forgotten_in_the_end() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);
    pair.run(Duration::from_secs(2), |_| true);
    pair.left.handle_sent(pair.now, (0, mac(1)), None);

    pair.run(Duration::from_secs(930), |_| true);
    let before = pair.left.stats().hellos_sent;
    pair.run(Duration::from_secs(60), |_| true);

    // Those to everyone go on.
    assert!(pair.left.stats().hellos_sent - before <= 41);
    assert!(pair.left.addresses((0, mac(1))).is_empty());
}

#[test]
fn a_goodbye_is_believed() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5), |_| false);

    for goodbye in pair.right.goodbyes(pair.now, 0) {
        pair.left.handle_hello(pair.now, (0, mac(1)), goodbye);
    }

    assert!(matches!(pair.left.poll_event(), Some(Event::Down(..))));
    assert_eq!(pair.left.peer_with(0, address(1)), None);
}

#[test]
fn another_profile_is_no_neighbour() {
    let mut pair = Pair::new();
    pair.right = gateway(2, Profile::Paper);
    pair.right.handle_interface(pair.now, 0, mac(1), &[address(1)], true);

    let story = pair.run(Duration::from_secs(10), |_| false);

    for side in ["left", "right"] {
        assert!(story.contains(&format!("0 {side} incompatible")), "{story:?}");
    }
    assert!(story.iter().all(|line| line.ends_with("incompatible")), "{story:?}");
}

#[test]
fn each_learns_what_the_link_to_the_other_loses() {
    let mut pair = Pair::new();
    let mut rng = Rng::stream(1, "losses");

    pair.run(Duration::from_secs(180), |from_left| from_left && rng.chance(0.3));

    let [to_right, to_left] = pair.measured;
    assert!(to_right.arrived + to_right.lost > 30, "{to_right:?}");
    let rate = f64::from(to_right.lost) / f64::from(to_right.arrived + to_right.lost);
    assert!((0.15..0.45).contains(&rate), "{to_right:?}");
    assert_eq!(to_left.lost, 0, "{to_left:?}");
    // The link has no delay, and ages are told in microseconds.
    let is_short = |time: Duration| time < Duration::from_micros(1);
    assert!(to_right.round_trip.is_some_and(is_short), "{to_right:?}");
    assert!(to_left.round_trip.is_some_and(is_short), "{to_left:?}");
}

/// Two gateways on a link without delay.
struct Pair {
    now: Time,
    left: Neighbours,
    right: Neighbours,
    /// The hardware address of the right station.
    right_at: Mac,
    /// All hellos sent by the right station.
    from_right: Vec<Hello>,
    /// The last measurements of the link, by the left and the right station.
    measured: [LinkReport; 2],
}

impl Pair {
    fn new() -> Self {
        let (left, mut right) = (with(config()), gateway(2, Profile::Default));
        right.handle_interface(Time::ZERO, 0, mac(1), &[address(1)], true);
        let (from_right, measured) = (Vec::new(), Default::default());
        Self { now: Time::ZERO, left, right, right_at: mac(1), from_right, measured }
    }

    /// What happens in a while, when hellos `is_lost`, asked with whether the left sent it.
    fn run(&mut self, time: Duration, mut is_lost: impl FnMut(bool) -> bool) -> Vec<String> {
        let end = self.now + time;
        let mut story = Vec::new();
        loop {
            for from_left in [true, false] {
                let (from, to, station) = if from_left {
                    (&mut self.left, &mut self.right, mac(0))
                } else {
                    (&mut self.right, &mut self.left, self.right_at)
                };
                from.handle_timeout(self.now);
                let before = from.stats().hellos_sent;
                let mut count = 0;
                while let Some((_, hello)) = from.poll_transmit(self.now, 0) {
                    count += 1;
                    assert_eq!(from.stats().hellos_sent, before + count);
                    if !from_left {
                        self.from_right.push(hello.clone());
                    }
                    if !is_lost(from_left) {
                        to.handle_hello(self.now, (0, station), hello);
                    }
                }
            }
            let [on_left, on_right] = &mut self.measured;
            let sides = [("left", &mut self.left, on_left), ("right", &mut self.right, on_right)];
            for (name, side, measured) in sides {
                while let Some(event) = side.poll_event() {
                    let what = match event {
                        Event::Disputed(_) => "disputed",
                        Event::Down(..) => "down",
                        Event::Measured(_, report) => {
                            *measured = report;
                            continue;
                        }
                        Event::Incompatible(_) => "incompatible",
                        Event::Misplaced(_) => "misplaced",
                        Event::Up(..) => "up",
                    };
                    let seconds = self.now.since(Time::ZERO).as_secs();
                    story.push(format!("{seconds} {name} {what}"));
                }
            }
            let next = earliest(self.left.next_timeout(), self.right.next_timeout()).unwrap();
            if next > end {
                self.now = end;
                return story;
            }
            self.now = self.now.max(next);
        }
    }
}

fn sorted<T: Clone + Ord>(story: &[T]) -> Vec<T> {
    let mut story = story.to_vec();
    story.sort_unstable();
    story
}

fn config() -> Config {
    Config {
        profile: Profile::Default,
        interval: Duration::from_secs(2),
        hold: Duration::from_secs(20),
        limit: 256,
        only: None,
    }
}

/// The first station, with one interface that runs.
fn with(config: Config) -> Neighbours {
    let mut gateway = Neighbours::new(config, Rng::stream(1, "neighbours"));
    gateway.handle_interface(Time::ZERO, 0, mac(0), &[address(0)], true);
    gateway
}

fn gateway(seed: u64, profile: Profile) -> Neighbours {
    let config = Config { profile, ..config() };
    Neighbours::new(config, Rng::stream(seed, "neighbours"))
}

/// The first hello of a station that hears nobody.
fn hello(station: u16) -> Hello {
    Hello {
        profile: Profile::Default,
        boot: boot(station),
        counter: 1,
        wants_answer: false,
        is_goodbye: false,
        is_partial: false,
        number: 0,
        station: mac(station),
        addresses: vec![address(station)],
        neighbours: Vec::new(),
    }
}

/// Lets the sender of `hello` come up, if allowed.
fn meet(gateway: &mut Neighbours, now: Time, hello: Hello) {
    let place = (0, hello.station);
    gateway.handle_hello(now, place, hello.clone());
    let session = gateway.known.get(&place).map_or(0, |known| known.session);
    let us = heard(gateway.boot, 7, session);
    let hello = Hello { counter: hello.counter + 1, neighbours: vec![us], ..hello };
    gateway.handle_hello(now, place, hello);
}

fn heard(boot: u64, session: u32, echo: u32) -> Heard {
    Heard { boot, session, echo, reception: Reception::default() }
}

fn boot(station: u16) -> u64 {
    1_000 + u64::from(station)
}

fn address(station: u16) -> IpAddr {
    let [high, low] = station.to_be_bytes();
    IpAddr::from([10, 0, high, low])
}

fn mac(station: u16) -> Mac {
    let [high, low] = station.to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}
