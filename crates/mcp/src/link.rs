//! The shared state of one server: whether it is connected, what it offers, and which calls use it.
//!
//! Sessions with the same key share a `ServerLink`. When the last of them drops it, the server
//! ends. `supervisor` connects the server and reconnects it.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::editor::Editor;
use domain::mcp::ServerState;
use domain::tool::ToolHost;
use domain::{CallId, SessionId};
use rmcp::model::{ProgressToken, Prompt, Tool};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, oneshot, watch};

use crate::refusals::Refusals;
use crate::server_log::ServerLog;

/// The most pages of one server that editors may show at once.
const MAX_PAGES: usize = 64;

pub(crate) struct ServerLink {
    pub(crate) shared: Arc<SharedServer>,
    /// Dropping this ends the server.
    _stop: oneshot::Sender<()>,
}

impl ServerLink {
    pub(crate) fn new(shared: Arc<SharedServer>, stop: oneshot::Sender<()>) -> Self {
        Self { shared, _stop: stop }
    }
}

/// The state of a server that its users and its supervisor share.
pub(crate) struct SharedServer {
    pub(crate) state: watch::Sender<ConnectionState>,
    pub(crate) log: Arc<ServerLog>,
    /// Notified when the server reports that its offer has changed.
    pub(crate) changed: Notify,
    /// Notified when a call found that the server does not respond.
    pub(crate) suspected: Notify,
    calls: Mutex<Vec<McpCall>>,
    numbers: AtomicU64,
    roots: Mutex<HashMap<SessionId, Vec<PathBuf>>>,
    /// Pages that editors show for the server, by the ids that the server gave them.
    pages: Mutex<VecDeque<(String, Arc<dyn Editor>)>>,
    /// The command that provides the login which the connected server demanded for a call.
    login: Mutex<Option<String>>,
}

#[derive(Clone)]
pub(crate) enum ConnectionState {
    Connecting {
        since: Instant,
        /// Whether this is the first attempt, or the first after a loss. A prompt waits only for
        /// such an attempt.
        first: bool,
    },
    Ready(Arc<ConnectedServer>),
    Failed {
        reason: String,
        until: Instant,
    },
    /// The server wants a login. This command of the user provides it.
    NeedsLogin {
        command: String,
        /// Why the stored login cannot be read, if that is so.
        problem: Option<String>,
    },
}

/// A server that is connected, and what it offers.
pub(crate) struct ConnectedServer {
    pub(crate) peer: Peer<RoleClient>,
    /// The name that the server gives itself.
    pub(crate) title: Option<String>,
    /// What the server tells models about its use.
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    /// The addresses of its resources.
    pub(crate) resources: Vec<String>,
    /// Prefixes of further addresses, from its templates.
    pub(crate) templates: Vec<String>,
    /// Descriptions of what it offers that cannot be used.
    pub(crate) left_out: Vec<String>,
    /// The calls that the server refused.
    pub(crate) refusals: Refusals,
}

/// A call that is running.
struct McpCall {
    number: u64,
    session: SessionId,
    /// Whether a question of its server is open.
    asks: bool,
    token: Option<ProgressToken>,
    editor: Option<Arc<dyn Editor>>,
    host: Arc<dyn ToolHost>,
    progress: watch::Sender<Option<String>>,
}

/// A question to the editor of a running call. While it is open the call has no other question.
pub(crate) struct OpenElicitation {
    pub(crate) editor: Arc<dyn Editor>,
    host: Arc<dyn ToolHost>,
    call: watch::Receiver<Option<String>>,
    shared: Arc<SharedServer>,
    number: u64,
}

impl Drop for OpenElicitation {
    fn drop(&mut self) {
        if let Some(call) = lock(&self.shared.calls).iter_mut().find(|call| call.number == self.number) {
            call.asks = false;
        }
        self.host.wait_for_person(false);
    }
}

impl OpenElicitation {
    /// Returns the call whose editor is asked.
    pub(crate) fn call(&self) -> Option<CallId> {
        self.host.call()
    }

    /// Resolves when the call has ended.
    pub(crate) async fn ended(&mut self) {
        while self.call.changed().await.is_ok() {}
    }
}

impl SharedServer {
    pub(crate) fn new() -> Self {
        Self {
            state: watch::Sender::new(ConnectionState::Connecting { since: Instant::now(), first: true }),
            log: Arc::default(),
            changed: Notify::new(),
            suspected: Notify::new(),
            calls: Mutex::default(),
            numbers: AtomicU64::new(0),
            roots: Mutex::default(),
            pages: Mutex::default(),
            login: Mutex::default(),
        }
    }

    pub(crate) fn connected(&self) -> Option<Arc<ConnectedServer>> {
        match &*self.state.borrow() {
            ConnectionState::Ready(connected) => Some(connected.clone()),
            ConnectionState::Connecting { .. }
            | ConnectionState::Failed { .. }
            | ConnectionState::NeedsLogin { .. } => None,
        }
    }

    /// Returns the command that provides the login which the connected server demanded for a call.
    pub(crate) fn login(&self) -> Option<String> {
        lock(&self.login).clone().filter(|_| self.connected().is_some())
    }

    pub(crate) fn show_login(&self, command: Option<String>) {
        *lock(&self.login) = command;
    }

    pub(crate) fn describe(&self) -> ServerState {
        match &*self.state.borrow() {
            ConnectionState::Connecting { .. } => ServerState::Connecting,
            ConnectionState::Ready(_) => ServerState::Ready,
            ConnectionState::Failed { reason, until } => ServerState::Failed {
                reason: reason.clone(),
                retry_in: until.saturating_duration_since(Instant::now()).as_secs_f32().ceil() as u64,
            },
            ConnectionState::NeedsLogin { command, problem } => {
                ServerState::NeedsLogin { command: command.clone(), problem: problem.clone() }
            }
        }
    }

    /// Returns the time until which a prompt should wait for the server; None if it should not
    /// wait.
    pub(crate) fn awaited(&self, max_wait: Duration) -> Option<Instant> {
        match &*self.state.borrow() {
            ConnectionState::Connecting { since, first: true } => {
                Some(*since + max_wait).filter(|until| *until > Instant::now())
            }
            ConnectionState::Connecting { .. }
            | ConnectionState::Ready(_)
            | ConnectionState::Failed { .. }
            | ConnectionState::NeedsLogin { .. } => None,
        }
    }

    /// Resolves when the server is connected or has failed.
    pub(crate) async fn settled(&self) {
        let mut state = self.state.subscribe();
        // The sender is held here, so the wait can only end with a value.
        let _ = state.wait_for(|state| !matches!(state, ConnectionState::Connecting { .. })).await;
    }

    /// Registers a call, whose progress arrives through the receiver. Its progress token is known
    /// only once it is sent.
    pub(crate) fn enter(
        self: &Arc<Self>,
        session: SessionId,
        editor: Option<Arc<dyn Editor>>,
        host: Arc<dyn ToolHost>,
    ) -> (CallEntry, watch::Receiver<Option<String>>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (progress, seen) = watch::channel(None);
        lock(&self.calls).push(McpCall { number, session, asks: false, token: None, editor, host, progress });
        (CallEntry { shared: self.clone(), number }, seen)
    }

    pub(crate) fn progress(&self, token: &ProgressToken, text: String) {
        let calls = lock(&self.calls);
        if let Some(call) = calls.iter().find(|call| call.token.as_ref() == Some(token)) {
            call.progress.send_replace(Some(text));
        }
    }

    /// Shows a log message of the server as progress of a call, if only one call is running.
    pub(crate) fn remark(&self, text: String) {
        if let [call] = lock(&self.calls).as_slice() {
            call.progress.send_replace(Some(text));
        }
    }

    /// Opens a question to an editor that can show it. A server does not say which call its
    /// question belongs to, so nothing is asked while calls of several sessions are running.
    pub(crate) fn ask(self: &Arc<Self>, can: impl Fn(&dyn Editor) -> bool) -> Option<OpenElicitation> {
        let mut calls = lock(&self.calls);
        let session = calls.first()?.session.clone();
        if calls.iter().any(|call| call.session != session) {
            return None;
        }
        let fits = |call: &&mut McpCall| !call.asks && call.editor.as_deref().is_some_and(&can);
        let call = calls.iter_mut().rev().find(fits)?;
        call.asks = true;
        let (editor, host) = (call.editor.clone()?, call.host.clone());
        host.wait_for_person(true);
        Some(OpenElicitation {
            editor,
            host,
            call: call.progress.subscribe(),
            shared: self.clone(),
            number: call.number,
        })
    }

    /// Remembers that an editor shows a page, until the server reports that the user is done with
    /// it, or the returned value is dropped before `stays` was called.
    pub(crate) fn opens_page(self: &Arc<Self>, id: String, editor: Arc<dyn Editor>) -> OpenPage {
        let mut pages = lock(&self.pages);
        if pages.len() == MAX_PAGES {
            pages.pop_front();
        }
        pages.push_back((id.clone(), editor));
        OpenPage { shared: self.clone(), id: Some(id) }
    }

    /// Removes a page and returns the editor that shows it.
    pub(crate) fn closes_page(&self, id: &str) -> Option<Arc<dyn Editor>> {
        let mut pages = lock(&self.pages);
        let at = pages.iter().position(|(known, _)| known == id)?;
        pages.remove(at).map(|(_, editor)| editor)
    }

    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = lock(&self.roots).values().flatten().cloned().collect();
        roots.sort();
        roots.dedup();
        roots
    }

    pub(crate) fn join(&self, session: SessionId, roots: Vec<PathBuf>) {
        lock(&self.roots).insert(session, roots);
    }

    pub(crate) fn leave(&self, session: &SessionId) {
        lock(&self.roots).remove(session);
    }
}

/// A page that an editor shows.
pub(crate) struct OpenPage {
    shared: Arc<SharedServer>,
    /// None once the user has opened it.
    id: Option<String>,
}

impl OpenPage {
    pub(crate) fn stays(&mut self) {
        self.id = None;
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.shared.closes_page(id);
        }
    }
}

/// The registration of a running call.
pub(crate) struct CallEntry {
    shared: Arc<SharedServer>,
    number: u64,
}

impl CallEntry {
    pub(crate) fn sent_as(&self, token: ProgressToken) {
        if let Some(call) = lock(&self.shared.calls).iter_mut().find(|call| call.number == self.number) {
            call.token = Some(token);
        }
    }
}

impl Drop for CallEntry {
    fn drop(&mut self) {
        lock(&self.shared.calls).retain(|call| call.number != self.number);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every operation leaves the state consistent, so a poisoned lock is harmless.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
