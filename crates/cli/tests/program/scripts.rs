//! Tests that scripts fit the code that they work on.

use std::io::ErrorKind;
use std::process::Command;

#[test]
fn the_code_that_the_chosen_faults_break_is_there() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/faults");

    let listed = match Command::new("python3").args([script, "--list"]).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: python3 is not installed");
            return;
        }
        listed => listed.expect("python3 starts"),
    };

    let told = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{told}");
}
