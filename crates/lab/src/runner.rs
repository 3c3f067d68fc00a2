//! Does many runs on all cores. The results never depend on the number of cores.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use base::rng::Rng;

use crate::progress::Progress;

/// The seed of run number `run` of cells with the label `draws`, in a family of seeds.
///
/// It depends on nothing else, so a run gives the same whoever asks for it, and in any order.
#[must_use]
pub fn seed(draws: &str, family: u32, run: u32) -> u64 {
    Rng::stream(u64::from(family) << 32 | u64::from(run), draws).bits()
}

/// How many runs to have at work at once, unless told: one for each core.
#[must_use]
pub fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Does `work` for each of `0..count` on up to `jobs` threads, and begins none once `stop` is set; the results in
/// order, none for what was not begun.
pub fn run_until<T: Send>(
    count: usize,
    jobs: NonZeroUsize,
    progress: &Progress,
    stop: &AtomicBool,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>());

    thread::scope(|scope| {
        for _ in 0..jobs.get().min(count) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = work(index);
                    let mut done = done.lock().expect("no thread panics while it stores a result");
                    done[index] = Some(result);
                    drop(done);
                    progress.step();
                }
            });
        }
    });

    done.into_inner().expect("no thread panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_number_of_jobs() {
        let work = |index: usize| Rng::stream(index as u64, "work").bits();

        let run = |jobs| run_until(100, jobs, &Progress::silent(), &AtomicBool::new(false), work);

        let alone = run(NonZeroUsize::MIN);
        let many = run(NonZeroUsize::MIN.saturating_add(7));

        assert_eq!(alone, many);
        assert_eq!(alone[3], Some(work(3)));
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        let none =
            run_until(0, cores(), &Progress::silent(), &AtomicBool::new(false), |index| index);

        assert!(none.is_empty());
    }

    #[test]
    fn nothing_is_begun_once_it_is_to_stop() {
        let stop = AtomicBool::new(false);
        let work = |index: usize| {
            stop.store(index == 2, Ordering::Relaxed);
            index
        };

        let done = run_until(9, NonZeroUsize::MIN, &Progress::silent(), &stop, work);

        assert_eq!(done[..4], [Some(0), Some(1), Some(2), None]);
        assert_eq!(done[4..], [None; 5]);
    }

    #[test]
    fn seeds_differ_between_runs_cells_and_families() {
        assert_ne!(seed("a", 0, 0), seed("a", 0, 1));
        assert_ne!(seed("a", 0, 0), seed("b", 0, 0));
        assert_ne!(seed("a", 0, 0), seed("a", 1, 0));
        assert_eq!(seed("a", 0, 0), seed("a", 0, 0));
    }

    #[test]
    fn the_first_family_is_that_of_all_published_figures() {
        assert_eq!(seed("a", 0, 7), Rng::stream(7, "a").bits());
    }
}
