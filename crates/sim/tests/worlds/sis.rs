//! Tests that tshark reads every STANAG 5066 primitive with the meaning we intend.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use base::tcp::{Flags, Options, Segment};
use base::time::Time;
use hf::s5066::Address;
use hf::s5066::sis::primitive::{
    Arrival, Block, HardLink, LinkKind, Management, Primitive, UnidataConfirm, UnidataIndication,
    UnidataRejected, UnidataRequest,
};
use hf::s5066::sis::{
    BindReason, LinkReason, Mode, NodeStatus, Sap, Service, TerminateReason, UnavailableReason,
    UnbindReason, UnidataReason,
};
use sim::capture::{Capture, Direction, LinkType};

const A: Address = Address::node(0x000a_141e);
const B: Address = Address::node(0x000a_141f);
const IP: Sap = Sap::IP_CLIENT;
/// The address of A as tshark prints it.
const A_VALUE: (&str, &str) = ("s5066sis.address.address", "0.10.20.30");
const NODE: (&str, &str) = ("s5066sis.address.group", "0x00");

/// A primitive as tshark prints it: fields and values.
type Fields = Vec<(&'static str, &'static str)>;

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_reads_every_primitive() {
    let primitives = primitives();
    let mut stream = Stream::new("whole");
    for (primitive, _) in &primitives {
        let mut octets = Vec::new();
        primitive.emit(&mut octets);
        stream.send(is_from_client(primitive), &octets);
    }
    let file = stream.finish();

    assert_eq!(tshark(&file, COMPLAINTS, &["frame.number"]), "");
    let all = primitives.iter().flat_map(|(_, fields)| fields.iter().map(|(name, _)| *name));
    let names: BTreeSet<_> = all.chain(["s5066sis.size", "s5066sis.type"]).collect();
    let names: Vec<_> = names.into_iter().collect();
    let told = tshark(&file, "s5066sis", &names);
    let told: Vec<_> = told.lines().collect();
    assert_eq!(told.len(), 27);
    for ((number, (primitive, fields)), line) in (1..).zip(&primitives).zip(told) {
        let mut octets = Vec::new();
        primitive.emit(&mut octets);
        let values: BTreeMap<_, _> = names.iter().copied().zip(line.split('\t')).collect();
        assert_eq!(values["s5066sis.type"], number.to_string());
        assert_eq!(values["s5066sis.size"], (octets.len() - 5).to_string());
        for (name, value) in fields {
            assert_eq!(values[name], *value, "{name} of {primitive:?}");
        }
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
#[ignore = "needs tshark: run by ./test"]
fn tshark_puts_primitives_together_that_segments_cut() {
    for client in [true, false] {
        let mut stream = Stream::new(if client { "client" } else { "server" });
        let mut octets = Vec::new();
        for (primitive, _) in primitives().iter().filter(|(one, _)| is_from_client(one) == client) {
            // The end of one and the envelope of the next, which tshark needs whole.
            let start = octets.len();
            primitive.emit(&mut octets);
            stream.send(client, &octets[..start + 5]);
            octets.drain(..start + 5);
        }
        stream.send(client, &octets);
        let file = stream.finish();

        assert_eq!(tshark(&file, COMPLAINTS, &["frame.number"]), "");
        let types = tshark(&file, "s5066sis", &["s5066sis.type"]);
        let types: Vec<u8> =
            types.split(['\n', ',']).filter_map(|text| text.trim().parse().ok()).collect();
        let sent = primitives();
        let sent = sent.iter().filter(|(one, _)| is_from_client(one) == client);
        assert_eq!(types, sent.map(|(one, _)| one.number()).collect::<Vec<_>>());
        std::fs::remove_file(file).unwrap();
    }
}

/// All 27, in the order of their types.
fn primitives() -> Vec<(Primitive<'static>, Fields)> {
    let service = Service::of(Mode::Arq { in_order: false });
    let repeated = Service::of(Mode::NonArq { in_order: false, repeats: 3 });
    let repeated = Service { takes_errors: true, ..repeated };
    let link = HardLink { kind: LinkKind::Exclusive, priority: 3, remote_sap: IP, remote: A };
    let message = Management { kind: 7, body: b"go" };
    let request = UnidataRequest {
        priority: 2,
        to_sap: IP,
        to: A,
        delivery: Service::ARQ.into(),
        ttl: 648_000,
        u_pdu: b"HELLO",
    };
    let indication = UnidataIndication {
        priority: 2,
        to_sap: IP,
        to: A,
        arrival: Arrival::Arq,
        from_sap: Sap::new(3),
        from: B,
        u_pdu: b"HELLO",
    };
    let damaged = UnidataIndication {
        priority: 0,
        arrival: Arrival::NonArqWithErrors {
            errored: vec![Block { offset: 1, len: 2 }],
            missing: vec![Block { offset: 3, len: 1 }, Block { offset: 4, len: 1 }],
        },
        to: Address::BROADCAST,
        ..indication.clone()
    };
    let confirm = UnidataConfirm { to_sap: IP, to: A, u_pdu: b"HELLO" };
    let rejected =
        UnidataRejected { reason: UnidataReason::NO_RESPONSE, to_sap: IP, to: A, u_pdu: b"HELLO" };
    let status = NodeStatus::ON;
    vec![
        (
            Primitive::BindRequest { sap: IP, rank: 5, service: service.into() },
            vec![
                ("s5066sis.01.sapid", "9"),
                ("s5066sis.01.rank", "5"),
                ("s5066sis.st.txmode", "0x01"),
                ("s5066sis.st.confirm", "0x01"),
                ("s5066sis.st.order", "0x01"),
                ("s5066sis.st.extended", "0x00"),
                ("s5066sis.st.retries", "0"),
            ],
        ),
        (Primitive::UnbindRequest, vec![]),
        (
            Primitive::BindAccepted { sap: IP, mtu: 2_048 },
            vec![("s5066sis.03.sapid", "9"), ("s5066sis.03.mtu", "2048")],
        ),
        (Primitive::BindRejected(BindReason::SAP_IN_USE), vec![("s5066sis.04.reason", "3")]),
        (Primitive::UnbindIndication(UnbindReason::PREEMPTED), vec![("s5066sis.05.reason", "1")]),
        (
            Primitive::HardLinkEstablish(link),
            vec![
                ("s5066sis.06.type", "2"),
                ("s5066sis.06.priority", "3"),
                ("s5066sis.06.sapid", "9"),
                A_VALUE,
                NODE,
            ],
        ),
        (Primitive::HardLinkTerminate { remote: A }, vec![A_VALUE, NODE]),
        (
            Primitive::HardLinkEstablished { status, link },
            vec![("s5066sis.08.status", "1"), ("s5066sis.08.type", "2"), A_VALUE],
        ),
        (
            Primitive::HardLinkRejected { reason: LinkReason::SAP_NOT_BOUND, link },
            vec![("s5066sis.09.reason", "4"), ("s5066sis.09.priority", "3"), A_VALUE],
        ),
        (
            Primitive::HardLinkTerminated { reason: TerminateReason::LINK_BROKEN, link },
            vec![("s5066sis.10.reason", "5"), ("s5066sis.10.sapid", "9"), A_VALUE],
        ),
        (
            Primitive::HardLinkIndication { status, link },
            vec![("s5066sis.11.status", "1"), ("s5066sis.11.type", "2"), A_VALUE],
        ),
        (
            Primitive::HardLinkAccept(link),
            vec![("s5066sis.12.type", "2"), ("s5066sis.12.sapid", "9"), A_VALUE],
        ),
        (
            Primitive::HardLinkReject { reason: LinkReason::BUSY, link },
            vec![("s5066sis.13.reason", "1"), ("s5066sis.13.type", "2"), A_VALUE],
        ),
        (
            Primitive::SubnetAvailability {
                status: NodeStatus::HALF_DUPLEX,
                reason: UnavailableReason::HIGHER_PRIORITY,
            },
            vec![("s5066sis.14.status", "3"), ("s5066sis.14.reason", "2")],
        ),
        (Primitive::DataFlowOn, vec![]),
        (Primitive::DataFlowOff, vec![]),
        (Primitive::KeepAlive, vec![]),
        (
            Primitive::ManagementRequest(message),
            vec![("s5066sis.18.type", "0x07"), ("s5066sis.18.body", "676f")],
        ),
        (
            Primitive::ManagementIndication(message),
            vec![("s5066sis.19.type", "0x07"), ("s5066sis.19.body", "676f")],
        ),
        (
            Primitive::UnidataRequest(request),
            vec![
                ("s5066sis.20.priority", "2"),
                ("s5066sis.20.sapid", "9"),
                A_VALUE,
                ("s5066sis.st.txmode", "0x01"),
                ("s5066sis.st.confirm", "0x01"),
                ("s5066sis.st.order", "0x00"),
                ("s5066sis.20.ttl", "648000"),
                ("s5066sis.20.size", "5"),
                ("data.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::UnidataIndication(indication),
            vec![
                ("s5066sis.21.priority", "2"),
                ("s5066sis.21.sapid", "9"),
                ("s5066sis.address.address", "0.10.20.30,0.10.20.31"),
                ("s5066sis.21.txmode", "0x01"),
                ("s5066sis.21.src_sapid", "3"),
                ("s5066sis.21.size", "5"),
                ("data.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::UnidataConfirm(confirm),
            vec![
                ("s5066sis.22.sapid", "9"),
                A_VALUE,
                ("s5066sis.22.size", "5"),
                ("s5066sis.22.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::UnidataRejected(rejected),
            vec![
                ("s5066sis.23.reason", "3"),
                ("s5066sis.23.sapid", "9"),
                A_VALUE,
                ("s5066sis.23.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::ExpeditedUnidataRequest(UnidataRequest {
                priority: 0,
                delivery: repeated.into(),
                ..request
            }),
            vec![
                ("s5066sis.24.unused", "0"),
                ("s5066sis.24.sapid", "9"),
                A_VALUE,
                ("s5066sis.st.txmode", "0x03"),
                ("s5066sis.st.order", "0x01"),
                ("s5066sis.st.retries", "3"),
                ("s5066sis.24.ttl", "648000"),
                ("data.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::ExpeditedUnidataIndication(damaged),
            vec![
                ("s5066sis.25.unused", "0"),
                ("s5066sis.address.group", "0x01,0x00"),
                ("s5066sis.25.txmode", "0x03"),
                ("s5066sis.25.src_sapid", "3"),
                ("s5066sis.25.size", "5"),
                ("s5066sis.25.err_blocks", "1"),
                ("s5066sis.25.err_ptr", "0x0001"),
                ("s5066sis.25.err_size", "2"),
                ("s5066sis.25.nrx_blocks", "2"),
                ("s5066sis.25.nrx_ptr", "0x0003,0x0004"),
                ("s5066sis.25.nrx_size", "1,1"),
                ("data.data", "48454c4c4f"),
            ],
        ),
        (
            Primitive::ExpeditedUnidataConfirm(confirm),
            vec![("s5066sis.26.sapid", "9"), A_VALUE, ("s5066sis.26.data", "48454c4c4f")],
        ),
        (
            Primitive::ExpeditedUnidataRejected(rejected),
            vec![("s5066sis.27.reason", "3"), A_VALUE, ("s5066sis.27.data", "48454c4c4f")],
        ),
    ]
}

fn is_from_client(primitive: &Primitive<'_>) -> bool {
    matches!(primitive.number(), 1 | 2 | 6 | 7 | 12 | 13 | 18 | 20 | 24)
}

const COMPLAINTS: &str = "_ws.malformed || _ws.expert.severity >= warning || \
    ip.checksum.status == 0 || tcp.checksum.status == 0";

/// Reads fields of all packets that pass the filter.
fn tshark(file: &PathBuf, filter: &str, fields: &[&str]) -> String {
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"])
        .args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"])
        .args(fields)
        .output()
        .expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("fields are text")
}

/// A TCP connection without losses, for a capture.
struct Stream {
    file: PathBuf,
    capture: Capture,
    interface: u32,
    now: u64,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
}

impl Stream {
    fn new(name: &str) -> Self {
        let file = format!("trackway-sis-{name}-{}.pcapng", std::process::id());
        let file = std::env::temp_dir().join(file);
        let mut capture = Capture::create(&file).expect("a temporary file");
        let interface = capture.add_interface("sis", LinkType::Ip);
        let mut stream = Self { file, capture, interface, now: 0, next: [0, 0] };
        stream.write(true, Flags::SYN, &[]);
        stream.write(false, Flags::SYN | Flags::ACK, &[]);
        stream.write(true, Flags::ACK, &[]);
        stream
    }

    fn send(&mut self, is_from_client: bool, octets: &[u8]) {
        self.write(is_from_client, Flags::ACK | Flags::PSH, octets);
    }

    fn write(&mut self, is_from_client: bool, flags: Flags, payload: &[u8]) {
        let ends = [(1, 40_000), (2, 5_066)]
            .map(|(host, port)| SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), port)));
        let from = usize::from(!is_from_client);
        let mut packet = Vec::new();
        let segment = Segment {
            source: ends[from],
            destination: ends[1 - from],
            seq: self.next[from],
            ack: if flags.has(Flags::ACK) { self.next[1 - from] } else { 0 },
            flags,
            window: 60_000,
            urgent: 0,
            options: Options::default(),
            payload,
            ttl: 64,
            traffic_class: 0,
            dont_fragment: true,
        };
        segment.emit(&mut packet);
        self.next[from] = self.next[from].wrapping_add(segment.len());
        self.now += 1_000_000;
        let now = Time::from_nanos(self.now);
        self.capture.write(now, self.interface, Direction::Out, &packet);
    }

    fn finish(mut self) -> PathBuf {
        self.capture.finish().expect("room for a few packets");
        self.file
    }
}
