//! `acpd setup EDITOR`: the settings with which an editor finds acpd, printed, or put into the editor's own file.
//!
//! The settings go to stdout, so that they can be piped somewhere; what to do with them goes to stderr.

#![allow(clippy::print_stdout, reason = "the settings are printed")]

pub mod editors;
mod jsonc;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use self::editors::{Recipe, SettingsFile};
use crate::cli::Setup;
use crate::commands::Ending;
use crate::launch;
use crate::paths::Places;

/// What a settings file that `--write` changes is copied to first, with a number if that is taken.
const BACKUP: &str = "before-acpd";

pub fn run(places: &Places, args: &Setup) -> anyhow::Result<Ending> {
    let program = launch::own_program()?;
    let recipes = editors::recipes(args.editor, places);
    for recipe in &recipes {
        match &recipe.file {
            Some(file) if args.write => write(recipe, file, &program)?,
            None if args.write => {
                let title = recipe.title;
                bail!("the settings of {title} are a program, not data; leave out --write and paste what is printed");
            }
            Some(_) | None => print(recipe, &program, args)?,
        }
    }
    warn_of_build_folder(&program);
    Ok(Ending::Done)
}

fn print(recipe: &Recipe, program: &Path, args: &Setup) -> anyhow::Result<()> {
    eprintln!("{}:\n", recipe.title);
    print!("{}", recipe.text(program));
    io::stdout().flush()?;
    match &recipe.file {
        Some(file) => {
            eprintln!("\nPut it into {}, or let", file.path.display());
            eprintln!("`acpd setup {} --write` do so. {}", args.editor.name(), recipe.then);
        }
        None => eprintln!("\n{}\n", recipe.then),
    }
    Ok(())
}

fn write(recipe: &Recipe, file: &SettingsFile, program: &Path) -> anyhow::Result<()> {
    // Those who keep such files elsewhere leave a link here; it stays one.
    let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let whole = recipe.text(program);
    let after = if before.trim().is_empty() { whole } else { merge(&before, file, &whole, &path)? };
    if after == before {
        eprintln!("{} has it already; nothing changed", path.display());
        return Ok(());
    }
    if !before.is_empty() {
        let backup = back_up(&path)?;
        eprintln!("copied {} to {}", path.display(), backup.display());
    }
    replace(&path, &after)?;
    eprintln!("wrote {}\n{}", path.display(), recipe.then);
    Ok(())
}

/// An entry of ours that is there already keeps what was added to it, such as `env`.
fn merge(before: &str, file: &SettingsFile, whole: &str, path: &Path) -> anyhow::Result<String> {
    let refuse = || format!("{} was left alone", path.display());
    let ours: Value = serde_json::from_str(whole)?;
    let ours = &ours[file.agents]["acpd"];
    let entry = [file.agents, "acpd"];
    let there = jsonc::read(before).with_context(refuse)?;
    let Some(members) = ours.as_object().filter(|_| jsonc::get(&there, &entry).is_some_and(Value::is_object)) else {
        return jsonc::set(before, &entry, ours).with_context(refuse);
    };
    let set = |text: String, (name, value): (&String, &Value)| jsonc::set(&text, &[file.agents, "acpd", name], value);
    members.iter().try_fold(before.to_owned(), set).with_context(refuse)
}

fn back_up(path: &Path) -> anyhow::Result<PathBuf> {
    let beside = |ending: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    };
    let names = std::iter::once(BACKUP.to_owned()).chain((2..).map(|number| format!("{BACKUP}-{number}")));
    let free = names.map(beside).find(|backup| !backup.exists()).context("there are too many copies")?;
    fs::copy(path, &free).with_context(|| format!("cannot copy {} to {}", path.display(), free.display()))?;
    Ok(free)
}

/// All or nothing: an editor that reads meanwhile sees the old file or the new one.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let doing = || format!("cannot write {}", path.display());
    let folder = path.parent().with_context(doing)?;
    fs::create_dir_all(folder).with_context(doing)?;
    let mode = fs::metadata(path).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let temporary = folder.join(format!(".acpd-setup-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(doing)
}

fn warn_of_build_folder(program: &Path) {
    if program.components().any(|part| part.as_os_str() == "target") {
        eprintln!("\nnote: {} is in a build folder;", program.display());
        eprintln!("      after `cargo install --path .`, run the installed acpd's setup again");
    }
}
