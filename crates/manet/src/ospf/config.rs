//! Configuration of OSPF, with defaults.

use std::net::Ipv4Addr;
use std::time::Duration;

use base::ip::Prefix;
use base::parameter::{Kind, Rule};

base::parameters! {
    /// The settings of OSPF. Networks behind a router are a separate list.
    pub static PARAMETERS = "ospf";

    /// The parameters of a router. The default is what RFC 2328, appendices B and C, says or proposes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from default() {
        /// The area of all links.
        #[allowed(Kind::count(0..=0xffff_ffff))]
        pub area: u32 = 0;

        /// How often a router says on each link whom it hears, in whole seconds.
        #[allowed(Kind::period(SECOND..=Duration::from_secs(65_535)))]
        pub hello_interval: Duration = Duration::from_secs(10);

        /// How long a neighbour may be silent until it is given up, in whole seconds.
        #[allowed(Kind::period(SECOND..=Duration::from_secs(1_000_000)))]
        pub dead_interval: Duration = Duration::from_secs(40);

        /// After how long descriptions, requests and updates are sent again that nobody answered.
        #[allowed(PERIOD)]
        pub retransmit_interval: Duration = Duration::from_secs(5);

        /// By how much an LSA ages on a link, in whole seconds.
        #[allowed(Kind::period(SECOND..=HOUR))]
        pub transmit_delay: Duration = Duration::from_secs(1);

        /// How long an acknowledgement may wait for others.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub ack_delay: Duration = Duration::from_secs(1);

        /// The least time between two instances of a router's own LSA.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub min_ls_interval: Duration = Duration::from_secs(5);

        /// The least time between two instances of another router's LSA that are taken.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub min_ls_arrival: Duration = Duration::from_secs(1);

        /// After how long a router sends its own LSA anew though nothing has changed.
        #[allowed(Kind::period(SECOND..=Duration::from_secs(3_000)))]
        pub refresh_interval: Duration = Duration::from_secs(1_800);

        /// The first hello on a link is sent within this time.
        #[allowed(Kind::period(Duration::ZERO..=HOUR))]
        pub start_jitter: Duration = Duration::from_secs(1);

        /// What each link costs: the way with the least sum is taken.
        #[allowed(Kind::count(1..=65_535))]
        pub cost: u16 = 1;

        /// How much the addresses at both ends of a link have in common: its network, which is announced.
        #[allowed(Kind::count(1..=32).of("bits"))]
        pub link_bits: u8 = 24;

        /// How much a router remembers. What does not fit is left out and counted.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub bounds: flat struct Bounds {
            /// LSAs that a router remembers besides its own.
            #[allowed(Kind::count(1..=1_000_000))]
            pub lsas: usize = 4_096;

            /// What these LSAs may have together.
            #[allowed(Kind::count(1..=1 << 32).of("octets"))]
            pub octets: usize = 1 << 20;
        }

        /// The router ID; by default, the address of the first interface.
        pub router_id: Option<Ipv4Addr> = None;

        /// Networks and hosts behind this router, announced to the others. IPv6 prefixes are left out.
        pub attached: Vec<Prefix> = Vec::new();
    }

    rules [
        Rule {
            names: &["hello-interval", "dead-interval"],
            allowed: "dead-interval is more than hello-interval",
            holds: |it| it.hello_interval < it.dead_interval,
        },
        Rule {
            names: &["ack-delay", "retransmit-interval"],
            allowed: "ack-delay is less than retransmit-interval",
            holds: |it| it.ack_delay < it.retransmit_interval,
        },
        Rule {
            names: &["hello-interval", "dead-interval", "transmit-delay"],
            allowed: "hello-interval, dead-interval and transmit-delay are whole seconds",
            holds: |it| {
                let whole = [it.hello_interval, it.dead_interval, it.transmit_delay];
                whole.iter().all(|period| period.subsec_nanos() == 0)
            },
        },
        Rule {
            names: &["min-ls-interval", "refresh-interval"],
            allowed: "min-ls-interval is less than refresh-interval",
            holds: |it| it.min_ls_interval < it.refresh_interval,
        },
    ]
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const PERIOD: Kind = Kind::Period { least: Duration::from_millis(100), most: HOUR };

#[cfg(test)]
mod tests {
    use base::parameter::Written;
    use harness::prove;

    use super::*;

    #[test]
    fn each_row_sets_what_it_says() {
        prove(&PARAMETERS, &[Config::default()]);
    }

    #[test]
    fn what_hellos_say_is_whole_seconds() {
        let given = |name| (name == "hello-interval").then_some(Written::Text("1500 ms"));

        let refused = PARAMETERS.apply(&mut Config::default(), given).unwrap_err();

        assert!(refused.names.contains(&"hello-interval"), "{refused:?}");
    }
}
