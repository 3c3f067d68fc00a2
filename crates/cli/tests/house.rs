//! Files of a crate must not import each other in a circle, as CONTRIBUTING promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles: Vec<String> = packages().iter().flat_map(|package| circles(package)).collect();

    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// A source file.
struct Source {
    /// Its path from the root of the project.
    name: String,
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folders of the packages.
fn packages() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    let mut found: Vec<PathBuf> =
        crates.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    found.push(root().join("fuzz"));
    found.sort();
    found
}

fn sources_below(folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                found.extend(sources_below(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            let text = fs::read_to_string(&path).expect("a readable file");
            found.push(Source { name, path, text });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The circles among the files of a package, each on a line.
///
/// A folder's own file and the files below it are parts of one idea, and may use each other.
fn circles(package: &Path) -> Vec<String> {
    let src = package.join("src");
    let sources = sources_below(&src);
    let modules: BTreeMap<Vec<String>, &str> =
        sources.iter().map(|source| (module(&src, &source.path), source.name.as_str())).collect();
    let mut arrows: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for source in &sources {
        let here = module(&src, &source.path);
        let (here, _) = modules.get_key_value(&here).expect("it is one of them");
        for used in imports(here, &source.text) {
            // The module is the longest part of the path that is a file.
            let target = (0..=used.len()).rev().find_map(|len| modules.get_key_value(&used[..len]));
            let Some((target, _)) = target else { continue };
            if !here.starts_with(target) && !target.starts_with(here) {
                arrows.entry(here).or_default().insert(target);
            }
        }
    }

    let mut found = BTreeSet::new();
    for start in arrows.keys() {
        if let Some(way) = way_back(&arrows, start) {
            let mut names: Vec<&str> = way.iter().map(|module| modules[*module]).collect();
            // Each circle once, whichever file it is found from.
            let least = names.iter().min().copied().unwrap_or_default();
            while names[0] != least {
                names.rotate_left(1);
            }
            found.insert(names.join(" -> "));
        }
    }
    found.into_iter().collect()
}

/// The shortest way from a module back to itself.
fn way_back<'a>(
    arrows: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
    start: &'a [String],
) -> Option<Vec<&'a [String]>> {
    let mut seen = BTreeSet::new();
    let mut ways = std::collections::VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for next in arrows.get(way[way.len() - 1]).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                let mut further = way.clone();
                further.push(next);
                ways.push_back(further);
            }
        }
    }
    None
}

/// The path of a file's module below the crate.
fn module(src: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(src).expect("below src").with_extension("");
    let mut names: Vec<String> =
        path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// What a file imports from its own crate, as paths below it.
fn imports(here: &[String], text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let code: String = text
        .lines()
        .take_while(|line| *line != "#[cfg(test)]" && *line != "mod tests {")
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line.trim() + " ");
    for statement in code.split("use ").skip(1) {
        let Some((tree, _)) = statement.split_once(';') else { continue };
        for path in leaves(tree) {
            let mut names = path.split("::").map(str::trim);
            let mut base = match names.next() {
                Some("crate") => Vec::new(),
                Some("super") => here[..here.len().saturating_sub(1)].to_vec(),
                _ => continue,
            };
            for name in names {
                if name == "super" {
                    base.pop();
                } else {
                    base.push(name.to_owned());
                }
            }
            found.push(base);
        }
    }
    found
}

/// The paths that a tree of imports spells out.
fn leaves(tree: &str) -> Vec<String> {
    let Some((stem, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest.trim_end().trim_end_matches('}'));
    let (mut depth, mut part, mut parts) = (0_u32, String::new(), Vec::new());
    for letter in inner.chars() {
        match letter {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {
                depth = match letter {
                    '{' => depth + 1,
                    '}' => depth.saturating_sub(1),
                    _ => depth,
                };
                part.push(letter);
            }
        }
    }
    parts.push(part);
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(leaves).map(|leaf| format!("{}{leaf}", stem.trim())).collect()
}

#[test]
fn imports_are_found_in_trees_and_by_super() {
    let here = ["a".to_owned(), "b".to_owned()];
    let text = "use std::io;\nuse crate::{c::D, e::{f, g::H}};\nuse super::i::J;\n";

    let found: Vec<String> = imports(&here, text).iter().map(|path| path.join("::")).collect();

    assert_eq!(found, ["c::D", "e::f", "e::g::H", "a::i::J"]);
}
