//! The child agent of a hosted session: started when it is first needed, and ended with the
//! session.
//!
//! The rules are in `domain::session`; this file passes requests to the child and its reports to
//! the machine. A report is taken only while the log has room, so a child that floods acpd waits.

use actix::{
    ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, SpawnHandle, StreamHandler, WrapFuture,
};
use domain::hosted::{
    AgentFailure, AgentLaunch, AgentLink, AgentReport, AgentSetting, Offer, StartedAgent, as_native_call, summary,
};
use domain::mcp::McpServer;
use domain::permission::AgentOption;
use domain::session::effect::StartTurn;
use domain::session::{AgentQuestion, Input};
use domain::turn::FailureKind;
use domain::{CallId, Content, QuestionId, StopReason, TurnFailure};
use futures_util::StreamExt;
use tokio::sync::oneshot;

use super::Session;
use super::messages::Recorded;

/// Starts the child of a hosted session and replies when its session is open. A session of the
/// native engine replies at once.
#[derive(Message)]
#[rtype(result = "Result<(), AgentFailure>")]
pub(crate) struct StartAgent {
    /// The MCP servers that the client passed.
    pub(crate) servers: Vec<McpServer>,
}

/// Sets an option of the child.
#[derive(Message)]
#[rtype(result = "Result<AgentConfigured, AgentFailure>")]
pub(crate) struct ConfigureAgent(pub(crate) AgentSetting);

/// The options that the child offers after a change.
pub(crate) struct AgentConfigured {
    pub(crate) recorded: Recorded,
    pub(crate) offer: Offer,
}

/// The child, and what waits for it.
#[derive(Default)]
pub(super) struct HostedWork {
    link: Option<Box<dyn AgentLink>>,
    /// Numbers the children, because a report of an earlier child may still arrive.
    child: u64,
    reports: Option<SpawnHandle>,
    is_open: bool,
    /// The callers that wait until the child's session is open.
    openings: Vec<oneshot::Sender<Result<(), AgentFailure>>>,
}

impl HostedWork {
    fn opened(&mut self, result: &Result<(), AgentFailure>) {
        self.is_open = result.is_ok();
        for waiting in self.openings.drain(..) {
            // The client may have withdrawn its request.
            let _ = waiting.send(result.clone());
        }
    }

    pub(super) fn answer(&self, question: QuestionId, option: Option<String>) {
        if let Some(link) = &self.link {
            link.answer(question, option);
        }
    }
}

/// A report of one child.
struct Reported {
    child: u64,
    report: AgentReport,
}

impl Session {
    /// Starts the child unless it runs.
    fn start_child(&mut self, ctx: &mut Context<Self>) {
        let Some(hosted) = self.state().settings.hosted.as_ref().filter(|_| self.hosted.link.is_none()) else { return };
        let launch = AgentLaunch {
            agent: hosted.agent.clone(),
            session: self.id().clone(),
            cwd: self.state().folders.cwd.clone(),
            extra_roots: self.machine.wanted_roots().to_vec(),
            environment: self.environment(),
            servers: self.machine.wanted_servers(),
            earlier: hosted.session.clone(),
            chosen: hosted.offer.clone(),
            summary: summary(self.state()),
        };
        let StartedAgent { link, reports } = self.ports.agents.start(launch);
        self.hosted.child += 1;
        let (child, tail) = (self.hosted.child, self.log.tail.clone());
        let reports = reports.then(move |report| {
            let tail = tail.clone();
            async move {
                tail.room().await;
                Reported { child, report }
            }
        });
        self.hosted.is_open = false;
        self.hosted.reports = Some(ctx.add_stream(reports));
        self.hosted.link = Some(link);
    }

    /// Ends the child.
    pub(super) fn drop_child(&mut self, ctx: &mut Context<Self>) {
        self.hosted.link = None;
        if let Some(reports) = self.hosted.reports.take() {
            ctx.cancel_future(reports);
        }
        self.hosted.opened(&Err(AgentFailure::broken("the agent is gone")));
    }

    /// Starts the child for a hosted turn, and reports when the message of its prompt is synced.
    pub(super) fn start_hosted_turn(&mut self, start: StartTurn, ctx: &mut Context<Self>) {
        self.start_child(ctx);
        let StartTurn { turn, after, .. } = start;
        let tail = self.log.tail.clone();
        let synced = async move { tail.until_synced(after).await };
        ctx.spawn(synced.into_actor(self).map(move |synced, this, ctx| {
            let input = match synced {
                Ok(()) => Input::AgentPromptSynced(turn),
                Err(error) => {
                    let (kind, message) = (FailureKind::History, error.to_string());
                    let failure = TurnFailure { kind, message, data: serde_json::Value::Null };
                    Input::TurnNotStarted { turn, failure }
                }
            };
            this.deliver(input, ctx);
        }));
    }

    /// Sends the prompt to the child. A child that has ended since the last prompt is started
    /// again.
    pub(super) fn prompt_agent(&mut self, content: Vec<Content>, ctx: &mut Context<Self>) {
        let editor = self.tool_context.editor.clone();
        let link = self.hosted.link.as_ref();
        if link.is_some_and(|link| link.prompt(content.clone(), editor.clone())) {
            return;
        }
        self.drop_child(ctx);
        self.start_child(ctx);
        if let Some(link) = &self.hosted.link {
            link.prompt(content, editor);
        }
    }

    /// Asks the child to end its prompt. Returns the input that reports the end if the child cannot
    /// report it itself.
    pub(super) fn cancel_agent(&mut self, ctx: &mut Context<Self>) -> Option<Input> {
        if self.log.tail.is_full() {
            // The log is full, so no further report of the child could be written.
            self.drop_child(ctx);
        }
        match &self.hosted.link {
            Some(link) => {
                link.cancel();
                None
            }
            None => Some(Input::Agent(AgentReport::Ended { reason: StopReason::Cancelled, usage: None })),
        }
    }

    /// Compares the call that the child asks about with the rules, and delivers the question to the
    /// machine.
    fn check_question(&mut self, id: QuestionId, call: CallId, options: Vec<AgentOption>, ctx: &mut Context<Self>) {
        let cwd = &self.state().folders.cwd;
        let card = self.state().open.calls.get(&call).map(|open| as_native_call(&open.card, cwd));
        let rule = card.map(|card| self.ports.toolbox.rule(&card, cwd));
        let compared = async move {
            match rule {
                Some(rule) => rule.await,
                None => None,
            }
        };
        ctx.spawn(compared.into_actor(self).map(move |rule, this, ctx| {
            this.deliver(Input::AgentAsked(AgentQuestion { id, call, options, rule }), ctx);
        }));
    }
}

impl StreamHandler<Reported> for Session {
    fn handle(&mut self, Reported { child, report }: Reported, ctx: &mut Context<Self>) {
        if child != self.hosted.child {
            return;
        }
        let opened = if let AgentReport::Gone(failure) = &report {
            tracing::warn!(parent: &self.span, reason = failure.message, "the child agent has ended");
            Some(Err(failure.clone()))
        } else {
            matches!(report, AgentReport::Opened { .. }).then_some(Ok(()))
        };
        if let AgentReport::Asked { question, call, options } = report {
            return self.check_question(question, call, options, ctx);
        }
        if let Some(gone @ Err(_)) = &opened {
            self.hosted.opened(gone);
        }
        // Delivered first, because the callers that wait for the child read its offer from the
        // state.
        self.deliver(Input::Agent(report), ctx);
        if let Some(Ok(())) = opened {
            self.hosted.opened(&Ok(()));
        }
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The end of this stream is the end of the child, not of the session.
    }
}

impl Handler<StartAgent> for Session {
    type Result = ResponseActFuture<Self, Result<(), AgentFailure>>;

    fn handle(&mut self, StartAgent { servers }: StartAgent, ctx: &mut Context<Self>) -> Self::Result {
        if self.state().settings.hosted.is_none() {
            return Box::pin(actix::fut::ready(Ok(())));
        }
        self.deliver(Input::SetServers { wanted: Some(servers), kept: Vec::new() }, ctx);
        self.start_child(ctx);
        let (tell, opened) = oneshot::channel();
        self.hosted.openings.push(tell);
        if self.hosted.is_open {
            self.hosted.opened(&Ok(()));
        }
        let gone = || Err(AgentFailure::broken("the agent is gone"));
        let opened = async move { opened.await.unwrap_or_else(|_| gone()) };
        Box::pin(opened.into_actor(self))
    }
}

impl Handler<ConfigureAgent> for Session {
    type Result = ResponseActFuture<Self, Result<AgentConfigured, AgentFailure>>;

    fn handle(&mut self, ConfigureAgent(setting): ConfigureAgent, ctx: &mut Context<Self>) -> Self::Result {
        self.start_child(ctx);
        let set = self.hosted.link.as_ref().map(|link| link.configure(setting));
        let set = async move {
            match set {
                Some(set) => set.await,
                None => Err(AgentFailure::broken("the session has no agent")),
            }
        };
        Box::pin(set.into_actor(self).map(|result, this, ctx| {
            let part = result?;
            if let Some(part) = part {
                this.deliver(Input::Agent(AgentReport::Offered(part)), ctx);
            }
            let offer = this.state().settings.hosted.as_ref().map(|hosted| hosted.offer.clone()).unwrap_or_default();
            Ok(AgentConfigured { recorded: this.recorded(), offer })
        }))
    }
}
