//! Explores interleavings of callers, sessions, the disk and the directory's rules. After every
//! step it checks the invariants that `directory.rs` lists. At the end all pending work is
//! finished, and no caller may still wait.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// The sender of a message to the directory. Messages of one sender arrive in order, those of
/// different senders in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sender {
    Opener(Incarnation),
    Holder(PermitId),
    Session(Incarnation),
    Disk,
}

/// One step that can happen next. The number selects one of the items that the step can apply to.
#[derive(Clone, Copy, Debug)]
enum Action {
    Open(usize),
    /// A caller that waits for a session gives up: its permit will be dropped when it arrives.
    GiveUp(usize),
    UsePermit(usize),
    DropPermit(usize),
    Create,
    Close(usize),
    Delete(usize),
    Drain,
    BecomeIdle(usize),
    Attach(usize),
    Detach(usize),
    Prompt(usize),
    ReceiveEviction(usize),
    Leave(usize),
    Panic(usize),
    Deliver(usize),
    Commit(usize, bool),
}

#[derive(Debug)]
struct SessionActor {
    id: SessionId,
    evictions: VecDeque<EvictionReason>,
    has_client: bool,
    leaving: bool,
}

#[derive(Debug)]
struct EvictionRequest {
    id: SessionId,
    retention: LogRetention,
    /// The session that was live when the request was made, if it must be gone before the request
    /// is confirmed.
    ends: Option<Incarnation>,
}

#[derive(Default)]
struct Simulation {
    table: SessionTable,
    tickets: u64,
    incarnations: u64,
    mail: BTreeMap<Sender, VecDeque<Input>>,
    /// Callers that are not answered yet, and whether each one still waits.
    opening: BTreeMap<CallerId, bool>,
    evictions: BTreeMap<CallerId, EvictionRequest>,
    drains: BTreeSet<CallerId>,
    draining: bool,
    permits: BTreeMap<PermitId, SessionId>,
    sessions: BTreeMap<Incarnation, SessionActor>,
    /// How many prompts each stored log has.
    logs: BTreeMap<SessionId, u32>,
    deletions: Vec<SessionId>,
    ids: Vec<SessionId>,
    /// The ids that callers can name. The id of a new session is unknown until the session is
    /// registered.
    known: Vec<SessionId>,
    /// Ids whose deletion was requested, and those whose deletion was confirmed.
    doomed: BTreeSet<SessionId>,
    deleted: BTreeSet<SessionId>,
}

fn pick<T>(among: impl IntoIterator<Item = T>, choice: usize) -> Option<T> {
    let mut among: Vec<T> = among.into_iter().collect();
    (!among.is_empty()).then(|| among.swap_remove(choice % among.len()))
}

impl Simulation {
    fn new() -> Self {
        let ids: Vec<SessionId> = ["a", "b"].into_iter().map(SessionId::from).collect();
        let logs = ids.iter().cloned().zip([0, 1]).collect();
        Self { known: ids.clone(), ids, logs, ..Self::default() }
    }

    fn ticket(&mut self) -> CallerId {
        self.tickets += 1;
        CallerId(self.tickets)
    }

    fn send(&mut self, sender: Sender, input: Input) {
        self.mail.entry(sender).or_default().push_back(input);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Open(choice) => {
                if let Some(id) = pick(self.known.clone(), choice) {
                    let caller = self.ticket();
                    self.opening.insert(caller, true);
                    self.step(Input::Open { id, caller });
                }
            }
            Action::GiveUp(choice) => {
                if let Some(there) = pick(self.opening.values_mut(), choice) {
                    *there = false;
                }
            }
            Action::UsePermit(choice) => {
                if let Some(permit) = pick(self.permits.keys().copied(), choice) {
                    self.use_permit(permit);
                }
            }
            Action::DropPermit(choice) => {
                if let Some(permit) = pick(self.permits.keys().copied(), choice) {
                    self.drop_permit(permit);
                }
            }
            Action::Create => {
                let id = SessionId::from(format!("new {}", self.ids.len()));
                self.ids.push(id.clone());
                self.logs.insert(id.clone(), 0);
                let incarnation = self.spawn(id.clone());
                self.send(Sender::Opener(incarnation), Input::Register { id, incarnation, permit: None });
            }
            Action::Close(choice) => self.request_eviction(choice, LogRetention::Keep),
            Action::Delete(choice) => self.request_eviction(choice, LogRetention::Delete),
            Action::Drain => {
                let caller = self.ticket();
                self.drains.insert(caller);
                self.draining = true;
                let is_empty = |actor: &&SessionActor| self.logs.get(&actor.id) == Some(&0) && !actor.has_client;
                let empty = self.sessions.values().filter(is_empty).map(|actor| actor.id.clone()).collect();
                self.step(Input::Drain { empty, caller });
            }
            Action::Deliver(choice) => {
                if let Some(sender) = pick(self.mail.keys().copied(), choice) {
                    self.deliver(sender);
                }
            }
            Action::Commit(choice, succeeds) => {
                if !self.deletions.is_empty() {
                    self.commit(choice % self.deletions.len(), succeeds);
                }
            }
            Action::BecomeIdle(choice)
            | Action::Attach(choice)
            | Action::Detach(choice)
            | Action::Prompt(choice)
            | Action::ReceiveEviction(choice)
            | Action::Leave(choice)
            | Action::Panic(choice) => {
                if let Some(incarnation) = pick(self.sessions.keys().copied(), choice) {
                    self.act_as_session(action, incarnation);
                }
            }
        }
        self.check();
    }

    fn act_as_session(&mut self, action: Action, incarnation: Incarnation) {
        let Some(actor) = self.sessions.get_mut(&incarnation) else { return };
        let (id, is_idle) = (actor.id.clone(), !actor.has_client && !actor.leaving);
        match action {
            Action::BecomeIdle(_) if is_idle => {
                let caller = self.ticket();
                let retention = LogRetention::DeleteIfEmpty;
                self.evictions.insert(caller, EvictionRequest { id: id.clone(), retention, ends: None });
                let evict = Input::Evict { id, retention, reason: EvictionReason::Idle, caller };
                self.send(Sender::Session(incarnation), evict);
            }
            Action::Attach(_) if is_idle => actor.has_client = true,
            Action::Detach(_) => actor.has_client = false,
            Action::Prompt(_) if actor.has_client && !actor.leaving => {
                *self.logs.get_mut(&id).expect("the log of a session that is in memory") += 1;
            }
            Action::ReceiveEviction(_) => match actor.evictions.pop_front() {
                Some(EvictionReason::Idle) if actor.has_client && !actor.leaving => {
                    self.send(Sender::Session(incarnation), Input::EvictionRefused { id });
                }
                Some(_) => actor.leaving = true,
                None => {}
            },
            Action::Leave(_) if actor.leaving => {
                let is_empty = self.logs.get(&id) == Some(&0) && !actor.has_client;
                self.stop(incarnation, if is_empty { SessionExit::Empty } else { SessionExit::InUse });
            }
            Action::Panic(_) => self.stop(incarnation, SessionExit::Panicked),
            _ => {}
        }
    }

    fn spawn(&mut self, id: SessionId) -> Incarnation {
        self.incarnations += 1;
        let incarnation = Incarnation(self.incarnations);
        let actor = SessionActor { id, evictions: VecDeque::new(), has_client: false, leaving: false };
        self.sessions.insert(incarnation, actor);
        incarnation
    }

    fn stop(&mut self, incarnation: Incarnation, exit: SessionExit) {
        if let Some(SessionActor { id, .. }) = self.sessions.remove(&incarnation) {
            self.send(Sender::Session(incarnation), Input::Stopped { id, incarnation, exit });
        }
    }

    fn use_permit(&mut self, permit: PermitId) {
        let id = self.permits[&permit].clone();
        if !self.logs.contains_key(&id) {
            return self.drop_permit(permit);
        }
        self.permits.remove(&permit);
        let incarnation = self.spawn(id.clone());
        self.send(Sender::Opener(incarnation), Input::Register { id, incarnation, permit: Some(permit) });
    }

    fn drop_permit(&mut self, permit: PermitId) {
        if let Some(id) = self.permits.remove(&permit) {
            self.send(Sender::Holder(permit), Input::ReleasePermit { id, permit });
        }
    }

    fn request_eviction(&mut self, choice: usize, retention: LogRetention) {
        let Some(id) = pick(self.known.clone(), choice) else { return };
        let caller = self.ticket();
        if retention == LogRetention::Delete {
            self.doomed.insert(id.clone());
        }
        self.evictions.insert(caller, EvictionRequest { id: id.clone(), retention, ends: self.table.live(&id) });
        self.step(Input::Evict { id, retention, reason: EvictionReason::Unwanted, caller });
    }

    fn deliver(&mut self, sender: Sender) {
        let Some(mail) = self.mail.get_mut(&sender) else { return };
        let input = mail.pop_front();
        if mail.is_empty() {
            self.mail.remove(&sender);
        }
        if let Some(input) = input {
            if let Input::Register { id, permit: None, .. } = &input {
                self.known.push(id.clone());
            }
            self.step(input);
        }
    }

    fn commit(&mut self, at: usize, succeeds: bool) {
        let id = self.deletions.remove(at);
        let result = if succeeds { Ok(()) } else { Err(HistoryError::Lost) };
        if succeeds {
            self.logs.remove(&id);
        }
        self.send(Sender::Disk, Input::Deleted { id, result });
    }

    fn step(&mut self, input: Input) {
        for effect in self.table.step(input) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Grant { caller, id, permit } => {
                let is_there = self.opening.remove(&caller).expect("a permit goes to a caller that waits");
                assert!(!self.draining, "a permit was granted while the daemon stops");
                self.permits.insert(permit, id);
                if !is_there {
                    self.drop_permit(permit);
                }
            }
            Effect::Share { caller, .. } | Effect::RefuseOpen { caller } => {
                assert!(self.opening.remove(&caller).is_some(), "a caller was answered twice");
            }
            Effect::SendEviction { incarnation, reason } => {
                if let Some(actor) = self.sessions.get_mut(&incarnation) {
                    actor.evictions.push_back(reason);
                }
            }
            Effect::Stop { incarnation } => self.stop(incarnation, SessionExit::InUse),
            Effect::Delete { id } => {
                let prompts = self.logs.get(&id).copied().unwrap_or_default();
                assert!(self.doomed.contains(&id) || prompts == 0, "nobody wanted the prompts of {id} deleted");
                self.deletions.push(id);
            }
            Effect::RemoveServers { id } => assert!(!self.logs.contains_key(&id), "{id} is still there"),
            Effect::Confirm { caller, result } => {
                let request = self.evictions.remove(&caller).expect("a request is confirmed once");
                if result.is_ok() && request.retention == LogRetention::Delete {
                    assert!(
                        !self.logs.contains_key(&request.id),
                        "the deletion of {} was confirmed too early",
                        request.id
                    );
                    self.deleted.insert(request.id);
                }
                if let Some(incarnation) = request.ends.filter(|_| request.retention == LogRetention::Keep) {
                    assert!(!self.sessions.contains_key(&incarnation), "a session that was closed is in memory");
                }
            }
            Effect::Drained { caller } => {
                assert!(self.drains.remove(&caller), "a drain is confirmed once");
                assert!(self.permits.is_empty(), "somebody still opens a session");
            }
        }
    }

    /// Checks the invariants that hold after every step.
    fn check(&self) {
        for id in &self.ids {
            let opening = self.permits.values().filter(|opening| *opening == id).count();
            let running = self.sessions.values().filter(|actor| actor.id == *id).count();
            assert!(opening + running <= 1, "{id}: {opening} permits and {running} sessions");
            if self.deletions.contains(id) {
                assert_eq!(opening, 0, "{id} is read while it is deleted");
            }
            if self.deletions.contains(id) || self.deleted.contains(id) {
                assert_eq!(running, 0, "{id} can be written while it is deleted, or after that");
            }
        }
        assert!(self.deleted.iter().all(|id| !self.logs.contains_key(id)), "a deletion was lost");
    }

    /// Finishes all pending work.
    fn settle(&mut self) {
        loop {
            let sessions: Vec<Incarnation> = self.sessions.keys().copied().collect();
            for incarnation in sessions {
                while self.sessions.get(&incarnation).is_some_and(|actor| !actor.evictions.is_empty()) {
                    self.act_as_session(Action::ReceiveEviction(0), incarnation);
                }
                self.act_as_session(Action::Leave(0), incarnation);
            }
            while let Some(permit) = self.permits.keys().next().copied() {
                self.use_permit(permit);
            }
            while !self.deletions.is_empty() {
                self.commit(0, true);
            }
            self.check();
            let Some(sender) = self.mail.keys().next().copied() else { break };
            self.deliver(sender);
        }
        assert!(self.opening.is_empty(), "callers wait forever: {:?}", self.opening);
        assert!(self.evictions.is_empty(), "wishes are never confirmed: {:?}", self.evictions);
        assert!(self.drains.is_empty(), "the daemon never stops: {:?}", self.table);
        for id in &self.ids {
            let running = self.sessions.iter().find(|(_, actor)| actor.id == *id);
            assert_eq!(self.table.live(id), running.map(|(incarnation, _)| *incarnation), "of {id}");
        }
        assert!(!self.draining || self.table.entries.is_empty());
        assert!(self.table.stopped_early.is_empty());
    }
}

fn action() -> impl Strategy<Value = Action> {
    let n = 0_usize..8;
    prop_oneof![
        4 => n.clone().prop_map(Action::Open),
        1 => n.clone().prop_map(Action::GiveUp),
        4 => n.clone().prop_map(Action::UsePermit),
        1 => n.clone().prop_map(Action::DropPermit),
        1 => Just(Action::Create),
        2 => n.clone().prop_map(Action::Close),
        2 => n.clone().prop_map(Action::Delete),
        2 => n.clone().prop_map(Action::BecomeIdle),
        2 => n.clone().prop_map(Action::Attach),
        1 => n.clone().prop_map(Action::Detach),
        1 => n.clone().prop_map(Action::Prompt),
        4 => n.clone().prop_map(Action::ReceiveEviction),
        3 => n.clone().prop_map(Action::Leave),
        1 => n.clone().prop_map(Action::Panic),
        8 => n.clone().prop_map(Action::Deliver),
        3 => (n, any::<bool>()).prop_map(|(choice, succeeds)| Action::Commit(choice, succeeds)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn opening_closing_deleting_and_evicting_exclude_each_other_in_every_order(
        before in prop::collection::vec(action(), 1..60),
        drains in any::<bool>(),
        after in prop::collection::vec(action(), 0..20),
    ) {
        let mut simulation = Simulation::new();
        before.into_iter().for_each(|action| simulation.act(action));
        if drains {
            simulation.act(Action::Drain);
        }
        after.into_iter().for_each(|action| simulation.act(action));
        simulation.settle();
    }
}

#[test]
fn a_permit_for_a_vanished_caller_goes_to_one_other_caller() {
    let mut table = SessionTable::default();
    let id = SessionId::from("a");
    let permit_of = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Grant { caller, permit, .. }] => (*caller, *permit),
        other => panic!("{other:?}"),
    };
    let (_, first) = permit_of(table.step(Input::Open { id: id.clone(), caller: CallerId(1) }));
    for caller in [2, 3, 4] {
        assert_eq!(table.step(Input::Open { id: id.clone(), caller: CallerId(caller) }), []);
    }
    let (second, permit) = permit_of(table.step(Input::ReleasePermit { id: id.clone(), permit: first }));
    assert_eq!(second, CallerId(2));
    // Only the permit that counts can be given back, and only once.
    assert_eq!(table.step(Input::ReleasePermit { id: id.clone(), permit: first }), []);
    let (third, _) = permit_of(table.step(Input::ReleasePermit { id: id.clone(), permit }));
    assert_eq!(third, CallerId(3));
    assert_eq!(table.step(Input::ReleasePermit { id, permit }), []);
}

#[test]
fn a_session_with_an_old_permit_is_stopped_and_its_end_concerns_no_other() {
    let mut table = SessionTable::default();
    let id = SessionId::from("a");
    let open = |caller| Input::Open { id: id.clone(), caller: CallerId(caller) };
    let register = |number, permit| Input::Register {
        id: id.clone(),
        incarnation: Incarnation(number),
        permit: Some(PermitId(permit)),
    };
    table.step(open(1));
    table.step(Input::ReleasePermit { id: id.clone(), permit: PermitId(1) });
    table.step(open(2));
    assert_eq!(table.step(register(1, 1)), [Effect::Stop { incarnation: Incarnation(1) }]);
    assert_eq!(table.step(register(2, 2)), []);
    let stopped =
        |number| Input::Stopped { id: id.clone(), incarnation: Incarnation(number), exit: SessionExit::InUse };
    assert_eq!(table.step(stopped(1)), []);
    assert_eq!(table.live(&id), Some(Incarnation(2)));
    let close = Input::Evict {
        id: id.clone(),
        retention: LogRetention::Keep,
        reason: EvictionReason::Unwanted,
        caller: CallerId(3),
    };
    assert_eq!(table.step(close).len(), 1);
    // Nor does it concern the other session while that is being evicted.
    assert_eq!(table.step(stopped(1)), []);
    assert_eq!(table.step(stopped(2)), [Effect::Confirm { caller: CallerId(3), result: Ok(()) }]);
    assert!(!table.contains(&id));
}

#[test]
fn a_deletion_during_an_idle_eviction_is_not_lost() {
    let idle = Eviction::new(LogRetention::Keep, &EvictionReason::Idle);
    let deleted = idle.and(Eviction::new(LogRetention::Delete, &EvictionReason::Unwanted));
    assert_eq!(deleted, Eviction::Certain(LogRetention::Delete));
    for reason in [EvictionReason::Idle, EvictionReason::Drain, EvictionReason::Unwanted] {
        assert_eq!(deleted.and(Eviction::new(LogRetention::Keep, &reason)), deleted);
    }
}

#[test]
fn closing_a_once_empty_session_does_not_delete_it() {
    let empty = Eviction::new(LogRetention::DeleteIfEmpty, &EvictionReason::Idle);
    let closed = empty.and(Eviction::new(LogRetention::Keep, &EvictionReason::Drain));
    assert_eq!(closed, Eviction::Certain(LogRetention::Keep));
    assert_eq!(closed.and(empty), closed);
}
