//! Sets up the daemon's log: the journal under systemd, otherwise stderr.
//!
//! `serve` calls this once, before anything is logged. The log never goes to stdout, which carries
//! protocol messages. The other subcommands have no log; they report errors to their user.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::{env, io};

use anyhow::Context;
use bridge::log_file::LogFile;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Changes the filter while the daemon runs.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Replaces the filter.
pub fn refilter(filter: &str) -> anyhow::Result<()> {
    let filter = read(filter)?;
    // A program without a log has no filter to change.
    FILTER.get().map_or(Ok(()), |handle| handle.reload(filter)).context("cannot change the log filter")
}

/// Parses a filter, and turns off the MCP library, which logs whole messages with their contents.
fn read(filter: &str) -> anyhow::Result<EnvFilter> {
    let filter: EnvFilter = filter.parse().context("cannot read the log filter")?;
    Ok(filter.add_directive("rmcp=off".parse()?))
}

/// Starts the log with this filter. If stderr is `file`, the file is rotated when it grows too
/// long.
pub fn start(filter: &str, file: &Path) -> anyhow::Result<()> {
    let (filter, handle) = reload::Layer::new(read(filter)?);
    let _ = FILTER.set(handle);
    let registry = tracing_subscriber::registry().with(filter);
    if env::var_os("JOURNAL_STREAM").is_some()
        && let Ok(journal) = tracing_journald::layer()
    {
        return Ok(registry.with(journal.with_syslog_identifier("acpd".to_owned())).try_init()?);
    }
    let writer = match LogFile::behind_stderr(file) {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(io::stderr),
    };
    let stderr = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(io::stderr().is_terminal());
    Ok(registry.with(stderr).try_init()?)
}
