//! Animated pictures of any run: one self-contained HTML file, or a small SVG that loops.
//!
//! ```text
//!  World ──▶ Recorder ──▶ Recording ──▶ encode ──▶ html   canvas, time bar, details
//!   runs     looks every    │ nodes, routes,
//!            20 to 100 ms   │ frames, samples
//!                           └─────────────────▶ looping   a few seconds, for a page of text
//! ```

mod encode;
mod frames;
mod html;
mod layout;
mod looping;
mod recorder;
mod recording;
mod samples;
mod still;
#[cfg(test)]
mod tests;
mod ways;

pub use encode::encode;
pub use frames::{Frame, Frames, Kind};
pub use html::{USUAL_OCTETS, to_html};
pub use layout::layout;
pub use looping::to_looping_svg;
pub use recorder::{Cast, Limits, Recorder};
pub use recording::{Flow, Node, Radio, Recording, RouteChange, Wire};
pub use samples::{NodeSample, Sampler, Samples};
