//! The registry: all tools, which of them a mode offers, and which tool handles a request.
//!
//! It owns no files. Background commands, MCP servers and language servers run behind the hosts
//! that it holds, and end with their sessions.

mod modes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::checkpoint::{Restore, Restored};
use domain::hosted::ClientRules;
use domain::instructions::SlashCommandCard;
use domain::mcp::{McpEvent, McpRequest, McpServer, PreparedPrompt, ServerCard};
use domain::permission::RuleTexts;
use domain::tool::{
    BASH, BackgroundReport, HookPoint, HooksRun, Job, Notification, PlanRefusal, ToolRequest, ToolSpec, Toolbox,
};
use domain::{AgentId, CallSite, Content, Mode, Outcome, SessionId, Swap, ToolCard, ToolKind, TurnId, Verdict};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use lsp::{LanguageServers, MayShow};
use mcp::McpHost;
use process::background::{BackgroundCommand, BackgroundCommands};
use process::confine::{AccessLimits, PinnedRoots};
use project::prompt_files::{self, FilteredPrompt};
use project::{Denial, FolderRules};
use serde_json::Value;

use self::modes::offers;
use crate::bash::ProtectedAccess;
use crate::limited_job::LimitedJob;
use crate::settings::ToolSettings;
use crate::tool::{CallRequest, RefusalReason, Tool};
use crate::{
    agent, apply_patch, ask_user, bash, bash_input, bash_output, bash_stop, change, delete_file, diagnostics,
    edit_file, glob, grep, hook_changes, input, list_files, memory, move_file, outputs, propose_plan, read_file,
    recall, restore, skill, switch_mode, update_plan, web_fetch, write_file,
};

/// How long the servers in a folder that a session leaves may take to end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the built-in tools, in the order in which they are offered.
fn built_in() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file::ReadFileTool),
        Arc::new(list_files::ListFilesTool),
        Arc::new(glob::GlobTool),
        Arc::new(grep::GrepTool),
        Arc::new(write_file::WriteFileTool),
        Arc::new(edit_file::EditFileTool),
        Arc::new(apply_patch::ApplyPatchTool),
        Arc::new(delete_file::DeleteFileTool),
        Arc::new(move_file::MoveFileTool),
        Arc::new(bash::BashTool),
        Arc::new(bash_output::BashOutputTool),
        Arc::new(bash_input::BashInputTool),
        Arc::new(bash_stop::BashStopTool),
        Arc::new(agent::AgentTool),
        Arc::new(web_fetch::WebFetchTool),
        Arc::new(update_plan::UpdatePlanTool),
        Arc::new(memory::MemoryTool),
        Arc::new(ask_user::AskUserTool),
        Arc::new(switch_mode::SwitchModeTool),
        Arc::new(propose_plan::ProposePlanTool),
        Arc::new(skill::SkillTool),
        Arc::new(recall::RecallTool),
        Arc::new(diagnostics::DiagnosticsTool),
    ]
}

/// Builds the specs of these tools. Every turn offers all of them, so they are built once.
fn specs(tools: &[Arc<dyn Tool>], settings: &ToolSettings) -> Vec<Arc<ToolSpec>> {
    tools.iter().map(|tool| Arc::new(tool.spec(settings))).collect()
}

/// The reason when a request of a child agent is refused.
const DENIED: &str = "a rule of the configuration forbids this or may forbid it";

/// All tools of all sessions. A session's state, except its background commands, is in its
/// `CallSite`.
pub struct Registry {
    settings: Swap<ToolSettings>,
    tools: Vec<Arc<dyn Tool>>,
    /// The tools as models see them with these settings, in the same order.
    specs: Swap<Vec<Arc<ToolSpec>>>,
    background: Arc<BackgroundCommands>,
    mcp: Arc<McpHost>,
    rules: Arc<FolderRules>,
    pinned_roots: Arc<PinnedRoots>,
    language_servers: Arc<LanguageServers>,
}

impl Registry {
    pub fn new(settings: ToolSettings) -> Self {
        let tools = built_in();
        Self {
            specs: Swap::new(specs(&tools, &settings)),
            mcp: Arc::new(McpHost::new(Arc::new(settings.for_mcp()))),
            rules: Arc::new(FolderRules::new(settings.permissions.clone())),
            settings: Swap::from(Arc::new(settings)),
            tools,
            background: Arc::default(),
            pinned_roots: Arc::default(),
            language_servers: Arc::default(),
        }
    }

    /// Replaces the settings. Calls that are already planned and MCP servers that are already
    /// running keep the old ones. Rules of projects are read again.
    pub fn reload(&self, settings: ToolSettings) {
        self.mcp.reload(Arc::new(settings.for_mcp()));
        self.rules.reload(settings.permissions.clone());
        self.specs.replace(specs(&self.tools, &settings));
        self.settings.replace(Arc::new(settings));
    }

    /// Returns the rules that decide about calls.
    pub fn rules(&self) -> Arc<FolderRules> {
        Arc::clone(&self.rules)
    }

    fn limits(&self) -> Arc<AccessLimits> {
        let protected_paths = self.settings.get().protected_paths.clone();
        Arc::new(AccessLimits { protected_paths, pinned_roots: Arc::clone(&self.pinned_roots) })
    }

    /// Returns a text about background commands that ended since the last report to this
    /// conversation, which is the main one or that of a sub-agent.
    fn ended_commands(&self, session: &SessionId, reader: Option<&AgentId>) -> Option<String> {
        let ended = self.background.take_ended(session, reader);
        let line = |kept: &Arc<BackgroundCommand>| {
            let how = kept.end().map(|end| end.describe()).unwrap_or_default();
            format!("[the background command {} has ended: {how}; bash_output has its output]", kept.label())
        };
        (!ended.is_empty()).then(|| ended.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    fn find(&self, name: &str, mode: Mode) -> Result<Arc<dyn Tool>, String> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            let names: Vec<_> = self.offered(mode).map(|tool| tool.name()).collect();
            return Err(format!("there is no tool `{name}`; the tools are {}", names.join(", ")));
        };
        if !offers(mode, tool.as_ref(), &self.settings.get()) {
            return Err(format!("the session's mode `{}` leaves out `{name}`; only the user can change it", mode.id()));
        }
        Ok(Arc::clone(tool))
    }

    fn offered(&self, mode: Mode) -> impl Iterator<Item = &Arc<dyn Tool>> {
        let settings = self.settings.get();
        self.tools.iter().filter(move |tool| offers(mode, tool.as_ref(), &settings))
    }
}

impl Toolbox for Registry {
    fn offer(&self, session: &SessionId, mode: Mode) -> Vec<Arc<ToolSpec>> {
        let (settings, specs) = (self.settings.get(), self.specs.get());
        let all = self.tools.iter().zip(specs.iter());
        let own = all.filter(|(tool, _)| offers(mode, tool.as_ref(), &settings)).map(|(_, spec)| spec.clone());
        own.chain(self.mcp.offer(session, mode)).collect()
    }

    fn server_instructions(&self, session: &SessionId) -> String {
        self.mcp.instructions(session)
    }

    fn set_servers(&self, request: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        self.mcp.set_servers(request)
    }

    fn keep_servers(&self, session: &SessionId, servers: Vec<McpServer>) -> BoxFuture<'static, Option<String>> {
        self.mcp.keep(session, servers)
    }

    fn kept_servers(&self, session: &SessionId) -> BoxFuture<'static, Vec<McpServer>> {
        self.mcp.stored(session)
    }

    fn sessions_with_servers(&self) -> BoxFuture<'static, Vec<SessionId>> {
        let (with_servers, settings) = (self.mcp.sessions(), self.settings.get());
        let with_outputs = tokio::task::spawn_blocking(move || outputs::sessions(&settings));
        Box::pin(async move {
            let mut sessions = with_servers.await;
            sessions.extend(with_outputs.await.unwrap_or_default());
            sessions.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
            sessions.dedup();
            sessions
        })
    }

    fn forget(&self, session: &SessionId) {
        let (settings, session) = (self.settings.get(), session.clone());
        tokio::task::spawn_blocking(move || outputs::forget(&settings, &session));
    }

    fn prepare(
        &self,
        session: &SessionId,
        cwd: &Path,
        prompt: &[Content],
    ) -> Option<BoxFuture<'static, PreparedPrompt>> {
        let ended: Vec<Content> = self.ended_commands(session, None).map(Content::text).into_iter().collect();
        if !prompt_files::has_files(prompt) && ended.is_empty() {
            return self.mcp.prepare(session, prompt);
        }
        let (mcp, rules) = (Arc::clone(&self.mcp), Arc::clone(&self.rules));
        let (session, cwd, prompt) = (session.clone(), cwd.to_owned(), prompt.to_vec());
        Some(Box::pin(async move {
            // Runs on a blocking thread, because it reads rules of projects and names of files.
            let look = tokio::task::spawn_blocking(move || prompt_files::filter_prompt(prompt, &rules.read(&cwd)));
            let Ok(FilteredPrompt { prompt, links, notices }) = look.await else {
                let refusal = "reading the rules failed; this is a defect of acpd".to_owned();
                return PreparedPrompt { refusal: Some(refusal), ..PreparedPrompt::default() };
            };
            let mut prepared = match mcp.prepare(&session, &links) {
                Some(prepare) => prepare.await,
                None => PreparedPrompt::default(),
            };
            prepared.notices.splice(..0, notices);
            prepared.context.extend(ended);
            PreparedPrompt { prompt: Some(prompt), ..prepared }
        }))
    }

    fn commands(&self, session: &SessionId) -> Vec<SlashCommandCard> {
        self.mcp.commands(session)
    }

    fn servers(&self, session: &SessionId) -> Vec<ServerCard> {
        self.mcp.servers(session)
    }

    fn plan(&self, request: ToolRequest, site: Arc<CallSite>) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>> {
        let request = ToolRequest { input: input::unwrap_text(request.input), ..request };
        let rules = Arc::clone(&self.rules);
        if McpHost::names(&request.tool) {
            let planned = self.mcp.plan(request, &site);
            return Box::pin(async move {
                // The decision needs the project's rules, and reading them may block.
                let _ = tokio::task::spawn_blocking(move || rules.learn(&site)).await;
                planned
            });
        }
        let ToolRequest { tool: name, input } = request;
        let found = self.find(&name, site.mode);
        let (settings, background) = (self.settings.get(), Arc::clone(&self.background));
        let (limits, language_servers) = (self.limits(), Arc::clone(&self.language_servers));
        Box::pin(async move {
            let tool = found.map_err(|reason| PlanRefusal { kind: ToolKind::Other, title: name, reason })?;
            let (kind, title) = (tool.kind(), refused_title(tool.as_ref(), &input));
            let limit = if kind == ToolKind::Fetch { settings.web.output_limit } else { settings.output_limit };
            // Planning opens files, so it must not run on an actor's thread.
            let plan = move || {
                rules.learn(&site);
                let rules = rules.known(&site.cwd);
                tool.plan(CallRequest { input, site, rules, settings, background, limits, language_servers })
            };
            let planned = tokio::task::spawn_blocking(plan).await;
            let RefusalReason(reason) = match planned {
                Ok(Ok(job)) => return Ok(Box::new(LimitedJob::new(job, limit)) as Box<dyn Job>),
                Ok(Err(refused)) => refused,
                Err(_) => {
                    RefusalReason("planning the call failed inside the tool; this is a defect of acpd".to_owned())
                }
            };
            Err(PlanRefusal { kind, title, reason })
        })
    }

    fn plan_again(
        &self,
        request: ToolRequest,
        recorded: ToolCard,
        site: Arc<CallSite>,
    ) -> BoxFuture<'static, Result<Box<dyn Job>, PlanRefusal>> {
        let request = ToolRequest { input: input::unwrap_text(request.input), ..request };
        if McpHost::names(&request.tool) {
            // After a restart the session's servers may still be connecting.
            let (connected, mcp) = (self.mcp.prepare(&site.session, &[]), Arc::clone(&self.mcp));
            let learned = self.plan(request.clone(), Arc::clone(&site));
            return Box::pin(async move {
                if let Some(connected) = connected {
                    connected.await;
                }
                match learned.await {
                    Ok(planned) => Ok(planned),
                    Err(_) => mcp.plan(request, &site),
                }
            });
        }
        let (planned, limits) = (self.plan(request, Arc::clone(&site)), self.limits());
        Box::pin(async move {
            // If this panics, the model has to read the file again, and planning reports that.
            let _ = tokio::task::spawn_blocking(move || change::recall(&recorded, &site, &limits)).await;
            planned.await
        })
    }

    fn rule(&self, card: &ToolCard, cwd: &Path) -> BoxFuture<'static, Option<Verdict>> {
        let (rules, card, cwd) = (Arc::clone(&self.rules), card.clone(), cwd.to_owned());
        let compared = tokio::task::spawn_blocking(move || {
            // A child agent's call was not planned here, so the project's rules may be unread.
            rules.learn_folder(&cwd);
            rules.verdict(&card, &cwd)
        });
        // If this panics, the verdict is unknown, so the call is asked about.
        Box::pin(async move { compared.await.unwrap_or(Some(Verdict::Ask)) })
    }

    fn rules(&self, cwd: &Path) -> BoxFuture<'static, RuleTexts> {
        let (rules, cwd) = (Arc::clone(&self.rules), cwd.to_owned());
        let read = tokio::task::spawn_blocking(move || rules.texts(&cwd));
        Box::pin(async move { read.await.unwrap_or_default() })
    }

    fn run_hooks(&self, point: HookPoint<'_>, site: &Arc<CallSite>) -> Option<BoxFuture<'static, Option<String>>> {
        let settings = self.settings.get();
        let round = settings.hooks.pick(point, site)?;
        let site = Arc::clone(site);
        Some(Box::pin(async move {
            let answer = round.run(&site, &settings.launcher).await;
            for failure in &answer.failures {
                tracing::warn!(session = %site.session, "{failure}");
            }
            answer.refusal
        }))
    }

    fn complete(
        &self,
        outcome: &Outcome,
        hooks: HooksRun,
        site: &Arc<CallSite>,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let ended = self.ended_commands(&site.session, site.agent.as_ref());
        let hooked = hooks == HooksRun::Some && hook_changes::has_changed_files(outcome);
        let (settings, language_servers) = (self.settings.get(), Arc::clone(&self.language_servers));
        let checked = language_servers.cover(&settings.diagnostics, site, &diagnostics::changed_paths(outcome));
        let rules = Arc::clone(&self.rules);
        if ended.is_none() && !hooked && !checked {
            return None;
        }
        let (mut outcome, site, limits) = (outcome.clone(), Arc::clone(site), self.limits());
        Some(Box::pin(async move {
            if hooked {
                let (before, site) = (outcome.clone(), Arc::clone(&site));
                let read = tokio::task::spawn_blocking(move || hook_changes::add(outcome, &site, &limits)).await;
                outcome = read.unwrap_or(before);
            }
            if checked {
                let changes = diagnostics::changes(&outcome);
                let errors = language_servers
                    .new_errors(&settings.diagnostics, &settings.launcher, &site, changes, readable(&rules, &site))
                    .await;
                outcome.text.extend(errors.map(|errors| format!("\n{errors}")));
            }
            if let Some(ended) = ended {
                outcome.text.push_str(&format!("\n{ended}"));
            }
            outcome
        }))
    }

    fn notify(&self, notification: Notification<'_>, site: &Arc<CallSite>) {
        let settings = self.settings.get();
        settings.notify.send(&notification, site, &settings.launcher);
    }

    fn restore(&self, steps: Vec<Restore>, site: Arc<CallSite>) -> BoxFuture<'static, Vec<Restored>> {
        let limits = self.limits();
        Box::pin(async move {
            let paths: Vec<PathBuf> = steps.iter().map(|step| step.path.clone()).collect();
            let restored = tokio::task::spawn_blocking(move || restore::all(steps, &site, &limits)).await;
            restored.unwrap_or_else(|_| {
                let left = Some("putting it back failed; this is a defect of acpd".to_owned());
                paths.into_iter().map(|path| Restored { path, left: left.clone() }).collect()
            })
        })
    }

    fn background(&self, session: &SessionId) -> Vec<String> {
        self.background.running(session)
    }

    fn background_reports(&self, session: &SessionId) -> Option<BoxStream<'static, BackgroundReport>> {
        let reports = self.background.reports(session);
        let next = |mut reports: tokio::sync::mpsc::Receiver<BackgroundReport>| async move {
            reports.recv().await.map(|report| (report, reports))
        };
        Some(Box::pin(stream::unfold(reports, next)))
    }

    fn stop_background(&self, session: &SessionId, handle: &str) -> bool {
        let running = self.background.find(session, handle).ok().filter(|command| command.end().is_none());
        running.inspect(|command| command.stop()).is_some()
    }

    fn cancel_turn(&self, session: &SessionId, turn: &TurnId) {
        self.background.cancel_turn(session, turn);
    }

    fn close(&self, session: &SessionId) {
        self.background.close(session);
        self.mcp.close(session);
        self.language_servers.close(session);
        self.pinned_roots.forget(session);
    }

    fn leave_folder(&self, session: &SessionId, folder: PathBuf) -> BoxFuture<'static, bool> {
        let (checked, served) = (self.language_servers.leave(session, &folder), self.mcp.ended_in(&folder));
        let ended = async { tokio::join!(checked, served) };
        Box::pin(async move { tokio::time::timeout(LEAVE_TIMEOUT, ended).await.is_ok() })
    }
}

impl ClientRules for Registry {
    fn refusal(&self, card: ToolCard, site: Arc<CallSite>) -> BoxFuture<'static, Option<String>> {
        let (rules, settings) = (Arc::clone(&self.rules), self.settings.get());
        let compared = tokio::task::spawn_blocking(move || {
            // The location of a command is the folder in which it runs.
            let cwd = card.locations.first().map_or(&site.cwd, |folder| &folder.path);
            let reach =
                (card.tool == BASH).then(|| ProtectedAccess::of(card.command(), cwd, &site, &settings.protected_paths));
            if let Some(reach) = reach.flatten() {
                return Some(format!("acpd does not run this for an agent. {}", reach.text()));
            }
            rules.learn(&site);
            rules.denial(&card, &site.cwd).map(|denial| match denial {
                Denial::Rule => DENIED.to_owned(),
                Denial::BrokenFile(error) => {
                    format!("a file with rules has an error, and it is unknown whether it forbids this: {error}")
                }
            })
        });
        // If this panics, the verdict is unknown, so the request is refused.
        Box::pin(async move { compared.await.unwrap_or_else(|_| Some(DENIED.to_owned())) })
    }
}

/// Returns a function that decides whether the model may read a file without a question. An error
/// in a file can quote the file.
fn readable(rules: &FolderRules, site: &CallSite) -> MayShow {
    let rules = rules.known(&site.cwd);
    Arc::new(move |path| prompt_files::reading_verdict(&rules, path).is_none())
}

/// Returns the title of a refused call, from whatever its input contains, which may be invalid.
fn refused_title(tool: &dyn Tool, input: &Value) -> String {
    let object =
        ["path", "file_path", "command", "cmd", "pattern", "url"].iter().find_map(|key| input.get(key)?.as_str());
    match object.and_then(|text| text.lines().next()) {
        Some(text) => format!("{} {}", tool.verb(), domain::text::cut(text, 80)),
        None => tool.name().to_owned(),
    }
}

#[cfg(test)]
mod tests;
