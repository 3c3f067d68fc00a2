//! Files that are written together into a new folder, none over another.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gateway::Config;

use crate::failure;
use crate::terminal;

/// A new folder and the files to be written there.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    name: String,
    text: String,
    mode: u32,
}

/// The schema named in the first line of each configuration, which is copied with it.
const SCHEMA: &str = "gateway.schema.json";

impl Folder {
    /// A folder without files, made by [`Self::write`].
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), files: Vec::new() }
    }

    /// Adds a configuration, and its schema beside it; the name may lead into a folder within.
    pub fn config(&mut self, name: &str, text: &str) {
        let text = format!("#:schema {SCHEMA}\n{text}");
        self.files.push(File { name: name.to_owned(), text, mode: 0o644 });
        let within = name.rfind('/').map_or("", |slash| &name[..=slash]);
        let schema = format!("{:#}\n", gateway::config::schema());
        self.files.push(File { name: format!("{within}{SCHEMA}"), text: schema, mode: 0o644 });
    }

    /// Adds a file with a secret.
    pub fn secret(&mut self, name: &str, key: &str) {
        self.files.push(File { name: name.to_owned(), text: format!("{key}\n"), mode: 0o600 });
    }

    /// Checks the configurations, and writes all files. The folder must be new; if something cannot be written, nothing
    /// stays.
    ///
    /// # Errors
    /// When a value that was given is wrong, the folder exists, or something cannot be written.
    pub fn write(self) -> anyhow::Result<()> {
        let folder = self.path.display().to_string();
        for File { name, text, .. } in self.files.iter().filter(|file| file.name.ends_with(".toml"))
        {
            let checked = Config::parse(name, text);
            checked.map_err(|why| {
                failure::misuse(format!("what was given makes no configuration: {why}"))
            })?;
        }
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        make(&self.path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => failure::misuse(format!(
                "{folder}: there is such a file or folder already, and nothing is overwritten: --out names another"
            )),
            _ => anyhow::Error::new(error).context(format!("cannot make the folder {folder}")),
        })?;
        self.fill(&make).inspect_err(|_| {
            // It is ours: it was made a moment ago.
            let _ = std::fs::remove_dir_all(&self.path);
        })?;
        // Who closes our output keeps the files.
        let mut out = terminal::out();
        for File { name, .. } in &self.files {
            writeln!(out, "wrote {}", self.path.join(name).display())?;
        }
        Ok(())
    }

    fn fill(&self, make: &impl Fn(&Path) -> io::Result<()>) -> anyhow::Result<()> {
        for File { name, text, mode } in &self.files {
            let path = self.path.join(name);
            let said = || format!("cannot write {}", path.display());
            if let Some((within, _)) = name.split_once('/') {
                match make(&self.path.join(within)) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    outcome => outcome.with_context(said)?,
                }
            }
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create_new(true).mode(*mode).open(&path).with_context(said)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(said)?;
        }
        Ok(())
    }
}

/// Prints what to do next.
pub fn advise(lines: &str) -> anyhow::Result<()> {
    let mut out = terminal::out();
    write!(out, "\n{lines}")?;
    out.flush()?;
    Ok(())
}
