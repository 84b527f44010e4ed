//! Runs one command in a terminal of the editor that sent the prompt: starts it there, waits for
//! its end, reads its output, and always releases the terminal.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use domain::editor::{Editor, EditorError, TerminalExit, TerminalId, TerminalRequest};
use domain::tool::ToolHost;
use domain::{Outcome, ToolContent};
use process::pause;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{LIVE_LIMIT, Output, with_note};

/// How often the output is read at first, for clients that do not show the terminal.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// How long ending a command and reading its last output may take. A cancelled call has 2 seconds
/// in total.
const FINAL_OUTPUT_DEADLINE: Duration = Duration::from_millis(800);

/// How long an editor may take to open a terminal. One that opens later is released at once.
const OPENING: Duration = Duration::from_secs(10);

const GONE: &str = "the editor in whose terminal the command ran is gone; whether the command has ended is not known";

const SILENT: &str = "the editor did not open a terminal in time; the command was not run as far as is known";

/// A terminal of the editor. Dropping this releases the terminal, which also ends what still runs
/// in it.
struct Terminal {
    editor: Arc<dyn Editor>,
    id: TerminalId,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.editor.release_terminal(self.id.clone());
    }
}

/// Replaces output that the editor no longer has.
const CUT: &str = "[the beginning is cut, because the editor's terminal keeps only the end; to read all of it, send the \
    output to a file and read that]";

/// The reason why the wait for a command ended.
enum TerminalEnd {
    Exited(TerminalExit),
    Cancelled,
    TimedOut,
    Lost(EditorError),
}

/// Runs a command. Returns None if the editor refused to open a terminal; nothing was run in that
/// case.
pub(super) async fn run(
    editor: Arc<dyn Editor>,
    request: TerminalRequest,
    limit: Duration,
    host: &dyn ToolHost,
) -> Option<Outcome> {
    let bytes = usize::try_from(request.output_limit).unwrap_or(usize::MAX);
    let command = request.args.last().cloned().unwrap_or_default();
    let terminal = tokio::select! {
        opened = timeout(OPENING, open(editor, request)) => match opened {
            Ok(Ok(terminal)) => terminal,
            Err(_) => return Some(Outcome::failed(SILENT)),
            Ok(Err(EditorError::Refused(reason))) => {
                tracing::debug!(reason, "the editor opened no terminal");
                return None;
            }
            Ok(Err(EditorError::Gone)) => return Some(Outcome::failed(GONE)),
        },
        () = host.cancelled() => return Some(Outcome::cancelled()),
    };
    host.progress(vec![terminal.shown(), ToolContent::text(command)]);
    let end = terminal.watch(bytes, limit, host).await;
    if matches!(end, TerminalEnd::Cancelled | TerminalEnd::TimedOut) {
        let _ = timeout(FINAL_OUTPUT_DEADLINE, terminal.editor.kill_terminal(terminal.id.clone())).await;
    }
    let (written, cut) = match &end {
        TerminalEnd::Lost(EditorError::Gone) => (Output::new(bytes), false),
        TerminalEnd::Exited(_) => terminal.read(bytes).await.unwrap_or_else(|| (Output::new(bytes), false)),
        TerminalEnd::Cancelled | TerminalEnd::TimedOut | TerminalEnd::Lost(EditorError::Refused(_)) => {
            let read = timeout(FINAL_OUTPUT_DEADLINE, terminal.read(bytes)).await;
            read.ok().flatten().unwrap_or_else(|| (Output::new(bytes), false))
        }
    };
    Some(terminal.conclude(&written.text(), cut || written.is_cut(), &end, limit))
}

/// Opens a terminal in a separate task, so that a terminal that opens too late is released at once.
async fn open(editor: Arc<dyn Editor>, request: TerminalRequest) -> Result<Terminal, EditorError> {
    let opening = tokio::spawn(async move {
        let id = editor.open_terminal(request).await?;
        Ok(Terminal { editor, id })
    });
    opening.await.unwrap_or(Err(EditorError::Gone))
}

impl Terminal {
    async fn watch(&self, bytes: usize, limit: Duration, host: &dyn ToolHost) -> TerminalEnd {
        tokio::select! {
            exit = self.editor.terminal_exit(self.id.clone()) => match exit {
                Ok(exit) => TerminalEnd::Exited(exit),
                Err(error) => TerminalEnd::Lost(error),
            },
            () = host.cancelled() => TerminalEnd::Cancelled,
            () = sleep(limit) => TerminalEnd::TimedOut,
            never = self.show(bytes, host) => match never {},
        }
    }

    /// Shows new output from time to time.
    async fn show(&self, bytes: usize, host: &dyn ToolHost) -> Infallible {
        let began = Instant::now();
        let mut before = String::new();
        loop {
            sleep(pause(began.elapsed()).max(LIVE_INTERVAL)).await;
            let Some((output, _)) = self.read(bytes).await else { continue };
            let now = output.live(LIVE_LIMIT);
            if now != before {
                host.progress(vec![self.shown(), ToolContent::text(&now)]);
                before = now;
            }
        }
    }

    /// Returns the output so far, and whether the editor has truncated it.
    async fn read(&self, bytes: usize) -> Option<(Output, bool)> {
        let read = self.editor.terminal_output(self.id.clone()).await.ok()?;
        let mut output = Output::new(bytes);
        output.push(read.text.as_bytes());
        Some((output, read.truncated))
    }

    fn shown(&self) -> ToolContent {
        ToolContent::Terminal { id: self.id.clone(), owner: self.editor.connection() }
    }

    fn conclude(&self, written: &str, cut: bool, end: &TerminalEnd, limit: Duration) -> Outcome {
        let (code, signal) = match end {
            TerminalEnd::Exited(exit) => (exit.code, exit.signal.as_deref()),
            TerminalEnd::Cancelled | TerminalEnd::TimedOut | TerminalEnd::Lost(_) => (None, None),
        };
        let note = match (end, code, signal) {
            (TerminalEnd::Exited(_), Some(0), _) => None,
            (TerminalEnd::Exited(_), _, Some(signal)) => Some(format!("ended by signal {signal}")),
            (TerminalEnd::Exited(_), Some(code), None) => Some(format!("exit status {code}")),
            (TerminalEnd::Exited(_), None, None) => Some("the editor did not say how the command ended".to_owned()),
            (TerminalEnd::Cancelled, ..) => Some("stopped".to_owned()),
            (TerminalEnd::TimedOut, ..) => {
                Some(format!("timed out after {} ms; the command was stopped", limit.as_millis()))
            }
            (TerminalEnd::Lost(EditorError::Gone), ..) => Some(GONE.to_owned()),
            (TerminalEnd::Lost(EditorError::Refused(reason)), ..) => {
                Some(format!("the editor lost the command: {reason}"))
            }
        };
        let written = if cut { format!("{CUT}\n{written}") } else { written.to_owned() };
        let text = match &note {
            None if written.trim().is_empty() => "(no output)".to_owned(),
            None => written,
            Some(note) => with_note(&written, note),
        };
        let outcome = match (end, &note) {
            (TerminalEnd::Cancelled, _) => Outcome::cancelled(),
            (TerminalEnd::Exited(_), None) => Outcome::completed(&text),
            (TerminalEnd::Exited(_) | TerminalEnd::TimedOut | TerminalEnd::Lost(_), _) => Outcome::failed(&text),
        };
        let raw: Value = json!({
            "exitCode": code,
            "signal": signal,
            "timedOut": matches!(end, TerminalEnd::TimedOut),
            "truncated": cut,
        });
        outcome.showing(vec![self.shown(), ToolContent::text(text)]).with_raw(raw)
    }
}
