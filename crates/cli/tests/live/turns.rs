//! Which tests run at the same time: many, or one that measures time alone.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many run together, and how many wait to be alone.
struct Running {
    together: usize,
    is_one_alone: bool,
    waiting: usize,
}

static RUNNING: Mutex<Running> =
    Mutex::new(Running { together: 0, is_one_alone: false, waiting: 0 });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Whether the test on this thread has the machine for itself.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// A test that runs, until it is dropped.
pub(crate) struct Turn {
    is_alone: bool,
}

/// Waits until no other test runs, and keeps others waiting. A test that measures time begins with
/// it, because what others do at the same time would be measured too.
pub(crate) fn alone() -> Turn {
    let mut running = lock();
    running.waiting += 1;
    while running.together > 0 || running.is_one_alone {
        running = wait(running);
    }
    running.waiting -= 1;
    running.is_one_alone = true;
    IS_ALONE.set(true);
    Turn { is_alone: true }
}

/// Waits until no test wants to be alone.
pub(crate) fn together() -> Turn {
    let mut running = lock();
    while running.is_one_alone || running.waiting > 0 {
        running = wait(running);
    }
    running.together += 1;
    Turn { is_alone: false }
}

/// Whether the test on this thread runs alone.
pub(crate) fn is_alone() -> bool {
    IS_ALONE.get()
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = lock();
        if self.is_alone {
            running.is_one_alone = false;
            IS_ALONE.set(false);
        } else {
            running.together -= 1;
        }
        CHANGED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(running: MutexGuard<'static, Running>) -> MutexGuard<'static, Running> {
    CHANGED.wait(running).unwrap_or_else(PoisonError::into_inner)
}
