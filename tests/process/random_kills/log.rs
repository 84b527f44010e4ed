//! Checks the log of a session after a kill and the repair against what a client received.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::Memory;

#[derive(Default)]
pub(super) struct Tally {
    pub(super) events: usize,
    /// Prompts that were answered.
    pub(super) acknowledged: usize,
    /// Prompts that were sent and not answered.
    pub(super) under_way: usize,
    /// Unanswered prompts that are in the log with an end.
    pub(super) interrupted: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.events += more.events;
        self.acknowledged += more.acknowledged;
        self.under_way += more.under_way;
        self.interrupted += more.interrupted;
    }
}

/// A turn in the log.
#[derive(Default)]
struct Turn {
    asked: String,
    said: String,
    started: Vec<String>,
    reason: Option<Value>,
}

/// `effects` is the file to which each prompt's command adds its word.
pub(super) fn check(memory: &Memory, exported: &str, effects: &str) -> Tally {
    let events: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    check_numbers(&events);
    let (turns, calls) = fold(&events);
    for (call, status) in &memory.calls {
        let verdict = calls.get(call).unwrap_or_else(|| panic!("the call {call} was shown and is gone"));
        if status == "completed" {
            assert_eq!(verdict, "completed", "the outcome of {call} was shown and is gone");
        }
    }
    let mut tally = Tally { events: events.len(), ..Tally::default() };
    let mut rest = turns.iter();
    for sent in &memory.sent {
        let is_its = |turn: &&Turn| turn.asked.contains(&sent.word);
        assert!(turns.iter().filter(is_its).count() <= 1, "{} is there twice", sent.word);
        let effects = effects.matches(&sent.word).count();
        match sent.answered {
            true => tally.acknowledged += 1,
            false => tally.under_way += 1,
        }
        // Prompts are in the log in the order in which they were sent, so the search continues
        // where the last one ended.
        let Some(turn) = turns.iter().find(is_its).map(|_| rest.find(is_its).expect("the order is valid")) else {
            assert!(!sent.answered, "{} was answered and is gone", sent.word);
            assert_eq!(effects, 0, "{} had an effect and no record", sent.word);
            continue;
        };
        assert!(effects <= turn.started.len(), "{} had an effect and no record of it", sent.word);
        let reason = turn.reason.as_ref().unwrap_or_else(|| panic!("the turn of {} has no end", sent.word));
        if sent.answered {
            assert_eq!((reason, effects), (&Value::from("end_turn"), 1), "{}", sent.word);
            assert_eq!(turn.said, sent.received, "{}", sent.word);
        } else if reason == "interrupted" {
            tally.interrupted += 1;
        } else {
            // The turn ended, but its answer was lost.
            assert_eq!((reason, effects), (&Value::from("end_turn"), 1), "{}", sent.word);
        }
    }
    assert_eq!(turns.iter().filter(|turn| turn.reason.is_none()).count(), 0, "a turn has no end");
    assert!(calls.values().all(|verdict| verdict != "open"), "a call is open: {calls:?}");
    tally
}

/// Checks that numbers grow by one, and that a new life begins with `reopened`.
fn check_numbers(events: &[Value]) {
    let mut life = 1;
    for (event, number) in events.iter().zip(1_u64..) {
        assert_eq!(event["number"], number, "a gap or a repetition");
        if event["life"] != life {
            life += 1;
            assert_eq!((&event["life"], &event["event"]), (&Value::from(life), &Value::from("reopened")));
        }
    }
    assert_eq!(events[0]["event"], "created");
}

/// Returns the turns in order, and the outcome of each call.
fn fold(events: &[Value]) -> (Vec<Turn>, BTreeMap<String, String>) {
    let mut turns: Vec<Turn> = Vec::new();
    let mut calls = BTreeMap::new();
    for event in events {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        match event["event"].as_str().unwrap() {
            "turn_started" => {
                assert!(turns.last().is_none_or(|turn| turn.reason.is_some()), "two turns at a time");
                turns.push(Turn::default());
            }
            "user_message" => turns.last_mut().unwrap().asked = event["content"].to_string(),
            "agent_text" => turns.last_mut().unwrap().said.push_str(event["text"].as_str().unwrap()),
            "tool_called" => {
                assert_eq!(calls.insert(text("call"), "open".to_owned()), None, "a call is there twice");
            }
            "tool_started" => {
                assert_eq!(calls[&text("call")], "open");
                turns.last_mut().unwrap().started.push(text("call"));
            }
            "tool_ended" => {
                let verdict = event["outcome"]["verdict"].as_str().unwrap().to_owned();
                assert_eq!(calls.insert(text("call"), verdict).as_deref(), Some("open"), "a call ends twice");
            }
            "turn_ended" => {
                let turn = turns.last_mut().unwrap();
                assert_eq!(turn.reason.replace(event["reason"].clone()), None, "a turn ends twice");
            }
            _ => {}
        }
    }
    (turns, calls)
}
