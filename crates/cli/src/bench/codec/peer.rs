//! The same block by the crate `reed-solomon-erasure`, with its AVX2 code.

use anyhow::Context as _;
use base::rng::Rng;
use reed_solomon_erasure::galois_8::ReedSolomon;

use super::{BLOCK, BLOCKS, LOST, SYMBOL, Task, random};

/// Adds the tasks of [`Blocks`](super::Blocks) in the same order, to compare with our AVX2 tasks
/// `ours`.
pub fn add_tasks(ours: [Option<usize>; 2], tasks: &mut Vec<Task<'_>>) -> anyhow::Result<()> {
    let octets = (BLOCK * SYMBOL) as f64;
    let codec = ReedSolomon::new(BLOCK, LOST).context("reed-solomon-erasure")?;
    let mut rng = Rng::stream(2, "codec");
    let blocks: Vec<Vec<Vec<u8>>> = (0..BLOCKS)
        .map(|_| {
            let mut block: Vec<Vec<u8>> = (0..BLOCK).map(|_| random(&mut rng, SYMBOL)).collect();
            block.resize(BLOCK + LOST, vec![0; SYMBOL]);
            codec.encode(&mut block).map(|()| block)
        })
        .collect::<Result<_, _>>()
        .context("reed-solomon-erasure")?;

    let (encoder, mut encoded, mut turn) = (codec.clone(), blocks.clone(), 0);
    let call = Box::new(move || {
        turn = (turn + 1) % encoded.len();
        let done = encoder.encode(&mut encoded[turn]);
        debug_assert!(done.is_ok());
    });
    let name = format!("reed-solomon-erasure encode-{LOST}-of-{BLOCK}");
    tasks.push(Task { name, octets, limit: ours[0].map(|ours| (ours, 1.0)), call });

    let mut blocks: Vec<Vec<(Vec<u8>, bool)>> = blocks
        .into_iter()
        .map(|block| block.into_iter().map(|packet| (packet, true)).collect())
        .collect();
    let mut turn = 0;
    let call = Box::new(move || {
        turn = (turn + 1) % blocks.len();
        blocks[turn][..LOST].iter_mut().for_each(|(_, is_there)| *is_there = false);
        let done = codec.reconstruct_data(&mut blocks[turn]);
        debug_assert!(done.is_ok());
    });
    let name = format!("reed-solomon-erasure decode-{LOST}-of-{BLOCK}");
    tasks.push(Task { name, octets, limit: ours[1].map(|ours| (ours, 1.0)), call });
    Ok(())
}
