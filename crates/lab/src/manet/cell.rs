//! The cell that runs a trial.

use super::scene;
use super::trial::{Assumed, Trial};
use crate::prelude::*;

impl Place for Trial {
    fn cell(&self) -> Cell {
        let trial = *self;
        let Self { network, traffic, tcp, routing, carrier, assumed } = trial;
        let name = Name::of("manet").with("network", network.title());
        let name = name.with("traffic", traffic.title(network)).with("tcp", tcp.title());
        let name = name.with("routing", routing.title()).with("carrier", carrier.title());
        let name = name.unless("assumed", assumed.title(), Assumed::Usual.title());
        let cell = Cell::new(name, trial.draws(), move |seed| scene::run(trial, seed));
        let cell = cell.at_most(super::RUNS);
        if assumed.is_aside() { cell.aside() } else { cell }
    }
}
