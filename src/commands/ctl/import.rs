//! `ctl import`: creates a session from the output of `export`. The log is sent in parts, so
//! neither side holds all of it in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use domain::escape;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::method;

use super::DaemonClient;
use crate::client::Refused;

/// The approximate size of one part in bytes; an event is never split.
const PART: usize = 256 << 10;

pub(super) async fn run(daemon: &mut DaemonClient, file: &Path) -> anyhow::Result<()> {
    let mut parts = EventBatches::new(open(file)?);
    let foreign = || format!("{} is not what `acpd ctl export` writes", file.display());
    let mut part = parts.next().with_context(foreign)?;
    if part.is_empty() {
        return Err(anyhow::anyhow!("the file has no events")).with_context(foreign);
    }
    let folder = folder(&part[0]);
    daemon.introduce().await?;
    let mut into = Value::Null;
    loop {
        let following = parts.next().with_context(foreign)?;
        let more = !following.is_empty();
        let params = match (&into, more) {
            // Every version of the daemon understands this form.
            (Value::Null, false) => json!({ "events": part }),
            (Value::Null, true) => json!({ "events": part, "more": true }),
            (into, more) => json!({ "events": part, "into": into, "more": more }),
        };
        let mut made: Value = daemon.client.call(method::IMPORT, params).await.map_err(|error| {
            let is_foreign = error.downcast_ref::<Refused>().is_some_and(Refused::is_about_params);
            if is_foreign { error.context(foreign()) } else { error }
        })?;
        if !more {
            daemon.show(&made, || made["sessionId"].as_str().unwrap_or_default().to_owned());
            eprintln!(
                "note: its mode and approval are those of new sessions here; \"always\" answers are not imported, \
                 and its changes of files cannot be undone"
            );
            if let Some(folder) = folder {
                eprintln!("note: the file chose the folder in which it works: {}", escape::line(&folder));
            }
            return Ok(());
        }
        into = made["into"].take();
        if into.is_null() {
            // An older daemon has taken the first part as the whole log.
            let _: Value = daemon.client.call(method::DELETE, json!({ "sessionId": made["sessionId"] })).await?;
            bail!(
                "this daemon is older than `acpd ctl` and takes short logs only; `acpd ctl restart` starts the new one"
            );
        }
        part = following;
    }
}

/// The folder that a log's first event names.
fn folder(created: &RawValue) -> Option<String> {
    let event: Value = serde_json::from_str(created.get()).ok()?;
    event["cwd"].as_str().map(str::to_owned)
}

fn open(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Reads the events of a file, a few at a time.
struct EventBatches<R> {
    lines: R,
    number: usize,
}

impl<R: BufRead> EventBatches<R> {
    fn new(lines: R) -> Self {
        Self { lines, number: 0 }
    }

    /// Returns the next events; empty at the end of the file.
    fn next(&mut self) -> anyhow::Result<Vec<Box<RawValue>>> {
        let (mut events, mut size) = (Vec::new(), 0);
        let mut line = String::new();
        while size < PART && self.lines.read_line(&mut line).context("cannot read the file")? > 0 {
            self.number += 1;
            if !line.trim().is_empty() {
                size += line.len();
                let event = serde_json::from_str(line.trim());
                events.push(event.with_context(|| format!("line {} is not JSON", self.number))?);
            }
            line.clear();
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> anyhow::Result<Vec<usize>> {
        let mut parts = EventBatches::new(text.as_bytes());
        let mut lengths = Vec::new();
        loop {
            match parts.next()?.len() {
                0 => return Ok(lengths),
                length => lengths.push(length),
            }
        }
    }

    #[test]
    fn an_import_file_is_read_in_parts_and_a_broken_line_is_named() {
        assert_eq!(parts("{\"a\":1}\n\n{}\n").unwrap(), [2]);
        assert_eq!(parts("{}\n# Title\n").unwrap_err().to_string(), "line 2 is not JSON");
        assert!(parts("\n").unwrap().is_empty());
        let long = format!("\"{}\"\n", "x".repeat(PART / 4));
        assert_eq!(parts(&long.repeat(10)).unwrap(), [4, 4, 2]);
    }
}
