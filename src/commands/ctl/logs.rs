//! `ctl logs`: shows the daemon's log. Under systemd the log is in the journal, which `journalctl`
//! shows; otherwise it is a file, which the program that started the daemon made its stderr. It
//! works without a daemon, because that is when a log is needed most.

#![allow(clippy::print_stdout, reason = "the log is printed")]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, IsTerminal, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use terminal::style::visible_text;

use super::{DaemonClient, status};
use crate::cli::LogsArgs;
use crate::commands::Ending;
use crate::commands::json_output::print_line;
use crate::paths::Paths;

const UNIT: &str = "acpd.service";

/// How long a daemon may take to identify itself.
const DEADLINE: Duration = Duration::from_secs(2);

/// The interval between two checks of a followed file.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(places: &Paths, args: &LogsArgs, json: bool) -> anyhow::Result<Ending> {
    if is_in_the_journal(places).await {
        let error = journalctl(args, json).exec();
        return Err(error).context("cannot run journalctl");
    }
    let path = places.daemon_log();
    let mut file = match File::open(&path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no log yet; a daemon that a bridge starts writes to {}", path.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let lines: Vec<String> = whole_lines(&mut file)?;
    let printer = Printer { json, terminal: io::stdout().is_terminal() };
    lines[lines.len().saturating_sub(args.lines)..].iter().for_each(|line| printer.print(line));
    if args.follow {
        follow(&path, file, &printer).await?;
    }
    Ok(Ending::Done)
}

/// Whether the log is in the journal: systemd started the running daemon or, without a daemon,
/// there is no log file and systemd knows the unit.
async fn is_in_the_journal(places: &Paths) -> bool {
    let pid = match DaemonClient::begin(places, false) {
        // The daemon has a deadline here, because logs are needed most when it does not answer.
        Ok(mut daemon) => match tokio::time::timeout(DEADLINE, status::look(&mut daemon)).await {
            Ok(Ok(card)) => Some(card.pid),
            Ok(Err(_)) | Err(_) => None,
        },
        Err(_) => None,
    };
    match pid {
        Some(pid) => system::is_in_unit(pid, UNIT),
        None => !places.daemon_log().exists() && unit_is_known(),
    }
}

fn unit_is_known() -> bool {
    let state = Command::new("systemctl").args(["--user", "show", "--property=LoadState", "--value", UNIT]).output();
    state.is_ok_and(|state| state.stdout.starts_with(b"loaded"))
}

fn journalctl(args: &LogsArgs, json: bool) -> Command {
    let mut command = Command::new("journalctl");
    command.args(["--user", "--unit", UNIT, "--lines", &args.lines.to_string()]);
    if args.follow {
        command.arg("--follow");
    }
    if json {
        command.args(["--output", "json"]);
    }
    command
}

struct Printer {
    json: bool,
    terminal: bool,
}

impl Printer {
    fn print(&self, line: &str) {
        match (self.json, self.terminal) {
            (true, _) => print_line(&json!({ "line": line })),
            (false, true) => println!("{}", visible_text(line)),
            (false, false) => println!("{line}"),
        }
    }
}

/// Prints what is appended, until Ctrl-C. A file that was replaced or truncated is read from its
/// start.
async fn follow(path: &Path, mut file: BufReader<File>, printer: &Printer) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(()),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        whole_lines(&mut file)?.iter().for_each(|line| printer.print(line));
        let (open, named) = (file.get_ref().metadata()?, fs::metadata(path));
        let replaced = named.is_ok_and(|named| (named.dev(), named.ino()) != (open.dev(), open.ino()));
        if replaced {
            file = BufReader::new(File::open(path)?);
        } else if open.len() < file.stream_position()? {
            file.seek(SeekFrom::Start(0))?;
        }
    }
}

/// Reads the complete lines up to the end of the file. An unfinished last line is read later.
fn whole_lines(file: &mut BufReader<File>) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = file.read_until(b'\n', &mut line)?;
        if line.pop_if(|last| *last == b'\n').is_none() {
            file.seek_relative(-i64::try_from(read).unwrap_or(0))?;
            return Ok(lines);
        }
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
}
