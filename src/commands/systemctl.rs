//! Calls the user's service manager through `systemctl --user`, with a deadline for each call.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;

/// The deadline for calls that do work. Starting a socket or stopping a daemon takes a moment, but
/// a manager that does not answer must not block forever.
const DEADLINE: Duration = Duration::from_secs(40);

/// The deadline for queries, which need no work.
const QUERY_DEADLINE: Duration = Duration::from_secs(5);

/// Returns why there is no user manager, or None if there is one.
pub(super) async fn absence() -> Option<String> {
    match output(&["show", "--property=Version"], QUERY_DEADLINE).await {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(first_line(&output)),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Runs a `systemctl` command. The error has the text that `systemctl` printed.
pub(super) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let output = output(arguments, DEADLINE).await?;
    if !output.status.success() {
        bail!("systemctl --user {} failed: {}", arguments.join(" "), first_line(&output));
    }
    Ok(())
}

/// Returns one property of a unit, or an empty string if there is none.
pub(super) async fn property(unit: &str, name: &str) -> String {
    match output(&["show", unit, "--value", "--property", name], QUERY_DEADLINE).await {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => String::new(),
    }
}

async fn output(arguments: &[&str], deadline: Duration) -> anyhow::Result<Output> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(deadline, command.output()).await;
    let output = output.with_context(|| format!("systemctl did not answer within {} seconds", deadline.as_secs()))?;
    output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow::anyhow!("there is no systemctl"),
        _ => anyhow::Error::new(error).context("cannot run systemctl"),
    })
}

/// Returns the first line of the output of `systemctl`.
fn first_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    said.lines().next().unwrap_or("it gave no reason").to_owned()
}
