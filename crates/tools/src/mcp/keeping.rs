//! Keeps a server connected: starts or reaches it, learns what it offers, follows changes, notices when it is lost, and
//! tries again, less and less often.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rmcp::model::{PaginatedRequestParams, ServerCapabilities};
use rmcp::service::{ClientInitializeError, Peer, QuitReason, RoleClient, RunningService, ServiceError};
use rmcp::{ServiceExt, model};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::ears::Ears;
use super::link::{Live, Shared, State};
use super::recipe::{Reach, Recipe};
use super::remote::{self, Sse, innermost};
use super::settings::McpSettings;
use super::stdio::Stdio;
use crate::run::{Command, Conversing, Ending, Process};
use crate::tool::cut;

/// Before the second try, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A server that has worked for so long is tried again at once.
const STEADY: Duration = Duration::from_secs(30);

/// The helper ends everything within 2 seconds, see `run`; beyond this it is stuck and gets killed itself.
const HELPER_PATIENCE: Duration = Duration::from_millis(1900);

/// A program that hangs up is about to end, more often than not, and says why.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A server that keeps saying that its offer has changed is asked this often.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What one server may offer, and in how many pieces.
const MOST: usize = 1000;
const MOST_PAGES: usize = 50;

/// Bytes of what one tool says of itself, and of what all of them do.
const LARGEST_TOOL: usize = 64 << 10;
const LARGEST_TOOLS: usize = 4 << 20;

pub(super) struct Keeper {
    pub(super) name: String,
    pub(super) recipe: Recipe,
    pub(super) runner: std::path::PathBuf,
    pub(super) settings: McpSettings,
    pub(super) shared: Arc<Shared>,
}

/// A connection that stands.
struct Connected {
    service: RunningService<RoleClient, Ears>,
    process: Option<Process>,
}

impl Keeper {
    /// Returns when nobody wants the server any more, with everything of it gone.
    pub(super) async fn keep(self, mut stop: oneshot::Receiver<()>) {
        let mut pause = FIRST_PAUSE;
        let mut first = true;
        loop {
            self.shared.state.send_replace(State::Connecting { since: Instant::now(), first });
            let connected = tokio::select! {
                connected = self.connect() => connected,
                _ = &mut stop => return,
            };
            let reason = match connected {
                Ok((connected, live)) => {
                    tracing::debug!(server = self.name, "connected");
                    let since = Instant::now();
                    self.shared.state.send_replace(State::Ready(Arc::new(live)));
                    let Some(reason) = self.watch(connected, &mut stop).await else { return };
                    first = since.elapsed() > STEADY;
                    if first {
                        pause = FIRST_PAUSE;
                    }
                    reason
                }
                Err(reason) => {
                    first = false;
                    reason
                }
            };
            tracing::warn!(server = self.name, reason, "an MCP server is not there");
            let wait = if first { Duration::ZERO } else { pause };
            self.shared.state.send_replace(State::Failed { reason, until: Instant::now() + wait });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = &mut stop => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self) -> Result<(Connected, Live), String> {
        let limit = self.settings.connect();
        let late = || format!("it did not connect within {} s", limit.as_secs());
        let deadline = tokio::time::Instant::now() + limit;
        let connected = match &self.recipe.reach {
            Reach::Program { command, args, environment } => {
                let program = Command {
                    runner: self.runner.clone(),
                    program: command.clone(),
                    arguments: args.clone(),
                    environment: environment.clone(),
                    folder: self.recipe.folder.clone(),
                    sandbox: None,
                    process_limit: None,
                    input: None,
                };
                self.start(program, deadline).await?
            }
            Reach::Http { url, headers } => {
                let shake = async {
                    let client = remote::client().await.map_err(|error| error.to_string())?;
                    let transport = remote::http(client, url, headers).map_err(|error| error.to_string())?;
                    self.ears().serve(transport).await.map_err(|error| describe(&error))
                };
                let service = tokio::time::timeout_at(deadline, shake).await.map_err(|_| late())??;
                Connected { service, process: None }
            }
            Reach::Sse { url, headers } => {
                let shake = async {
                    let client = remote::client().await.map_err(|error| error.to_string())?;
                    let transport = Sse::connect(client, url, headers).await.map_err(|error| error.to_string())?;
                    self.ears().serve(transport).await.map_err(|error| describe(&error))
                };
                let service = tokio::time::timeout_at(deadline, shake).await.map_err(|_| late())??;
                Connected { service, process: None }
            }
        };
        let peer = connected.service.peer().clone();
        match tokio::time::timeout_at(deadline, self.look(&peer)).await {
            Ok(Ok(live)) => Ok((connected, live)),
            Ok(Err(error)) => {
                let error = cut(&error.to_string(), 300);
                Err(self.end(connected, format!("it did not say what it offers: {error}")).await)
            }
            Err(_) => Err(self.end(connected, late()).await),
        }
    }

    /// A program that ends, or does not speak in time, is a failure that says so, and is gone when this returns.
    async fn start(&self, program: Command, deadline: tokio::time::Instant) -> Result<Connected, String> {
        let folder = program.folder.clone();
        let Conversing { mut process, stdin, stdout, stderr } =
            program.converse().await.map_err(|error| format!("starting it in {}: {error}", folder.display()))?;
        let journal = self.shared.journal.clone();
        tokio::spawn(async move { journal.follow(stderr).await });
        let transport = Stdio::new(stdin, stdout, self.shared.journal.clone());
        let mut shake = std::pin::pin!(self.ears().serve(transport));
        let reason = tokio::select! {
            served = &mut shake => match served {
                Ok(service) => return Ok(Connected { service, process: Some(process) }),
                Err(error) => describe(&error),
            },
            () = tokio::time::sleep_until(deadline) => {
                format!("it did not connect within {} s", self.settings.connect_seconds)
            }
            ending = process.ended() => return Err(self.ended(&ending).await),
        };
        // The end of its output is the end of the program, more often than not.
        match end(process).await {
            Ending::Exited(code) if code != 0 => Err(self.ended(&Ending::Exited(code)).await),
            failed @ Ending::Failed(_) => Err(self.ended(&failed).await),
            Ending::Exited(_) | Ending::Signalled(_) | Ending::TooMany(_) | Ending::Lost => Err(reason),
        }
    }

    /// Follows what the server says of itself until it is lost, with the reason, or not wanted any more.
    async fn watch(&self, connected: Connected, stop: &mut oneshot::Receiver<()>) -> Option<String> {
        let Connected { service, mut process } = connected;
        let peer = service.peer().clone();
        let token = service.cancellation_token();
        let mut quit = Some(Box::pin(service.waiting()));
        // What was said of an earlier connection does not count for this one.
        let _ = self.shared.suspected.notified().now_or_never();
        let mut lost = tokio::select! {
            reason = quitting(&mut quit) => Some(reason),
            ending = gone(process.as_mut()) => Some(self.ended(&ending).await),
            () = self.shared.suspected.notified() => Some("it does not answer any more".to_owned()),
            never = self.follow(&peer) => match never {},
            _ = &mut *stop => None,
        };
        if let (Some(reason), Some(process)) = (&mut lost, &mut process)
            && let Ok(ending) = timeout(LAST_WORDS, process.ended()).await
        {
            // That it hung up follows from this.
            *reason = self.ended(&ending).await;
        }
        if let Some(process) = &process {
            process.end();
        }
        token.cancel();
        if let Some(process) = process {
            end(process).await;
        }
        if let Some(quit) = quit {
            // What a server elsewhere is told at the end is a courtesy.
            let _ = timeout(Duration::from_secs(2), quit).await;
        }
        lost
    }

    /// Looks again whenever the server says that its offer has changed.
    async fn follow(&self, peer: &Peer<RoleClient>) -> Infallible {
        loop {
            self.shared.changed.notified().await;
            if let Ok(Ok(live)) = timeout(self.settings.connect(), self.look(peer)).await {
                self.shared.state.send_replace(State::Ready(Arc::new(live)));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn look(&self, peer: &Peer<RoleClient>) -> Result<Live, ServiceError> {
        let mut live = look(peer).await?;
        let offered = live.tools.len();
        keep_some(&mut live.tools);
        if live.tools.len() < offered {
            let left_out = offered - live.tools.len();
            self.shared.journal.note(&format!("[{left_out} of its tools left out: too large, or named twice]"));
        }
        Ok(live)
    }

    fn ears(&self) -> Ears {
        Ears { name: self.name.clone(), shared: self.shared.clone() }
    }

    /// Ends a connection that was not good enough, and gives the reason back.
    async fn end(&self, connected: Connected, reason: String) -> String {
        connected.service.cancellation_token().cancel();
        if let Some(process) = connected.process {
            end(process).await;
        }
        reason
    }

    async fn ended(&self, ending: &Ending) -> String {
        let how = match ending {
            Ending::Exited(code) => format!("it ended with exit status {code}"),
            Ending::Signalled(signal) => format!("it was ended by signal {signal}"),
            Ending::Failed(reason) => return reason.clone(),
            Ending::TooMany(most) => format!("it had more than {most} processes"),
            Ending::Lost => return "its helper process was killed".to_owned(),
        };
        // What it wrote last may still be on its way to the journal.
        tokio::task::yield_now().await;
        match self.shared.journal.last() {
            Some(words) => format!("{how}: {words}"),
            None => how,
        }
    }
}

async fn gone(process: Option<&mut Process>) -> Ending {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends a program with everything that it started.
async fn end(mut process: Process) -> Ending {
    process.end();
    match timeout(HELPER_PATIENCE, process.ended()).await {
        Ok(ending) => ending,
        Err(_) => {
            process.kill();
            process.ended().await
        }
    }
}

/// Asks a server for all that it offers.
async fn look(peer: &Peer<RoleClient>) -> Result<Live, ServiceError> {
    let info = peer.peer_info();
    let offers = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
    let title = info.as_ref().and_then(|info| info.server_info.as_ref());
    let title = title.map(|own| format!("{} {}", own.title.as_ref().unwrap_or(&own.name), own.version));
    let title = title.map(|title| cut(&title, 200));
    let ServerCapabilities { tools, prompts, resources, .. } = offers;
    let mut live = Live {
        peer: peer.clone(),
        title,
        tools: Vec::new(),
        prompts: Vec::new(),
        resources: Vec::new(),
        templates: Vec::new(),
    };
    if tools.is_some() {
        live.tools = pages(|page| async {
            let found = peer.list_tools(page).await?;
            Ok((found.tools, found.next_cursor))
        })
        .await?;
    }
    // Without these the server is still of use.
    if prompts.is_some() {
        let found = pages(|page| async {
            let found = peer.list_prompts(page).await?;
            Ok((found.prompts, found.next_cursor))
        });
        live.prompts = found.await.unwrap_or_default();
    }
    if resources.is_some() {
        let found = pages(|page| async {
            let found = peer.list_resources(page).await?;
            Ok((found.resources, found.next_cursor))
        });
        live.resources = found.await.unwrap_or_default().into_iter().map(|resource| resource.uri).collect();
        let found = pages(|page| async {
            let found = peer.list_resource_templates(page).await?;
            Ok((found.resource_templates, found.next_cursor))
        });
        live.templates = found.await.unwrap_or_default().into_iter().map(|template| beginning(&template)).collect();
    }
    Ok(live)
}

/// Every name once, and no more than models can be told.
fn keep_some(tools: &mut Vec<model::Tool>) {
    let mut names = HashSet::new();
    let mut total = 0;
    tools.retain(|tool| {
        let size = serde_json::to_vec(tool).map_or(usize::MAX, |text| text.len());
        let fits = size <= LARGEST_TOOL && total + size <= LARGEST_TOOLS;
        let kept = fits && names.insert(tool.name.clone());
        total += if kept { size } else { 0 };
        kept
    });
}

/// A template's address up to its first variable.
fn beginning(template: &model::ResourceTemplate) -> String {
    template.uri_template.split('{').next().unwrap_or_default().to_owned()
}

async fn pages<T, F>(mut page: impl FnMut(Option<PaginatedRequestParams>) -> F) -> Result<Vec<T>, ServiceError>
where
    F: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
{
    let mut all = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let wanted = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let (found, next) = page(wanted).await?;
        all.extend(found);
        cursor = next;
        if cursor.is_none() || all.len() >= MOST {
            break;
        }
    }
    all.truncate(MOST);
    Ok(all)
}

fn describe(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return "it wants authorization; give it a header with a key".to_owned();
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it hung up before it introduced itself".to_owned(),
        ClientInitializeError::TransportError { error, .. } => innermost(error.error.as_ref()),
        ClientInitializeError::JsonRpcError(error) => format!("it refused to begin: {}", cut(&error.message, 300)),
        other => cut(&other.to_string(), 300),
    }
}

/// Why the conversation has ended; it is taken, since nobody may ask it twice.
async fn quitting(quit: &mut Option<impl Future<Output = Result<QuitReason, JoinError>> + Unpin>) -> String {
    let Some(running) = quit else { return std::future::pending().await };
    let reason = running.await;
    *quit = None;
    match reason {
        Ok(QuitReason::Closed | QuitReason::Cancelled) => "it hung up".to_owned(),
        Ok(_) | Err(_) => "the connection to it failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::Tool;

    use super::*;

    #[test]
    fn a_tool_that_is_named_twice_or_too_large_is_left_out() {
        let tool = |name: &str, about: &str| Tool::new(name.to_owned(), about.to_owned(), model::JsonObject::new());
        let mut tools =
            vec![tool("a", "first"), tool("a", "second"), tool("b", &"x".repeat(LARGEST_TOOL)), tool("c", "")];
        keep_some(&mut tools);
        let kept: Vec<(&str, Option<&str>)> =
            tools.iter().map(|tool| (tool.name.as_ref(), tool.description.as_deref())).collect();
        assert_eq!(kept, [("a", Some("first")), ("c", Some(""))]);
    }
}
