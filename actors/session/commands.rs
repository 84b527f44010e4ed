//! What a session is told, and what it answers.

use std::path::PathBuf;
use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, WeakAddr, WrapFuture};
use domain::briefing::Command;
use domain::card::{PermissionsCard, Remembered, SessionDetails};
use domain::editor::Editor;
use domain::event::Setting;
use domain::history::HistoryError;
use domain::state::{Asked, OpenCall};
use domain::{
    Approval, CallId, ConnectionId, Content, Decision, Environment, EventKind, MessageId, Mode, ModelId, Origin, Place,
    QuestionId, StopReason, ThoughtLevel, Trace, TurnId,
};
use tokio::sync::watch;

use super::{Session, stop};
use crate::directory::{Stays, Why};
use crate::mail::{report, tell};
use crate::ports::WhenBusy;
use crate::tail::Tail;

/// A client wants to see the session.
#[derive(Message)]
#[rtype(result = "Result<Attached, Leaving>")]
#[derive(Clone)]
pub(crate) struct Attach {
    /// The client's name.
    pub(crate) name: String,
    pub(crate) from: From,
    pub(crate) environment: Arc<Environment>,
    pub(crate) returning: Option<Return>,
}

/// A bridge that goes on by another connection. What it sent by an earlier one and has not come by now is refused if it
/// comes, so that the bridge may send it again.
#[derive(Clone, Debug)]
pub(crate) struct Return {
    pub(crate) bridge: String,
    pub(crate) connection: ConnectionId,
}

/// The session is being put away; it can be opened again in a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving;

/// Folders beside the working folder that a client named; they have been checked.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Roots(pub(crate) Vec<PathBuf>);

/// Where a client's cursor starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// At the first event: all is replayed.
    Start,
    /// After the last event: nothing is.
    Head,
    /// After a place that the client has seen.
    After(Place),
}

/// The session as it is at the moment of the attach.
pub(crate) struct Attached {
    pub(crate) presence: Presence,
    pub(crate) tail: Arc<Tail>,
    /// The first event for the cursor to yield.
    pub(crate) next: u64,
    /// The last event that had happened.
    pub(crate) head: u64,
    pub(crate) life: u32,
    pub(crate) cwd: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) approval: Approval,
    pub(crate) model: ModelId,
    pub(crate) thought: ThoughtLevel,
    /// Who prompted the running turn and those that wait.
    pub(crate) prompted: Vec<Origin>,
    pub(crate) open_calls: Vec<(CallId, OpenCall)>,
    pub(crate) hidden_calls: Vec<CallId>,
    pub(crate) open_questions: Vec<Asked>,
    /// The commands that the session's servers add.
    pub(crate) served: watch::Receiver<Vec<Command>>,
}

/// A client's being attached. Its drop detaches, whoever holds it by then and for whatever reason it goes.
pub(crate) struct Presence {
    session: WeakAddr<Session>,
    attach: u64,
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            tell(&session, Detach(self.attach));
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Detach(u64);

/// Starts a turn, unless one runs.
#[derive(Message)]
#[rtype(result = "Result<(), Refused>")]
pub(crate) struct Prompt {
    pub(crate) turn: TurnId,
    pub(crate) origin: Origin,
    pub(crate) content: Vec<Content>,
    pub(crate) message: Option<MessageId>,
    /// Who sent it, as far as it helps the tools.
    pub(crate) editor: Option<Arc<dyn Editor>>,
    /// The trace that the client said it is part of.
    pub(crate) trace: Option<Trace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A turn is running, and as many prompts as may wait are waiting.
    Busy,
    /// The session is being put away.
    Leaving,
    /// The bridge that sent it goes on by another connection.
    Superseded,
}

/// Ends the running turn, if there is one, and gives up the prompts that wait.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Cancel;

/// Ends this turn, whether it runs or waits in line.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Withdraw(pub(crate) TurnId);

/// Gives the session another title.
#[derive(Message)]
#[rtype(result = "Recorded")]
pub(crate) struct Rename(pub(crate) String);

/// Tells whoever is attached something.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Tell(pub(crate) String);

/// What has been recorded so far.
#[derive(Message)]
#[rtype(result = "Recorded")]
pub(crate) struct Latest;

/// An event that is appended and on its way to the disk.
pub(crate) struct Recorded {
    tail: Arc<Tail>,
    number: u64,
}

impl Recorded {
    pub(crate) async fn written(&self) -> Result<(), HistoryError> {
        self.tail.until_written(self.number).await
    }
}

/// An answer to a permission question. One that is not open any more is ignored.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answer {
    pub(crate) question: QuestionId,
    pub(crate) decision: Decision,
    /// Who answered, by name.
    pub(crate) by: String,
}

/// The same for a question that the sender does not know: the named one, or the only one that is open. Otherwise the
/// answer is how many are.
#[derive(Message)]
#[rtype(result = "Result<Recorded, usize>")]
pub(crate) struct AnswerOpen {
    pub(crate) question: Option<QuestionId>,
    pub(crate) decision: Decision,
    pub(crate) by: String,
}

/// Changes a setting.
#[derive(Message)]
#[rtype(result = "Configured")]
pub(crate) struct Configure(pub(crate) Setting);

/// All settings as they are then.
pub(crate) struct Configured {
    pub(crate) recorded: Recorded,
    pub(crate) mode: Mode,
    pub(crate) approval: Approval,
    pub(crate) model: ModelId,
    pub(crate) thought: ThoughtLevel,
}

/// What decides about the session's calls.
#[derive(Message)]
#[rtype(result = "PermissionsCard")]
pub(crate) struct DescribePermissions;

/// Everything about the session that fits on a page.
#[derive(Message)]
#[rtype(result = "SessionDetails")]
pub(crate) struct DescribeDetails;

/// Ends what runs, records that all is in order, and dies.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct PutAway(pub(crate) Why);

/// Sends what no receipt has covered to the historian again.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Resubmit;

/// Prompts that may wait in line.
const WAITING: usize = 16;

impl Session {
    fn is_superseded(&self, origin: &Origin) -> bool {
        let current = origin.bridge.as_ref().and_then(|bridge| self.bridges.get(bridge));
        current.is_some_and(|current| *current != origin.connection)
    }

    fn prompted(&self) -> Vec<Origin> {
        let running = self.state.turn.iter().map(|turn| turn.origin.clone());
        running.chain(self.waiting.iter().chain(&self.given_up).map(|prompt| prompt.origin.clone())).collect()
    }

    fn recorded(&self) -> Recorded {
        Recorded { tail: self.ledger.tail.clone(), number: self.state.head.number }
    }

    fn permissions(&self) -> PermissionsCard {
        let remembered = self.state.memory.rules().iter().map(|(grant, allow)| Remembered {
            allow: *allow,
            what: grant.label(),
            grant: grant.clone(),
        });
        PermissionsCard {
            mode: self.state.mode,
            approval: self.state.approval,
            remembered: remembered.collect(),
            rules: self.ports.toolbox.rules(&self.state.cwd),
        }
    }

    /// Goes on with leaving once nothing runs any more.
    pub(super) fn put_away(&mut self, ctx: &mut Context<Self>) {
        let written = self.submit_clean(ctx);
        ctx.spawn(written.into_actor(self).map(|written, this, ctx| {
            if !matches!(written, Ok(Ok(_))) {
                tracing::warn!(parent: &this.span, "put away without a word on the disk; it is repaired when it opens");
            }
            this.ledger.tail.end();
            tracing::info!(parent: &this.span, "put away");
            stop(ctx);
        }));
    }
}

impl Handler<Attach> for Session {
    type Result = Result<Attached, Leaving>;

    fn handle(&mut self, attach: Attach, ctx: &mut Context<Self>) -> Self::Result {
        if self.leaving {
            return Err(Leaving);
        }
        let Attach { name, from, environment, returning } = attach;
        if let Some(Return { bridge, connection }) = returning {
            self.bridges.insert(bridge, connection);
        }
        self.attaches += 1;
        self.clients.insert(self.attaches, name);
        // A client without one, such as `ctl`, leaves it to the next.
        if !environment.is_empty() {
            self.environment.get_or_insert(environment);
        }
        self.publish();
        self.consider_leaving(ctx);
        let head = self.state.head.number;
        let next = match from {
            From::Start => 1,
            From::Head => head + 1,
            From::After(place) => self.state.next_after(place),
        };
        Ok(Attached {
            presence: Presence { session: ctx.address().downgrade(), attach: self.attaches },
            tail: self.ledger.tail.clone(),
            next,
            head,
            life: self.state.head.life,
            cwd: self.state.cwd.clone(),
            mode: self.state.mode,
            approval: self.state.approval,
            model: self.state.model.clone(),
            thought: self.state.thought,
            prompted: self.prompted(),
            open_calls: self.state.calls.iter().map(|(id, open)| (id.clone(), open.clone())).collect(),
            hidden_calls: self.state.hidden_at(next).cloned().collect(),
            open_questions: self.state.questions.clone(),
            served: self.equipment.commands(),
        })
    }
}

impl Handler<Roots> for Session {
    type Result = ();

    fn handle(&mut self, Roots(roots): Roots, _: &mut Context<Self>) {
        self.roots_wanted = Some(roots);
    }
}

impl Handler<Detach> for Session {
    type Result = ();

    fn handle(&mut self, Detach(attach): Detach, ctx: &mut Context<Self>) {
        self.clients.remove(&attach);
        self.publish();
        if self.clients.is_empty() {
            self.announce_waiting();
        }
        self.mind_questions(ctx);
        self.consider_leaving(ctx);
    }
}

impl Handler<Prompt> for Session {
    type Result = Result<(), Refused>;

    fn handle(&mut self, prompt: Prompt, ctx: &mut Context<Self>) -> Self::Result {
        if self.leaving {
            return Err(Refused::Leaving);
        }
        if self.is_superseded(&prompt.origin) {
            return Err(Refused::Superseded);
        }
        match self.ports.settings.when_busy {
            _ if self.turn.is_none() => self.start_turn(prompt, ctx),
            WhenBusy::Queue if self.waiting.len() < WAITING => self.waiting.push_back(prompt),
            WhenBusy::Queue | WhenBusy::Refuse => return Err(Refused::Busy),
        }
        Ok(())
    }
}

impl Handler<Cancel> for Session {
    type Result = ();

    fn handle(&mut self, Cancel: Cancel, ctx: &mut Context<Self>) {
        self.given_up.extend(self.waiting.drain(..));
        self.stop_turn(StopReason::Cancelled, ctx);
    }
}

impl Handler<Withdraw> for Session {
    type Result = ();

    fn handle(&mut self, Withdraw(turn): Withdraw, ctx: &mut Context<Self>) {
        if let Some(at) = self.waiting.iter().position(|prompt| prompt.turn == turn) {
            self.given_up.extend(self.waiting.remove(at));
        } else if self.state.turn.as_ref().is_some_and(|open| open.id == turn) {
            self.stop_turn(StopReason::Cancelled, ctx);
        }
    }
}

impl Handler<Rename> for Session {
    type Result = MessageResult<Rename>;

    fn handle(&mut self, Rename(title): Rename, ctx: &mut Context<Self>) -> Self::Result {
        self.append(EventKind::Titled { title }, ctx);
        self.submit(ctx);
        self.publish();
        self.consider_leaving(ctx);
        MessageResult(self.recorded())
    }
}

impl Handler<Answer> for Session {
    type Result = ();

    fn handle(&mut self, answer: Answer, ctx: &mut Context<Self>) {
        self.settle_question(answer, ctx);
    }
}

impl Handler<AnswerOpen> for Session {
    type Result = Result<Recorded, usize>;

    fn handle(&mut self, answer: AnswerOpen, ctx: &mut Context<Self>) -> Self::Result {
        let AnswerOpen { question, decision, by } = answer;
        let open: Vec<QuestionId> = self
            .state
            .questions
            .iter()
            .map(|open| open.question.id.clone())
            .filter(|id| question.as_ref().is_none_or(|wanted| wanted == id))
            .collect();
        let [question] = open.as_slice() else { return Err(open.len()) };
        self.settle_question(Answer { question: question.clone(), decision, by }, ctx);
        Ok(self.recorded())
    }
}

impl Handler<Tell> for Session {
    type Result = ();

    fn handle(&mut self, Tell(text): Tell, ctx: &mut Context<Self>) {
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
    }
}

impl Handler<Latest> for Session {
    type Result = MessageResult<Latest>;

    fn handle(&mut self, Latest: Latest, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.recorded())
    }
}

impl Handler<Configure> for Session {
    type Result = MessageResult<Configure>;

    fn handle(&mut self, Configure(setting): Configure, ctx: &mut Context<Self>) -> Self::Result {
        let is_of_the_model = matches!(setting, Setting::Model(_) | Setting::ThoughtLevel(_));
        self.append(EventKind::Configured { setting }, ctx);
        if is_of_the_model {
            self.switch_turn();
        }
        self.publish();
        MessageResult(Configured {
            recorded: self.recorded(),
            mode: self.state.mode,
            approval: self.state.approval,
            model: self.state.model.clone(),
            thought: self.state.thought,
        })
    }
}

impl Handler<DescribePermissions> for Session {
    type Result = MessageResult<DescribePermissions>;

    fn handle(&mut self, DescribePermissions: DescribePermissions, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.permissions())
    }
}

impl Handler<DescribeDetails> for Session {
    type Result = MessageResult<DescribeDetails>;

    fn handle(&mut self, DescribeDetails: DescribeDetails, _: &mut Context<Self>) -> Self::Result {
        let roots = std::iter::once(&self.state.cwd).chain(&self.state.extra_roots);
        MessageResult(SessionDetails {
            card: super::describe(&self.state, self.activity(), self.client_names()),
            events: self.state.head.number,
            roots: roots.cloned().collect(),
            permissions: self.permissions(),
            window_used: self.state.window_used,
            environment: self.environment().iter().map(|(name, _)| name.to_owned()).collect(),
            own_environment: self.environment.is_some(),
        })
    }
}

impl Handler<PutAway> for Session {
    type Result = ();

    fn handle(&mut self, PutAway(why): PutAway, ctx: &mut Context<Self>) {
        if why == Why::Idle && self.is_used() && !self.leaving {
            report(&self.stays, Stays(self.id().clone()));
            return;
        }
        if std::mem::replace(&mut self.leaving, true) {
            return;
        }
        if self.turn.is_some() {
            self.given_up.extend(self.waiting.drain(..));
            self.stop_turn(StopReason::Cancelled, ctx);
        } else {
            self.put_away(ctx);
        }
    }
}
