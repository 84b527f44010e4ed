//! Whatever an editor writes and however often the daemon goes away, every request that can be read is answered exactly
//! once through the bridge.
//!
//! The memory is played against a model of the daemon, which answers whatever it is sent, and forgets or remembers
//! prompts when it dies. What is owed is read by the testkit's rules, which know nothing of ours.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::Config;
use testkit::expected_reply_ids;

use super::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Editor(Message),
    /// The daemon answers one of the requests that it has.
    Answers(Index),
    /// The daemon tells of an event in a session.
    Updates(&'static str),
    /// The daemon asks the editor something.
    Asks,
    /// The editor answers a question, which may be one of a daemon that is gone.
    Replies(Index),
    /// The daemon dies, having recorded some of the prompts that it was sent, and another takes its place.
    Dies {
        recorded: Vec<bool>,
        is_final: bool,
    },
    /// Sessions take too long to come back.
    Late,
    /// The daemon cannot be brought back: all is given up, and then there is one after all.
    Down,
}

/// What an editor writes.
#[derive(Clone, Debug)]
enum Message {
    /// A message with an id of its own, as one of the ways to write it, and a method and a session, each as written.
    Whole {
        spelling: usize,
        method: &'static str,
        session: &'static str,
    },
    /// The same without an id.
    Silent {
        method: &'static str,
        session: &'static str,
    },
    Bytes(Vec<u8>),
}

const METHODS: [&str; 20] = [
    r#""initialize""#,
    r#""session/new""#,
    r#""session/new""#,
    r#""session/load""#,
    r#""session/resume""#,
    r#""session/prompt""#,
    r#""session/prompt""#,
    r#""session/prompt""#,
    r#""session/cancel""#,
    r#""session/close""#,
    r#""session/delete""#,
    r#""session/list""#,
    r#""session/set_mode""#,
    r#""$/cancel_request""#,
    r#""no/such/method""#,
    r#""\ud800""#,
    r#""\u0073ession/prompt""#,
    "5",
    "null",
    "{}",
];

const SESSIONS: [&str; 5] = [r#""s1""#, r#""s1""#, r#""s2""#, r#""nobody""#, "7"];

fn message() -> impl Strategy<Value = Message> {
    let odd = select(vec![
        "{}",
        "[]",
        "null",
        "{\"id\":{},\"method\":\"logout\"}",
        "{\"id\":[1],\"result\":{}}",
        "{\"error\":null}",
        "{\"method\":\"logout\"",
        "\u{feff}{\"method\":\"logout\"}",
        "{\"result\":{\"sessionId\":\"s1\"}}",
    ]);
    prop_oneof![
        8 => (0..6_usize, select(&METHODS[..]), select(&SESSIONS[..]))
            .prop_map(|(spelling, method, session)| Message::Whole { spelling, method, session }),
        2 => (select(&METHODS[..]), select(&SESSIONS[..]))
            .prop_map(|(method, session)| Message::Silent { method, session }),
        1 => odd.prop_map(|text| Message::Bytes(text.into())),
        1 => vec(any::<u8>(), 1..30).prop_map(Message::Bytes),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => message().prop_map(Step::Editor),
        6 => any::<Index>().prop_map(Step::Answers),
        2 => select(vec!["s1", "s2"]).prop_map(Step::Updates),
        1 => Just(Step::Asks),
        1 => any::<Index>().prop_map(Step::Replies),
        2 => (vec(any::<bool>(), 1..4), any::<bool>()).prop_map(|(recorded, is_final)| Step::Dies { recorded, is_final }),
        1 => Just(Step::Late),
        1 => Just(Step::Down),
    ]
}

/// A request that the model of the daemon has, and how it answers it.
struct Request {
    id: String,
    answer: Bytes,
}

/// A prompt that the daemon has, or that one before it has recorded.
struct Prompted {
    session: String,
    id: String,
    recorded: bool,
}

#[derive(Default)]
struct World {
    memory: BridgeState,
    /// What the daemon has not answered.
    requests: Vec<Request>,
    prompts: Vec<Prompted>,
    /// What a return says of the prompts that the daemon does not know.
    is_final: bool,
    questions: Vec<String>,
    opened: usize,
    at: u64,
    /// Ids that the editor has used, and what it is owed under each.
    ids: u64,
    owed: BTreeMap<String, i64>,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Editor(message) => {
                let frame = self.write(message);
                for id in expected_reply_ids(&frame) {
                    *self.owed.entry(id).or_default() += 1;
                }
                self.hear_editor(&frame);
            }
            Step::Answers(which) if !self.requests.is_empty() => {
                let request = self.requests.remove(which.index(self.requests.len()));
                self.answer(request);
            }
            Step::Answers(_) => {}
            Step::Updates(session) => {
                self.at += 1;
                let meta = json!({ "acpd": { "at": [1, self.at] } });
                let update = json!({ "method": "session/update", "params": { "sessionId": session, "_meta": meta } });
                assert_eq!(self.memory.hear_daemon(&update.to_string().into()), Verdict::Pass);
            }
            Step::Asks => {
                let id = format!("\"question-{}\"", self.questions.len());
                let ask = format!(r#"{{"id":{id},"method":"session/request_permission","params":{{}}}}"#);
                assert_eq!(self.memory.hear_daemon(&ask.into()), Verdict::Pass);
                self.questions.push(id);
            }
            Step::Replies(which) if !self.questions.is_empty() => {
                let id = &self.questions[which.index(self.questions.len())];
                let reply = format!(r#"{{"id":{id},"result":{{"outcome":{{}}}}}}"#);
                self.hear_editor(&reply.into());
            }
            Step::Replies(_) => {}
            Step::Dies { recorded, is_final } => {
                let unknown = self.memory.cut().unknown;
                self.refused(unknown);
                self.begin_again(&recorded, is_final);
            }
            Step::Late => {
                let late = self.memory.give_up_resuming();
                self.refused(late);
            }
            Step::Down => {
                let unknown = self.memory.cut().unknown;
                self.refused(unknown);
                let waiting = self.memory.give_up();
                self.refused(waiting);
                self.begin_again(&[false], true);
            }
        }
    }

    fn write(&mut self, message: Message) -> Bytes {
        match message {
            Message::Bytes(bytes) => bytes.into(),
            Message::Silent { method, session } => {
                format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{{"sessionId":{session}}}}}"#).into()
            }
            Message::Whole { spelling, method, session } => {
                self.ids += 1;
                let id = match spelling {
                    0 => format!("{}", self.ids),
                    1 => format!("{}.0", self.ids),
                    2 => format!("{}e0", self.ids),
                    3 => format!("\"acpd-bridge/{}\"", self.ids),
                    4 => format!("\"\\u0061{}\"", self.ids),
                    // Nobody can tell several prompts without an id apart.
                    _ if method.contains("prompt") => format!("\"{}\"", self.ids),
                    _ => "null".to_owned(),
                };
                format!(r#"{{"params":{{"sessionId":{session}}},"id":{id},"method":{method}}}"#).into()
            }
        }
    }

    fn hear_editor(&mut self, frame: &Bytes) {
        match self.memory.hear_editor(frame) {
            Verdict::Pass => self.send(frame),
            Verdict::Wake(resume) => self.send(&resume.into()),
            Verdict::Hold | Verdict::Drop => {}
            Verdict::Goodbye => panic!("an editor does not say goodbye"),
        }
    }

    /// A frame reaches the daemon.
    fn send(&mut self, frame: &Bytes) {
        let seen: Value = serde_json::from_slice(frame).unwrap_or_default();
        let (method, session) = (seen["method"].as_str(), seen["params"]["sessionId"].as_str().unwrap_or_default());
        for id in expected_reply_ids(frame) {
            let result = match method {
                Some("session/new") => {
                    self.opened += 1;
                    json!({ "sessionId": format!("s{}", self.opened) })
                }
                Some("_acpd/resume") => self.returned(session),
                Some("session/prompt") => {
                    let prompt = Prompted { session: session.to_owned(), id: id.clone(), recorded: false };
                    self.prompts.push(prompt);
                    json!({ "stopReason": "end_turn" })
                }
                Some(_) | None => json!({}),
            };
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into();
            self.requests.push(Request { id, answer });
        }
    }

    /// A session is back, and the daemon will answer the prompts that it has recorded in it.
    fn returned(&mut self, session: &str) -> Value {
        let known = self.prompts.iter().filter(|prompt| prompt.session == session && prompt.recorded);
        let pending: Vec<String> = known.map(|prompt| prompt.id.clone()).collect();
        for id in &pending {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#).into();
            self.requests.push(Request { id: id.clone(), answer });
        }
        self.prompts.retain(|prompt| prompt.session != session || !prompt.recorded);
        json!({ "pending": pending, "final": self.is_final })
    }

    fn answer(&mut self, Request { id, answer }: Request) {
        self.prompts.retain(|prompt| prompt.id != id);
        if let Some(back) = self.memory.our_answer(&answer) {
            self.refused(back.lost);
            back.send.iter().for_each(|frame| self.send(frame));
            return;
        }
        let is_owed = self.owed.get(&id).is_some_and(|owed| *owed > 0);
        let verdict = self.memory.hear_daemon(&answer);
        assert_eq!(verdict == Verdict::Pass, is_owed, "{id} is answered by the daemon: {verdict:?}");
        if is_owed {
            self.paid(&id);
        }
    }

    fn refused(&mut self, ids: Vec<Id>) {
        ids.iter().for_each(|id| self.paid(id.raw()));
    }

    fn paid(&mut self, id: &str) {
        let owed = self.owed.entry(id.to_owned()).or_default();
        *owed -= 1;
        assert!(*owed >= 0, "{id} is answered once too often");
    }

    /// Another daemon takes the place of the one that is gone.
    fn begin_again(&mut self, recorded: &[bool], is_final: bool) {
        self.requests.clear();
        for (prompt, recorded) in self.prompts.iter_mut().zip(recorded.iter().cycle()) {
            prompt.recorded |= recorded;
        }
        self.prompts.retain(|prompt| prompt.recorded);
        self.is_final = is_final;
        for message in self.memory.introduction() {
            self.send(&message.into());
        }
    }

    /// The daemon answers all that it has, and nothing may be left.
    fn end(&mut self) {
        while !self.requests.is_empty() {
            let request = self.requests.remove(0);
            self.answer(request);
        }
        let left: Vec<_> = self.owed.iter().filter(|(_, owed)| **owed > 0).collect();
        assert!(left.is_empty(), "left without an answer: {left:?}");
        assert!(self.memory.is_quiet(), "the memory waits for something");
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_an_editor_writes_the_bridge_answers_every_request_once(steps in vec(step(), 0..40)) {
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.take(step));
        world.end();
    }

    #[test]
    fn any_bytes_are_owed_what_the_daemon_answers(bytes in vec(any::<u8>(), 0..60)) {
        let owed: Vec<String> = owed_answer(&bytes).iter().map(|id| id.raw().to_owned()).collect();
        prop_assert_eq!(owed, expected_reply_ids(&bytes));
    }
}
