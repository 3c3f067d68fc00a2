//! Fuzzes a group member that hears another member and strangers: the member accepts each genuine U_PDU once.

use std::collections::BTreeSet;
use std::time::Duration;

use base::time::Time;
use hf::s5066::Address;
use hf::s5066::seal::{CLOCKS, Config, Envelope, Key, Member};
use hf::s5066::sis::Sap;

const SAP: Sap = Sap::new(13);
const NEAR: Address = Address::node(1);
const FAR: Address = Address::node(2);
/// Most sealed U_PDUs kept by the test.
const KEPT: usize = 64;
/// Up to this age at least, a number is rebuilt correctly.
const REBUILT: Duration = Duration::from_secs(131_000);

/// The input chooses the sealed U_PDUs, their fate on the air, and the messages of strangers.
pub(crate) fn conversation(input: &[u8]) {
    let (mut now, mut started) = (Time::ZERO, Time::ZERO);
    let [mut near, mut far] = [NEAR, FAR].map(|own| member(own, now));
    let mut sealed: Vec<(Vec<u8>, Time)> = Vec::new();
    let mut taken = BTreeSet::new();
    let mut rest = input;
    while let Some((&[action, value], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        now += Duration::from_millis(1);
        let from = if value & 1 == 0 { FAR } else { Address::node(u32::from(value)) };
        let to = if value & 2 == 0 { NEAR } else { Address::BROADCAST };
        let envelope = Envelope { from, from_sap: SAP, to, to_sap: SAP };
        match action & 7 {
            0 if sealed.len() == KEPT => {}
            0 => {
                let said = [u8::try_from(sealed.len()).expect("few"), action, value];
                sealed.push((far.seal(now, SAP, NEAR, SAP, &said), now));
            }
            1 if value == 0 => far = member(FAR, now),
            1 => now += Duration::from_secs(u64::from(value)),
            2 => {
                near = member(NEAR, now);
                started = now;
                // Neither the member nor this test can know the U_PDUs accepted so shortly before the start.
                let is_old = |which: &usize| started.since(sealed[*which].1) > CLOCKS;
                taken.retain(is_old);
            }
            3 => {
                let (some, after) = rest.split_at(usize::from(value).min(rest.len()));
                rest = after;
                assert!(near.open(now, envelope, some).is_err(), "a stranger is believed");
            }
            _ if sealed.is_empty() => {}
            kind => {
                let which = usize::from(value >> 2) % sealed.len();
                let (u_pdu, made) = &sealed[which];
                let mut heard = u_pdu.clone();
                let is_changed = kind == 4;
                if is_changed {
                    let place = usize::from(action >> 3) % heard.len();
                    heard[place] ^= 1 << (value & 7);
                }
                let is_believed = near.open(now, envelope, &heard).is_ok();
                let is_right = !is_changed && from == FAR && to == NEAR;
                assert!(
                    !is_believed || is_right && taken.insert(which),
                    "believed again, or wrongly"
                );
                let is_old = *made < started || now.since(*made) > REBUILT;
                assert!(is_believed || !is_right || is_old || taken.contains(&which), "refused");
            }
        }
    }
}

fn member(own: Address, now: Time) -> Member {
    let mut member = Member::new(Config {
        key: Key::new(&[7; 32]),
        own,
        unauthenticated: BTreeSet::new(),
        clock: Duration::from_secs(1_790_000_000),
    });
    member.start(now);
    member
}
