//! Names, files, octets, and lookups among servers that answer, refuse and stay silent.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use proptest::prelude::*;

use super::wire::{self, Answer, Foreign, Kind, Refusal};
use super::*;
use crate::time::Time;

const IDS: [u16; 2] = [0x1234, 0x5678];

/// The answer for "vpn.example.org" from `flags` on: an alias and, behind it, 192.0.2.2.
const ANSWER: &[u8] = b"\x12\x34\x81\x80\0\x01\0\x02\0\0\0\0\
    \x03vpn\x07Example\x03org\0\0\x01\0\x01\
    \xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x05\x02gw\xc0\x10\
    \xc0\x2d\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x02";

#[test]
fn names_are_what_hosts_may_be_called() {
    for good in ["vpn.example.org", "VPN.Example.ORG.", "a", "x_1.b-c.xn--p1ai", "1.de", "3com"] {
        assert_eq!(name(good).as_str(), good.trim_end_matches('.').to_lowercase());
        assert_eq!(name(good).to_string(), name(good).as_str());
    }
    let longest = format!("{}a", "a.".repeat(126));
    assert_eq!(name(&longest).as_str(), longest);
    let long = format!("{longest}b");
    for (bad, why) in [
        ("", BadName::Label(String::new())),
        ("a..b", BadName::Label(String::new())),
        ("-a.b", BadName::Label("-a".to_owned())),
        ("bü.de", BadName::Label("bü".to_owned())),
        ("a b", BadName::Label("a b".to_owned())),
        ("fd00::1", BadName::Label("fd00::1".to_owned())),
        ("192.0.2.256", BadName::Number),
        ("7", BadName::Number),
        (&long, BadName::TooLong),
    ] {
        assert_eq!(bad.parse::<Name>(), Err(why), "{bad}");
    }
}

#[test]
fn files_say_whom_to_ask_and_what_need_not_be_asked() {
    let resolv_conf = "# made by hand\nsearch example.org\nnameserver 10.0.0.53\noptions edns0\n\
                       nameserver fe80::1%eth0\nnameserver here\nnameserver 10.0.0.54 \nnameserver 10.0.0.55\n";
    let hosts = "127.0.0.1 localhost\n192.0.2.2\tgw VPN.example.org. # ours\n\
                 #192.0.2.3 vpn.example.org\nfd00::2 vpn.example.org\n";
    let scope = |interface: &str| (interface == "eth0").then_some(7);

    let servers = files::servers(resolv_conf, scope);

    let said: Vec<_> = servers.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["10.0.0.53:53", "[fe80::1%7]:53", "10.0.0.54:53"]);
    assert_eq!(files::servers("", scope), [server("127.0.0.1:53")]);
    assert_eq!(
        files::addresses(hosts, &name("vpn.example.org")),
        addresses(&["192.0.2.2", "fd00::2"])
    );
    assert!(files::addresses(hosts, &name("example.org")).is_empty());
}

#[test]
fn who_is_behind_a_stub_is_asked_before_it() {
    let scope = |_: &str| None;
    let server = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let stub = files::servers("nameserver 127.0.0.53\nnameserver 9.9.9.9\n", scope);
    let behind = "# made by systemd-resolved\nnameserver 192.0.2.53\nnameserver 127.0.0.54\nnameserver 9.9.9.9\n";
    let plain = files::servers("nameserver 127.0.0.1\n", scope);

    assert!(files::has_stub(&stub) && !files::has_stub(&plain));
    let expected = ["192.0.2.53:53", "9.9.9.9:53", "127.0.0.53:53"].map(server);
    assert_eq!(files::behind_stub(&stub, behind, scope), expected);
    assert_eq!(files::behind_stub(&stub, "", scope), stub, "without the file all is as it was");
    assert_eq!(files::behind_stub(&plain, behind, scope), plain);
}

#[test]
fn a_question_is_these_octets() {
    let mut out = Vec::new();

    wire::emit(0x1234, &name("vpn.Example.org"), Kind::V6, true, &mut out);

    let expected = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03vpn\x07example\x03org\0\0\x1c\0\x01\
                     \0\0\x29\x04\xd0\0\0\0\0\0\0";
    assert_eq!(out, expected);
}

#[test]
fn an_answer_is_followed_through_aliases() {
    let read = |octets: &[u8]| wire::parse(0x1234, &name("vpn.example.org"), Kind::V4, octets);

    assert_eq!(read(ANSWER), Ok(Answer::Addresses(addresses(&["192.0.2.2"]))));
    // Somebody else's address is none.
    let other = [&ANSWER[..50], b"\xc0\x10", &ANSWER[52..]].concat();
    assert_eq!(read(&other), Ok(Answer::Addresses(Vec::new())));
    // What is cut off is nothing, unless the server says that it cut.
    assert_eq!(read(&ANSWER[..ANSWER.len() - 1]), Err(Foreign));
    let mut cut = ANSWER[..ANSWER.len() - 1].to_vec();
    cut[2] |= 0x02;
    assert_eq!(read(&cut), Ok(Answer::Refused(Refusal::TooLong)));
}

#[test]
fn what_was_not_asked_for_is_no_answer() {
    let octets = answer(IDS[0], "vpn.example.org", 1, 0, &["192.0.2.2"]);
    let asked = name("vpn.example.org");

    assert!(wire::parse(IDS[0], &asked, Kind::V4, &octets).is_ok());
    assert_eq!(wire::parse(IDS[1], &asked, Kind::V4, &octets), Err(Foreign));
    assert_eq!(wire::parse(IDS[0], &name("example.org"), Kind::V4, &octets), Err(Foreign));
    assert_eq!(wire::parse(IDS[0], &asked, Kind::V6, &octets), Err(Foreign));
    let mut question = Vec::new();
    wire::emit(IDS[0], &asked, Kind::V4, false, &mut question);
    assert_eq!(wire::parse(IDS[0], &asked, Kind::V4, &question), Err(Foreign));
}

#[test]
fn who_refuses_need_not_repeat_the_question_and_who_answers_must() {
    let asked = name("vpn.example.org");
    let said = |questions: u16, code: u16| {
        let words = [IDS[0], 0x8180 | code, questions, 0, 0, 0];
        wire::parse(IDS[0], &asked, Kind::V4, &words.map(u16::to_be_bytes).concat())
    };

    assert_eq!(said(0, 5), Ok(Answer::Refused(Refusal::Code(5))));
    assert_eq!(said(0, 3), Ok(Answer::NoSuchName));
    assert_eq!((said(0, 0), said(2, 5)), (Err(Foreign), Err(Foreign)));
}

#[test]
fn a_name_that_leads_to_itself_is_no_name() {
    // The pointer of the alias to the rest of its name, and that of the address to its owner.
    for at in [48, 50] {
        let mut octets = ANSWER.to_vec();
        octets[at] = 0xc0;
        octets[at + 1] = u8::try_from(at).unwrap();
        let read = wire::parse(0x1234, &name("vpn.example.org"), Kind::V4, &octets);
        assert_eq!(read, Err(Foreign), "{at}");
    }
}

#[test]
fn what_cannot_be_asked_has_failed_at_once() {
    let nobody = Net::new([true, true], &[]);
    let nothing = Net::new([false, false], &["10.0.0.53:53"]);

    assert_eq!(nobody.lookup.outcome(), Some(&Err(Failure::NoAnswer)));
    assert_eq!(nothing.lookup.outcome(), Some(&Err(Failure::NoAddress([false, false]))));
    assert_eq!([&nobody, &nothing].map(|net| net.lookup.next_timeout()), [None, None]);
}

#[test]
fn of_many_addresses_some_are_kept() {
    let mut net = Net::new([true, true], &["10.0.0.53:53"]);
    let _ = net.questions();
    let [v4, v6] = ["192.0.2.", "fd00::"]
        .map(|prefix| (0..=MAX_ADDRESSES).map(|it| format!("{prefix}{it}")).collect::<Vec<_>>());
    let [v4, v6] = [&v4, &v6].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());

    let octets = answer(IDS[0], "vpn.example.org", 1, 0, &v4);
    let read = wire::parse(IDS[0], &name("vpn.example.org"), Kind::V4, &octets);
    net.answer(0, 0, &v4);
    net.answer(1, 0, &v6);

    assert_eq!(read, Ok(Answer::Addresses(addresses(&v4[..MAX_ADDRESSES]))));
    assert_eq!(net.lookup.outcome().unwrap().as_ref().map(Vec::len), Ok(MAX_ADDRESSES));
}

#[test]
fn both_kinds_are_asked_for_and_come_in_turn() {
    let mut lookup = Net::new([true, true], &["10.0.0.53:53"]);

    assert_eq!(lookup.questions(), ["10.0.0.53:53 V4 extended", "10.0.0.53:53 V6 extended"]);
    lookup.answer(0, 0, &["192.0.2.2", "192.0.2.3"]);
    assert_eq!(lookup.lookup.outcome(), None);
    lookup.answer(1, 0, &["fd00::2"]);

    let expected = addresses(&["fd00::2", "192.0.2.2", "192.0.2.3"]);
    assert_eq!(lookup.lookup.outcome(), Some(&Ok(expected)));
    assert_eq!((lookup.questions(), lookup.lookup.next_timeout()), (vec![], None));
}

#[test]
fn one_kind_is_enough_where_the_other_stays_unanswered() {
    let mut lookup = Net::new([true, true], &["10.0.0.53:53", "10.0.0.54:53"]);
    let _ = lookup.questions();
    lookup.answer(0, 0, &["192.0.2.2"]);

    lookup.wait();

    assert_eq!(lookup.lookup.outcome(), Some(&Ok(addresses(&["192.0.2.2"]))));
}

#[test]
fn servers_are_asked_in_turn_twice_and_the_second_time_in_the_old_way() {
    let mut lookup = Net::new([false, true], &["10.0.0.53:53", "10.0.0.54:53"]);
    let mut asked = Vec::new();

    while lookup.lookup.outcome().is_none() {
        asked.extend(lookup.questions());
        lookup.wait();
    }

    assert_eq!(
        asked,
        [
            "10.0.0.53:53 V6 extended",
            "10.0.0.54:53 V6 extended",
            "10.0.0.53:53 V6",
            "10.0.0.54:53 V6"
        ]
    );
    assert_eq!(lookup.lookup.outcome(), Some(&Err(Failure::NoAnswer)));
    assert_eq!(lookup.now, Time::ZERO + Duration::from_secs(8));
}

#[test]
fn a_server_that_refuses_is_left_at_once_and_named() {
    let mut lookup = Net::new([true, false], &["10.0.0.53:53", "10.0.0.54:53"]);
    let _ = lookup.questions();

    lookup.answer(0, 2, &[]);
    assert_eq!(lookup.questions(), ["10.0.0.54:53 V4 extended"]);
    lookup.lookup.handle_refusal(lookup.now);
    lookup.wait();
    lookup.wait();

    let Some(Err(why)) = lookup.lookup.outcome() else { panic!("{lookup:?}") };
    assert_eq!(why.to_string(), "name server 10.0.0.53:53: it cannot find out (SERVFAIL)");
}

#[test]
fn what_does_not_exist_is_told_from_what_has_no_address() {
    let [mut gone, mut bare] = [(); 2].map(|()| Net::new([true, false], &["10.0.0.53:53"]));

    gone.answer(0, 3, &[]);
    bare.answer(0, 0, &[]);

    assert_eq!(gone.lookup.outcome(), Some(&Err(Failure::NoSuchName)));
    let Some(Err(why)) = bare.lookup.outcome() else { panic!("{bare:?}") };
    assert_eq!(why.to_string(), "the name has no IPv4 address");
}

proptest! {
    #![proptest_config(harness::cases(256))]

    #[test]
    fn any_octets_are_survived(octets in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..80, with: u8) {
        let mut changed = ANSWER.to_vec();
        changed[at.min(ANSWER.len() - 1)] = with;
        changed.extend(octets.iter().take(3));
        let asked = name("vpn.example.org");
        for octets in [&octets, &changed] {
            let _ = wire::parse(0x1234, &asked, Kind::V4, octets);
        }
    }

    #[test]
    fn what_a_server_says_is_read(
        v4 in prop::collection::btree_set(any::<[u8; 4]>(), 0..MAX_ADDRESSES),
        id: u16,
    ) {
        let said: Vec<_> = v4.iter().map(|it| IpAddr::from(*it).to_string()).collect();
        let said: Vec<_> = said.iter().map(String::as_str).collect();
        let octets = answer(id, "a.b", 1, 0, &said);

        let read = wire::parse(id, &name("A.b"), Kind::V4, &octets);

        prop_assert_eq!(read, Ok(Answer::Addresses(addresses(&said))));
    }
}

/// A lookup of "vpn.example.org" and the time.
#[derive(Debug)]
struct Net {
    lookup: Lookup,
    now: Time,
}

impl Net {
    fn new(wanted: [bool; 2], servers: &[&str]) -> Self {
        let servers = servers.iter().map(|it| server(it)).collect();
        let lookup = Lookup::new(Time::ZERO, name("vpn.example.org"), wanted, IDS, servers);
        Self { lookup, now: Time::ZERO }
    }

    fn questions(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let mut out = Vec::new();
        while let Some(question) = self.lookup.poll_transmit(&mut out) {
            let is_v6 = out[out.len().saturating_sub(15)..].contains(&28);
            let kind = if is_v6 { "V6" } else { "V4" };
            let extended = if out[11] == 1 { " extended" } else { "" };
            assert_eq!(question.is_second_round, extended.is_empty());
            said.push(format!("{} {kind}{extended}", question.server));
            out.clear();
        }
        said
    }

    fn answer(&mut self, kind: usize, code: u8, addresses: &[&str]) {
        let octets = answer(IDS[kind], "vpn.example.org", [1, 28][kind], code, addresses);
        self.lookup.handle_datagram(self.now, &octets);
    }

    fn wait(&mut self) {
        if let Some(due) = self.lookup.next_timeout() {
            self.now = due;
            self.lookup.handle_timeout(due);
            assert!(
                self.lookup.next_timeout().is_none_or(|next| next > due),
                "a driver would spin"
            );
        }
    }
}

fn answer(id: u16, asked: &str, kind: u16, code: u8, addresses: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let count = u16::try_from(addresses.len()).unwrap();
    for word in [id, 0x8180 | u16::from(code), 1, count, 0, 0] {
        out.extend(word.to_be_bytes());
    }
    for label in asked.split('.') {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend([kind.to_be_bytes(), 1_u16.to_be_bytes()].concat());
    for address in addresses {
        let octets = match address.parse().unwrap() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let len = u16::try_from(octets.len()).unwrap();
        out.extend([0xc00c, kind, 1, 0, 60, len].map(u16::to_be_bytes).concat());
        out.extend(octets);
    }
    out
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn server(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|it| it.parse().unwrap()).collect()
}
