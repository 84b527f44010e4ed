//! The MCP servers of a session: which ones it wants, when they are connected, and how their events
//! are handled. The toolbox connects the servers; a session only names them and forwards their
//! events.

use std::path::PathBuf;
use std::sync::Arc;

use actix::{AsyncContext, Context, Handler, Message, StreamHandler};
use domain::Environment;
use domain::briefing::Command;
use domain::mcp::{McpEvent, McpRequest, Server, ServerCard};
use domain::session::{Activity, Input};
use tokio::sync::watch;

use super::Session;
use crate::mail::tell;
use crate::turn::OfferTools;

/// Sets the servers that a client wants for the session, from the next turn on.
#[derive(Message, Default)]
#[rtype(result = "()")]
pub(crate) struct SetServers {
    /// The servers to connect. With None the session keeps its current ones.
    pub(crate) wanted: Option<Vec<Server>>,
    /// The stored servers of the session, used if it was restored from its log and has no servers
    /// yet.
    pub(crate) kept: Vec<Server>,
}

/// The servers of a session, current and pending.
pub(super) struct ServerSet {
    /// What the current servers were connected for. None before a client with an environment has
    /// attached.
    now: Option<Wanted>,
    /// The servers to connect at the next turn.
    next: Option<Vec<Server>>,
    /// The stored servers of a session that was restored from its log. They are connected with the
    /// first turn, or as soon as there is an environment: a client that only looks at a session
    /// starts no programs.
    kept: Option<Vec<Server>>,
    /// The slash commands that the servers add.
    commands: watch::Sender<Vec<Command>>,
    /// Numbers the event streams, because a replaced stream may still deliver an event.
    stream: u64,
}

#[derive(PartialEq)]
struct Wanted {
    servers: Vec<Server>,
    extra_roots: Vec<PathBuf>,
    environment: Option<Arc<Environment>>,
}

impl Default for ServerSet {
    fn default() -> Self {
        Self { now: None, next: None, kept: None, commands: watch::Sender::new(Vec::new()), stream: 0 }
    }
}

impl ServerSet {
    pub(super) fn commands(&self) -> watch::Receiver<Vec<Command>> {
        self.commands.subscribe()
    }
}

/// An event from the servers of one event stream.
struct Heard {
    stream: u64,
    supply: McpEvent,
}

impl Session {
    /// Has the toolbox connect the wanted servers, unless they are the current ones.
    pub(super) fn connect_servers(&mut self, ctx: &mut Context<Self>) {
        let before = self.servers.now.as_ref().map(|wanted| wanted.servers.clone());
        let kept = self.servers.kept.take();
        let Some(servers) = self.servers.next.take().or(before).or(kept) else { return };
        let extra_roots = self.machine.wanted_roots().to_vec();
        let wanted = Wanted { servers, extra_roots, environment: self.tool_context.environment.clone() };
        if self.servers.now.as_ref() == Some(&wanted) {
            return;
        }
        let news = self.ports.toolbox.set_servers(McpRequest {
            session: self.state().id.clone(),
            cwd: self.state().cwd.clone(),
            extra_roots: wanted.extra_roots.clone(),
            environment: self.environment(),
            servers: wanted.servers.clone(),
        });
        self.servers.now = Some(wanted);
        self.servers.stream += 1;
        let stream = self.servers.stream;
        if let Some(news) = news {
            ctx.add_stream(futures_util::StreamExt::map(news, move |supply| Heard { stream, supply }));
        }
        self.publish_commands();
    }

    fn publish_commands(&self) {
        let commands = self.ports.toolbox.commands(&self.state().id);
        self.servers.commands.send_if_modified(|known| {
            let differs = *known != commands;
            *known = commands;
            differs
        });
    }

    /// Gives the running turn the current tools, which it offers from its next request on.
    fn offer_tools(&self) {
        if let Some((turn, _)) = &self.work.turn {
            tell(turn, OfferTools(self.ports.toolbox.offer(&self.state().id, self.state().mode)));
        }
    }

    pub(super) fn describe_servers(&self) -> String {
        let servers = self.ports.toolbox.servers(&self.state().id);
        if servers.is_empty() {
            return "There are no MCP servers in this session.".to_owned();
        }
        servers.iter().map(describe).collect::<Vec<_>>().join("\n")
    }
}

fn describe(server: &ServerCard) -> String {
    let ServerCard { name, transport, source, state, title, tools, prompts, log } = server;
    let title = title.as_ref().map(|title| format!(" ({title})")).unwrap_or_default();
    let mut text = format!("- `{name}`{title}: {}; {transport}, from the {}", state.describe(), source.name());
    let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if !tools.is_empty() {
        text.push_str(&format!("\n  - tools: {}", list(tools)));
    }
    if !prompts.is_empty() {
        let commands: Vec<String> = prompts.iter().map(|name| format!("/{name}")).collect();
        text.push_str(&format!("\n  - prompts: {}", list(&commands)));
    }
    for line in log.iter().rev().take(LOG).rev() {
        text.push_str(&format!("\n  - log: `{}`", line.replace('`', "'")));
    }
    text
}

/// How many lines of a server's log are shown.
const LOG: usize = 5;

impl Handler<SetServers> for Session {
    type Result = ();

    fn handle(&mut self, SetServers { wanted, kept }: SetServers, ctx: &mut Context<Self>) {
        if wanted.is_some() {
            self.servers.next = wanted;
        } else if self.servers.now.is_none() {
            self.servers.kept = Some(kept);
        }
        let may = matches!(self.machine.activity(), Activity::Idle | Activity::Waiting(_));
        if may && (self.servers.next.is_some() || self.tool_context.environment.is_some()) {
            self.connect_servers(ctx);
        }
    }
}

impl StreamHandler<Heard> for Session {
    fn handle(&mut self, Heard { stream, supply }: Heard, ctx: &mut Context<Self>) {
        if stream != self.servers.stream {
            return;
        }
        match supply {
            McpEvent::ToolsChanged => self.offer_tools(),
            McpEvent::CommandsChanged => self.publish_commands(),
            McpEvent::Lost(text) => {
                // The next turn tries to connect the servers again.
                self.servers.next = self.servers.now.take().map(|wanted| wanted.servers);
                self.deliver(Input::Notice { text }, ctx);
            }
            McpEvent::Told(text) => {
                self.deliver(Input::Notice { text }, ctx);
            }
        }
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The end of this stream means that the servers ended, not the session.
    }
}
