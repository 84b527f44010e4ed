//! The loop that works on one prompt: ask the model, have its tool calls carried out, ask again.
//! The `Session` starts the turn, holds its guard, and records everything it does. The actor ends
//! with its turn. It runs no tool and writes no log.

mod coalesce;
mod compaction;
mod endings;
mod estimate;
mod tool_calls;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, StreamHandler, WeakRecipient, WrapFuture};
use domain::conversation::Conversation;
use domain::event::RequestedCall;
use domain::instructions::SystemPrompt;
use domain::model::{Delta, Model, ModelError, ModelRequest, ToolUse};
use domain::session::TurnReport;
use domain::session::effect::{Purpose, Unfinished};
use domain::tool::ToolSpec;
use domain::turn::{FailureKind, ResponseCalls};
use domain::{CallId, Environment, MessageId, StopReason, ThoughtLevel, TurnFailure, TurnId, Usage};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use self::coalesce::Coalesced;
use self::compaction::Threshold;
use self::endings::Endings;
use self::estimate::RequestEstimate;
use self::tool_calls::take_begun;
pub(crate) use self::tool_calls::{CallEnded, OfferTools};
use crate::mail::{DeathNotice, ParentGone, report};
use crate::tail::Tail;

/// Reports that a summary has replaced older messages.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Compacted {
    pub(crate) conversation: Conversation,
}

/// Continues a turn with a changed conversation. The change is safe once event number `at` is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Continue {
    pub(crate) at: u64,
    pub(crate) conversation: Conversation,
}

/// Switches to another model or thought level that the user chose, from the next request on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SwitchModel {
    /// None keeps the model of this turn.
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) thought: ThoughtLevel,
}

/// A report of a turn to its session.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TurnEvent {
    pub(crate) turn: TurnId,
    pub(crate) report: TurnReport,
}

/// The limits on what one turn may use.
#[derive(Clone, Copy)]
pub(crate) struct TurnBudget {
    pub(crate) requests: u32,
    /// The maximum number of tokens, sent and received; 0 for no limit.
    pub(crate) tokens: u64,
    /// The number of tokens beyond which older messages are summarised, however large the window
    /// is; 0 for no limit.
    pub(crate) compact_tokens: u64,
    pub(crate) at_end: BudgetEnd,
}

/// What happens with the last request that the budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetEnd {
    /// The model is asked for a report. If it makes calls instead, they are carried out.
    AskForReport,
    /// The model may make no calls. If it makes some anyway, they are refused, and it is asked once
    /// more.
    ForceReport,
}

/// What all requests of a turn have in common, whatever they contain.
pub(crate) struct RequestScope {
    pub(crate) environment: Arc<Environment>,
    /// Names the conversation to the provider's cache: one name per session, and one per sub-agent.
    pub(crate) cache_key: String,
}

pub(crate) struct TurnTask {
    pub(crate) turn: TurnId,
    pub(crate) purpose: Purpose,
    pub(crate) model: Arc<dyn Model>,
    /// The instructions at the start of the conversation; the first request takes them.
    pub(crate) system_prompt: Option<BoxFuture<'static, SystemPrompt>>,
    pub(crate) tools: Vec<Arc<ToolSpec>>,
    pub(crate) thought: ThoughtLevel,
    pub(crate) scope: RequestScope,
    pub(crate) conversation: Conversation,
    /// How full the model's window was after its last request.
    pub(crate) window_used: u64,
    /// The number of the user's message, which must be safe before the model is asked.
    pub(crate) after: u64,
    pub(crate) budget: TurnBudget,
    /// A response whose calls are carried out first, because the turn was restored from the log.
    pub(crate) unfinished: Option<Unfinished>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) parent: WeakRecipient<TurnEvent>,
    pub(crate) span: tracing::Span,
}

/// The loop of one prompt.
pub(crate) struct Turn {
    /// The task of the turn. `after`, `conversation` and `window_used` are kept up to date, and
    /// `model` and `thought` are those of the running request.
    task: TurnTask,
    switch: Option<SwitchModel>,
    parent_gone: Option<ParentGone>,
    /// The system prompt, known once the first request is made.
    system: String,
    requests: u32,
    /// The response that is being streamed.
    message: MessageId,
    phase: Phase,
    estimate: RequestEstimate,
    stopped: StopReason,
    /// Whether the response has produced visible output. A retry would then show it twice.
    visible: bool,
    overflowed: bool,
    endings: Endings,
    calls: ResponseCalls,
    _death_notice: DeathNotice,
}

/// The purpose of the stream that is being read.
enum Phase {
    Answering {
        /// Whether the model made calls and therefore waits for their outcomes.
        called: bool,
        /// Calls that the model has begun to write, with their tools, keyed by their place in the
        /// answer.
        begun: BTreeMap<usize, (CallId, String)>,
    },
    Summarising {
        summary: String,
        /// How many bytes of the summary have been reported.
        shown: usize,
        then: Purpose,
        /// The first message that is kept instead of summarised.
        kept_from: Option<MessageId>,
        form: SummaryForm,
    },
}

/// The form in which the model receives the messages that it summarises.
enum SummaryForm {
    /// As the conversation itself, after the same beginning as in all other requests.
    Conversation,
    /// As one text, because the conversation does not fit, or because the model did not answer it
    /// with a summary.
    Transcript {
        /// The maximum number of tokens of older messages.
        room: u64,
        /// How often `room` was halved because even the request for the summary did not fit.
        halvings: u32,
    },
}

impl SummaryForm {
    /// The maximum number of bytes of the user's older messages that are kept beside the summary: a
    /// quarter of the text that fitted. The true window may be much smaller than the declared one.
    fn most_of_user(&self) -> usize {
        match self {
            Self::Conversation => usize::MAX,
            Self::Transcript { room, .. } => usize::try_from(*room).unwrap_or(usize::MAX),
        }
    }
}

impl Phase {
    fn answering() -> Self {
        Self::Answering { called: false, begun: BTreeMap::new() }
    }
}

/// How many bytes of a summary are reported at a time. Smaller pieces would make many events.
const SUMMARY_PIECE: usize = 256;

/// How often a request for a summary that does not fit is retried with half as much text.
const MAX_SUMMARY_RETRIES: u32 = 8;

impl Turn {
    pub(crate) fn new(task: TurnTask, parent_gone: ParentGone) -> Self {
        let death_notice = {
            let (turn, parent) = (task.turn.clone(), task.parent.clone());
            DeathNotice::new(move |_| {
                report(&parent, TurnEvent { turn, report: TurnReport::Died });
            })
        };
        Self {
            task,
            switch: None,
            parent_gone: Some(parent_gone),
            system: String::new(),
            requests: 0,
            message: MessageId::new(),
            phase: Phase::answering(),
            estimate: RequestEstimate::default(),
            stopped: StopReason::EndTurn,
            visible: false,
            overflowed: false,
            endings: Endings::default(),
            calls: ResponseCalls::default(),
            _death_notice: death_notice,
        }
    }

    fn report(&self, reported: TurnReport) {
        report(&self.task.parent, TurnEvent { turn: self.task.turn.clone(), report: reported });
    }

    fn end(&self, reason: StopReason) {
        // The session reacts by dropping the guard.
        self.report(TurnReport::Ended { reason, fallback: None });
    }

    /// Asks the model, after summarising older messages if its window is nearly full.
    fn ask_or_compact(&mut self, ctx: &mut Context<Self>) {
        self.apply_model_switch();
        // The count of the last request does not include what came after it, such as long outcomes.
        let expected = estimate::conversation(self.task.conversation.messages(), &self.task.tools, self.window());
        let (used, threshold) = (self.task.window_used.max(expected), self.threshold());
        if !threshold.is_passed(used) {
            return self.answer(ctx);
        }
        if let Some((calls, saved)) = compaction::clearable(&self.task.conversation, used, threshold) {
            self.task.window_used = used.saturating_sub(saved);
            return self.report(TurnReport::Cleared { calls });
        }
        match compaction::kept_from(&self.task.conversation, threshold) {
            Some(kept_from) => self.summarise(Purpose::Answer, Some(kept_from), SummaryForm::Conversation, ctx),
            None => self.answer(ctx),
        }
    }

    fn answer(&mut self, ctx: &mut Context<Self>) {
        self.phase = Phase::answering();
        self.ask(ctx);
    }

    fn summarise(&mut self, then: Purpose, kept_from: Option<MessageId>, form: SummaryForm, ctx: &mut Context<Self>) {
        self.apply_model_switch();
        self.phase = Phase::Summarising { summary: String::new(), shown: 0, then, kept_from, form };
        self.ask(ctx);
    }

    /// The form of a request for a summary of messages that do not fit as they are.
    fn transcript_form(&self, kept_from: Option<&MessageId>) -> SummaryForm {
        let room = compaction::room(&self.task.conversation, kept_from, self.window());
        SummaryForm::Transcript { room, halvings: 0 }
    }

    fn threshold(&self) -> Threshold {
        Threshold { window: self.window(), most: self.task.budget.compact_tokens }
    }

    fn window(&self) -> u64 {
        self.task.model.info().window
    }

    /// The first message to keep when as many messages as possible must be summarised.
    fn least_kept_from(&self) -> Option<MessageId> {
        compaction::least_kept_from(&self.task.conversation, self.window())
    }

    fn apply_model_switch(&mut self) {
        if let Some(SwitchModel { model, thought }) = self.switch.take() {
            self.task.thought = thought;
            self.task.model = model.unwrap_or_else(|| self.task.model.clone());
        }
    }

    /// Waits until everything that the request depends on is safe, then asks the model.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        if self.endings.is_last && !self.endings.use_extra_request() {
            return self.end(StopReason::MaxTurnRequests);
        }
        self.requests += 1;
        self.note_last_request();
        self.message = MessageId::new();
        self.begin_summary();
        self.stopped = StopReason::EndTurn;
        self.visible = false;
        self.endings.begin();
        let (tail, after) = (self.task.tail.clone(), self.task.after);
        let system_prompt = self.task.system_prompt.take();
        let ready = async move {
            let system = match system_prompt {
                Some(system_prompt) => Some(system_prompt.await),
                None => None,
            };
            tail.until_synced(after).await.map(|()| system)
        };
        ctx.spawn(ready.into_actor(self).map(|ready, this, ctx| match ready {
            Ok(system) => {
                if let Some(SystemPrompt { text, notices }) = system {
                    this.system = text;
                    notices.into_iter().for_each(|text| this.report(TurnReport::Notice { text }));
                }
                this.stream(ctx);
            }
            Err(error) => this.end(StopReason::Failed(TurnFailure {
                kind: FailureKind::History,
                message: error.to_string(),
                data: serde_json::Value::Null,
            })),
        }));
    }

    fn stream(&mut self, ctx: &mut Context<Self>) {
        self.apply_model_switch();
        let conversation = &self.task.conversation;
        let (messages, tools) = match &self.phase {
            Phase::Answering { .. } => {
                (compaction::fitted(conversation.messages(), self.window()), self.task.tools.clone())
            }
            Phase::Summarising { form: SummaryForm::Conversation, .. } => {
                let messages = compaction::fitted(conversation.messages(), self.window());
                (compaction::with_instruction(messages), self.task.tools.clone())
            }
            Phase::Summarising { kept_from, form: SummaryForm::Transcript { room, .. }, .. } => {
                (vec![compaction::to_summarise(conversation, kept_from.as_ref(), *room)], Vec::new())
            }
        };
        let request = ModelRequest {
            system: self.system.clone(),
            messages: self.with_ending_instruction(messages),
            tools: tools.into_iter().filter(|tool| tool.suits(self.task.model.info())).collect(),
            tool_use: if self.must_report() { ToolUse::Forbidden } else { ToolUse::Allowed },
            thought: self.task.thought,
            environment: self.task.scope.environment.clone(),
            cache_key: self.task.scope.cache_key.clone(),
        };
        self.estimate = RequestEstimate::of(&request, self.window());
        tracing::debug!(parent: &self.task.span, model = %self.task.model.info().id, "asks the model");
        let answer = self.task.span.in_scope(|| self.task.model.respond(request));
        let tail = self.task.tail.clone();
        ctx.add_stream(Coalesced::new(answer).then(move |delta| {
            let tail = tail.clone();
            async move {
                tail.room().await;
                delta
            }
        }));
    }

    fn take(&mut self, delta: Delta) {
        let message = self.message.clone();
        self.estimate.received += estimate::weight(&delta);
        match (delta, &mut self.phase) {
            (Delta::Usage(usage), _) => {
                self.estimate.is_counted = true;
                if usage != Usage::default() {
                    self.count(usage, false);
                }
            }
            (Delta::DocumentsAsText { documents, bytes }, _) => self.estimate.count_text(documents, bytes),
            (Delta::Notice(text), _) => self.report(TurnReport::Notice { text }),
            (Delta::Stopped(reason), _) => self.stopped = reason,
            (Delta::Text(text), Phase::Summarising { summary, .. }) => {
                summary.push_str(&text);
                self.show_summary(SUMMARY_PIECE);
            }
            (Delta::Abandoned, _) => self.abandon(),
            (
                Delta::Thought(_)
                | Delta::Seal(_)
                | Delta::CallBegun { .. }
                | Delta::Call { .. }
                | Delta::CutCall { .. },
                Phase::Summarising { .. },
            ) => {}
            (Delta::Text(text), Phase::Answering { .. }) => {
                self.visible = true;
                self.endings.has_spoken |= !text.trim().is_empty();
                self.report(TurnReport::Text { message, text });
            }
            (Delta::Thought(text), Phase::Answering { .. }) => {
                self.visible = true;
                self.report(TurnReport::Thought { message, text });
            }
            (Delta::Seal(seal), Phase::Answering { .. }) => self.report(TurnReport::Sealed { message, seal }),
            (Delta::CallBegun { place, tool, detail }, Phase::Answering { .. }) => self.begin_call(place, tool, detail),
            (Delta::CutCall { tool }, Phase::Answering { begun, .. }) => {
                take_begun(begun, &tool);
                self.endings.cut = Some(tool);
            }
            (Delta::Call { tool, input, origin }, Phase::Answering { called, begun }) => {
                *called = true;
                let call = take_begun(begun, &tool).unwrap_or_default();
                self.calls.request(RequestedCall { call, tool, input, origin });
            }
        }
    }
}

impl Actor for Turn {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(parent_gone) = self.parent_gone.take() {
            parent_gone.stop_child::<Self>(ctx);
        }
        if let Some(unfinished) = self.task.unfinished.take() {
            return self.restore_calls(unfinished);
        }
        match self.task.purpose {
            Purpose::Answer => self.ask_or_compact(ctx),
            Purpose::Compact => {
                let kept_from = self.least_kept_from();
                self.summarise(Purpose::Compact, kept_from, SummaryForm::Conversation, ctx);
            }
        }
    }
}

impl StreamHandler<Result<Delta, ModelError>> for Turn {
    fn handle(&mut self, delta: Result<Delta, ModelError>, _: &mut Context<Self>) {
        match delta {
            Ok(delta) => self.take(delta),
            Err(error) => self.stopped = StopReason::Failed(error.into()),
        }
    }

    fn finished(&mut self, ctx: &mut Context<Self>) {
        self.conclude(ctx);
    }
}

impl Handler<Compacted> for Turn {
    type Result = ();

    fn handle(&mut self, Compacted { conversation }: Compacted, ctx: &mut Context<Self>) {
        self.task.conversation = conversation;
        // Unknown until the next request reports it.
        self.task.window_used = 0;
        match self.phase {
            Phase::Summarising { then: Purpose::Answer, .. } => self.answer(ctx),
            Phase::Summarising { then: Purpose::Compact, .. } | Phase::Answering { .. } => {
                self.end(StopReason::EndTurn);
            }
        }
    }
}

impl Handler<Continue> for Turn {
    type Result = ();

    fn handle(&mut self, Continue { at, conversation }: Continue, ctx: &mut Context<Self>) {
        self.task.after = self.task.after.max(at);
        self.task.conversation = conversation;
        self.ask_or_compact(ctx);
    }
}

impl Handler<SwitchModel> for Turn {
    type Result = ();

    fn handle(&mut self, switch: SwitchModel, _: &mut Context<Self>) {
        self.switch = Some(switch);
    }
}
