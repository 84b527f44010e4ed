//! `acpd setup EDITOR`: prints the settings with which an editor starts acpd, or writes them to the
//! editor's own file.
//!
//! The settings go to stdout, so that they can be piped; the instructions go to stderr.

#![allow(clippy::print_stdout, reason = "the settings are printed")]

pub mod editors;
mod jsonc;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use self::editors::{EditorSetup, SettingsFile};
use crate::cli::SetupArgs;
use crate::commands::{Ending, agents, file_replacement};
use crate::launch;
use crate::paths::Paths;

pub fn run(places: &Paths, args: &SetupArgs) -> anyhow::Result<Ending> {
    let program = launch::own_program()?;
    let mut setups = editors::setups(args.editor, places);
    if let Some(agent) = &args.agent {
        agents::find(places, agent)?;
        setups = setups.into_iter().map(|setup| setup.for_agent(agent)).collect();
    }
    for setup in &setups {
        match &setup.file {
            Some(file) if args.write => write(setup, file, &program)?,
            None if args.write => {
                let title = setup.title;
                bail!(
                    "acpd cannot write the settings of {title}, because they are code; run this without --write and paste the output"
                );
            }
            Some(_) | None => print(setup, &program, args)?,
        }
    }
    warn_of_build_folder(&program);
    Ok(Ending::Done)
}

fn print(setup: &EditorSetup, program: &Path, args: &SetupArgs) -> anyhow::Result<()> {
    eprintln!("{}:\n", setup.title);
    print!("{}", setup.text(program));
    io::stdout().flush()?;
    match &setup.file {
        Some(file) => {
            eprintln!("\nPut it into {}, or let", file.path.display());
            let agent = args.agent.as_ref().map(|agent| format!(" --agent {agent}")).unwrap_or_default();
            eprintln!("`acpd setup {}{agent} --write` do so. {}", args.editor.name(), setup.then);
        }
        None => eprintln!("\n{}\n", setup.then),
    }
    Ok(())
}

fn write(setup: &EditorSetup, file: &SettingsFile, program: &Path) -> anyhow::Result<()> {
    // The settings file may be a link to a file elsewhere; the link stays.
    let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let whole = setup.text(program);
    let after = if before.trim().is_empty() { whole } else { merge(&before, file, &setup.entry, &whole, &path)? };
    if after == before {
        eprintln!("{} already has these settings; nothing was changed", path.display());
        return Ok(());
    }
    if !before.is_empty() {
        let backup = file_replacement::name_for_copy(&path)?;
        file_replacement::copy(&path, &backup)?;
        eprintln!("copied {} to {}", path.display(), backup.display());
    }
    file_replacement::replace(&path, &after)?;
    eprintln!("wrote {}\n{}", path.display(), setup.then);
    Ok(())
}

/// Merges the settings into the file. An existing acpd entry keeps the user's additions, such as
/// `env`.
fn merge(before: &str, file: &SettingsFile, name: &str, whole: &str, path: &Path) -> anyhow::Result<String> {
    let refuse = || format!("{} was not changed", path.display());
    let ours: Value = serde_json::from_str(whole)?;
    let ours = &ours[file.agents][name];
    let entry = [file.agents, name];
    let there = jsonc::read(before).with_context(refuse)?;
    let Some(members) = ours.as_object().filter(|_| jsonc::get(&there, &entry).is_some_and(Value::is_object)) else {
        return jsonc::set(before, &entry, ours).with_context(refuse);
    };
    let set = |text: String, (key, value): (&String, &Value)| jsonc::set(&text, &[file.agents, name, key], value);
    members.iter().try_fold(before.to_owned(), set).with_context(refuse)
}

/// Returns the program that an editor's settings start as acpd, or None if they have no such entry.
pub fn command_of(file: &SettingsFile) -> Option<String> {
    let there = jsonc::read(&fs::read_to_string(&file.path).ok()?).ok()?;
    Some(jsonc::get(&there, &[file.agents, "acpd", "command"])?.as_str()?.to_owned())
}

/// Warns if the program is in a folder that `cargo clean` would empty. Cargo marks such a folder,
/// whatever its name, as a cache of its own.
fn warn_of_build_folder(program: &Path) {
    let is_of_cargo = |mark: String| mark.contains("created by cargo");
    if program.ancestors().any(|folder| fs::read_to_string(folder.join("CACHEDIR.TAG")).is_ok_and(is_of_cargo)) {
        eprintln!("\nnote: {} is in a build folder;", program.display());
        eprintln!("      after `cargo install --path .`, run the installed acpd's setup again");
    }
}
