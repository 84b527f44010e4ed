//! Explores interleavings of a session that a child agent answers: the child's reports, questions
//! and failures, between all other inputs of a session.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::moves::{Move, policies};
use super::{Input, Simulation};
use crate::hosted::{AgentFailure, AgentReport, CallFields, Offer};
use crate::permission::AgentOption;
use crate::session::effect::Effect;
use crate::session::{Activity, AgentLimits, AgentQuestion, BusyPolicy, SessionPolicy, UnattendedPolicy};
use crate::{Answer, CallId, Choice, EventKind, QuestionId, Selection, StopReason, TurnId, Verdict};

/// The state of the child, according to the effects so far.
#[derive(Default)]
pub(super) struct Child {
    /// Turns whose prompts are not synced yet. A turn that was stopped meanwhile is among them.
    unsynced: VecDeque<TurnId>,
    /// How often the prompt of the last turn was sent.
    times_sent: u32,
    /// Whether it works on a prompt.
    is_prompted: bool,
    /// Whether it was asked to end its prompt.
    is_cancelled: bool,
    /// Its unanswered questions.
    questions: BTreeSet<QuestionId>,
    /// Whether a client is answering with an option that the child does not offer.
    is_misread: bool,
}

impl Child {
    /// Notes the start of a turn, whose prompt has to be synced before it may be sent.
    pub(super) fn await_sync(&mut self, turn: TurnId) {
        self.unsynced.push_back(turn);
        self.times_sent = 0;
    }

    /// Ends the child's prompt and its questions. Returns whether it had a prompt.
    fn end(&mut self) -> bool {
        self.is_cancelled = false;
        self.questions.clear();
        std::mem::take(&mut self.is_prompted)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Session(Move),
    Opens,
    /// It speaks, with or without a prompt.
    Says,
    Calls,
    CallEnds,
    Asks,
    /// It asks about something that a rule forbids.
    AsksInVain,
    Withdraws,
    /// It asks the user to fill in a form.
    ShowsForm,
    /// The last of its forms is closed.
    FormCloses,
    /// A client answers with one of its options.
    Choose,
    /// A client answers with an option that it does not offer.
    ChooseOther,
    Ends,
    Dies,
    /// It dies, and cannot have seen its prompt.
    DiesUnaware,
    /// The message of a prompt is synced.
    Synced,
}

fn steps() -> impl Strategy<Value = Step> {
    use Step::*;
    let often =
        vec![Session(Move::Prompt), Session(Move::Expanded), Synced, Says, Asks, Choose, Ends, Session(Move::Reopen)];
    let all =
        vec![Opens, Calls, CallEnds, AsksInVain, Withdraws, ShowsForm, FormCloses, ChooseOther, Dies, DiesUnaware];
    let session = vec![
        Move::Steer,
        Move::Cancel,
        Move::WithdrawLast,
        Move::Allow,
        Move::Deny,
        Move::AnswerCancelled,
        Move::Attach,
        Move::Detach,
        Move::CannotAnswer,
        Move::DenyTimer,
        Move::IdleTimer,
        Move::EvictIdle,
        Move::Close,
        Move::Delete,
        Move::Drain,
        Move::WriteFails,
        Move::Crash,
        Move::SteeringExpanded,
    ];
    prop_oneof![
        2 => prop::sample::select(often),
        1 => prop::sample::select(all),
        1 => prop::sample::select(session).prop_map(Session),
    ]
}

impl Simulation {
    pub(super) fn carry_out_hosted(&mut self, effect: Effect) {
        let child = &mut self.around.child;
        match effect {
            Effect::PromptAgent(_) => {
                let running = self.machine.activity().running().expect("a prompt is sent without a turn");
                assert!(!child.unsynced.contains(&running.id), "a prompt is sent before it is synced");
                assert!(!std::mem::replace(&mut child.is_prompted, true), "a prompt is sent twice to a child");
                child.times_sent += 1;
                assert!(child.times_sent <= 2, "a prompt is sent to a third child");
            }
            Effect::CancelAgent => {
                assert!(child.is_prompted, "a child is cancelled that has no prompt");
                assert!(!std::mem::replace(&mut child.is_cancelled, true), "a child is cancelled twice");
                // With the cancellation it gets an answer to everything that it asked.
                child.questions.clear();
            }
            Effect::AnswerAgent { question, option } => {
                assert!(!child.is_misread || option.as_deref() == Some("no"), "an unknown option is no rejection");
                assert!(child.questions.remove(&question), "a question is answered twice, or was never asked");
            }
            Effect::DropAgentLink => drop(child.end()),
            effect => self.carry_out_for_agents(effect),
        }
    }

    fn report(&mut self, report: AgentReport) {
        let before = self.log.len();
        let is_closing = self.work.closing;
        self.deliver(Input::Agent(report));
        assert!(!is_closing || self.log.len() == before, "a closing session records what its child does");
    }

    fn ask(&mut self, rule: Option<Verdict>) {
        let (id, call) = (QuestionId::new(), CallId::new());
        self.report_call(call.clone());
        self.around.child.questions.insert(id.clone());
        let option = |id: &str, kind| AgentOption { id: id.to_owned(), name: id.to_owned(), kind };
        let options = vec![option("yes", Choice::AllowOnce), option("no", Choice::RejectOnce)];
        self.deliver(Input::AgentAsked(AgentQuestion { id, call, options, rule }));
    }

    /// A client answers the first open question with this option.
    fn choose(&mut self, option: &str) {
        if let Some(asked) = self.machine.state().open.questions.first() {
            let question = asked.question.id.clone();
            let answer =
                Answer { selection: Selection::Option(option.to_owned()), words: None, by: "client".to_owned() };
            self.around.child.is_misread = option != "yes";
            self.deliver(Input::Answer { question, answer });
            self.around.child.is_misread = false;
        }
    }

    fn report_call(&mut self, call: CallId) {
        let fields = CallFields::default();
        self.report(AgentReport::Called { call, message: "m".into(), first: true, fields });
    }

    /// Ends the child's prompt, and with it the child's questions.
    fn end_prompt(&mut self) {
        if self.around.child.end() {
            self.report(AgentReport::Ended { reason: StopReason::EndTurn, usage: None });
            self.check_nothing_asked();
        }
    }

    /// Ends the child. A running prompt that it cannot have seen is sent to one other child.
    fn lose_child(&mut self, prompt_unseen: bool) {
        let is_closing = self.work.closing;
        let running = match self.machine.activity() {
            Activity::Turn(running) => Some(running.id.clone()),
            _ => None,
        };
        let child = &mut self.around.child;
        let is_unsent = running.as_ref().is_some_and(|turn| child.unsynced.contains(turn));
        let is_repeated = child.end() && running.is_some() && prompt_unseen && child.times_sent == 1;
        self.report(AgentReport::Gone(AgentFailure { prompt_unseen, ..AgentFailure::broken("gone") }));
        if is_closing {
            return;
        }
        assert_eq!(self.around.child.is_prompted, is_repeated, "whether another child gets the prompt");
        let goes_on = running.is_some_and(|turn| self.machine.is_running_turn(&turn));
        assert_eq!(goes_on, is_unsent || is_repeated, "whether the turn outlives the child");
        self.check_nothing_asked();
    }

    fn check_nothing_asked(&self) {
        let paused = self.folded.open.turn.as_ref().is_some_and(|turn| turn.paused.is_some());
        assert!(!paused, "a form outlives its prompt");
        assert!(self.folded.open.questions.is_empty(), "a question outlives its prompt");
    }

    fn apply_hosted(&mut self, step: Step) {
        match step {
            Step::Session(step) => self.apply(step),
            Step::Opens => {
                self.report(AgentReport::Opened { session: "c".to_owned(), offer: Offer::default(), fresh: false });
            }
            Step::Says => self.report(AgentReport::Text { message: "m".into(), text: "x".to_owned() }),
            Step::Calls => self.report_call(CallId::new()),
            Step::CallEnds => {
                if let Some(call) = self.machine.state().open.calls.keys().next().cloned() {
                    let fields =
                        CallFields { status: Some(crate::hosted::CallStatus::Completed), ..CallFields::default() };
                    self.report(AgentReport::Called { call, message: "m".into(), first: false, fields });
                }
            }
            Step::Asks => self.ask(None),
            Step::AsksInVain => self.ask(Some(Verdict::Deny)),
            Step::Withdraws => {
                if let Some(question) = self.around.child.questions.pop_first() {
                    self.report(AgentReport::Withdrew(question));
                }
            }
            Step::ShowsForm => self.report(AgentReport::Waits(true)),
            Step::FormCloses => self.report(AgentReport::Waits(false)),
            Step::Choose => self.choose("yes"),
            Step::ChooseOther => self.choose("allow_once"),
            Step::Ends => self.end_prompt(),
            Step::Dies => self.lose_child(false),
            Step::DiesUnaware => self.lose_child(true),
            Step::Synced => {
                if let Some(turn) = self.around.child.unsynced.pop_front() {
                    let is_running = self.machine.is_running_turn(&turn);
                    self.deliver(Input::AgentPromptSynced(turn));
                    assert_eq!(self.around.child.times_sent > 0, is_running, "whether a synced prompt is sent");
                }
            }
        }
        let open = self.machine.state().open.questions.iter().map(|asked| &asked.question.id);
        let unknown: Vec<&QuestionId> = open.filter(|id| !self.around.child.questions.contains(*id)).collect();
        assert!(unknown.is_empty() || self.work.closing, "a question is open that the child does not have");
    }

    /// Lets the child and everything else end. Then the session must be idle.
    fn settle_hosted(&mut self) {
        for _ in 0..60 {
            self.apply_hosted(Step::Session(Move::Expanded));
            self.apply_hosted(Step::Session(Move::SteeringExpanded));
            self.apply_hosted(Step::Synced);
            self.apply_hosted(Step::Choose);
            self.apply_hosted(Step::Ends);
            self.apply_hosted(Step::Session(Move::Reopen));
        }
        let activity = self.machine.activity();
        assert!(activity.is_idle(), "the session does not come to rest: {activity:?}");
        assert!(self.unanswered.is_empty(), "prompts got no answer: {:?}", self.unanswered);
    }
}

#[test]
fn a_notice_of_a_child_stays_in_the_log_if_no_client_sees_it() {
    let policy = SessionPolicy {
        agents: AgentLimits::default(),
        spending: crate::budget::SpendingLimits::default(),
        when_busy: BusyPolicy::Queue,
        unattended: UnattendedPolicy::Wait,
        idle_after: Duration::from_secs(600),
    };
    let mut simulation = Simulation::new(policy, Some("child"));
    simulation.report(AgentReport::Notice("unseen".to_owned()));
    simulation.apply(Move::Attach);
    simulation.report(AgentReport::Notice("seen".to_owned()));
    let notices: Vec<(&str, bool)> = simulation
        .log
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Noticed { text, passing, .. } => Some((text.as_str(), *passing)),
            _ => None,
        })
        .collect();
    assert_eq!(notices, [("unseen", false), ("seen", true)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hosted_session_answers_everything_once_in_every_interleaving(
        policy in policies(),
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let mut simulation = Simulation::new(policy, Some("child"));
        for step in steps {
            simulation.apply_hosted(step);
        }
        simulation.settle_hosted();
    }
}
