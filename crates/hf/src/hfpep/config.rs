//! Configuration of an HF-PEP, for its driver.

use std::time::Duration;

use base::parameter::Kind;

use super::flows;
use super::wire::MAGIC;
use crate::slep::{self, Options};

base::parameters! {
    /// Parameters of HF-PEP that users may set.
    pub static PARAMETERS = "hfpep";

    /// The parameters of an HF-PEP.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config from default() {
        /// How long a new connection may be silent until its stream is opened without data; data that comes before goes
        /// in the same transmission, which saves a turn there and back.
        #[allowed(Kind::period(Duration::ZERO..=Duration::from_secs(60)))]
        pub first_data: Duration = Duration::from_millis(150);

        /// The first octet of each stream, which is not published: both ends must have the same.
        #[allowed(Kind::count(0..=255))]
        pub magic: u8 = MAGIC;

        /// How long a flow of UDP is remembered in which no datagram goes either way, and none can be under way any
        /// more
        #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(604_800)))]
        "udp-idle" at flows.idle;

        /// How long a datagram of UDP is worth sending, waiting and repetitions included, unless a rule says `ttl`
        #[allowed(Kind::period(Duration::from_secs(1)..=Duration::from_secs(604_800)))]
        "udp-lifetime" at flows.lifetime;

        /// Flows of UDP at a time that were opened here, and as many that others opened; a datagram of one more is
        /// dropped
        #[allowed(Kind::count(1..=65_536))]
        "udp-flows" at flows.flows;

        /// What of a flow of UDP waits to be sent, 64 octets more for each datagram; one without room is dropped
        #[allowed(Kind::count(2_048..=1_048_576).of("octets"))]
        "udp-queue" at flows.queue;

        /// The configuration of the streams below.
        pub slep: slep::Config = slep::Config::default();

        /// How the octets of connections that others have opened are carried back.
        pub answers: Options = Options::default();

        /// Whether other ends, in connections opened by them, may forget their data only when the user confirms
        /// delivery, to the end: [`HfPep::confirm_end`](super::HfPep::confirm_end).
        pub confirms_ends: bool = false;

        /// The configuration of UDP flows.
        pub flows: flows::Config = flows::Config::default();
    }
}
