//! Fuzzes the readers of scenarios, configurations and quantities: each text is read, or refused with a reason.

use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::{self, FromStr};
use std::time::Duration;

use base::quantity::{BitRate, Probability, Span};
use sim::Prefix;
use sim::channel::Loss;

/// Reads the input as a scenario.
pub(crate) fn scenario(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Err(complaint) = lab::scenario::Plan::parse(Path::new("x.toml"), text.to_owned()) {
        expect_line(&complaint, text.len());
    }
}

/// Reads the input as the gateway's configuration.
pub(crate) fn configuration(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match gateway::Config::parse("x.toml", text) {
        Err(invalid) => invalid.all().iter().for_each(|it| expect_line(it, text.len())),
        Ok(config) => {
            let has_others = config.tunnel.is_some()
                || config.ip_client.is_some()
                || config.hf_pep.is_some()
                || config.s5066.is_some()
                || config.sar.is_some()
                || config.routing.is_some()
                || !config.gre.is_empty();
            assert!(has_others || config.hbh.is_some());
            if let Some(hbh) = &config.hbh {
                assert!(!hbh.interfaces.is_empty());
                assert!(hbh.core.clear <= hbh.core.congestion);
                assert!(hbh.core.congestion <= hbh.core.queue);
                assert!(hbh.hello.hold >= hbh.hello.interval * 2);
            }
        }
    }
}

/// Reads the input as a quantity of each kind, and reads the displayed quantity again.
pub(crate) fn quantity(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    again::<BitRate>(text, |read, again| read == again);
    again::<Prefix>(text, |read, again| read == again);
    again::<Probability>(text, |read, again| is_near(*read, *again));
    again::<Loss>(text, |read, again| match (read, again) {
        (Loss::GilbertElliott(read), Loss::GilbertElliott(again)) => {
            is_near(read.p, again.p)
                && is_near(read.r, again.r)
                && is_near(read.h, again.h)
                && is_near(read.k, again.k)
        }
        // A loss too small to display reads as no loss.
        (Loss::Random(read), Loss::None) => is_near(*read, Probability::ZERO),
        (Loss::Random(read), Loss::Random(again)) => is_near(*read, *again),
        (read, again) => read == again,
    });
    // A time span above fifty days has too many nanoseconds for the number the reader uses.
    let slack = |span: Duration| span.max(Duration::from_hours(1)).div_f64(1e12);
    again::<Span>(text, |read, again| read.0.abs_diff(again.0) <= slack(read.0));
}

/// A percentage is displayed with ten digits.
fn is_near(read: Probability, again: Probability) -> bool {
    (read.get() - again.get()).abs() < 1e-11
}

fn again<T: Debug + Display + FromStr<Err: Debug + Display>>(
    text: &str,
    is_equal: impl FnOnce(&T, &T) -> bool,
) {
    match text.parse::<T>() {
        Err(bad) => assert!(!bad.to_string().is_empty()),
        Ok(read) => {
            let shown = read.to_string();
            let again = shown.parse().unwrap_or_else(|bad| panic!("{shown}: {bad}"));
            assert!(is_equal(&read, &again), "{text}: {read:?}, {again:?}");
        }
    }
}

/// An error message is one line, and about as long as the text it refuses.
fn expect_line(complaint: &impl ToString, len: usize) {
    let said = complaint.to_string();
    assert!(said.starts_with("x.toml"), "{said}");
    assert!(!said.contains('\n'), "{said}");
    assert!(said.len() <= 2_000 + 8 * len, "{said}");
}
