//! MCP servers: tools, prompts and resources of other programs, for the sessions that want them.
//!
//! A session's servers are those that its editor passed, those of the user's configuration and, where the user trusts the
//! folder, those of the project (`kit`). Sessions share a server only if nothing about it differs (`recipe`). All talking
//! happens on a thread of its own (`workshop`); `link` is what both sides see of a server, and `keeping` connects it and
//! tries again. Programs run under `run`, so that nothing of them outlives the last session that wants them.

mod call;
mod commands;
mod context;
mod ears;
mod journal;
mod keeping;
mod kit;
mod link;
mod names;
mod outcome;
mod project;
mod recipe;
mod remote;
mod settings;
mod stdio;
mod workshop;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::briefing::Command;
use domain::mcp::{Outfit, Prepared, ServerCard, Supply};
use domain::tool::{Job, Refusal, ToolRequest, ToolSpec};
use domain::{Content, Mode, SessionId, Site, Swap};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::{mpsc, watch};

pub use settings::{McpSettings, ServerSettings};

use self::call::Hints;
use self::kit::{Kit, Pool};
use self::workshop::Workshop;
use crate::Settings;

/// News of its servers that a session may be behind with.
const SUPPLIES: usize = 64;

/// The servers of all sessions.
pub(crate) struct Mcp {
    settings: Swap<Settings>,
    workshop: Arc<Workshop>,
    pool: Arc<Pool>,
    kits: Mutex<HashMap<SessionId, Arc<Kit>>>,
}

impl Mcp {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings: Swap::from(settings), workshop: Arc::default(), pool: Arc::default(), kits: Mutex::default() }
    }

    /// Counts for what is equipped from now on; servers that run keep what they were started with.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        self.settings.replace(settings);
    }

    /// Whether a name is that of a server's tool.
    pub(crate) fn names(tool: &str) -> bool {
        tool.starts_with(names::PREFIX)
    }

    pub(crate) fn equip(&self, outfit: Outfit) -> Option<BoxStream<'static, Supply>> {
        let session = outfit.session.clone();
        let before = self.kits().remove(&session);
        let settings = self.settings.get();
        let wanted = !outfit.servers.is_empty() || !settings.mcp.servers.is_empty();
        // One look at one name, so that a session without servers costs nothing.
        if !wanted && !project::is_there(&outfit.cwd) {
            return None;
        }
        // A session that does not listen holds up its news, not the server.
        let (tell, told) = mpsc::channel(SUPPLIES);
        let (members, gathered) = watch::channel(None);
        let watching = kit::watch(outfit, settings, self.pool.clone(), before, tell, members);
        let kit = Kit::new(gathered, self.workshop.spawn(watching));
        self.kits().insert(session, Arc::new(kit));
        Some(stream::unfold(told, |mut told| async move { Some((told.recv().await?, told)) }).boxed())
    }

    pub(crate) fn prepare(&self, session: &SessionId, prompt: &[Content]) -> Option<BoxFuture<'static, Prepared>> {
        let kit = self.kit(session)?;
        let patience = self.settings.get().mcp.wait();
        if !context::is_due(kit.members().as_deref(), prompt, patience) {
            return None;
        }
        let mut errand = self.workshop.spawn(context::prepare(kit.receiver(), prompt.to_vec(), patience));
        Some(Box::pin(async move { errand.done().await.unwrap_or_default() }))
    }

    pub(crate) fn offer(&self, session: &SessionId, mode: Mode) -> Vec<ToolSpec> {
        let tools = self.kit(session).map(|kit| kit.tools()).unwrap_or_default();
        let hints = self.hints();
        tools.iter().filter(|tool| call::allows(mode, &tool.tool, hints)).map(|tool| call::spec(tool, hints)).collect()
    }

    pub(crate) fn plan(&self, request: ToolRequest, site: &Site) -> Result<Box<dyn Job>, Refusal> {
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
