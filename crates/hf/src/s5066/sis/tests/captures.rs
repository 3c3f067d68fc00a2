//! Tests with captured messages of other programs, and our answers.
//!
//! The primitives of clients are laid out by the structures of NC3A (`sis5066.h` of open5066, commit 4f8de83a), with values of
//! ours; two such clients, A at access point 3 of node 0.10.20.30 and B at 3 of 0.10.20.31, spoke to two nodes of
//! ours in November 2026. `>` is what a client said, `<` what its node answered; what was answered otherwise then
//! says so. The other octets are of open5066 0.5 and of rds-5066 (commit f4143405), as they were on the wire.

use base::time::Time;

use super::wire::hex;
use super::{A, B};
use crate::s5066::service::{Command, Indication, LinkEvent, Mode, Outcome};
use crate::s5066::sis::client::{self, Client, Fault};
use crate::s5066::sis::primitive::{Arrival, Malformed, Primitive};
use crate::s5066::sis::stream::{Broken, Stream, Unreadable};
use crate::s5066::sis::{ClientId, Config, Event, Sap, Server};

const NODES: [crate::s5066::Address; 2] = [A, B];

/// Two nodes on air that loses nothing and takes no time, and a client of each.
struct Pair {
    servers: [Server; 2],
    clients: [Option<ClientId>; 2],
}

impl Pair {
    fn new() -> Self {
        let servers = NODES.map(|address| Server::new(Config::default(), address));
        let mut pair = Self { servers, clients: [None; 2] };
        pair.connect(0);
        pair.connect(1);
        pair
    }

    fn connect(&mut self, end: usize) {
        if let Some(before) = self.clients[end].take() {
            self.servers[end].handle_disconnected(Time::ZERO, before);
        }
        self.clients[end] = self.servers[end].handle_connected(Time::ZERO);
    }

    /// What both clients are told when one of them has said something, primitive by primitive; `closed` at the
    /// end of the connection.
    fn say(&mut self, end: usize, octets: &[u8]) -> [Vec<String>; 2] {
        let client = self.clients[end].expect("it is connected");
        self.servers[end].handle_octets(Time::ZERO, client, octets);
        while self.carry() {}
        [0, 1].map(|end| self.hear(end))
    }

    /// Carries what the nodes have for each other.
    fn carry(&mut self) -> bool {
        let mut has_any = false;
        for end in 0..2 {
            let (near, far) = (NODES[end], NODES[1 - end]);
            while let Some(command) = self.servers[end].poll_command() {
                has_any = true;
                let (ours, theirs) = match command {
                    Command::MakeExclusive { .. } => (
                        LinkEvent::Made { peer: far, is_exclusive: true, is_caller: true },
                        LinkEvent::Made { peer: near, is_exclusive: true, is_caller: false },
                    ),
                    Command::BreakExclusive { .. } => (
                        LinkEvent::Broken { peer: far, is_exclusive: true },
                        LinkEvent::Broken { peer: near, is_exclusive: true },
                    ),
                    other => panic!("{other:?}"),
                };
                self.servers[end].handle_link(Time::ZERO, ours);
                self.servers[1 - end].handle_link(Time::ZERO, theirs);
            }
            while let Some(request) = self.servers[end].poll_request(Time::ZERO, 0) {
                has_any = true;
                let is_arq = request.mode.is_arq();
                let mode = if is_arq { request.mode } else { Mode::ONCE };
                let indication = Indication {
                    from: near,
                    to: request.to,
                    mode,
                    is_expedited: request.is_expedited,
                    s_pdu: request.s_pdu,
                    errored: Vec::new(),
                    missing: Vec::new(),
                };
                self.servers[end].handle_outcome(Time::ZERO, request.id, Outcome::Done);
                self.servers[1 - end].handle_indication(Time::ZERO, &indication);
            }
        }
        has_any
    }

    fn hear(&mut self, end: usize) -> Vec<String> {
        let Some(client) = self.clients[end] else { return Vec::new() };
        let server = &mut self.servers[end];
        let (mut octets, mut stream) = (Vec::new(), Stream::default());
        while server.poll_octets(Time::ZERO, client, &mut octets) {}
        stream.push(&octets);
        let mut heard = Vec::new();
        while let Some(fields) = stream.take().expect("primitives") {
            // A hard link that there is not comes back as it was asked for.
            let read = Primitive::parse(fields).map(|_| ());
            assert!(matches!(read, Ok(()) | Err(Malformed::LinkType)), "{read:?}");
            heard.push(text(fields));
        }
        while let Some(event) = server.poll_event() {
            if event == Event::Close(client) {
                heard.push("closed".to_owned());
                server.handle_disconnected(Time::ZERO, client);
                self.clients[end] = None;
            }
        }
        heard
    }
}

fn text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Plays lines of `end > octets` and `end < type and fields`; a line without octets is a new connection.
fn replay(pair: &mut Pair, script: &str) {
    let mut told: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let end = usize::from(words.next() == Some("B"));
        let sign = words.next().expect("a sign");
        let octets = words.next();
        match (sign, octets) {
            (">", Some(octets)) => {
                assert_eq!(told, [Vec::<String>::new(), Vec::new()], "before {line}");
                told = pair.say(end, &hex(octets));
            }
            (">", None) => {
                assert_eq!(told, [Vec::<String>::new(), Vec::new()], "before {line}");
                pair.connect(end);
            }
            ("<", Some(octets)) => {
                assert!(!told[end].is_empty(), "nobody says {line}");
                assert_eq!(told[end].remove(0), octets, "{line}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, [Vec::<String>::new(), Vec::new()], "at the end");
}

/// Binds both clients as they did.
const BINDS: &str = "
    A > 90eb00000401301400
    A < 03300800
    A < 0e0154
    B > 90eb00000401302210
    B < 03301000 # without ARQ a U_PDU has up to 4,096 octets: 2,048 were granted
    B < 0e0154
";

#[test]
fn data_of_clients_with_the_layout_of_nc3a_is_carried_and_answered() {
    let mut pair = Pair::new();
    replay(&mut pair, BINDS);
    replay(
        &mut pair,
        "
        A > 90eb00000111                                                              # keep alive
        A < 11
        A > 90eb00000111                                                              # once in 120 s
        A > 90eb00001e1453e00a141f1400003c00126172712c206e6f646520636f6e6669726d73    # confirmed by the node
        A < 1603e00a141f00126172712c206e6f646520636f6e6669726d73
        B < 1553e00a141f13e00a141e00126172712c206e6f646520636f6e6669726d73
        A > 90eb0000201453e00a141f1800003c00146172712c20636c69656e7420636f6e6669726d73 # by the client
        A < 1603e00a141f00146172712c20636c69656e7420636f6e6669726d73
        B < 1553e00a141f13e00a141e00146172712c20636c69656e7420636f6e6669726d73
        A > 90eb0000201403e00a141f1200000000146172712c206e6f626f647920636f6e6669726d73 # by nobody
        B < 1503e00a141f13e00a141e00146172712c206e6f626f647920636f6e6669726d73
        A > 90eb00001c1403e00a141f0000000000106d6f6465206f66207468652062696e64         # as the bind said
        A < 1603e00a141f00106d6f6465206f66207468652062696e64
        B < 1503e00a141f13e00a141e00106d6f6465206f66207468652062696e64
        A > 90eb00001e1413e00a141f2220000000126e6f6e2d6172712c20322072657065617473     # without ARQ, two repeats
        B < 1513e00a141f23e00a141e00126e6f6e2d6172712c20322072657065617473
        A > 90eb00001f1413e00a141f3200000000136e6f6e2d6172712077697468206572726f7273   # with errors: B wants none
        B < 1513e00a141f23e00a141e00136e6f6e2d6172712077697468206572726f7273
        A > 90eb0000121413ffffffff220000000006746f20616c6c                             # to all
        B < 1513ffffffff23e00a141e0006746f20616c6c
        A > 90eb0000161413f000000722000000000a746f2067726f75702037                     # to group 7
        B < 1513f000000723e00a141e000a746f2067726f75702037
        A > 90eb0000191803e00a141f1400001e000d65787065646974656420617271               # expedited
        A < 1a03e00a141f000d65787065646974656420617271
        B < 1903e00a141f13e00a141e000d65787065646974656420617271
        A > 90eb00001c1803e00a141f1800001e001065787065646974656420636c69656e74
        A < 1a03e00a141f001065787065646974656420636c69656e74
        B < 1903e00a141f13e00a141e001065787065646974656420636c69656e74
        A > 90eb00001d1803e00a141f2200001e0011657870656469746564206e6f6e2d617271
        B < 1903e00a141f23e00a141e0011657870656469746564206e6f6e2d617271
        A > 90eb00001b18f3e00a141f1400001e000f756e75736564206e6962626c652066           # unused bits set
        A < 1a03e00a141f000f756e75736564206e6962626c652066
        B < 1903e00a141f13e00a141e000f756e75736564206e6962626c652066
        A > 90eb0000181413a00a141f14000000000c73697a652035207269676874                 # an address of 5 half octets
        A < 1603e00a141f000c73697a652035207269676874
        B < 1513e00a141f13e00a141e000c73697a652035207269676874
        A > 90eb00000c1413e00a141f140000000000                                         # empty
        A < 1603e00a141f0000
        B < 1513e00a141f13e00a141e0000
        A > 90eb0000151413e00a141f140fffff000974746c206666666666                       # the longest time to live
        A < 1603e00a141f000974746c206666666666
        B < 1513e00a141f13e00a141e000974746c206666666666
        A > 90eb0000161413ffffffff14000000000a61727120746f20616c6c                     # ARQ to all
        A < 1753ffffffff000a61727120746f20616c6c
        A > 90eb0000151413e00a141e140000000009746f206d7973656c66                       # to its own node
        A < 1753e00a141e0009746f206d7973656c66
        A > 90eb0000121413e00a141f4000000000066d6f64652034                             # an undefined mode
        A < 1753e00a141f00066d6f64652034
        A > 90eb00001c1413e00a141f2600000000106e6f6e2d6172712c20636f6e6669726d         # confirmed without ARQ
        A < 1753e00a141f00106e6f6e2d6172712c20636f6e6669726d
        A > 90eb0000151403e00a141f1c0000000009636f6e6669726d2033                       # an undefined confirmation
        A < 1753e00a141f0009636f6e6669726d2033
        A > 90eb000018141ce00a141f18000000000c6e6f626f6479207468657265                 # nobody is bound there
        A < 172ce00a141f000c6e6f626f6479207468657265
        A > 90eb000007120168656c6c6f                                                   # management, of rank 0
        A > 90eb0000010f                                                               # for a node to say
        A > 90eb00000102                                                               # unbind
        A > 90eb00001e1453e00a141f1400003c00126172712c206e6f646520636f6e6669726d73
        A < 0503
        A > 90eb00000401301000
        A < 03300800
        A < 0e0154
        ",
    );
}

/// A request of so many octets, which are all the same.
fn long(start: &str, size: u16) -> Vec<u8> {
    let mut octets = hex(&format!("90eb00{:04x}{start}{size:04x}", size + 12));
    octets.resize(octets.len() + usize::from(size), b'.');
    octets
}

#[test]
fn u_pdus_of_up_to_2048_octets_are_taken_with_arq_and_of_4096_without() {
    let mut pair = Pair::new();
    replay(&mut pair, BINDS);
    let dots = |many: usize| "2e".repeat(many);

    let told = pair.say(0, &long("1413e00a141f14000000", 2_048));
    assert_eq!(told[0], [format!("1603e00a141f0040{}", dots(64))]);
    assert_eq!(told[1], [format!("1513e00a141f13e00a141e0800{}", dots(2_048))]);
    let told = pair.say(0, &long("1413e00a141f14000000", 2_049));
    assert_eq!(told, [vec![format!("1743e00a141f0040{}", dots(64))], vec![]]);

    // Was rejected, reason 4; NC3A's header and open5066 have 4,096 for broadcast.
    let told = pair.say(0, &long("1413ffffffff22000000", 4_096));
    assert_eq!(told, [vec![], vec![format!("1513ffffffff23e00a141e1000{}", dots(4_096))]]);
    let told = pair.say(0, &long("1413ffffffff22000000", 4_097));
    assert_eq!(told, [vec![format!("1743ffffffff0040{}", dots(64))], vec![]]);
}

#[test]
fn hard_links_of_clients_with_the_layout_of_nc3a_are_made_and_ended() {
    let mut pair = Pair::new();
    replay(
        &mut pair,
        "
        A > 90eb00000401301400
        A < 03300800
        A < 0e0154
        B > 90eb00000401301400
        B < 03300800
        B < 0e0154
        A > 90eb0000060610e00a141f                                                     # type 0
        A < 080110e00a141f
        A > 90eb00000507e00a141f
        A > 90eb0000060653e00a141f                                                     # type 1
        A < 080153e00a141f # was ended after 7 s, before it was there
        A > 90eb00000507e00a141f
        A > 90eb00000606a3e00a141f                                                     # type 2
        B < 0b01a3e00a141e
        B > 90eb0000060ca3e00a141e
        A < 0801a3e00a141f
        A > 90eb00001e1453e00a141f1400003c00126172712c206e6f646520636f6e6669726d73
        A < 1603e00a141f00126172712c206e6f646520636f6e6669726d73
        B < 1553e00a141f13e00a141e00126172712c206e6f646520636f6e6669726d73
        A > 90eb00000507e00a141f
        B < 0a01a3e00a141e
        A > 90eb00000606a3e00a141f                                                     # refused by B
        B < 0b01a3e00a141e
        B > 90eb0000070d01a3e00a141e
        A < 0901a3e00a141f
        A > 90eb00000606c3e00a141f                                                     # type 3, which there is not
        A < 0903c3e00a141f # was not answered
        ",
    );
}

#[test]
fn odd_binds_are_answered_as_before_and_what_cannot_be_read_is_refused() {
    let mut pair = Pair::new();
    replay(
        &mut pair,
        "
        A > 90eb00000401300000                                                         # default mode
        A < 0401
        A > 90eb00000401301500                                                         # the extended bit
        A < 0401
        A > 90eb00000401301c00                                                         # an undefined confirmation
        A < 0401
        A > 90eb00000401302800                                                         # confirmed without ARQ
        A < 0401
        A > 90eb000003013f14                                                           # too short
        A < 0401 # was not answered
        A > 90eb000004013f1400                                                         # rank 15
        A < 03300800
        A < 0e0154
        A > 90eb0000040140140f                                                         # another bind
        A < 0401
        A > 90eb00000401601400
        A < 0401
        B > 90eb00000401351400                                                         # rank 5, at the other node
        B < 03300800
        B < 0e0154
        B >
        B > 90eb00000401303200                                                         # with errors
        B < 03301000 # 2,048 were granted
        B < 0e0154
        ",
    );
    replay(
        &mut pair,
        "
        A > 90eb0000011c                              # a type that there is not: the standard has no answer
        A > 90eb0000020200                            # an unbind with one octet more: no answer
        A > 90eb0000121413000a141f14000000000673697a652030 # an address of no length
        A < 1733e00a141f000673697a652030
        A > 90eb0000121413e00a141f140000000004616263646566 # a size of 4 where there are 6
        A < 1743e00a141f000461626364
        A > 90eb0000121413e00a141f140000000009616263646566 # a size of 9
        A < 1743e00a141f0006616263646566
        A > 90eb000004181fe00a                        # expedited, and cut off
        A < 1b4fe00a00000000
        A > 90eb00000206c3                            # a hard link, cut off
        A < 0903c3e0000000
        A > 90eb0000050700000000                      # the end of a hard link, with nobody: no answer
        ",
    );
    assert_eq!(pair.servers[0].stats().clients.invalid, 9);
    let told = pair.servers[0].poll_unreadable().map(|(_, what)| what.to_string());
    assert_eq!(told.as_deref(), Some("primitive 7: an address of no length"));
    assert_eq!(pair.servers[0].poll_unreadable(), None);
}

#[test]
fn what_cannot_be_read_of_the_unbound_is_answered_as_what_can() {
    let mut pair = Pair::new();
    replay(
        &mut pair,
        "
        A > 90eb0000011c
        A < 0503
        A > 90eb0000121413000a141f14000000000673697a652030
        A < 0503
        A > 90eb00000206c3
        A < 0503
        ",
    );
}

#[test]
fn clients_that_count_otherwise_are_told_apart_by_their_first_envelope() {
    for (octets, said) in [
        // rds-5066: a bind of access point 5, sizes low octet first.
        ("90eb00040001", Broken::Swapped { number: 1, size: 0x400 }),
        ("90eb00010011", Broken::Swapped { number: 17, size: 0x100 }),
        // A bind of version 1.0, which had no octet for the version.
        ("90eb00040130", Broken::NoVersion { number: 1 }),
        ("eb900000", Broken::Preamble(0xeb, 0x90)),
        ("90eb010004", Broken::Version(1)),
        ("90eb000000", Broken::Size),
    ] {
        let mut pair = Pair::new();
        assert_eq!(pair.say(0, &hex(octets))[0], ["closed"], "{octets}");

        let told = pair.servers[0].poll_unreadable();
        assert_eq!(told.map(|(_, what)| what), Some(Unreadable::Stream(said)), "{octets}");
        assert_eq!(pair.servers[0].stats().connections.closed_invalid, 1);
    }
}

#[test]
fn a_node_that_counts_otherwise_is_left_at_once() {
    let mut client = Client::new(client::Config::new(Sap::new(5)));
    client.handle_connected(Time::ZERO);

    // S_BIND_ACCEPTED with its size low octet first.
    client.handle_octets(Time::ZERO, &hex("90eb0004000350"));

    let broken = Broken::Swapped { number: 3, size: 0x400 };
    assert_eq!(client.poll_event(), Some(client::Event::Close(Fault::Unreadable(broken))));
    assert_eq!(client.stats().invalid, 1);
}

/// S_UNIDATA_INDICATION of open5066: mode 0, two counts of blocks, and then a datagram.
const WITH_COUNTS: &str = "90eb0000551509e000020409e000000000440000000045000044b01d4000400175e90a5800010a5800020800bdad\
    3b5a0001bb32076b00000000f607010000000000101112131415161718191a1b1c1d1e1f2021222324252627";

#[test]
fn counts_of_blocks_are_read_in_any_mode_by_the_length() {
    let octets = hex(WITH_COUNTS);
    let Ok(Primitive::UnidataIndication(read)) = Primitive::parse(&octets[5..]) else {
        panic!("it cannot be read");
    };
    assert_eq!((read.u_pdu.len(), read.u_pdu[0]), (68, 0x45));
    assert_eq!(read.arrival, Arrival::Unspecified);

    for (mode, arrival) in [(0, Arrival::Unspecified), (1, Arrival::Arq), (2, Arrival::NonArq)] {
        let start = format!("1529e00a141e{mode}9e00a141f0005");
        let without = hex(&format!("{start}48454c4c4f"));
        let with = hex(&format!("{start}0000000048454c4c4f"));
        let read = Primitive::parse(&without).unwrap();
        assert_eq!(Primitive::parse(&with).unwrap(), read);
        let Primitive::UnidataIndication(read) = read else { panic!("{read:?}") };
        assert_eq!((read.u_pdu, read.arrival), (&b"HELLO"[..], arrival));

        // Where a block is damaged it is not whole, whatever the mode says.
        let damaged = hex(&format!("{start}000100010002000048454c4c4f"));
        let Ok(Primitive::UnidataIndication(read)) = Primitive::parse(&damaged) else { panic!() };
        let Arrival::NonArqWithErrors { errored, missing } = read.arrival else { panic!() };
        assert_eq!((errored.len(), missing.len(), read.u_pdu), (1, 0, &b"HELLO"[..]));

        // One octet too many, too few, counts of blocks that are not there.
        for wrong in ["00000048454c4c4f", "48454c4c", "0000000148454c4c4f", "000000000048454c4c4f"]
        {
            assert!(Primitive::parse(&hex(&format!("{start}{wrong}"))).is_err(), "{wrong}");
        }
    }
}
