//! Reports the status of the gateway: one value, written as JSON or as metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::slot;
use crate::service::{Report, Sample};

/// How the gateway is.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    services: Vec<slot::Status>,
    /// Faults present although services run.
    faults: Vec<String>,
    /// All counters, each by its name.
    #[serde(flatten)]
    counters: BTreeMap<String, u64>,
    /// What services say beyond that.
    #[serde(flatten)]
    more: BTreeMap<&'static str, Value>,
    #[serde(skip)]
    samples: Vec<Sample>,
}

impl Status {
    /// Combines the state of all services with the reports of the running services.
    pub(super) fn new(services: Vec<slot::Status>, reports: Vec<Report>) -> Self {
        let mut status = Self {
            samples: services.iter().flat_map(slot::Status::samples).collect(),
            services,
            faults: Vec::new(),
            counters: BTreeMap::new(),
            more: BTreeMap::new(),
        };
        for report in reports {
            status.counters.extend(report.counters);
            status.more.extend(report.status);
            status.samples.extend(report.samples);
            status.faults.extend(report.faults);
        }
        status
    }

    /// Why a peer of the tunnel takes no packets now, if so.
    pub(super) fn fault_of_peer(&self, name: &str) -> Option<String> {
        let tunnels = self.more.get("tunnels")?.as_array()?;
        let its = tunnels.iter().find(|it| it["peer"] == name)?;
        let state = its["state"].as_str().filter(|state| *state != "up")?;
        Some(format!("the tunnel to {name} is {state}: `trackway status` says more"))
    }

    /// As one JSON object in a line.
    pub(super) fn to_json(&self) -> String {
        let json = serde_json::to_string(self).expect("names are texts, and numbers finite");
        json + "\n"
    }

    /// The numbers in Prometheus' text format.
    pub(super) fn to_metrics(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.counters {
            let _ = writeln!(text, "trackway_{name} {value}");
        }
        for Sample { name, of: (label, which), value } in &self.samples {
            let _ = writeln!(text, "trackway_{name}{{{label}={}}} {value}", quoted(which));
        }
        text
    }
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
    use super::*;

    #[test]
    fn counters_stand_side_by_side_and_samples_have_labels() {
        let mut report = Report::new(vec![("far_seen".to_owned(), 7)], "far", &["a", "b"]);
        let of = ("peer", "a \"b\"\n".to_owned());
        report.samples.push(Sample { name: "far_up".to_owned(), of, value: 1.0 });

        let status = Status::new(Vec::new(), vec![report]);

        assert_eq!(
            status.to_json(),
            "{\"services\":[],\"faults\":[],\"far_seen\":7,\"far\":[\"a\",\"b\"]}\n"
        );
        let metrics = "trackway_far_seen 7\ntrackway_far_up{peer=\"a \\\"b\\\" \"} 1\n";
        assert_eq!(status.to_metrics(), metrics);
    }
}
