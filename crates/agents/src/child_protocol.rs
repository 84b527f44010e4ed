//! The protocol state of one child: unanswered requests in both directions, and the meaning of each
//! message.
//!
//! [`ChildProtocol`] handles one message or request at a time and never blocks. It pushes outgoing
//! messages and reports onto two queues, which [`run`] empties. While reports wait for a slow
//! session, [`run`] reads nothing from the child, so the pipe slows down a child that floods acpd.
//! It still accepts requests, such as a cancellation.

mod incoming;
mod opening;
mod run;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::editor::Editor;
use domain::hosted::{AgentFailure, AgentFailureKind, AgentLaunch, AgentReport, AgentSetting, OfferPart};
use domain::{CallId, Content, MessageId, QuestionId, StopReason};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::child::{self, ChildCapabilities, SecondVersion};
use wire::{Id, RpcError, method, rpc};

use crate::link::{SessionRequest, SettingReply};
use crate::services::Services;

pub(crate) use incoming::read_error;
pub(crate) use run::{MAX_MESSAGE_BYTES, Pipes, checked, run};

/// The most requests of a child that are served at a time.
const SERVED: usize = 64;

/// The most call ids of one prompt that are remembered as announced.
const ANNOUNCED: usize = 10_000;

/// How long a child may take to open its session and to end a cancelled prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentTimeouts {
    pub(crate) start: Duration,
    pub(crate) cancel: Duration,
}

/// The versions of the protocol that acpd speaks with children. The first is offered unless the
/// configuration names the other one.
pub(crate) const VERSIONS: [i64; 2] = [1, 2];

/// A request of acpd that the child has not answered yet.
enum Pending {
    Initialize {
        /// Whether the other version can be offered if the child refuses this one.
        is_first: bool,
    },
    /// Opens the session. If the child refuses, the next way of opening it is tried.
    Open(OpenBy),
    Prompt,
    Setting {
        setting: AgentSetting,
        reply: Option<SettingReply>,
    },
}

/// How the child's session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBy {
    Resume,
    Load,
    New,
}

/// A request of the child that is being served.
type Served = BoxFuture<'static, (Id, Result<Value, RpcError>)>;

/// A request of the child that waits for the user to answer a form.
struct OpenForm {
    id: Id,
    /// Withdraws the form at the editor, and answers the child with this.
    close: oneshot::Sender<Result<Value, RpcError>>,
}

struct Prompt {
    content: Vec<Content>,
    editor: Option<Arc<dyn Editor>>,
}

pub(crate) struct ChildProtocol {
    launch: AgentLaunch,
    timeouts: AgentTimeouts,
    services: Services,
    capabilities: ChildCapabilities,
    /// The version of the protocol that the child is offered.
    version: i64,
    /// Translates for a child that speaks version 2.
    second: Option<SecondVersion>,
    /// The child's id of its session; None until the session is open.
    session: Option<String>,
    last_id: u64,
    pending: HashMap<u64, Pending>,
    held: HeldForSession,
    turn: ChildTurn,
    open: OpenRequests,
    outgoing: VecDeque<Vec<u8>>,
    reports: VecDeque<AgentReport>,
    deadline: Option<Deadline>,
}

/// What waits until the session is open, or for its first prompt.
#[derive(Default)]
struct HeldForSession {
    prompt: Option<Prompt>,
    settings: Vec<(AgentSetting, SettingReply)>,
    /// The conversation so far, for a child that opened a new session. It is put before the child's
    /// first prompt.
    summary: Option<String>,
    /// Names the MCP servers and folders that the child cannot use. Reported with the session's
    /// first prompt, when a client sees it.
    left_out: Option<String>,
}

/// The child's work on a prompt.
#[derive(Default)]
struct ChildTurn {
    /// The id of the request with the prompt that the child is working on.
    request: Option<u64>,
    /// Whether part of the prompt is still unwritten. The child cannot have seen such a prompt.
    is_unsent: bool,
    /// The editor that sent the prompt.
    editor: Option<Arc<dyn Editor>>,
    /// The id of the current message, for text to which the child gives no message id.
    message: MessageId,
    announced: HashSet<CallId>,
}

/// Requests of the child that are not answered yet.
#[derive(Default)]
struct OpenRequests {
    questions: HashMap<QuestionId, Id>,
    forms: Vec<OpenForm>,
    served: FuturesUnordered<Served>,
}

/// The time by which the child must have done something, and the failure to report if it has not.
struct Deadline {
    at: Instant,
    failure: String,
}

impl ChildProtocol {
    /// Creates the state of a new child, which is first offered this version of the protocol.
    pub(crate) fn new(launch: AgentLaunch, version: i64, timeouts: AgentTimeouts, services: Services) -> Self {
        let failure = format!("the agent `{}` was not ready within {} s", launch.agent, timeouts.start.as_secs());
        let mut protocol = Self {
            launch,
            timeouts,
            services,
            capabilities: ChildCapabilities::default(),
            version,
            second: None,
            session: None,
            last_id: 0,
            pending: HashMap::new(),
            held: HeldForSession::default(),
            turn: ChildTurn::default(),
            open: OpenRequests::default(),
            outgoing: VecDeque::new(),
            reports: VecDeque::new(),
            deadline: Some(Deadline { at: Instant::now() + timeouts.start, failure }),
        };
        protocol.offer(version, true);
        protocol
    }

    fn offer(&mut self, version: i64, is_first: bool) {
        self.version = version;
        let params = child::initialize(env!("CARGO_PKG_VERSION"), version);
        self.request(method::INITIALIZE, &params, Pending::Initialize { is_first });
    }

    fn request(&mut self, method: &str, params: &Value, pending: Pending) -> u64 {
        self.last_id += 1;
        self.pending.insert(self.last_id, pending);
        let id = Id::from_raw_text(&self.last_id.to_string()).unwrap_or_else(Id::null);
        self.push(rpc::request(&id, method, params));
        self.last_id
    }

    fn answer(&mut self, id: &Id, result: Result<Value, RpcError>) {
        self.push(match result {
            Ok(result) => rpc::response(id, &result),
            Err(error) => rpc::failure(id, &error),
        });
    }

    /// Queues a message of version 1 for the child, in the version that it speaks.
    fn push(&mut self, message: Vec<u8>) {
        let translated = self.second.as_mut().and_then(|second| {
            let message = serde_json::from_slice(&message).ok()?;
            Some(second.translate_to_child(message).to_string().into_bytes())
        });
        self.outgoing.push_back(translated.unwrap_or(message));
    }

    fn report(&mut self, report: AgentReport) {
        self.reports.push_back(report);
    }

    pub(crate) fn handle_session_request(&mut self, request: SessionRequest) {
        match request {
            SessionRequest::Prompt { content, editor } => {
                self.held.prompt = Some(Prompt { content, editor });
                self.send_prompt();
            }
            SessionRequest::Cancel => self.cancel(),
            SessionRequest::Answer { question, option } => {
                if let Some(id) = self.open.questions.remove(&question) {
                    self.answer(&id, Ok(child::permission_answer(option.as_deref())));
                }
            }
            SessionRequest::Configure { setting, reply } => {
                self.held.settings.push((setting, reply));
                self.send_settings();
            }
        }
    }

    /// Sends the waiting prompt, if there is one and the session is open.
    fn send_prompt(&mut self) {
        let Some(session) = self.session.clone() else { return };
        let Some(Prompt { mut content, editor }) = self.held.prompt.take() else { return };
        if let Some(summary) = self.held.summary.take() {
            content.insert(0, Content::text(summary));
        }
        self.turn.editor = editor;
        self.turn.message = MessageId::new();
        self.turn.announced.clear();
        if let Some(text) = self.held.left_out.take() {
            self.report(AgentReport::Notice(text));
        }
        let params = child::prompt(&session, &content, &self.capabilities);
        self.turn.request = Some(self.request(method::SESSION_PROMPT, &params, Pending::Prompt));
        self.turn.is_unsent = true;
    }

    fn send_settings(&mut self) {
        if self.session.is_none() {
            return;
        }
        for (setting, reply) in std::mem::take(&mut self.held.settings) {
            self.set(setting, Some(reply));
        }
    }

    fn set(&mut self, setting: AgentSetting, reply: Option<SettingReply>) {
        let Some(session) = self.session.clone() else { return };
        let (method, params) = child::setting(&session, &setting);
        self.request(method, &params, Pending::Setting { setting, reply });
    }

    fn cancel(&mut self) {
        if self.held.prompt.take().is_some() {
            return self.report(AgentReport::Ended { reason: StopReason::Cancelled, usage: None });
        }
        let (Some(_), Some(session)) = (self.turn.request, &self.session) else { return };
        if self.is_cancelled() {
            // It is cancelled already, and cancelling it again must not give it more time.
            return;
        }
        self.outgoing.push_back(rpc::notification(method::SESSION_CANCEL, &json!({ "sessionId": session })));
        for (_, id) in std::mem::take(&mut self.open.questions) {
            self.answer(&id, Ok(child::permission_answer(None)));
        }
        if self.close_forms() {
            self.report(AgentReport::Waits(false));
        }
        let (agent, seconds) = (&self.launch.agent, self.timeouts.cancel.as_secs());
        let failure = format!("the agent `{agent}` did not end its turn within {seconds} s and was stopped");
        self.deadline = Some(Deadline { at: Instant::now() + self.timeouts.cancel, failure });
    }

    /// Whether the child works on a prompt that it was asked to end.
    fn is_cancelled(&self) -> bool {
        // An open session has no other deadline.
        self.turn.request.is_some() && self.deadline.is_some()
    }

    /// Returns the failure of a child that missed its deadline.
    pub(crate) fn overdue(&self) -> AgentFailure {
        let failure = self.deadline.as_ref().map(|deadline| deadline.failure.clone());
        AgentFailure::broken(failure.unwrap_or_else(|| format!("the agent `{}` did not answer", self.launch.agent)))
    }

    /// Turns an error response of the child into a failure.
    fn failure(&self, error: &RpcError) -> AgentFailure {
        let agent = &self.launch.agent;
        let mut data = json!({ "agent": agent, "code": error.code });
        if let Some(more) = &error.data {
            data["data"] = more.clone();
        }
        if error.code == RpcError::AUTHENTICATION_REQUIRED {
            data["authMethods"] = self.capabilities.auth_methods.clone();
            data["advice"] = json!(format!("run `acpd login --agent {agent}` in a terminal, then try again"));
            let message = format!("the agent `{agent}` wants you to log in: {}", error.message);
            return AgentFailure { kind: AgentFailureKind::Authentication, message, data, prompt_unseen: false };
        }
        let message = format!("the agent `{agent}` reported an error: {}", error.message);
        AgentFailure { kind: AgentFailureKind::Refused, message, data, prompt_unseen: false }
    }
}

/// Returns the part of the offer that an accepted setting changed.
fn changed(setting: AgentSetting, answer: &Value) -> Option<OfferPart> {
    match setting {
        AgentSetting::Mode(mode) => Some(OfferPart::Mode(mode)),
        AgentSetting::Model(model) => Some(OfferPart::Model(model)),
        AgentSetting::Option { .. } => child::read_options(answer).map(OfferPart::Options),
    }
}

#[cfg(test)]
mod tests;
