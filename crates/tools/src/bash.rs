//! `bash`: runs a shell command under the helper, with a deadline and live output, and leaves no
//! process behind.
//!
//! This module plans and describes a command; `process` starts and ends it.

mod folder;
mod terminal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::editor::{Editor, TerminalRequest};
use domain::text::cut;
use domain::tool::{Job, ToolHost, ToolSpec};
use domain::{Access, CallSite, Grant, Mode, Outcome, ToolCard, ToolContent, ToolKind};
use futures_util::future::BoxFuture;
use policy::{grants, protected_paths};
use process::background::{BackgroundCommands, BackgroundStart};
use process::confine::{AccessLimits, Roots};
use process::{
    CommandResult, CommandSpec, Interruption, LIVE_LIMIT, LandlockSupport, Output, RunningCommand, SUBCOMMAND, Sandbox,
    SharedOutput, TERMINAL_ARGUMENT, find_shell, watch,
};
use serde::Deserialize;
use serde_json::json;
use tokio::net::unix::pipe;

use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{ToolSettings, input, outputs};

/// The longest command, in bytes. The kernel accepts no argument longer than 128 KB.
const LONGEST_COMMAND: usize = 100 * 1024;

/// The restrictions of the sandbox, for users and for a model whose command failed in it.
const SANDBOX_RULES: &str = "it may write only inside the session's folders and $TMPDIR, and has no network";

/// The outcome of a command whose folder was replaced after the question.
const MOVED: &str =
    "nothing was run, because the folder of the call is no longer the one that the user was asked about";

/// The note for users about a search that cannot read acpd's own files.
const SHIELDED: &str = "Searches a folder with acpd's own files in it, which it cannot read.";

pub(crate) struct BashTool;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "cmd", alias = "script", deserialize_with = "input::filled")]
    command: String,
    #[serde(default, alias = "timeout", deserialize_with = "input::number")]
    timeout_ms: Option<u64>,
    #[serde(default, alias = "run_in_background", deserialize_with = "input::flag")]
    background: bool,
    #[serde(default, alias = "cwd", alias = "directory")]
    workdir: Option<String>,
    #[serde(default, deserialize_with = "input::flag")]
    input: bool,
}

impl Tool for BashTool {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Execute
    }

    fn verb(&self) -> &'static str {
        "Run"
    }

    fn spec(&self, settings: &ToolSettings) -> ToolSpec {
        let (default, most) = (settings.bash.timeout.as_millis(), settings.bash.timeout_max.as_millis());
        ToolSpec {
            name: self.name().to_owned(),
            description: format!(
                "Runs a command with bash in the session's working folder and returns its output, standard output \
                 and standard error in the order written, and its exit status.\n\
                 - Each call is a new shell: `cd` and variables do not carry over. To run it in another folder set \
                 `workdir`.\n\
                 - There is no terminal and no input: pass flags such as `--yes`, and give `git commit` its `-m`.\n\
                 - When the command is done, everything that it started with `&` is ended too. For a server, a watcher or \
                 a long build set `background`: the call returns at once with a handle for bash_output, bash_input and \
                 bash_stop, and you are notified when it has ended.\n\
                 - The default timeout is {default} ms and the longest {most} ms. Long output is cut, and the \
                 cut names a file with all of it, or says how to get it.\n\
                 - The user is asked before a command runs, and may allow a simple command such as `cargo test` for \
                 good; so prefer simple commands over chains. To read, find, search or edit files use the other \
                 tools, which need no shell."
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command, for example `cargo test -p parser`."},
                    "timeout_ms": {"type": "integer", "description": format!("Milliseconds before the command is stopped. Default {default}, at most {most}.")},
                    "background": {"type": "boolean", "description": "Leave the command running and return at once. It has no timeout unless one is given. Default: false."},
                    "workdir": {"type": "string", "description": "The folder to run in, inside the session's folders. Default: the working folder."},
                    "input": {"type": "boolean", "description": "Only with `background`: keep the standard input open for bash_input. Default: false."},
                    "description": {"type": "string", "description": "What the command does, in five to ten words, for the user."}
                },
                "required": ["command"]
            }),
            read_only: false,
        }
    }

    fn plan(&self, call: CallRequest) -> Result<Box<dyn Job>, RefusalReason> {
        let mut input: Input = input::parse(&call.input)?;
        if input.command.len() > LONGEST_COMMAND {
            let limit = LONGEST_COMMAND / 1024;
            return Err(RefusalReason(format!(
                "the command is longer than {limit} KB; write a script file and run that"
            )));
        }
        if input.command.contains('\0') {
            return Err(RefusalReason("the command contains a NUL character".to_owned()));
        }
        if input.input && !input.background {
            return Err(RefusalReason(
                "`input` needs `background`: without it nothing can be written to the command".to_owned(),
            ));
        }
        let folder = folder::choose(&mut input.command, input.workdir.as_deref(), &call)?;
        let given = input.timeout_ms.filter(|milliseconds| *milliseconds > 0).map(Duration::from_millis);
        let timeout = if input.background {
            given
        } else {
            Some(given.unwrap_or(call.settings.bash.timeout).min(call.settings.bash.timeout_max))
        };
        let mut title = title(&input.command);
        let mut preview = vec![ToolContent::text(&input.command)];
        if let Some(folder) = &folder {
            title.push_str(&format!(" (in {})", folder.shown));
            preview.push(ToolContent::text(format!("Runs in {}.", folder.real.display())));
        }
        if input.background {
            title.push_str(" (in the background)");
            preview.push(ToolContent::text("Goes on in the background after the call has returned."));
        }
        let mut always = grants::always_grant(&input.command).map(|grant| match (grant, &folder) {
            // The same command text in another folder is a different command.
            (Grant::Exactly(command), Some(folder)) => Grant::Exactly(format!("{command} (in {})", folder.shown)),
            (grant, _) => grant,
        });
        let cwd = folder.map_or_else(|| call.site.cwd.clone(), |folder| folder.real);
        if call.site.mode == Mode::Sandbox {
            always = always.map(|grant| Grant::Sandboxed(Box::new(grant)));
            title.push_str(" (in the sandbox)");
            preview.push(ToolContent::text(format!("Runs in the sandbox: {SANDBOX_RULES}.")));
        }
        let mut shielded = false;
        let mut access = Access::Ask { always };
        // The sandbox keeps commands away from acpd's own files. Outside it a plain search is
        // shielded from them, and only the user can decide about any other command.
        if call.site.mode != Mode::Sandbox
            && let Some(reach) = ProtectedAccess::of(&input.command, &cwd, &call.site, &call.limits.protected_paths)
        {
            shielded = reach == ProtectedAccess::Around && can_be_shielded(&input.command);
            if shielded {
                preview.push(ToolContent::text(SHIELDED));
            } else {
                access = Access::AskEveryTime;
                preview.push(ToolContent::text(reach.text()));
            }
        }
        let card = ToolCard {
            tool: self.name().to_owned(),
            title,
            kind: self.kind(),
            locations: Vec::new(),
            preview,
            access,
            input: call.input,
        };
        let background = input.background.then_some(call.background);
        let (site, settings, limits) = (call.site, call.settings, call.limits);
        let (command, open_input) = (input.command, input.input);
        Ok(Box::new(BashJob { card, command, cwd, timeout, background, open_input, shielded, site, settings, limits }))
    }
}

/// How a command reaches acpd or its files, as far as its text shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtectedAccess {
    /// The command names acpd's own files.
    Names,
    /// The command traverses a folder that contains them.
    Around,
    /// The command calls acpd.
    Calls,
}

impl ProtectedAccess {
    pub(crate) fn of(command: &str, cwd: &Path, site: &CallSite, protected: &[PathBuf]) -> Option<Self> {
        if protected_paths::names_protected_path(command, protected, cwd, &site.environment) {
            return Some(Self::Names);
        }
        if protected_paths::calls_acpd(command) {
            return Some(Self::Calls);
        }
        protected_paths::reads_protected_tree(command, protected, cwd, &site.environment).then_some(Self::Around)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Names => "Names acpd's own files: its state, keys or configuration.",
            Self::Around => "Goes through a folder with acpd's own files in it: its state, keys or configuration.",
            Self::Calls => "Calls acpd itself, which can answer for you.",
        }
    }
}

/// Returns whether the command can run without access to acpd's own files. It must be a plain
/// search: other commands may need to read files that they create beside those files, or to become
/// another user, and the shield prevents both.
fn can_be_shielded(command: &str) -> bool {
    matches!(grants::always_grant(command), Some(Grant::Command(_)))
        && matches!(process::landlock_support(), LandlockSupport::Enough(_))
}

/// Returns the first line that is not blank, with "…" if there are more.
fn title(command: &str) -> String {
    let mut lines = command.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or(command);
    match lines.next() {
        Some(_) => format!("{} …", cut(first, 100)),
        None => cut(first, 100),
    }
}

struct BashJob {
    card: ToolCard,
    command: String,
    /// The folder in which it runs.
    cwd: PathBuf,
    timeout: Option<Duration>,
    /// Takes over the command if it continues after the call.
    background: Option<Arc<BackgroundCommands>>,
    /// Whether its standard input stays open.
    open_input: bool,
    /// Whether it runs without access to acpd's own files, although it is not in the sandbox.
    shielded: bool,
    site: Arc<CallSite>,
    settings: Arc<ToolSettings>,
    limits: Arc<AccessLimits>,
}

impl Job for BashJob {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            if !self.folder_is_unchanged().await {
                return Outcome::failed(MOVED);
            }
            if let Some(editor) = self.terminal_editor()
                && let Some(outcome) =
                    terminal::run(editor, self.terminal_request().await, self.limit(), host.as_ref()).await
            {
                return outcome;
            }
            let (started, input) = match self.start().await {
                Ok(started) => started,
                Err(reason) => return Outcome::failed(reason),
            };
            let overflow = self.overflow().await;
            match self.background {
                None => {
                    let captured = SharedOutput::new(self.settings.output_limit).overflowing_to(overflow);
                    wait_for_exit(started, self.timeout, &self.site, &captured, host.as_ref()).await
                }
                Some(background) => {
                    let start = BackgroundStart {
                        started,
                        command: self.command,
                        timeout: self.timeout,
                        site: self.site,
                        input,
                        overflow,
                    };
                    keep_in_background(&background, start, &self.settings)
                }
            }
        })
    }
}

impl BashJob {
    /// Whether the folder of the call is still the one that the question showed. Until the user
    /// answers, a command may have put a link to another folder in its place.
    async fn folder_is_unchanged(&self) -> bool {
        if self.cwd == self.site.cwd {
            return true;
        }
        let (site, limits, cwd) = (Arc::clone(&self.site), Arc::clone(&self.limits), self.cwd.clone());
        let look = tokio::task::spawn_blocking(move || {
            let found = Roots::open(&site, &limits).and_then(|roots| roots.find(&cwd.to_string_lossy()));
            found.is_ok_and(|found| found.real == cwd && found.is_folder())
        });
        look.await.unwrap_or(false)
    }

    /// Returns the editor in whose terminal the command runs, if any. Only our own helper can
    /// restrict a command or keep it after the call.
    fn terminal_editor(&self) -> Option<Arc<dyn Editor>> {
        let ours = self.background.is_some() || self.shielded || self.site.mode == Mode::Sandbox;
        self.site.editor.clone().filter(|editor| !ours && editor.capabilities().terminal)
    }

    async fn terminal_request(&self) -> TerminalRequest {
        let shell = find_shell(self.site.environment.get("PATH").map(str::to_owned)).await;
        let mut words = vec![shell, "-c".to_owned(), self.command.clone()];
        if let Some(program) = &self.settings.bash.terminal_parent {
            let parent = [&*program.to_string_lossy(), SUBCOMMAND, TERMINAL_ARGUMENT].map(str::to_owned);
            words.splice(0..0, parent);
        }
        TerminalRequest {
            command: words.remove(0),
            args: words,
            environment: self.settings.launcher.environment.for_terminal(&self.site),
            cwd: self.cwd.clone(),
            output_limit: self.settings.output_limit as u64,
        }
    }

    fn limit(&self) -> Duration {
        self.timeout.unwrap_or(self.settings.bash.timeout)
    }

    /// Returns the sandbox of the command, if it runs in one. The mode is that of the plan, which
    /// the user was shown.
    async fn sandbox(&self) -> Result<Option<Sandbox>, String> {
        if self.site.mode != Mode::Sandbox {
            return Ok(None);
        }
        let (site, limits) = (Arc::clone(&self.site), Arc::clone(&self.limits));
        let opened =
            tokio::task::spawn_blocking(move || Roots::open(&site, &limits).map(|roots| roots.folders())).await;
        let writable = match opened {
            Ok(Ok(folders)) => folders,
            Ok(Err(denial)) => return Err(denial.to_string()),
            Err(_) => return Err("opening the session's folders failed; this is a defect of acpd".to_owned()),
        };
        let (readable, protected_paths) = (self.settings.sandbox.reads.clone(), self.limits.protected_paths.clone());
        Ok(Some(Sandbox { writable, readable, protected_paths }))
    }

    /// Returns the file for output that is too long.
    async fn overflow(&self) -> Option<PathBuf> {
        let (settings, session) = (Arc::clone(&self.settings), self.site.session.clone());
        tokio::task::spawn_blocking(move || outputs::next_file(&settings, &session)).await.ok().flatten()
    }

    /// Starts the command. Returns its standard input if that stays open.
    async fn start(&self) -> Result<(RunningCommand, Option<pipe::Sender>), String> {
        let launcher = &self.settings.launcher;
        let command = launcher.shell_command(&self.command, &self.site.environment, &self.cwd).await;
        let shield = if self.shielded { self.limits.protected_paths.clone() } else { Vec::new() };
        let command = CommandSpec { sandbox: self.sandbox().await?, shield, ..command };
        let started = if self.open_input {
            command.start_with_input().await.map(|(started, input)| (started, Some(input)))
        } else {
            command.start().await.map(|started| (started, None))
        };
        started.map_err(|error| format!("starting the command's helper: {error}"))
    }
}

/// Waits for the command and returns its outcome.
async fn wait_for_exit(
    started: RunningCommand,
    timeout: Option<Duration>,
    site: &CallSite,
    captured: &SharedOutput,
    host: &dyn ToolHost,
) -> Outcome {
    let show = || host.progress(vec![ToolContent::text(captured.lock().live(LIVE_LIMIT))]);
    let end = watch(started, captured, timeout, host.cancelled(), show).await;
    let output = captured.lock();
    conclude(&output, &end, site.mode)
}

/// Hands the command over to the background commands and returns at once.
fn keep_in_background(
    background: &Arc<BackgroundCommands>,
    start: BackgroundStart,
    settings: &ToolSettings,
) -> Outcome {
    match background.keep(start, settings.output_limit) {
        Ok(handle) => {
            let text = format!(
                "Started in the background as `{handle}`. Read its output with bash_output and end it with bash_stop."
            );
            Outcome { background: Some(handle.clone()), ..Outcome::completed(text) }.with_raw(json!({"handle": handle}))
        }
        Err(error) => Outcome::failed(error.to_string()),
    }
}

fn conclude(output: &Output, end: &CommandResult, mode: Mode) -> Outcome {
    let raw = json!({
        "exitCode": end.exit_code(),
        "signal": end.signal(),
        "timedOut": matches!(end.interruption, Some(Interruption::TimedOut(_))),
        "truncated": output.is_cut(),
    });
    let written = output.text();
    if end.interruption == Some(Interruption::Cancelled) {
        let outcome = Outcome::cancelled().with_raw(raw);
        return if written.is_empty() { outcome } else { outcome.showing(vec![ToolContent::text(written)]) };
    }
    if end.is_success() {
        let text = if written.trim().is_empty() { "(no output)".to_owned() } else { written };
        return Outcome::completed(text).with_raw(raw);
    }
    let mut note = end.describe();
    if mode == Mode::Sandbox && end.exit_code().is_some() {
        note.push_str("; the command ran in the sandbox: ");
        note.push_str(SANDBOX_RULES);
    }
    Outcome::failed(with_note(&written, &note)).with_raw(raw)
}

/// Returns the output, followed by a note on its own line.
pub(crate) fn with_note(written: &str, note: &str) -> String {
    let gap = if written.is_empty() || written.ends_with('\n') { "" } else { "\n" };
    format!("{written}{gap}[{note}]")
}
