//! `acpd man`: writes the man pages, from the same definitions as the help.

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

const ENVIRONMENT: [(&str, &str); 5] = [
    ("ACPD_SOCKET", "another socket, like --socket"),
    ("ACPD_TIMEOUT", "how many seconds a daemon may take to answer; 30 by default"),
    ("ACPD_TOKEN", "the token for acpd ask --url"),
    ("NO_COLOR", "no colours, if it is not empty"),
    ("ACPD__SECTION__KEY", "a configuration key, for acpd serve"),
];

pub fn run(args: &ManArgs) -> anyhow::Result<Ending> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // This adds the global options to every page.
    command.build();
    match &args.out {
        None => io::stdout().lock().write_all(&page(&command, "acpd")?)?,
        Some(folder) => {
            fs::create_dir_all(folder)
                .and_then(|()| write(&command, "acpd", folder))
                .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
        }
    }
    Ok(Ending::Done)
}

/// Writes the man page of a command and of its subcommands.
fn write(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    fs::write(folder.join(format!("{}.1", name.replace(' ', "-"))), page(command, name)?)?;
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    visible.map(|sub| (sub, format!("{name} {}", sub.get_name()))).try_for_each(|(sub, name)| write(sub, &name, folder))
}

fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let command = command.clone().disable_help_subcommand(true).display_name(name.replace(' ', "-"));
    let status = command.get_after_help().map(ToString::to_string).unwrap_or_default();
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
    let status = status.strip_prefix("Exit status: ").unwrap_or("0 done; 1 failed; 2 the command line is wrong.");
    writeln!(page, ".SH \"EXIT STATUS\"\n{}", escaped(status))?;
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

fn listed(page: &mut Vec<u8>, title: &str, entries: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH {title}")?;
    entries.iter().try_for_each(|(name, about)| writeln!(page, ".TP\n{}\n{}", escaped(name), escaped(about)))
}

/// Escapes text for roff: a backslash, a hyphen, and a dot at the start of a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
