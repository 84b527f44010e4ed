//! Messages about permission questions: answers, and clients that cannot answer.

use actix::{Context, Handler, Message};
use domain::session::{Input, Reply};
use domain::{Decision, QuestionId};

use super::Session;
use super::messages::Recorded;

/// Answers a permission question. The answer is ignored if the question is no longer open.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AnswerQuestion {
    pub(crate) question: QuestionId,
    pub(crate) decision: Decision,
    /// The name of the client that answered.
    pub(crate) by: String,
}

/// Answers a permission question by one of the options that the client was shown.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ChooseOption {
    pub(crate) question: QuestionId,
    pub(crate) option: String,
    /// The name of the client that answered.
    pub(crate) by: String,
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

/// Answers the named question, or the only open one. If the question is ambiguous or missing, the
/// reply is the number of open questions.
#[derive(Message)]
#[rtype(result = "Result<Recorded, usize>")]
pub(crate) struct AnswerOpen {
    pub(crate) question: Option<QuestionId>,
    pub(crate) decision: Decision,
    pub(crate) by: String,
}

impl Handler<AnswerQuestion> for Session {
    type Result = ();

    fn handle(&mut self, AnswerQuestion { question, decision, by }: AnswerQuestion, ctx: &mut Context<Self>) {
        self.deliver(Input::Answer { question, decision, by }, ctx);
    }
}

impl Handler<ChooseOption> for Session {
    type Result = ();

    fn handle(&mut self, ChooseOption { question, option, by }: ChooseOption, ctx: &mut Context<Self>) {
        self.deliver(Input::ChooseOption { question, option, by }, ctx);
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
        let reply = self.deliver(Input::AnswerOpen { question, decision, by }, ctx);
        if let Some(Reply::Answer(Err(open))) = reply { Err(open) } else { Ok(self.recorded()) }
    }
}
