//! Explores interleavings of inputs. The world below plays everything around a session: clients,
//! the backend of a turn, executors, hooks, the toolbox, the disk and crashes. It relies on the
//! effects, not on the machine's own state, and after each step it checks the invariants of
//! docs/architecture.md.

mod calls;
mod hosted;
mod invariants;
mod moves;
mod sub_agents;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use self::calls::{called, planned};
use self::moves::{Move, moves, policies};
use self::surroundings::Surroundings;

use super::effect::{Effect, InputReply, Purpose, UndoReply};
use super::input::{CallReport, Input, NewClient, Prompt, SessionStart, TurnReport};
use super::{Activity, BusyPolicy, EvictionReason, Requester, SessionMachine, SessionPolicy};
use crate::checkpoint::RestoreDirection;
use crate::history::SessionMeta;
use crate::mcp::PreparedPrompt;
use crate::tool::ToolRequest;
use crate::{
    Access, Answer, Approval, CallId, Choice, Content, Decision, Event, EventKind, Millis, Mode, ModelId, Outcome,
    PromptOrigin, SessionState, StopReason, ToolContent, TurnFailure, TurnId,
};

#[derive(Default)]
struct Executor {
    planned: bool,
    running: bool,
}

/// What runs outside the machine, according to the effects so far.
#[derive(Default)]
struct Work {
    expanding: bool,
    /// Steering prompts that are being expanded.
    steering: VecDeque<TurnId>,
    backend: Option<TurnId>,
    /// Whether the backend summarises the conversation and answers no prompt.
    compacting: bool,
    calls: BTreeMap<CallId, Executor>,
    /// Calls of the last response that wait for the running ones.
    queued: VecDeque<(CallId, ToolRequest)>,
    hooks: Option<TurnId>,
    restoring: bool,
    /// Whether a built-in slash command runs.
    slash_command: bool,
    closing: bool,
    /// Whether the idle timer is armed, or the Directory has been asked to evict.
    may_evict: bool,
    /// Whether the daemon stops while a question is open, which therefore stays open in the log.
    suspended: bool,
}

struct Simulation {
    machine: SessionMachine,
    policy: SessionPolicy,
    log: Vec<Arc<Event>>,
    /// The state folded from the log, independently of the machine.
    folded: SessionState,
    work: Work,
    around: Surroundings,
    /// The summary that is stored beside the log.
    stored: Option<SessionMeta>,
    attached: Vec<u64>,
    prompts: u32,
    /// Accepted prompts that are not answered yet. Each is answered once.
    unanswered: BTreeSet<TurnId>,
    last_turn: Option<TurnId>,
    old_turn: Option<TurnId>,
    /// A call whose executor is gone.
    old_call: Option<CallId>,
}

impl Simulation {
    fn new(policy: SessionPolicy, agent: Option<&str>) -> Self {
        let created = EventKind::Created {
            cwd: "/w".into(),
            extra_roots: Vec::new(),
            mode: Mode::default(),
            approval: Approval::default(),
            model: ModelId::from("m"),
            agent: agent.map(str::to_owned),
        };
        let start = SessionStart::Created { event: Box::new(created), real_cwd: "/real".into() };
        let machine = SessionMachine::new(SessionState::new("s".into()), &start, policy);
        let mut simulation = Self {
            machine,
            policy,
            log: Vec::new(),
            folded: SessionState::new("s".into()),
            work: Work::default(),
            around: Surroundings::default(),
            stored: None,
            attached: Vec::new(),
            prompts: 0,
            unanswered: BTreeSet::new(),
            last_turn: None,
            old_turn: None,
            old_call: None,
        };
        simulation.deliver(Input::Opened(start));
        simulation
    }

    /// Reopens the session from what is stored: its log and its summary.
    fn reopen(&mut self, clean: bool) {
        let stored = SessionMeta { clean, ..self.stored.clone().expect("a session has stored its first event") };
        let read = |log: &[Arc<Event>]| {
            let mut state = SessionState::new("s".into());
            log.iter().for_each(|event| state.apply(event));
            state.adopt_stored(&stored);
            state
        };
        if let [log @ .., _] = self.log.as_slice() {
            let start = SessionStart::from_log(&read(log), &stored);
            assert!(matches!(start, SessionStart::Repaired), "a log that lacks its last event is in good order");
        }
        let state = read(&self.log);
        let start = SessionStart::from_log(&state, &stored);
        assert_eq!(matches!(start, SessionStart::Continued), clean, "whether the log is in good order");
        self.around = Surroundings::default();
        self.around.roots_of_turn.clone_from(&state.folders.extra_roots);
        self.machine = SessionMachine::new(state, &start, self.policy);
        self.work = Work::default();
        self.attached.clear();
        // Prompts that are in no log are gone; their clients see that the daemon is gone, too.
        let open = self.folded.open.turn.clone();
        self.unanswered.retain(|prompt| open.as_ref().is_some_and(|turn| turn.has_prompt(prompt)));
        self.deliver(Input::Opened(start));
        assert!(self.work.backend.is_none() && self.work.calls.is_empty(), "nothing starts before an answer");
    }

    fn deliver(&mut self, input: Input) -> Option<InputReply> {
        let mut reply = None;
        for effect in self.machine.step(input, Millis(1)) {
            match effect {
                Effect::Reply(given) => reply = Some(given),
                effect => self.carry_out(effect),
            }
        }
        self.check();
        reply
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Append(event) => self.append(event),
            Effect::ExpandPrompt(_) => {
                self.assert_free("a prompt starts");
                self.check_start();
                self.work.expanding = true;
            }
            Effect::ExpandSteering(message) => self.work.steering.push_back(message.turn),
            Effect::AbortExpansion => self.work.expanding = false,
            Effect::StartTurn(start) => {
                self.work.expanding = false;
                self.assert_free("a turn starts");
                self.last_turn = Some(start.turn.clone());
                self.around.child.await_sync(start.turn.clone());
                self.work.backend = Some(start.turn);
                self.work.compacting = start.purpose == Purpose::Compact;
                self.work.queued = start.unfinished.map(|unfinished| unfinished.queued).unwrap_or_default().into();
            }
            Effect::DropTurn => {
                self.work.backend = None;
                self.work.queued.clear();
                self.drop_agents();
            }
            Effect::PlanCall(plan) => {
                assert!(self.work.backend.is_some(), "a call is planned without a turn");
                self.work.calls.insert(plan.call, Executor::default());
            }
            Effect::RunCall { call, after } => self.run_call(&call, after),
            // The executor of a cancelled call reports its end later, as a move.
            Effect::CancelCall(_) => {}
            Effect::DropCall(call) => {
                self.work.calls.remove(&call);
                self.forget_agent_call(&call);
                self.old_call = Some(call);
            }
            Effect::RunHooks { turn, .. } => {
                assert_eq!(self.work.backend.as_ref(), Some(&turn), "hooks are asked about another turn");
                self.work.hooks = Some(turn);
            }
            Effect::AbortHooks => self.work.hooks = None,
            Effect::Restore { .. } => {
                self.assert_free("files are put back");
                self.work.restoring = true;
            }
            Effect::Close => {
                self.assert_free("the session closes");
                self.work.closing = true;
                self.stored = Some(self.machine.state().meta(true));
                self.check_closed();
            }
            Effect::ArmIdleTimer(_) => {
                self.assert_free("the idle timer starts");
                assert!(self.attached.is_empty(), "the idle timer starts beside a client");
                self.work.may_evict = true;
            }
            Effect::DisarmIdleTimer => self.work.may_evict = false,
            Effect::RequestEviction => {
                self.assert_free("an eviction is requested");
                assert!(self.attached.is_empty(), "an eviction is requested beside a client");
            }
            Effect::RunSlashCommand(_) => {
                self.work.expanding = false;
                self.assert_free("a slash command runs");
                self.work.slash_command = true;
            }
            effect => self.carry_out_around(effect),
        }
    }

    fn prompt(&mut self, text: &str, when_busy: Option<BusyPolicy>) {
        self.prompts += 1;
        let was_busy = !self.machine.activity().is_idle();
        let was_evicting = self.around.evicting;
        let prompt = self.new_prompt(text, when_busy, origin());
        let id = prompt.turn.clone();
        // It may be answered before the reply is read.
        self.unanswered.insert(id.clone());
        let reply = self.deliver(Input::Prompt { prompt, backlog_full: false });
        let Some(InputReply::Prompt(taken)) = reply else { panic!("a prompt is replied to") };
        if was_busy && when_busy.unwrap_or(self.policy.when_busy) == BusyPolicy::Refuse {
            assert!(taken.is_err(), "a prompt is refused while the session is busy");
        }
        assert!(taken.is_err() || !was_evicting, "a prompt is taken while the session is evicted");
        if taken.is_err() {
            assert!(self.unanswered.remove(&id), "a refused prompt is answered by a turn");
        }
    }

    fn new_prompt(&self, text: &str, when_busy: Option<BusyPolicy>, origin: PromptOrigin) -> Prompt {
        Prompt {
            turn: TurnId::from(format!("t{}", self.prompts).as_str()),
            origin,
            content: vec![Content::text(text)],
            message: None,
            editor: None,
            trace: None,
            when_busy,
            needs_turn: false,
            dropped_if_cancelled: self.prompts.is_multiple_of(2),
        }
    }

    fn turn(&mut self, report: TurnReport) {
        let may_report = !self.is_silent() || matches!(report, TurnReport::Died);
        if let Some(turn) = self.work.backend.clone().filter(|_| may_report) {
            self.deliver(Input::Turn { turn, report });
        }
    }

    /// Whether the backend waits for calls or hooks. It may still die.
    fn is_silent(&self) -> bool {
        self.work.hooks.is_some() || !self.work.calls.is_empty() || !self.work.queued.is_empty()
    }

    fn answer(&mut self, decision: Decision) {
        if let Some(asked) = self.machine.state().open.questions.first() {
            let question = asked.question.id.clone();
            self.deliver(Input::Answer { question, answer: Answer::decided(decision, "client") });
        }
    }

    fn evict(&mut self, reason: EvictionReason) {
        let was_evicting = std::mem::replace(&mut self.around.evicting, true);
        let is_used = !self.attached.is_empty() || !self.machine.activity().is_idle();
        let is_refused = reason == EvictionReason::Idle && is_used && !was_evicting;
        self.work.suspended |= reason == EvictionReason::Drain && self.folded.is_waiting() && !was_evicting;
        let before = self.log.len();
        self.deliver(Input::Evict { reason, in_background: false });
        assert_eq!(self.around.evicting, !is_refused, "whether the session is evicted");
        assert!(!was_evicting || self.log.len() == before, "a second eviction changes the first one");
    }

    fn apply(&mut self, step: Move) {
        if self.work.closing && !matches!(step, Move::Reopen | Move::Crash) {
            // Mail that is still on its way: it must not change the log.
            let before = self.log.len();
            self.answer(Decision::Chose(Choice::AllowOnce));
            self.deliver(Input::Cancel(requester()));
            self.attach(None);
            self.correct_model();
            self.deliver(Input::DenyTimerFired);
            self.end_slash_command();
            assert_eq!(self.deliver(Input::Undo(RestoreDirection::Undo)), Some(InputReply::Undo(UndoReply::Busy)));
            assert_eq!(self.log.len(), before, "a closing session records something");
            return;
        }
        match step {
            Move::Prompt => self.prompt("hello", None),
            Move::Steer => self.prompt("not so", Some(BusyPolicy::Steer)),
            Move::SlashUndo => self.prompt("/undo", None),
            Move::SlashCompact => self.prompt("/compact", Some(BusyPolicy::Steer)),
            Move::SlashHelp => self.prompt("/help", None),
            Move::CtlUndo => drop(self.deliver(Input::Undo(RestoreDirection::Undo))),
            Move::Cancel => drop(self.deliver(Input::Cancel(requester()))),
            Move::WithdrawLast => {
                let turn = TurnId::from(format!("t{}", self.prompts).as_str());
                let is_open = self.unanswered.contains(&turn);
                let before = self.log.len();
                self.deliver(Input::Withdraw(turn));
                assert!(is_open || self.log.len() == before, "a prompt that is not open is withdrawn");
            }
            Move::Allow => self.answer(Decision::Chose(Choice::AllowOnce)),
            Move::Deny => self.answer(Decision::Chose(Choice::RejectOnce)),
            Move::AnswerCancelled => self.answer(Decision::Cancelled),
            Move::Attach => self.attach(None),
            Move::BridgeReturns => self.return_bridge(),
            Move::LatePrompt => self.prompt_late(),
            Move::AttachWithEnvironment => self.attach(Some(Arc::default())),
            Move::Detach => {
                if let Some(attach) = self.attached.pop() {
                    self.deliver(Input::ClientDetached { attach });
                }
            }
            Move::CannotAnswer => self.fail_to_answer(),
            Move::DenyTimer => drop(self.deliver(Input::DenyTimerFired)),
            Move::IdleTimer => drop(self.deliver(Input::IdleTimerFired { in_background: false })),
            Move::EvictIdle => self.evict(EvictionReason::Idle),
            Move::Close => self.evict(EvictionReason::Closed(requester())),
            Move::Delete => self.evict(EvictionReason::Deleted(requester())),
            Move::Drain => self.evict(EvictionReason::Drain),
            Move::WriteFails => self.fail_write(),
            Move::Crash => self.reopen(false),
            Move::Reopen => {
                if self.work.closing {
                    self.reopen(true);
                }
            }
            step => self.apply_work(step),
        }
    }

    /// Applies the moves of everything that works for the session.
    fn apply_work(&mut self, step: Move) {
        match step {
            Move::Expanded => self.report_once(
                |work| std::mem::take(&mut work.expanding),
                Input::PromptExpanded(PreparedPrompt::default()),
            ),
            Move::SteeringExpanded => {
                if let Some(prompt) = self.work.steering.pop_front() {
                    self.deliver(Input::SteeringExpanded { prompt, prepared: PreparedPrompt::default() });
                }
            }
            Move::SlashCommandEnds => self.end_slash_command(),
            Move::TurnSpeaks => self.turn(TurnReport::Text { message: "m".into(), text: "x".to_owned() }),
            Move::TurnCalls => self.turn(called()),
            Move::TurnCallsTwice => {
                if let Some(turn) = self.work.backend.clone().filter(|_| !self.is_silent()) {
                    self.deliver(Input::Turn { turn: turn.clone(), report: called() });
                    self.deliver(Input::Turn { turn, report: called() });
                }
            }
            Move::TurnQueuesCall => self.queue_call(),
            Move::TurnCallsNext => self.call_next(),
            Move::TurnEnds => self.turn(TurnReport::Ended { reason: StopReason::EndTurn, fallback: None }),
            Move::TurnDies => {
                self.turn(TurnReport::Died);
            }
            Move::StaleTurnEnds => {
                let stale = self.old_turn.replace(self.last_turn.clone().unwrap_or_default());
                if let Some(turn) = stale.filter(|stale| self.work.backend.as_ref() != Some(stale)) {
                    let before = self.log.len();
                    let report = TurnReport::Ended { reason: StopReason::EndTurn, fallback: None };
                    self.deliver(Input::Turn { turn: turn.clone(), report });
                    self.deliver(Input::HooksAnswered { turn, refusal: None });
                    assert_eq!(self.log.len(), before, "a turn that is over reports, or its hooks do");
                }
            }
            Move::Planned => self.call(|call| !call.planned, planned(Access::AskEveryTime)),
            Move::PlannedFree => self.call(|call| !call.planned, planned(Access::Free)),
            Move::CallEnds => {
                let diff = ToolContent::Diff { path: "a".into(), old: None, new: "x".to_owned() };
                self.call(|call| call.running, CallReport::Ended(Outcome::completed("").showing(vec![diff])));
            }
            Move::CallDies => self.call(|_| true, CallReport::Died),
            Move::StaleCallReports => self.report_stale_call(),
            Move::HooksAgree => self.answer_hooks(None),
            Move::HooksObject => self.answer_hooks(Some("not yet".to_owned())),
            Move::RestoreEnds => {
                self.report_once(|work| std::mem::take(&mut work.restoring), Input::Restored(Ok(Vec::new())));
            }
            step => self.apply_around(step),
        }
    }

    fn end_slash_command(&mut self) {
        let done = Input::SlashCommandDone { text: "help".to_owned(), setting: None };
        self.report_once(|work| std::mem::take(&mut work.slash_command), done);
    }

    fn answer_hooks(&mut self, refusal: Option<String>) {
        let asked = self.work.hooks.clone().or_else(|| self.work.backend.clone());
        let Some(turn) = asked else { return };
        self.report_once(|work| work.hooks.take().is_some(), Input::HooksAnswered { turn, refusal });
    }

    /// Delivers a report of something that runs. `take` ends it, and returns whether it ran; a
    /// report of something that does not run must change nothing.
    fn report_once(&mut self, take: impl Fn(&mut Work) -> bool, report: Input) {
        let runs = take(&mut self.work);
        let before = self.log.len();
        self.deliver(report);
        assert!(runs || self.log.len() == before, "something reports that does not run");
    }

    /// Reports that the disk is full. A turn that waits for an answer has nothing to write, in this
    /// daemon or the next one.
    fn fail_write(&mut self) {
        let waits = matches!(self.machine.activity(), Activity::Waiting(_) | Activity::Suspending(_));
        let before = self.log.len();
        self.deliver(Input::WriteFailed(TurnFailure::internal("disk")));
        assert!(!waits || self.log.len() == before, "a failed write ends a turn that waits for an answer");
    }

    fn fail_to_answer(&mut self) {
        let question = self.machine.state().open.questions.first().map(|asked| asked.question.id.clone());
        if let (Some(question), Some(attach)) = (question, self.attached.last().copied()) {
            self.deliver(Input::CannotAnswer { question, attach, why: "no dialogs".to_owned() });
        }
    }

    /// Lets everything that runs end. Then the session must be idle.
    fn settle(&mut self) {
        for _ in 0..60 {
            self.apply(Move::Expanded);
            self.apply(Move::SteeringExpanded);
            self.apply(Move::RestoreEnds);
            self.apply(Move::SlashCommandEnds);
            self.apply(Move::PlannedFree);
            self.apply(Move::Allow);
            self.apply(Move::CallEnds);
            self.apply(Move::TurnCallsNext);
            if self.machine.activity().running().is_some() && self.work.backend.is_none() {
                // Calls that were cancelled before they ran end by themselves.
                self.call(|_| true, CallReport::Ended(Outcome::cancelled()));
            }
            self.apply(Move::HooksAgree);
            self.apply(Move::TurnEnds);
            // A turn that a drain has left open is taken up by the next daemon.
            self.apply(Move::Reopen);
        }
        let activity = self.machine.activity();
        assert!(activity.is_idle(), "the session does not come to rest: {activity:?}");
        assert!(self.machine.prompted().is_empty(), "a prompt is never answered");
        assert!(self.unanswered.is_empty(), "prompts got no answer: {:?}", self.unanswered);
    }
}

fn origin() -> PromptOrigin {
    PromptOrigin { connection: "c".into(), bridge: None, request: "1".to_owned() }
}

fn requester() -> Requester {
    Requester { name: None, connection: "other".into(), bridge: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_session_does_one_thing_at_a_time_in_every_interleaving(
        policy in policies(),
        moves in moves(),
    ) {
        let mut simulation = Simulation::new(policy, None);
        for step in moves {
            simulation.apply(step);
        }
        simulation.settle();
    }
}
