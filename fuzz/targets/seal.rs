#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| trackway_fuzz::run("seal", input));
