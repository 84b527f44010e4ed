//! The MCP servers of all sessions, and the interface through which the registry of tools uses
//! them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::instructions::SlashCommandCard;
use domain::mcp::{McpEvent, McpRequest, McpServer, PreparedPrompt, ServerCard};
use domain::tool::{Job, PlanRefusal, ToolRequest, ToolSpec};
use domain::{CallSite, Content, Mode, SessionId, Swap};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use process::IoThread;
use tokio::sync::{mpsc, watch};

use crate::login::StoredLogins;
use crate::project_file::ProjectServers;
use crate::server_group::{ServerGroup, ServerPool};
use crate::settings::{HostSettings, McpSettings};
use crate::stored_servers::StoredServers;
use crate::tool_call::HintPolicy;
use crate::{names, project_file, prompt_context, prompts, server_group, tool_call};

/// How long reading a project's folder may take. It may be on a network that does not respond.
const FOLDER_DEADLINE: Duration = Duration::from_secs(5);

/// The most events of its servers that may wait for a session.
const EVENTS: usize = 64;

/// The servers of all sessions.
pub struct McpHost {
    settings: Swap<HostSettings>,
    io_thread: Arc<IoThread>,
    pool: Arc<ServerPool>,
    groups: Mutex<HashMap<SessionId, Arc<ServerGroup>>>,
    stored: Arc<StoredServers>,
    /// Reads a project's folder. A test may replace it.
    look: fn(&Path, &McpSettings) -> ProjectServers,
}

impl McpHost {
    pub fn new(settings: Arc<HostSettings>) -> Self {
        let stored = StoredServers::new(settings.stored_servers.clone());
        let pool = Arc::new(ServerPool::new(StoredLogins::new(settings.logins.clone())));
        let settings = Swap::from(settings);
        Self {
            settings,
            io_thread: Arc::new(IoThread::new("mcp")),
            pool,
            groups: Mutex::default(),
            stored,
            look: project_file::look,
        }
    }

    /// Replaces the settings for servers that are started from now on. Running servers keep theirs.
    pub fn reload(&self, settings: Arc<HostSettings>) {
        self.settings.replace(settings);
    }

    /// Returns whether a name is that of a server's tool.
    pub fn names(tool: &str) -> bool {
        tool.starts_with(names::PREFIX)
    }

    /// Replaces the servers of a session and returns a stream of events about them. Must be called
    /// within a tokio runtime. Reading the project's folder may block, so it runs on a blocking
    /// thread.
    pub fn set_servers(&self, request: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        let session = request.session.clone();
        let (members, gathered) = watch::channel(None);
        let group = Arc::new(ServerGroup::new(gathered));
        let mine = Arc::downgrade(&group);
        let before = self.groups().insert(session, group);
        let (settings, io_thread, pool) = (self.settings.get(), self.io_thread.clone(), self.pool.clone());
        let look = {
            let (look, folder, settings) = (self.look, request.cwd.clone(), settings.clone());
            tokio::task::spawn_blocking(move || look(&folder, &settings.servers))
        };
        // A session that does not read its events delays only them, not the server.
        let (tell, events) = mpsc::channel(EVENTS);
        let start = async move {
            let looked = tokio::time::timeout(FOLDER_DEADLINE, look).await.ok().and_then(Result::ok);
            let project = looked.unwrap_or_else(|| project_file::unanswered(&request.cwd, FOLDER_DEADLINE));
            let gathered = server_group::gather(&request, &settings, project);
            // The group may have been replaced in the meantime.
            let group = mine.upgrade()?;
            if gathered.is_empty() {
                members.send_replace(Some(Arc::new([])));
                return None;
            }
            match io_thread.spawn(server_group::watch(request, gathered, settings, pool, before, tell, members)) {
                Ok(watching) => {
                    group.hold(watching);
                    None
                }
                Err(error) => Some(McpEvent::Lost(format!("The session's MCP servers cannot be started: {error}."))),
            }
        };
        let notifications = stream::unfold(events, |mut events| async move { Some((events.recv().await?, events)) });
        Some(stream::once(start).filter_map(std::future::ready).chain(notifications).boxed())
    }

    pub fn keep(&self, session: &SessionId, servers: Vec<McpServer>) -> BoxFuture<'static, Option<String>> {
        Box::pin(self.stored.clone().keep(session.clone(), servers))
    }

    pub fn stored(&self, session: &SessionId) -> BoxFuture<'static, Vec<McpServer>> {
        Box::pin(self.stored.clone().of(session.clone()))
    }

    pub fn sessions(&self) -> BoxFuture<'static, Vec<SessionId>> {
        Box::pin(self.stored.clone().sessions())
    }

    pub fn prepare(&self, session: &SessionId, prompt: &[Content]) -> Option<BoxFuture<'static, PreparedPrompt>> {
        let group = self.group(session)?;
        let max_wait = self.settings.get().servers.wait();
        if !prompt_context::is_due(group.members().as_deref(), prompt, max_wait) {
            return None;
        }
        let (mut gathered, io_thread, prompt) = (group.receiver(), self.io_thread.clone(), prompt.to_vec());
        Some(Box::pin(async move {
            let waited = tokio::time::timeout(max_wait.max(FOLDER_DEADLINE), gathered.wait_for(Option::is_some)).await;
            let Some(members) = waited.ok().and_then(|found| found.ok()?.clone()) else {
                return PreparedPrompt::default();
            };
            if members.is_empty() {
                return PreparedPrompt::default();
            }
            match io_thread.spawn(prompt_context::prepare(members, prompt, max_wait)) {
                Ok(mut task) => task.done().await.unwrap_or_default(),
                Err(_) => PreparedPrompt::default(),
            }
        }))
    }

    pub fn offer(&self, session: &SessionId, mode: Mode) -> Vec<Arc<ToolSpec>> {
        let tools = self.group(session).map(|group| group.tools()).unwrap_or_default();
        let hints = self.hints();
        tools
            .iter()
            .filter(|tool| tool_call::allows(mode, &tool.tool, hints))
            .map(|tool| Arc::new(tool_call::spec(tool, hints)))
            .collect()
    }

    /// Returns what the servers of a session tell models about their use, marked as their words.
    pub fn instructions(&self, session: &SessionId) -> String {
        self.group(session).map(|group| group.instructions()).unwrap_or_default()
    }

    pub fn plan(&self, request: ToolRequest, site: &CallSite) -> Result<Box<dyn Job>, PlanRefusal> {
        let tools = self.group(&site.session).map(|group| group.tools()).unwrap_or_default();
        let settings = self.settings.get();
        let context = tool_call::CallContext {
            io_thread: self.io_thread.clone(),
            hints: self.hints(),
            max_wait: settings.servers.call(),
            output_limit: settings.output_limit,
        };
        tool_call::plan(tools, request, site, context)
    }

    pub fn commands(&self, session: &SessionId) -> Vec<SlashCommandCard> {
        let Some(members) = self.group(session).and_then(|group| group.members()) else { return Vec::new() };
        let there = members.iter().filter_map(|member| Some((member, member.connected()?)));
        there.flat_map(|(member, connected)| prompts::of(&member.name, &connected)).collect()
    }

    pub fn servers(&self, session: &SessionId) -> Vec<ServerCard> {
        self.group(session).map(|group| group.cards()).unwrap_or_default()
    }

    /// Waits until no program runs as a server in a folder or below it.
    pub fn ended_in(&self, folder: &Path) -> impl Future<Output = ()> + Send + use<> {
        self.pool.ended_in(folder)
    }

    pub fn close(&self, session: &SessionId) {
        let group = self.groups().remove(session);
        drop(group);
    }

    fn hints(&self) -> HintPolicy {
        if self.settings.get().servers.trust_read_only_hints { HintPolicy::Trusted } else { HintPolicy::Shown }
    }

    fn group(&self, session: &SessionId) -> Option<Arc<ServerGroup>> {
        self.groups().get(session).cloned()
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<ServerGroup>>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::mcp::{McpTransport, ServerState};

    use super::*;

    fn request(servers: Vec<McpServer>) -> McpRequest {
        let session = SessionId::new();
        McpRequest { session, cwd: "/".into(), extra_roots: Vec::new(), environment: Arc::default(), servers }
    }

    #[tokio::test]
    async fn a_thread_that_cannot_start_is_reported_and_ends_nothing() {
        let mut mcp = McpHost::new(Arc::new(HostSettings::new("/bin/false")));
        mcp.io_thread = Arc::new(IoThread::that_cannot_start("mcp"));
        let transport = McpTransport::Http { url: "http://127.0.0.1:1/".to_owned(), headers: Vec::new() };
        let request = request(vec![McpServer { name: "one".to_owned(), transport }]);
        let session = request.session.clone();
        let notifications: Vec<McpEvent> = mcp.set_servers(request).unwrap().collect().await;
        assert_eq!(notifications, [McpEvent::Lost("The session's MCP servers cannot be started: no room.".to_owned())]);
        let prepared = mcp.prepare(&session, &[Content::text("hello")]).unwrap().await;
        assert_eq!(prepared, PreparedPrompt::default());
    }

    #[expect(clippy::await_holding_lock, reason = "who waits for it is a thread of its own")]
    #[tokio::test(start_paused = true)]
    async fn a_folder_that_does_not_answer_is_skipped_after_a_timeout() {
        static DEAD: Mutex<()> = Mutex::new(());
        let dead = DEAD.lock().unwrap();
        let mut mcp = McpHost::new(Arc::new(HostSettings::new("/bin/false")));
        mcp.look = |folder, settings| {
            drop(DEAD.lock());
            project_file::look(folder, settings)
        };
        let request = request(Vec::new());
        let session = request.session.clone();
        let notifications = tokio::spawn(mcp.set_servers(request).unwrap().collect::<Vec<McpEvent>>());
        // Reading the folder must begin before the clock advances.
        tokio::task::yield_now().await;
        tokio::time::advance(FOLDER_DEADLINE + Duration::from_millis(1)).await;
        assert_eq!(notifications.await.unwrap(), []);
        let reason = "the folder did not answer within 5 s".to_owned();
        let [card] = &mcp.servers(&session)[..] else { panic!("one line says what is wrong") };
        assert_eq!(card.state, ServerState::Off { reason: format!("{} cannot be used: {reason}", project_file::FILE) });
        drop(dead);
    }
}
