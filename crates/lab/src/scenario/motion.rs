//! The motion of a scenario's nodes: read, written, and made into a motion.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::parameter::{Kind, Value, Written};
use base::quantity::Span;
use base::rng::Rng;
use base::time::Time;
use settings::{Complaint, Entry, Section};
use sim::mobility::trace::{MAX_COORDINATE, MAX_OCTETS, MAX_SPEED};
use sim::mobility::waypoint::{PARAMETERS, Waypoint};
use sim::mobility::{self, Import, Motion, Position, Trace};

/// How a node moves.
#[derive(Clone, Debug, PartialEq)]
pub enum Movement {
    /// The node goes to one place after another.
    Legs {
        /// Where it is at first.
        start: Position,
        /// The legs of the motion, in order of time.
        legs: Vec<Leg>,
    },
    /// It wanders about, each seed in another way.
    Random(Waypoint),
    /// It stays where it is.
    Rest(Position),
    /// As a file says.
    Trace {
        /// The file.
        file: PathBuf,
        /// The node's number in the file.
        node: u32,
        /// What it says of that.
        motion: Motion,
    },
}

/// A node sets out. Its earlier leg ends there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// When.
    pub at: Time,
    /// Where to.
    pub to: Position,
    /// Metres a second.
    pub speed: f64,
}

const MODELS: [(&str, ()); 1] = [("random-waypoint", ())];
pub const COORDINATE: Kind = Kind::Number { least: -MAX_COORDINATE, most: MAX_COORDINATE };
pub const SPEED: Kind = Kind::Number { least: 0.001, most: MAX_SPEED };
/// A node may set out this often.
const MAX_LEGS: usize = 100_000;

/// Files of motion, each read once.
#[derive(Debug)]
pub(crate) struct Traces<'a> {
    /// Where names of files begin.
    folder: &'a Path,
    /// How long runs are.
    duration: Duration,
    read: BTreeMap<PathBuf, Import>,
}

impl<'a> Traces<'a> {
    pub(crate) fn new(folder: &'a Path, duration: Duration) -> Self {
        Self { folder, duration, read: BTreeMap::new() }
    }

    /// Reads how a node moves, if its table says so.
    pub(crate) fn movement(
        &mut self,
        section: &Section<'_>,
    ) -> Result<Option<Movement>, Complaint> {
        let position = section.get("position")?.map(|it| place(&it)).transpose()?;
        let Some(motion) = section.get("motion")? else {
            return Ok(position.map(Movement::Rest));
        };
        if let Written::List(_) = motion.written() {
            let Some(start) = position else {
                return Err(section.complain("position is missing: where the motion begins"));
            };
            return Ok(Some(Movement::Legs { start, legs: legs(&motion)? }));
        }
        let model = motion.section()?;
        if position.is_some() {
            return Err(motion.complain("such a motion says itself where it begins: no position"));
        }
        self.model(&model, 0).map(Some)
    }

    /// Reads a motion given by a model or a trace. A trace has several nodes: the section names one by its number,
    /// otherwise the node at the station's place in ascending order of numbers counts.
    pub(crate) fn model(
        &mut self,
        section: &Section<'_>,
        place: usize,
    ) -> Result<Movement, Complaint> {
        let Some(file) = section.get("trace")? else {
            section.needed("model")?.word(&MODELS)?;
            return self.random(section);
        };
        let asked = section.get("node")?;
        let path = self.folder.join(file.text()?);
        let trace = self.trace(&path).map_err(|what| file.complain(what))?;
        let node = match &asked {
            Some(node) => node.count(0..=u32::MAX.into())?,
            None => *trace.keys().nth(place).ok_or_else(|| {
                file.complain(format!(
                    "this is for station {}, and the file moves the nodes {} only; `node` chooses \
                     one of them",
                    place + 1,
                    spans(trace.keys().copied())
                ))
            })?,
        };
        let Some(motion) = trace.get(&node) else {
            let known = spans(trace.keys().copied());
            let what = format!("the file has no node {node}; its nodes are {known}");
            return Err(asked.unwrap_or(file).complain(what));
        };
        Ok(Movement::Trace { motion: motion.clone(), file: path, node })
    }

    /// What of the files was passed over, a line for each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let passed = self.read.iter().filter(|(_, import)| import.passed_over > 0);
        let note = |(path, import): (&PathBuf, &Import)| {
            let (path, count) = (path.display(), import.passed_over);
            format!("{path}: {count} orders that concern no node's motion were passed over")
        };
        passed.map(note).collect()
    }

    fn random(&self, section: &Section<'_>) -> Result<Movement, Complaint> {
        let mut model = Waypoint::default();
        if let Some(area) = section.get("area")? {
            let Position { x, y } = place(&area)?;
            model.area = [x, y];
        }
        if let Some(corner) = section.get("corner")? {
            model.corner = place(&corner)?;
        }
        section.apply(&PARAMETERS, &mut model)?;
        model.check(self.duration).map_err(|why| section.complain(why))?;
        Ok(Movement::Random(model))
    }

    fn trace(&mut self, path: &Path) -> Result<&Trace, String> {
        if !self.read.contains_key(path) {
            let import = read_trace(path).map_err(|why| format!("{}: {why}", path.display()))?;
            self.read.insert(path.to_owned(), import);
        }
        Ok(&self.read[path].trace)
    }
}

/// A movement file of ns-2, or a trace of BonnMotion.
fn read_trace(path: &Path) -> Result<Import, String> {
    let unreadable = |why| format!("cannot be read: {why}");
    // What is no file, such as a terminal, may never end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is no file".to_owned());
    }
    let most = u64::try_from(MAX_OCTETS).unwrap_or(u64::MAX).saturating_add(1);
    let mut octets = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(most).read_to_end(&mut octets).map_err(unreadable)?;
    mobility::read(&octets).map_err(|why| why.to_string())
}

/// Formats sorted numbers, with consecutive numbers joined: `1 to 3, 7`; only the first few.
fn spans(numbers: impl Iterator<Item = u32>) -> String {
    const MOST: usize = 8;
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let span = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    let shown: Vec<String> = spans.iter().take(MOST).map(span).collect();
    let dots = if spans.len() > MOST { ", ..." } else { "" };
    format!("{}{dots}", shown.join(", "))
}

fn legs(list: &Entry<'_>) -> Result<Vec<Leg>, Complaint> {
    let list = list.list()?;
    let mut legs: Vec<Leg> = Vec::new();
    for entry in &list {
        let section = entry.section()?;
        let (at, to) = (section.needed("at")?, section.needed("to")?);
        let Span(start) = at.quantity()?;
        let start = Time::ZERO + start;
        if legs.last().is_some_and(|last| last.at >= start) {
            return Err(at.complain("a node sets out in order of time"));
        }
        if legs.len() == MAX_LEGS {
            return Err(entry.complain(format!("a node sets out at most {MAX_LEGS} times")));
        }
        let speed = section.needed("speed")?.read(&SPEED)?.number();
        legs.push(Leg { at: start, to: place(&to)?, speed });
    }
    Ok(legs)
}

/// Two coordinates in metres.
fn place(entry: &Entry<'_>) -> Result<Position, Complaint> {
    let [x, y] = entry.pair()?;
    Ok(Position::new(x.read(&COORDINATE)?.number(), y.read(&COORDINATE)?.number()))
}

impl Movement {
    /// The node's motion over this duration, with its own stream of random numbers.
    ///
    /// # Errors
    /// When the model cannot make such a motion.
    pub fn motion(&self, rng: &mut Rng, duration: Duration) -> anyhow::Result<Motion> {
        Ok(match self {
            Self::Legs { start, legs } => {
                let mut motion = Motion::at_rest(*start);
                for Leg { at, to, speed } in legs {
                    let way = motion.position(*at).distance_squared(*to).sqrt();
                    motion.go(*at, *at + Duration::try_from_secs_f64(way / speed)?, *to)?;
                }
                motion
            }
            Self::Random(model) => model.motion(rng, duration)?,
            Self::Rest(place) => Motion::at_rest(*place),
            Self::Trace { motion, .. } => motion.clone(),
        })
    }

    /// The keys that say it in the table of a node.
    pub(crate) fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pair = |place: &Position| format!("[{}, {}]", float(place.x), float(place.y));
        match self {
            Self::Legs { start, legs } => {
                writeln!(f, "position = {}\nmotion = [", pair(start))?;
                for Leg { at, to, speed } in legs {
                    let (at, speed) = (Value::from(at.since(Time::ZERO)), float(*speed));
                    writeln!(f, "    {{ at = {at}, to = {}, speed = {speed} }},", pair(to))?;
                }
                writeln!(f, "]")
            }
            Self::Random(model) => {
                let usual = Waypoint::default();
                let area = Position::new(model.area[0], model.area[1]);
                write!(f, "motion = {{ model = \"random-waypoint\", area = {}", pair(&area))?;
                if model.corner != usual.corner {
                    write!(f, ", corner = {}", pair(&model.corner))?;
                }
                for (name, value) in PARAMETERS.differences(&usual, model) {
                    write!(f, ", {name} = {value}")?;
                }
                writeln!(f, " }}")
            }
            Self::Rest(place) => writeln!(f, "position = {}", pair(place)),
            Self::Trace { file, node, .. } => {
                let file = file.display().to_string();
                writeln!(f, "motion = {{ trace = {file:?}, node = {node} }}")
            }
        }
    }
}

/// Formats a number for TOML.
fn float(number: f64) -> String {
    format!("{number:?}")
}
