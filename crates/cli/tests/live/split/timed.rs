//! Tests of split connections that measure time.

use std::time::Instant;

use super::*;

#[test]
#[ignore = "needs root: run by ./test"]
fn a_request_over_a_new_connection_takes_one_round_trip() {
    let net = Net::with_gateways(Some("--delay 200ms"));
    let round_trip = Duration::from_millis(400);
    let listener = net.listen(7);

    let began = Instant::now();
    let mut client = net.dial("10.2.0.2:7");
    client.write_all(b"request").unwrap();
    let mut server = accept(&listener);
    server.read_exact(&mut [0; 7]).unwrap();
    server.write_all(b"response").unwrap();
    client.read_exact(&mut [0; 8]).unwrap();
    let took = began.elapsed();

    assert!(took > round_trip && took < round_trip * 3 / 2, "{took:?}");
    net.expect_counter(0, "hfpep_bearer_opened_on_spare", 1);
}
