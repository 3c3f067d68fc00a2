//! Measures coding in GF(2^8) on one core: repairs, several at once, and decoding, against the limit of the machine
//! in the same run.

#[cfg(feature = "reed-solomon-erasure")]
mod peer;

use std::hint::black_box;
use std::io;
use std::time::Duration;

use anyhow::Context as _;
use base::rng::Rng;
use gf::coefficients::Coefficients;
use gf::equations::Equations;
use gf::{Buffer, Kernel, Singular, Solver};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::Case;
use super::unit::Unit;
use testbed::probe::median;

/// Octets of a packet.
const SYMBOL: usize = 1024;
/// Packets used in turn: more than the first cache holds, and less than the second.
const STORE: usize = 1024;
/// Sources of a block, and the number of lost sources.
const BLOCK: usize = 64;
const LOST: usize = 16;
/// Blocks used in turn, in the second cache.
const BLOCKS: usize = 4;
/// How long each thing is measured at a time, and how often: the machine's speed changes.
const TURN: Duration = Duration::from_micros(400);
const TURNS: usize = 101;
/// Calls before.
const WARM_UP: usize = 16;

/// Something to measure.
struct Task<'a> {
    name: String,
    /// Octets counted for a call.
    octets: f64,
    /// The position of the limiting task, and the limit as a share of that task's rate.
    limit: Option<(usize, f64)>,
    call: Box<dyn FnMut() + 'a>,
}

/// Measures all in turn, many times, and prints medians.
pub fn run(print: impl Fn(Case) -> io::Result<()>) -> anyhow::Result<()> {
    stay_on_this_core()?;
    let store = Store::new();
    let blocks = Blocks::new();
    let mut tasks = Vec::new();
    let kernels = Kernel::available();
    for (rank, &kernel) in kernels.iter().enumerate() {
        // The best goes without its name.
        let prefix = if rank == 0 { String::new() } else { format!("{} ", kernel.name()) };
        let from = tasks.len();
        let limit = add_limit(kernel, &mut tasks);
        if rank == 0 {
            store.add_tasks(kernel, limit, &mut tasks);
            add_elimination(limit, &mut tasks);
        }
        blocks.add_tasks(kernel, limit, &mut tasks)?;
        for task in &mut tasks[from..] {
            task.name.insert_str(0, &prefix);
        }
    }
    #[cfg(feature = "reed-solomon-erasure")]
    {
        let avx2 = |what| tasks.iter().position(|task| task.name == format!("avx2 {what}"));
        let ours = [avx2("encode-16-of-64"), avx2("decode-16-of-64")];
        peer::add_tasks(ours, &mut tasks)?;
    }

    let rates = measure(&mut tasks)?;
    for (task, &value) in tasks.iter().zip(&rates) {
        let limit = task.limit.map(|(position, share)| rates[position] * share);
        print(Case {
            bench: "codec",
            case: task.name.clone(),
            value,
            unit: Unit::OctetsPerSecond,
            limit,
        })?;
    }
    Ok(())
}

fn stay_on_this_core() -> anyhow::Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("which cores there are")?;
    let last = (0..CpuSet::count()).rev().find(|&core| allowed.is_set(core).unwrap_or(false));
    let mut core = CpuSet::new();
    core.set(last.context("a core to run on")?)?;
    sched_setaffinity(Pid::from_raw(0), &core).context("cannot stay on one core")
}

/// Octets per second of each task.
fn measure(tasks: &mut [Task<'_>]) -> anyhow::Result<Vec<f64>> {
    let calls: Vec<u32> = tasks.iter_mut().map(calls_in_a_turn).collect::<Result<_, _>>()?;
    let mut rates = vec![Vec::with_capacity(TURNS); tasks.len()];
    for _ in 0..TURNS {
        for ((task, &calls), rates) in tasks.iter_mut().zip(&calls).zip(&mut rates) {
            // Others have had the caches since the last turn.
            for _ in 0..WARM_UP {
                (task.call)();
            }
            let start = cpu_time()?;
            for _ in 0..calls {
                (task.call)();
            }
            let spent = cpu_time()? - start;
            rates.push(task.octets * f64::from(calls) / spent.as_secs_f64());
        }
    }
    Ok(rates.into_iter().map(median).collect())
}

fn calls_in_a_turn(task: &mut Task<'_>) -> anyhow::Result<u32> {
    let mut calls = 1;
    loop {
        let start = cpu_time()?;
        for _ in 0..calls {
            (task.call)();
        }
        if cpu_time()? - start >= TURN {
            return Ok(calls);
        }
        calls *= 2;
    }
}

/// Not the time of day: others may want the core too.
fn cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

/// Adds a task that multiplies octets in registers, if the machine has an instruction. Returns the task's position.
fn add_limit(kernel: Kernel, tasks: &mut Vec<Task<'_>>) -> Option<usize> {
    const ROUNDS: u64 = 1000;
    if !kernel.has_multiplication() {
        return None;
    }
    let octets = kernel.multiply_in_registers(ROUNDS) as f64;
    let call = Box::new(move || {
        black_box(kernel.multiply_in_registers(ROUNDS));
    });
    tasks.push(Task { name: "multiply-in-registers".into(), octets, limit: None, call });
    Some(tasks.len() - 1)
}

/// Packets for sums, in the second cache.
struct Store {
    octets: Buffer,
    coefficients: Vec<u8>,
}

impl Store {
    fn new() -> Self {
        let mut rng = Rng::stream(1, "codec");
        let octets = Buffer::from(&random(&mut rng, STORE * SYMBOL)[..]);
        Self { octets, coefficients: random(&mut rng, STORE) }
    }

    fn add_tasks<'a>(&'a self, kernel: Kernel, limit: Option<usize>, tasks: &mut Vec<Task<'a>>) {
        for sources in [64, 256] {
            let name = format!("xor-{sources}");
            let sum = tasks.len();
            self.add_sum(name, None, sources, tasks, move |out, terms| {
                kernel.sum_sources(out, terms);
            });
            let name = format!("repair-{sources}");
            self.add_sum(name, Some((sum, 1.0)), sources, tasks, move |out, terms| {
                kernel.combine(out, terms);
            });
        }
        self.add_fused::<2>(kernel, limit, tasks);
        self.add_fused::<4>(kernel, limit, tasks);
        self.add_fused::<8>(kernel, limit, tasks);
        self.add_fused::<16>(kernel, limit, tasks);
    }

    /// Adds a task for one sum of `sources` sources. Counts the octets of the sources.
    fn add_sum<'a>(
        &'a self,
        name: String,
        limit: Option<(usize, f64)>,
        sources: usize,
        tasks: &mut Vec<Task<'a>>,
        sum: impl Fn(&mut [u8], &[(u8, &[u8])]) + 'a,
    ) {
        let packets: Vec<(u8, &[u8])> =
            self.coefficients.iter().copied().zip(self.octets.chunks(SYMBOL)).collect();
        let mut out = Buffer::zeroed(SYMBOL);
        let mut at = 0;
        let call = Box::new(move || {
            sum(&mut out, &packets[at..][..sources]);
            at = (at + sources) % STORE;
        });
        let octets = (sources * SYMBOL) as f64;
        tasks.push(Task { name, octets, limit, call });
    }

    /// Some sums of the same sources at once. Counts every octet that is multiplied.
    fn add_fused<'a, const OUTPUTS: usize>(
        &'a self,
        kernel: Kernel,
        limit: Option<usize>,
        tasks: &mut Vec<Task<'a>>,
    ) {
        let packets: Vec<&[u8]> = self.octets.chunks(SYMBOL).collect();
        let mut outs = [const { Buffer::new() }; OUTPUTS];
        outs.iter_mut().for_each(|out| out.resize(SYMBOL));
        let coefficients = &self.coefficients[..OUTPUTS * BLOCK];
        let mut at = 0;
        let call = Box::new(move || {
            let mut outs = outs.each_mut().map(|out| &mut out[..]);
            kernel.combine_many(&mut outs, coefficients, &packets[at..][..BLOCK]);
            at = (at + BLOCK) % STORE;
        });
        let octets = (OUTPUTS * BLOCK * SYMBOL) as f64;
        let limit = limit.map(|task| (task, 1.0));
        tasks.push(Task { name: format!("fused-{OUTPUTS}"), octets, limit, call });
    }
}

/// Adds a task that takes a repair over 1,024 missing sources into 511 equations, with symbols of full packets: what the
/// tunnel does when a peer's repairs solve nothing. Counts each octet that is multiplied.
fn add_elimination(limit: Option<usize>, tasks: &mut Vec<Task<'_>>) {
    const RANK: u64 = 511;
    const MISSING: u64 = 1024;
    const LONGEST: usize = 1400;
    let repair = |number: u64, first: u64, missing: u64| -> Vec<(u64, u8)> {
        (first..first + missing).zip(Coefficients::of(number)).collect()
    };
    let mut equations = Equations::default();
    for number in 0..RANK {
        let entries = repair(number, number % 7, MISSING - 7);
        equations.insert(&entries, || vec![7; LONGEST], &mut Vec::new());
    }
    let mut number = RANK;
    let mut take = move || {
        number += 1;
        let before = equations.steps();
        equations.insert(&repair(number, 0, MISSING), || vec![7; LONGEST], &mut Vec::new());
        equations.forget_greatest();
        equations.steps() - before
    };
    let octets = take() as f64;
    let call = Box::new(move || {
        black_box(take());
    });
    tasks.push(Task {
        name: format!("repair-at-rank-{RANK}"),
        octets,
        limit: limit.map(|task| (task, 1.0)),
        call,
    });
}

/// Blocks with their first packets lost, and as many repairs received.
struct Blocks {
    blocks: Vec<Block>,
    /// Coefficients of the repairs, row by row; the columns of the lost packets come first.
    coefficients: Vec<u8>,
}

struct Block {
    sources: Vec<Buffer>,
    repairs: [Buffer; LOST],
}

impl Blocks {
    fn new() -> Self {
        let mut rng = Rng::stream(2, "codec");
        let coefficients = random(&mut rng, LOST * BLOCK);
        let blocks = (0..BLOCKS)
            .map(|_| {
                let sources: Vec<Buffer> =
                    (0..BLOCK).map(|_| Buffer::from(&random(&mut rng, SYMBOL)[..])).collect();
                let mut repairs = [const { Buffer::new() }; LOST];
                repairs.iter_mut().for_each(|repair| repair.resize(SYMBOL));
                let packets: Vec<&[u8]> = sources.iter().map(|source| &source[..]).collect();
                let mut outs = repairs.each_mut().map(|repair| &mut repair[..]);
                gf::combine_many(&mut outs, &coefficients, &packets);
                Block { sources, repairs }
            })
            .collect();
        Self { blocks, coefficients }
    }

    /// Adds tasks that make repairs for a block and recover its lost packets. Both count the octets of the block's
    /// sources. Each source is multiplied `LOST` times, which sets the limit.
    fn add_tasks<'a>(
        &'a self,
        kernel: Kernel,
        limit: Option<usize>,
        tasks: &mut Vec<Task<'a>>,
    ) -> anyhow::Result<()> {
        let octets = (BLOCK * SYMBOL) as f64;
        let limit = limit.map(|task| (task, 1.0 / LOST as f64));
        let sources: Vec<Vec<&[u8]>> = self
            .blocks
            .iter()
            .map(|block| block.sources.iter().map(|source| &source[..]).collect())
            .collect();

        let blocks = sources.clone();
        let mut outs = [const { Buffer::new() }; LOST];
        outs.iter_mut().for_each(|out| out.resize(SYMBOL));
        let mut turn = 0;
        let call = Box::new(move || {
            turn = (turn + 1) % blocks.len();
            let mut outs = outs.each_mut().map(|out| &mut out[..]);
            kernel.combine_many(&mut outs, &self.coefficients, &blocks[turn]);
        });
        tasks.push(Task { name: format!("encode-{LOST}-of-{BLOCK}"), octets, limit, call });

        let mut solver = Solver::with_kernel(kernel);
        let mut outs = [const { Buffer::new() }; LOST];
        outs.iter_mut().for_each(|out| out.resize(SYMBOL));
        self.recover(&mut solver, &mut outs, 0, &sources[0][LOST..])?;
        for (out, source) in outs.iter().zip(&sources[0]) {
            anyhow::ensure!(out[..] == **source, "{} recovers something else", kernel.name());
        }
        let mut turn = 0;
        let call = Box::new(move || {
            turn = (turn + 1) % sources.len();
            let done = self.recover(&mut solver, &mut outs, turn, &sources[turn][LOST..]);
            debug_assert!(done.is_ok());
        });
        tasks.push(Task { name: format!("decode-{LOST}-of-{BLOCK}"), octets, limit, call });
        Ok(())
    }

    fn recover(
        &self,
        solver: &mut Solver,
        outs: &mut [Buffer; LOST],
        block: usize,
        received: &[&[u8]],
    ) -> Result<(), Singular> {
        solver.reset(LOST, BLOCK - LOST);
        for (equation, coefficients) in self.coefficients.chunks(BLOCK).enumerate() {
            solver.equation_mut(equation).copy_from_slice(coefficients);
        }
        let repairs = self.blocks[block].repairs.each_ref().map(|repair| &repair[..]);
        let mut outs = outs.each_mut().map(|out| &mut out[..]);
        solver.solve()?.recover(&mut outs, &repairs, received);
        Ok(())
    }
}

/// Octets but no zeros.
fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.bits().to_be_bytes()[0].max(1)).collect()
}
