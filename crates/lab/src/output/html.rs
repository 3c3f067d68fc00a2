//! The report: one HTML file that needs nothing else, for paper, desk and phone.

use std::fmt::Write as _;

use crate::campaign::Tested;
use crate::claim::{Table, Verdict};
use crate::figure;
use crate::figure::timeline::timeline_to_svg;

const STYLE: &str = include_str!("report.css");

/// The report about these claims; `provenance` says how it was made.
#[must_use]
pub fn to_html(tested: &[Tested], provenance: &str) -> String {
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Trackway laboratory report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <main>\n<h1>Trackway laboratory report</h1>\n<p class=\"faint\">{}</p>\n",
        escape(provenance),
    );
    summary(&mut html, tested);
    for one in tested {
        section(&mut html, one);
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// All claims at a glance, a row of two lines each: the verdict, the claim with a link to its details, and our figure.
/// What has no room there stands in the details.
fn summary(html: &mut String, tested: &[Tested]) {
    html.push_str("<h2>Claims</h2>\n<p class=\"faint\">");
    for (verdict, meaning) in MEANINGS {
        let _ = write!(html, "{} {meaning}. ", badge(verdict));
    }
    html.push_str("</p>\n<table class=\"claims\">\n<thead><tr>");
    for head in ["Verdict", "Claim", "What we measured"] {
        let _ = write!(html, "<th>{head}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for Tested { claim, finding } in tested {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td data-label=\"Claim\"><div><a href=\"#{id}\">{id}</a>: {}</div></td>\
             <td data-label=\"What we measured\"><div>{}</div></td></tr>",
            badge(finding.verdict),
            sentence(claim.text),
            sentence(&finding.measured),
            id = claim.id,
        );
    }
    html.push_str("</tbody>\n</table>\n");
}

/// What each verdict means, for a reader who meets the report first.
const MEANINGS: [(Verdict, &str); 4] = [
    (Verdict::Reproduced, "we measure what is claimed"),
    (Verdict::Beaten, "our measurement is better than the claim"),
    (Verdict::Differs, "we measure something else"),
    (Verdict::Undecided, "the runs are too few to tell"),
];

/// One claim in full.
fn section(html: &mut String, Tested { claim, finding }: &Tested) {
    let _ = write!(
        html,
        "<section id=\"{id}\">\n<h2>{id} {}</h2>\n<p><strong>Claim.</strong> {} \
         <span class=\"faint\">({})</span></p>\n<p><strong>Measured.</strong> {}</p>\n\
         <p><strong>Why.</strong> {}</p>\n",
        badge(finding.verdict),
        sentence(claim.text),
        escape(claim.source),
        sentence(&finding.measured),
        sentence(&finding.reason),
        id = claim.id,
    );
    for drawing in &finding.figures {
        let _ = writeln!(html, "<figure>{}</figure>", figure::to_svg(drawing));
    }
    for exchange in &finding.exchanges {
        let _ = writeln!(html, "<figure>{}</figure>", timeline_to_svg(&exchange.timeline()));
    }
    for one in &finding.tables {
        table(html, one);
    }
    if !finding.assumptions.is_empty() {
        html.push_str("<h3>Where the paper is silent</h3>\n<ul>\n");
        for assumption in &finding.assumptions {
            let _ = writeln!(html, "<li>{}</li>", escape(assumption));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</section>\n");
}

fn table(html: &mut String, table: &Table) {
    let _ = write!(
        html,
        "<h3>{}</h3>\n<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr>",
        escape(&table.title)
    );
    for head in &table.head {
        let _ = write!(html, "<th>{}</th>", escape(head));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn badge(verdict: Verdict) -> String {
    format!("<span class=\"badge {verdict}\">{verdict}</span>")
}

/// The text with a capital and a full stop, escaped.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    let end = if text.ends_with(['.', ':']) { "" } else { "." };
    escape(&format!("{first}{}{end}", rest.as_str()))
}

/// Safe as HTML; numbers stay on one line with their interval and unit.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace(" ± ", "\u{a0}±\u{a0}")
        .replace(" %", "\u{a0}%")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::campaign::{Plan, run, tests::example};
    use crate::progress::Progress;

    #[test]
    fn a_report_needs_nothing_but_itself() {
        let plan = Plan { runs: 3, family: 0, jobs: NonZeroUsize::MIN, only: &[] };
        let tested = run(&[example("a")], plan, |_| Progress::silent());

        let html = to_html(&tested, "3 runs");

        for resource in [" src=", "<link", "@import", "url("] {
            assert!(!html.contains(resource), "{resource} asks for something else");
        }
        assert!(html.contains("A random number is below one."));
        assert!(html.contains("a seed &lt;leaves&gt; nothing open"), "not escaped");
        assert!(html.contains("class=\"badge "));
        let opening = html.split("<section").next().unwrap();
        assert_eq!(opening.matches("<tr>").count(), 2, "a head, and a line for the claim");
        assert!(
            opening.contains("<a href=\"#a\">a</a>: A random number is below one."),
            "{opening}"
        );
        for (verdict, meaning) in MEANINGS {
            assert!(opening.contains(&format!("{} {meaning}", badge(verdict))), "{opening}");
        }
    }
}
