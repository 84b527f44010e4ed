//! One prompt's loop: ask the model, have its tool calls carried out, ask again. Started by the `Session`, whose leash it
//! holds and through which everything it does is recorded; it ends with its turn. It runs no tool and writes no log.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, StreamHandler, WeakRecipient, WrapFuture};
use domain::conversation::Conversation;
use domain::model::{Delta, Model, ModelError, ModelRequest};
use domain::tool::{ToolRequest, ToolSpec, UPDATE_PLAN};
use domain::turn::FailureKind;
use domain::{CallId, Environment, MessageId, PlanEntry, StopReason, ThoughtLevel, TurnFailure, TurnId, Usage};
use futures_util::StreamExt;
use serde::Deserialize;

use crate::mail::{Leash, Obituary, report};
use crate::tail::Tail;

/// A tool call has its outcome, which is in the conversation and safe once event number `at` is.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CallEnded {
    pub(crate) call: CallId,
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
    Planned {
        call: CallId,
        message: MessageId,
        entries: Vec<PlanEntry>,
    },
    Used {
        usage: Usage,
        window: u64,
    },
    Ended {
        reason: StopReason,
    },
    /// The turn is gone; an end that was not told is a crash.
    Died,
}

pub(crate) struct Task {
    pub(crate) turn: TurnId,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) thought: ThoughtLevel,
    pub(crate) environment: Arc<Environment>,
    pub(crate) conversation: Conversation,
    /// The user's message, which must be safe before the model is asked.
    pub(crate) after: u64,
    pub(crate) max_requests: u32,
    pub(crate) tail: Arc<Tail>,
    pub(crate) parent: WeakRecipient<TurnEvent>,
    pub(crate) leash: Leash,
}

pub(crate) struct Turn {
    id: TurnId,
    model: Arc<dyn Model>,
    system: String,
    tools: Vec<ToolSpec>,
    thought: ThoughtLevel,
    environment: Arc<Environment>,
    conversation: Conversation,
    after: u64,
    requests_left: u32,
    tail: Arc<Tail>,
    parent: WeakRecipient<TurnEvent>,
    leash: Option<Leash>,
    /// The response that is being streamed.
    message: MessageId,
    stopped: StopReason,
    /// Calls of this response that have not been handed over yet, in the model's order.
    waiting: VecDeque<(CallId, ToolRequest)>,
    /// Calls that have been handed over and have no outcome yet.
    running: Vec<CallId>,
    /// Whether the model made calls and so waits for their outcomes.
    called: bool,
    _obituary: Obituary,
}

impl Turn {
    pub(crate) fn new(task: Task) -> Self {
        let Task {
            turn,
            model,
            system,
            tools,
            thought,
            environment,
            conversation,
            after,
            max_requests,
            tail,
            parent,
            leash,
        } = task;
        let obituary = {
            let (turn, parent) = (turn.clone(), parent.clone());
            Obituary::new(move |_| {
                report(&parent, TurnEvent { turn, what: What::Died });
            })
        };
        Self {
            id: turn,
            model,
            system,
            tools,
            thought,
            environment,
            conversation,
            after,
            requests_left: max_requests,
            tail,
            parent,
            leash: Some(leash),
            message: MessageId::new(),
            stopped: StopReason::EndTurn,
            waiting: VecDeque::new(),
            running: Vec::new(),
            called: false,
            _obituary: obituary,
        }
    }

    fn say(&self, what: What) {
        report(&self.parent, TurnEvent { turn: self.id.clone(), what });
    }

    fn end(&self, reason: StopReason) {
        // The session answers by letting go of the leash.
        self.say(What::Ended { reason });
    }

    /// Waits until what the request rests on is safe, then asks.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        if self.requests_left == 0 {
            return self.end(StopReason::MaxTurnRequests);
        }
        self.requests_left -= 1;
        self.message = MessageId::new();
        self.stopped = StopReason::EndTurn;
        self.called = false;
        let tail = self.tail.clone();
        let after = self.after;
        let safe = async move { tail.until_synced(after).await };
        ctx.spawn(safe.into_actor(self).map(|safe, this, ctx| match safe {
            Ok(()) => this.stream(ctx),
            Err(error) => this.end(StopReason::Failed(TurnFailure {
                kind: FailureKind::History,
                message: error.to_string(),
                data: serde_json::Value::Null,
            })),
        }));
    }

    fn stream(&mut self, ctx: &mut Context<Self>) {
        let answer = self.model.respond(ModelRequest {
            system: self.system.clone(),
            messages: self.conversation.messages().to_vec(),
            tools: self.tools.clone(),
            thought: self.thought,
            environment: self.environment.clone(),
        });
        let tail = self.tail.clone();
        ctx.add_stream(answer.then(move |delta| {
            let tail = tail.clone();
            async move {
                tail.room().await;
                delta
            }
        }));
    }

    fn called(&mut self, request: ToolRequest) {
        self.called = true;
        self.waiting.push_back((CallId::new(), request));
    }

    /// Hands over the next call, and with it those that follow as long as all of them only read.
    fn hand_over(&mut self, ctx: &mut Context<Self>) {
        while let Some((call, request)) = self.waiting.pop_front() {
            if request.tool == UPDATE_PLAN {
                self.plan(call, request);
                continue;
            }
            let reads = self.only_reads(&request.tool);
            if !self.running.is_empty() && !reads {
                return self.waiting.push_front((call, request));
            }
            self.running.push(call.clone());
            self.say(What::Called { call, message: self.message.clone(), request });
            if !reads {
                return;
            }
        }
        if self.running.is_empty() {
            self.ask(ctx);
        }
    }

    fn only_reads(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool && spec.read_only)
    }

    /// `update_plan` is carried out here: it has no effect but on what people see.
    fn plan(&mut self, call: CallId, request: ToolRequest) {
        #[derive(Deserialize)]
        struct Plan {
            entries: Vec<PlanEntry>,
        }
        let message = self.message.clone();
        self.running.push(call.clone());
        match serde_json::from_value::<Plan>(request.input.clone()) {
            Ok(Plan { entries }) => self.say(What::Planned { call, message, entries }),
            // The toolbox refuses it with a reason that the model can act on.
            Err(_) => self.say(What::Called { call, message, request }),
        }
    }
}

impl Actor for Turn {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(leash) = self.leash.take() {
            leash.hold::<Self>(ctx);
        }
        self.ask(ctx);
    }
}

impl StreamHandler<Result<Delta, ModelError>> for Turn {
    fn handle(&mut self, delta: Result<Delta, ModelError>, _: &mut Context<Self>) {
        let message = self.message.clone();
        match delta {
            Ok(Delta::Text(text)) => self.say(What::Said { message, text }),
            Ok(Delta::Thought(text)) => self.say(What::Thought { message, text }),
            Ok(Delta::Seal(seal)) => self.say(What::Sealed { message, seal }),
            Ok(Delta::Notice(text)) => self.say(What::Noticed { text }),
            Ok(Delta::Call { tool, input }) => self.called(ToolRequest { tool, input }),
            Ok(Delta::Usage(usage)) => self.say(What::Used { usage, window: self.model.info().window }),
            Ok(Delta::Stopped(reason)) => self.stopped = reason,
            Err(error) => self.stopped = StopReason::Failed(error.into()),
        }
    }

    fn finished(&mut self, ctx: &mut Context<Self>) {
        match &self.stopped {
            StopReason::EndTurn if self.called => self.hand_over(ctx),
            reason => self.end(reason.clone()),
        }
    }
}

impl Handler<CallEnded> for Turn {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        let CallEnded { call, at, conversation } = ended;
        self.running.retain(|running| *running != call);
        self.after = self.after.max(at);
        self.conversation = conversation;
        if self.running.is_empty() {
            self.hand_over(ctx);
        }
    }
}
