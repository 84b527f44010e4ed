//! Handles the end of a response: counts its tokens, stores a summary, carries out its calls, asks
//! again if it was cut off at a limit or empty, or ends the turn.

use std::sync::Arc;

use actix::Context;
use domain::conversation::Message;
use domain::session::TurnReport;
use domain::session::effect::Purpose;
use domain::turn::FailureKind;
use domain::{Content, MessageId, StopReason, TurnFailure, Usage};

use super::estimate::Tally;
use super::{Doing, HALVINGS, Turn};

/// How often in one turn the model is asked again for a call that the output limit cut off.
const CUTS: u32 = 2;

/// The reminder to a model that ended its turn with an empty answer.
const SILENCE: &str = "Your answer was empty. Go on with the task, or say what came of it.";

/// The instruction that goes with the last request of a turn.
const LAST_REQUEST: &str = "This is the last request of this turn. Do not call tools any more: say what is done, what is \
    not, and what you would do next.";

/// State about how the responses of a turn have ended.
#[derive(Default)]
pub(super) struct Endings {
    /// Whether this response contains any text.
    pub(super) has_spoken: bool,
    /// The tool whose call was cut off by the output limit of this response.
    pub(super) cut: Option<String>,
    cuts: u32,
    was_silent: bool,
    /// A message to the model that must precede the next request.
    pub(super) owed: Option<String>,
}

impl Endings {
    /// Resets the state for another response.
    pub(super) fn begin(&mut self) {
        self.has_spoken = false;
        self.cut = None;
    }

    fn may_mend_cut(&self) -> bool {
        self.cut.is_some() && self.cuts < CUTS
    }

    fn mend_cut(&mut self) -> String {
        self.cuts += 1;
        let tool = self.cut.take().unwrap_or_default();
        format!(
            "Your call of `{tool}` was cut off at the output limit of your answer, and nothing of it was run. Write in \
             smaller parts."
        )
    }

    fn may_mend_silence(&mut self) -> bool {
        !self.has_spoken && !std::mem::replace(&mut self.was_silent, true)
    }
}

impl Turn {
    /// Discards the response that is being streamed, because it broke off and will be sent again
    /// from its beginning.
    pub(super) fn abandon(&mut self) {
        self.count_if_nobody_has();
        self.tally = Tally { sent: self.tally.sent, ..Tally::default() };
        match &mut self.doing {
            Doing::Summarising { summary, .. } => summary.clear(),
            Doing::Answering { called, begun } => {
                *called = false;
                begun.clear();
                self.waiting.clear();
                self.requested.clear();
                let message = std::mem::replace(&mut self.message, MessageId::new());
                self.say(TurnReport::Abandoned { message });
            }
        }
        self.visible = false;
        self.endings.begin();
    }

    /// The messages of a request, with an instruction added if it is the last request of the turn.
    pub(super) fn with_last_call(&self, mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        let is_answer = matches!(self.doing, Doing::Answering { .. });
        if is_answer && self.requests > 1 && self.requests == self.task.max_requests {
            let content = vec![Content::text(LAST_REQUEST)];
            messages.push(Arc::new(Message::User { id: MessageId::new(), content }));
        }
        messages
    }

    fn take_up_calls(&mut self, ctx: &mut Context<Self>) {
        self.overflowed = false;
        let (message, calls) = (self.message.clone(), std::mem::take(&mut self.requested));
        self.say(TurnReport::Requested { message, calls });
        self.hand_over(ctx);
    }

    pub(super) fn count(&mut self, usage: Usage, estimated: bool) {
        self.task.window_used = usage.total();
        let info = self.task.model.info();
        self.say(TurnReport::Used { usage, window: info.window, price: info.price.clone(), estimated });
    }

    /// Estimates the token count if the server reports none, as many servers do. Without a number
    /// the user could not see the window fill up.
    fn count_if_nobody_has(&mut self) {
        let is_answered = self.tally.received > 0 || !matches!(self.stopped, StopReason::Failed(_));
        if is_answered && !self.tally.is_counted {
            self.count(self.tally.guess(), true);
        }
    }

    /// Handles the final end of the stream.
    pub(super) fn conclude(&mut self, ctx: &mut Context<Self>) {
        self.count_if_nobody_has();
        let overflow = matches!(&self.stopped, StopReason::Failed(failure) if failure.kind == FailureKind::Overflow);
        let may_summarise = overflow && self.may_summarise();
        match (&mut self.doing, &self.stopped) {
            (Doing::Answering { .. }, _) if may_summarise => {
                self.overflowed = true;
                self.summarise(Purpose::Answer, ctx);
            }
            (Doing::Summarising { summary, room, halvings, .. }, _) if overflow && *halvings < HALVINGS => {
                summary.clear();
                *halvings += 1;
                *room /= 2;
                self.ask(ctx);
            }
            (Doing::Answering { called: true, .. }, StopReason::EndTurn) => self.take_up_calls(ctx),
            (Doing::Answering { called, .. }, StopReason::MaxTokens) if self.endings.may_mend_cut() => {
                let (called, text) = (*called, self.endings.mend_cut());
                if called {
                    // The complete calls are carried out first.
                    self.endings.owed = Some(text);
                    self.take_up_calls(ctx);
                } else {
                    self.say(TurnReport::Nudged { text });
                }
            }
            (Doing::Answering { called: false, .. }, StopReason::EndTurn) if self.endings.may_mend_silence() => {
                self.say(TurnReport::Nudged { text: SILENCE.to_owned() });
            }
            (Doing::Summarising { summary, .. }, StopReason::EndTurn | StopReason::MaxTokens)
                if summary.trim().is_empty() =>
            {
                // An empty summary in place of all messages would lose the conversation.
                let message = "the model gave no summary; the conversation is as it was".to_owned();
                let kind = FailureKind::Model;
                self.end(StopReason::Failed(TurnFailure { kind, message, data: serde_json::Value::Null }));
            }
            (Doing::Summarising { summary, kept_from, .. }, StopReason::EndTurn | StopReason::MaxTokens) => {
                let (summary, kept_from) = (std::mem::take(summary), kept_from.take());
                self.say(TurnReport::Summarised { summary, kept_from });
            }
            (Doing::Answering { .. } | Doing::Summarising { .. }, reason) => self.end(reason.clone()),
        }
    }

    fn may_summarise(&self) -> bool {
        !self.visible && !self.overflowed && self.kept_from().is_some()
    }
}
