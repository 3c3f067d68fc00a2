//! Formats the lines of a gateway's log. Whatever others send, an event stays one line, and lines are limited each
//! minute.
//!
//! ```text
//!  event ─▶ Line: level, message, fields ─┬─▶ text, JSON, or text with journald's levels ─▶ standard error output
//!                                         └─▶ the last ones, for `trackway status --events`
//! ```

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base::time::Time;
use gateway::events::Recent;
use gateway::lines::{Admitted, Allowance};
use serde_json::Value as Json;
use settings::plain::{shown, without_numbers};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The most lines of one place in the source in a minute: far more than a healthy gateway needs.
///
/// Services limit the lines that neighbours provoke more strictly. This limit covers unforeseen lines.
const LINES: u32 = 600;
/// Appended to the last line that a period has room for.
const FULL: &str = " (further lines like this one are left out for up to a minute)";
/// The fields with the number of lines that a place in the source left out before.
const LEFT_OUT: [&str; 2] = ["left_out", "suppressed"];

/// How lines look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// Time, level and words; without time and with journald's levels where the journal reads them.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

/// Formats lines, one line each and without control characters.
///
/// Lines of the levels `debug` and `trace` have no bound: users who choose these levels want everything.
#[derive(Debug)]
pub struct Lines {
    style: Style,
    recent: Recent,
    places: Mutex<Places>,
}

/// The format around the words of a line.
#[derive(Clone, Copy, Debug)]
enum Style {
    Text,
    Json,
    /// A level in front for the journal (sd-daemon(3)), which notes the time itself.
    Journal,
}

/// How many lines each place in the source may still write.
#[derive(Debug)]
struct Places {
    began: Instant,
    allowances: HashMap<Identifier, Allowance>,
}

/// The message and the fields of an event.
#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: Vec<(&'static str, Json)>,
    /// The number of similar lines left out before.
    left_out: u64,
}

impl Lines {
    /// Lines for the standard error output; `recent` keeps the last ones.
    pub fn new(format: Format, recent: Recent) -> Self {
        let style = match format {
            Format::Json => Style::Json,
            Format::Text if is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()) => {
                Style::Journal
            }
            Format::Text => Style::Text,
        };
        Self::with_style(style, recent)
    }

    fn with_style(style: Style, recent: Recent) -> Self {
        let places = Places { began: Instant::now(), allowances: HashMap::new() };
        Self { style, recent, places: Mutex::new(places) }
    }

    fn admit(&self, event: &Event<'_>) -> Option<Admitted> {
        if *event.metadata().level() > Level::INFO {
            return Some(Admitted { left_out: 0, is_last: false });
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Time::ZERO + places.began.elapsed();
        let place = places.allowances.entry(event.metadata().callsite());
        place.or_insert_with(|| Allowance::new(now, LINES)).admit(now)
    }
}

/// Whether the standard error output is the stream to the journal that this variable names: device and inode.
fn is_journal(named: Option<&str>) -> bool {
    let Some((device, inode)) = named.and_then(|it| it.split_once(':')) else { return false };
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|stream| device.parse() == Ok(stream.dev()) && inode.parse() == Ok(stream.ino()))
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(Admitted { left_out, is_last }) = self.admit(event) else { return Ok(()) };
        let mut line = Line::default();
        event.record(&mut line);
        line.left_out += left_out;
        let level = *event.metadata().level();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let words = shown(&line.words(is_last)).into_owned();
        if level <= Level::INFO {
            self.recent.push(name(level), &words);
        }
        match self.style {
            Style::Text => writeln!(out, "{time} {level:>5} {words}"),
            Style::Journal => writeln!(out, "<{}>{words}", priority(level)),
            Style::Json => writeln!(out, "{}", line.json(&time, level)),
        }
    }
}

impl Line {
    /// The line in words, such as `peer is up peer=b`.
    fn words(&self, is_last: bool) -> String {
        let mut words = self.message.clone();
        for (name, value) in &self.fields {
            let _ = match value {
                Json::String(text) if text.contains(char::is_whitespace) || text.is_empty() => {
                    write!(words, " {name}={text:?}")
                }
                Json::String(text) => write!(words, " {name}={text}"),
                other => write!(words, " {name}={other}"),
            };
        }
        match self.left_out {
            0 => {}
            1 => words += " (1 line like this one was left out before)",
            many => {
                let _ = write!(words, " ({many} lines like this one were left out before)");
            }
        }
        words + if is_last { FULL } else { "" }
    }

    /// Formats the line as a JSON object: time, level and message first.
    fn json(&self, time: &str, level: Level) -> String {
        let own = [
            ("time", Json::from(time.trim())),
            ("level", name(level).into()),
            ("message", self.message.as_str().into()),
        ];
        let fields = self.fields.iter().map(|(name, value)| (*name, value.clone()));
        let left_out = (self.left_out > 0).then(|| ("left_out", self.left_out.into()));
        let all = own.into_iter().chain(fields).chain(left_out);
        let all = all.map(|(name, value)| format!("{}:{value}", Json::from(name)));
        format!("{{{}}}", all.collect::<Vec<_>>().join(","))
    }

    fn put(&mut self, field: &Field, value: Json) {
        match field.name() {
            "message" => self.message = value.as_str().unwrap_or_default().to_owned(),
            name if LEFT_OUT.contains(&name) => self.left_out += value.as_u64().unwrap_or_default(),
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, without_numbers(value).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The level as syslog(3) counts.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use tracing::{debug, error, info, warn};
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Everything logged while `what` runs.
    fn logged_as(style: Style, recent: &Recent, what: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = Lines::with_style(style, recent.clone());
        let lines = fmt::layer().with_writer(move || writer.clone()).event_format(lines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), what);
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    fn logged(what: impl FnOnce()) -> String {
        logged_as(Style::Text, &Recent::default(), what)
    }

    fn some() {
        let count = |left_out: u64| warn!(peer = "b c", octets = 7, left_out, "path is down");
        count(0);
        count(3);
        error!(why = %"x\ny (os error 2)", "gone");
    }

    #[test]
    fn the_journal_gets_levels_and_others_get_times() {
        let journal = logged_as(Style::Journal, &Recent::default(), some);

        assert_eq!(
            journal,
            "<4>path is down peer=\"b c\" octets=7\n\
             <4>path is down peer=\"b c\" octets=7 (3 lines like this one were left out before)\n\
             <3>gone why=\"x\\ny\"\n"
        );
        let text = logged(some);
        let first = text.lines().next().unwrap();
        let (time, rest) = first.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{first}");
        assert_eq!(rest, " WARN path is down peer=\"b c\" octets=7");
    }

    #[test]
    fn as_json_each_line_is_an_object_that_says_the_same() {
        let printed = logged_as(Style::Json, &Recent::default(), some);

        let lines: Vec<Json> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |at: usize, name: &str| lines[at][name].clone();
        assert_eq!((of(0, "level"), of(2, "level")), ("warn".into(), "error".into()));
        assert_eq!((of(0, "message"), of(0, "peer")), ("path is down".into(), "b c".into()));
        assert_eq!((of(0, "octets"), of(2, "why")), (7.into(), "x\ny".into()));
        assert_eq!((of(0, "left_out"), of(1, "left_out")), (Json::Null, 3.into()));
    }

    #[test]
    fn the_last_lines_are_kept_for_who_asks_later() {
        let recent = Recent::default();

        logged_as(Style::Journal, &recent, || {
            (0..100).for_each(|number| info!(number, "line"));
            debug!("is for nobody later");
        });

        let kept: Vec<_> = recent.all().into_iter().map(|event| event.what).collect();
        assert_eq!((kept.len(), kept[0].as_str()), (64, "line number=36"));
        assert_eq!(kept[63], "line number=99");
    }

    #[test]
    fn only_the_stream_that_is_named_is_the_journal() {
        let own = std::fs::metadata("/proc/self/fd/2").unwrap();
        let named = |device, inode| is_journal(Some(&format!("{device}:{inode}")));

        assert!(named(own.dev(), own.ino()));
        assert!(!named(own.dev(), own.ino() + 1));
        assert!(!is_journal(None) && !is_journal(Some("x")));
    }

    #[test]
    fn a_line_of_the_log_stays_one_line_without_control_characters() {
        let hostile = "x\u{1b}]0;title\u{7}\n2026-11-26T00:00:00Z  INFO root logged in\r\u{9b}2J";

        let printed = logged(|| {
            warn!(name = %hostile, debugged = ?hostile, "said {hostile}");
            info!("another");
        });

        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert!(!printed.replace('\n', "").contains(char::is_control), "{printed:?}");
        assert!(printed.contains("WARN said x"), "{printed}");
    }

    #[test]
    fn one_place_in_the_source_writes_so_many_lines_a_minute_and_says_so() {
        let most = usize::try_from(LINES).unwrap();

        let printed = logged(|| {
            for number in 0..15_000 {
                info!(number, "peer has moved");
            }
            warn!("another place");
            (0..2 * most).for_each(|number| debug!(number, "asked for"));
        });

        let count = |what: &str| printed.lines().filter(|line| line.contains(what)).count();
        assert_eq!((count("peer has moved"), count(FULL)), (most, 1));
        assert_eq!((count("another place"), count("asked for")), (1, 2 * most));
    }
}
