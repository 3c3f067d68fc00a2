//! The resident memory of cores under the worst input. The bounds are those of the documentation.

mod s5066;
