//! Reports the status of the gateway: a single value, in JSON or as metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Not;

use base::counter::{Counter, Measure};
use host::fault::{Fault, KINDS, Kind};
use serde::Serialize;
use serde_json::Value;
use settings::plain::without_numbers;

use super::slot;
use crate::events::Event;
use crate::service::{Entry, Report, Sample};

/// How the gateway is.
#[derive(Debug, Serialize)]
pub struct Status {
    services: Vec<slot::Status>,
    /// The present faults, the gravest first.
    faults: Vec<Shown>,
    /// All counters, each by its name.
    #[serde(flatten)]
    counters: BTreeMap<String, u64>,
    /// Their declarations.
    #[serde(skip)]
    declared: BTreeMap<String, &'static Counter>,
    /// What services say beyond that.
    #[serde(flatten)]
    more: BTreeMap<&'static str, Value>,
    /// The last lines of the log, the oldest first.
    events: Vec<Event>,
    #[serde(skip)]
    samples: Vec<Sample>,
}

/// A fault, for an operator and for programs.
#[derive(Debug, Serialize)]
struct Shown {
    code: &'static str,
    severity: &'static str,
    said: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// Whether `trackway doctor` finds it by itself while it lasts.
    #[serde(skip_serializing_if = "Not::not")]
    is_finding: bool,
}

impl Status {
    /// Combines the state of all services with the reports of the running services, and with the faults that are
    /// shown.
    pub fn new(
        services: Vec<slot::Status>,
        reports: Vec<Report>,
        faults: Vec<Fault>,
        events: Vec<Event>,
    ) -> Self {
        let mut samples: Vec<_> = services.iter().flat_map(slot::Status::samples).collect();
        samples.extend(KINDS.iter().map(|kind| sample(kind, &faults)));
        let shown = |Fault { kind, said, peer, is_finding }| {
            let severity = kind.severity.name();
            Shown { code: kind.code, severity, said: without_numbers(&said), peer, is_finding }
        };
        let mut status = Self {
            samples,
            services,
            faults: faults.into_iter().map(shown).collect(),
            counters: BTreeMap::new(),
            declared: BTreeMap::new(),
            more: BTreeMap::new(),
            events,
        };
        for report in reports {
            for Entry { name, counter, value } in report.counters {
                status.declared.insert(name.clone(), counter);
                status.counters.insert(name, value);
            }
            status.more.extend(report.status);
            status.samples.extend(report.samples);
        }
        status
    }

    /// Why a peer of the tunnel takes no packets now, if so.
    pub fn fault_of_peer(&self, name: &str) -> Option<String> {
        if let Some(fault) = self.faults.iter().find(|it| it.peer.as_deref() == Some(name)) {
            return Some(fault.said.clone());
        }
        let tunnels = self.more.get("tunnels")?.as_array()?;
        let its = tunnels.iter().find(|it| it["peer"] == name)?;
        let state = its["state"].as_str().filter(|state| *state != "up")?;
        Some(format!("the tunnel to {name} is {state}: `trackway status` says more"))
    }

    /// What the services did, for the last line of the log: `; hbh: 7 packets taken, 2 sent again; tunnel b: ...`.
    pub fn summary(&self) -> String {
        let mut summary = String::new();
        for (service, counters) in HEADLINES {
            let told = counters.iter().filter_map(|(name, words)| {
                self.counters.get(*name).map(|count| format!("{count} {words}"))
            });
            let told: Vec<String> = told.collect();
            if !told.is_empty() {
                let _ = write!(summary, "; {service}: {}", told.join(", "));
            }
        }
        for tunnel in self.more.get("tunnels").and_then(Value::as_array).into_iter().flatten() {
            let [name, state] = ["peer", "state"].map(|key| tunnel[key].as_str().unwrap_or("?"));
            let [sent, received] = ["octets_in", "octets_out"]
                .map(|key| base::readable::octets(tunnel[key].as_f64().unwrap_or_default()));
            let _ =
                write!(summary, "; tunnel to {name}: {state}, {sent} sent, {received} received");
        }
        summary
    }

    /// The numbers in Prometheus' text format.
    pub fn to_metrics(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.counters {
            if let Some(counter) = self.declared.get(name) {
                declare(&mut text, name, counter);
            }
            let _ = writeln!(text, "trackway_{name} {value}");
        }
        // All samples of a name stand behind one declaration.
        let mut by_name: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            by_name.entry(&sample.name).or_default().push(sample);
        }
        for (name, samples) in by_name {
            declare(&mut text, name, samples[0].counter);
            for Sample { of: (label, which), value, .. } in samples {
                let _ = writeln!(text, "trackway_{name}{{{label}={}}} {value}", quoted(which));
            }
        }
        text
    }
}

/// The counters that the last line of the log tells, by service.
const HEADLINES: [(&str, &[(&str, &str)]); 4] = [
    (
        "hbh",
        &[
            ("hbh_packets_taken", "packets taken"),
            ("hbh_data_repeated", "sent again"),
            ("hbh_packets_expired", "expired"),
        ],
    ),
    ("ipclient", &[("ipclient_packets_in", "packets taken"), ("ipclient_packets_out", "received")]),
    (
        "hfpep",
        &[
            ("hfpep_connections_accepted", "connections taken"),
            ("hfpep_connections_made", "made for others"),
        ],
    ),
    (
        "sar",
        &[
            ("sar_messages_taken", "messages taken"),
            ("sar_outcomes_delivered", "delivered"),
            ("sar_received_messages", "received"),
        ],
    ),
];

/// How many faults of a kind are shown.
fn sample(kind: &'static Kind, faults: &[Fault]) -> Sample {
    let faulty = const {
        &Counter::gauge("faults", "faults", "Faults of this kind that are shown by the status.")
    };
    let count = faults.iter().filter(|fault| fault.kind == kind).count();
    let of = ("code", kind.code.to_owned());
    Sample { name: faulty.name.to_owned(), counter: faulty, of, value: count as f64 }
}

/// Declares a counter in the format of Prometheus. Help has no line breaks, and backslashes are doubled.
fn declare(text: &mut String, name: &str, counter: &Counter) {
    let help = counter.help.replace('\\', "\\\\");
    let measure = match counter.measure {
        Measure::Counter => "counter",
        Measure::Gauge => "gauge",
    };
    let unit = counter.unit;
    let _ = writeln!(
        text,
        "# HELP trackway_{name} {help} Unit: {unit}.\n# TYPE trackway_{name} {measure}"
    );
}

/// A text in quotes, as Prometheus has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use host::fault;

    use super::*;
    use crate::service::{entries, of_counters};

    #[test]
    fn the_metrics_say_what_each_number_means() {
        let seen = const { &Counter::counter("seen", "packets", "Packets seen.") };
        let up = const { &Counter::gauge("up", "links", "Whether it is up.") };
        let mut report = Report::new(of_counters("far_", [(seen, 7)]), "far", &["a", "b"]);
        for (peer, value) in [("a \"b\"\n", 1.0), ("c", 0.0)] {
            let of = ("peer", peer.to_owned());
            report.samples.push(Sample { name: "far_up".to_owned(), counter: up, of, value });
        }

        let faults = vec![Fault::new(&fault::CONTESTED, "they change it")];
        let status = Status::new(Vec::new(), vec![report], faults, Vec::new());

        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            "{\"services\":[],\"faults\":[{\"code\":\"contested\",\"severity\":\"medium\",\"said\":\"they change it\"}],\
             \"far_seen\":7,\"far\":[\"a\",\"b\"],\"events\":[]}"
        );
        let metrics = "# HELP trackway_far_seen Packets seen. Unit: packets.\n\
                       # TYPE trackway_far_seen counter\n\
                       trackway_far_seen 7\n\
                       # HELP trackway_far_up Whether it is up. Unit: links.\n\
                       # TYPE trackway_far_up gauge\n\
                       trackway_far_up{peer=\"a \\\"b\\\" \"} 1\n\
                       trackway_far_up{peer=\"c\"} 0\n";
        let (others, of_faults) = status
            .to_metrics()
            .split_once("# HELP trackway_faults")
            .map_or((status.to_metrics(), String::new()), |(before, rest)| {
                (before.to_owned(), rest.to_owned())
            });
        assert_eq!(others, metrics);
        assert!(of_faults.contains("trackway_faults{code=\"contested\"} 1\n"), "{of_faults}");
        assert!(of_faults.contains("trackway_faults{code=\"route-missing\"} 0\n"), "{of_faults}");
    }

    #[test]
    fn the_last_line_tells_counters_that_exist_and_is_one_line() {
        let mut report = Report::new(entries("hbh_", &hbh::Stats::default()), "x", &());
        report.counters.extend(entries("ipclient_", &hf::ipclient::Stats::default()));
        report.counters.extend(entries("sar_", &sar::Stats::default()));
        report.counters.extend(crate::service::headlines_of_hfpep());
        let tunnels = serde_json::json!([
            { "peer": "b", "state": "up", "octets_in": 12_400_000, "octets_out": 950 },
        ]);
        report.status = Some(("tunnels", tunnels));

        let summary = Status::new(Vec::new(), vec![report], Vec::new(), Vec::new()).summary();

        for (service, counters) in HEADLINES {
            assert!(summary.contains(&format!("; {service}: ")), "{summary}");
            for (name, words) in counters {
                assert!(summary.contains(&format!("0 {words}")), "{name}: {summary}");
            }
        }
        assert!(
            summary.ends_with("; tunnel to b: up, 12.40 MB sent, 950 octets received"),
            "{summary}"
        );
    }
}
