//! The servers of all sessions: which session has which, and the transport in for the registry of tools.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::briefing::Command;
use domain::mcp::{McpEvent, McpRequest, Prepared, Server, ServerCard};
use domain::tool::{Job, Refusal, ToolRequest, ToolSpec};
use domain::{CallSite, Content, Mode, SessionId, Swap};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::{mpsc, watch};

use crate::project_file::Project;
use crate::runtime::Workshop;
use crate::server_group::{Kit, Pool};
use crate::settings::{HostSettings, McpSettings};
use crate::stored_servers::Kept;
use crate::tool_call::Hints;
use crate::{names, project_file, prompt_context, prompts, server_group, tool_call};

/// How long a project's folder may take to be looked at. It may lie on a network that is gone.
const LOOK: Duration = Duration::from_secs(5);

/// Notification of its servers that a session may be behind with.
const SUPPLIES: usize = 64;

/// The servers of all sessions.
pub struct McpHost {
    settings: Swap<HostSettings>,
    workshop: Arc<Workshop>,
    pool: Arc<Pool>,
    kits: Mutex<HashMap<SessionId, Arc<Kit>>>,
    kept: Arc<Kept>,
    /// How a project's folder is looked at.
    look: fn(&Path, &McpSettings) -> Project,
}

impl McpHost {
    pub fn new(settings: Arc<HostSettings>) -> Self {
        let kept = Kept::new(settings.stored_servers.clone());
        let settings = Swap::from(settings);
        Self {
            settings,
            workshop: Arc::default(),
            pool: Arc::default(),
            kits: Mutex::default(),
            kept,
            look: project_file::look,
        }
    }

    /// Counts for what is equipped from now on; servers that run keep what they were started with.
    pub fn reload(&self, settings: Arc<HostSettings>) {
        self.settings.replace(settings);
    }

    /// Whether a name is that of a server's tool.
    pub fn names(tool: &str) -> bool {
        tool.starts_with(names::PREFIX)
    }

    /// Must be called within a tokio runtime. The look at the project's folder may block, so it happens elsewhere.
    pub fn set_servers(&self, outfit: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        let session = outfit.session.clone();
        let (members, gathered) = watch::channel(None);
        let kit = Arc::new(Kit::new(gathered));
        let mine = Arc::downgrade(&kit);
        let before = self.kits().insert(session, kit);
        let (settings, workshop, pool) = (self.settings.get(), self.workshop.clone(), self.pool.clone());
        let look = {
            let (look, folder, settings) = (self.look, outfit.cwd.clone(), settings.clone());
            tokio::task::spawn_blocking(move || look(&folder, &settings.servers))
        };
        // A session that does not listen holds up its news, not the server.
        let (tell, told) = mpsc::channel(SUPPLIES);
        let start = async move {
            let looked = tokio::time::timeout(LOOK, look).await.ok().and_then(Result::ok);
            let project = looked.unwrap_or_else(|| project_file::unanswered(&outfit.cwd, LOOK));
            let gathered = server_group::gather(&outfit, &settings, project);
            // It may have been replaced meanwhile.
            let kit = mine.upgrade()?;
            if gathered.is_empty() {
                members.send_replace(Some(Arc::new([])));
                return None;
            }
            match workshop.spawn(server_group::watch(outfit, gathered, settings, pool, before, tell, members)) {
                Ok(watching) => {
                    kit.hold(watching);
                    None
                }
                Err(error) => Some(McpEvent::Lost(format!("The session's MCP servers cannot be started: {error}."))),
            }
        };
        let news = stream::unfold(told, |mut told| async move { Some((told.recv().await?, told)) });
        Some(stream::once(start).filter_map(std::future::ready).chain(news).boxed())
    }

    pub fn keep(&self, session: &SessionId, servers: Vec<Server>) -> BoxFuture<'static, Option<String>> {
        Box::pin(self.kept.clone().keep(session.clone(), servers))
    }

    pub fn kept(&self, session: &SessionId) -> BoxFuture<'static, Vec<Server>> {
        Box::pin(self.kept.clone().of(session.clone()))
    }

    pub fn sessions(&self) -> BoxFuture<'static, Vec<SessionId>> {
        Box::pin(self.kept.clone().sessions())
    }

    pub fn prepare(&self, session: &SessionId, prompt: &[Content]) -> Option<BoxFuture<'static, Prepared>> {
        let kit = self.kit(session)?;
        let patience = self.settings.get().servers.wait();
        if !prompt_context::is_due(kit.members().as_deref(), prompt, patience) {
            return None;
        }
        let (mut gathered, workshop, prompt) = (kit.receiver(), self.workshop.clone(), prompt.to_vec());
        Some(Box::pin(async move {
            let waited = tokio::time::timeout(patience.max(LOOK), gathered.wait_for(Option::is_some)).await;
            let Some(members) = waited.ok().and_then(|found| found.ok()?.clone()) else { return Prepared::default() };
            if members.is_empty() {
                return Prepared::default();
            }
            match workshop.spawn(prompt_context::prepare(members, prompt, patience)) {
                Ok(mut errand) => errand.done().await.unwrap_or_default(),
                Err(_) => Prepared::default(),
            }
        }))
    }

    pub fn offer(&self, session: &SessionId, mode: Mode) -> Vec<ToolSpec> {
        let tools = self.kit(session).map(|kit| kit.tools()).unwrap_or_default();
        let hints = self.hints();
        tools
            .iter()
            .filter(|tool| tool_call::allows(mode, &tool.tool, hints))
            .map(|tool| tool_call::spec(tool, hints))
            .collect()
    }

    pub fn plan(&self, request: ToolRequest, site: &CallSite) -> Result<Box<dyn Job>, Refusal> {
        let tools = self.kit(&site.session).map(|kit| kit.tools()).unwrap_or_default();
        let settings = self.settings.get();
        let around = tool_call::Around {
            workshop: self.workshop.clone(),
            hints: self.hints(),
            patience: settings.servers.call(),
            output_limit: settings.output_limit,
        };
        tool_call::plan(tools, request, site, around)
    }

    pub fn commands(&self, session: &SessionId) -> Vec<Command> {
        let Some(members) = self.kit(session).and_then(|kit| kit.members()) else { return Vec::new() };
        let there = members.iter().filter_map(|member| Some((member, member.live()?)));
        there.flat_map(|(member, live)| prompts::of(&member.name, &live)).collect()
    }

    pub fn servers(&self, session: &SessionId) -> Vec<ServerCard> {
        self.kit(session).map(|kit| kit.cards()).unwrap_or_default()
    }

    pub fn close(&self, session: &SessionId) {
        let kit = self.kits().remove(session);
        drop(kit);
    }

    fn hints(&self) -> Hints {
        if self.settings.get().servers.trust_read_only_hints { Hints::Trusted } else { Hints::Shown }
    }

    fn kit(&self, session: &SessionId) -> Option<Arc<Kit>> {
        self.kits().get(session).cloned()
    }

    fn kits(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Kit>>> {
        // The map is whole after every operation, so a panic elsewhere does not spoil it.
        self.kits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::mcp::{ServerState, Transport};

    use super::*;

    fn outfit(servers: Vec<Server>) -> McpRequest {
        let session = SessionId::new();
        McpRequest { session, cwd: "/".into(), extra_roots: Vec::new(), environment: Arc::default(), servers }
    }

    #[tokio::test]
    async fn no_room_for_a_thread_is_told_and_ends_nothing() {
        let mut mcp = McpHost::new(Arc::new(HostSettings::new("/bin/false")));
        mcp.workshop = Arc::new(Workshop::without_room());
        let transport = Transport::Http { url: "http://127.0.0.1:1/".to_owned(), headers: Vec::new() };
        let outfit = outfit(vec![Server { name: "one".to_owned(), transport }]);
        let session = outfit.session.clone();
        let news: Vec<McpEvent> = mcp.set_servers(outfit).unwrap().collect().await;
        assert_eq!(news, [McpEvent::Lost("The session's MCP servers cannot be started: no room.".to_owned())]);
        let prepared = mcp.prepare(&session, &[Content::text("hello")]).unwrap().await;
        assert_eq!(prepared, Prepared::default());
    }

    #[expect(clippy::await_holding_lock, reason = "who waits for it is a thread of its own")]
    #[tokio::test(start_paused = true)]
    async fn a_folder_that_does_not_answer_is_passed_by_after_a_while() {
        static DEAD: Mutex<()> = Mutex::new(());
        let dead = DEAD.lock().unwrap();
        let mut mcp = McpHost::new(Arc::new(HostSettings::new("/bin/false")));
        mcp.look = |folder, settings| {
            drop(DEAD.lock());
            project_file::look(folder, settings)
        };
        let outfit = outfit(Vec::new());
        let session = outfit.session.clone();
        let news = tokio::spawn(mcp.set_servers(outfit).unwrap().collect::<Vec<McpEvent>>());
        // The look has begun when the time passes.
        tokio::task::yield_now().await;
        tokio::time::advance(LOOK + Duration::from_millis(1)).await;
        assert_eq!(news.await.unwrap(), []);
        let reason = "the folder did not answer within 5 s".to_owned();
        let [card] = &mcp.servers(&session)[..] else { panic!("one line says what is wrong") };
        assert_eq!(card.state, ServerState::Off { reason: format!("{} cannot be used: {reason}", project_file::FILE) });
        drop(dead);
    }
}
