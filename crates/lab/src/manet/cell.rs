//! The cell that runs a trial.

use super::scene;
use super::trial::Trial;
use crate::prelude::*;

impl Place for Trial {
    fn cell(&self) -> Cell {
        let trial = *self;
        let Self { network, traffic, tcp, routing, carrier, assumed } = trial;
        let name =
            format!("manet {network:?} {traffic:?} {tcp:?} {routing:?} {carrier:?} {assumed:?}");
        let cell = Cell::new(name, move |seed| scene::run(trial, seed))
            .with_draws_of(&trial.draws())
            .at_most(super::RUNS);
        if assumed.is_aside() { cell.aside() } else { cell }
    }
}
