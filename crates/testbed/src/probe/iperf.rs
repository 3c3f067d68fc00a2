//! Measures TCP by the program `iperf3`.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::Namespaces;

/// One run of `iperf3`.
#[derive(Clone, Copy, Debug)]
pub struct Iperf<'a> {
    /// The namespaces of the client and of the server.
    pub between: (&'a str, &'a str),
    /// The address that the client connects to.
    pub address: &'a str,
    /// Measured seconds, after the seconds left out.
    pub seconds: u32,
    /// Seconds left out before.
    pub left_out: u32,
    /// Further arguments of the client.
    pub args: &'a [&'a str],
}

impl Iperf<'_> {
    /// The client's report at the end.
    ///
    /// # Errors
    /// When a program is missing or does not end, or the client fails.
    pub fn report(&self, nets: &mut Namespaces) -> anyhow::Result<Value> {
        let (client, server) = self.start(nets)?;
        let limit = Duration::from_secs(u64::from(self.seconds + self.left_out) + 60);
        let deadline = Instant::now() + limit;
        let mut is_late = false;
        while !nets.program(client).has_ended() && !is_late {
            thread::sleep(Duration::from_millis(20));
            is_late = Instant::now() > deadline;
        }
        nets.program(client).end();
        nets.program(server).end();
        ensure!(!is_late, "iperf3 does not end");
        let printed = nets.printed(client);
        let report = printed.find('{').map_or("", |start| &printed[start..]);
        serde_json::from_str(report).with_context(|| format!("iperf3 says: {printed}"))
    }

    /// TCP's goodput, in bit/s.
    ///
    /// # Errors
    /// As [`Self::report`], and when nothing was received.
    pub fn goodput(&self, nets: &mut Namespaces) -> anyhow::Result<f64> {
        goodput(&self.report(nets)?)
    }

    /// Calls `act` once iperf3 runs, and ends iperf3 afterwards.
    ///
    /// # Errors
    /// When a program is missing, or `act` fails.
    pub fn beside<T>(
        &self,
        nets: &mut Namespaces,
        act: impl FnOnce(&Namespaces) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (client, server) = self.start(nets)?;
        thread::sleep(Duration::from_secs(self.left_out.into()));
        let done = act(nets);
        nets.program(client).end();
        nets.program(server).end();
        done
    }

    /// Starts server and client.
    fn start(&self, nets: &mut Namespaces) -> anyhow::Result<(usize, usize)> {
        let Self { between: (client, server), address, seconds, left_out, args } = *self;
        let server = nets.start(server, "iperf3 -s -1 --forceflush", "listening")?;
        let client = nets.start(
            client,
            &format!(
                "iperf3 -c {address} -t {seconds} -O {left_out} -J --connect-timeout 20000 {}",
                args.join(" ")
            ),
            "",
        )?;
        Ok((client, server))
    }
}

/// The goodput of TCP at the receiver, in bit/s, from a client's report.
///
/// # Errors
/// When the report has no goodput.
pub fn goodput(report: &Value) -> anyhow::Result<f64> {
    let goodput = report["end"]["sum_received"]["bits_per_second"].as_f64();
    goodput.with_context(|| format!("iperf3 says: {}", report["error"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_receiver_got_is_the_goodput() {
        let report = json!({"end": {
            "sum_sent": {"bits_per_second": 3000}, "sum_received": {"bits_per_second": 2000.5}
        }});

        assert_eq!(goodput(&report).ok(), Some(2_000.5));
    }

    #[test]
    fn a_failure_of_iperf3_is_told() {
        let error = goodput(&json!({"intervals": [], "end": {}, "error": "refused"}));

        assert!(error.is_err_and(|error| error.to_string().contains("refused")));
    }
}
