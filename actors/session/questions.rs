//! Messages about permission questions and inquiries: answers, and clients that cannot answer.

use actix::{Context, Handler, Message};
use domain::session::{AnswerRefused, Input, InputReply};
use domain::{Answer, QuestionId};

use super::Session;
use super::messages::Recorded;

/// Answers a question. The answer is ignored if the question is no longer open.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AnswerQuestion {
    pub(crate) question: QuestionId,
    pub(crate) answer: Answer,
}

/// Reports that a client answered a question with an error because it cannot ask its user. Other
/// clients may still answer.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct CannotAnswer {
    pub(crate) question: QuestionId,
    /// The number of the client's attach.
    pub(crate) attach: u64,
    pub(crate) why: String,
}

/// Answers the named question, or the only open one.
#[derive(Message)]
#[rtype(result = "Result<Recorded, AnswerRefused>")]
pub(crate) struct AnswerOpen {
    pub(crate) question: Option<QuestionId>,
    pub(crate) answer: Answer,
}

impl Handler<AnswerQuestion> for Session {
    type Result = ();

    fn handle(&mut self, AnswerQuestion { question, answer }: AnswerQuestion, ctx: &mut Context<Self>) {
        self.deliver(Input::Answer { question, answer }, ctx);
    }
}

impl Handler<CannotAnswer> for Session {
    type Result = ();

    fn handle(&mut self, CannotAnswer { question, attach, why }: CannotAnswer, ctx: &mut Context<Self>) {
        self.deliver(Input::CannotAnswer { question, attach, why }, ctx);
    }
}

impl Handler<AnswerOpen> for Session {
    type Result = Result<Recorded, AnswerRefused>;

    fn handle(&mut self, AnswerOpen { question, answer }: AnswerOpen, ctx: &mut Context<Self>) -> Self::Result {
        let reply = self.deliver(Input::AnswerOpen { question, answer }, ctx);
        if let Some(InputReply::Answer(Err(refused))) = reply { Err(refused) } else { Ok(self.recorded()) }
    }
}
