//! Sessions that a child agent answers: its reports, its questions, and how its turns end.
//!
//! A turn starts with the same effect as a turn of the native engine. The child runs its tools
//! itself, so there are no executors; its reports are appended as they arrive. A stopped turn ends
//! when the child has ended its prompt, and the actor ends a child that does not do so in time.

use super::activity::{Activity, RunningTurn};
use super::effect::Effect;
use super::machine::SessionMachine;
use crate::conversation::Message;
use crate::hosted::{AgentFailure, AgentReport, HostedEvent};
use crate::permission::AgentOption;
use crate::tool::OutcomeKind;
use crate::{
    Answer, CallId, Choice, Decision, EventKind, Question, QuestionId, Selection, StopReason, TurnId, Usage, Verdict,
};

/// The maximum number of open calls of a child. Reports about further calls are not recorded.
const OPEN_CALLS: usize = 1000;

/// The maximum number of bytes that are recorded of a child's work between two prompts.
const UNPROMPTED: usize = 4 << 20;

/// How far the prompt of a running turn has got on its way to a child. A prompt that the first
/// child cannot have seen is sent once more, to a second child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentTurn {
    /// The message of the prompt is not synced yet, so no child has been sent the prompt.
    Unsent,
    Sent,
    SentToSecond,
}

/// A question of a child, and the verdict of the configured rules on its subject.
pub struct AgentQuestion {
    pub id: QuestionId,
    pub call: CallId,
    pub options: Vec<AgentOption>,
    pub rule: Option<Verdict>,
}

impl SessionMachine {
    pub(super) fn is_hosted(&self) -> bool {
        self.state.settings.hosted.is_some()
    }

    /// How far the running prompt has got.
    fn agent_turn(&self) -> Option<AgentTurn> {
        self.activity.running().and_then(|running| running.agent)
    }

    /// Whether there is a prompt that a child works on, or will.
    fn is_prompted(&self) -> bool {
        self.agent_turn().is_some()
    }

    /// Whether a child works on a prompt.
    fn has_sent_prompt(&self) -> bool {
        matches!(self.agent_turn(), Some(AgentTurn::Sent | AgentTurn::SentToSecond))
    }

    /// Sends the prompt to the child once its message is synced, unless its turn was stopped
    /// meanwhile.
    pub(super) fn note_prompt_synced(&mut self, turn: &TurnId) {
        if self.is_running_turn(turn) && self.agent_turn() == Some(AgentTurn::Unsent) {
            self.send_prompt(AgentTurn::Sent);
        }
    }

    fn send_prompt(&mut self, sent: AgentTurn) {
        if let Some(running) = self.activity.running_mut() {
            running.agent = Some(sent);
        }
        let prompt = self.state.conversation.messages().iter().rev().find_map(|message| match message.as_ref() {
            Message::User { content, .. } => Some(content.clone()),
            Message::Assistant { .. } | Message::Results { .. } => None,
        });
        self.effect(Effect::PromptAgent(prompt.unwrap_or_default()));
    }

    pub(super) fn handle_agent_report(&mut self, report: AgentReport) {
        if !self.is_hosted() || matches!(self.activity, Activity::Closing) {
            return;
        }
        if let Some(weight) = report.work_weight()
            && !self.admit_work(&report, weight)
        {
            return;
        }
        match report {
            AgentReport::Opened { session, offer, fresh } => {
                if fresh && self.has_earlier_turns() {
                    self.notice(LOST_SESSION.to_owned());
                }
                self.append_hosted(HostedEvent::Opened { session, offer });
                self.publish();
            }
            AgentReport::Text { message, text } => {
                self.append(EventKind::AgentText { message, text });
            }
            AgentReport::Thought { message, text } => {
                self.append(EventKind::AgentThought { message, text });
            }
            AgentReport::Called { call, message, first, fields } => {
                let has_status = fields.status.is_some();
                self.append_hosted(HostedEvent::Called { call, message, first, fields });
                if has_status {
                    self.publish();
                }
            }
            AgentReport::Planned { message, entries } => {
                self.append(EventKind::Planned { call: CallId::new(), message, entries });
            }
            AgentReport::Offered(part) => {
                self.append_hosted(HostedEvent::Offered { part });
                self.publish();
            }
            AgentReport::Titled(title) => {
                self.append(EventKind::Titled { title });
                self.publish();
            }
            AgentReport::Usage { window_used, window, cost } => {
                let usage = Usage::default();
                self.append(EventKind::Used { usage, window_used, window, cost, estimated: false });
            }
            AgentReport::Relayed { update, version } => self.append_hosted(HostedEvent::Relayed { update, version }),
            // The actor compares the call with the rules and delivers the question as a separate
            // input.
            AgentReport::Asked { .. } => {}
            AgentReport::Withdrew(question) => self.withdraw_agent_question(question),
            AgentReport::Waits(waits) => self.note_agent_wait(waits),
            AgentReport::Notice(text) => self.notice_of_agent(text),
            AgentReport::Ended { reason, usage } => {
                if self.has_sent_prompt() {
                    self.end_agent_turn(reason, usage);
                }
            }
            AgentReport::Gone(failure) => self.lose_agent(failure),
        }
    }

    fn append_hosted(&mut self, hosted: HostedEvent) {
        self.append(EventKind::Hosted { event: hosted });
    }

    /// Whether this piece of the child's work is recorded. Work without a prompt is marked as such
    /// and bounded.
    fn admit_work(&mut self, report: &AgentReport, weight: usize) -> bool {
        if let AgentReport::Called { call, .. } = report
            && self.state.open.calls.len() >= OPEN_CALLS
            && !self.state.open.calls.contains_key(call)
        {
            return false;
        }
        if self.is_prompted() {
            self.unprompted = 0;
            return true;
        }
        if self.evicting {
            return false;
        }
        let before = self.unprompted;
        self.unprompted = before.saturating_add(weight.max(100));
        if before > UNPROMPTED {
            return false;
        }
        if self.unprompted > UNPROMPTED {
            self.notice_passing("The agent worked without a prompt for too long; the rest is not shown.".to_owned());
            return false;
        }
        if self.state.settings.hosted.as_ref().is_some_and(|hosted| !hosted.unprompted) {
            self.append_hosted(HostedEvent::Unprompted);
        }
        true
    }

    /// Shows a notice of the child to the attached clients. Without any, the notice stays in the
    /// conversation for the next one.
    fn notice_of_agent(&mut self, text: String) {
        match self.has_clients() {
            true => self.notice_passing(text),
            false => self.notice(text),
        }
    }

    /// Records that the child waits for the user, or continues.
    fn note_agent_wait(&mut self, waits: bool) {
        let Some(turn) = self.state.open.turn.as_ref().filter(|_| self.is_prompted()) else { return };
        match (waits, turn.paused) {
            (true, None) => self.append_hosted(HostedEvent::Paused),
            (false, Some(_)) => self.append_hosted(HostedEvent::Resumed),
            (true, Some(_)) | (false, None) => return,
        }
        self.publish();
    }

    /// Whether there was a prompt before the running one.
    fn has_earlier_turns(&self) -> bool {
        self.state.messages > u64::from(self.state.open.turn.is_some())
    }

    /// Asks the user the child's question, unless a rule forbids its subject.
    pub(super) fn ask_for_agent(&mut self, asked: AgentQuestion) {
        let AgentQuestion { id, call, options, rule } = asked;
        let question = Question { id: id.clone(), call, always: None, options, inquiry: None };
        if !matches!(self.activity, Activity::Turn(_)) || !self.has_sent_prompt() {
            // The turn was stopped meanwhile, or the child has no prompt.
            return self.effect(Effect::AnswerAgent { question: id, option: None });
        }
        if rule == Some(Verdict::Deny) {
            let title = self.state.open.calls.get(&question.call).map_or("", |open| open.card.title.as_str());
            self.notice_passing(format!("A rule of the configuration forbids this call of the agent: {title}"));
            let option = question.option_for(None, Choice::RejectOnce).map(|option| option.id.clone());
            return self.effect(Effect::AnswerAgent { question: id, option });
        }
        self.append(EventKind::PermissionAsked { question });
        self.publish();
        self.notify_waiting();
        self.apply_unattended_policy();
    }

    /// Records the answer to a child's question and passes it on: the option that the client names,
    /// unchanged, or the child's own option of the kind that `ctl` or acpd decides for. An option
    /// that the child does not offer is a rejection, even if its name is that of a kind.
    pub(super) fn settle_agent_question(&mut self, question: &Question, answer: Answer) {
        let id = question.id.clone();
        let named = match &answer.selection {
            Selection::Option(option) => question.option_for(Some(option), Choice::RejectOnce),
            Selection::Decided(_) => None,
        };
        let decision = match (named, &answer.selection) {
            (Some(option), _) => Decision::Chose(option.kind),
            (None, Selection::Decided(decision)) => *decision,
            (None, Selection::Option(_)) => Decision::Chose(Choice::RejectOnce),
        };
        let chosen = match decision {
            Decision::Chose(choice) => {
                let is_listed = |id: &str| question.options.iter().any(|option| option.id == id);
                let listed = is_listed(choice.id()).then_some(choice.id());
                named.or_else(|| question.option_for(listed, choice)).map(|option| option.id.clone())
            }
            Decision::Cancelled | Decision::Unanswered | Decision::Dismissed => None,
        };
        self.record_agent_answer(question, decision, answer.bounded_words(), answer.by);
        if decision == Decision::Cancelled {
            // The child gets the same answer with the cancellation.
            return self.stop_turn(StopReason::Cancelled);
        }
        self.effect(Effect::AnswerAgent { question: id, option: chosen });
        self.publish();
    }

    fn record_agent_answer(&mut self, question: &Question, decision: Decision, words: Option<String>, by: String) {
        let (question, call) = (question.id.clone(), question.call.clone());
        self.append(EventKind::PermissionAnswered { question, call, decision, by, words });
    }

    fn withdraw_agent_question(&mut self, id: QuestionId) {
        let Some(open) = self.state.open.questions.iter().find(|open| open.question.id == id) else { return };
        let question = open.question.clone();
        let by = self.state.settings.hosted.as_ref().map(|hosted| hosted.agent.clone()).unwrap_or_default();
        self.record_agent_answer(&question, Decision::Unanswered, None, by);
        self.publish();
    }

    /// Handles the end of the child's prompt.
    fn end_agent_turn(&mut self, reason: StopReason, usage: Option<Usage>) {
        let Some(running) = self.activity.running_mut() else { return };
        if running.agent.take().is_none() {
            return;
        }
        running.agent_usage = usage.unwrap_or_default();
        self.close_agent_questions();
        match &self.activity {
            Activity::Turn(RunningTurn { id, .. }) => {
                self.effect(Effect::NotifyHooks { turn: id.clone(), reason: reason.clone() });
                self.end_turn(reason);
            }
            Activity::Stopping(..) => self.end_if_stopped(),
            Activity::Idle
            | Activity::Expanding(_)
            | Activity::SlashCommand(_)
            | Activity::Restoring(_)
            | Activity::Waiting(_)
            | Activity::Suspending(_)
            | Activity::Closing => {}
        }
    }

    /// Closes the questions of a child whose prompt has ended, because it needs no answers any
    /// more.
    fn close_agent_questions(&mut self) {
        let open: Vec<Question> = self.state.open.questions.iter().map(|open| open.question.clone()).collect();
        for question in open {
            self.record_agent_answer(&question, Decision::Unanswered, None, "acpd".to_owned());
        }
    }

    /// Handles the loss of the child. The next prompt starts another one, and so does a prompt that
    /// the lost child cannot have seen, once.
    fn lose_agent(&mut self, failure: AgentFailure) {
        self.effect(Effect::DropAgentLink);
        let Some(agent_turn) = self.agent_turn() else { return self.end_left_calls() };
        if !matches!(self.activity, Activity::Turn(_)) {
            return self.end_agent_turn(StopReason::Cancelled, None);
        }
        match agent_turn {
            AgentTurn::Unsent => self.note_agent_wait(false),
            AgentTurn::Sent if failure.prompt_unseen => {
                self.close_agent_questions();
                self.note_agent_wait(false);
                self.send_prompt(AgentTurn::SentToSecond);
                self.publish();
            }
            AgentTurn::Sent | AgentTurn::SentToSecond => {
                self.end_agent_turn(StopReason::Failed(failure.of_turn()), None);
            }
        }
    }

    /// Ends the calls that the child left open outside a turn, because the child is gone or about
    /// to be.
    pub(super) fn end_left_calls(&mut self) {
        if !self.is_hosted() || self.state.open.turn.is_some() {
            return;
        }
        for kind in self.state.open.closing(OutcomeKind::Interrupted, StopReason::Interrupted) {
            self.append(kind);
        }
    }

    /// Whether a turn that ends for this reason cuts off its open calls. Otherwise the child has
    /// left them open.
    pub(super) fn cuts_calls_off(&self, reason: &StopReason) -> bool {
        match reason {
            StopReason::Cancelled | StopReason::Interrupted | StopReason::Failed(_) => true,
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests | StopReason::Refusal => {
                !self.is_hosted()
            }
        }
    }

    /// The kind of outcome of calls that are cut off.
    pub(super) fn cut_off(reason: &StopReason) -> OutcomeKind {
        match reason {
            StopReason::Cancelled => OutcomeKind::Cancelled,
            StopReason::EndTurn
            | StopReason::MaxTokens
            | StopReason::MaxTurnRequests
            | StopReason::Refusal
            | StopReason::Interrupted
            | StopReason::Failed(_) => OutcomeKind::Interrupted,
        }
    }
}

const LOST_SESSION: &str = "The agent does not have its part of this session any more. It goes on in a new one, with a \
                            summary of what was said before.";
