//! Permission questions: who answers them, who cannot, and what becomes of those that stay unanswered.

use std::time::Duration;

use super::activity::Activity;
use super::clients::AttachedClient;
use super::effect::Effect;
use super::machine::SessionMachine;
use super::policy::Unattended;
use crate::tool::NotificationKind;
use crate::{Choice, Decision, EventKind, Outcome, QuestionId, StopReason, visible};

/// The longest reason of a client that cannot answer, as it is reported.
const REASON_CHARS: usize = 200;

/// Who answers when no client is attached and the configuration denies.
const NOBODY: &str = "acpd, because no client is attached";

impl SessionMachine {
    pub(super) fn settle_question(&mut self, question: QuestionId, decision: Decision, by: String) {
        if self.is_suspending() {
            // The question is asked again when the session comes back.
            return;
        }
        let Some(open) = self.state.open.questions.iter().find(|open| open.question.id == question) else { return };
        if self.is_hosted() {
            let question = open.question.clone();
            return self.settle_agent_question(&question, decision, by);
        }
        let decision = open.question.admit(decision);
        let call = open.question.call.clone();
        let is_ours = by == NOBODY;
        self.append(EventKind::PermissionAnswered { question, call: call.clone(), decision, by });
        match decision {
            Decision::Cancelled => self.stop_turn(StopReason::Cancelled),
            Decision::Chose(_) | Decision::Unanswered if self.is_about_budget(&call) => {
                self.revive_turn(&call);
                let allowed = matches!(decision, Decision::Chose(choice) if choice.allows());
                self.settle_budget(call, allowed);
            }
            Decision::Chose(choice) if choice.allows() => {
                self.revive_turn(&call);
                self.allow_call(call);
            }
            Decision::Chose(_) => {
                self.revive_turn(&call);
                let outcome = if is_ours { Outcome::denied() } else { Outcome::declined() };
                self.end_call(call, outcome);
            }
            Decision::Unanswered => {
                self.revive_turn(&call);
                self.end_call(call, Outcome::denied());
            }
        }
        self.publish();
    }

    /// Settles the named question or the only one that is open; otherwise returns how many are.
    pub(super) fn settle_open(
        &mut self,
        question: Option<&QuestionId>,
        decision: Decision,
        by: String,
    ) -> Result<(), usize> {
        let open: Vec<QuestionId> = self
            .open_questions()
            .into_iter()
            .filter(|id| question.is_none_or(|wanted| wanted == id))
            .filter(|_| !self.is_suspending())
            .collect();
        let [question] = open.as_slice() else { return Err(open.len()) };
        self.settle_question(question.clone(), decision, by);
        Ok(())
    }

    fn open_questions(&self) -> Vec<QuestionId> {
        self.state.open.questions.iter().map(|asked| asked.question.id.clone()).collect()
    }

    pub(super) fn note_unable(&mut self, question: QuestionId, attach: u64, why: &str) {
        if let Some(client) = self.clients.attached.get_mut(&attach) {
            let why = visible::line(why).chars().take(REASON_CHARS).collect();
            client.unable.insert(question, why);
        }
        self.reject_unanswerable();
    }

    /// Rejects the questions that none of the attached clients can answer, and says why.
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

    /// Rejects a question for a reason that the person and the model see.
    fn reject_question(&mut self, question: QuestionId, reason: &str) {
        let Some(open) = self.state.open.questions.iter().find(|open| open.question.id == question) else { return };
        let call = open.question.call.clone();
        self.notice_passing(format!("Rejected, because {reason}."));
        let decision = Decision::Chose(Choice::RejectOnce);
        if self.is_hosted() {
            return self.settle_question(question, decision, "acpd".to_owned());
        }
        self.append(EventKind::PermissionAnswered { question, call: call.clone(), decision, by: "acpd".to_owned() });
        self.revive_turn(&call);
        if self.is_about_budget(&call) {
            self.settle_budget(call, false);
        } else {
            self.end_call(call, Outcome::denied_because(&format!("{reason}.")));
        }
        self.publish();
    }

    /// With no client attached, questions wait, are denied, or are denied after a while, as configured.
    pub(super) fn mind_questions(&mut self) {
        if self.evicting || self.has_clients() || self.state.open.questions.is_empty() {
            return;
        }
        match self.policy.unattended {
            Unattended::Wait => {}
            Unattended::Deny => self.deny_questions(),
            Unattended::DenyAfter(patience) => self.effect(Effect::ArmDenyTimer(patience)),
        }
    }

    /// The same for questions that have just come back from the log, whose clients are coming back, too.
    pub(super) fn mind_questions_after(&mut self, grace: Duration) {
        match self.policy.unattended {
            Unattended::Wait => {}
            Unattended::Deny => self.effect(Effect::ArmDenyTimer(grace)),
            Unattended::DenyAfter(patience) => self.effect(Effect::ArmDenyTimer(patience.max(grace))),
        }
    }

    pub(super) fn deny_questions(&mut self) {
        for question in self.open_questions() {
            let decision = Decision::Chose(Choice::RejectOnce);
            self.settle_question(question, decision, NOBODY.to_owned());
        }
    }

    /// A question is open, and the person may not be looking.
    pub(super) fn notify_waiting(&mut self) {
        let Some(asked) = self.state.open.questions.last() else { return };
        let about =
            self.state.open.calls.get(&asked.question.call).map_or("", |open| open.card.title.as_str()).to_owned();
        self.notify(NotificationKind::Waiting, about);
    }

    /// Whether the session closes with its questions open. Answers that arrive meanwhile must not be recorded, because
    /// nothing would act on them.
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
