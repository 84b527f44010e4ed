//! Carries out the decisions of the session's machine, and holds the actors and futures that work
//! for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, Addr, AsyncContext, Context, SpawnHandle, WrapFuture};
use domain::session::{Effect, Input, TurnOrder};
use domain::tool::{Notification, NotificationKind};
use domain::{CallId, CallSite, TurnId};
use tokio::sync::watch;

use super::sub_agents::SubAgent;
use super::{Session, stop};
use crate::directory::{Evict, EvictionReason, EvictionRefused, Fate};
use crate::mail::{ChildGuard, report, tell};
use crate::tool_executor::{self, Run, ToolExecutor};
use crate::turn::{CallEnded, Compacted, GoOn, Turn};

/// The actors and futures that work for the machine's activity.
#[derive(Default)]
pub(super) struct Work {
    pub(super) turn: Option<(Addr<Turn>, ChildGuard)>,
    pub(super) calls: HashMap<CallId, (Addr<ToolExecutor>, ChildGuard)>,
    /// The sub-agents, keyed by the turn in which each one works.
    pub(super) agents: HashMap<TurnId, SubAgent>,
    pub(super) expansion: Option<SpawnHandle>,
    pub(super) hooks: Option<SpawnHandle>,
    pub(super) restoration: Option<Restoration>,
}

/// Files that are being restored.
pub(super) struct Restoration {
    /// Set to true to stop the restoration.
    pub(super) stop: watch::Sender<bool>,
    /// The restoration itself, until something starts to drive it.
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
            Effect::Append(event) => self.write(event, ctx),
            Effect::Flush => self.submit(ctx),
            Effect::Publish => self.publish(),
            Effect::Reply(_) => unreachable!("`deliver` returns replies"),
            Effect::ConnectServers => self.connect_servers(ctx),
            Effect::ExpandPrompt(message) => return self.expand_prompt(&message, ctx),
            Effect::RunSlashCommand(command) => return self.run_slash_command(command, ctx),
            Effect::StartTurn(start) => return self.start_turn(start, ctx),
            Effect::ConsultHooks { turn, reason } => return self.consult_hooks(turn, reason, ctx),
            Effect::InformHooks { turn, reason } => self.inform_hooks(turn, &reason, ctx),
            Effect::Restore { turn, checkpoint, direction } => self.restore(turn, &checkpoint, direction, ctx),
            Effect::PlanCall(plan) => self.plan_call(plan, ctx),
            Effect::RequestEviction => self.request_eviction(),
            Effect::RefuseEviction => {
                report(&self.directory.eviction_refused, EvictionRefused(self.id().clone()));
            }
            Effect::Close => self.close(ctx),
            effect @ (Effect::TurnOpened { .. } | Effect::TurnReopened { .. } | Effect::TurnClosed) => {
                self.trace_turn(effect);
            }
            effect @ (Effect::ArmDenyTimer(_)
            | Effect::DisarmDenyTimer
            | Effect::ArmIdleTimer(_)
            | Effect::DisarmIdleTimer) => self.set_timer(effect, ctx),
            effect => self.direct(effect, ctx),
        }
        None
    }

    /// Forwards an instruction to the running work, or drops that work.
    fn direct(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::Order(order) => self.order_turn(order),
            Effect::SwitchModel => self.switch_model(),
            Effect::DropTurn => {
                self.work.turn = None;
                self.work.agents.clear();
            }
            Effect::CancelBackground(turn) => self.ports.toolbox.cancel_turn(self.id(), &turn),
            Effect::AbortExpansion => cancel(self.work.expansion.take(), ctx),
            Effect::AbortHooks => cancel(self.work.hooks.take(), ctx),
            Effect::Notify { kind, about, turn, attended } => self.notify(kind, &about, turn, attended),
            Effect::RunCall { call, after } => {
                if let Some((executor, _)) = self.work.calls.get(&call) {
                    tell(executor, Run { after });
                }
            }
            Effect::CancelCall(call) => {
                if let Some((executor, _)) = self.work.calls.get(&call) {
                    tell(executor, tool_executor::Cancel);
                }
            }
            Effect::DropCall(call) => drop(self.work.calls.remove(&call)),
            Effect::AgentHeard { agent, kind } => {
                if let Some(sub) = self.work.agents.get_mut(&agent) {
                    sub.hear(kind);
                }
            }
            Effect::AgentCallEnded { agent, call, failed, at } => self.end_agent_call(&agent, call, failed, at),
            Effect::DropAgent(agent) => drop(self.work.agents.remove(&agent)),
            Effect::StopRestoring => {
                if let Some(restoration) = &self.work.restoration {
                    restoration.stop.send_replace(true);
                }
            }
            _ => unreachable!("`carry_out` handles the other effects"),
        }
    }

    fn order_turn(&self, order: TurnOrder) {
        let Some((turn, _)) = &self.work.turn else { return };
        match order {
            TurnOrder::CallEnded { call, failed, at, conversation } => {
                tell(turn, CallEnded { call, failed, at, conversation });
            }
            TurnOrder::GoOn { at, conversation } => {
                tell(turn, GoOn { at, conversation });
            }
            TurnOrder::Compacted { conversation } => {
                tell(turn, Compacted { conversation });
            }
        }
    }

    fn set_timer(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::ArmDenyTimer(after) => {
                cancel(self.timers.deny.take(), ctx);
                self.timers.deny = Some(ctx.run_later(after, |this, ctx| {
                    this.timers.deny = None;
                    this.deliver(Input::DenyTimerFired, ctx);
                }));
            }
            Effect::DisarmDenyTimer => cancel(self.timers.deny.take(), ctx),
            Effect::ArmIdleTimer(after) => self.arm_idle_timer(after, ctx),
            _ => cancel(self.timers.idle.take(), ctx),
        }
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
        let fate = Fate::DeleteIfEmpty;
        report(&self.directory.evict, Evict { id: self.id().clone(), fate, why: EvictionReason::Idle });
    }

    /// Builds the call site for the tools of a turn.
    pub(super) fn call_site(&self, turn: TurnId) -> Arc<CallSite> {
        let state = self.state();
        Arc::new(CallSite {
            session: state.id.clone(),
            turn,
            cwd: state.cwd.clone(),
            extra_roots: state.extra_roots.clone(),
            mode: state.mode,
            environment: self.environment(),
            seen: self.tool_context.seen.clone(),
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
                tracing::warn!(parent: &this.span, "evicted without a note on the disk; it is repaired when it opens");
            }
            this.log.tail.end();
            tracing::info!(parent: &this.span, "put away");
            stop(ctx);
        }));
    }
}

fn cancel(handle: Option<SpawnHandle>, ctx: &mut Context<Session>) {
    if let Some(handle) = handle {
        ctx.cancel_future(handle);
    }
}
