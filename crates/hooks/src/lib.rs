//! Hooks: commands of the operator that run before and after tools and at the end of a turn. Each
//! receives one JSON object on its standard input, and may refuse.
//!
//! A hook refuses with exit status 2 and the reason as its output, or by writing a line
//! `{"decision": "deny", "reason": "..."}`. Exit status 0 without such a line agrees. Anything
//! else, including a timeout, means that the hook failed. Before a tool a failure also refuses,
//! because a guard that cannot answer has not agreed. Hooks run under `__run` like every command,
//! but outside the sandbox, because they come from the operator and not from the model.

mod notify;

use std::path::Path;
use std::time::Duration;

use domain::text::cut;
use domain::tool::HookPoint;
use domain::{CallSite, ToolCard};
use globset::GlobMatcher;
use policy::glob::{BadGlob, StarMatches, glob};
use process::{CommandExit, CommandResult, CommandSpec, Launcher, SharedOutput, watch};
use serde::Deserialize;
use serde_json::{Value, json};

pub use notify::{Notify, When};

const OUTPUT_LIMIT: usize = 16 * 1024;
const LONGEST_REASON: usize = 2000;
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// The configured hooks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    pub before_tool: Vec<ToolHook>,
    pub after_tool: Vec<ToolHook>,
    pub turn_end: Vec<TurnEndHook>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolHook {
    /// The shell command, which runs in the session's folder.
    command: String,
    /// The tools to which it applies, with `*` for any letters; None for all.
    #[serde(default)]
    tool: Option<ToolName>,
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnEndHook {
    /// The shell command, which runs in the session's folder.
    command: String,
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_MS
}

/// A glob of tool names.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct ToolName(GlobMatcher);

impl TryFrom<String> for ToolName {
    type Error = BadGlob;

    fn try_from(text: String) -> Result<Self, BadGlob> {
        Ok(Self(glob(&text, StarMatches::Anything)?))
    }
}

/// The result of all hooks at one hook point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcome {
    /// The reason why a hook refused. Before a tool the call is denied with it; after a tool, and
    /// at the end of a turn, the model gets it.
    pub refusal: Option<String>,
    /// Descriptions of hooks that failed, for the operator.
    pub failures: Vec<String>,
}

impl Hooks {
    /// Returns the hooks for a hook point with their input; None if there are none.
    pub fn pick(&self, point: HookPoint<'_>, site: &CallSite) -> Option<HookRun> {
        let hooks = match point {
            HookPoint::BeforeTool { card } => for_tool(&self.before_tool, &card.tool),
            HookPoint::AfterTool { card, .. } => for_tool(&self.after_tool, &card.tool),
            HookPoint::TurnEnd { .. } => {
                self.turn_end.iter().map(|hook| HookCommand::new(&hook.command, hook.timeout_ms)).collect()
            }
        };
        let guards = matches!(point, HookPoint::BeforeTool { .. });
        (!hooks.is_empty()).then(|| HookRun { hooks, input: describe(point, site).to_string(), guards })
    }
}

fn for_tool(hooks: &[ToolHook], tool: &str) -> Vec<HookCommand> {
    let fits = |hook: &&ToolHook| hook.tool.as_ref().is_none_or(|ToolName(wanted)| wanted.is_match(tool));
    hooks.iter().filter(fits).map(|hook| HookCommand::new(&hook.command, hook.timeout_ms)).collect()
}

/// The hooks of one hook point, ready to run.
pub struct HookRun {
    hooks: Vec<HookCommand>,
    input: String,
    /// Whether a hook that fails refuses.
    guards: bool,
}

impl HookRun {
    /// Runs the hooks in order until one refuses. Dropping the future ends the running hook.
    pub async fn run(self, site: &CallSite, launcher: &Launcher) -> HookOutcome {
        let mut outcome = HookOutcome::default();
        for hook in self.hooks {
            match hook.run(&self.input, site, launcher).await {
                HookReply::Allowed => {}
                HookReply::Refused(reason) => {
                    outcome.refusal = Some(reason);
                    return outcome;
                }
                HookReply::Failed(reason) => {
                    let failure = format!("the hook `{}` failed: {reason}", cut(&hook.command, 100));
                    outcome.failures.push(failure.clone());
                    if self.guards {
                        outcome.refusal = Some(failure);
                        return outcome;
                    }
                }
            }
        }
        outcome
    }
}

fn describe(point: HookPoint<'_>, site: &CallSite) -> Value {
    let mut about = json!({
        "session": site.session, "turn": site.turn, "cwd": site.cwd, "mode": site.mode,
    });
    let call = |card: &ToolCard| {
        let paths: Vec<&Path> = card.locations.iter().map(|location| location.path.as_path()).collect();
        json!({"tool": card.tool, "kind": card.kind, "title": card.title, "input": card.input, "paths": paths})
    };
    let (event, more) = match point {
        HookPoint::BeforeTool { card } => ("before_tool", call(card)),
        HookPoint::AfterTool { card, outcome } => {
            let mut more = call(card);
            more["outcome"] = json!({"verdict": outcome.verdict, "text": outcome.text, "raw": outcome.raw});
            ("after_tool", more)
        }
        HookPoint::TurnEnd { reason } => ("turn_end", json!({"reason": reason})),
    };
    about["event"] = event.into();
    if let (Value::Object(about), Value::Object(more)) = (&mut about, more) {
        about.extend(more);
    }
    about
}

pub(crate) enum HookReply {
    Allowed,
    Refused(String),
    Failed(String),
}

/// The command of a hook, and how long it may take.
pub(crate) struct HookCommand {
    command: String,
    timeout_ms: u64,
}

impl HookCommand {
    pub(crate) fn new(command: &str, timeout_ms: u64) -> Self {
        Self { command: command.to_owned(), timeout_ms }
    }

    pub(crate) async fn run(&self, input: &str, site: &CallSite, launcher: &Launcher) -> HookReply {
        let command = launcher.shell_command(&self.command, &site.environment, &site.cwd).await;
        let command = CommandSpec { input: Some(input.to_owned()), ..command };
        let started = match command.start().await {
            Ok(started) => started,
            Err(error) => return HookReply::Failed(error.to_string()),
        };
        let output = SharedOutput::new(OUTPUT_LIMIT);
        let timeout = Some(Duration::from_millis(self.timeout_ms));
        let end = watch(started, &output, timeout, std::future::pending(), || {}).await;
        let written = output.lock().text();
        interpret(&end, &written)
    }
}

fn interpret(end: &CommandResult, written: &str) -> HookReply {
    let refusal = |reason: &str| match reason.trim() {
        "" => HookReply::Refused("a hook refused and gave no reason".to_owned()),
        reason => HookReply::Refused(cut(reason, LONGEST_REASON)),
    };
    match (&end.exit, end.interruption) {
        (CommandExit::Exited(2), None) => refusal(&decision(written).unwrap_or_else(|| written.to_owned())),
        (CommandExit::Exited(0), None) => match decision(written) {
            Some(reason) => refusal(&reason),
            None => HookReply::Allowed,
        },
        (
            CommandExit::Exited(_)
            | CommandExit::Signalled(_)
            | CommandExit::Failed(_)
            | CommandExit::TooMany(_)
            | CommandExit::Lost,
            _,
        ) => {
            let words = written.trim();
            let gap = if words.is_empty() { "" } else { ": " };
            HookReply::Failed(format!("{}{gap}{}", end.describe(), cut(words, LONGEST_REASON)))
        }
    }
}

/// Returns the reason from a line that denies, or from an object that spans all lines.
fn decision(written: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct HookDecision {
        decision: String,
        #[serde(default)]
        reason: String,
    }
    let mut texts = std::iter::once(written).chain(written.lines());
    texts.find_map(|text| {
        let decision: HookDecision = serde_json::from_str(text.trim()).ok()?;
        matches!(decision.decision.as_str(), "deny" | "block").then_some(decision.reason)
    })
}
