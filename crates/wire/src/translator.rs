//! Translates a session's log into what one client receives, in the version that it speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use domain::model::ModelInfo;
use domain::state::{AskedQuestion, BackgroundWork, DelegatedCall, OpenCall, OpenTurn};
use domain::{CallId, ConnectionId, Event, ExtraSet, PromptOrigin, QuestionId, SessionId, TurnId};
use serde_json::Value;

use crate::answer_data::SessionOptions;
use crate::protocol::ProtocolVersion;
use crate::request::ClientCapabilities;
use crate::rpc::RpcError;
use crate::{v1, v2};

/// The client for which the log is translated.
#[derive(Clone, Debug)]
pub struct Viewer {
    pub connection: ConnectionId,
    /// The bridge in front of the client. It may have had other connections before.
    pub bridge: Option<String>,
    /// Whether updates carry `_meta.acpd.at` = [life, number]. If an event becomes several
    /// messages, only the last one carries it, so that a reader cut off between them receives all
    /// of them again.
    pub with_positions: bool,
    pub capabilities: ClientCapabilities,
    /// The extras that this client receives.
    pub extras: ExtraSet,
}

/// The state of the session at the event where a translator starts.
#[derive(Clone, Debug)]
pub struct TranslatorStart {
    pub session: SessionId,
    pub viewer: Viewer,
    /// The folder of the session.
    pub cwd: PathBuf,
    /// The number of the first event that the translator receives.
    pub next: u64,
    /// The turn that is open where the cursor starts.
    pub turn: Option<OpenTurn>,
    /// What works in the background where the cursor starts, by its handle.
    pub background: BTreeMap<String, BackgroundWork>,
    /// The options of the session at the position where the cursor starts.
    pub session_options: SessionOptions,
    /// The number of the last event when the client attached.
    pub head: u64,
    /// From this number on, events are new to the client and not history: its own prompts are not
    /// sent back to it in version 1, and changes of the state are reported in version 2.
    pub own_from: u64,
    /// The calls that are open where the cursor starts.
    pub open_calls: Vec<(CallId, OpenCall)>,
    /// The calls of sub-agents. Most of them are not shown.
    pub delegated: BTreeMap<CallId, DelegatedCall>,
    /// The questions that are open at `head`. Earlier ones that were settled by then are not asked
    /// again.
    pub open_questions: Vec<AskedQuestion>,
}

impl TranslatorStart {
    /// The calls of sub-agents that the client does not see where it starts.
    pub(crate) fn hidden_calls(&self) -> BTreeSet<CallId> {
        let hidden = self.delegated.iter().filter(|(_, delegated)| delegated.is_hidden_at(self.next));
        hidden.map(|(call, _)| call.clone()).collect()
    }
}

/// How much of the earlier log a client that starts in the middle has already received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorView {
    Nothing,
    Everything,
}

/// A message to send to a client, or an action to take for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outbound {
    /// A complete `session/update` notification, serialized.
    Update(Vec<u8>),
    /// Parameters of `session/request_permission`, or of `elicitation/create` for an inquiry at a
    /// client that shows forms; the connection chooses the request id.
    Ask { question: QuestionId, method: &'static str, params: Value },
    /// The question is settled: withdraw it if it is still open at this client.
    Settled { question: QuestionId },
    /// A prompt of this client is in the log: it started a turn, or joined the running one.
    Inserted { prompt: TurnId, joined: bool },
    /// The answer to the prompt that started this turn, if this connection sent it.
    Answer { turn: TurnId, origin: Option<PromptOrigin>, answer: Result<Value, RpcError> },
    /// The turn is over: withdraw the requests of its tools.
    TurnOver { turn: TurnId },
}

/// The translator of one client's version.
#[derive(Debug)]
pub enum Translator {
    V1(Box<v1::translator::Translator>),
    V2(Box<v2::translator::Translator>),
}

impl Translator {
    pub fn new(version: ProtocolVersion, attach: TranslatorStart) -> Self {
        match version {
            ProtocolVersion::V1 => Self::V1(Box::new(v1::translator::Translator::new(attach))),
            ProtocolVersion::V2 => Self::V2(Box::new(v2::translator::Translator::new(attach))),
        }
    }

    /// The options of the session after the events translated so far.
    pub fn session_options(&self) -> &SessionOptions {
        match self {
            Self::V1(translator) => translator.session_options(),
            Self::V2(translator) => translator.session_options(),
        }
    }

    /// Replaces the models among the options of the session, from the next update on.
    pub fn offer(&mut self, models: Vec<ModelInfo>) {
        match self {
            Self::V1(translator) => translator.offer(models),
            Self::V2(translator) => translator.offer(models),
        }
    }

    /// What a client that starts at event `next` needs first: the open calls, unless it has seen
    /// them or got them with the preface, and the earlier questions that are still unanswered.
    pub fn catch_up(&mut self, seen: PriorView, next: u64) -> Vec<Outbound> {
        match self {
            Self::V1(translator) => translator.catch_up(seen, next),
            Self::V2(translator) => translator.catch_up(seen, next),
        }
    }

    /// Translates the next event.
    pub fn translate(&mut self, event: &Event) -> Vec<Outbound> {
        match self {
            Self::V1(translator) => translator.translate(event),
            Self::V2(translator) => translator.translate(event),
        }
    }

    /// What a client receives before the answer to a request that opens an existing session: in
    /// version 2 the open calls and terminals, unless they were replayed, and the current state.
    pub fn preface(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::V1(_) => Vec::new(),
            Self::V2(translator) => translator.preface(),
        }
    }
}
