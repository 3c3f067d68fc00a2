//! Runs every input of the fuzz corpora through its target.

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_corpora_is_survived() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");

    for (name, body) in trackway_fuzz::TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(corpora.join(name)).expect("a corpus for each target") {
            body(&fs::read(entry.expect("an entry").path()).expect("a file"));
            inputs += 1;
        }
        assert!(inputs > 0, "the corpus of {name} is empty");
    }
}

/// New sections of configurations and scenarios come with an example.
#[test]
fn every_example_is_survived() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");

    let kinds = fs::read_dir(examples).expect("the examples");
    let files =
        kinds.flat_map(|kind| fs::read_dir(kind.expect("a kind").path()).expect("a folder"));
    let mut survived = 0;
    for file in files {
        let text = fs::read(file.expect("an entry").path()).expect("a file");
        for target in ["gateway_config", "scenario_file"] {
            trackway_fuzz::run(target, &text);
        }
        survived += 1;
    }
    assert!(survived > 0, "no examples");
}
