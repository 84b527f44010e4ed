//! Messages about permission questions: answers, and clients that cannot answer.

use actix::{Context, Handler, Message};
use domain::session::{Input, Reply};
use domain::{Decision, QuestionId};

use super::Session;
use super::messages::Recorded;

/// An answer to a permission question. One that is not open any more is ignored.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Answer {
    pub(crate) question: QuestionId,
    pub(crate) decision: Decision,
    /// The name of the client that answered.
    pub(crate) by: String,
}

/// A client answered a question with an error: it cannot ask its user. Others may.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CannotAnswer {
    pub(crate) question: QuestionId,
    /// The number of the client's attach.
    pub(crate) attach: u64,
    pub(crate) why: String,
}

/// An answer to the named question, or to the only one that is open. Otherwise the reply is how many are open.
#[derive(Message)]
#[rtype(result = "Result<Recorded, usize>")]
pub(crate) struct AnswerOpen {
    pub(crate) question: Option<QuestionId>,
    pub(crate) decision: Decision,
    pub(crate) by: String,
}

impl Handler<Answer> for Session {
    type Result = ();

    fn handle(&mut self, Answer { question, decision, by }: Answer, ctx: &mut Context<Self>) {
        self.deliver(Input::Answer { question, decision, by }, ctx);
    }
}

impl Handler<CannotAnswer> for Session {
    type Result = ();

    fn handle(&mut self, CannotAnswer { question, attach, why }: CannotAnswer, ctx: &mut Context<Self>) {
        self.deliver(Input::CannotAnswer { question, attach, why }, ctx);
    }
}

impl Handler<AnswerOpen> for Session {
    type Result = Result<Recorded, usize>;

    fn handle(&mut self, AnswerOpen { question, decision, by }: AnswerOpen, ctx: &mut Context<Self>) -> Self::Result {
        match self.deliver(Input::AnswerOpen { question, decision, by }, ctx) {
            Some(Reply::Answer(Err(open))) => Err(open),
            _ => Ok(self.recorded()),
        }
    }
}
