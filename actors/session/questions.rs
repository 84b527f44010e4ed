//! Permission questions of a session: who answers them, who cannot, and what becomes of those that nobody answers.

use std::time::Duration;

use actix::{AsyncContext, Context, Handler, Message};
use domain::{Choice, Decision, EventKind, MessageId, Outcome, QuestionId, StopReason, visible};

use super::messages::Recorded;
use super::{Client, Session};
use crate::ports::Unattended;

/// The longest reason of a client that cannot answer, as it is reported.
const REASON_CHARS: usize = 200;

/// An answer to a permission question. One that is not open any more is ignored.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answer {
    pub(crate) question: QuestionId,
    pub(crate) decision: Decision,
    /// Who answered, by name.
    pub(crate) by: String,
}

/// A client has answered a question by an error: it cannot ask anybody. Others may.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CannotAnswer {
    pub(crate) question: QuestionId,
    /// Whose, by its presence.
    pub(crate) attach: u64,
    pub(crate) why: String,
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

impl Session {
    pub(super) fn settle_question(&mut self, answer: Answer, ctx: &mut Context<Self>) {
        let Answer { question, decision, by } = answer;
        if self.is_suspending() {
            // The question is asked again when the session comes back.
            return;
        }
        let Some(open) = self.state.questions.iter().find(|open| open.question.id == question) else { return };
        let call = open.question.call.clone();
        self.append(EventKind::PermissionAnswered { question, call: call.clone(), decision, by }, ctx);
        if decision == Decision::Cancelled {
            self.stop_turn(StopReason::Cancelled, ctx);
        } else {
            self.revive_turn(&call, ctx);
        }
        match decision {
            Decision::Chose(choice) if choice.allows() => self.allow_call(call, ctx),
            Decision::Chose(_) | Decision::Unanswered => self.deny_call(call, ctx),
            Decision::Cancelled => {}
        }
        self.publish();
    }

    /// Rejects the questions that clients are attached for and none of them can answer, and says why.
    pub(super) fn reject_unanswerable(&mut self, ctx: &mut Context<Self>) {
        if self.leaving {
            return;
        }
        let open: Vec<QuestionId> = self.state.questions.iter().map(|asked| asked.question.id.clone()).collect();
        for question in open {
            let unable: Option<Vec<String>> = self
                .clients
                .values()
                .map(|Client { name, unable, .. }| Some(format!("{name} ({})", unable.get(&question)?)))
                .collect();
            let Some(mut unable) = unable.filter(|unable| !unable.is_empty()) else { continue };
            unable.sort();
            let reason = format!("no attached client can answer permission questions: {}", unable.join(", "));
            self.reject_question(question, &reason, ctx);
        }
    }

    /// Rejects a question for a reason that the person and the model are told.
    fn reject_question(&mut self, question: QuestionId, reason: &str, ctx: &mut Context<Self>) {
        let Some(open) = self.state.questions.iter().find(|open| open.question.id == question) else { return };
        let call = open.question.call.clone();
        let text = format!("Rejected, because {reason}.");
        self.append(EventKind::Noticed { message: MessageId::new(), text, passing: true }, ctx);
        let decision = Decision::Chose(Choice::RejectOnce);
        self.append(
            EventKind::PermissionAnswered { question, call: call.clone(), decision, by: "acpd".to_owned() },
            ctx,
        );
        self.revive_turn(&call, ctx);
        self.end_call(call, Outcome::denied_because(&format!("{reason}.")), ctx);
        self.publish();
    }

    /// With nobody attached, questions wait, are denied, or are denied after a while, as configured.
    pub(super) fn mind_questions(&mut self, ctx: &mut Context<Self>) {
        if self.leaving || !self.clients.is_empty() || self.state.questions.is_empty() {
            return;
        }
        match self.ports.settings.unattended {
            Unattended::Wait => {}
            Unattended::Deny => self.deny_questions(ctx),
            Unattended::DenyAfter(patience) => self.deny_questions_after(patience, ctx),
        }
    }

    /// Denies what is open by then if nobody comes. The time runs from when the last client left, or from the last question.
    pub(super) fn deny_questions_after(&mut self, patience: Duration, ctx: &mut Context<Self>) {
        self.attend(ctx);
        self.denying = Some(ctx.run_later(patience, |this, ctx| {
            this.denying = None;
            this.deny_questions(ctx);
        }));
    }

    /// Somebody is there again, or no question is left.
    pub(super) fn attend(&mut self, ctx: &mut Context<Self>) {
        if let Some(denying) = self.denying.take() {
            ctx.cancel_future(denying);
        }
    }

    fn deny_questions(&mut self, ctx: &mut Context<Self>) {
        let asked: Vec<QuestionId> = self.state.questions.iter().map(|open| open.question.id.clone()).collect();
        for question in asked {
            let decision = Decision::Chose(Choice::RejectOnce);
            self.settle_question(Answer { question, decision, by: "acpd, with nobody attached".to_owned() }, ctx);
        }
    }
}

impl Handler<Answer> for Session {
    type Result = ();

    fn handle(&mut self, answer: Answer, ctx: &mut Context<Self>) {
        self.settle_question(answer, ctx);
    }
}

impl Handler<CannotAnswer> for Session {
    type Result = ();

    fn handle(&mut self, CannotAnswer { question, attach, why }: CannotAnswer, ctx: &mut Context<Self>) {
        if let Some(client) = self.clients.get_mut(&attach) {
            let why = visible::line(&why).chars().take(REASON_CHARS).collect();
            client.unable.insert(question, why);
        }
        self.reject_unanswerable(ctx);
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
            .filter(|_| !self.is_suspending())
            .collect();
        let [question] = open.as_slice() else { return Err(open.len()) };
        self.settle_question(Answer { question: question.clone(), decision, by }, ctx);
        Ok(self.recorded())
    }
}
