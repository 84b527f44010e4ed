//! Plays the machine against a model of the editor, the daemon and the connection between them, in
//! any order of events: the daemon dies at any instant, answers and frames are lost, either side
//! writes rubbish.
//!
//! The testkit decides which answers are due, by rules that are independent of the bridge's.

mod events;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use testkit::expected_reply_ids;

use self::events::{Attempt, Message, Step, session_step, step};
use super::super::state::HeldLimits;
use super::*;

/// Limits that are low enough for the test to reach them.
const LIMITS: HeldLimits = HeldLimits { open: 6, held: 400, stale: 2 };

/// A request that the daemon has received, and its answer.
struct Request {
    id: String,
    answer: Bytes,
}

/// A prompt that this daemon has received, or that an earlier one has recorded.
struct Prompt {
    session: String,
    id: String,
    number: u64,
    is_recorded: bool,
}

struct Simulation {
    machine: Machine,
    /// The editor's frames that the machine has not accepted yet.
    stdin: VecDeque<Bytes>,
    /// The number of the current connection, if there is one.
    link: Option<u64>,
    links: u64,
    is_broken: bool,
    is_wanted: bool,
    has_exited: bool,
    /// The `SendAll` effects in progress, each with its connection.
    sending: VecDeque<(Option<u64>, Vec<Bytes>)>,
    requests: Vec<Request>,
    prompts: Vec<Prompt>,
    /// Whether the answer to a resume guarantees that prompts unknown to the daemon were not taken.
    is_final: bool,
    questions: Vec<String>,
    opened: usize,
    place: u64,
    /// How many messages the editor has written.
    written: u64,
    /// How many answers are due for each id.
    due: BTreeMap<String, i64>,
    /// How often each of the editor's messages reached a daemon.
    sent: BTreeMap<u64, usize>,
    /// The last message about each session on the current connection.
    last: BTreeMap<String, u64>,
    /// Prompts that some daemon has recorded.
    taken: BTreeSet<u64>,
    /// The last cancellation of each session that the machine has taken.
    cancelled: BTreeMap<String, u64>,
    /// The editor's requests, each with its id.
    ids: Vec<(u64, String)>,
    /// The requests that each `$/cancel_request` withdraws.
    withdrawals: BTreeMap<u64, Vec<u64>>,
    /// Requests whose withdrawal the machine has taken.
    withdrawn: BTreeSet<u64>,
}

/// The id of a message, as it was written.
#[derive(Deserialize)]
struct Delivered<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

impl Simulation {
    fn new() -> Self {
        Self {
            machine: Machine::with_state(BridgeState::with_limits(LIMITS)),
            stdin: VecDeque::new(),
            link: None,
            links: 0,
            is_broken: false,
            is_wanted: true,
            has_exited: false,
            sending: VecDeque::new(),
            requests: Vec::new(),
            prompts: Vec::new(),
            is_final: true,
            questions: Vec::new(),
            opened: 0,
            place: 0,
            written: 0,
            due: BTreeMap::new(),
            sent: BTreeMap::new(),
            last: BTreeMap::new(),
            taken: BTreeSet::new(),
            cancelled: BTreeMap::new(),
            ids: Vec::new(),
            withdrawals: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Editor(message) => {
                let frame = self.write(message);
                for id in expected_reply_ids(&frame) {
                    *self.due.entry(id).or_default() += 1;
                }
                self.stdin.push_back(frame);
            }
            Step::Answer(which) if !self.requests.is_empty() => self.answer(which.index(self.requests.len())),
            Step::Answer(_) => {}
            Step::Update(session) => {
                self.place += 1;
                let meta = json!({ "acpd": { "at": [1, self.place] } });
                let update = json!({ "method": "session/update", "params": { "sessionId": session, "_meta": meta } });
                self.receive_from_daemon(update.to_string());
            }
            Step::Ask => {
                let id = format!("\"question-{}\"", self.questions.len());
                self.receive_from_daemon(format!(
                    r#"{{"id":{id},"method":"session/request_permission","params":{{}}}}"#
                ));
                self.questions.push(id);
            }
            Step::Reply(which) if !self.questions.is_empty() => {
                let id = &self.questions[which.index(self.questions.len())];
                self.stdin.push_back(format!(r#"{{"id":{id},"result":{{"outcome":{{}}}}}}"#).into());
            }
            Step::Reply(_) => {}
            Step::Rubbish(text) => self.receive_from_daemon(text.to_owned()),
            Step::Goodbye => self.receive_from_daemon(json!({ "method": method::GOODBYE }).to_string()),
            Step::Break => self.is_broken = self.link.is_some(),
            Step::Die { recorded, is_final, too_often } => self.die(&recorded, is_final, too_often),
            Step::Sent => self.finish_sending(),
            Step::Connect(attempt) => self.connect(attempt),
            Step::ResumeTimeout if self.machine.waits_for_sessions() => self.step(Input::ResumeTimedOut),
            Step::ResumeTimeout => {}
        }
        self.read_stdin();
    }

    fn write(&mut self, message: Message) -> Bytes {
        self.written += 1;
        let number = self.written;
        match message {
            Message::Bytes(bytes) => bytes.into(),
            Message::Withdrawal(_) if self.ids.is_empty() => Bytes::from_static(b"{}"),
            Message::Withdrawal(which) => {
                let (_, id) = which.get(&self.ids);
                let named = self.ids.iter().filter(|(_, other)| other == id).map(|(number, _)| *number);
                self.withdrawals.insert(number, named.collect());
                format!(r#"{{"method":"$/cancel_request","params":{{"requestId":{id},"n":{number}}}}}"#).into()
            }
            Message::Notification { method, session } => {
                format!(r#"{{"method":{method},"params":{{"sessionId":{session},"n":{number}}}}}"#).into()
            }
            Message::Request { spelling, method, session } => {
                let id = match spelling {
                    0 => format!("{number}"),
                    1 => format!("{number}.0"),
                    2 => format!("{number}e0"),
                    3 => format!("\"acpd-bridge/{number}\""),
                    4 => format!("\"\\u0061{number}\""),
                    // Prompts without an id could not be told apart.
                    _ if method.contains("prompt") => format!("\"{number}\""),
                    _ => "null".to_owned(),
                };
                self.ids.push((number, id.clone()));
                format!(r#"{{"params":{{"sessionId":{session},"n":{number}}},"id":{id},"method":{method}}}"#).into()
            }
        }
    }

    /// Delivers frames for as long as the machine accepts them, like the editor's thread.
    fn read_stdin(&mut self) {
        while let Some(frame) = self.stdin.front().cloned() {
            if !self.machine.is_ready_for(&frame) {
                return self.step(Input::FrameWaits);
            }
            self.stdin.pop_front();
            let seen: Value = serde_json::from_slice(&frame).unwrap_or_default();
            if let ("session/cancel", Some(session), Some(number)) = facts(&seen) {
                self.cancelled.insert(session.to_owned(), number);
            }
            if let ("$/cancel_request", _, Some(number)) = facts(&seen) {
                self.withdrawn.extend(self.withdrawals.remove(&number).into_iter().flatten());
            }
            self.step(Input::EditorFrame(frame));
        }
    }

    fn step(&mut self, input: Input) {
        let effects = self.machine.step(input);
        assert!(self.machine.state.is_within(LIMITS), "more is kept than the limits allow");
        for effect in effects {
            match effect {
                Effect::ToDaemon(frame) => {
                    self.check_withdrawn(&frame);
                    self.reach_daemon(self.link, &frame);
                }
                Effect::SendAll(frames) => {
                    frames.iter().for_each(|frame| self.check_withdrawn(frame));
                    self.sending.push_back((self.link, frames));
                }
                Effect::ToEditor(frame) => self.deliver(&frame),
                Effect::Connect => self.is_wanted = true,
                Effect::Exit => self.has_exited = true,
            }
        }
    }

    fn deliver(&mut self, frame: &[u8]) {
        let seen: Value = serde_json::from_slice(frame).unwrap_or_default();
        let is_reply = seen.get("result").is_some() || seen.get("error").is_some();
        if let (true, Ok(Delivered { id })) = (is_reply, serde_json::from_slice(frame)) {
            let id = id.map_or("null", RawValue::get);
            let due = self.due.entry(id.to_owned()).or_default();
            *due -= 1;
            assert!(*due >= 0, "{id} is answered once too often");
        }
    }

    /// Writes a frame to a connection, which may be dead.
    fn reach_daemon(&mut self, link: Option<u64>, frame: &Bytes) {
        let is_alive = link.is_some() && link == self.link && !self.is_broken;
        let seen: Value = serde_json::from_slice(frame).unwrap_or_default();
        self.check(&seen, is_alive);
        if !is_alive {
            return;
        }
        let (method, session, number) = facts(&seen);
        for id in expected_reply_ids(frame) {
            let result = match (method, session) {
                ("session/new", _) => {
                    self.opened += 1;
                    json!({ "sessionId": format!("s{}", self.opened) })
                }
                ("_acpd/resume", Some(session)) => self.resumed(session),
                ("session/prompt", Some(session)) => {
                    let number = number.unwrap_or_default();
                    let prompt = Prompt { session: session.to_owned(), id: id.clone(), number, is_recorded: false };
                    self.prompts.push(prompt);
                    json!({ "stopReason": "end_turn" })
                }
                _ => json!({}),
            };
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into();
            self.requests.push(Request { id, answer });
        }
    }

    /// Checks that no request with a possible effect is sent twice, and that messages about one
    /// session stay in order on a connection. Messages written to a dead connection reach no
    /// daemon.
    fn check(&mut self, seen: &Value, is_alive: bool) {
        let (method, session, Some(number)) = facts(seen) else { return };
        if is_own(seen) {
            return;
        }
        let times = self.sent.entry(number).or_default();
        *times += 1;
        let is_about_session = match method {
            "initialize" | "session/list" => false,
            "session/load" | "session/resume" => true,
            "session/prompt" => {
                assert!(*times <= 2, "prompt {number} is sent a third time");
                assert!(!self.taken.contains(&number), "prompt {number} is sent again and was recorded");
                let cancelled = session.and_then(|session| self.cancelled.get(session));
                let is_cancelled = cancelled.is_some_and(|cancelled| *cancelled > number);
                assert!(*times == 1 || !is_cancelled, "prompt {number} is sent again and was cancelled");
                true
            }
            _ => {
                assert!(*times == 1, "{method} is sent twice: {seen}");
                true
            }
        };
        if let Some(session) = session.filter(|_| is_about_session && is_alive) {
            let last = self.last.insert(session.to_owned(), number);
            assert!(last < Some(number), "message {number} about {session} comes after {last:?}");
        }
    }

    /// Checks that the machine does not send a request after it has taken the request's withdrawal.
    fn check_withdrawn(&self, frame: &Bytes) {
        let seen: Value = serde_json::from_slice(frame).unwrap_or_default();
        let (method, _, number) = facts(&seen);
        let is_withdrawn = number.is_some_and(|number| self.withdrawn.contains(&number));
        assert!(is_own(&seen) || !is_withdrawn, "{method} is sent after it was withdrawn: {seen}");
    }

    /// Resumes a session: the daemon answers the session's recorded prompts.
    fn resumed(&mut self, session: &str) -> Value {
        let recorded = self.prompts.iter().filter(|prompt| prompt.session == session && prompt.is_recorded);
        let pending: Vec<String> = recorded.map(|prompt| prompt.id.clone()).collect();
        for id in &pending {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#).into();
            self.requests.push(Request { id: id.clone(), answer });
        }
        json!({ "pending": pending, "final": self.is_final })
    }

    fn receive_from_daemon(&mut self, frame: String) {
        if self.link.is_some() && !self.is_broken {
            self.step(Input::DaemonFrame(frame.into()));
        }
    }

    fn answer(&mut self, which: usize) {
        let Request { id, answer } = self.requests.remove(which);
        if self.is_broken {
            // The turn has ended in the log, but its answer is lost on the way.
            for prompt in self.prompts.iter_mut().filter(|prompt| prompt.id == id) {
                prompt.is_recorded = true;
                self.taken.insert(prompt.number);
            }
        } else {
            self.prompts.retain(|prompt| prompt.id != id);
            self.step(Input::DaemonFrame(answer));
        }
    }

    fn die(&mut self, recorded: &[bool], is_final: bool, too_often: bool) {
        if self.link.take().is_none() {
            return;
        }
        self.is_broken = false;
        self.requests.clear();
        self.last.clear();
        for (prompt, recorded) in self.prompts.iter_mut().zip(recorded.iter().cycle()) {
            prompt.is_recorded |= recorded;
            if prompt.is_recorded {
                self.taken.insert(prompt.number);
            }
        }
        self.prompts.retain(|prompt| prompt.is_recorded);
        self.is_final = is_final;
        let is_leaving = self.machine.is_leaving();
        let too_often = (too_often && !is_leaving).then(errors::daemon_stopped);
        self.step(Input::LinkLost { too_often });
        if is_leaving {
            assert!(!self.is_wanted, "a daemon is started after a goodbye, before the editor needs one");
            self.check_answered();
        }
    }

    /// Checks that the editor does not wait for anything that the machine has taken. After a
    /// goodbye, no daemon may ever start again, so nothing may wait for one.
    fn check_answered(&self) {
        let mut unread: BTreeMap<String, i64> = BTreeMap::new();
        for id in self.stdin.iter().flat_map(|frame| expected_reply_ids(frame)) {
            *unread.entry(id).or_default() += 1;
        }
        let left = self.due.iter().filter(|(id, due)| **due > unread.get(*id).copied().unwrap_or_default());
        let left: Vec<_> = left.collect();
        assert!(left.is_empty(), "the daemon said goodbye, and these wait for it: {left:?}");
    }

    /// Opens the session `s1`.
    fn open_session(&mut self) {
        self.take(Step::Connect(Attempt::Up { frame_limit: None }));
        for method in [r#""initialize""#, r#""session/new""#] {
            self.finish_sending();
            self.take(Step::Editor(Message::Request { spelling: 0, method, session: "7" }));
            self.answer(0);
        }
        assert_eq!(self.opened, 1);
    }

    fn connect(&mut self, attempt: Attempt) {
        if self.link.is_some() || !self.is_wanted {
            return;
        }
        self.step(Input::Connecting);
        match attempt {
            Attempt::Up { frame_limit } => {
                self.is_wanted = false;
                self.links += 1;
                self.link = Some(self.links);
                self.step(Input::LinkUp { frame_limit });
            }
            Attempt::Late => self.step(Input::ConnectTimedOut),
            Attempt::Fail => {
                self.is_wanted = false;
                self.step(Input::NoDaemon(errors::no_daemon("it is a test")));
            }
        }
    }

    fn finish_sending(&mut self) {
        if let Some((link, frames)) = self.sending.pop_front() {
            frames.iter().for_each(|frame| self.reach_daemon(link, frame));
            self.step(Input::AllSent);
        }
    }

    /// Lets a daemon answer everything, and checks that no request remains.
    fn end(&mut self) {
        for _ in 0..10_000 {
            self.read_stdin();
            if !self.sending.is_empty() {
                self.finish_sending();
            } else if self.is_broken || (self.machine.is_leaving() && self.requests.is_empty()) {
                self.die(&[true], true, false);
            } else if self.link.is_none() && self.is_wanted {
                self.connect(Attempt::Up { frame_limit: None });
            } else if !self.requests.is_empty() {
                self.answer(0);
            } else {
                break;
            }
        }
        assert!(self.stdin.is_empty(), "the editor waits forever: {:?}", self.stdin);
        let left: Vec<_> = self.due.iter().filter(|(_, due)| **due > 0).collect();
        assert!(left.is_empty(), "left without an answer: {left:?}");
        self.step(Input::EditorClosed);
        assert!(self.has_exited, "the bridge stays although everything is answered");
    }
}

/// Whether a message is a request of the bridge itself.
fn is_own(seen: &Value) -> bool {
    seen["id"].as_str().is_some_and(|id| id.starts_with("acpd-bridge//"))
}

/// Returns the method, session and number of a message.
fn facts(seen: &Value) -> (&str, Option<&str>, Option<u64>) {
    let params = &seen["params"];
    (seen["method"].as_str().unwrap_or_default(), params["sessionId"].as_str(), params["n"].as_u64())
}

/// While sessions are resumed, the editor's frames stay in its pipe, and few have to be kept.
#[test]
fn the_editor_waits_until_its_sessions_are_back_or_late() {
    let mut simulation = Simulation::new();
    simulation.open_session();
    simulation.die(&[true], true, false);
    simulation.take(Step::Connect(Attempt::Up { frame_limit: None }));
    simulation.finish_sending();
    let list = Bytes::from_static(br#"{"id":1,"method":"session/list"}"#);
    assert!(!simulation.machine.is_ready_for(&list));
    simulation.step(Input::ResumeTimedOut);
    assert!(simulation.machine.is_ready_for(&list));
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, cases: 500, ..Config::default() })]

    #[test]
    fn the_bridge_answers_everything_once_repeats_no_effect_and_keeps_order(steps in vec(step(), 0..60)) {
        let mut simulation = Simulation::new();
        steps.into_iter().for_each(|step| simulation.take(step));
        simulation.end();
    }

    #[test]
    fn a_session_outlives_the_daemon_in_any_order_of_events(steps in vec(session_step(), 0..60)) {
        let mut simulation = Simulation::new();
        simulation.open_session();
        steps.into_iter().for_each(|step| simulation.take(step));
        simulation.end();
    }

    #[test]
    fn the_bridge_owes_the_same_answers_as_the_daemon_for_any_bytes(bytes in vec(any::<u8>(), 0..60)) {
        let owed: Vec<String> = owed_answer(&bytes).iter().map(|id| id.raw().to_owned()).collect();
        prop_assert_eq!(owed, expected_reply_ids(&bytes));
    }
}
