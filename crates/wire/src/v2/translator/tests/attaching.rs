//! A client that attaches at any instant ends with the same view as one that was there from the
//! beginning.

use std::collections::BTreeSet;

use domain::SessionState;

use super::*;

/// What a client knows of a session, from the updates that it has received.
#[derive(Clone, Debug, PartialEq)]
struct View {
    messages: BTreeMap<String, String>,
    /// The title and the status of each call.
    calls: BTreeMap<String, (String, String)>,
    /// The calls and the terminals that the client may end.
    cancellable: BTreeSet<String>,
    terminals: BTreeMap<String, Terminal>,
    state: Value,
    background: Value,
    questions: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Terminal {
    output: Vec<u8>,
    has_exited: bool,
}

impl View {
    fn new() -> Self {
        Self {
            messages: BTreeMap::new(),
            calls: BTreeMap::new(),
            cancellable: BTreeSet::new(),
            terminals: BTreeMap::new(),
            state: json!("idle"),
            background: json!([]),
            questions: BTreeSet::new(),
        }
    }

    fn receive(&mut self, outbound: Vec<Outbound>) {
        for outbound in outbound {
            match outbound {
                Outbound::Update(message) => self.update(&update(&message)),
                Outbound::Ask { question, .. } => drop(self.questions.insert(question.to_string())),
                Outbound::Settled { question } => drop(self.questions.remove(question.as_str())),
                Outbound::Inserted { .. } | Outbound::Answer { .. } | Outbound::TurnOver { .. } => {}
            }
        }
    }

    fn update(&mut self, update: &Value) {
        let decoded = |data: &Value| STANDARD.decode(data.as_str().unwrap()).unwrap();
        let message = text(&update["messageId"]);
        if let Some(capabilities) = update.get("capabilities") {
            let work = format!("{}{}", update["toolCallId"], update["terminalId"]);
            match capabilities["cancel"].is_object() {
                true => drop(self.cancellable.insert(work)),
                false => drop(self.cancellable.remove(&work)),
            }
        }
        match update["sessionUpdate"].as_str().unwrap() {
            "user_message" | "agent_message" => drop(self.messages.insert(message, texts(&update["content"]))),
            "agent_message_chunk" | "agent_thought_chunk" => {
                self.messages.entry(message).or_default().push_str(&text(&update["content"]["text"]));
            }
            "tool_call_update" => {
                let call = self.calls.entry(text(&update["toolCallId"])).or_default();
                for (known, field) in [(&mut call.0, "title"), (&mut call.1, "status")] {
                    if let Some(new) = update[field].as_str() {
                        *known = new.to_owned();
                    }
                }
            }
            "terminal_update" => {
                let terminal = self.terminals.entry(text(&update["terminalId"])).or_default();
                if update["output"].is_object() {
                    terminal.output = decoded(&update["output"]["data"]);
                }
                terminal.has_exited |= update["exitStatus"].is_object();
            }
            "terminal_output_chunk" => {
                self.terminals.entry(text(&update["terminalId"])).or_default().output.extend(decoded(&update["data"]));
            }
            "state_update" => {
                (self.state, self.background) = (update["state"].clone(), update["background"].clone());
                for work in self.background.as_array().unwrap() {
                    let terminal = self.terminals.get(&text(&work["terminalId"]));
                    let call = self.calls.get(&text(&work["toolCallId"]));
                    let is_known = terminal.is_some_and(|terminal| !terminal.has_exited)
                        || call.is_some_and(|(_, status)| ["in_progress", "paused"].contains(&status.as_str()));
                    assert!(is_known, "{work} was not announced, or has ended");
                }
            }
            _ => {}
        }
    }
}

/// The start of a translator for a client that attaches now and starts at `next`.
fn attach_at(state: &SessionState, next: u64) -> TranslatorStart {
    let head = state.head.number;
    TranslatorStart {
        next,
        own_from: head + 1,
        turn: state.open.turn.clone().filter(|turn| turn.number < next),
        background: state.open.background.clone().into_iter().filter(|(_, work)| work.since < next).collect(),
        open_calls: state.open.shown_calls().collect(),
        delegated: state.delegated.clone(),
        open_questions: state.open.questions.clone(),
        ..attach(head)
    }
}

fn from_the_beginning(events: &[Event]) -> View {
    let (mut view, mut translator) = (View::new(), Translator::new(attach(0)));
    events.iter().for_each(|event| view.receive(translator.translate(event)));
    view
}

/// The view of a client that attaches after `before`, with or without the history.
fn later(before: &[Event], after: &[Event], replays: bool) -> View {
    let mut state = SessionState::new("s".into());
    before.iter().for_each(|event| state.apply(event));
    let next = if replays { 1 } else { state.head.number + 1 };
    let (mut view, mut translator) = (View::new(), Translator::new(attach_at(&state, next)));
    let replayed = if replays { before } else { &[] };
    replayed.iter().for_each(|event| view.receive(translator.translate(event)));
    translator.preface().iter().for_each(|message| view.update(&update(message)));
    view.receive(translator.catch_up(PriorView::Nothing, next));
    after.iter().for_each(|event| view.receive(translator.translate(event)));
    view
}

fn agent() -> ToolCard {
    ToolCard {
        tool: domain::tool::AGENT.to_owned(),
        title: "Delegate".to_owned(),
        kind: ToolKind::Execute,
        locations: vec![],
        input: json!({ "task": "look" }),
        preview: vec![],
        access: Access::Ask { always: None },
    }
}

/// Pieces with work in the background, calls of sub-agents, and calls that wait for the user.
pub(super) fn nested() -> impl Strategy<Value = Vec<EventKind>> {
    let left = |handle: &str| Outcome { background: Some(handle.to_owned()), ..Outcome::completed("Started.") };
    let shell = (0..100_u32, "[a-z]{0,4}", any::<bool>()).prop_map(move |(id, output, ends)| {
        let (call, handle) = (format!("shell{id}"), format!("bg{id}"));
        let mut kinds = vec![called(&call, bash("serve")), tool_started(&call), tool_ended(&call, left(&handle))];
        kinds.push(EventKind::BackgroundOutput { handle: handle.clone(), text: output });
        if ends {
            kinds.push(EventKind::BackgroundEnded { handle, exit_code: Some(0), signal: None });
        }
        kinds
    });
    let delegated = (0..100_u32, any::<bool>(), any::<bool>()).prop_map(move |(id, in_background, is_asked)| {
        let (outer, inner, handle) = (format!("agent{id}"), format!("inner{id}"), format!("agent-{id}"));
        let mut kinds = vec![called(&outer, agent()), tool_started(&outer)];
        if in_background {
            kinds.push(tool_ended(&outer, left(&handle)));
        }
        kinds.extend([
            EventKind::Delegated { call: inner.as_str().into(), within: outer.as_str().into() },
            called(&inner, edit()),
        ]);
        match is_asked {
            true => kinds.extend([asked(&inner), answered(&inner), tool_started(&inner)]),
            false => kinds.extend([tool_started(&inner), paused(&inner), resumed(&inner)]),
        }
        kinds.push(tool_ended(&inner, Outcome::completed("ok")));
        kinds.push(match in_background {
            true => EventKind::BackgroundEnded { handle, exit_code: Some(0), signal: None },
            false => tool_ended(&outer, Outcome::completed("reported")),
        });
        kinds
    });
    let waiting = (0..100_u32, any::<bool>()).prop_map(|(id, resumes)| {
        let call = format!("form{id}");
        let mut kinds = vec![called(&call, edit()), tool_started(&call), paused(&call)];
        kinds.extend(resumes.then(|| resumed(&call)));
        kinds.push(tool_ended(&call, Outcome::completed("filled in")));
        kinds
    });
    prop_oneof![shell, delegated, waiting]
}

fn paused(call: &str) -> EventKind {
    EventKind::CallPaused { call: call.into() }
}

fn resumed(call: &str) -> EventKind {
    EventKind::CallResumed { call: call.into() }
}

/// The events of these pieces. Pieces with a call id that is already used are dropped.
pub(super) fn distinct(pieces: Vec<Vec<EventKind>>, used: &mut BTreeSet<String>) -> Vec<EventKind> {
    let mut kinds = Vec::new();
    for piece in pieces {
        let calls: Vec<String> = piece
            .iter()
            .filter_map(|kind| match kind {
                EventKind::ToolCalled { call, .. } => Some(call.to_string()),
                _ => None,
            })
            .collect();
        if calls.iter().all(|call| used.insert(call.clone())) {
            kinds.extend(piece);
        }
    }
    kinds
}

proptest! {
    // Each case validates every message three times.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_client_that_attaches_at_any_instant_ends_with_the_same_view(
        pieces in proptest::collection::vec(prop_oneof![piece(), nested()], 0..8),
        (end, at) in (any::<proptest::sample::Index>(), any::<proptest::sample::Index>()),
    ) {
        let mut kinds = vec![started(), user("u", "go")];
        kinds.extend(distinct(pieces, &mut BTreeSet::new()));
        kinds.push(ended(StopReason::EndTurn));
        let events = log(kinds);
        let events = &events[..end.index(events.len() + 1)];
        let (before, after) = events.split_at(at.index(events.len() + 1));
        let first = from_the_beginning(events);
        prop_assert_eq!(&later(before, after, true), &first);
        // Without the history the rest is the same: the state, the questions, and every call and
        // terminal that is open.
        let blind = later(before, after, false);
        prop_assert_eq!((&blind.state, &blind.background), (&first.state, &first.background));
        prop_assert_eq!(&blind.questions, &first.questions);
        prop_assert_eq!(&blind.cancellable, &first.cancellable);
        for (id, call) in &first.calls {
            let is_open = ["pending", "in_progress", "paused"].contains(&call.1.as_str());
            prop_assert!(blind.calls.get(id) == Some(call) || (!is_open && !blind.calls.contains_key(id)), "{} {:?}", id, call);
        }
        for (id, terminal) in first.terminals.iter().filter(|(_, terminal)| !terminal.has_exited) {
            prop_assert!(blind.terminals.get(id).is_some_and(|known| !known.has_exited), "{} {:?}", id, terminal);
        }
    }
}

#[test]
fn a_call_that_waits_for_the_user_is_paused_and_the_turn_with_it() {
    let mut kinds = vec![started(), user("u", "go"), called("a", edit()), tool_started("a"), paused("a")];
    let view = from_the_beginning(&log(kinds.clone()));
    assert_eq!((view.calls["a"].1.as_str(), &view.state), ("paused", &json!("requires_action")));
    // Another call that works keeps the turn running.
    kinds.extend([called("b", edit()), tool_started("b")]);
    let view = from_the_beginning(&log(kinds.clone()));
    assert_eq!((view.calls["a"].1.as_str(), &view.state), ("paused", &json!("running")));
    kinds.extend([tool_ended("b", Outcome::completed("")), resumed("a")]);
    let view = from_the_beginning(&log(kinds));
    assert_eq!((view.calls["a"].1.as_str(), &view.state), ("in_progress", &json!("running")));
}

#[test]
fn a_question_of_one_sub_agent_does_not_block_the_turn_while_another_works() {
    let mut kinds = vec![started(), user("u", "both")];
    for name in ["one", "two"] {
        kinds.extend([called(name, agent()), tool_started(name)]);
    }
    let delegated = |call: &str, within: &str| EventKind::Delegated { call: call.into(), within: within.into() };
    kinds.extend([delegated("a", "one"), called("a", edit()), asked("a")]);
    let view = from_the_beginning(&log(kinds.clone()));
    assert_eq!((view.calls["one"].1.as_str(), view.calls["two"].1.as_str()), ("paused", "in_progress"));
    assert_eq!(view.state, "running");
    kinds.extend([delegated("b", "two"), called("b", edit()), asked("b")]);
    let view = from_the_beginning(&log(kinds.clone()));
    assert_eq!((view.calls["two"].1.as_str(), &view.state), ("paused", &json!("requires_action")));
    kinds.extend([answered("a"), tool_started("a")]);
    let view = from_the_beginning(&log(kinds));
    assert_eq!((view.calls["one"].1.as_str(), &view.state), ("in_progress", &json!("running")));
}
