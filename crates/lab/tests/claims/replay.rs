//! Tests that runs of experiments, written as scenario files, run again with the same result.

use std::path::Path;

use lab::campaign;
use lab::claim::{Claim, Metric};
use lab::grid::Cell;
use lab::replay::scenarios;
use lab::scenario::{Plan, TransferReport};

/// The only experiment of this name.
fn claim(id: &str) -> Claim {
    campaign::select(&lab::claims(), id).expect("a claim")[0]
}

/// The transfer of run number 2 of a cell, run from its file, and what the cell says of a metric.
fn replayed(id: &str, cell: &str, metric: Metric) -> (TransferReport, f64) {
    let files = scenarios(&claim(id), cell, 0, 2).expect("it can be written");
    let file = files.iter().find(|it| it.cell == cell).expect("a cell of this name");
    let plan = Plan::parse(Path::new(&file.file), file.text.clone()).expect("a scenario");
    let mut report = plan.run(None, None).expect("a report");

    let cells = (claim(id).experiment)().cells;
    let of_file = |it: &&Cell| it.name().as_str() == file.cell;
    let outcome = cells.iter().find(of_file).expect("that of the file").run(0, 2);
    let measured = outcome.iter().find(|(name, _)| *name == metric).expect("it is measured");
    (report.flows.remove(0).tcp.expect("a transfer"), measured.1.value())
}

#[test]
fn a_transfer_over_hbh_takes_as_long_as_its_experiment_said() {
    let (transfer, delay) = replayed("hbh-goals", "chain loss=0.1 hbh", "delay");

    assert_eq!(transfer.delay_s, Some(delay));
}

#[test]
fn a_transfer_through_a_tunnel_receives_as_much_as_its_experiment_said() {
    let cell = "network sessions=1 loss=0.2 carrier=tcpnc-tunnel min-rto=400ms tcp=paper warm-up=0ns window=200s";

    let (transfer, goodput) = replayed("nc-one", cell, "goodput");

    assert_eq!(transfer.octets_received as f64 * 8.0 / 200.0 / 1e6, goodput);
    assert_eq!((transfer.octets, transfer.end), (None, None));
}

/// Writing a scenario also reads the text again and compares.
#[test]
fn every_cell_of_hbh_and_nc_can_be_written() {
    for claim in lab::claims().iter().filter(|claim| matches!(claim.group, "hbh" | "nc")) {
        let cells = (claim.experiment)().cells;
        for cell in &cells {
            let plan = cell.plan(cell.seed(0, 0)).expect("a scenario");
            assert!(plan.to_toml().is_ok(), "{}: {:?}", cell.name().as_str(), plan.to_toml());
        }
    }
}
