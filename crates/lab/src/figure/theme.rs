//! Colours, sizes and markers, for all figures alike.

use super::Ink;

pub const WIDTH: f64 = 760.0;
pub const HEIGHT: f64 = 480.0;
/// Between the edge of the picture and everything else.
pub const MARGIN: f64 = 20.0;
/// Room for the tick labels of the y axis.
pub const LEFT: f64 = 62.0;
pub const RIGHT: f64 = 24.0;

pub const TITLE_SIZE: f64 = 18.0;
pub const TEXT_SIZE: f64 = 13.0;
pub const NOTE_SIZE: f64 = 11.5;
/// The height of a line of text.
pub const LEADING: f64 = 1.4;

pub const BACKGROUND: &str = "#ffffff";
pub const TEXT: &str = "#1c2430";
pub const FAINT_TEXT: &str = "#5a6472";
pub const GRID: &str = "#e3e7ec";
pub const FRAME: &str = "#8a94a2";
pub const FONT: &str = "DejaVu Sans, Verdana, Segoe UI, Roboto, Helvetica, Arial, sans-serif";

/// What marks a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marker {
    Circle,
    Diamond,
    Nothing,
    Square,
    Triangle,
    TriangleDown,
}

/// How one series is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub colour: &'static str,
    pub marker: Marker,
    pub dashes: Option<&'static str>,
    pub width: f64,
}

/// The palette of Okabe and Ito, which colour-blind people can tell apart.
pub fn look(ink: Ink) -> Look {
    let solid = |colour, marker| Look { colour, marker, dashes: None, width: 2.2 };
    match ink {
        Ink::Default => Look { width: 2.8, ..solid("#0072b2", Marker::Circle) },
        Ink::Genie => {
            Look { colour: "#3b4450", marker: Marker::Nothing, dashes: Some("9 3 2 3"), width: 1.8 }
        }
        Ink::Goal => {
            Look { colour: "#009e73", marker: Marker::Nothing, dashes: Some("2 4"), width: 2.2 }
        }
        Ink::Limit => {
            Look { colour: "#3b4450", marker: Marker::Nothing, dashes: Some("7 5"), width: 1.8 }
        }
        Ink::Other(index) => {
            let (colour, marker) = OTHERS[index % OTHERS.len()];
            solid(colour, marker)
        }
        Ink::Paper => solid("#e69f00", Marker::Square),
        Ink::Trace(index) => {
            let colour = TRACES[index % TRACES.len()];
            Look { colour, marker: Marker::Nothing, dashes: None, width: 1.5 }
        }
        Ink::Tcp => solid("#d55e00", Marker::Triangle),
    }
}

const TRACES: [&str; 6] = ["#0072b2", "#e69f00", "#d55e00", "#009e73", "#56b4e9", "#cc79a7"];

const OTHERS: [(&str, Marker); 5] = [
    ("#009e73", Marker::Diamond),
    ("#cc79a7", Marker::TriangleDown),
    ("#56b4e9", Marker::Square),
    ("#8c6d1f", Marker::Circle),
    ("#666f7a", Marker::Triangle),
];
