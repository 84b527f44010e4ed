//! One prompt's loop: ask the model, have its tool calls carried out, ask again. Started by the `Session`, whose leash it
//! holds and through which everything it does is recorded; it ends with its turn. It runs no tool and writes no log.

mod compaction;

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, StreamHandler, WeakRecipient, WrapFuture};
use domain::conversation::Conversation;
use domain::model::{Delta, Model, ModelError, ModelRequest, Price};
use domain::tool::{ToolRequest, ToolSpec, UPDATE_PLAN};
use domain::turn::FailureKind;
use domain::{CallId, Environment, MessageId, PlanEntry, StopReason, ThoughtLevel, TurnFailure, TurnId, Usage};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::mail::{Leash, Obituary, report};
use crate::tail::Tail;

/// A tool call has its outcome, which is in the conversation and safe once event number `at` is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CallEnded {
    pub(crate) call: CallId,
    pub(crate) failed: bool,
    pub(crate) at: u64,
    pub(crate) conversation: Conversation,
}

/// Older messages have been replaced by a summary.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Compacted {
    pub(crate) conversation: Conversation,
}

/// The turn may not end yet: something was added to the conversation, and is safe once event number `at` is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct GoOn {
    pub(crate) at: u64,
    pub(crate) conversation: Conversation,
}

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TurnEvent {
    pub(crate) turn: TurnId,
    pub(crate) what: What,
}

pub(crate) enum What {
    Said {
        message: MessageId,
        text: String,
    },
    Thought {
        message: MessageId,
        text: String,
    },
    Sealed {
        message: MessageId,
        seal: serde_json::Value,
    },
    Noticed {
        text: String,
    },
    Called {
        call: CallId,
        message: MessageId,
        request: ToolRequest,
    },
    /// A call that is not worth trying again.
    Barred {
        call: CallId,
        message: MessageId,
        request: ToolRequest,
        reason: String,
    },
    Planned {
        call: CallId,
        message: MessageId,
        entries: Vec<PlanEntry>,
    },
    Used {
        usage: Usage,
        window: u64,
        price: Option<Price>,
    },
    Summarised {
        summary: String,
        kept_from: Option<MessageId>,
    },
    Ended {
        reason: StopReason,
    },
    /// The turn is gone; an end that was not told is a crash.
    Died,
}

pub(crate) struct Task {
    pub(crate) turn: TurnId,
    pub(crate) purpose: Purpose,
    pub(crate) model: Arc<dyn Model>,
    /// What the model is told first; taken by the first request.
    pub(crate) briefing: Option<BoxFuture<'static, String>>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) thought: ThoughtLevel,
    pub(crate) environment: Arc<Environment>,
    pub(crate) conversation: Conversation,
    /// How full the model's window was after its last request.
    pub(crate) window_used: u64,
    /// The user's message, which must be safe before the model is asked.
    pub(crate) after: u64,
    pub(crate) max_requests: u32,
    pub(crate) tail: Arc<Tail>,
    pub(crate) parent: WeakRecipient<TurnEvent>,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Answer,
    /// Only to summarise what came before.
    Compact,
}

pub(crate) struct Turn {
    /// What it works on; `after`, `conversation` and `window_used` are kept up to date.
    task: Task,
    leash: Option<Leash>,
    /// Known once the first request is made.
    system: String,
    requests: u32,
    /// The response that is being streamed.
    message: MessageId,
    doing: Doing,
    stopped: StopReason,
    /// Whether the response has shown anything yet, so that asking again would show it twice.
    visible: bool,
    overflowed: bool,
    /// Calls of this response that have not been handed over yet, in the model's order.
    waiting: VecDeque<(CallId, ToolRequest)>,
    /// Calls that have been handed over and have no outcome yet.
    running: Vec<(CallId, ToolRequest)>,
    /// Calls that have failed since something was last changed, and how often.
    failing: Vec<(ToolRequest, u32)>,
    _obituary: Obituary,
}

/// What the stream that is being read is for.
enum Doing {
    Answering {
        /// Whether the model made calls and so waits for their outcomes.
        called: bool,
    },
    Summarising {
        summary: String,
        then: Purpose,
    },
}

/// The same call may fail this often, with nothing changed in between, before the model is told to do something else.
const SAME_FAILURES: u32 = 3;

impl Turn {
    pub(crate) fn new(task: Task, leash: Leash) -> Self {
        let obituary = {
            let (turn, parent) = (task.turn.clone(), task.parent.clone());
            Obituary::new(move |_| {
                report(&parent, TurnEvent { turn, what: What::Died });
            })
        };
        Self {
            task,
            leash: Some(leash),
            system: String::new(),
            requests: 0,
            message: MessageId::new(),
            doing: Doing::Answering { called: false },
            stopped: StopReason::EndTurn,
            visible: false,
            overflowed: false,
            waiting: VecDeque::new(),
            running: Vec::new(),
            failing: Vec::new(),
            _obituary: obituary,
        }
    }

    fn say(&self, what: What) {
        report(&self.task.parent, TurnEvent { turn: self.task.turn.clone(), what });
    }

    fn end(&self, reason: StopReason) {
        // The session answers by letting go of the leash.
        self.say(What::Ended { reason });
    }

    /// Asks the model, after a summary of older messages if its window is nearly full.
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        if compaction::is_due(self.task.window_used, self.task.model.info().window)
            && compaction::kept_from(&self.task.conversation).is_some()
        {
            return self.summarise(Purpose::Answer, ctx);
        }
        self.doing = Doing::Answering { called: false };
        self.ask(ctx);
    }

    fn summarise(&mut self, then: Purpose, ctx: &mut Context<Self>) {
        self.doing = Doing::Summarising { summary: String::new(), then };
        self.ask(ctx);
    }

    /// Waits until what the request rests on is safe, then asks.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        if self.requests == self.task.max_requests {
            return self.end(StopReason::MaxTurnRequests);
        }
        self.requests += 1;
        self.message = MessageId::new();
        self.stopped = StopReason::EndTurn;
        self.visible = false;
        let (tail, after) = (self.task.tail.clone(), self.task.after);
        let briefing = self.task.briefing.take();
        let ready = async move {
            let system = match briefing {
                Some(briefing) => Some(briefing.await),
                None => None,
            };
            tail.until_synced(after).await.map(|()| system)
        };
        ctx.spawn(ready.into_actor(self).map(|ready, this, ctx| match ready {
            Ok(system) => {
                this.system = system.unwrap_or_else(|| std::mem::take(&mut this.system));
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
        let window = self.task.model.info().window;
        let messages = match self.doing {
            Doing::Answering { .. } => compaction::fitted(self.task.conversation.messages(), window),
            Doing::Summarising { .. } => compaction::to_summarise(&self.task.conversation, window),
        };
        let tools = match self.doing {
            Doing::Answering { .. } => self.task.tools.clone(),
            Doing::Summarising { .. } => Vec::new(),
        };
        let answer = self.task.model.respond(ModelRequest {
            system: self.system.clone(),
            messages,
            tools,
            thought: self.task.thought,
            environment: self.task.environment.clone(),
        });
        let tail = self.task.tail.clone();
        ctx.add_stream(answer.then(move |delta| {
            let tail = tail.clone();
            async move {
                tail.room().await;
                delta
            }
        }));
    }

    fn take(&mut self, delta: Delta) {
        let message = self.message.clone();
        match (delta, &mut self.doing) {
            (Delta::Usage(usage), _) => {
                self.task.window_used = usage.total();
                let info = self.task.model.info();
                self.say(What::Used { usage, window: info.window, price: info.price.clone() });
            }
            (Delta::Notice(text), _) => self.say(What::Noticed { text }),
            (Delta::Stopped(reason), _) => self.stopped = reason,
            (Delta::Text(text), Doing::Summarising { summary, .. }) => summary.push_str(&text),
            (Delta::Thought(_) | Delta::Seal(_) | Delta::Call { .. }, Doing::Summarising { .. }) => {}
            (Delta::Text(text), Doing::Answering { .. }) => {
                self.visible = true;
                self.say(What::Said { message, text });
            }
            (Delta::Thought(text), Doing::Answering { .. }) => {
                self.visible = true;
                self.say(What::Thought { message, text });
            }
            (Delta::Seal(seal), Doing::Answering { .. }) => self.say(What::Sealed { message, seal }),
            (Delta::Call { tool, input }, Doing::Answering { called }) => {
                *called = true;
                self.waiting.push_back((CallId::new(), ToolRequest { tool, input }));
            }
        }
    }

    /// The stream has ended for good.
    fn conclude(&mut self, ctx: &mut Context<Self>) {
        let overflow = matches!(&self.stopped, StopReason::Failed(failure) if failure.kind == FailureKind::Overflow);
        match (&self.doing, &self.stopped) {
            (Doing::Answering { .. }, _) if overflow && self.may_summarise() => {
                self.overflowed = true;
                self.summarise(Purpose::Answer, ctx);
            }
            (Doing::Answering { called: true }, StopReason::EndTurn) => self.hand_over(ctx),
            (Doing::Summarising { summary, .. }, StopReason::EndTurn | StopReason::MaxTokens)
                if summary.trim().is_empty() =>
            {
                // Nothing in place of everything would be the end of the conversation.
                let message = "the model gave no summary; the conversation is as it was".to_owned();
                let kind = FailureKind::Model;
                self.end(StopReason::Failed(TurnFailure { kind, message, data: serde_json::Value::Null }));
            }
            (Doing::Summarising { summary, .. }, StopReason::EndTurn | StopReason::MaxTokens) => {
                let kept_from = compaction::kept_from(&self.task.conversation);
                self.say(What::Summarised { summary: summary.clone(), kept_from });
            }
            (Doing::Answering { .. } | Doing::Summarising { .. }, reason) => self.end(reason.clone()),
        }
    }

    fn may_summarise(&self) -> bool {
        !self.visible && !self.overflowed && compaction::kept_from(&self.task.conversation).is_some()
    }

    /// Hands over the next call, and with it those that follow as long as all of them only read.
    fn hand_over(&mut self, ctx: &mut Context<Self>) {
        while let Some((call, request)) = self.waiting.pop_front() {
            let reads = request.tool == UPDATE_PLAN || self.only_reads(&request.tool);
            if !self.running.is_empty() && !reads {
                return self.waiting.push_front((call, request));
            }
            self.running.push((call.clone(), request.clone()));
            self.carry_out(call, request);
            if !reads {
                return;
            }
        }
        if self.running.is_empty() {
            self.go_on(ctx);
        }
    }

    fn only_reads(&self, tool: &str) -> bool {
        self.task.tools.iter().any(|spec| spec.name == tool && spec.read_only)
    }

    fn carry_out(&self, call: CallId, request: ToolRequest) {
        let message = self.message.clone();
        if self.failing.iter().any(|(failed, times)| *failed == request && *times >= SAME_FAILURES) {
            let reason = format!(
                "This call has failed {SAME_FAILURES} times with the same input, and nothing was changed in between. It was \
                 not run again. Do something else, or tell the user what is in the way."
            );
            return self.say(What::Barred { call, message, request, reason });
        }
        match planned(&request) {
            Some(entries) => self.say(What::Planned { call, message, entries }),
            None => self.say(What::Called { call, message, request }),
        }
    }

    fn remember(&mut self, request: ToolRequest, failed: bool) {
        if failed {
            match self.failing.iter_mut().find(|(before, _)| *before == request) {
                Some((_, times)) => *times += 1,
                None => self.failing.push((request, 1)),
            }
        } else if self.only_reads(&request.tool) {
            self.failing.retain(|(before, _)| *before != request);
        } else {
            // Something may be otherwise now, so that what failed before may be worth another try.
            self.failing.clear();
        }
    }
}

/// `update_plan` is carried out by the turn, since it has no effect but on what people see. An input that is no plan goes
/// to the toolbox, which refuses it with a reason that the model can act on.
fn planned(request: &ToolRequest) -> Option<Vec<PlanEntry>> {
    #[derive(Deserialize)]
    struct Plan {
        entries: Vec<PlanEntry>,
    }
    let is_plan = request.tool == UPDATE_PLAN;
    is_plan.then(|| Plan::deserialize(&request.input).ok()).flatten().map(|plan| plan.entries)
}

impl Actor for Turn {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(leash) = self.leash.take() {
            leash.hold::<Self>(ctx);
        }
        match self.task.purpose {
            Purpose::Answer => self.go_on(ctx),
            Purpose::Compact => self.summarise(Purpose::Compact, ctx),
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

impl Handler<CallEnded> for Turn {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        let CallEnded { call, failed, at, conversation } = ended;
        if let Some(at) = self.running.iter().position(|(running, _)| *running == call) {
            let (_, request) = self.running.remove(at);
            self.remember(request, failed);
        }
        self.task.after = self.task.after.max(at);
        self.task.conversation = conversation;
        if self.running.is_empty() {
            self.hand_over(ctx);
        }
    }
}

impl Handler<Compacted> for Turn {
    type Result = ();

    fn handle(&mut self, Compacted { conversation }: Compacted, ctx: &mut Context<Self>) {
        self.task.conversation = conversation;
        // Unknown until the next request says.
        self.task.window_used = 0;
        match self.doing {
            Doing::Summarising { then: Purpose::Answer, .. } => self.go_on(ctx),
            Doing::Summarising { then: Purpose::Compact, .. } | Doing::Answering { .. } => {
                self.end(StopReason::EndTurn);
            }
        }
    }
}

impl Handler<GoOn> for Turn {
    type Result = ();

    fn handle(&mut self, GoOn { at, conversation }: GoOn, ctx: &mut Context<Self>) {
        self.task.after = self.task.after.max(at);
        self.task.conversation = conversation;
        self.go_on(ctx);
    }
}
