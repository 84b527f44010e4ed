//! Permission questions and inquiries: how they are answered or rejected, and what happens while no
//! client is attached.

use std::time::Duration;

use super::activity::Activity;
use super::clients::AttachedClient;
use super::effect::{AnswerRefused, Effect, InputReply};
use super::machine::SessionMachine;
use super::policy::UnattendedPolicy;
use crate::event::Setting;
use crate::inquiry::{Inquiry, InquiryAnswer};
use crate::tool::NotificationKind;
use crate::{
    Answer, CallId, Choice, Decision, EventKind, Mode, Outcome, Question, QuestionId, Selection, StopReason, escape,
};

/// The maximum number of characters that are reported of the reason why a client cannot answer.
const REASON_CHARS: usize = 200;

/// The name that is recorded for the answer when no client is attached and the configuration
/// denies.
const NO_CLIENT: &str = "acpd, because no client is attached";

impl SessionMachine {
    pub(super) fn settle_question(&mut self, id: QuestionId, answer: Answer) {
        if self.is_suspending() {
            // The question is asked again when the session is reopened.
            return;
        }
        let Some(question) = self.open_question(&id).cloned() else { return };
        if self.is_hosted() {
            return self.settle_agent_question(&question, answer);
        }
        let words = answer.bounded_words();
        let is_ours = answer.by == NO_CLIENT;
        let reply = question.inquiry.as_ref().map(|inquiry| match is_ours {
            true => InquiryAnswer::Unanswered("no client is attached".to_owned()),
            false => inquiry.read(&answer.selection, words.as_deref()),
        });
        let decision = match (&answer.selection, &reply) {
            (Selection::Decided(Decision::Cancelled), _) => Decision::Cancelled,
            (_, Some(reply)) => reply.decision(),
            (Selection::Decided(decision), None) => question.admit(*decision),
            // An option that acpd does not offer is a rejection.
            (Selection::Option(id), None) => {
                question.admit(Decision::Chose(Choice::from_id(id).unwrap_or(Choice::RejectOnce)))
            }
        };
        let call = question.call.clone();
        let (by, recorded) = (answer.by, words.clone());
        self.append(EventKind::PermissionAnswered { question: id, call: call.clone(), decision, by, words: recorded });
        if decision == Decision::Cancelled {
            self.stop_turn(StopReason::Cancelled);
            return self.publish();
        }
        self.revive_turn(&call);
        let (is_chosen, allowed) = match decision {
            Decision::Chose(choice) => (true, choice.allows()),
            Decision::Cancelled | Decision::Unanswered | Decision::Dismissed => (false, false),
        };
        match (question.inquiry, reply) {
            (Some(inquiry), Some(reply)) => self.settle_inquiry(call, &inquiry, &reply, words.as_deref()),
            _ if self.is_about_budget(&call) => self.settle_budget(call, allowed),
            _ if allowed => self.allow_call(call),
            _ if is_ours || !is_chosen => self.end_call(call, Outcome::denied()),
            _ => self.end_call(call, Outcome::declined(words.as_deref())),
        }
        self.publish();
    }

    /// Settles an inquiry: the answer is the outcome of its call. An approved plan also changes the
    /// mode.
    fn settle_inquiry(&mut self, call: CallId, inquiry: &Inquiry, answer: &InquiryAnswer, words: Option<&str>) {
        // The user may have left the mode `plan` while the proposal was open, and that choice
        // stands.
        if let InquiryAnswer::Chose(choice) = answer
            && let Some(mode) = inquiry.mode_after(choice)
            && self.state.settings.mode == Mode::Plan
        {
            self.append(EventKind::Configured { setting: Setting::Mode(mode), automatic: false });
        }
        self.end_call(call, inquiry.outcome(answer, words, self.state.settings.mode));
    }

    /// Settles the named question or the only one that is open, and replies whether that was
    /// possible.
    pub(super) fn answer_open(&mut self, question: Option<&QuestionId>, answer: Answer) {
        let reply = self.settle_open(question, answer);
        self.reply(InputReply::Answer(reply));
    }

    /// Settles the named question or the only one that is open. The answer must be one that the
    /// question offers.
    fn settle_open(&mut self, question: Option<&QuestionId>, answer: Answer) -> Result<(), AnswerRefused> {
        let open: Vec<QuestionId> = self
            .open_questions()
            .into_iter()
            .filter(|id| question.is_none_or(|wanted| wanted == id))
            .filter(|_| !self.is_suspending())
            .collect();
        let [question] = open.as_slice() else { return Err(AnswerRefused::Ambiguous(open.len())) };
        if self.open_question(question).is_some_and(|open| !open.accepts(&answer)) {
            return Err(AnswerRefused::NoSuchOption);
        }
        self.settle_question(question.clone(), answer);
        Ok(())
    }

    fn open_question(&self, id: &QuestionId) -> Option<&Question> {
        self.state.open.questions.iter().map(|open| &open.question).find(|question| question.id == *id)
    }

    fn open_questions(&self) -> Vec<QuestionId> {
        self.state.open.questions.iter().map(|asked| asked.question.id.clone()).collect()
    }

    pub(super) fn note_unable(&mut self, question: QuestionId, attach: u64, why: &str) {
        if let Some(client) = self.clients.attached.get_mut(&attach) {
            let why = escape::line(why).chars().take(REASON_CHARS).collect();
            client.unable.insert(question, why);
        }
        self.reject_unanswerable();
    }

    /// Rejects the questions that none of the attached clients can answer, and reports why.
    pub(super) fn reject_unanswerable(&mut self) {
        if self.evicting {
            return;
        }
        for question in self.open_questions() {
            let unable: Option<Vec<String>> = self
                .clients
                .attached
                .values()
                .map(|AttachedClient { name, unable, .. }| Some(format!("{name} ({})", unable.get(&question)?)))
                .collect();
            let Some(mut unable) = unable.filter(|unable| !unable.is_empty()) else { continue };
            unable.sort();
            let reason = format!("no attached client can answer permission questions: {}", unable.join(", "));
            self.reject_question(question, &reason);
        }
    }

    /// Rejects a question for a reason that the user and the model see.
    fn reject_question(&mut self, question: QuestionId, reason: &str) {
        let Some(open) = self.open_question(&question).cloned() else { return };
        let call = open.call;
        self.notice_passing(format!("Rejected, because {reason}."));
        let decision = Decision::Chose(Choice::RejectOnce);
        if self.is_hosted() {
            return self.settle_question(question, Answer::decided(decision, "acpd"));
        }
        let by = "acpd".to_owned();
        self.append(EventKind::PermissionAnswered { question, call: call.clone(), decision, by, words: None });
        self.revive_turn(&call);
        if self.is_about_budget(&call) {
            self.settle_budget(call, false);
        } else if let Some(inquiry) = open.inquiry {
            self.settle_inquiry(call, &inquiry, &InquiryAnswer::Unanswered(reason.to_owned()), None);
        } else {
            self.end_call(call, Outcome::denied_because(&format!("{reason}.")));
        }
        self.publish();
    }

    /// Handles open questions while no client is attached: they wait, or are denied at once or
    /// after a timeout, as configured.
    pub(super) fn apply_unattended_policy(&mut self) {
        if self.evicting || self.has_clients() || self.state.open.questions.is_empty() {
            return;
        }
        match self.policy.unattended {
            UnattendedPolicy::Wait => {}
            UnattendedPolicy::Deny => self.deny_questions(),
            UnattendedPolicy::DenyAfter(delay) => self.effect(Effect::ArmDenyTimer(delay)),
        }
    }

    /// Does the same as `apply_unattended_policy` for questions restored from the log. Their
    /// clients get this much time to reconnect.
    pub(super) fn apply_unattended_policy_after(&mut self, grace: Duration) {
        match self.policy.unattended {
            UnattendedPolicy::Wait => {}
            UnattendedPolicy::Deny => self.effect(Effect::ArmDenyTimer(grace)),
            UnattendedPolicy::DenyAfter(delay) => self.effect(Effect::ArmDenyTimer(delay.max(grace))),
        }
    }

    pub(super) fn deny_questions(&mut self) {
        for question in self.open_questions() {
            let decision = Decision::Chose(Choice::RejectOnce);
            self.settle_question(question, Answer::decided(decision, NO_CLIENT));
        }
    }

    /// Notifies the user of an open question, because they may not be watching.
    pub(super) fn notify_waiting(&mut self) {
        let Some(asked) = self.state.open.questions.last() else { return };
        let about =
            self.state.open.calls.get(&asked.question.call).map_or("", |open| open.card.title.as_str()).to_owned();
        self.notify(NotificationKind::Waiting, about);
    }

    /// Whether the session is closing with its questions open. Answers that arrive meanwhile must
    /// not be recorded, because nothing would act on them.
    pub(super) fn is_suspending(&self) -> bool {
        match &self.activity {
            Activity::Suspending(_) => true,
            Activity::Closing => self.state.open.turn.is_some(),
            Activity::Idle
            | Activity::Expanding(_)
            | Activity::SlashCommand(_)
            | Activity::Turn(_)
            | Activity::Restoring(_)
            | Activity::Waiting(_)
            | Activity::Stopping(..) => false,
        }
    }
}
