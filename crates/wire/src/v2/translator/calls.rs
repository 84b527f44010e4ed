//! Tool calls and the terminals of shell commands.
//!
//! A shell command is a terminal that acpd owns, under the id of its call. It outlives the call if
//! the command continues in the background. The call of a sub-agent in the background stays in
//! progress.

use std::path::Path;

use domain::state::{BackgroundWork, OpenCall};
use domain::{CallId, Outcome, ToolCard, ToolContent, ToolKind};
use serde_json::{Value, json};

use super::{EventOutput, Translator, announced};
use crate::v1;
use crate::v2::encode::content;

/// A call without an outcome, as the client sees it.
#[derive(Debug)]
pub(super) struct ShownCall {
    pub(super) card: ToolCard,
    pub(super) is_started: bool,
    /// Whether it waits for the user.
    pub(super) waits: bool,
    /// The content that the client has received since the call started.
    shown: Vec<ToolContent>,
}

impl ShownCall {
    pub(super) fn new(card: ToolCard, is_started: bool) -> Self {
        Self { card, is_started, waits: false, shown: Vec::new() }
    }

    /// A call that is open where the client starts.
    pub(super) fn open(open: OpenCall) -> Self {
        Self { waits: open.paused, ..Self::new(open.card, open.started) }
    }

    /// The command, if the call runs one in a terminal.
    fn command(&self) -> Option<&str> {
        Some(self.card.command()).filter(|command| !command.is_empty())
    }

    /// The folder in which the command runs. A call may name another than the session's.
    fn folder(&self, cwd: &Path) -> String {
        let named = self.card.input.get("workdir").and_then(Value::as_str);
        content::path(&named.map_or_else(|| cwd.to_owned(), |named| cwd.join(named)))
    }

    /// The updates that show that the call runs.
    pub(super) fn start(&self, id: &CallId, cwd: &Path) -> Vec<Value> {
        let mut update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": "in_progress",
            "capabilities": { "cancel": {} },
        });
        let Some(command) = self.command() else { return vec![update] };
        update["content"] = json!([content::terminal_content(id)]);
        let terminal = json!({
            "sessionUpdate": "terminal_update",
            "terminalId": id,
            "command": command,
            "cwd": self.folder(cwd),
            "capabilities": { "cancel": {} },
        });
        vec![terminal, update]
    }

    /// A sentence that explains to the user why acpd asks.
    pub(super) fn explanation(&self, cwd: &Path) -> String {
        match self.card.kind {
            ToolKind::Execute if self.command().is_some() => format!("Runs a command in {}", self.folder(cwd)),
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => "Changes files".to_owned(),
            ToolKind::Fetch => "Fetches something from the network".to_owned(),
            ToolKind::SwitchMode => "Changes which tools the agent may use".to_owned(),
            ToolKind::Read | ToolKind::Search => "Reads files".to_owned(),
            ToolKind::Execute | ToolKind::Think | ToolKind::Other => format!("Uses the tool {}", self.card.tool),
        }
    }

    /// The subject of the question to the user.
    pub(super) fn subject(&self, id: &CallId, cwd: &Path) -> Value {
        match self.command() {
            Some(command) => json!({
                "type": "command",
                "command": command,
                "cwd": self.folder(cwd),
                "toolCallId": id,
            }),
            None => json!({ "type": "tool_call", "toolCall": content::pending_call(id, &self.card) }),
        }
    }

    /// The update that changes the terminal's output to this text, if it differs.
    fn output(&mut self, id: &CallId, text: String) -> Option<Value> {
        let before = plain_text(&self.shown);
        let update = match text.strip_prefix(&before) {
            Some("") => return None,
            Some(more) => output_chunk(id, more),
            None => json!({
                "sessionUpdate": "terminal_update",
                "terminalId": id,
                "output": { "data": content::base64(&text) },
            }),
        };
        self.shown = vec![ToolContent::Text { text }];
        Some(update)
    }

    /// The updates that change the content to this list: only the new pieces if it was extended,
    /// otherwise all of it.
    fn progress(&mut self, id: &CallId, shown: &[ToolContent], status: &str) -> Vec<Value> {
        let kind = self.card.kind;
        let more = shown.strip_prefix(self.shown.as_slice()).filter(|_| !self.shown.is_empty());
        let updates = match more {
            Some(more) => {
                let chunk = |content: Value| json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": content });
                more.iter().filter_map(|content| content::tool_content(content, kind)).map(chunk).collect()
            }
            None => vec![json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": id,
                "status": status,
                "content": content::tool_contents(shown, kind),
            })],
        };
        self.shown = shown.to_vec();
        updates
    }
}

impl Translator {
    pub(super) fn announce(&mut self, call: &CallId, card: &ToolCard, output: &mut EventOutput) {
        self.calls.insert(call.clone(), ShownCall::new(card.clone(), false));
        if !self.hidden.contains(call) {
            output.update(announced(call, card));
        }
    }

    pub(super) fn start(&mut self, id: &CallId, output: &mut EventOutput) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.is_started = true;
        if !self.hidden.contains(id) {
            output.updates.extend(call.start(id, &self.cwd));
        }
    }

    /// Shows a hidden call before the user is asked about it.
    pub(super) fn reveal(&mut self, id: &CallId, output: &mut EventOutput) {
        if self.hidden.remove(id)
            && let Some(call) = self.calls.get(id)
        {
            output.update(announced(id, &call.card));
            output.updates.extend(call.is_started.then(|| call.start(id, &self.cwd)).into_iter().flatten());
        }
    }

    /// Marks a call as waiting for the user, or as continuing.
    pub(super) fn wait(&mut self, id: &CallId, waits: bool, output: &mut EventOutput) {
        if waits {
            self.reveal(id, output);
        }
        if let Some(call) = self.calls.get_mut(id) {
            call.waits = waits;
        }
    }

    pub(super) fn progress(&mut self, id: &CallId, shown: &[ToolContent], output: &mut EventOutput) {
        let Some(call) = self.calls.get_mut(id).filter(|_| !self.hidden.contains(id)) else { return };
        if call.command().is_some() && call.is_started {
            output.updates.extend(call.output(id, plain_text(shown)));
        } else {
            let status = if self.paused.contains(id) { "paused" } else { "in_progress" };
            output.updates.extend(call.progress(id, shown, status));
        }
    }

    pub(super) fn end(&mut self, number: u64, id: &CallId, outcome: &Outcome, output: &mut EventOutput) {
        let call = self.calls.remove(id);
        self.within.remove(id);
        self.paused.remove(id);
        if self.hidden.remove(id) {
            return;
        }
        let mut update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": content::status(outcome.verdict),
            "rawOutput": v1::encode::content::raw_output(outcome),
            "capabilities": null,
        });
        let kind = call.as_ref().map_or(ToolKind::Other, |call| call.card.kind);
        let shown = match (outcome.content.is_empty(), outcome.text.is_empty()) {
            (false, _) => Some(content::tool_contents(&outcome.content, kind)),
            (true, false) => Some(vec![content::text_content(&outcome.text)]),
            // Without content the client keeps what it shows.
            (true, true) => None,
        };
        match (call.filter(|call| call.is_started), &outcome.background) {
            (Some(call), Some(handle)) => {
                let mut shown = shown.unwrap_or_default();
                if call.command().is_some() {
                    shown.insert(0, content::terminal_content(id));
                } else {
                    // The model has its outcome, but the work continues, so the call is not over
                    // for the client.
                    update["status"] = json!("in_progress");
                    update["capabilities"] = json!({ "cancel": {} });
                }
                update["content"] = json!(shown);
                self.background.insert(handle.clone(), BackgroundWork::new(id.clone(), call.card, number));
            }
            (Some(mut call), None) if call.command().is_some() => {
                let text = plain_text(&outcome.content);
                let text = if text.is_empty() { outcome.text.clone() } else { text };
                output.updates.extend(call.output(id, text));
                let number = |name: &str| outcome.raw.get(name).and_then(Value::as_i64);
                let number = |name: &str| number(name).and_then(|number| i32::try_from(number).ok());
                output.update(exited(id, number("exitCode"), number("signal")));
                update["content"] = json!([content::terminal_content(id)]);
            }
            (Some(_) | None, _) => {
                if let Some(shown) = shown {
                    update["content"] = json!(shown);
                }
            }
        }
        output.update(update);
    }
}

/// The text of all text pieces, joined.
fn plain_text(shown: &[ToolContent]) -> String {
    let text = |content: &ToolContent| match content {
        ToolContent::Text { text } => Some(text.clone()),
        ToolContent::Diff { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    };
    shown.iter().filter_map(text).collect()
}

/// The updates that show work in the background to a client that has not seen it before.
pub(super) fn in_background(work: &BackgroundWork, cwd: &Path) -> Vec<Value> {
    let call = ShownCall::new(work.card.clone(), true);
    let Some(command) = call.command() else {
        let mut update = announced(&work.call, &work.card);
        update["status"] = json!("in_progress");
        update["capabilities"] = json!({ "cancel": {} });
        return vec![update];
    };
    vec![json!({
        "sessionUpdate": "terminal_update",
        "terminalId": work.call,
        "command": command,
        "cwd": call.folder(cwd),
        "output": { "data": content::base64(&work.output) },
        "capabilities": { "cancel": {} },
    })]
}

/// The update for the end of work in the background.
pub(super) fn ended_in_background(work: &BackgroundWork, exit_code: Option<i32>, signal: Option<i32>) -> Value {
    if !work.card.command().is_empty() {
        return exited(&work.call, exit_code, signal);
    }
    let status = match exit_code {
        Some(0) => "completed",
        Some(_) => "failed",
        None => "cancelled",
    };
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": work.call, "status": status, "capabilities": null })
}

pub(super) fn output_chunk(call: &CallId, text: &str) -> Value {
    json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": call, "data": content::base64(text) })
}

/// The update for the end of a terminal's command.
fn exited(call: &CallId, exit_code: Option<i32>, signal: Option<i32>) -> Value {
    let mut status = json!({});
    if let Some(code) = exit_code {
        status["exitCode"] = json!(code);
    }
    if let Some(signal) = signal {
        status["signal"] = json!(signal_name(signal));
    }
    json!({
        "sessionUpdate": "terminal_update",
        "terminalId": call,
        "exitStatus": status,
        "capabilities": null,
    })
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}
