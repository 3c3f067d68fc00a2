//! The work that an authenticated peer can make, in counted steps, for each kind of input.

use std::time::Duration;

use base::rng::Rng;
use base::time::Time;

use super::datagram;
use crate::receiver::{LISTED, Receiver, SLOT};
use crate::sender::LOOKED_AT;
use crate::stats::{Inner, Received, Sent, Stats};
use crate::wire::{Body, Message, Report};
use crate::work::{
    Budget, Budgets, HANDED, MOST_EQUATIONS, MOST_STEPS, SENDING_A_NANOSECOND, STEPS_A_NANOSECOND,
};
use crate::{Config, PathId, Tunnel};

const LONGEST: usize = 1_400;
const WINDOW: usize = 8_192;
/// As long as 64 datagrams take at a gigabit a second.
const MOMENT: Duration = Duration::from_micros(736);
/// A repair at full rank: two passes over 512 rows of 2,048 columns and a symbol, the columns looked through once, the
/// known sources that it covers, and what each covered source costs by itself.
const REPAIR: u64 = 512 * (3 * 2_048 + 2 * LONGEST as u64) + 1_024 * (LONGEST as u64 + 2 * 64);

/// A receiver that does what a hostile peer says.
struct Victim {
    receiver: Receiver,
    work: Budget,
    stats: Received,
    now: Time,
}

impl Victim {
    fn new() -> Self {
        Self {
            receiver: Receiver::new(WINDOW, Duration::from_secs(2), LONGEST),
            work: Budgets::default().decoding,
            stats: Received::default(),
            now: Time::ZERO + Duration::from_secs(1),
        }
    }

    /// The steps of what it is told, some time after what was before.
    fn steps(&mut self, say: impl FnOnce(&mut Self)) -> u64 {
        self.now += Duration::from_millis(10);
        self.at_once(say)
    }

    /// The same, at the moment of what was before.
    fn at_once(&mut self, say: impl FnOnce(&mut Self)) -> u64 {
        let before = self.work.done();
        say(self);
        self.work.done() - before
    }

    fn source(&mut self, number: u64, symbol: &[u8]) {
        let Self { receiver, work, stats, now } = self;
        receiver.handle_source(*now, number, symbol, work, stats);
    }

    fn repair(&mut self, number: u64, window: (u64, u16), symbol: &[u8]) {
        let Self { receiver, work, stats, now } = self;
        receiver.handle_repair(*now, number, window, symbol, work, stats);
    }

    fn floor(&mut self, floor: u64) {
        let Self { receiver, work, stats, now } = self;
        receiver.handle_floor(*now, floor, work, stats);
    }

    /// What is missing, and the first of it.
    fn missing(&mut self) -> (usize, u64) {
        let (holes, _) = self.receiver.holes(self.now, Duration::ZERO, &mut self.work);
        (holes.missing, holes.first_missing)
    }
}

#[test]
fn a_repair_makes_bounded_work_whatever_it_covers() {
    let mut victim = Victim::new();
    let mut worst = 0;
    for number in 0..3_000_u64 {
        // Over 1,024 missing sources, with a floor that advances.
        let first = number;
        worst = worst.max(victim.steps(|it| {
            it.floor(first);
            it.repair(number, (first, 1_024), &[7; LONGEST]);
        }));
    }

    assert!(victim.stats.repairs_useful > 512, "{:?}", victim.stats);
    assert!(victim.stats.repairs_full > 0, "{:?}", victim.stats);
    let most = REPAIR + SLOT * 1_024;
    assert!(worst <= most, "{worst} of {most}");
    assert_eq!(victim.stats.repairs_over_budget, 0, "each had its time");
}

#[test]
fn repairs_of_a_moment_and_of_a_second_share_a_budget_and_the_rest_is_dropped_and_counted() {
    let mut victim = Victim::new();
    for number in 0..500 {
        victim.steps(|it| {
            it.repair(number, (0, 1_024), &[7; LONGEST]);
        });
    }

    let mut work = 0;
    victim.steps(|_| {});
    for number in 1_000..1_064 {
        // Each advances, so that none is redundant or too many.
        work += victim.at_once(|it| {
            let floor = number - 990;
            it.floor(floor);
            it.repair(number, (floor, 1_024), &[7; LONGEST]);
        });
    }

    assert!(work <= MOST_STEPS + REPAIR, "{work}");
    let Received { repairs_over_budget, repairs_full, .. } = victim.stats;
    assert!(repairs_over_budget > 10, "{repairs_over_budget} {repairs_full}");
    let before = victim.stats.repairs_over_budget;
    work = 0;
    for number in 2_000..12_000 {
        victim.now += Duration::from_micros(100);
        work += victim.at_once(|it| {
            let floor = number - 1_900;
            it.floor(floor);
            it.repair(number, (floor, 1_024), &[7; LONGEST]);
        });
    }
    let most = MOST_STEPS + REPAIR + STEPS_A_NANOSECOND * 1_000_000_000;
    assert!(work <= most, "{work} in a second of 10,000 repairs, {most}");
    assert!(victim.stats.repairs_over_budget > before, "{:?}", victim.stats);
    let next = victim.steps(|it| {
        it.repair(20_000, (11_000, 1_024), &[7; LONGEST]);
    });
    assert!(next > 0, "later there is room again");
}

#[test]
fn a_source_makes_bounded_work_whatever_waits_for_it() {
    let mut victim = Victim::new();
    for number in 0..512 {
        victim.steps(|it| {
            it.repair(number, (0, 1_024), &[7; LONGEST]);
        });
    }
    let mut worst = 0;
    for number in 0..600 {
        worst = worst.max(victim.steps(|it| {
            it.source(number, &[0; 100]);
        }));
    }
    assert!(worst <= REPAIR, "{worst}");
    assert!(worst > 100_000, "{worst}: nothing was substituted");
}

#[test]
fn a_leap_of_the_numbers_makes_bounded_work_and_one_of_many_at_a_moment() {
    let mut victim = Victim::new();
    let mut work = 0;
    victim.steps(|_| {});
    for leap in 0..64 {
        work += victim.at_once(|it| {
            it.source(leap * 8_000, &[7; 20]);
            it.floor(leap * 8_000 + 4_000);
        });
    }

    assert!(work <= MOST_STEPS + SLOT * (WINDOW as u64 + 1_024), "{work}");
    assert!(victim.stats.leaps_refused > 60, "{:?}", victim.stats);
    let before = victim.receiver.end();
    victim.at_once(|it| {
        it.source(before, &[7; 20]);
    });
    assert_eq!(victim.receiver.end(), before + 1, "what follows is taken all the same");
}

#[test]
fn an_honest_fade_of_a_tenth_of_a_second_at_a_gigabit_needs_no_more_than_its_budget() {
    // 8,192 of 8,900 sources may be missing. Then come the first repairs, over the newest 1,024 of them, and all
    // sources again, 64 at a moment as a driver takes them.
    let mut victim = Victim::new();
    let missing = 8_192_u64;
    victim.steps(|it| {
        it.source(missing, &[0; LONGEST]);
    });
    for number in 0..64 {
        victim.now += MOMENT;
        victim.at_once(|it| {
            let window = (missing - 1_023, 1_024);
            it.repair(10_000 + number, window, &[0; LONGEST]);
        });
    }
    for turn in 0..missing / 64 {
        victim.now += MOMENT;
        victim.at_once(|it| {
            for number in turn * 64..turn * 64 + 64 {
                it.source(number, &[0; LONGEST]);
            }
        });
    }

    assert_eq!(victim.missing(), (0, missing + 1), "{:?}", victim.stats);
    let Received { repairs_over_budget, leaps_refused, sources_recovered, .. } = victim.stats;
    assert_eq!((repairs_over_budget, leaps_refused), (0, 0), "{:?}", victim.stats);
    assert_eq!(sources_recovered, 64);
}

#[test]
fn an_honest_gigabit_of_which_a_fifth_is_lost_stays_within_its_budget() {
    // A quarter as many repairs as sources come, over the newest 1,024 sources.
    let mut victim = Victim::new();
    let mut rng = Rng::stream(1, "honest");
    let (mut number, mut next) = (0, 1 << 40);
    for _ in 0..400 {
        victim.now += MOMENT;
        victim.at_once(|it| {
            for _ in 0..51 {
                if rng.chance(0.8) {
                    it.source(number, &[0; LONGEST]);
                }
                number += 1;
            }
            for _ in 0..13 {
                let first = number.saturating_sub(1_024);
                let count = u16::try_from(number - first).unwrap();
                it.repair(next, (first, count), &[0; LONGEST]);
                next += 1;
            }
        });
    }

    assert_eq!(victim.stats.repairs_over_budget, 0, "{:?}", victim.stats);
    assert!(victim.stats.sources_recovered > 1_000, "{:?}", victim.stats);
}

#[test]
fn a_report_makes_work_for_each_missing_source_and_no_more() {
    let mut victim = Victim::new();
    victim.steps(|it| it.source(9_000, &[0; 20]));

    let steps = victim.steps(|it| assert_eq!(it.missing(), (9_000, 0)));

    assert_eq!(steps, LISTED * 9_000);
}

/// A tunnel whose peer lies.
struct Target {
    tunnel: Tunnel,
    now: Time,
    /// The number of the peer's next datagram.
    next: u64,
    /// One past the number of the tunnel's newest datagram.
    end: u64,
    /// Packets that came out.
    released: u64,
}

impl Target {
    fn new() -> Self {
        let now = Time::ZERO + Duration::from_secs(1);
        let tunnel = Tunnel::new(now, Config::default(), Rng::stream(1, "target"));
        Self { tunnel, now, next: 0, end: 0, released: 0 }
    }

    /// The peer says this, and the driver takes what is ready, a turn's worth.
    fn hear(&mut self, message: &Message<'_>) {
        let mut payload = Vec::new();
        message.emit(&mut payload);
        self.hear_octets(&payload);
    }

    fn hear_octets(&mut self, payload: &[u8]) {
        self.tunnel.handle_datagram(self.now, self.next, false, payload);
        self.next += 1;
        let mut out = Vec::new();
        while self.tunnel.poll_packet(self.now, &mut out) {
            self.released += 1;
        }
        for _ in 0..64 {
            let Some(transmit) = self.tunnel.poll_transmit(self.now, PathId::FIRST, &mut out)
            else {
                break;
            };
            self.end = transmit.number + 1;
        }
        if self.tunnel.next_timeout().is_some_and(|due| due <= self.now) {
            self.tunnel.handle_timeout(self.now);
        }
    }

    fn stats(&self) -> Stats {
        self.tunnel.stats()
    }
}

/// Ten thousand datagrams a second.
const BETWEEN: Duration = Duration::from_micros(100);
const SECOND: u64 = 1_000_000_000;

#[test]
fn demands_for_reports_wait_when_reports_have_made_too_much_work() {
    let mut target = Target::new();
    target.hear(&Message {
        body: Body::Source { number: 9_000, symbol: &[0; 20] },
        ..Message::default()
    });

    for _ in 0..10_000 {
        target.now += BETWEEN;
        target.hear(&Message { wants_report: true, ..Message::default() });
    }

    let Received { work, reports_deferred, .. } = target.stats().received;
    let one_report = LISTED * 9_000;
    let leap = SLOT * 9_001;
    // What waits goes out with the reports that come every few milliseconds anyway.
    let regular = 1_000 * one_report;
    let most = leap + MOST_STEPS + STEPS_A_NANOSECOND * SECOND + regular;
    assert!(work <= most, "{work} of {most}");
    assert!(reports_deferred > 5_000, "{:?}", target.stats());
    assert!(target.stats().sent.reports_sent > 100, "{:?}", target.stats());
}

#[test]
fn lies_about_missing_sources_make_no_more_work_and_equations_than_their_budgets() {
    let mut target = Target::new();
    let packet = datagram(1_100, 0, 7);

    for turn in 0..10_000_u32 {
        target.now += BETWEEN;
        if turn % 8 == 0 {
            let _ = target.tunnel.handle_packet(target.now, &packet);
        }
        // All datagrams came, a microsecond apart, and none of 60,000 sources.
        let newest = u32::try_from(target.end.max(1) - 1).unwrap();
        let report = Report {
            newest,
            received_at: newest,
            received: newest + u32::from(target.end > 0),
            extent: u16::try_from(target.stats().sent.sources_sent).unwrap(),
            missing: 60_000,
            ..Report::default()
        };
        target.hear(&Message { report: Some(report), ..Message::default() });
    }

    let sent = target.stats().sent;
    let Sent { repair_work, repairs_sent, repairs_replaced, sources_resent, sources_sent, .. } =
        sent;
    let earned = 1_024 * 1_400 * sources_sent;
    let most_work = MOST_STEPS + 1_024 * 1_400 + STEPS_A_NANOSECOND * SECOND + earned;
    let equations = repairs_sent + sources_resent;
    let most = MOST_EQUATIONS + 1 + (SENDING_A_NANOSECOND * SECOND + earned) / HANDED;
    assert!(repair_work <= most_work, "{repair_work} of {most_work}");
    assert!(equations <= most, "{equations} of {most}");
    assert!(repairs_sent > 100 && repairs_replaced > 1_000, "{sent:?}");
    assert!(sent.equations_deferred > 1_000, "{sent:?}");
}

#[test]
fn reports_make_no_more_work_than_their_budget_and_acknowledge_all_the_same() {
    let mut target = Target::new();
    let packet = datagram(1_100, 0, 7);
    for _ in 0..10 {
        let _ = target.tunnel.handle_packet(target.now, &packet);
    }
    for _ in 0..1_000 {
        target.now += BETWEEN;
        target.hear(&Message::default());
    }
    let sources = target.stats().sent.sources_sent;
    assert!(sources > 5, "{:?}", target.stats());
    let said = |target: &Target, acknowledged: u64| {
        let newest = u32::try_from(target.end - 1).unwrap();
        let first_missing = u32::try_from(acknowledged).unwrap();
        let received = newest + 1;
        Report { newest, received_at: newest, received, first_missing, ..Report::default() }
    };

    // All datagrams came, and no source: all of them are looked at, each time.
    let mut reports = 0;
    while target.stats().sent.reports_over_budget == 0 {
        let report = said(&target, 0);
        target.hear(&Message { report: Some(report), ..Message::default() });
        reports += 1;
        assert!(reports < 100_000, "{:?}", target.stats());
    }
    let report = said(&target, sources);
    target.hear(&Message { report: Some(report), ..Message::default() });

    let Sent { report_work, sources_sent, .. } = target.stats().sent;
    assert!(report_work <= MOST_STEPS + 3 * LOOKED_AT * sources_sent, "{report_work}");
    assert!(report_work > MOST_STEPS, "{report_work}");
    assert_eq!(target.stats().sent.reports_over_budget, 2);
    assert_eq!(target.tunnel.estimates().unacknowledged, 0);
}

/// A source with so many packets of 20 octets.
fn crowded(number: u32, packets: usize) -> Vec<u8> {
    let record = [0, 20, 0, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let body = Body::Source { number, symbol: &record.repeat(packets) };
    let mut payload = Vec::new();
    Message { body, ..Message::default() }.emit(&mut payload);
    payload
}

#[test]
fn a_peer_that_sends_only_small_packets_is_held_to_no_number_of_them() {
    let mut target = Target::new();

    for number in 0..10_000 {
        target.now += BETWEEN;
        target.hear_octets(&crowded(number, 50));
    }

    let Inner { packets_out, packets_over_budget, .. } = target.stats().inner;
    assert_eq!((target.released, packets_out, packets_over_budget), (500_000, 500_000, 0));
}

#[test]
fn packets_that_nobody_takes_are_kept_up_to_a_bound_and_the_rest_is_dropped_and_counted() {
    let mut target = Target::new();
    target.now += BETWEEN;

    for number in 0..10_000 {
        target.tunnel.handle_datagram(target.now, number.into(), false, &crowded(number, 50));
    }
    let refused = target.stats().inner.packets_over_budget;
    let mut out = Vec::new();
    let mut taken = |target: &mut Target| {
        std::iter::from_fn(|| target.tunnel.poll_packet(target.now, &mut out).then_some(())).count()
    };
    let kept = taken(&mut target);
    target.tunnel.handle_datagram(target.now, 10_000, false, &crowded(10_000, 50));
    let again = taken(&mut target);

    // 9,216 sources of 1,536 octets; a packet counts as 256 at least.
    assert_eq!(kept, 9_216 * 1_536 / 256);
    assert_eq!(refused, 500_000 - kept as u64);
    assert_eq!(again, 50, "later there is room again");
}

#[test]
fn what_came_behind_a_loss_is_released_at_once_and_whole() {
    let mut target = Target::new();
    // Each packet waits for the one before it.
    let mut symbol = vec![0x04, 0xb0, 0, 1];
    symbol.extend([0x45, 0, 0x04, 0xb0, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    symbol.resize(4 + 1_200, 7);
    let hear = |target: &mut Target, number| {
        let body = Body::Source { number, symbol: &symbol };
        target.hear(&Message { body, ..Message::default() });
    };
    hear(&mut target, 0);

    // A round trip of 50 ms at a gigabit.
    for number in 2..5_000 {
        target.now += Duration::from_micros(10);
        hear(&mut target, number);
    }
    assert_eq!(target.released, 1);
    hear(&mut target, 1);

    assert_eq!((target.released, target.stats().inner.packets_over_budget), (5_000, 0));
}

#[test]
fn the_acknowledgements_of_a_download_of_a_gigabit_are_released() {
    // One for two segments, twenty in a datagram, in trains of ten datagrams.
    let mut target = Target::new();
    let record = [0, 20, 0, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let symbol: Vec<u8> = record.repeat(20);

    for number in 0..2_200 {
        if number % 10 == 0 {
            target.now += 10 * Duration::from_micros(454);
        }
        let body = Body::Source { number, symbol: &symbol };
        target.hear(&Message { body, ..Message::default() });
    }

    assert_eq!((target.released, target.stats().inner.packets_over_budget), (44_000, 0));
}

#[test]
fn each_source_that_a_repair_covers_is_work_though_it_is_empty() {
    let mut victim = Victim::new();
    for number in 0..1_022 {
        victim.source(number, &[]);
    }

    let few = victim.steps(|it| it.repair(5_000, (1_022, 2), &[]));
    let many = victim.steps(|it| it.repair(5_001, (0, 1_024), &[]));

    assert_eq!(victim.stats.sources_recovered, 2);
    assert!(many > 1_024 * 64 && few < 1_024 * 64, "{few}, {many}");
}
