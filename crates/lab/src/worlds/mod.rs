//! Speed in worlds that nobody chose: each service beside plain IP in networks drawn at random.
//!
//! ```text
//!   seed, index ─▶ World ─▶ trial: plain IP ─▶ Measured ─┐
//!                    │  └─▶ trial: service  ─▶ Measured ─┴▶ Row ─▶ Results: quantiles, the worst, a picture
//!                    └─ kinds: the impairments and the traffic that were drawn
//! ```
//!
//! A world is a function of its family of seeds and its index. Plain IP and the services meet the same network, the same
//! traffic and the same random streams of each link. Chance moves the ratio of a single run; repeats have other streams.

mod results;
#[cfg(test)]
mod tests;
mod trial;
mod world;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::AtomicBool;

pub use results::{Results, Row};
pub use trial::{Measure, Measured, Service};
pub use world::{Kind, World};

use crate::progress::Progress;
use crate::runner;

/// Indices searched for worlds of one kind before giving up; each kind is at least a hundredth of all worlds.
const MOST_SEARCHED: u32 = 1_000_000;

/// Which worlds to run, and how.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The family of seeds.
    pub family: u32,
    /// How many worlds.
    pub runs: u32,
    /// Only worlds of this kind.
    pub kind: Option<Kind>,
    /// This world alone.
    pub index: Option<u32>,
    /// How often each world is run, with plain IP and with each service.
    pub repeats: NonZeroU32,
    /// The services to compare with plain IP, in this order.
    pub services: Vec<Service>,
    /// Worlds at work at once.
    pub jobs: NonZeroUsize,
}

impl Selection {
    /// The indices of the selected worlds, ascending.
    #[must_use]
    pub fn indices(&self) -> Vec<u32> {
        if let Some(index) = self.index {
            return vec![index];
        }
        let is_chosen = |index: &u32| {
            self.kind.is_none_or(|kind| World::draw(self.family, *index).kinds().contains(&kind))
        };
        (0..MOST_SEARCHED).filter(is_chosen).take(self.runs as usize).collect()
    }

    /// Runs the selected worlds; those that had not begun when `stop` was set are missing.
    ///
    /// # Errors
    /// When a world cannot be built.
    pub fn run(
        &self,
        progress: fn(usize) -> Progress,
        stop: &AtomicBool,
    ) -> anyhow::Result<Results> {
        let indices = self.indices();
        let progress = progress(indices.len());
        let work = |at: usize| -> anyhow::Result<Vec<Row>> {
            let world = World::draw(self.family, indices[at]);
            let repeats = self.repeats;
            let plain = world.measure(None, repeats)?;
            let row = |&service: &Service| {
                let ours = world.measure(Some(service), repeats)?;
                Ok(Row { world: world.clone(), repeats, service, plain: plain.clone(), ours })
            };
            self.services.iter().map(row).collect()
        };
        let done = runner::run_until(indices.len(), self.jobs, &progress, stop, work);
        let is_whole = done.iter().all(Option::is_some);
        let rows: Vec<Vec<Row>> = done.into_iter().flatten().collect::<anyhow::Result<_>>()?;
        let rows = rows.into_iter().flatten().collect();
        Ok(Results { rows, services: self.services.clone(), is_whole })
    }
}
