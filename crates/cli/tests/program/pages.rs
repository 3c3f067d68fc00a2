//! Checks the documentation pages: every link has a target, and every test named in a page exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the project")
}

/// All files below a folder whose names end so, but built ones.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let is_ours =
                path.file_name().is_some_and(|name| name != "target" && name != "trackway-demo");
            if is_ours && !path.join(".git").exists() {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// The pages: what lies at the root, and the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = files(&root().join("docs"), "md");
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        pages.push(root().join(name));
    }
    pages
}

/// What `packaging/book` puts into the book, beside what it makes.
fn parts_of_the_book() -> Vec<PathBuf> {
    let script = fs::read_to_string(root().join("packaging/book")).expect("the script");
    let (_, words) = script.split_once("\ncp -r ").expect("the script copies pages");
    let (words, _) = words.split_once(" \"$pages\"\n").expect("into the folder of pages");
    words.split(' ').map(|word| root().join(word)).collect()
}

/// Where the links of a page lead, without those that leave the project.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(link, _)| link)
        .filter(|link| !link.contains("://") && !link.contains(char::is_whitespace))
}

/// The names by which headings of a page are called in links.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    lines.map(name).collect()
}

#[test]
fn each_chapter_about_hf_says_first_that_node_addresses_are_not_authenticated() {
    let chapters = [
        "guide/hf.md",
        "guide/hfpep.md",
        "protocols/ipclient.md",
        "protocols/s5066.md",
        "protocols/slep.md",
    ];
    for chapter in chapters {
        let text = fs::read_to_string(root().join("docs").join(chapter)).expect("a chapter");
        let before_sections = text.split("\n## ").next().unwrap_or_default();
        let says = before_sections.contains("**Node addresses are not authenticated on HF");
        assert!(says, "{chapter} does not say it before its first section");
    }
}

/// A book has no folders to look into, and nothing of the project besides its parts.
#[test]
fn links_lead_to_files_of_the_book_and_headings_that_exist() {
    let book = parts_of_the_book();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() {
                page.clone()
            } else {
                page.parent().expect("a folder").join(file)
            };
            let file = fs::canonicalize(&to).unwrap_or_default();
            let is_there = file.is_file()
                && book.iter().any(|part| file.starts_with(part))
                && (heading.is_empty()
                    || headings(&fs::read_to_string(&to).unwrap_or_default()).contains(heading));
            if !is_there {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary");
    let mut listed: Vec<PathBuf> =
        links(&summary).map(|link| fs::canonicalize(docs.join(link)).expect("a page")).collect();
    listed.sort();
    let mut pages = pages();
    pages.retain(|page| page.file_name().is_some_and(|name| name != "SUMMARY.md"));
    pages.sort();

    assert_eq!(listed, pages, "docs/SUMMARY.md lists each page once, for packaging/book");
}

#[test]
fn the_page_of_examples_links_to_each_of_them() {
    let page = root().join("docs/guide/examples.md");
    let text = fs::read_to_string(&page).expect("the page");
    let folder = page.parent().expect("a folder");
    let linked: BTreeSet<PathBuf> =
        links(&text).filter_map(|link| fs::canonicalize(folder.join(link)).ok()).collect();

    let missing: Vec<_> = files(&root().join("examples"), "toml")
        .into_iter()
        .filter(|example| !linked.contains(example))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn pages_name_the_oldest_rust_that_builds_it() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let (_, least) = manifest.split_once("\nrust-version = \"").expect("a version");
    let (least, _) = least.split_once('"').expect("quotes");

    for page in ["README.md", "docs/guide/install.md"] {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        let named =
            text.split("Rust ").skip(1).filter(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        let named: BTreeSet<&str> =
            named.filter_map(|it| it.split([' ', ',', ')']).next()).collect();
        assert_eq!(named, BTreeSet::from([least]), "{page}");
    }
}

/// Tables of nftables that are called `trackway NAME`.
const TABLES: [&str; 2] = ["hbh", "tunnel"];

/// Examples of commands in the pages: the first word behind `trackway` is a command, and its options are the command's
/// or those of a command below it.
#[test]
fn commands_and_options_that_pages_name_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_trackway")).arg("help").output().expect("help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    // Options stand there too.
    let commands: BTreeSet<&str> = lines.filter(|word| !word.starts_with('-')).collect();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let ways = ["`trackway ", "    trackway ", "sudo trackway "];
        for (at, _) in ways.iter().flat_map(|way| text.match_indices(way)) {
            let rest = text[at..].trim_start_matches(['`', ' ']).trim_start_matches("sudo ");
            let word =
                rest.split_whitespace().nth(1).unwrap_or_default().trim_end_matches(['`', ',']);
            let is_word = word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
            let is_named = commands.contains(word) || TABLES.contains(&word);
            if is_word && !word.is_empty() && !word.starts_with('-') && !is_named {
                wrong.push(format!("{}: trackway {word}", page.display()));
            }
            let told = rest.split(['`', '#', '\n']).next().unwrap_or_default();
            // Of the program itself.
            let told = told.strip_prefix("trackway --version").unwrap_or(told);
            for option in told.split_whitespace().filter(|it| it.starts_with("--")) {
                let option = option.split(['=', ',', ')', '`']).next().unwrap_or_default();
                let knows =
                    |text: &String| text.split([' ', '\n', ',', '=']).any(|it| it == option);
                if !MANUAL.iter().any(|(name, text)| is_of(name, word) && knows(text)) {
                    wrong.push(format!("{}: trackway {word} {option}", page.display()));
                }
            }
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let listed = |command: &&&str| {
        readme.contains(&format!("`{command}")) || readme.contains(&format!("trackway {command}"))
    };
    let unlisted: Vec<_> = commands
        .iter()
        .filter(|it| !listed(it) && ![&"keep-files", &"help"].contains(it))
        .collect();

    assert!(commands.contains("run") && commands.contains("status"), "{commands:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unlisted.is_empty(), "the README does not name {unlisted:?}");
    assert!(readme.lines().count() < 150, "the README is longer than a page or two");
}

/// The manual pages by their names, such as `init-tunnel`, without marks of their language.
static MANUAL: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("trackway-manual-{}", std::process::id()));
    let mut program = Command::new(env!("CARGO_BIN_EXE_trackway"));
    let made = program.args(["man", "--out"]).arg(&folder).output().expect("the pages");
    assert!(made.status.success(), "{made:?}");
    let pages = files(&folder, "1").into_iter().map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a page").replace("\\-", "-");
        let plain = ["\\fB", "\\fI", "\\fR", "[", "]"]
            .iter()
            .fold(text, |text, mark| text.replace(mark, " "));
        (name.trim_start_matches("trackway-").to_owned(), plain)
    });
    let pages = pages.collect();
    fs::remove_dir_all(folder).expect("our folder");
    pages
});

/// Whether a manual page tells of a command, or of one below it.
fn is_of(page: &str, command: &str) -> bool {
    page.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// What the README says can be written behind `bench` and `init` is what there is.
#[test]
fn the_readme_names_all_benchmarks_and_all_kinds_of_configurations() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    for command in ["bench", "init"] {
        let row = readme.lines().find(|line| line.starts_with(&format!("| `trackway {command} ")));
        let named = row.expect("a row").split('`').skip(3).step_by(2).map(str::to_owned);
        let below =
            MANUAL.iter().filter_map(|(name, _)| name.strip_prefix(command)?.strip_prefix('-'));

        let named: BTreeSet<String> = named.collect();
        assert_eq!(named, below.map(str::to_owned).collect(), "{command}");
    }
}

/// The groups of experiments in the page of the laboratory.
#[test]
fn the_page_of_the_laboratory_names_all_groups() {
    let list = Command::new(env!("CARGO_BIN_EXE_trackway")).args(["lab", "list"]).output();
    let list = String::from_utf8(list.expect("a list").stdout).expect("text");
    let groups: BTreeSet<&str> =
        list.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    let page = fs::read_to_string(root().join("docs/guide/lab.md")).expect("the page");
    let table = page.lines().skip_while(|line| !line.starts_with("| group ")).skip(2);
    let named = table.map_while(|line| line.strip_prefix("| `")?.split('`').next());

    assert_eq!(named.collect::<BTreeSet<_>>(), groups);
}

/// The names of all keys of files of a kind.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(words) => {
            if let Some(Value::Object(properties)) = words.get("properties") {
                found.extend(properties.keys().cloned());
            }
            words.values().for_each(|inner| keys(inner, found));
        }
        Value::Array(all) => all.iter().for_each(|inner| keys(inner, found)),
        _ => {}
    }
}

/// Each key of a configuration and of a scenario stands in the guide, and each table of keys there has only such.
#[test]
fn the_keys_in_the_guide_are_those_that_can_be_set() {
    let mut known = BTreeSet::new();
    for kind in ["gateway", "scenario"] {
        let schema = Command::new(env!("CARGO_BIN_EXE_trackway")).args(["schema", kind]).output();
        let schema = serde_json::from_slice(&schema.expect("a schema").stdout).expect("JSON");
        keys(&schema, &mut known);
    }
    let (mut told, mut wrong) = (BTreeSet::new(), Vec::new());
    for page in files(&root().join("docs"), "md") {
        let text = fs::read_to_string(&page).expect("a page");
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let words = |text: &str| text.split(|c| !is_part(c)).map(str::to_owned).collect::<Vec<_>>();
        told.extend(text.split('`').skip(1).step_by(2).flat_map(words));
        let mut is_of_keys = None;
        for line in text.lines() {
            let Some(cell) = line.strip_prefix('|').and_then(|row| row.split('|').next()) else {
                is_of_keys = None;
                continue;
            };
            if *is_of_keys.get_or_insert(cell.contains(" key ") && !cell.contains("gateway")) {
                for key in cell.split('`').skip(1).step_by(2).filter(|it| !it.contains("NAME")) {
                    let key = key.split(' ').next().unwrap_or_default();
                    let last = key.trim_matches(['[', ']']).rsplit('.').next();
                    if !last.is_some_and(|it| known.contains(it)) {
                        wrong.push(format!("{}: {key}", page.display()));
                    }
                }
            }
        }
    }

    let untold: Vec<_> = known.difference(&told).collect();
    assert!(known.len() > 300, "{known:?}");
    assert!(wrong.is_empty() && untold.is_empty(), "no keys: {wrong:?}; not in docs: {untold:?}");
}

/// Words with underscores in the pages that are no names of ours: alerts of TLS, modules and calls of the kernel.
const FOREIGN: [&str; 16] = [
    "access_denied",
    "bad_certificate",
    "certificate_required",
    "close_notify",
    "decode_error",
    "handshake_failure",
    "io_uring",
    "nft_ct",
    "nft_log",
    "no_application_protocol",
    "no_new_privs",
    "protocol_version",
    "record_overflow",
    "unknown_ca",
    "unrecognized_name",
    "unsupported_certificate",
];

/// Counters, fields of JSON, tests and settings of the kernel in the pages: each is a name in the code, perhaps behind
/// a prefix of its service, and with what a group of counters adds.
#[test]
fn names_with_underscores_in_the_pages_are_names_in_the_code() {
    let sources = sources();
    let code = || {
        let lines = sources.iter().flat_map(|text| text.lines());
        lines.map(str::trim).filter(|line| !line.starts_with("//"))
    };
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names: BTreeSet<String> =
        code().flat_map(|line| line.split(|c| !of_name(c))).map(str::to_owned).collect();
    // A counter that code chooses at run time is a variant.
    let variants = code().filter_map(|line| line.split_once(": counter(").map(|(name, _)| name));
    let variants: Vec<String> = variants.map(snake).collect();
    names.extend(variants);
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let prefixes: BTreeSet<String> = code()
        .flat_map(|line| line.split("entries(").skip(1).filter_map(quoted))
        .chain(["rule_", "tunnel_", "sis_"].map(str::to_owned))
        .filter(|prefix| !prefix.is_empty())
        .collect();
    let affixes: BTreeSet<(String, String)> = code()
        .filter(|line| line.contains(": struct ") && line.contains("(\""))
        .filter_map(|line| Some((quoted(line)?, line.split('"').nth(3)?.to_owned())))
        .collect();
    let is_name = |word: &str| {
        let inner = |(before, after): &(String, String)| {
            word.strip_prefix(before.as_str())?.strip_suffix(after.as_str())
        };
        names.contains(word)
            // The heading of their table has the prefix.
            || names.contains(&format!("udp_{word}"))
            || affixes.iter().filter_map(inner).any(|it| names.contains(it))
    };
    let mut wrong = BTreeSet::new();
    for page in pages().iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(page).expect("a page");
        for word in text.split('`').skip(1).step_by(2) {
            let is_one =
                word.contains('_') && word.chars().all(of_name) && word == word.to_lowercase();
            let of_metrics = word.strip_prefix("trackway_").unwrap_or(word);
            let mut rests = prefixes.iter().filter_map(|it| of_metrics.strip_prefix(it.as_str()));
            if is_one && !FOREIGN.contains(&word) && !is_name(of_metrics) && !rests.any(is_name) {
                wrong.insert(format!("{}: {word}", page.display()));
            }
        }
    }

    assert!(names.len() > 1000 && prefixes.len() > 10 && affixes.len() > 3, "{prefixes:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// All sources but this one.
fn sources() -> Vec<String> {
    files(&root().join("crates"), "rs")
        .iter()
        .filter(|path| !path.ends_with(file!().rsplit('/').next().expect("a name")))
        .map(|path| fs::read_to_string(path).expect("a source"))
        .collect()
}

/// Lines of the log and of refusals, by which who looks for a remedy finds the symptom.
#[test]
fn symptoms_that_the_page_of_troubleshooting_quotes_are_said_by_the_program() {
    let text = fs::read_to_string(root().join("docs/guide/troubleshooting.md")).expect("a page");
    let sources = sources();
    let symptoms = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let quoted = symptoms.flat_map(|symptom| symptom.split('`').skip(1).step_by(2));
    // File, line and key stand before what is said of them.
    let said: Vec<&str> = quoted
        .map(|quote| quote.rsplit(": ").next().unwrap_or(quote))
        .filter(|quote| quote.contains(' '))
        .collect();

    assert!(said.len() > 6, "{said:?}");
    for quote in said {
        assert!(sources.iter().any(|source| source.contains(quote)), "nothing says {quote:?}");
    }
}

/// What `docs/img/what-it-does.svg` shows: a bar for each time, on a scale of each pair's own.
#[test]
fn the_picture_of_the_readme_has_the_times_of_its_table() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
    let (readme, picture) = (read("README.md"), read("docs/img/what-it-does.svg"));
    let table: Vec<Vec<&str>> = readme
        .lines()
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    // The last word of what stands before the seconds.
    let seconds = |cell: &str| -> Option<f64> {
        cell.split_once(" s").and_then(|(until, _)| until.rsplit(' ').next()?.parse().ok())
    };
    let inside = |line: &str| line.split(['>', '<']).nth(2).map(str::to_owned);
    let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();

    // Of each link: its name, what carries it, and bar and time twice.
    let mut links = 0;
    let lines: Vec<&str> = picture.lines().collect();
    for shown in
        lines.windows(6).filter(|it| it[2].contains("class=\"plain\"") && it[0].contains("600"))
    {
        links += 1;
        let name = inside(shown[0]).expect("a name").to_lowercase();
        let row = table
            .iter()
            .find(|row| row[0].to_lowercase() == name)
            .unwrap_or_else(|| panic!("{name}"));
        let told = [seconds(row[2]), seconds(row[3])];
        assert_eq!([3, 5].map(|at| inside(shown[at])?.parse().ok()), told, "{name}");
        let amount = row[2].split(" in ").next().expect("how much");
        assert!(shown[1].contains(amount), "{name}: {amount}");
        let [plain, ours] = [2, 4].map(|at| width(shown[at]).expect("a bar"));
        let expected = plain * told[1].unwrap() / told[0].unwrap();
        assert!((ours - expected).abs() < 1.0, "{name}: a bar of {ours}, not {expected}");
    }
    assert_eq!(links, 4);
}

/// A name in camel case as a counter's.
fn snake(camel: &str) -> String {
    let mut name = String::new();
    for c in camel.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[test]
fn tests_that_the_page_of_protection_names_exist() {
    let page = fs::read_to_string(root().join("docs/guide/protection.md")).expect("the page");
    let sources: String = files(&root().join("crates"), "rs")
        .iter()
        .map(|path| fs::read_to_string(path).expect("a source"))
        .collect();

    // The last column of each table has them.
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains("| test |"));
    let named: Vec<&str> = rows
        .filter_map(|row| row.trim_end_matches('|').rsplit('|').next())
        .flat_map(|column| column.split('`').skip(1).step_by(2))
        .collect();
    let missing: Vec<_> = named
        .iter()
        .filter(|name| {
            !sources.contains(&format!("fn {}(", name.rsplit("::").next().expect("a name")))
        })
        .collect();

    assert!(named.len() > 20, "{named:?}");
    assert!(missing.is_empty(), "{missing:?}");
}

/// What pages show of `trackway explain` with a configuration of the tree is what the program says.
#[test]
fn explanations_that_pages_show_are_the_programs() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let lines: Vec<_> = text.lines().map(|line| line.strip_prefix("    ")).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(words) = line.and_then(|line| line.strip_prefix("$ trackway explain ")) else {
                continue;
            };
            let shown: Vec<_> = lines[at + 1..].iter().map_while(|line| *line).collect();
            let said = Command::new(env!("CARGO_BIN_EXE_trackway"))
                .arg("explain")
                .args(words.split_whitespace())
                .current_dir(root())
                .output()
                .expect("an explanation");
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            assert_eq!(shown, said.lines().collect::<Vec<_>>(), "{}: {words}", page.display());
            count += 1;
        }
    }

    assert!(count > 0);
}

#[test]
fn all_findings_of_doctor_stand_in_the_guide() {
    let text = fs::read_to_string(root().join("docs/guide/gateway.md")).expect("the page");
    let (_, rest) = text.split_once("<!-- findings -->\n").expect("the table");
    let (table, _) = rest.split_once("<!-- end -->").expect("its end");

    let row = |kind: &&gateway::doctor::Kind| {
        format!("| `{}` | {} | {} |\n", kind.code, kind.severity, kind.meaning)
    };
    let rows: String = gateway::doctor::KINDS.iter().map(row).collect();
    assert_eq!(table, format!("| code | severity | what it means |\n|---|---|---|\n{rows}"));
}

#[test]
fn each_kind_of_fault_and_finding_is_expected_by_a_live_test() {
    let tests = files(&root().join("crates/cli/tests/live"), "rs");
    let tests: String =
        tests.iter().map(|test| fs::read_to_string(test).expect("a test")).collect();

    for kind in host::fault::KINDS.iter().chain(&gateway::doctor::KINDS) {
        let code = kind.code;
        let said = [format!("\"{code}\""), format!("[{code}]"), format!("code={code}")];
        assert!(said.iter().any(|said| tests.contains(said)), "{code}");
    }
}
