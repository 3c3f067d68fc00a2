//! Checks the documentation pages: every link has a target, and every test named in a page exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Examples of commands in the README and the guide: the first word behind `trackway` is a command.
#[test]
fn commands_that_pages_name_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_trackway")).arg("help").output().expect("help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    // Options stand there too.
    let commands: BTreeSet<&str> = lines.filter(|word| !word.starts_with('-')).collect();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for (at, _) in text.match_indices("`trackway ").chain(text.match_indices("    trackway ")) {
            let rest = text[at..].trim_start_matches(['`', ' ']);
            let word =
                rest.split_whitespace().nth(1).unwrap_or_default().trim_end_matches(['`', ',']);
            let is_word = word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
            let is_named = commands.contains(word) || TABLES.contains(&word);
            if is_word && !word.is_empty() && !word.starts_with('-') && !is_named {
                wrong.push(format!("{}: trackway {word}", page.display()));
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
