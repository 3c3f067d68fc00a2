//! The lines that a gateway logs: whatever others send, they stay one line each, and so many a minute.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use base::time::Time;
use gateway::lines::{Admitted, Allowance};
use settings::plain::shown;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines of one place in the source in a minute at most: far more than a gateway that is well needs.
///
/// Services limit the lines that neighbours provoke more strictly. This limit covers unforeseen lines.
const LINES: u32 = 600;
/// Stands behind the last line that a period has room for.
const FULL: &str = " (further lines like this one are left out for up to a minute)";

/// Formats lines in the usual way, one line each and without control characters.
///
/// Lines of the levels `debug` and `trace` have no bound: whoever asks for them wants all.
#[derive(Debug)]
pub(crate) struct Lines {
    usual: Format<Full>,
    places: Mutex<Places>,
}

/// How many lines each place in the source may still write.
#[derive(Debug)]
struct Places {
    began: Instant,
    allowances: HashMap<Identifier, Allowance>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            usual: Format::default().with_target(false).with_ansi(false),
            places: Mutex::new(Places { began: Instant::now(), allowances: HashMap::new() }),
        }
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

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(Admitted { left_out, is_last }) = self.admit(event) else { return Ok(()) };
        let mut line = String::new();
        self.usual.format_event(context, Writer::new(&mut line), event)?;
        out.write_str(&shown(line.trim_end_matches('\n')))?;
        if left_out > 0 {
            write!(out, " more_left_out={left_out}")?;
        }
        writeln!(out, "{}", if is_last { FULL } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use tracing::{debug, info, warn};
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

    /// What is logged meanwhile.
    fn logged(what: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = fmt::layer().with_writer(move || writer.clone()).event_format(Lines::new());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), what);
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
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
