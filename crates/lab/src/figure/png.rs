//! An SVG as pixels, with a font of our own: a server may have none.

use std::sync::Arc;

use anyhow::Context as _;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels for each unit of the drawing: sharp on paper and on dense screens.
const PIXELS_PER_UNIT: f32 = 2.0;

/// The picture that `svg` draws, as a PNG file.
///
/// # Errors
/// When `svg` is no SVG or too large.
pub fn to_png(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };

    let tree = Tree::from_str(svg, &options).context("the figure is no SVG")?;
    let size =
        tree.size().to_int_size().scale_by(PIXELS_PER_UNIT).context("the figure is too large")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("the figure is too large")?;
    let scale = Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}
