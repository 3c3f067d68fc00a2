//! How stations share a frequency: who waits for how long, and who gets how much.

mod scene;
#[cfg(test)]
mod tests;
