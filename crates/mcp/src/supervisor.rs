//! Keeps a server connected: starts or reaches it, asks what it offers, follows changes, notices
//! when it is lost, and tries again after increasing pauses.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::text::cut;
use futures_util::FutureExt;
use process::{CommandExit, CommandSpec, PipedCommand, Process};
use rmcp::ServiceExt;
use rmcp::service::{ClientInitializeError, Peer, QuitReason, RoleClient, RunningService};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinError;
use tokio::time::timeout;

use crate::bounded_transport::{BoundedTransport, DisconnectReason};
use crate::client_handler::McpClientHandler;
use crate::hidden::SentSecrets;
use crate::limited_http::LimitedHttpClient;
use crate::link::{ConnectedServer, ConnectionState, SharedServer};
use crate::login::{self, Bearer, Version};
use crate::offer;
use crate::refusals::Refusals;
use crate::remote::{self, SseTransport, innermost};
use crate::server_key::{ServerEndpoint, ServerKey};
use crate::settings::{McpSettings, ServerSettings};
use crate::stdio::StdioTransport;

/// The pause before the second attempt, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A server that was connected for this long is reconnected without a pause.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// How long the helper may take to end everything before it is killed. It plans for 1.6 seconds,
/// see `process::helper`.
const HELPER_EXIT_DEADLINE: Duration = Duration::from_millis(1900);

/// How long to wait for the exit of a program that closed its output. Its exit status explains the
/// failure.
const EXIT_STATUS_DEADLINE: Duration = Duration::from_millis(300);

/// The shortest time between two queries of a server that keeps reporting changes of its offer.
const MIN_OFFER_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Supervisor {
    pub(crate) name: String,
    pub(crate) key: ServerKey,
    pub(crate) runner: std::path::PathBuf,
    pub(crate) settings: McpSettings,
    pub(crate) shared: Arc<SharedServer>,
    /// The token of the user's login; None if the server must not get one.
    pub(crate) bearer: Option<Bearer>,
    /// Dropped when the supervisor has ended and no program that it started is running.
    pub(crate) running: Arc<watch::Sender<()>>,
}

/// An established connection.
struct ServerConnection {
    service: RunningService<RoleClient, McpClientHandler>,
    process: Option<Process>,
    disconnect: DisconnectReason,
    refusals: Refusals,
}

impl Supervisor {
    /// Runs until the server is no longer wanted. All its processes have ended when this returns.
    pub(crate) async fn keep(self, mut stop: oneshot::Receiver<()>) {
        let mut pause = FIRST_PAUSE;
        let mut first = true;
        loop {
            self.shared.state.send_replace(ConnectionState::Connecting { since: Instant::now(), first });
            let version = self.begin_attempt().await;
            let connected = tokio::select! {
                connected = self.connect() => connected,
                _ = &mut stop => return,
            };
            let reason = match connected {
                Ok((connection, server)) => {
                    tracing::debug!(server = self.name, "connected");
                    let since = Instant::now();
                    self.shared.state.send_replace(ConnectionState::Ready(Arc::new(server)));
                    let Some(reason) = self.watch(connection, &mut stop).await else { return };
                    first = since.elapsed() > STABLE_AFTER;
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
            tracing::warn!(server = self.name, reason, "an MCP server is not available");
            let wait = if first { Duration::ZERO } else { pause };
            pause = (pause * 2).min(LONGEST_PAUSE);
            // A server that only wants a login with more rights was lost for another reason.
            let needs = |bearer: &&Bearer| bearer.demand().is_some_and(|demand| !demand.has_login);
            let bearer = self.bearer.as_ref().filter(needs);
            self.shared.state.send_replace(match bearer {
                Some(bearer) => {
                    ConnectionState::NeedsLogin { command: self.login_command(), problem: bearer.problem() }
                }
                None => ConnectionState::Failed { reason, until: Instant::now() + wait },
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = logged_in(bearer, version) => {
                    first = true;
                    pause = FIRST_PAUSE;
                }
                _ = &mut stop => return,
            }
        }
    }

    /// Forgets that an earlier attempt needed a login, and returns the version of the login that
    /// this one uses.
    async fn begin_attempt(&self) -> Option<Version> {
        self.shared.show_login(None);
        let bearer = self.bearer.as_ref()?;
        bearer.set_demand(None);
        bearer.version().await
    }

    /// Returns the command with which the user logs in to this server.
    fn login_command(&self) -> String {
        let url = self.key.url().unwrap_or_default();
        let is_known = |server: &ServerSettings| server.url().is_some_and(|own| own == url || own.contains("${"));
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        // A server of an editor or a project is not known by its name.
        let name = self.settings.servers.get(&self.name).filter(|server| is_known(server)).map(|_| self.name.clone());
        let target = name.filter(|name| is_plain(name)).or_else(|| login::shown_address(url));
        format!("acpd login --mcp {}", target.as_deref().unwrap_or("ADDRESS"))
    }

    /// Connects once and asks the server what it offers.
    async fn connect(&self) -> Result<(ServerConnection, ConnectedServer), String> {
        let limit = self.settings.connect();
        let late = || format!("it did not connect within {} s", limit.as_secs());
        let deadline = tokio::time::Instant::now() + limit;
        let disconnect = DisconnectReason::default();
        let refusals = Refusals::new(self.bearer.as_ref().map(|_| self.login_command()));
        let connection = match &self.key.endpoint {
            ServerEndpoint::Program { command, args, environment } => {
                let program = CommandSpec {
                    runner: self.runner.clone(),
                    program: command.clone(),
                    arguments: args.clone(),
                    environment: environment.all(),
                    folder: self.key.folder.clone(),
                    sandbox: None,
                    shield: Vec::new(),
                    process_limit: None,
                    input: None,
                };
                self.start(program, deadline, disconnect).await?
            }
            ServerEndpoint::Http { url, headers } => {
                let service = async {
                    let client = self.client(&disconnect, &refusals).await?;
                    let transport = remote::http(client, url, headers).map_err(|error| error.to_string())?;
                    self.initialize(transport, &disconnect).await
                };
                let service = tokio::time::timeout_at(deadline, service).await.map_err(|_| late())??;
                ServerConnection { service, process: None, disconnect, refusals }
            }
            ServerEndpoint::Sse { url, headers } => {
                let service = async {
                    let client = self.client(&disconnect, &refusals).await?;
                    let transport =
                        SseTransport::connect(client, url, headers).await.map_err(|error| error.to_string())?;
                    self.initialize(transport, &disconnect).await
                };
                let service = tokio::time::timeout_at(deadline, service).await.map_err(|_| late())??;
                ServerConnection { service, process: None, disconnect, refusals }
            }
        };
        match tokio::time::timeout_at(deadline, self.look(connection.service.peer(), &connection.refusals)).await {
            Ok(Ok(server)) => Ok((connection, server)),
            Ok(Err(error)) => {
                let error = cut(&error.to_string(), 300);
                let reason = connection.disconnect.reason();
                let reason = reason.unwrap_or_else(|| format!("it did not say what it offers: {error}"));
                Err(self.end(connection, reason).await)
            }
            Err(_) => Err(self.end(connection, late()).await),
        }
    }

    /// Performs the handshake of the protocol, with the transport's limits in place.
    async fn initialize<T>(
        &self,
        transport: T,
        disconnect: &DisconnectReason,
    ) -> Result<RunningService<RoleClient, McpClientHandler>, String>
    where
        T: rmcp::transport::Transport<RoleClient, Error: Send> + Send + 'static,
    {
        let transport = BoundedTransport::new(transport, disconnect.clone());
        self.handler().serve(transport).await.map_err(|error| describe(&error, disconnect))
    }

    /// Starts a program and connects to it. Returns an error if the program exits or does not
    /// respond in time; the program has ended in that case.
    async fn start(
        &self,
        program: CommandSpec,
        deadline: tokio::time::Instant,
        disconnect: DisconnectReason,
    ) -> Result<ServerConnection, String> {
        let folder = program.folder.clone();
        let PipedCommand { mut process, stdin, stdout, stderr } =
            program.start_piped().await.map_err(|error| format!("starting it in {}: {error}", folder.display()))?;
        let (log, running) = (self.shared.log.clone(), self.running.clone());
        tokio::spawn(async move {
            // The helper keeps the pipe open until it has ended everything.
            log.follow(stderr).await;
            drop(running);
        });
        let transport = StdioTransport::new(stdin, stdout, self.shared.log.clone(), disconnect.clone());
        let mut handshake = std::pin::pin!(self.handler().serve(BoundedTransport::new(transport, disconnect.clone())));
        let reason = tokio::select! {
            served = &mut handshake => match served {
                Ok(service) => {
                    let refusals = Refusals::default();
                    return Ok(ServerConnection { service, process: Some(process), disconnect, refusals });
                }
                Err(error) => describe(&error, &disconnect),
            },
            () = tokio::time::sleep_until(deadline) => {
                format!("it did not connect within {} s", self.settings.connect_seconds)
            }
            ending = process.ended() => return Err(match disconnect.reason() {
                Some(reason) => reason,
                None => self.ended(&ending).await,
            }),
        };
        // A program that closes its output usually exits. One that we disconnect fails because of
        // that.
        let exit = end(process).await;
        if let Some(reason) = disconnect.reason() {
            return Err(reason);
        }
        match exit {
            CommandExit::Exited(code) if code != 0 => Err(self.ended(&CommandExit::Exited(code)).await),
            failed @ CommandExit::Failed(_) => Err(self.ended(&failed).await),
            CommandExit::Exited(_) | CommandExit::Signalled(_) | CommandExit::TooMany(_) | CommandExit::Lost => {
                Err(reason)
            }
        }
    }

    /// Watches the server until it is lost, and returns the reason. Returns None if it is no longer
    /// wanted.
    async fn watch(&self, connection: ServerConnection, stop: &mut oneshot::Receiver<()>) -> Option<String> {
        let ServerConnection { service, mut process, disconnect, refusals } = connection;
        let peer = service.peer().clone();
        let token = service.cancellation_token();
        let mut quit = Some(Box::pin(service.waiting()));
        // A suspicion about an earlier connection does not apply to this one.
        let _ = self.shared.suspected.notified().now_or_never();
        let mut lost = tokio::select! {
            biased;
            reason = disconnect.failure() => Some(reason),
            reason = quitting(&mut quit) => Some(reason),
            ending = gone(process.as_mut()) => Some(self.ended(&ending).await),
            () = self.shared.suspected.notified() => Some("it does not answer any more".to_owned()),
            never = self.follow(&peer, &refusals) => match never {},
            never = self.follow_demands() => match never {},
            _ = &mut *stop => None,
        };
        if let (Some(reason), Some(process)) = (&mut lost, &mut process)
            // A server that we disconnect fails because of that.
            && disconnect.reason().is_none()
            && let Ok(ending) = timeout(EXIT_STATUS_DEADLINE, process.ended()).await
        {
            // The exit explains why the connection was closed.
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
            // Saying goodbye to a remote server is optional.
            let _ = timeout(Duration::from_secs(2), quit).await;
        }
        lost
    }

    /// Queries the offer again whenever the server reports a change.
    async fn follow(&self, peer: &Peer<RoleClient>, refusals: &Refusals) -> Infallible {
        loop {
            self.shared.changed.notified().await;
            if let Ok(Ok(server)) = timeout(self.settings.connect(), self.look(peer, refusals)).await {
                self.shared.state.send_replace(ConnectionState::Ready(Arc::new(server)));
            }
            tokio::time::sleep(MIN_OFFER_INTERVAL).await;
        }
    }

    /// Shows which login the connected server demands for a call, until the user has logged in.
    /// The server may offer more then.
    async fn follow_demands(&self) -> Infallible {
        let Some(bearer) = &self.bearer else { return std::future::pending().await };
        loop {
            let mut demand = bearer.demanded(None).await;
            let version = bearer.version().await;
            loop {
                self.shared.show_login(Some(demand.command(&self.login_command())));
                demand = tokio::select! {
                    other = bearer.demanded(Some(&demand)) => other,
                    () = bearer.changed_since(version) => break,
                };
            }
            bearer.set_demand(None);
            self.shared.show_login(None);
            self.shared.changed.notify_one();
        }
    }

    async fn look(&self, peer: &Peer<RoleClient>, refusals: &Refusals) -> Result<ConnectedServer, rmcp::ServiceError> {
        let log = &self.shared.log;
        log.take_left_out();
        let mut server = offer::of(peer, log, refusals.clone()).await?;
        server.left_out = log.take_left_out();
        Ok(server)
    }

    async fn client(&self, disconnect: &DisconnectReason, refusals: &Refusals) -> Result<LimitedHttpClient, String> {
        let client = remote::client().await.map_err(|error| error.to_string())?;
        let bearer = self.bearer.clone();
        let (log, disconnect) = (self.shared.log.clone(), disconnect.clone());
        let refusals = refusals.clone();
        Ok(LimitedHttpClient { client, log, disconnect, bearer, sent: SentSecrets::default(), refusals })
    }

    fn handler(&self) -> McpClientHandler {
        McpClientHandler { name: self.name.clone(), shared: self.shared.clone() }
    }

    /// Ends a connection that cannot be used, and returns the reason.
    async fn end(&self, connection: ServerConnection, reason: String) -> String {
        connection.service.cancellation_token().cancel();
        if let Some(process) = connection.process {
            end(process).await;
        }
        reason
    }

    async fn ended(&self, ending: &CommandExit) -> String {
        let how = match ending {
            CommandExit::Exited(code) => format!("it ended with exit status {code}"),
            CommandExit::Signalled(signal) => format!("it was killed by signal {signal}"),
            CommandExit::Failed(reason) => return reason.clone(),
            CommandExit::TooMany(most) => format!("it had more than {most} processes"),
            CommandExit::Lost => return "its helper process was killed".to_owned(),
        };
        // The last output may not have reached the log yet.
        tokio::task::yield_now().await;
        match self.shared.log.last() {
            Some(words) => format!("{how}: {words}"),
            None => how,
        }
    }
}

/// Resolves when the user has logged in after an attempt that needed a login.
async fn logged_in(bearer: Option<&Bearer>, version: Option<Version>) {
    match bearer {
        Some(bearer) => bearer.changed_since(version).await,
        None => std::future::pending().await,
    }
}

async fn gone(process: Option<&mut Process>) -> CommandExit {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends a program and everything that it started.
async fn end(mut process: Process) -> CommandExit {
    process.end();
    match timeout(HELPER_EXIT_DEADLINE, process.ended()).await {
        Ok(ending) => ending,
        Err(_) => {
            process.kill();
            process.ended().await
        }
    }
}

fn describe(error: &ClientInitializeError, disconnect: &DisconnectReason) -> String {
    if let Some(reason) = disconnect.reason() {
        return reason;
    }
    if error.is_authorization_required() {
        return "it requires authorization; configure a header with a key".to_owned();
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection before the handshake".to_owned(),
        ClientInitializeError::TransportError { error, .. } => innermost(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => describe(fallback, disconnect),
        ClientInitializeError::JsonRpcError(error) => format!("it refused the handshake: {}", cut(&error.message, 300)),
        other => cut(&other.to_string(), 300),
    }
}

/// Returns why the connection has ended. Takes the future, because it must not be polled again.
async fn quitting(quit: &mut Option<impl Future<Output = Result<QuitReason, JoinError>> + Unpin>) -> String {
    let Some(running) = quit else { return std::future::pending().await };
    let reason = running.await;
    *quit = None;
    match reason {
        Ok(QuitReason::Closed | QuitReason::Cancelled) => "it closed the connection".to_owned(),
        Ok(_) | Err(_) => "the connection to it failed".to_owned(),
    }
}
