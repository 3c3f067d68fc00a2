//! Fuzzes a modem behind TCP: packets survive a round trip, and both ends survive any octets at any time.

use std::time::Duration;

use base::crc;
use base::time::Time;
use hf::modem::lan::scan::{Found, scan};
use hf::modem::lan::wire::MAX_PAYLOAD;
use hf::modem::lan::{Config, Dce, Dte};
use hf::modem::{Event, Keying, Waveform};

const BLOCK: usize = 1_296;

/// Reads the input as packets, then as the events and octets for two ends.
pub fn lan(input: &[u8]) {
    packets(input);
    sessions(input);
}

fn packets(input: &[u8]) {
    let mut rest = input;
    loop {
        match scan(rest) {
            Found::Nothing => break,
            Found::Noise(len) | Found::Damaged(len) | Found::Wrong(len) => rest = &rest[len..],
            Found::Packet(len, packet) => {
                let mut out = Vec::new();
                packet.emit(&mut out);
                // An error may have a payload; its content is not specified.
                assert_eq!(scan(&out), Found::Packet(out.len(), packet));
                rest = &rest[len..];
            }
        }
    }
    assert!(rest.len() < MAX_PAYLOAD + 10);
}

fn sessions(input: &[u8]) {
    let waveform: Waveform = "9600/short".parse().expect("a waveform");
    let mut now = Time::ZERO;
    let mut dte = Dte::new(now);
    let mut dce = Dce::new(now, Config { waveform, is_receiver_master: input.len() % 2 == 1 });
    let (mut to_dte, mut to_dce) = (Vec::new(), Vec::new());
    let mut rest = input;

    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let len = usize::from(value);
        match action & 0x0f {
            0 => {
                let (octets, after) = rest.split_at(len.min(rest.len()));
                rest = after;
                dce.handle_octets(now, &packed(action >> 4, octets));
            }
            1 => {
                let (octets, after) = rest.split_at(len.min(rest.len()));
                rest = after;
                dte.handle_octets(now, &packed(action >> 4, octets));
            }
            2 => dte.start(now, waveform),
            3 | 4 => dte.supply(now, &vec![value; len * 16]),
            5 => dte.end(now),
            6 => dte.abort_reception(now),
            7 => now += Duration::from_millis(u64::from(value)),
            8 => now += Duration::from_millis(u64::from(value) * 50),
            9 => dce.handle_modem(now, Event::CarrierDetected { waveform: None }),
            10 => dce.handle_modem(now, Event::Received(vec![value; len * 20])),
            11 => dce.handle_modem(now, Event::CarrierLost),
            12 => dce.handle_modem(now, Event::Sent),
            // Octets in flight are changed or lost.
            13 => {
                if let Some(octet) = to_dce.get_mut(len) {
                    *octet ^= 1 << (action >> 5);
                }
            }
            14 => to_dte.truncate(len),
            _ => {
                let mut out = Vec::new();
                if dce.poll_transmit(now, BLOCK, &mut out) == Some(Keying::End) {
                    dce.handle_modem(now, Event::Sent);
                }
                assert!(out.len() <= BLOCK);
            }
        }
        dce.handle_octets(now, &to_dce);
        dte.handle_octets(now, &to_dte);
        to_dce.clear();
        to_dte.clear();
        for turn in 0.. {
            assert!(turn < 100, "it spins");
            dte.handle_timeout(now);
            dce.handle_timeout(now);
            let next = [dte.next_timeout(), dce.next_timeout()];
            if next.into_iter().flatten().all(|at| at > now) {
                break;
            }
        }
        dte.poll_octets(&mut to_dce);
        dce.poll_octets(&mut to_dte);
        while dte.poll_event().is_some() {}
        assert!(dte.room() <= 8 * BLOCK + MAX_PAYLOAD || dte.waveform() != Some(waveform));
    }
}

/// Returns the octets unchanged, or as the payload of a packet with correct checksums: a data packet or another kind.
fn packed(kind: u8, octets: &[u8]) -> Vec<u8> {
    let kind = match kind {
        0..=7 => return octets.to_vec(),
        8..=13 => 0,
        14 => 1,
        _ => 2,
    };
    let size = u16::try_from(octets.len()).expect("an octet's worth").to_be_bytes();
    let mut packet = vec![0x49, 0x50, 0x55, kind, size[0], size[1]];
    packet.extend_from_slice(&crc::header(&packet).to_be_bytes());
    if !octets.is_empty() {
        packet.extend_from_slice(octets);
        packet.extend_from_slice(&crc::header(octets).to_be_bytes());
    }
    packet
}
