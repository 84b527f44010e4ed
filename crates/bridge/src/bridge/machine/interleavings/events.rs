//! The events that the property test arranges in any order, and the editor's messages.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Editor(Message),
    /// The daemon answers one of the requests that it has.
    Answer(Index),
    /// The daemon reports an event of a session.
    Update(&'static str),
    /// The daemon asks the editor something.
    Ask,
    /// The editor answers a question, possibly one of a daemon that is gone.
    Reply(Index),
    /// The daemon writes an invalid message, or an answer without a request.
    Rubbish(&'static str),
    Goodbye,
    /// The connection is dead, but the bridge has not noticed: everything that is sent is lost.
    Break,
    /// The daemon dies after recording some of the prompts that it has received.
    Die {
        recorded: Vec<bool>,
        is_final: bool,
        too_often: bool,
    },
    /// One of the `SendAll` effects in progress is done.
    Sent,
    Connect(Attempt),
    ResumeTimeout,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Attempt {
    Up { frame_limit: Option<usize> },
    Late,
    Fail,
}

/// A message that the editor writes.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A message with its own id, which can be written in several ways.
    Request {
        spelling: usize,
        method: &'static str,
        session: &'static str,
    },
    Notification {
        method: &'static str,
        session: &'static str,
    },
    /// Withdraws one of the earlier requests.
    Withdrawal(Index),
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

const RUBBISH: [&str; 7] = [
    "{",
    "[]",
    "5",
    "{}",
    r#"{"method":5}"#,
    r#"{"id":"unknown","result":1}"#,
    r#"{"id":"acpd-bridge//999","result":{"pending":7}}"#,
];

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
            .prop_map(|(spelling, method, session)| Message::Request { spelling, method, session }),
        2 => (select(&METHODS[..]), select(&SESSIONS[..]))
            .prop_map(|(method, session)| Message::Notification { method, session }),
        2 => any::<Index>().prop_map(Message::Withdrawal),
        1 => odd.prop_map(|text| Message::Bytes(text.into())),
        1 => vec(any::<u8>(), 1..30).prop_map(Message::Bytes),
    ]
}

/// Generates the events in the life of one open session, which random steps reach too rarely:
/// prompts and their cancellation, deaths that lose them, goodbyes, and sessions that take long to
/// come back.
pub(super) fn session_step() -> impl Strategy<Value = Step> {
    let prompt = Message::Request { spelling: 0, method: r#""session/prompt""#, session: r#""s1""# };
    let mode = Message::Request { spelling: 0, method: r#""session/set_mode""#, session: r#""s1""# };
    let cancel = Message::Notification { method: r#""session/cancel""#, session: r#""s1""# };
    prop_oneof![
        6 => Just(Step::Editor(prompt)),
        3 => Just(Step::Editor(mode)),
        3 => Just(Step::Editor(cancel)),
        1 => any::<Index>().prop_map(|which| Step::Editor(Message::Withdrawal(which))),
        3 => any::<Index>().prop_map(Step::Answer),
        1 => Just(Step::Goodbye),
        2 => (vec(any::<bool>(), 1..4), prop_oneof![3 => Just(true), 1 => Just(false)])
            .prop_map(|(recorded, is_final)| Step::Die { recorded, is_final, too_often: false }),
        4 => Just(Step::Sent),
        4 => Just(Step::Connect(Attempt::Up { frame_limit: None })),
        2 => Just(Step::ResumeTimeout),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let limits = select(vec![None, None, None, Some(90)]);
    prop_oneof![
        12 => message().prop_map(Step::Editor),
        7 => any::<Index>().prop_map(Step::Answer),
        2 => select(vec!["s1", "s2"]).prop_map(Step::Update),
        1 => Just(Step::Ask),
        1 => any::<Index>().prop_map(Step::Reply),
        1 => select(&RUBBISH[..]).prop_map(Step::Rubbish),
        1 => Just(Step::Goodbye),
        1 => Just(Step::Break),
        2 => (vec(any::<bool>(), 1..4), any::<bool>(), any::<bool>())
            .prop_map(|(recorded, is_final, often)| Step::Die { recorded, is_final, too_often: often && is_final }),
        6 => Just(Step::Sent),
        5 => limits.prop_map(|frame_limit| Step::Connect(Attempt::Up { frame_limit })),
        1 => Just(Step::Connect(Attempt::Late)),
        1 => Just(Step::Connect(Attempt::Fail)),
        1 => Just(Step::ResumeTimeout),
    ]
}
