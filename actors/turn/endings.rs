//! Handles the end of a response: counts its tokens, stores a summary, carries out its calls, asks
//! again if it was cut off at a limit or empty, or ends the turn.

use std::sync::Arc;

use actix::Context;
use domain::conversation::Message;
use domain::session::TurnReport;
use domain::session::effect::Purpose;
use domain::turn::FailureKind;
use domain::{Content, MessageId, StopReason, TurnFailure, Usage};
use serde_json::json;

use super::{BudgetEnd, MAX_SUMMARY_RETRIES, Phase, SummaryForm, Turn, estimate};

/// How often in one turn the model is asked again for a call that the output limit cut off.
const CUTS: u32 = 2;

/// The reminder to a model that ended its turn with an empty answer.
const SILENCE: &str = "Your answer was empty. Go on with the task, or say what came of it.";

/// The reminder to a model whose thoughts took up the whole answer.
const ONLY_THOUGHTS: &str = "Your answer reached its output limit before you said anything. Think less, and go on with \
    the task in smaller steps.";

/// The instruction that goes with the last request of a turn.
const LAST_REQUEST: &str = "This is the last request of this turn. Do not call tools any more: say what is done, what is \
    not, and what you would do next.";

/// The instruction that goes with the request before it, while tools can still be called.
const NEXT_IS_LAST: &str = "One more request is left in this turn after this one. Bring the work to a state that can be \
    left. Then report without calling tools: say what is done, what is not, and what you would do next.";

/// The answer to calls that a model makes in place of its report.
const REPORT_NOW: &str = "This call was not run: the budget is used up. Write your report now, without calling tools: say \
    what you found and did, what is missing, and what should be done next.";

/// State about how the responses of a turn have ended.
#[derive(Default)]
pub(super) struct Endings {
    /// Whether this response contains any text.
    pub(super) has_spoken: bool,
    /// The tool whose call was cut off by the output limit of this response.
    pub(super) cut: Option<String>,
    cuts: u32,
    was_silent: bool,
    /// The tokens of all requests so far, sent and received.
    spent: u64,
    /// Whether the budget allows no request after the current one.
    pub(super) is_last: bool,
    extra_request: ExtraRequest,
    /// What happens once the calls of this response have their outcomes.
    pub(super) after_calls: AfterCalls,
}

/// The one request beyond the budget that a turn gets if its model makes calls in place of its
/// report.
#[derive(Default)]
enum ExtraRequest {
    #[default]
    Unused,
    Granted,
    Used,
}

/// What happens when all calls of a response have their outcomes.
#[derive(Default)]
pub(super) enum AfterCalls {
    #[default]
    AskModel,
    /// The model first receives this message.
    Remind(String),
    /// The turn ends, because its answers were cut off too often.
    End,
}

impl Endings {
    /// Resets the state for another response.
    pub(super) fn begin(&mut self) {
        self.has_spoken = false;
        self.cut = None;
    }

    /// Grants the extra request, unless the turn has had it.
    fn grant_extra_request(&mut self) {
        self.extra_request = match self.extra_request {
            ExtraRequest::Unused => ExtraRequest::Granted,
            ExtraRequest::Granted | ExtraRequest::Used => ExtraRequest::Used,
        };
    }

    /// Uses the extra request, if it is granted.
    pub(super) fn use_extra_request(&mut self) -> bool {
        let is_granted = matches!(self.extra_request, ExtraRequest::Granted);
        if is_granted {
            self.extra_request = ExtraRequest::Used;
        }
        is_granted
    }

    fn may_report_cut(&self) -> bool {
        self.cut.is_some() && self.cuts < CUTS
    }

    fn report_cut(&mut self) -> String {
        self.cuts += 1;
        let tool = self.cut.take().unwrap_or_default();
        format!(
            "Your call of `{tool}` was cut off at the output limit of your answer, and nothing of it was run. Write in \
             smaller parts."
        )
    }

    /// Whether to remind the model that its answer was empty, which happens once per turn. A call
    /// that was cut off is not silence.
    fn may_report_silence(&mut self) -> bool {
        !self.has_spoken && self.cut.is_none() && !std::mem::replace(&mut self.was_silent, true)
    }

    /// Returns what to tell a model whose response without calls was cut off or empty, if it should
    /// continue.
    fn remind(&mut self, stopped: &StopReason) -> Option<String> {
        match stopped {
            StopReason::MaxTokens if self.may_report_cut() => Some(self.report_cut()),
            StopReason::MaxTokens => self.may_report_silence().then(|| ONLY_THOUGHTS.to_owned()),
            StopReason::EndTurn => self.may_report_silence().then(|| SILENCE.to_owned()),
            StopReason::MaxTurnRequests
            | StopReason::Refusal
            | StopReason::Cancelled
            | StopReason::Interrupted
            | StopReason::Failed(_) => None,
        }
    }
}

impl Turn {
    /// Discards the response that is being streamed, because it broke off and will be sent again
    /// from its beginning.
    pub(super) fn abandon(&mut self) {
        self.estimate_if_uncounted();
        self.estimate = self.estimate.again();
        let message = std::mem::replace(&mut self.message, MessageId::new());
        match &mut self.phase {
            Phase::Summarising { .. } => self.begin_summary(),
            Phase::Answering { called, begun } => {
                *called = false;
                begun.clear();
                self.calls.abandon();
                self.report(TurnReport::Abandoned { message });
            }
        }
        self.visible = false;
        self.endings.begin();
    }

    /// Reports that a summary begins, if the response is one.
    pub(super) fn begin_summary(&mut self) {
        if let Phase::Summarising { summary, shown, .. } = &mut self.phase {
            summary.clear();
            *shown = 0;
            self.report(TurnReport::Summarising { message: self.message.clone(), text: String::new() });
        }
    }

    /// Reports what has been added to the summary, if that is at least `least` bytes.
    pub(super) fn show_summary(&mut self, least: usize) {
        if let Phase::Summarising { summary, shown, .. } = &mut self.phase
            && summary.len() >= *shown + least
        {
            let text = summary[*shown..].to_owned();
            *shown = summary.len();
            self.report(TurnReport::Summarising { message: self.message.clone(), text });
        }
    }

    /// The messages of a request, with an instruction added if it is the last request of the turn
    /// or the one before it.
    pub(super) fn with_ending_instruction(&self, mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        let is_answer = matches!(self.phase, Phase::Answering { .. });
        let next_is_last = self.requests.saturating_add(1) == self.task.budget.requests;
        // A turn that has only begun has nothing to report.
        let has_begun = self.requests > 1 || self.must_report();
        let last = (self.endings.is_last && has_begun).then_some(LAST_REQUEST);
        let instruction = last.or((!self.endings.is_last && next_is_last).then_some(NEXT_IS_LAST));
        if let Some(text) = instruction.filter(|_| is_answer) {
            let content = vec![Content::text(text)];
            messages.push(Arc::new(Message::User { id: MessageId::new(), content }));
        }
        messages
    }

    /// Notes whether the budget of the turn allows another request after this one.
    pub(super) fn note_last_request(&mut self) {
        let has_spent_all = self.task.budget.tokens > 0 && self.endings.spent >= self.task.budget.tokens;
        self.endings.is_last = self.requests >= self.task.budget.requests || has_spent_all;
    }

    /// Whether the response must be the final report.
    pub(super) fn must_report(&self) -> bool {
        let is_answer = matches!(self.phase, Phase::Answering { .. });
        is_answer && self.endings.is_last && self.task.budget.at_end == BudgetEnd::ForceReport
    }

    fn report_calls(&mut self, ctx: &mut Context<Self>) {
        self.overflowed = false;
        if self.must_report() {
            self.calls.refuse_waiting(REPORT_NOW);
            self.endings.grant_extra_request();
        }
        let (message, calls) = (self.message.clone(), self.calls.take_requested());
        self.report(TurnReport::Requested { message, calls });
        self.start_next_calls(ctx);
    }

    pub(super) fn count(&mut self, usage: Usage, estimated: bool) {
        self.task.window_used = usage.total();
        self.endings.spent = self.endings.spent.saturating_add(usage.total());
        let info = self.task.model.info();
        self.report(TurnReport::Usage { usage, window: info.window, price: info.price.clone(), estimated });
    }

    /// Estimates the token count if the server reports none, as many servers do. Without a number
    /// the user could not see the window fill up.
    fn estimate_if_uncounted(&mut self) {
        let is_answered = self.estimate.received > 0 || !matches!(self.stopped, StopReason::Failed(_));
        if is_answered && !self.estimate.is_counted {
            self.count(self.estimate.guess(), true);
        }
    }

    /// Handles the end of the stream: summarises, asks again, carries out the calls, or ends the
    /// turn.
    pub(super) fn conclude(&mut self, ctx: &mut Context<Self>) {
        self.estimate_if_uncounted();
        self.show_summary(1);
        let overflow = matches!(&self.stopped, StopReason::Failed(failure) if failure.kind == FailureKind::Overflow);
        let may_summarise = overflow && self.may_summarise();
        if let Phase::Answering { called: false, .. } = self.phase
            && let Some(text) = self.endings.remind(&self.stopped)
        {
            return self.report(TurnReport::Reminder { text });
        }
        match (&mut self.phase, &self.stopped) {
            (Phase::Answering { .. }, _) if may_summarise => {
                self.overflowed = true;
                let kept_from = self.least_kept_from();
                let form = self.transcript_form(kept_from.as_ref());
                self.summarise(Purpose::Answer, kept_from, form, ctx);
            }
            (Phase::Summarising { form: SummaryForm::Conversation, .. }, _) if overflow => {
                self.summarise_transcript(ctx)
            }
            (Phase::Summarising { form: SummaryForm::Transcript { room, halvings }, .. }, _)
                if overflow && *halvings < MAX_SUMMARY_RETRIES =>
            {
                *halvings += 1;
                *room /= 2;
                self.ask(ctx);
            }
            (Phase::Answering { called: true, .. }, StopReason::EndTurn) => self.report_calls(ctx),
            (Phase::Answering { called: true, .. }, StopReason::MaxTokens) => {
                // The complete calls are carried out, whatever was cut off after them.
                self.endings.after_calls = match (&self.endings.cut, self.endings.may_report_cut()) {
                    (None, _) => AfterCalls::AskModel,
                    (Some(_), true) => AfterCalls::Remind(self.endings.report_cut()),
                    (Some(_), false) => AfterCalls::End,
                };
                self.report_calls(ctx);
            }
            (Phase::Summarising { summary, form: SummaryForm::Conversation, .. }, StopReason::EndTurn)
                if summary.trim().is_empty() =>
            {
                // Some models continue with the task instead, and call a tool.
                self.summarise_transcript(ctx);
            }
            (Phase::Summarising { summary, .. }, StopReason::EndTurn | StopReason::MaxTokens)
                if summary.trim().is_empty() =>
            {
                // An empty summary in place of all messages would lose the conversation.
                let message = "the model gave no summary; the conversation is as it was".to_owned();
                let kind = FailureKind::Model;
                self.end(StopReason::Failed(TurnFailure { kind, message, data: serde_json::Value::Null }));
            }
            (Phase::Summarising { summary, kept_from, form, .. }, StopReason::EndTurn | StopReason::MaxTokens) => {
                let (summary, kept_from) = (std::mem::take(summary), kept_from.take());
                let most = form.most_of_user();
                let (message, kept_of_user) = (self.message.clone(), self.threshold().kept_of_user().min(most));
                self.report(TurnReport::Summarised { message, summary, kept_from, kept_of_user });
            }
            (Phase::Answering { .. } | Phase::Summarising { .. }, reason) => self.end(self.with_sizes(reason.clone())),
        }
    }

    /// Adds to an overflow that ends the turn what fills the window. Compacting is no advice here:
    /// it was tried, or there is nothing to compact.
    fn with_sizes(&self, mut reason: StopReason) -> StopReason {
        if let StopReason::Failed(failure) = &mut reason
            && failure.kind == FailureKind::Overflow
            && let Some(data) = failure.data.as_object_mut()
        {
            let own = estimate::tokens(self.system.len()) + estimate::conversation(&[], &self.task.tools, 0);
            let said = estimate::conversation(self.task.conversation.messages(), &[], self.window());
            let about = |tokens: u64| tokens.next_multiple_of(100);
            let advice = format!(
                "choose a model with a larger window, or load this one with a larger window: acpd's instructions and \
                 tools take about {} tokens, and the conversation about {}",
                about(own),
                about(said)
            );
            data.insert("advice".to_owned(), json!(advice));
        }
        reason
    }

    /// Asks for the summary again, with the conversation as one text.
    fn summarise_transcript(&mut self, ctx: &mut Context<Self>) {
        let Phase::Summarising { then, kept_from, .. } = &mut self.phase else { return };
        let (then, kept_from) = (*then, kept_from.take());
        let form = self.transcript_form(kept_from.as_ref());
        self.summarise(then, kept_from, form, ctx);
    }

    fn may_summarise(&self) -> bool {
        !self.visible && !self.overflowed && self.least_kept_from().is_some()
    }
}
