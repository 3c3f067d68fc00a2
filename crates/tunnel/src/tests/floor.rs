//! What the sender gives up, and nothing else, is given up by the receiver.

use super::*;

#[test]
fn nothing_is_given_up_but_what_the_sender_gave_up() {
    let deadline = Some(Duration::from_millis(500));
    let mut path = Path::new(5, Config { deadline, ..Config::default() });
    path.feed(0, 1, 500, MILLISECOND);
    path.run(secs(1));
    path.now = secs(1);

    // One is too old when the path is there again, the next one is not.
    path.loss = 1.0;
    path.feed(0, 2, 501, 300 * MILLISECOND);
    path.run(secs(1) + 510 * MILLISECOND);
    path.now = secs(1) + 510 * MILLISECOND;
    path.loss = 0.0;
    path.feed(0, 1, 502, MILLISECOND);
    path.run(secs(4));

    let [expired, given_up] =
        [path.stats(0).sent.sources_expired, path.stats(1).received.sources_given_up];
    assert_eq!((expired, given_up), (1, 1), "{:?}", path.stats(1));
    let mut expected = path.put_in.clone();
    expected.remove(1);
    assert_eq!(path.taken_out(1), expected, "in order");
}
