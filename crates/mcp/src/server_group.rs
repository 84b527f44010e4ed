//! The servers of one session: gathered from the editor, the configuration and the project, joined, and watched for news.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use domain::SessionId;
use domain::mcp::{McpEvent, McpRequest, Server, ServerCard, ServerState, Source, Transport};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use rmcp::model::Tool;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::HostSettings;
use crate::link::{Link, Live, Shared, State};
use crate::names::{self, Names};
use crate::project_file::{self, Project};
use crate::prompts;
use crate::runtime::Errand;
use crate::server_key::Recipe;
use crate::settings::ServerSettings;
use crate::supervisor::Keeper;

/// A server that comes and goes is not told of each time that it comes.
const STEADY: Duration = Duration::from_secs(5);

/// Servers that run, by what makes them what they are.
#[derive(Default)]
pub(crate) struct Pool(Mutex<HashMap<Recipe, Weak<Link>>>);

impl Pool {
    /// The server of this recipe, which is started if nobody has it. Must be called on the workshop's thread.
    fn join(&self, name: &str, recipe: Recipe, settings: &HostSettings) -> Arc<Link> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.strong_count() > 0);
        if let Some(link) = links.get(&recipe).and_then(Weak::upgrade) {
            return link;
        }
        let shared = Arc::new(Shared::new());
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper {
            name: name.to_owned(),
            recipe: recipe.clone(),
            runner: settings.launcher.runner.clone(),
            settings: settings.servers.clone(),
            shared: shared.clone(),
        };
        tokio::spawn(keeper.keep(stopped));
        let link = Arc::new(Link::new(shared, stop));
        links.insert(recipe, Arc::downgrade(&link));
        link
    }
}

/// A session's part in a server.
pub(crate) struct Member {
    pub(crate) name: String,
    transport: &'static str,
    source: Source,
    pub(crate) post: Post,
}

pub(crate) enum Post {
    Joined(Seat),
    /// Not even tried, for this reason.
    Off(String),
}

pub(crate) struct Seat {
    link: Arc<Link>,
    session: SessionId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.link.shared.leave(&self.session);
    }
}

impl Member {
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        match &self.post {
            Post::Joined(seat) => Some(&seat.link.shared),
            Post::Off(_) => None,
        }
    }

    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.shared()?.live()
    }

    fn card(&self, tools: Vec<String>) -> ServerCard {
        let live = self.live();
        ServerCard {
            name: self.name.clone(),
            transport: self.transport.to_owned(),
            source: self.source,
            state: match &self.post {
                Post::Joined(seat) => seat.link.shared.describe(),
                Post::Off(reason) => ServerState::Off { reason: reason.clone() },
            },
            title: live.as_ref().and_then(|live| live.title.clone()),
            tools,
            prompts: live.iter().flat_map(|live| prompts::of(&self.name, live)).map(|card| card.name).collect(),
            log: self.shared().map(|shared| shared.journal.lines()).unwrap_or_default(),
        }
    }
}

/// A tool of a server, under the name that models know.
pub(crate) struct Offered {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tool: Tool,
}

pub(crate) struct Kit {
    members: watch::Receiver<Option<Arc<[Member]>>>,
    /// Set once there is something to watch.
    watching: OnceLock<Errand<()>>,
}

impl Kit {
    pub(crate) fn new(members: watch::Receiver<Option<Arc<[Member]>>>) -> Self {
        Self { members, watching: OnceLock::new() }
    }

    /// Holds on to the work for as long as there is the kit.
    pub(crate) fn hold(&self, watching: Errand<()>) {
        // There is one work for a kit.
        let _ = self.watching.set(watching);
    }

    /// None while they are gathered.
    pub(crate) fn members(&self) -> Option<Arc<[Member]>> {
        self.members.borrow().clone()
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<Option<Arc<[Member]>>> {
        self.members.clone()
    }

    pub(crate) fn tools(&self) -> Vec<Offered> {
        self.members().map(|members| offered(&members)).unwrap_or_default()
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
            .map(|member| match member.post {
                Post::Joined(_) => member.card(of(&member.name)),
                Post::Off(_) => member.card(Vec::new()),
            })
            .collect()
    }
}

/// All tools of all servers that are there, in an order that does not change.
fn offered(members: &[Member]) -> Vec<Offered> {
    let mut all = Vec::new();
    for member in members {
        let (Some(shared), Some(live)) = (member.shared(), member.live()) else { continue };
        let mut names = Names::default();
        for tool in &live.tools {
            let Some(name) = names.tool(&member.name, &tool.name) else { continue };
            all.push(Offered { name, server: member.name.clone(), shared: shared.clone(), tool: tool.clone() });
        }
    }
    all
}

/// A server that a session wants, before it is joined.
pub(crate) struct Wanted {
    name: String,
    /// The name of its transport.
    kind: &'static str,
    source: Source,
    /// How to reach it, or why it is not used.
    transport: Result<Transport, String>,
}

/// Who a session's servers are, before any is joined: those of the editor, then the project's, then the user's; of a name
/// the first counts.
pub(crate) fn gather(outfit: &McpRequest, settings: &HostSettings, project: Project) -> Vec<Wanted> {
    let mcp = &settings.servers;
    let mut all: Vec<Wanted> = Vec::new();
    for Server { name, transport } in &outfit.servers {
        all.push(Wanted {
            name: name.clone(),
            kind: transport.name(),
            source: Source::Client,
            transport: Ok(transport.clone()),
        });
    }
    let resolved = |server: &ServerSettings| {
        if server.enabled { server.resolve(&outfit.environment) } else { Err("it is disabled".to_owned()) }
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
        all.push(Wanted { name, kind, source: Source::Project, transport });
    }
    for (name, server) in &mcp.servers {
        let kind = server.transport();
        all.push(Wanted { name: name.clone(), kind, source: Source::User, transport: resolved(server) });
    }
    let mut taken = HashSet::new();
    for Wanted { name, transport, .. } in &mut all {
        if transport.is_ok() && !taken.insert(names::key(name)) {
            *transport =
                Err("another server of this session has its name, or one that looks the same to models".to_owned());
        }
    }
    all
}

/// Joins the servers of a session and then tells what becomes of them, until it is dropped. Runs on the workshop's thread.
/// `before` is what the session had, and goes only then, so that what stays is not started anew.
pub(crate) async fn watch(
    outfit: McpRequest,
    gathered: Vec<Wanted>,
    settings: Arc<HostSettings>,
    pool: Arc<Pool>,
    before: Option<Arc<Kit>>,
    tell: mpsc::Sender<McpEvent>,
    members: watch::Sender<Option<Arc<[Member]>>>,
) {
    let roots: Vec<PathBuf> = std::iter::once(&outfit.cwd).chain(&outfit.extra_roots).cloned().collect();
    let joined: Vec<Member> = gathered
        .into_iter()
        .map(|Wanted { name, kind, source, transport }| {
            let post = match transport {
                Ok(transport) => {
                    let link = pool.join(&name, Recipe::new(transport, &outfit, &settings), &settings);
                    Post::Joined(Seat { link, session: outfit.session.clone() })
                }
                Err(reason) => Post::Off(reason),
            };
            Member { name, transport: kind, source, post }
        })
        .collect();
    drop(before);
    // After the seats of before are gone, which take the session's roots along.
    for shared in joined.iter().filter_map(Member::shared) {
        shared.join(outfit.session.clone(), roots.clone());
    }
    let joined: Arc<[Member]> = joined.into();
    members.send_replace(Some(joined.clone()));
    follow(&joined, &tell).await;
}

async fn follow(members: &[Member], tell: &mpsc::Sender<McpEvent>) {
    let mut changes: SelectAll<BoxStream<'static, (usize, State)>> = SelectAll::new();
    for (at, member) in members.iter().enumerate() {
        if let Some(shared) = member.shared() {
            changes.push(states(shared.state.subscribe()).map(move |state| (at, state)).boxed());
        }
    }
    let mut seen: Vec<Seen> = members.iter().map(|_| Seen::default()).collect();
    loop {
        let next = seen.iter().enumerate().filter_map(|(at, seen)| Some((seen.steady_at?, at))).min();
        let news = tokio::select! {
            change = changes.next() => {
                let Some((at, state)) = change else { return };
                seen[at].differs(&members[at].name, &state)
            }
            at = steady(next) => seen[at].stays(&members[at].name),
        };
        for supply in news {
            if tell.send(supply).await.is_err() {
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

/// The state as it is, and then every change.
fn states(mut state: watch::Receiver<State>) -> BoxStream<'static, State> {
    state.mark_changed();
    stream::unfold(state, |mut state| async move {
        state.changed().await.ok()?;
        let now = state.borrow_and_update().clone();
        Some((now, state))
    })
    .boxed()
}

/// What the session was told of a server.
#[derive(Default)]
struct Seen {
    tools: Vec<Tool>,
    commands: Vec<String>,
    left_out: Vec<String>,
    failed: bool,
    /// When a server that was lost counts as being there again.
    steady_at: Option<Instant>,
}

impl Seen {
    fn differs(&mut self, name: &str, state: &State) -> Vec<McpEvent> {
        let (tools, commands) = match state {
            State::Ready(live) => {
                (live.tools.clone(), prompts::of(name, live).into_iter().map(|card| card.name).collect())
            }
            State::Connecting { .. } | State::Failed { .. } => (Vec::new(), Vec::new()),
        };
        let mut news = Vec::new();
        match state {
            State::Failed { reason, .. } if !self.failed => {
                self.failed = true;
                news.push(McpEvent::Told(format!(
                    "The MCP server `{name}` is not there: {reason}. It is tried again; `/mcp` shows how it is."
                )));
            }
            State::Ready(live) if live.left_out != self.left_out => {
                self.left_out = live.left_out.clone();
                if !self.left_out.is_empty() {
                    let what = self.left_out.join(", ");
                    news.push(McpEvent::Told(format!("The MCP server `{name}` offers what cannot be used: {what}.")));
                }
            }
            State::Ready(_) | State::Failed { .. } | State::Connecting { .. } => {}
        }
        self.steady_at = match state {
            State::Ready(_) if self.failed => self.steady_at.or_else(|| Some(Instant::now() + STEADY)),
            State::Ready(_) | State::Failed { .. } | State::Connecting { .. } => None,
        };
        if tools != self.tools {
            self.tools = tools;
            news.push(McpEvent::ToolsChanged);
        }
        if commands != self.commands {
            self.commands = commands;
            news.push(McpEvent::CommandsChanged);
        }
        news
    }

    /// What is told of a server that was lost and has been there for a while.
    fn stays(&mut self, name: &str) -> Vec<McpEvent> {
        self.failed = false;
        self.steady_at = None;
        vec![McpEvent::Told(format!("The MCP server `{name}` is there again."))]
    }
}
