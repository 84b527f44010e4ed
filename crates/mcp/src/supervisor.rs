//! Keeps a server connected: starts or reaches it, learns what it offers, follows changes, notices when it is lost, and
//! tries again, less and less often.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rmcp::ServiceExt;
use rmcp::service::{ClientInitializeError, Peer, QuitReason, RoleClient, RunningService};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::timeout;

use crate::bounded_transport::{Bounded, GivenUp};
use crate::client_handler::Ears;
use crate::limited_http::LimitedClient;
use crate::link::{Live, Shared, State};
use crate::offer;
use crate::remote::{self, Sse, innermost};
use crate::server_key::{Reach, Recipe};
use crate::settings::McpSettings;
use crate::stdio::Stdio;
use domain::text::cut;
use process::{Command, Conversing, Ending, Process};

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

pub(crate) struct Keeper {
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
    pub(crate) runner: std::path::PathBuf,
    pub(crate) settings: McpSettings,
    pub(crate) shared: Arc<Shared>,
}

/// A connection that stands.
struct Connected {
    service: RunningService<RoleClient, Ears>,
    process: Option<Process>,
    given_up: GivenUp,
}

impl Keeper {
    /// Returns when nobody wants the server any more, with everything of it gone.
    pub(crate) async fn keep(self, mut stop: oneshot::Receiver<()>) {
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
        let given_up = GivenUp::default();
        let connected = match &self.recipe.reach {
            Reach::Program { command, args, environment } => {
                let program = Command {
                    runner: self.runner.clone(),
                    program: command.clone(),
                    arguments: args.clone(),
                    environment: environment.all(),
                    folder: self.recipe.folder.clone(),
                    sandbox: None,
                    process_limit: None,
                    input: None,
                };
                self.start(program, deadline, given_up).await?
            }
            Reach::Http { url, headers } => {
                let shake = async {
                    let client = self.client(&given_up).await?;
                    let transport = remote::http(client, url, headers).map_err(|error| error.to_string())?;
                    let transport = Bounded::new(transport, given_up.clone());
                    self.ears().serve(transport).await.map_err(|error| describe(&error, &given_up))
                };
                let service = tokio::time::timeout_at(deadline, shake).await.map_err(|_| late())??;
                Connected { service, process: None, given_up }
            }
            Reach::Sse { url, headers } => {
                let shake = async {
                    let client = self.client(&given_up).await?;
                    let transport = Sse::connect(client, url, headers).await.map_err(|error| error.to_string())?;
                    let transport = Bounded::new(transport, given_up.clone());
                    self.ears().serve(transport).await.map_err(|error| describe(&error, &given_up))
                };
                let service = tokio::time::timeout_at(deadline, shake).await.map_err(|_| late())??;
                Connected { service, process: None, given_up }
            }
        };
        let peer = connected.service.peer().clone();
        match tokio::time::timeout_at(deadline, self.look(&peer)).await {
            Ok(Ok(live)) => Ok((connected, live)),
            Ok(Err(error)) => {
                let error = cut(&error.to_string(), 300);
                let reason = connected.given_up.reason();
                let reason = reason.unwrap_or_else(|| format!("it did not say what it offers: {error}"));
                Err(self.end(connected, reason).await)
            }
            Err(_) => Err(self.end(connected, late()).await),
        }
    }

    /// A program that ends, or does not speak in time, is a failure that says so, and is gone when this returns.
    async fn start(
        &self,
        program: Command,
        deadline: tokio::time::Instant,
        given_up: GivenUp,
    ) -> Result<Connected, String> {
        let folder = program.folder.clone();
        let Conversing { mut process, stdin, stdout, stderr } =
            program.converse().await.map_err(|error| format!("starting it in {}: {error}", folder.display()))?;
        let journal = self.shared.journal.clone();
        tokio::spawn(async move { journal.follow(stderr).await });
        let transport = Stdio::new(stdin, stdout, self.shared.journal.clone(), given_up.clone());
        let mut shake = std::pin::pin!(self.ears().serve(Bounded::new(transport, given_up.clone())));
        let reason = tokio::select! {
            served = &mut shake => match served {
                Ok(service) => return Ok(Connected { service, process: Some(process), given_up }),
                Err(error) => describe(&error, &given_up),
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
        let Connected { service, mut process, given_up } = connected;
        let peer = service.peer().clone();
        let token = service.cancellation_token();
        let mut quit = Some(Box::pin(service.waiting()));
        // What was said of an earlier connection does not count for this one.
        let _ = self.shared.suspected.notified().now_or_never();
        let mut lost = tokio::select! {
            biased;
            reason = given_up.told() => Some(reason),
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

    async fn look(&self, peer: &Peer<RoleClient>) -> Result<Live, rmcp::ServiceError> {
        let journal = &self.shared.journal;
        journal.take_left_out();
        let mut live = offer::of(peer, journal).await?;
        live.left_out = journal.take_left_out();
        Ok(live)
    }

    async fn client(&self, given_up: &GivenUp) -> Result<LimitedClient, String> {
        let client = remote::client().await.map_err(|error| error.to_string())?;
        Ok(LimitedClient { client, journal: self.shared.journal.clone(), given_up: given_up.clone() })
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
        // What it wrote last may still be on its transport to the journal.
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

fn describe(error: &ClientInitializeError, given_up: &GivenUp) -> String {
    if let Some(reason) = given_up.reason() {
        return reason;
    }
    if error.is_authorization_required() {
        return "it wants authorization; give it a header with a key".to_owned();
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it hung up before it introduced itself".to_owned(),
        ClientInitializeError::TransportError { error, .. } => innermost(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => describe(fallback, given_up),
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
