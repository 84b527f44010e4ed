//! The output of `ask`: text for users through the printer, or lines of JSON for scripts.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use terminal::consent::Consent;
use terminal::picker::Picker;
use terminal::session_printer::SessionPrinter;
use terminal::status_line::StatusLine;
use wire::method;

use crate::client::Refused;
use crate::commands::json_output::print_line;

pub(super) enum Output {
    Text(Box<SessionPrinter>),
    Json,
}

impl Output {
    pub(super) fn update(&mut self, params: &Value) -> anyhow::Result<()> {
        match self {
            Self::Text(printer) => printer.update(&params["update"])?,
            Self::Json => print_line(&json!({ "method": method::SESSION_UPDATE, "params": params })),
        }
        Ok(())
    }

    /// Shows a piece of an answer on stderr, because it is not an answer to the prompt.
    pub(super) fn answer_aside(&mut self, update: &Value) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.answer_aside(update)?;
        }
        Ok(())
    }

    /// Shows a question. Returns the rows that remain.
    pub(super) fn question(&mut self, params: &Value, consent: &Consent) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Text(printer) => Ok(printer.question(params, consent)?),
            Self::Json => {
                print_line(&json!({ "method": method::SESSION_REQUEST_PERMISSION, "params": params }));
                Ok(Vec::new())
            }
        }
    }

    /// Shows more rows of a question. Returns the rows that remain.
    pub(super) fn question_rows(&mut self, rows: Vec<String>) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Text(printer) => Ok(printer.question_rows(rows)?),
            Self::Json => Ok(Vec::new()),
        }
    }

    /// Whether progress and input are shown at a terminal.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Text(printer) if printer.is_live())
    }

    /// Whether what the user types during a turn is for the turn. Without a terminal for the
    /// answer, it is for whatever runs next. A dumb terminal shows a line when it is sent.
    pub(super) fn takes_input(&self) -> bool {
        matches!(self, Self::Text(_)) && io::stdout().is_terminal()
    }

    pub(super) fn begin_turn(&mut self) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.begin_turn()?;
        }
        Ok(())
    }

    /// Draws the progress again.
    pub(super) fn tick(&mut self) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.tick()?;
        }
        Ok(())
    }

    /// Draws the progress afresh whenever the flag is set, because a shell has used the terminal.
    pub(super) fn forget_when(&mut self, resumed: Arc<AtomicBool>) {
        if let Self::Text(printer) = self {
            printer.forget_when(resumed);
        }
    }

    /// Shows what the user has typed during the turn.
    pub(super) fn typing(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.typing(text)?;
        }
        Ok(())
    }

    /// Shows a prompt that was sent during the turn.
    pub(super) fn prompt(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.typed_prompt(text)?;
        }
        Ok(())
    }

    /// Prints the status line.
    pub(super) fn show_status(&mut self) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.show_status()?;
        }
        Ok(())
    }

    /// Shows a list to choose from.
    pub(super) fn overlay(&mut self, picker: Option<&Picker>) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.overlay(picker)?;
        }
        Ok(())
    }

    /// Shows the changes in a file.
    pub(super) fn diff(&mut self, path: &Path, old: &str, new: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.diff(path, old, new)?;
        }
        Ok(())
    }

    /// Shows the thought that was folded last, or sets whether thoughts are folded.
    pub(super) fn thoughts(&mut self, wanted: &str) -> anyhow::Result<()> {
        let Self::Text(printer) = self else { return Ok(()) };
        match wanted {
            "" if printer.unfold_thought()? => Ok(()),
            "" => self.remark("no thought is folded; /thoughts on shows them as a whole, /thoughts off folds them"),
            "on" | "off" => {
                printer.fold_thoughts(wanted == "off");
                let how = if printer.folds_thoughts() { "folded" } else { "shown as a whole" };
                self.remark(&format!("thoughts are {how} now"))
            }
            _ => self.trouble("use /thoughts, /thoughts on or /thoughts off"),
        }
    }

    /// Folds long thoughts. Used in a conversation, where they can be shown again.
    pub(super) fn fold_thoughts(&mut self) {
        if let Self::Text(printer) = self {
            printer.fold_thoughts(true);
        }
    }

    /// Copies the options of a session into the status line.
    pub(super) fn learn_options(&mut self, options: &Value) {
        if let Self::Text(printer) = self
            && let Some(status) = printer.status_mut()
        {
            status.options(options);
        }
    }

    pub(super) fn replace_status(&mut self, status: &StatusLine) {
        if let Self::Text(printer) = self {
            printer.set_status(status.clone());
        }
    }

    /// Stops showing a turn that continues in the daemon.
    pub(super) fn abandon(&mut self) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.end()?;
        }
        Ok(())
    }

    /// Reports the end of the turn, or that it could not run.
    pub(super) fn ended(&mut self, session: &str, result: &anyhow::Result<Value>) -> anyhow::Result<()> {
        match (self, result) {
            (Self::Text(printer), _) => printer.end()?,
            (Self::Json, Ok(ended)) => {
                let line = json!({ "sessionId": session, "stopReason": ended["stopReason"], "usage": ended["usage"] });
                print_line(&line);
            }
            (Self::Json, Err(error)) => {
                let error = match error.downcast_ref::<Refused>() {
                    Some(Refused { error, .. }) => {
                        json!({ "code": error.code, "message": error.message, "data": error.data })
                    }
                    None => json!({ "message": format!("{error:#}") }),
                };
                print_line(&json!({ "sessionId": session, "error": error }));
            }
        }
        Ok(())
    }

    /// Shows a remark to the user; scripts do not receive it.
    pub(super) fn remark(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.remark(text)?;
        }
        Ok(())
    }

    pub(super) fn interrupted(&mut self) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.interrupted()?;
        }
        Ok(())
    }

    pub(super) fn trouble(&mut self, text: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.trouble(text)?;
        }
        Ok(())
    }

    pub(super) fn keys(&mut self, keys: &[String]) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.keys(keys)?;
        }
        Ok(())
    }

    pub(super) fn decided(&mut self, what: &str) -> anyhow::Result<()> {
        if let Self::Text(printer) = self {
            printer.decided(what)?;
        }
        Ok(())
    }
}
