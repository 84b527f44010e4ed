//! For any log, version 1 and version 2 tell the same story, in the same order.

use std::collections::BTreeSet;

use super::*;
use crate::v1;

/// What a log tells, in its order: what was said by whom, which calls there were and how they
/// ended, what was asked, planned and configured, and how each turn ended.
#[derive(Debug, Default, PartialEq)]
struct Story {
    entries: Vec<StoryEntry>,
    known: BTreeSet<String>,
    /// Whether the last state of version 2 says that a turn runs.
    runs: bool,
}

#[derive(Debug, PartialEq)]
enum StoryEntry {
    Said {
        who: &'static str,
        text: String,
    },
    Called {
        call: String,
        title: String,
    },
    Ended {
        call: String,
        well: bool,
        output: String,
    },
    Asked(String),
    Planned(Value),
    Mode(Value),
    Over(String),
    /// A notice, a part of a compaction or a title, which both versions write alike.
    Alike(Value),
}

impl Story {
    fn say(&mut self, who: &'static str, text: &str) {
        match self.entries.last_mut() {
            Some(StoryEntry::Said { who: speaker, text: before }) if *speaker == who => before.push_str(text),
            Some(_) | None => self.entries.push(StoryEntry::Said { who, text: text.to_owned() }),
        }
    }

    fn call(&mut self, update: &Value) {
        let (call, title) = (text(&update["toolCallId"]), text(&update["title"]));
        if self.known.insert(call.clone()) {
            self.entries.push(StoryEntry::Called { call, title });
        }
    }

    /// Exactly one update of a call has its raw output: that with its outcome.
    fn outcome(&mut self, update: &Value) {
        if let Some(output) = update.get("rawOutput") {
            let well = !["failed", "cancelled"].contains(&text(&update["status"]).as_str());
            self.entries.push(StoryEntry::Ended {
                call: text(&update["toolCallId"]),
                well,
                output: text(&output["text"]),
            });
        }
    }

    fn configured(&mut self, options: &Value, id: &str) {
        let mode = options.as_array().unwrap().iter().find(|option| option[id] == "mode").unwrap();
        self.entries.push(StoryEntry::Mode(mode["currentValue"].clone()));
    }
}

/// Reads the story that version 1 tells.
fn first(events: &[Event]) -> Story {
    let mut translator = v1::translator::Translator::new(TranslatorStart {
        viewer: Viewer { connection: "another".into(), ..attach(0).viewer },
        ..attach(0)
    });
    let mut story = Story::default();
    for said in events.iter().flat_map(|event| translator.translate(event)) {
        match said {
            Outbound::Update(message) => {
                let message: Value = serde_json::from_slice(&message).unwrap();
                let update = &message["params"]["update"];
                match update["sessionUpdate"].as_str().unwrap() {
                    "user_message_chunk" => story.say("user", update["content"]["text"].as_str().unwrap()),
                    "agent_message_chunk" => story.say("agent", update["content"]["text"].as_str().unwrap()),
                    "agent_thought_chunk" => story.say("thought", update["content"]["text"].as_str().unwrap()),
                    "tool_call" => story.call(update),
                    "tool_call_update" => story.outcome(update),
                    "plan" => story.entries.push(StoryEntry::Planned(update["entries"].clone())),
                    "config_option_update" => story.configured(&update["configOptions"], "id"),
                    "notice" | "compaction_update" | "compaction_summary_chunk" | "session_info_update" => {
                        story.entries.push(StoryEntry::Alike(update.clone()));
                    }
                    _ => {}
                }
            }
            Outbound::Ask { question, .. } => story.entries.push(StoryEntry::Asked(question.to_string())),
            Outbound::Answer { answer: Ok(answer), .. } => {
                story.entries.push(StoryEntry::Over(text(&answer["stopReason"])))
            }
            _ => {}
        }
    }
    story
}

/// Reads the story that version 2 tells, as a client would: upserts replace, and chunks append.
fn second(events: &[Event]) -> Story {
    let mut translator = Translator::new(attach(0));
    let mut story = Story::default();
    let mut terminals: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for said in events.iter().flat_map(|event| translator.translate(event)) {
        match said {
            Outbound::Update(message) => {
                let update = update(&message);
                let terminal = text(&update["terminalId"]);
                match update["sessionUpdate"].as_str().unwrap() {
                    "user_message" => story.say("user", &texts(&update["content"])),
                    "agent_message" => story.say("agent", &texts(&update["content"])),
                    "agent_message_chunk" => story.say("agent", update["content"]["text"].as_str().unwrap()),
                    "agent_thought_chunk" => story.say("thought", update["content"]["text"].as_str().unwrap()),
                    "terminal_output_chunk" => {
                        let more = STANDARD.decode(update["data"].as_str().unwrap()).unwrap();
                        terminals.entry(terminal).or_default().extend(more);
                    }
                    "terminal_update" => {
                        if let Some(data) = update["output"]["data"].as_str() {
                            terminals.insert(terminal, STANDARD.decode(data).unwrap());
                        }
                    }
                    "tool_call_update" => {
                        story.call(&update);
                        // A command that goes on in the background has no output yet.
                        if update["content"][0]["type"] == "terminal" && update["content"][1].is_null() {
                            let shown = terminals.get(&text(&update["toolCallId"])).cloned().unwrap_or_default();
                            let output = text(&update["rawOutput"]["text"]);
                            assert!(update["status"] == "in_progress" || shown == output.as_bytes(), "{update}");
                        }
                        story.outcome(&update);
                    }
                    "plan_update" => story.entries.push(StoryEntry::Planned(update["plan"]["entries"].clone())),
                    "config_option_update" => story.configured(&update["configOptions"], "configId"),
                    "state_update" if !update["stopReason"].is_null() && story.runs => {
                        story.runs = false;
                        story.entries.push(StoryEntry::Over(text(&update["stopReason"])));
                    }
                    "state_update" => story.runs |= update["state"] == "running",
                    "notice" | "compaction_update" | "compaction_summary_chunk" | "session_info_update" => {
                        story.entries.push(StoryEntry::Alike(update.clone()));
                    }
                    _ => {}
                }
            }
            Outbound::Ask { question, .. } => story.entries.push(StoryEntry::Asked(question.to_string())),
            _ => {}
        }
    }
    story
}

proptest! {
    #[test]
    fn both_protocol_versions_show_the_same_conversation(
        turns in proptest::collection::vec((proptest::collection::vec(prop_oneof![piece(), super::attaching::nested()], 0..8), reason()), 1..4),
    ) {
        let mut used = BTreeSet::new();
        let turn = |(pieces, reason): (Vec<Vec<EventKind>>, StopReason)| {
            let begin = [started(), user("u", "go")];
            begin.into_iter().chain(super::attaching::distinct(pieces, &mut used)).chain([ended(reason)]).collect::<Vec<_>>()
        };
        let events = log(turns.into_iter().flat_map(turn).collect());
        prop_assert_eq!(first(&events).entries, second(&events).entries);
    }
}

/// A stop reason that both versions report alike.
fn reason() -> impl Strategy<Value = StopReason> {
    proptest::sample::select(vec![
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::MaxTurnRequests,
        StopReason::Refusal,
        StopReason::Cancelled,
    ])
}
