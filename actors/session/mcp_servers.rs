//! The MCP servers of a session. The machine decides which ones are connected and when, the toolbox
//! connects them, and this file handles their events.

use actix::{AsyncContext, Context, Handler, Message, StreamHandler};
use domain::instructions::SlashCommandCard;
use domain::mcp::{McpEvent, McpRequest, McpServer, ServerCard};
use domain::session::Input;
use domain::session::effect::ServerRequest;
use tokio::sync::watch;

use super::Session;
use crate::mail::tell;
use crate::turn::OfferTools;

/// Sets the servers that a client wants for the session, from the next turn on.
#[derive(Message, Default)]
#[rtype(result = "()")]
pub(crate) struct SetServers {
    /// The servers to connect. With None the session keeps its current ones.
    pub(crate) wanted: Option<Vec<McpServer>>,
    /// The stored servers of the session, used if it was restored from its log and has no servers
    /// yet.
    pub(crate) kept: Vec<McpServer>,
}

/// The state that the events of a session's servers update.
pub(super) struct ServerEvents {
    /// The slash commands that the servers add.
    commands: watch::Sender<Vec<SlashCommandCard>>,
    /// Numbers the event streams, because a replaced stream may still deliver an event.
    stream: u64,
}

impl Default for ServerEvents {
    fn default() -> Self {
        Self { commands: watch::Sender::new(Vec::new()), stream: 0 }
    }
}

impl ServerEvents {
    pub(super) fn commands(&self) -> watch::Receiver<Vec<SlashCommandCard>> {
        self.commands.subscribe()
    }
}

/// An event from the servers of one event stream.
struct ServerEvent {
    stream: u64,
    event: McpEvent,
}

impl Session {
    /// Makes the toolbox replace the session's servers with these.
    pub(super) fn connect_servers(&mut self, request: ServerRequest, ctx: &mut Context<Self>) {
        let ServerRequest { servers, extra_roots } = request;
        let events = self.ports.toolbox.set_servers(McpRequest {
            session: self.state().id.clone(),
            cwd: self.state().folders.cwd.clone(),
            extra_roots,
            environment: self.environment(),
            servers,
        });
        self.servers.stream += 1;
        let stream = self.servers.stream;
        if let Some(events) = events {
            ctx.add_stream(futures_util::StreamExt::map(events, move |event| ServerEvent { stream, event }));
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
            tell(turn, OfferTools(self.offered_tools()));
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
    let ServerCard { name, transport, source, state, login, title, tools, prompts, log } = server;
    let title = title.as_ref().map(|title| format!(" ({title})")).unwrap_or_default();
    let mut text = format!("- `{name}`{title}: {}; {transport}, from the {}", state.describe(), source.name());
    if let Some(command) = login {
        text.push_str(&format!("\n  - wants a login for some calls: run `{command}`"));
    }
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
        self.deliver(Input::SetServers { wanted, kept }, ctx);
    }
}

impl StreamHandler<ServerEvent> for Session {
    fn handle(&mut self, ServerEvent { stream, event }: ServerEvent, ctx: &mut Context<Self>) {
        if stream != self.servers.stream {
            return;
        }
        match event {
            McpEvent::ToolsChanged => self.offer_tools(),
            McpEvent::CommandsChanged => self.publish_commands(),
            McpEvent::Lost(text) => {
                self.deliver(Input::ServersLost { text }, ctx);
            }
            McpEvent::Notice(text) => {
                self.deliver(Input::Notice { text }, ctx);
            }
        }
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The end of this stream means that the servers ended, not the session.
    }
}
