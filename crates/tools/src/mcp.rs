//! MCP servers: tools, prompts and resources of other programs, for the sessions that want them.
//!
//! A session's servers are those that its editor passed, those of the user's configuration and, where the user trusts the
//! folder, those of the project (`kit`). Sessions share a server only if nothing about it differs (`recipe`). All talking
//! happens on a thread of its own (`workshop`); `link` is what both sides see of a server, and `keeping` connects it and
//! tries again. Programs run under `run`, so that nothing of them outlives the last session that wants them.

mod bounded;
mod call;
mod commands;
mod context;
mod ears;
mod http;
mod journal;
mod keeping;
mod kept;
mod kit;
mod lenient;
mod link;
mod names;
mod offer;
mod outcome;
mod project;
mod recipe;
mod remote;
mod settings;
mod stdio;
mod workshop;

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

pub use settings::{McpSettings, ServerSettings};

use self::call::Hints;
use self::kept::Kept;
use self::kit::{Kit, Pool};
use self::project::Project;
use self::workshop::Workshop;
use crate::Settings;

/// How long a project's folder may take to be looked at. It may lie on a network that is gone.
const LOOK: Duration = Duration::from_secs(5);

/// News of its servers that a session may be behind with.
const SUPPLIES: usize = 64;

/// The servers of all sessions.
pub(crate) struct Mcp {
    settings: Swap<Settings>,
    workshop: Arc<Workshop>,
    pool: Arc<Pool>,
    kits: Mutex<HashMap<SessionId, Arc<Kit>>>,
    kept: Arc<Kept>,
    /// How a project's folder is looked at.
    look: fn(&Path, &McpSettings) -> Project,
}

impl Mcp {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let kept = Kept::new(settings.kept_servers.clone());
        let settings = Swap::from(settings);
        Self {
            settings,
            workshop: Arc::default(),
            pool: Arc::default(),
            kits: Mutex::default(),
            kept,
            look: project::look,
        }
    }

    /// Counts for what is equipped from now on; servers that run keep what they were started with.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        self.settings.replace(settings);
    }

    /// Whether a name is that of a server's tool.
    pub(crate) fn names(tool: &str) -> bool {
        tool.starts_with(names::PREFIX)
    }

    /// Must be called within a tokio runtime. The look at the project's folder may block, so it happens elsewhere.
    pub(crate) fn set_servers(&self, outfit: McpRequest) -> Option<BoxStream<'static, McpEvent>> {
        let session = outfit.session.clone();
        let (members, gathered) = watch::channel(None);
        let kit = Arc::new(Kit::new(gathered));
        let mine = Arc::downgrade(&kit);
        let before = self.kits().insert(session, kit);
        let (settings, workshop, pool) = (self.settings.get(), self.workshop.clone(), self.pool.clone());
        let look = {
            let (look, folder, settings) = (self.look, outfit.cwd.clone(), settings.clone());
            tokio::task::spawn_blocking(move || look(&folder, &settings.mcp))
        };
        // A session that does not listen holds up its news, not the server.
        let (tell, told) = mpsc::channel(SUPPLIES);
        let start = async move {
            let looked = tokio::time::timeout(LOOK, look).await.ok().and_then(Result::ok);
            let project = looked.unwrap_or_else(|| project::unanswered(&outfit.cwd, LOOK));
            let gathered = kit::gather(&outfit, &settings, project);
            // It may have been replaced meanwhile.
            let kit = mine.upgrade()?;
            if gathered.is_empty() {
                members.send_replace(Some(Arc::new([])));
                return None;
            }
            match workshop.spawn(kit::watch(outfit, gathered, settings, pool, before, tell, members)) {
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

    pub(crate) fn keep(&self, session: &SessionId, servers: Vec<Server>) -> BoxFuture<'static, Option<String>> {
        Box::pin(self.kept.clone().keep(session.clone(), servers))
    }

    pub(crate) fn kept(&self, session: &SessionId) -> BoxFuture<'static, Vec<Server>> {
        Box::pin(self.kept.clone().of(session.clone()))
    }

    pub(crate) fn sessions(&self) -> BoxFuture<'static, Vec<SessionId>> {
        Box::pin(self.kept.clone().sessions())
    }

    pub(crate) fn prepare(&self, session: &SessionId, prompt: &[Content]) -> Option<BoxFuture<'static, Prepared>> {
        let kit = self.kit(session)?;
        let patience = self.settings.get().mcp.wait();
        if !context::is_due(kit.members().as_deref(), prompt, patience) {
            return None;
        }
        let (mut gathered, workshop, prompt) = (kit.receiver(), self.workshop.clone(), prompt.to_vec());
        Some(Box::pin(async move {
            let waited = tokio::time::timeout(patience.max(LOOK), gathered.wait_for(Option::is_some)).await;
            let Some(members) = waited.ok().and_then(|found| found.ok()?.clone()) else { return Prepared::default() };
            if members.is_empty() {
                return Prepared::default();
            }
            match workshop.spawn(context::prepare(members, prompt, patience)) {
                Ok(mut errand) => errand.done().await.unwrap_or_default(),
                Err(_) => Prepared::default(),
            }
        }))
    }

    pub(crate) fn offer(&self, session: &SessionId, mode: Mode) -> Vec<ToolSpec> {
        let tools = self.kit(session).map(|kit| kit.tools()).unwrap_or_default();
        let hints = self.hints();
        tools.iter().filter(|tool| call::allows(mode, &tool.tool, hints)).map(|tool| call::spec(tool, hints)).collect()
    }

    pub(crate) fn plan(&self, request: ToolRequest, site: &CallSite) -> Result<Box<dyn Job>, Refusal> {
        let tools = self.kit(&site.session).map(|kit| kit.tools()).unwrap_or_default();
        let settings = self.settings.get();
        let around = call::Around {
            workshop: self.workshop.clone(),
            hints: self.hints(),
            patience: settings.mcp.call(),
            output_limit: settings.output_limit,
        };
        call::plan(tools, request, site, around)
    }

    pub(crate) fn commands(&self, session: &SessionId) -> Vec<Command> {
        let Some(members) = self.kit(session).and_then(|kit| kit.members()) else { return Vec::new() };
        let there = members.iter().filter_map(|member| Some((member, member.live()?)));
        there.flat_map(|(member, live)| commands::of(&member.name, &live)).collect()
    }

    pub(crate) fn servers(&self, session: &SessionId) -> Vec<ServerCard> {
        self.kit(session).map(|kit| kit.cards()).unwrap_or_default()
    }

    pub(crate) fn close(&self, session: &SessionId) {
        let kit = self.kits().remove(session);
        drop(kit);
    }

    fn hints(&self) -> Hints {
        if self.settings.get().mcp.trust_read_only_hints { Hints::Trusted } else { Hints::Shown }
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
        let mut mcp = Mcp::new(Arc::new(Settings::new("/bin/false")));
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
        let mut mcp = Mcp::new(Arc::new(Settings::new("/bin/false")));
        mcp.look = |folder, settings| {
            drop(DEAD.lock());
            project::look(folder, settings)
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
        assert_eq!(card.state, ServerState::Off { reason: format!("{} cannot be used: {reason}", project::FILE) });
        drop(dead);
    }
}
