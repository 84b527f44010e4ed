//! `ctl import`: makes a new session of what `export` wrote. The log travels as one message, within the daemon's limit.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::method;

use super::Visit;

pub(super) async fn run(visit: &mut Visit, file: &Path) -> anyhow::Result<()> {
    let text = read(file)?;
    let events = lines(&text).with_context(|| format!("{} is not what `acpd ctl export` writes", file.display()))?;
    visit.introduce().await?;
    let made: Value = visit.client.call(method::IMPORT, json!({ "events": events })).await?;
    visit.show(&made, || made["sessionId"].as_str().unwrap_or_default().to_owned());
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file != Path::new("-") {
        return fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read stdin")?;
    Ok(text)
}

fn lines(text: &str) -> anyhow::Result<Vec<&RawValue>> {
    let mut events = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if !line.trim().is_empty() {
            events.push(serde_json::from_str(line).with_context(|| format!("line {number} is no JSON"))?);
        }
    }
    if events.is_empty() {
        bail!("there are no events in it");
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_json_is_named() {
        assert_eq!(lines("{\"a\":1}\n\n{}\n").unwrap().len(), 2);
        assert_eq!(lines("{}\n# Title\n").unwrap_err().to_string(), "line 2 is no JSON");
        assert!(lines("\n").is_err());
    }
}
