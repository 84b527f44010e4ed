//! The servers of one session: collects them from the editor, the configuration and the project,
//! joins them, and watches them for changes.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use domain::SessionId;
use domain::mcp::{McpEvent, McpRequest, McpServer, McpServerSource, McpTransport, ServerCard, ServerState};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use process::IoTask;
use rmcp::model::Tool;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::HostSettings;
use crate::link::{ConnectedServer, ConnectionState, ServerLink, SharedServer};
use crate::login::StoredLogins;
use crate::names::{self, ToolNames};
use crate::project_file::{self, ProjectServers};
use crate::server_key::ServerKey;
use crate::settings::ServerSettings;
use crate::supervisor::Supervisor;
use crate::{offer, prompts};

/// How long a server must be connected before its return is reported.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// The most bytes of instructions that a model gets from all servers of a session.
const MAX_INSTRUCTIONS_BYTES: usize = 32 << 10;

/// The running servers by their keys.
pub(crate) struct ServerPool {
    links: Mutex<HashMap<ServerKey, Weak<ServerLink>>>,
    /// The folders of the programs that run, each with a channel that closes when the program and
    /// everything that it started has ended.
    programs: Mutex<Vec<(PathBuf, watch::Receiver<()>)>>,
    logins: Arc<StoredLogins>,
}

impl ServerPool {
    pub(crate) fn new(logins: StoredLogins) -> Self {
        Self { links: Mutex::default(), programs: Mutex::default(), logins: Arc::new(logins) }
    }

    /// Waits until no program runs in a folder or below it.
    pub(crate) fn ended_in(&self, folder: &Path) -> impl Future<Output = ()> + Send + use<> {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = programs.iter().filter(|(own, _)| own.starts_with(folder));
        let running: Vec<watch::Receiver<()>> = inside.map(|(_, running)| running.clone()).collect();
        async move {
            for mut running in running {
                while running.changed().await.is_ok() {}
            }
        }
    }

    /// Returns the server with this key. Starts it if it is not running. Must be called on the
    /// thread for MCP servers.
    fn join(&self, name: &str, key: ServerKey, settings: &HostSettings) -> Arc<ServerLink> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.strong_count() > 0);
        if let Some(link) = links.get(&key).and_then(Weak::upgrade) {
            return link;
        }
        let shared = Arc::new(SharedServer::new());
        let (stop, stopped) = oneshot::channel();
        let (running, ended) = watch::channel(());
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.retain(|(_, running)| running.has_changed().is_ok());
        programs.push((key.folder.clone(), ended));
        let supervisor = Supervisor {
            name: name.to_owned(),
            key: key.clone(),
            runner: settings.launcher.runner.clone(),
            settings: settings.servers.clone(),
            shared: shared.clone(),
            bearer: key.bearer(&self.logins),
            running: Arc::new(running),
        };
        tokio::spawn(supervisor.keep(stopped));
        let link = Arc::new(ServerLink::new(shared, stop));
        links.insert(key, Arc::downgrade(&link));
        link
    }
}

/// A server in a session's group.
pub(crate) struct Member {
    pub(crate) name: String,
    transport: &'static str,
    source: McpServerSource,
    pub(crate) state: MemberState,
}

pub(crate) enum MemberState {
    Joined(Membership),
    /// The server is not used, for this reason.
    Off(String),
}

pub(crate) struct Membership {
    link: Arc<ServerLink>,
    session: SessionId,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.link.shared.leave(&self.session);
    }
}

impl Member {
    pub(crate) fn shared(&self) -> Option<&Arc<SharedServer>> {
        match &self.state {
            MemberState::Joined(membership) => Some(&membership.link.shared),
            MemberState::Off(_) => None,
        }
    }

    pub(crate) fn connected(&self) -> Option<Arc<ConnectedServer>> {
        self.shared()?.connected()
    }

    fn card(&self, tools: Vec<String>) -> ServerCard {
        let connected = self.connected();
        ServerCard {
            name: self.name.clone(),
            transport: self.transport.to_owned(),
            source: self.source,
            state: match &self.state {
                MemberState::Joined(membership) => membership.link.shared.describe(),
                MemberState::Off(reason) => ServerState::Off { reason: reason.clone() },
            },
            login: self.shared().and_then(|shared| shared.login()),
            title: connected.as_ref().and_then(|connected| connected.title.clone()),
            tools,
            prompts: connected
                .iter()
                .flat_map(|connected| prompts::of(&self.name, connected))
                .map(|card| card.name)
                .collect(),
            log: self.shared().map(|shared| shared.log.lines()).unwrap_or_default(),
        }
    }
}

/// A tool of a server, under the name that models know.
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) shared: Arc<SharedServer>,
    pub(crate) tool: Tool,
}

pub(crate) struct ServerGroup {
    members: watch::Receiver<Option<Arc<[Member]>>>,
    /// The task that watches the servers, once it has started.
    watching: OnceLock<IoTask<()>>,
}

impl ServerGroup {
    pub(crate) fn new(members: watch::Receiver<Option<Arc<[Member]>>>) -> Self {
        Self { members, watching: OnceLock::new() }
    }

    /// Keeps the task running as long as the group exists.
    pub(crate) fn hold(&self, watching: IoTask<()>) {
        // A group has only one such task.
        let _ = self.watching.set(watching);
    }

    /// Returns the servers; None while they are being collected.
    pub(crate) fn members(&self) -> Option<Arc<[Member]>> {
        self.members.borrow().clone()
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<Option<Arc<[Member]>>> {
        self.members.clone()
    }

    pub(crate) fn tools(&self) -> Vec<OfferedTool> {
        self.members().map(|members| offered(&members)).unwrap_or_default()
    }

    pub(crate) fn instructions(&self) -> String {
        self.members().map(|members| instructions(&members)).unwrap_or_default()
    }

    pub(crate) fn cards(&self) -> Vec<ServerCard> {
        let Some(members) = self.members() else { return Vec::new() };
        let tools = offered(&members);
        let of = |server: &str| {
            let own = tools.iter().filter(|tool| tool.server == server);
            own.map(|tool| tool.name.clone()).collect()
        };
        members
            .iter()
            .map(|member| match member.state {
                MemberState::Joined(_) => member.card(of(&member.name)),
                MemberState::Off(_) => member.card(Vec::new()),
            })
            .collect()
    }
}

/// Returns all tools of all connected servers, in a stable order.
fn offered(members: &[Member]) -> Vec<OfferedTool> {
    let mut all = Vec::new();
    for member in members {
        let (Some(shared), Some(connected)) = (member.shared(), member.connected()) else { continue };
        let mut names = ToolNames::default();
        for tool in &connected.tools {
            let Some(name) = names.tool(&member.name, &tool.name) else { continue };
            all.push(OfferedTool { name, server: member.name.clone(), shared: shared.clone(), tool: tool.clone() });
        }
    }
    all
}

/// Returns what the connected servers tell models about their use, each marked with its server;
/// empty if they say nothing.
fn instructions(members: &[Member]) -> String {
    let mut text = String::new();
    for member in members {
        let Some(connected) = member.connected() else { continue };
        let Some(own) = &connected.instructions else { continue };
        let block = offer::instructions_block(&member.name, own);
        if text.len() + block.len() > MAX_INSTRUCTIONS_BYTES {
            break;
        }
        text.push_str(&block);
    }
    text
}

/// A server that a session wants, before it is joined.
pub(crate) struct WantedServer {
    name: String,
    /// The name of its transport.
    kind: &'static str,
    source: McpServerSource,
    /// How to reach it, or the reason why it is not used.
    transport: Result<McpTransport, String>,
}

/// Collects the servers of a session: first the editor's, then the project's, then the user's. Of
/// several servers with the same name, only the first is used.
pub(crate) fn gather(request: &McpRequest, settings: &HostSettings, project: ProjectServers) -> Vec<WantedServer> {
    let mcp = &settings.servers;
    let mut all: Vec<WantedServer> = Vec::new();
    for McpServer { name, transport } in &request.servers {
        all.push(WantedServer {
            name: name.clone(),
            kind: transport.name(),
            source: McpServerSource::Client,
            transport: Ok(transport.clone()),
        });
    }
    let resolved = |server: &ServerSettings| {
        if server.enabled { server.resolve(&request.environment) } else { Err("it is disabled".to_owned()) }
    };
    for (name, server) in project.servers {
        let kind = server.as_ref().map_or("", ServerSettings::transport);
        let transport = match server {
            Err(why) => Err(format!("{} cannot be used: {why}", project_file::FILE)),
            Ok(server) if project.trusted => resolved(&server),
            Ok(_) => Err(format!(
                "{} is not trusted; to run what its {} names, add it to `trusted_projects` under [mcp] in the configuration",
                project.real.display(),
                project_file::FILE,
            )),
        };
        all.push(WantedServer { name, kind, source: McpServerSource::Project, transport });
    }
    for (name, server) in &mcp.servers {
        let kind = server.transport();
        all.push(WantedServer { name: name.clone(), kind, source: McpServerSource::User, transport: resolved(server) });
    }
    let mut taken = HashSet::new();
    for WantedServer { name, transport, .. } in &mut all {
        if transport.is_ok() && !taken.insert(names::key(name)) {
            *transport =
                Err("another server of this session has its name, or one that looks the same to models".to_owned());
        }
    }
    all
}

/// Joins the servers of a session and then reports what happens to them, until the future is
/// dropped. Runs on their thread. `before` is the session's previous group. It is dropped only
/// after joining, so that servers in both groups keep running.
pub(crate) async fn watch(
    request: McpRequest,
    gathered: Vec<WantedServer>,
    settings: Arc<HostSettings>,
    pool: Arc<ServerPool>,
    before: Option<Arc<ServerGroup>>,
    tell: mpsc::Sender<McpEvent>,
    members: watch::Sender<Option<Arc<[Member]>>>,
) {
    let roots: Vec<PathBuf> = std::iter::once(&request.cwd).chain(&request.extra_roots).cloned().collect();
    let joined: Vec<Member> = gathered
        .into_iter()
        .map(|WantedServer { name, kind, source, transport }| {
            let state = match transport {
                Ok(transport) => {
                    let link = pool.join(&name, ServerKey::new(transport, &request, &settings), &settings);
                    MemberState::Joined(Membership { link, session: request.session.clone() })
                }
                Err(reason) => MemberState::Off(reason),
            };
            Member { name, transport: kind, source, state }
        })
        .collect();
    drop(before);
    // Dropping the previous members removes the session's roots, so they are added afterwards.
    for shared in joined.iter().filter_map(Member::shared) {
        shared.join(request.session.clone(), roots.clone());
    }
    let joined: Arc<[Member]> = joined.into();
    members.send_replace(Some(joined.clone()));
    follow(&joined, &tell).await;
}

async fn follow(members: &[Member], tell: &mpsc::Sender<McpEvent>) {
    let mut changes: SelectAll<BoxStream<'static, (usize, ConnectionState)>> = SelectAll::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(shared) = member.shared() {
            changes.push(states(shared.state.subscribe()).map(move |state| (at, state)).boxed());
        }
    }
    let mut seen: Vec<ReportedState> = members.iter().map(|_| ReportedState::default()).collect();
    loop {
        let next = seen.iter().enumerate().filter_map(|(at, seen)| Some((seen.steady_at?, at))).min();
        let events = tokio::select! {
            change = changes.next() => {
                let Some((at, state)) = change else { return };
                seen[at].differs(&members[at].name, &state)
            }
            at = steady(next) => seen[at].stays(&members[at].name),
        };
        for event in events {
            if tell.send(event).await.is_err() {
                return;
            }
        }
    }
}

async fn steady(next: Option<(Instant, usize)>) -> usize {
    let Some((when, at)) = next else { return std::future::pending().await };
    tokio::time::sleep_until(when).await;
    at
}

/// Returns a stream of the present state and all later ones.
fn states(mut state: watch::Receiver<ConnectionState>) -> BoxStream<'static, ConnectionState> {
    state.mark_changed();
    stream::unfold(state, |mut state| async move {
        state.changed().await.ok()?;
        let now = state.borrow_and_update().clone();
        Some((now, state))
    })
    .boxed()
}

/// The last report to the session about a server.
#[derive(Default)]
struct ReportedState {
    tools: Vec<Tool>,
    commands: Vec<String>,
    left_out: Vec<String>,
    failed: bool,
    needs_login: bool,
    /// The time at which a server that was lost counts as back.
    steady_at: Option<Instant>,
}

impl ReportedState {
    fn differs(&mut self, name: &str, state: &ConnectionState) -> Vec<McpEvent> {
        let (tools, commands) = match state {
            ConnectionState::Ready(connected) => {
                (connected.tools.clone(), prompts::of(name, connected).into_iter().map(|card| card.name).collect())
            }
            ConnectionState::Connecting { .. }
            | ConnectionState::Failed { .. }
            | ConnectionState::NeedsLogin { .. } => (Vec::new(), Vec::new()),
        };
        let mut events = Vec::new();
        match state {
            ConnectionState::Failed { reason, .. } if !self.failed => {
                self.failed = true;
                events.push(McpEvent::Notice(format!(
                    "The MCP server `{name}` is not available: {reason}. acpd tries again; `/mcp` shows its state."
                )));
            }
            ConnectionState::Ready(connected) if connected.left_out != self.left_out => {
                self.left_out = connected.left_out.clone();
                if !self.left_out.is_empty() {
                    let what = self.left_out.join(", ");
                    events.push(McpEvent::Notice(format!(
                        "Some of what the MCP server `{name}` offers cannot be used: {what}."
                    )));
                }
            }
            ConnectionState::NeedsLogin { command, problem } if !self.needs_login => {
                self.failed = true;
                self.needs_login = true;
                let problem = problem.as_ref().map(|why| format!(" The stored login cannot be read: {why}."));
                events.push(McpEvent::Notice(format!(
                    "The MCP server `{name}` needs a login: run `{command}` in a terminal. It connects by itself \
                     afterwards.{}",
                    problem.unwrap_or_default()
                )));
            }
            ConnectionState::Ready(_)
            | ConnectionState::Failed { .. }
            | ConnectionState::NeedsLogin { .. }
            | ConnectionState::Connecting { .. } => {}
        }
        self.steady_at = match state {
            ConnectionState::Ready(_) if self.failed => self.steady_at.or_else(|| Some(Instant::now() + STABLE_AFTER)),
            ConnectionState::Ready(_)
            | ConnectionState::Failed { .. }
            | ConnectionState::NeedsLogin { .. }
            | ConnectionState::Connecting { .. } => None,
        };
        if tools != self.tools {
            self.tools = tools;
            events.push(McpEvent::ToolsChanged);
        }
        if commands != self.commands {
            self.commands = commands;
            events.push(McpEvent::CommandsChanged);
        }
        events
    }

    /// Returns the events for a server that was lost and has been connected again for a while.
    fn stays(&mut self, name: &str) -> Vec<McpEvent> {
        self.failed = false;
        self.needs_login = false;
        self.steady_at = None;
        vec![McpEvent::Notice(format!("The MCP server `{name}` is available again."))]
    }
}
