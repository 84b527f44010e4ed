//! `ctl export`: writes a session's log, page by page, as JSON lines or as Markdown.
//!
//! Lines are copied as the daemon wrote them, which preserves unknown events of a newer daemon.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;
use domain::{Event, escape};
use terminal::log_markdown::LogMarkdown;

use super::DaemonClient;
use crate::cli::ExportArgs;
use crate::commands::session_log::read_page;

pub(super) async fn run(daemon: &mut DaemonClient, args: &ExportArgs) -> anyhow::Result<()> {
    let session = daemon.find(&args.which.id).await?;
    // The file is created only when there is something to write.
    let mut page = read_page(&mut daemon.client, &session, 1).await?;
    let output: Box<dyn Write> = match &args.output {
        None => Box::new(BufWriter::new(io::stdout().lock())),
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(BufWriter::new(file))
        }
    };
    let mut markdown = args.markdown.then(LogMarkdown::default);
    let mut output = Output { output, terminal: args.output.is_none() && io::stdout().is_terminal() };
    loop {
        for event in &page.events {
            match &mut markdown {
                None => output.json(event.get())?,
                // Unknown events of a newer daemon are omitted from the Markdown.
                Some(markdown) => match serde_json::from_str::<Event>(event.get()) {
                    Ok(event) => output.text(&markdown.add(&event))?,
                    Err(_) => continue,
                },
            }
        }
        match page.next {
            Some(next) => page = read_page(&mut daemon.client, &session, next).await?,
            None => break,
        }
    }
    if let Some(markdown) = markdown {
        output.text(&markdown.end())?;
    }
    output.output.flush().context("cannot write the whole history")
}

/// The destination of the log. On a terminal, invisible characters are escaped; a file or a pipe
/// receives every byte unchanged.
struct Output {
    output: Box<dyn Write>,
    terminal: bool,
}

impl Output {
    fn text(&mut self, text: &str) -> io::Result<()> {
        let text = if self.terminal { escape::text(text) } else { text.into() };
        self.output.write_all(text.as_bytes())
    }

    fn json(&mut self, line: &str) -> io::Result<()> {
        let line = if self.terminal { escape::json(line) } else { line.into() };
        writeln!(self.output, "{line}")
    }
}
