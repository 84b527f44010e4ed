//! Carries out the decisions of the session's machine, and holds the actors and futures that work
//! for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, Addr, AsyncContext, Context, SpawnHandle, WrapFuture};
use domain::conversation::Conversation;
use domain::session::effect::SubAgentInput;
use domain::session::{Effect, Input, TurnInput};
use domain::tool::{Notification, NotificationKind};
use domain::{AgentId, CallId, CallSite, EventKind, Outcome, TurnId};
use tokio::sync::{oneshot, watch};

use super::sub_agents::SubAgentTurn;
use super::{Session, stop};
use crate::directory::{Evict, EvictionReason, EvictionRefused, LogRetention};
use crate::mail::{ChildGuard, report, tell};
use crate::tool_executor::{self, Run, ToolExecutor};
use crate::turn::{CallEnded, Compacted, Continue, Turn};

/// The actors and futures that work for the machine's activity.
#[derive(Default)]
pub(super) struct Work {
    pub(super) turn: Option<(Addr<Turn>, ChildGuard)>,
    pub(super) calls: HashMap<CallId, (Addr<ToolExecutor>, ChildGuard)>,
    /// The sub-agents, keyed by the turn in which each one works.
    pub(super) agents: HashMap<TurnId, SubAgentTurn>,
    /// The channels that return outcomes to the calls that made requests to sub-agents.
    pub(super) delegations: HashMap<CallId, oneshot::Sender<Outcome>>,
    /// The conversations of sub-agents that have ended and can be continued.
    pub(super) ended_agents: HashMap<AgentId, Conversation>,
    pub(super) expansion: Option<SpawnHandle>,
    pub(super) hooks: Option<SpawnHandle>,
    pub(super) restoration: Option<RunningRestoration>,
    /// Set to true to stop the git commands of a running `/worktree`.
    pub(super) git: Option<watch::Sender<bool>>,
}

impl Work {
    fn drop_turn(&mut self) {
        self.turn = None;
        self.agents.clear();
        self.delegations.clear();
    }

    fn drop_call(&mut self, call: &CallId) {
        self.delegations.remove(call);
        self.calls.remove(call);
    }

    fn answer_delegation(&mut self, call: &CallId, outcome: Outcome) {
        if let Some(reply) = self.delegations.remove(call) {
            // The send fails only if the call is over already.
            let _ = reply.send(outcome);
        }
    }

    fn run_call(&self, call: &CallId, after: u64) {
        if let Some((executor, _)) = self.calls.get(call) {
            tell(executor, Run { after });
        }
    }

    fn cancel_call(&self, call: &CallId) {
        if let Some((executor, _)) = self.calls.get(call) {
            tell(executor, tool_executor::CancelTool);
        }
    }

    /// Adds an event to the conversation of a sub-agent.
    fn add_to_agent(&mut self, agent: &TurnId, kind: EventKind) {
        if let Some(sub) = self.agents.get_mut(agent) {
            sub.record(kind);
        }
    }

    fn stop_git(&self) {
        if let Some(stop) = &self.git {
            stop.send_replace(true);
        }
    }

    /// Continues the turn of a sub-agent, with its conversation as it is now.
    fn send_to_agent(&self, agent: &TurnId, input: SubAgentInput, at: u64) {
        if let Some(sub) = self.agents.get(agent) {
            sub.send(input, at);
        }
    }

    fn stop_restoring(&self) {
        if let Some(restoration) = &self.restoration {
            restoration.stop.send_replace(true);
        }
    }
}

/// A running restoration of files.
pub(super) struct RunningRestoration {
    /// Set to true to stop the restoration.
    pub(super) stop: watch::Sender<bool>,
    /// The future of the restoration, until something starts to drive it.
    pub(super) work: Option<super::undo::Restoring>,
}

#[derive(Default)]
pub(super) struct Timers {
    /// Runs while the session is idle and no client is attached.
    idle: Option<SpawnHandle>,
    /// Runs while a question is open and no client is attached, if questions are denied after a
    /// timeout.
    deny: Option<SpawnHandle>,
}

impl Session {
    /// Carries out one effect. An effect that completes at once may return the input that reports
    /// it.
    pub(super) fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) -> Option<Input> {
        match effect {
            Effect::Flush => self.submit(ctx),
            Effect::Publish => self.publish(),
            Effect::Append(_) | Effect::Reply(_) => unreachable!("`deliver` writes events and returns replies"),
            Effect::TurnOpened { number, trace, editor } => self.trace_turn(number, trace.as_ref(), editor),
            Effect::TurnReopened { number, turn } => self.trace_reopened_turn(number, &turn),
            Effect::TurnClosed => self.trace_end_of_turn(),
            Effect::UseEnvironment(environment) => self.tool_context.environment = Some(environment),
            Effect::UseEditor(editor) => self.tool_context.editor = Some(editor),
            Effect::ConnectServers(request) => self.connect_servers(request, ctx),
            Effect::AwaitModels => self.await_models(ctx),
            Effect::ReviewModel => self.review_model(ctx),
            Effect::ExpandPrompt(message) => return self.expand_prompt(&message, ctx),
            Effect::ExpandSteering(message) => return self.expand_steering(message, ctx),
            Effect::AbortExpansion => cancel(self.work.expansion.take(), ctx),
            Effect::RunSlashCommand(command) => return self.run_slash_command(command, ctx),
            Effect::StopSlashCommand => self.work.stop_git(),
            Effect::StartTurn(start) => return self.start_turn(start, ctx),
            Effect::SendToTurn(input) => self.send_to_turn(input),
            Effect::SwitchModel => self.switch_model(),
            Effect::DropTurn => self.work.drop_turn(),
            Effect::CancelBackground(turn) => self.ports.toolbox.cancel_turn(self.id(), &turn),
            Effect::RunHooks { turn, reason } => return self.run_hooks(turn, reason, ctx),
            Effect::AbortHooks => cancel(self.work.hooks.take(), ctx),
            Effect::NotifyHooks { turn, reason } => self.notify_hooks(turn, &reason, ctx),
            Effect::Notify { kind, about, turn, attended } => self.notify(kind, &about, turn, attended),
            Effect::PlanCall(plan) => self.plan_call(plan, ctx),
            Effect::RunCall { call, after } => self.work.run_call(&call, after),
            Effect::CancelCall(call) => self.work.cancel_call(&call),
            Effect::DropCall(call) => self.work.drop_call(&call),
            Effect::RecordForAgent { agent, kind } => self.work.add_to_agent(&agent, kind),
            Effect::SendToSubAgent { agent, input, at } => self.work.send_to_agent(&agent, input, at),
            Effect::DropAgent(agent) => drop(self.work.agents.remove(&agent)),
            Effect::StartSubAgent(start) => return self.start_agent(*start, ctx),
            Effect::AnswerDelegation { call, outcome } => self.work.answer_delegation(&call, outcome),
            Effect::ForgetAgent(agent) => drop(self.work.ended_agents.remove(&agent)),
            Effect::PromptAgent(prompt) => self.prompt_agent(prompt, ctx),
            Effect::CancelAgent => return self.cancel_agent(ctx),
            Effect::AnswerAgent { question, option } => self.hosted.answer(question, option),
            Effect::DropAgentLink => self.drop_child(ctx),
            Effect::Restore { turn, checkpoint, direction } => self.restore(turn, &checkpoint, direction, ctx),
            Effect::StopRestoring => self.work.stop_restoring(),
            Effect::ArmDenyTimer(after) => self.arm_deny_timer(after, ctx),
            Effect::DisarmDenyTimer => cancel(self.timers.deny.take(), ctx),
            Effect::ArmIdleTimer(after) => self.arm_idle_timer(after, ctx),
            Effect::DisarmIdleTimer => cancel(self.timers.idle.take(), ctx),
            Effect::RequestEviction => self.request_eviction(),
            Effect::RefuseEviction => self.refuse_eviction(),
            Effect::Close => self.close(ctx),
        }
        None
    }

    fn send_to_turn(&self, input: TurnInput) {
        let Some((turn, _)) = &self.work.turn else { return };
        match input {
            TurnInput::CallEnded { call, failed, at, conversation } => {
                tell(turn, CallEnded { call, failed, at, conversation });
            }
            TurnInput::Continue { at, conversation } => {
                tell(turn, Continue { at, conversation });
            }
            TurnInput::Compacted { conversation } => {
                tell(turn, Compacted { conversation });
            }
        }
    }

    fn arm_deny_timer(&mut self, after: Duration, ctx: &mut Context<Self>) {
        cancel(self.timers.deny.take(), ctx);
        self.timers.deny = Some(ctx.run_later(after, |this, ctx| {
            this.timers.deny = None;
            this.deliver(Input::DenyTimerFired, ctx);
        }));
    }

    fn arm_idle_timer(&mut self, after: Duration, ctx: &mut Context<Self>) {
        cancel(self.timers.idle.take(), ctx);
        self.timers.idle = Some(ctx.run_later(after, |this, ctx| {
            this.timers.idle = None;
            let in_background = this.works_in_background();
            this.deliver(Input::IdleTimerFired { in_background }, ctx);
        }));
    }

    /// Asks the Directory to evict this session. The Directory deletes a session that never had a
    /// prompt, because it holds nothing that a client would come back for.
    fn request_eviction(&self) {
        let retention = LogRetention::DeleteIfEmpty;
        report(&self.directory.evict, Evict { id: self.id().clone(), retention, why: EvictionReason::Idle });
    }

    fn refuse_eviction(&self) {
        report(&self.directory.eviction_refused, EvictionRefused(self.id().clone()));
    }

    /// Builds the call site for the tools of a turn.
    pub(super) fn call_site(&self, turn: TurnId) -> Arc<CallSite> {
        let state = self.state();
        Arc::new(CallSite {
            session: state.id.clone(),
            turn,
            agent: None,
            cwd: state.folders.cwd.clone(),
            extra_roots: state.folders.extra_roots.clone(),
            mode: state.settings.mode,
            environment: self.environment(),
            seen: self.tool_context.seen.clone(),
            entered: self.tool_context.entered.clone(),
            editor: self.tool_context.editor.clone(),
        })
    }

    /// Notifies a user who may not be watching the session.
    fn notify(&self, event: NotificationKind, about: &str, turn: Option<TurnId>, attended: bool) {
        let title = self.state().title.as_deref();
        let site = self.call_site(turn.unwrap_or_default());
        self.ports.toolbox.notify(Notification { event, about, title, attended }, &site);
    }

    /// Marks the log as cleanly closed and stops the actor.
    fn close(&mut self, ctx: &mut Context<Self>) {
        let marked = self.state().head.number;
        let written = self.submit_clean(ctx);
        ctx.spawn(written.into_actor(self).map(move |written, this, ctx| {
            let is_written = matches!(written, Ok(Ok(_)));
            if is_written && this.state().head.number > marked {
                // A setting, a title or a notice was appended meanwhile and invalidated the mark.
                return this.close(ctx);
            }
            if !is_written {
                tracing::warn!(parent: &this.span, "evicted, but its end could not be written; the session is repaired when it is opened");
            }
            this.log.tail.end();
            tracing::info!(parent: &this.span, "evicted");
            stop(ctx);
        }));
    }
}

fn cancel(handle: Option<SpawnHandle>, ctx: &mut Context<Session>) {
    if let Some(handle) = handle {
        ctx.cancel_future(handle);
    }
}
