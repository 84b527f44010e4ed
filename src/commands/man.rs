//! `acpd man`: writes the man pages, from the same definitions as the help.

#![allow(clippy::print_stdout, reason = "the page is printed")]

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};

use super::Ending;
use crate::cli::{Cli, ManArgs, examples};

/// The FILES section of every page.
const FILES: [(&str, &str); 4] = [
    ("~/.config/acpd/config.toml", "the configuration; acpd config defaults prints all keys"),
    ("~/.local/state/acpd", "the history of sessions, keys that acpd login stored, and the daemon's log"),
    ("$XDG_RUNTIME_DIR/acpd/acpd.sock", "the daemon's socket"),
    (".acpd/config.toml", "rules of a project, which can only make acpd stricter"),
];

/// The exit status of a command whose help does not list it.
const STATUS: &str = "0 done; 1 failed; 2 the command line is wrong.";

const ENVIRONMENT: [(&str, &str); 6] = [
    ("ACPD_SOCKET", "another socket, like --socket"),
    ("ACPD_TIMEOUT", "how many seconds a daemon may take to answer; 30 by default"),
    ("ACPD_TOKEN", "the token for acpd ask --url"),
    ("NO_COLOR", "no colours, if it is not empty"),
    ("HOME, XDG_CONFIG_HOME, XDG_STATE_HOME", "where the folders ~, ~/.config and ~/.local/state are"),
    ("ACPD__SECTION__KEY", "a configuration key, for acpd serve"),
];

pub fn run(args: &ManArgs) -> anyhow::Result<Ending> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // This adds the global options to every page.
    command.build();
    match &args.out {
        None => print!("{}", String::from_utf8(page(&command, "acpd", STATUS)?)?),
        Some(folder) => {
            fs::create_dir_all(folder)
                .and_then(|()| write(&command, "acpd", folder, STATUS))
                .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
        }
    }
    Ok(Ending::Done)
}

/// Writes the man page of a command and of its subcommands. `status` is the exit status of the
/// parent, which a command without its own shares.
fn write(command: &Command, name: &str, folder: &Path, status: &str) -> io::Result<()> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let status = help.strip_prefix("Exit status: ").unwrap_or(status);
    fs::write(folder.join(format!("{}.1", name.replace(' ', "-"))), page(command, name, status)?)?;
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    visible
        .map(|sub| (sub, format!("{name} {}", sub.get_name())))
        .try_for_each(|(sub, name)| write(sub, &name, folder, status))
}

fn page(command: &Command, name: &str, status: &str) -> io::Result<Vec<u8>> {
    let command = command.clone().disable_help_subcommand(true).display_name(name.replace(' ', "-"));
    let has_subcommands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let man = clap_mangen::Man::new(command).source(format!("acpd {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    exit_status(&mut page, status)?;
    listed(&mut page, "ENVIRONMENT", &ENVIRONMENT)?;
    listed(&mut page, "FILES", &FILES)?;
    let lines = examples::of(name);
    if !lines.is_empty() {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        lines.iter().try_for_each(|line| writeln!(page, "{}", escaped(line)))?;
        writeln!(page, ".fi")?;
    }
    Ok(page)
}

/// Writes the codes of the exit status as a list.
fn exit_status(page: &mut Vec<u8>, status: &str) -> io::Result<()> {
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    status.trim_end_matches('.').split("; ").try_for_each(|entry| match entry.split_once(' ') {
        Some((code, meaning)) if code.bytes().all(|letter| letter.is_ascii_digit()) => {
            writeln!(page, ".TP\n{code}\n{}", escaped(meaning))
        }
        _ => writeln!(page, ".PP\n{}", escaped(entry)),
    })
}

fn listed(page: &mut Vec<u8>, title: &str, entries: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH {title}")?;
    entries.iter().try_for_each(|(name, about)| writeln!(page, ".TP\n{}\n{}", escaped(name), escaped(about)))
}

/// Escapes text for roff: a backslash, a hyphen, and a dot at the start of a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
