//! The search for the path MTU alone, on paths that say yes or nothing.

use std::time::Duration;

use base::time::{Time, earliest};

use crate::mtu::Search;

const RTT: Duration = Duration::from_millis(10);
/// Bit/s.
const RATE: f64 = 1e9;

#[test]
fn doubts_do_not_put_off_the_search_upwards() {
    let mut path = Path::new(1_400);
    path.run(60);
    assert_eq!(path.search.confirmed(), 1_400);
    let due = path.search.next_timeout().unwrap();

    for _ in 0..5 {
        path.search.verify(path.now);
        path.run(30);
        assert_eq!(path.search.next_timeout(), Some(due));
    }
    path.longest = 1_500;
    path.run(600);

    assert_eq!(path.search.confirmed(), 1_500);
}

#[test]
fn a_path_that_carries_nothing_there_is_asked_seldom_and_found_again() {
    for is_heard in [false, true] {
        let mut path = Path::new(1_500);
        path.run(10);
        (path.longest, path.is_heard) = (0, is_heard);

        path.search.verify(path.now);
        path.octets = 0;
        path.run(60);
        assert!(path.octets < 50_000, "{is_heard}: {}", path.octets);
        (path.longest, path.is_heard) = (1_000, true);
        path.run(12);

        assert!((992..=1_000).contains(&path.search.confirmed()), "{}", path.search.confirmed());
    }
}

#[test]
fn a_path_that_nobody_else_uses_is_measured_as_fast_as_another() {
    for longest in [1_500, 1_400, 1_320, 1_000, 576] {
        let mut path = Path::new(longest);
        path.is_heard = false;

        // Sixteen sizes at most, six rounds each of 20 ms.
        path.run(2);

        let found = path.search.confirmed();
        assert!((longest - 8..=longest).contains(&found), "{found} of {longest}");
        assert!(path.octets < 200_000, "{}", path.octets);
    }
}

#[test]
fn a_size_is_not_given_up_while_the_path_carries_nothing() {
    let mut path = Path::new(1_400);
    path.run(1);
    let before = path.search.confirmed();
    path.search.handle_path_changed(path.now, 1_500, RTT);
    assert_eq!(path.search.confirmed(), 1_280);
    (path.longest, path.is_heard) = (0, false);

    path.run(300);
    (path.longest, path.is_heard) = (1_400, true);
    path.run(15);

    assert_eq!((before, path.search.confirmed()), (1_400, 1_400));
}

#[test]
fn probes_leave_a_slow_path_room() {
    let mut path = Path::new(1_000);
    path.rate = 64_000.0;

    path.run(2);

    // The last of them may have just begun.
    assert!(path.octets <= 2 * 64_000 / 8 + 5_500, "{}", path.octets);
}

#[test]
fn a_path_that_gets_shorter_while_a_longer_size_is_tried_is_noticed() {
    let mut path = Path::new(1_300);
    path.run(1);
    let upwards = path.search.next_timeout().unwrap();
    assert!(
        upwards <= path.now + RTT * 2,
        "it still asks for more than {}",
        path.search.confirmed()
    );
    let before = path.search.confirmed();

    path.longest = 900;
    path.search.verify(path.now);
    path.run(1);

    assert!(before > 1_000 && path.search.confirmed() <= 900, "{}", path.search.confirmed());
}

#[test]
fn what_was_answered_on_the_path_before_says_nothing_of_the_next() {
    let mut path = Path::new(1_500);
    path.run(1);
    assert_eq!(path.search.confirmed(), 1_500);

    path.search.handle_path_changed(path.now, 1_500, RTT);
    path.search.handle_reply(path.now + RTT / 2, 1_500);
    assert_eq!(path.search.confirmed(), 1_280);
    path.search.handle_reply(path.now + RTT, 1_500);
    assert_eq!(path.search.confirmed(), 1_500);
}

#[test]
fn a_first_link_that_takes_more_again_is_used_at_once() {
    for is_searching in [false, true] {
        let mut path = Path::new(1_500);
        path.run(1);
        path.search.handle_too_big(path.now, 1_400);
        if !is_searching {
            path.run(30);
            assert!(
                (1_380..1_400).contains(&path.search.confirmed()),
                "{}",
                path.search.confirmed()
            );
        }

        path.search.handle_first_link(path.now, 1_500);
        path.run(30);
        assert_eq!(path.search.confirmed(), 1_500, "{is_searching}");

        path.search.handle_first_link(path.now, 1_000);
        let at_once = path.search.passing();
        path.run(30);
        assert!(at_once <= 1_000 && path.search.confirmed() == 1_000, "{is_searching}: {at_once}");
    }
}

#[test]
fn a_peer_that_was_silent_and_is_heard_again_is_asked_about_the_least_first() {
    let mut now = Time::ZERO;
    let mut search = Search::new(now, 1_280, 1_500);
    let asked = |search: &mut Search, now| -> Vec<usize> {
        std::iter::from_fn(|| search.poll_probe(now, Some(RTT), RATE)).collect()
    };
    let mut is_asked_little = false;
    while !is_asked_little {
        is_asked_little = asked(&mut search, now) == [296];
        now = search.next_timeout().unwrap();
        search.handle_timeout(now);
    }

    search.handle_heard(now);

    assert_eq!(asked(&mut search, now), [296]);
}

/// A path that answers each probe up to its length after [`RTT`].
struct Path {
    now: Time,
    search: Search,
    longest: usize,
    /// Whether something else comes from the peer all the time.
    is_heard: bool,
    rate: f64,
    octets: usize,
}

impl Path {
    fn new(longest: usize) -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        let search = Search::new(now, 1_280, 1_500);
        Self { now, search, longest, is_heard: true, rate: RATE, octets: 0 }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        let mut replies = Vec::new();
        while self.now <= end {
            while let Some(size) = self.search.poll_probe(self.now, Some(RTT), self.rate) {
                self.octets += size;
                if size <= self.longest {
                    replies.push((self.now + RTT, size));
                }
            }
            let reply = replies.iter().map(|&(at, _)| at).min();
            let due = earliest(self.search.next_timeout(), self.search.next_probe());
            let heard = self.is_heard.then(|| self.now + RTT);
            let next = earliest(earliest(reply, heard), due);
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if self.is_heard {
                self.search.handle_heard(self.now);
            }
            for (_, size) in replies.extract_if(.., |(at, _)| *at <= self.now) {
                self.search.handle_heard(self.now);
                self.search.handle_reply(self.now, size);
            }
            self.search.handle_timeout(self.now);
        }
        self.now = end;
    }
}
