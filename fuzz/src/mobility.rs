//! Fuzzes the readers of movement files: each file is read or refused with a reason, and traces survive a round trip.

use std::time::Duration;

use base::time::Time;
use sim::mobility::trace::{Invalid, MAX_COORDINATE};
use sim::mobility::{Import, Motion, Trace, bonnmotion, setdest};

/// Reads the input as an ns-2 movement file.
pub(crate) fn setdest(input: &[u8]) {
    let Some(trace) = survive(setdest::read(input)) else { return };
    let again = setdest::read(setdest::write(&trace).as_bytes()).expect("what was written").trace;
    assert!(trace.keys().eq(again.keys()));
}

/// Reads the input as a BonnMotion trace.
pub(crate) fn bonnmotion(input: &[u8]) {
    let Some(trace) = survive(bonnmotion::read(input)) else { return };
    let written = bonnmotion::write_gzip(&trace);
    let again = bonnmotion::read(&written).expect("what was written").trace;
    assert_eq!(trace.len(), again.len());
}

/// Every node of a trace has a position at any time.
fn survive(read: Result<Import, Invalid>) -> Option<Trace> {
    match read {
        Err(invalid) => {
            let said = invalid.to_string();
            assert!(said.starts_with("line ") && !said.contains('\n'), "{said}");
            assert!(said.len() < 500, "{said}");
            None
        }
        Ok(Import { trace, .. }) => {
            trace.values().for_each(expect_places);
            Some(trace)
        }
    }
}

fn expect_places(motion: &Motion) {
    for leg in motion.legs() {
        assert!(leg.start <= leg.end && leg.speed() >= 0.0);
    }
    for seconds in [0, 1, 1_000, 10_000_000, 100_000_000] {
        let place = motion.position(Time::ZERO + Duration::from_secs(seconds));
        assert!(place.x.abs() <= 1.001 * MAX_COORDINATE, "{place:?}");
        assert!(place.y.abs() <= 1.001 * MAX_COORDINATE, "{place:?}");
    }
}
