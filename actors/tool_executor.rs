//! One tool call: plans it, waits for approval, runs it, and reports how it ended. The `Session`
//! starts the executor and holds its `ChildGuard`. The executor decides nothing about permission
//! and writes nothing to the log.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, WeakRecipient, WrapFuture};
use domain::history::History;
use domain::recall::{Recall, RecallReader, RecallRequest, Recalled};
use domain::tool::{
    HookPoint, HooksRun, Job, OutcomeKind, PlanRefusal, SubAgentRequest, ToolHost, ToolRequest, Toolbox,
};
use domain::{CallId, CallSite, Mode, Outcome, SessionId, ToolCard, ToolContent, Verdict};
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};
use tracing::Instrument;

use crate::mail::{DeathNotice, ParentGone, report};
use crate::tail::Tail;

/// Approves the call: it runs once event number `after` is safe.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Run {
    pub(crate) after: u64,
}

/// Asks the call to end. The executor reports when it has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CancelTool;

/// A report of an executor to its session.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ExecutorEvent {
    pub(crate) call: CallId,
    pub(crate) report: ExecutorReport,
}

/// What an executor reports about its call.
pub(crate) enum ExecutorReport {
    /// The call is planned: the card describes what it would do, and `rule` is the verdict of the
    /// rules.
    Planned {
        card: ToolCard,
        rule: Option<Verdict>,
    },
    /// The call cannot be carried out at all.
    Refused(PlanRefusal),
    Progressed(Vec<ToolContent>),
    /// The call has started (true) or stopped (false) waiting for the user.
    Waits(bool),
    /// The call makes a request to sub-agents, such as for a report. The outcome is returned over
    /// the channel, which closes if there will be none.
    Delegated(SubAgentRequest, oneshot::Sender<Outcome>),
    /// The user has agreed to another mode. The outcome of the switch is returned over the channel.
    ModeAgreed(Mode, oneshot::Sender<Outcome>),
    /// The hooks before the call agree to it. The outcome is returned over the channel if the call
    /// must not run after all; the channel closes if the call is being cancelled.
    HooksAgreed(oneshot::Sender<Option<Outcome>>),
    Ended(Outcome),
    /// The executor is gone. If it has not reported an end before, it crashed.
    Died,
}

/// The log of the session, for reading.
#[derive(Clone)]
pub(crate) struct SessionLog {
    pub(crate) session: SessionId,
    pub(crate) tail: Arc<Tail>,
    pub(crate) history: Arc<dyn History>,
    /// The conversation that the call is part of.
    pub(crate) reader: RecallReader,
}

/// Bytes of events that are read from the history at a time.
const PAGE: usize = 256 << 10;

impl SessionLog {
    /// Searches what is in the history by now.
    async fn search(self, request: RecallRequest) -> Outcome {
        let mut recall = Recall::new(request, self.reader);
        let mut next = 1;
        loop {
            let events = match self.history.read(self.session.clone(), next, PAGE).await {
                Ok(events) => events,
                Err(error) => return Outcome::failed(error.to_string()),
            };
            let Some(last) = events.last() else { break };
            next = last.number + 1;
            events.iter().for_each(|event| recall.feed(event));
            // A long log must not hold up the other actors of the thread.
            tokio::task::yield_now().await;
        }
        match recall.finish() {
            Ok(Recalled { text, images }) if images.is_empty() => Outcome::completed(text),
            Ok(Recalled { text, mut images }) => {
                images.insert(0, ToolContent::text(&text));
                Outcome::completed(text).showing(images)
            }
            Err(reason) => Outcome::failed(reason),
        }
    }
}

pub(crate) struct CallTask {
    pub(crate) span: tracing::Span,
    pub(crate) call: CallId,
    pub(crate) request: ToolRequest,
    /// The recorded card of a call that was planned before the daemon restarted.
    pub(crate) recorded: Option<Box<ToolCard>>,
    pub(crate) site: Arc<CallSite>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) log: SessionLog,
    pub(crate) parent: WeakRecipient<ExecutorEvent>,
    pub(crate) parent_gone: ParentGone,
    /// How long a cancelled job may take to end by itself.
    pub(crate) cancel_timeout: Duration,
}

/// One tool call, from its plan to its outcome.
pub(crate) struct ToolExecutor {
    call: CallId,
    parent: WeakRecipient<ExecutorEvent>,
    log: SessionLog,
    cancel_timeout: Duration,
    phase: Phase,
    cancel: watch::Sender<bool>,
    span: tracing::Span,
    _death_notice: DeathNotice,
}

enum Phase {
    /// Not started yet.
    New {
        request: ToolRequest,
        recorded: Option<Box<ToolCard>>,
        site: Arc<CallSite>,
        toolbox: Arc<dyn Toolbox>,
        parent_gone: ParentGone,
    },
    Planning(CallRunner),
    /// Planned, and waiting for approval.
    Ready(Box<dyn Job>, CallRunner),
    Running,
    Over,
}

/// Plans and runs the call, with the hooks around it.
#[derive(Clone)]
struct CallRunner {
    site: Arc<CallSite>,
    toolbox: Arc<dyn Toolbox>,
}

impl ToolExecutor {
    pub(crate) fn new(assignment: CallTask) -> Self {
        let CallTask { span, call, request, recorded, site, toolbox, log, parent, parent_gone, cancel_timeout } =
            assignment;
        let death_notice = {
            let (call, parent) = (call.clone(), parent.clone());
            DeathNotice::new(move |_| {
                report(&parent, ExecutorEvent { call, report: ExecutorReport::Died });
            })
        };
        Self {
            call,
            parent,
            log,
            cancel_timeout,
            phase: Phase::New { request, recorded, site, toolbox, parent_gone },
            cancel: watch::Sender::new(false),
            span,
            _death_notice: death_notice,
        }
    }

    fn report(&self, reported: ExecutorReport) {
        report(&self.parent, ExecutorEvent { call: self.call.clone(), report: reported });
    }

    fn end(&mut self, outcome: Outcome, ctx: &mut Context<Self>) {
        self.phase = Phase::Over;
        tracing::debug!(parent: &self.span, verdict = ?outcome.verdict, "ended");
        self.report(ExecutorReport::Ended(outcome));
        ctx.stop();
    }

    fn planned(&mut self, planned: Result<Planned, PlanRefusal>, ctx: &mut Context<Self>) {
        match planned {
            Ok(Planned { job, rule }) => {
                let Phase::Planning(runner) = std::mem::replace(&mut self.phase, Phase::Over) else { return };
                self.report(ExecutorReport::Planned { card: job.card().clone(), rule });
                self.phase = Phase::Ready(job, runner);
            }
            Err(refusal) => {
                self.phase = Phase::Over;
                self.report(ExecutorReport::Refused(refusal));
                ctx.stop();
            }
        }
    }
}

struct Planned {
    job: Box<dyn Job>,
    rule: Option<Verdict>,
}

impl CallRunner {
    /// Plans the call and compares it with the rules.
    async fn plan(self, request: ToolRequest, recorded: Option<Box<ToolCard>>) -> Result<Planned, PlanRefusal> {
        let job = self.plan_job(request, recorded).await?;
        let rule = self.toolbox.rule(job.card(), &self.site.cwd).await;
        Ok(Planned { job, rule })
    }

    async fn plan_job(
        &self,
        request: ToolRequest,
        recorded: Option<Box<ToolCard>>,
    ) -> Result<Box<dyn Job>, PlanRefusal> {
        let Some(recorded) = recorded else { return self.toolbox.plan(request, self.site.clone()).await };
        // The daemon has just started, and the server that provides the tool may still be
        // connecting.
        if let Some(ready) = self.toolbox.prepare(&self.site.session, &self.site.cwd, &[]) {
            ready.await;
        }
        self.toolbox.plan_again(request, *recorded, self.site.clone()).await
    }

    /// Runs the call with its hooks. The hooks before the call may deny it, and the output of those
    /// after it is added to the outcome that the model receives.
    async fn run(self, job: Box<dyn Job>, call_host: Arc<CallHost>) -> Outcome {
        let card = job.card().clone();
        let host: Arc<dyn ToolHost> = call_host.clone();
        match self.run_hooks(HookPoint::BeforeTool { card: &card }, &host).await {
            HookVerdict::NoHooks => {}
            // The user may have set another mode while the hooks ran.
            HookVerdict::Agreed => {
                if let Some(refusal) = call_host.confirm_run().await {
                    return refusal;
                }
            }
            HookVerdict::Refused(reason) => return Outcome::denied_because(&reason),
            HookVerdict::Cancelled => return Outcome::cancelled(),
        }
        let mut outcome = job.run(host.clone()).await;
        if outcome.verdict == OutcomeKind::Cancelled {
            return outcome;
        }
        let verdict = self.run_hooks(HookPoint::AfterTool { card: &card, outcome: &outcome }, &host).await;
        let hooks = match &verdict {
            HookVerdict::NoHooks => HooksRun::None,
            HookVerdict::Agreed | HookVerdict::Refused(_) => HooksRun::Some,
            HookVerdict::Cancelled => return outcome,
        };
        if let HookVerdict::Refused(reason) = verdict {
            outcome.text.push_str(&format!("\n[a hook says: {reason}]"));
        }
        let Some(completed) = self.toolbox.complete(&outcome, hooks, &self.site) else { return outcome };
        tokio::select! {
            completed = completed => completed,
            () = host.cancelled() => outcome,
        }
    }

    async fn run_hooks(&self, point: HookPoint<'_>, host: &Arc<dyn ToolHost>) -> HookVerdict {
        let Some(asked) = self.toolbox.run_hooks(point, &self.site) else { return HookVerdict::NoHooks };
        tokio::select! {
            refusal = asked => refusal.map_or(HookVerdict::Agreed, HookVerdict::Refused),
            () = host.cancelled() => HookVerdict::Cancelled,
        }
    }
}

enum HookVerdict {
    /// There are no hooks for this point.
    NoHooks,
    Agreed,
    Refused(String),
    Cancelled,
}

impl Actor for ToolExecutor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let assigned = std::mem::replace(&mut self.phase, Phase::Over);
        let Phase::New { request, recorded, site, toolbox, parent_gone } = assigned else {
            unreachable!("an actor starts once");
        };
        parent_gone.stop_child::<Self>(ctx);
        let runner = CallRunner { site, toolbox };
        let plan = runner.clone().plan(request, recorded).instrument(self.span.clone());
        self.phase = Phase::Planning(runner);
        ctx.spawn(plan.into_actor(self).map(|planned, this, ctx| this.planned(planned, ctx)));
    }
}

impl Handler<Run> for ToolExecutor {
    type Result = ();

    fn handle(&mut self, Run { after }: Run, ctx: &mut Context<Self>) {
        let Phase::Ready(job, runner) = std::mem::replace(&mut self.phase, Phase::Running) else { return };
        let tail = self.log.tail.clone();
        let host = Arc::new(CallHost {
            call: self.call.clone(),
            parent: self.parent.clone(),
            log: self.log.clone(),
            cancel: self.cancel.subscribe(),
        });
        let run = async move {
            match tail.until_synced(after).await {
                Ok(()) => runner.run(job, host).await,
                Err(error) => Outcome::failed(format!("The call was not run: {error}.")),
            }
        };
        tracing::debug!(parent: &self.span, "runs");
        ctx.spawn(run.instrument(self.span.clone()).into_actor(self).map(|outcome, this, ctx| this.end(outcome, ctx)));
    }
}

impl Handler<CancelTool> for ToolExecutor {
    type Result = ();

    fn handle(&mut self, CancelTool: CancelTool, ctx: &mut Context<Self>) {
        match self.phase {
            Phase::Running => {
                self.cancel.send_replace(true);
                ctx.run_later(self.cancel_timeout, |this, ctx| this.end(Outcome::cancelled(), ctx));
            }
            Phase::New { .. } | Phase::Planning(_) | Phase::Ready(..) => self.end(Outcome::cancelled(), ctx),
            Phase::Over => {}
        }
    }
}

/// The requests that a running tool may make to its session.
struct CallHost {
    call: CallId,
    parent: WeakRecipient<ExecutorEvent>,
    log: SessionLog,
    cancel: watch::Receiver<bool>,
}

impl CallHost {
    /// Asks the session whether the call may still run. Returns its outcome if it must not.
    async fn confirm_run(&self) -> Option<Outcome> {
        let (sender, refusal) = oneshot::channel();
        report(&self.parent, ExecutorEvent { call: self.call.clone(), report: ExecutorReport::HooksAgreed(sender) });
        refusal.await.unwrap_or_else(|_| Some(Outcome::cancelled()))
    }
}

impl ToolHost for CallHost {
    fn delegate(&self, request: SubAgentRequest) -> BoxFuture<'static, Outcome> {
        let (sender, outcome) = oneshot::channel();
        report(
            &self.parent,
            ExecutorEvent { call: self.call.clone(), report: ExecutorReport::Delegated(request, sender) },
        );
        Box::pin(async move { outcome.await.unwrap_or_else(|_| Outcome::cancelled()) })
    }

    fn recall(&self, request: RecallRequest) -> BoxFuture<'static, Outcome> {
        Box::pin(self.log.clone().search(request))
    }

    fn switch_mode(&self, mode: Mode) -> BoxFuture<'static, Outcome> {
        let (sender, outcome) = oneshot::channel();
        report(
            &self.parent,
            ExecutorEvent { call: self.call.clone(), report: ExecutorReport::ModeAgreed(mode, sender) },
        );
        Box::pin(async move { outcome.await.unwrap_or_else(|_| Outcome::cancelled()) })
    }

    fn call(&self) -> Option<CallId> {
        Some(self.call.clone())
    }

    fn wait_for_person(&self, waits: bool) {
        report(&self.parent, ExecutorEvent { call: self.call.clone(), report: ExecutorReport::Waits(waits) });
    }

    fn progress(&self, content: Vec<ToolContent>) {
        report(&self.parent, ExecutorEvent { call: self.call.clone(), report: ExecutorReport::Progressed(content) });
    }

    fn cancelled(&self) -> BoxFuture<'static, ()> {
        let mut cancel = self.cancel.clone();
        Box::pin(async move {
            // An error means that the executor is gone; then the tool must end as well.
            let _ = cancel.wait_for(|cancelled| *cancelled).await;
        })
    }
}
