//! Messages whose programs want them no more.

use std::time::Duration;

use super::bench::{Fate, GROUP, Net};
use crate::{Config, Options, Outcome, Precedence};

const LONG: Duration = Duration::from_secs(4_000);

#[test]
fn a_message_that_waits_or_is_under_way_is_cancelled_for_all_that_have_no_outcome() {
    let mut config = Config::default();
    config.flow.transfers = 1;
    let mut net = Net::new(3, config).with_air(|from, to, _| match (from, to) {
        (0, 2) => Fate::Lost,
        _ => Fate::Arrives,
    });
    let via = Some(GROUP);
    let under_way = net.send(100, &[1, 2], Options { via, ..Options::default() });
    net.run(Duration::from_secs(5));
    let precedence = Precedence::new(1);
    let waits = net.send(100, &[1, 2], Options::default());
    let other = net.send(100, &[1], Options { precedence, ..Options::default() });

    assert_eq!(net.nodes[0].cancel(net.now, under_way), 1);
    assert_eq!(net.nodes[0].cancel(net.now, waits), 2);
    assert_eq!(net.nodes[0].cancel(net.now, waits), 0, "once");
    net.run(LONG);

    assert_eq!(net.fates(under_way), [(1, Outcome::Delivered), (2, Outcome::Cancelled)]);
    assert_eq!(net.fates(waits), [(1, Outcome::Cancelled), (2, Outcome::Cancelled)]);
    assert_eq!(net.fates(other), [(1, Outcome::Delivered)], "it has the room that was left");
    assert_eq!(net.delivered.len(), 2);
    assert_eq!(net.nodes[0].stats().messages.cancelled, 3);
    let aborts = net.said_by(0).iter().filter(|said| said.contains("abort")).count();
    assert_eq!(aborts, 1, "who may have begun to receive is told: {:?}", net.story);
}
