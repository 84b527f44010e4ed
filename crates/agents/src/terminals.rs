//! The terminals of a child: either in the editor that sent the prompt, or commands that acpd runs
//! itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::editor::{Editor, EditorError, TerminalExit, TerminalRequest};
use domain::hosted::joined;
use domain::tool::{BASH, Location};
use domain::{ToolCard, ToolContent, ToolKind};
use process::{CommandExit, CommandSpec, RunningCommand, SUBCOMMAND, TERMINAL_ARGUMENT, find_shell};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::{oneshot, watch};
use wire::RpcError;
use wire::child::CreateTerminal;

use crate::files::{self, refused};
use crate::services::ServiceContext;

/// The most terminals that one child may have at a time.
const MAX_TERMINALS: usize = 32;

/// The most bytes of output that are kept per terminal, even if the child asks for more.
const OUTPUT: usize = 1 << 20;

/// All terminals of one child, by their ids.
#[derive(Default)]
pub(crate) struct Terminals(Mutex<HashMap<String, Terminal>>);

#[derive(Clone)]
enum Terminal {
    Editor(Arc<dyn Editor>),
    Own(Arc<OwnTerminal>),
}

/// A command that acpd runs. Dropping this ends the command and everything that it started.
struct OwnTerminal {
    output: Arc<Mutex<OutputTail>>,
    exit: watch::Receiver<Option<TerminalExit>>,
    /// Sending on this channel, or dropping it, ends the command.
    kill: Mutex<Option<oneshot::Sender<()>>>,
}

/// The last bytes of an output.
struct OutputTail {
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl OutputTail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let surplus = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..surplus);
        self.is_cut |= surplus > 0;
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Terminals {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Terminal>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Terminal, RpcError> {
        self.lock().get(id).cloned().ok_or_else(|| RpcError::invalid_params("terminalId", "There is no such terminal"))
    }

    /// Replaces terminals in the content of a call with content that clients can show: a reference
    /// to the editor's terminal, or the output of a command that acpd runs.
    pub(crate) fn resolve(&self, content: &mut [ToolContent]) {
        for shown in content {
            let ToolContent::Terminal { id, .. } = shown else { continue };
            *shown = match self.find(id) {
                Ok(Terminal::Editor(editor)) => ToolContent::Terminal { id: id.clone(), owner: editor.connection() },
                Ok(Terminal::Own(own)) => ToolContent::text(lock(&own.output).text()),
                Err(_) => ToolContent::text(String::new()),
            };
        }
    }

    pub(crate) async fn create(
        &self,
        request: CreateTerminal,
        editor: Option<Arc<dyn Editor>>,
        context: &ServiceContext,
    ) -> Result<Value, RpcError> {
        if self.lock().len() >= MAX_TERMINALS {
            return Err(RpcError::invalid_request(format!("{MAX_TERMINALS} terminals are open"), "release one first"));
        }
        let cwd = request.cwd.clone().unwrap_or_else(|| context.site.cwd.clone());
        let folder = files::find(cwd, context).await?;
        if !folder.is_folder() {
            return Err(refused(&format!("{} is not a folder", folder.shown)));
        }
        let text = shell_text(&request);
        let describe = |card: &mut ToolCard| {
            card.input = json!({ "command": text });
            card.preview = vec![ToolContent::text(text)];
            card.locations = vec![Location { path: folder.path.clone(), line: None }];
        };
        context.check(BASH, ToolKind::Execute, describe).await?;
        // An editor cannot run a command in the sandbox.
        let editor = editor.filter(|editor| editor.capabilities().terminal && editor.is_connected());
        if let Some(editor) = editor.filter(|_| !context.is_confined()) {
            let terminal = terminal_request(request, folder.path, context).await;
            let id = editor.open_terminal(terminal).await.map_err(|error| editor_failure(&error))?;
            self.lock().insert(id.clone(), Terminal::Editor(editor));
            return Ok(json!({ "terminalId": id }));
        }
        let own = start(request, &folder.path, context).await?;
        let id = format!("acpd-{}", domain::CallId::new());
        self.lock().insert(id.clone(), Terminal::Own(Arc::new(own)));
        Ok(json!({ "terminalId": id }))
    }

    pub(crate) async fn output(&self, id: String) -> Result<Value, RpcError> {
        let (text, truncated, exit) = match self.find(&id)? {
            Terminal::Editor(editor) => {
                let shown = editor.terminal_output(id).await.map_err(|error| editor_failure(&error))?;
                (shown.text, shown.truncated, shown.exit)
            }
            Terminal::Own(own) => {
                let exit = own.exit.borrow().clone();
                let output = lock(&own.output);
                (output.text(), output.is_cut, exit)
            }
        };
        Ok(json!({ "output": text, "truncated": truncated, "exitStatus": exit.as_ref().map(status) }))
    }

    pub(crate) async fn wait(&self, id: String) -> Result<Value, RpcError> {
        match self.find(&id)? {
            Terminal::Editor(editor) => {
                editor.terminal_exit(id).await.map(|exit| status(&exit)).map_err(|error| editor_failure(&error))
            }
            Terminal::Own(own) => {
                let mut exit = own.exit.clone();
                drop(own);
                let ended = exit.wait_for(Option::is_some).await.map(|exit| exit.clone()).ok().flatten();
                Ok(status(&ended.unwrap_or_default()))
            }
        }
    }

    pub(crate) async fn kill(&self, id: String) -> Result<Value, RpcError> {
        match self.find(&id)? {
            Terminal::Editor(editor) => editor.kill_terminal(id).await.map_err(|error| editor_failure(&error))?,
            Terminal::Own(own) => drop(lock(&own.kill).take()),
        }
        Ok(json!({}))
    }

    pub(crate) fn release(&self, id: String) -> Result<Value, RpcError> {
        let terminal = self.find(&id)?;
        self.lock().remove(&id);
        if let Terminal::Editor(editor) = terminal {
            editor.release_terminal(id);
        }
        Ok(json!({}))
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        for (id, terminal) in self.lock().drain() {
            if let Terminal::Editor(editor) = terminal {
                editor.release_terminal(id);
            }
        }
    }
}

/// Returns the command as a shell command line, which is the form that rules match, with the
/// variables that the child sets, because the command may use them.
fn shell_text(request: &CreateTerminal) -> String {
    let command = match request.args.as_slice() {
        [] => request.command.clone(),
        args => format!("{} {}", joined(&[&request.command]), joined(args)),
    };
    let set = request.env.iter().filter(|(name, _)| is_settable(name) && is_name(name));
    let set: String = set.map(|(name, value)| format!("{name}={} ", joined(&[value]))).collect();
    set + &command
}

/// Moves the variables that the child may set out of the request.
fn variables(request: &mut CreateTerminal) -> impl Iterator<Item = (String, String)> + use<> {
    std::mem::take(&mut request.env).into_iter().filter(|(name, _)| is_settable(name))
}

/// Whether a child may set a variable for its commands. It may not set those by which the daemon
/// recognises them, those that make a shell or the loader run something else, and the place of the
/// sandbox's temporary folder.
fn is_settable(name: &str) -> bool {
    const FIXED: [&str; 8] =
        ["TMPDIR", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "GLOBIGNORE"];
    const PREFIXES: [&str; 4] = ["ACPD_", "LD_", "BASH_FUNC_", "GIT_CONFIG"];
    !FIXED.contains(&name) && !PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a shell accepts an assignment to this name.
fn is_name(name: &str) -> bool {
    name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
        && name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
}

/// Builds the request for a command in the editor's terminal, under the parent by which the daemon
/// recognises it. A command without arguments is run by a shell, as in a terminal of acpd.
async fn terminal_request(mut request: CreateTerminal, cwd: PathBuf, context: &ServiceContext) -> TerminalRequest {
    let site = &context.site;
    let mut environment = context.launcher.environment.for_terminal(site);
    environment.splice(0..0, variables(&mut request));
    let mut words = Vec::new();
    if let Some(program) = &context.terminal_parent {
        words.extend([&*program.to_string_lossy(), SUBCOMMAND, TERMINAL_ARGUMENT].map(str::to_owned));
    }
    if request.args.is_empty() {
        let shell = find_shell(site.environment.get("PATH").map(str::to_owned)).await;
        words.extend([shell, "-c".to_owned(), request.command]);
    } else {
        words.push(request.command);
        words.extend(request.args);
    }
    TerminalRequest {
        command: words.remove(0),
        args: words,
        environment,
        cwd,
        output_limit: request.output_limit.unwrap_or(OUTPUT as u64),
    }
}

async fn start(mut request: CreateTerminal, cwd: &Path, context: &ServiceContext) -> Result<OwnTerminal, RpcError> {
    let variables = variables(&mut request);
    let mut command = context.launcher.shell_command(&request.command, &context.site.environment, cwd).await;
    if !request.args.is_empty() {
        command = CommandSpec { program: request.command, arguments: request.args, ..command };
    }
    command.environment.extend(variables);
    command.sandbox = context.sandbox().await.map_err(|reason| refused(&reason))?;
    let started = command.start().await.map_err(|error| refused(&format!("starting the command: {error}")))?;
    let limit = request.output_limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(OUTPUT).min(OUTPUT);
    let output = Arc::new(Mutex::new(OutputTail { bytes: Vec::new(), limit, is_cut: false }));
    let (kill, killed) = oneshot::channel();
    let (tell, exit) = watch::channel(None);
    tokio::spawn(wait_for_exit(started, output.clone(), killed, tell));
    Ok(OwnTerminal { output, exit, kill: Mutex::new(Some(kill)) })
}

/// Collects the output of a command until it and everything that it started is gone.
async fn wait_for_exit(
    started: RunningCommand,
    output: Arc<Mutex<OutputTail>>,
    mut killed: oneshot::Receiver<()>,
    tell: watch::Sender<Option<TerminalExit>>,
) {
    let RunningCommand { mut process, output: mut pipe } = started;
    let mut buffer = vec![0; 16 * 1024];
    let (mut is_open, mut is_wanted) = (true, true);
    let ended = loop {
        tokio::select! {
            read = pipe.read(&mut buffer), if is_open => match read {
                Ok(length @ 1..) => lock(&output).push(&buffer[..length]),
                Ok(0) | Err(_) => is_open = false,
            },
            _ = &mut killed, if is_wanted => {
                is_wanted = false;
                process.end();
            }
            ended = process.ended() => break ended,
        }
    };
    while let Ok(Ok(length @ 1..)) =
        tokio::time::timeout(std::time::Duration::from_millis(100), pipe.read(&mut buffer)).await
    {
        lock(&output).push(&buffer[..length]);
    }
    let exit = match ended {
        CommandExit::Exited(code) => TerminalExit { code: u32::try_from(code).ok(), signal: None },
        CommandExit::Signalled(signal) => TerminalExit { code: None, signal: Some(signal.to_string()) },
        CommandExit::Failed(reason) => {
            lock(&output).push(reason.as_bytes());
            TerminalExit { code: Some(127), signal: None }
        }
        CommandExit::TooMany(_) | CommandExit::Lost => TerminalExit { code: None, signal: Some("9".to_owned()) },
    };
    tell.send_replace(Some(exit));
}

fn status(exit: &TerminalExit) -> Value {
    json!({ "exitCode": exit.code, "signal": exit.signal })
}

fn editor_failure(error: &EditorError) -> RpcError {
    RpcError::internal(error.to_string(), "continue without the terminal")
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every operation leaves the value consistent, so a poisoned lock is harmless.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_kept() {
        let mut tail = OutputTail { bytes: Vec::new(), limit: 4, is_cut: false };
        tail.push(b"abc");
        assert_eq!((tail.text().as_str(), tail.is_cut), ("abc", false));
        tail.push(b"def");
        assert_eq!((tail.text().as_str(), tail.is_cut), ("cdef", true));
    }

    #[test]
    fn variables_count_for_rules_and_those_that_choose_what_runs_are_dropped() {
        let env = ["D", "TMPDIR", "BASH_ENV", "LD_PRELOAD", "ACPD_TOOL", "GIT_CONFIG_COUNT"];
        let mut request = CreateTerminal {
            command: "cat $D/x".to_owned(),
            args: Vec::new(),
            env: env.map(|name| (name.to_owned(), "/home/me/a b".to_owned())).to_vec(),
            cwd: None,
            output_limit: None,
        };
        assert_eq!(shell_text(&request), "D='/home/me/a b' cat $D/x");
        let kept: Vec<String> = variables(&mut request).map(|(name, _)| name).collect();
        assert_eq!(kept, ["D"]);
    }
}
