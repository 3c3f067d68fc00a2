//! What users may set of HF-PEP, besides what they may set of [SLEP](crate::slep).

use std::time::Duration;

use super::config::Config;
use crate::parameter::{Kind, Parameter, Table};

/// What users may set of HF-PEP.
pub static PARAMETERS: Table<Config> = Table {
    name: "hfpep",
    parameters: &[
        Parameter::new(
            "first-data",
            Kind::Period { least: Duration::ZERO, most: Duration::from_secs(60) },
            "How long a new connection may be silent until its stream is opened without data; data \
             that comes before goes in the same transmission, which saves a turn there and back.",
            |it| it.first_data.into(),
            |it, to| it.first_data = to.period(),
        ),
        Parameter::new(
            "magic",
            Kind::Count { least: 0, most: 255, unit: "" },
            "The first octet of each stream, which is not published: both ends must have the same.",
            |it| it.magic.into(),
            |it, to| it.magic = to.count(),
        ),
    ],
    rules: &[],
};
