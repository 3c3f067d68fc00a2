//! Reports the status of the gateway: one value, written as JSON or as metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::counter::{Counter, Measure};
use serde::Serialize;
use serde_json::Value;

use super::slot;
use crate::service::{Entry, Report, Sample};

/// How the gateway is.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    services: Vec<slot::Status>,
    /// Faults present although services run.
    faults: Vec<String>,
    /// All counters, each by its name.
    #[serde(flatten)]
    counters: BTreeMap<String, u64>,
    /// Their declarations.
    #[serde(skip)]
    declared: BTreeMap<String, &'static Counter>,
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
            declared: BTreeMap::new(),
            more: BTreeMap::new(),
        };
        for report in reports {
            for Entry { name, counter, value } in report.counters {
                status.declared.insert(name.clone(), counter);
                status.counters.insert(name, value);
            }
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

/// What a number means, as Prometheus has it. Help has no line breaks, and backslashes are doubled.
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
    use super::*;
    use crate::service::of_counters;

    #[test]
    fn the_metrics_say_what_each_number_means() {
        let seen = const { &Counter::counter("seen", "packets", "Packets seen.") };
        let up = const { &Counter::gauge("up", "links", "Whether it is up.") };
        let mut report = Report::new(of_counters("far_", [(seen, 7)]), "far", &["a", "b"]);
        for (peer, value) in [("a \"b\"\n", 1.0), ("c", 0.0)] {
            let of = ("peer", peer.to_owned());
            report.samples.push(Sample { name: "far_up".to_owned(), counter: up, of, value });
        }

        let status = Status::new(Vec::new(), vec![report]);

        assert_eq!(
            status.to_json(),
            "{\"services\":[],\"faults\":[],\"far_seen\":7,\"far\":[\"a\",\"b\"]}\n"
        );
        let metrics = "# HELP trackway_far_seen Packets seen. Unit: packets.\n\
                       # TYPE trackway_far_seen counter\n\
                       trackway_far_seen 7\n\
                       # HELP trackway_far_up Whether it is up. Unit: links.\n\
                       # TYPE trackway_far_up gauge\n\
                       trackway_far_up{peer=\"a \\\"b\\\" \"} 1\n\
                       trackway_far_up{peer=\"c\"} 0\n";
        assert_eq!(status.to_metrics(), metrics);
    }
}
