//! Counts turns, tool calls and permission answers in a session's log. Pure.

use std::collections::{BTreeMap, HashMap};

use domain::tool::OutcomeKind;
use domain::{CallId, Decision, Event, EventKind};
use serde::Serialize;

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStats {
    /// The number of turns, by how they ended.
    turns: BTreeMap<String, u64>,
    tools: BTreeMap<String, Calls>,
    asked: u64,
    allowed: u64,
    rejected: u64,
    #[serde(skip)]
    open: HashMap<CallId, String>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Calls {
    calls: u64,
    /// The number of calls that failed or were denied, cancelled or interrupted.
    failed: u64,
}

impl SessionStats {
    pub fn add(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ToolCalled { call, card, .. } => {
                self.tools.entry(card.tool.clone()).or_default().calls += 1;
                self.open.insert(call.clone(), card.tool.clone());
            }
            EventKind::ToolEnded { call, outcome } => {
                if let Some(tool) = self.open.remove(call)
                    && outcome.verdict != OutcomeKind::Completed
                {
                    self.tools.entry(tool).or_default().failed += 1;
                }
            }
            EventKind::PermissionAsked { .. } => self.asked += 1,
            EventKind::PermissionAnswered { decision: Decision::Chose(choice), .. } => {
                *(if choice.allows() { &mut self.allowed } else { &mut self.rejected }) += 1;
            }
            EventKind::TurnEnded { reason, .. } => *self.turns.entry(reason.name().to_owned()).or_default() += 1,
            _ => {}
        }
    }

    /// Formats the turns, such as `3 turns (1 cancelled)`.
    pub fn turns(&self) -> String {
        let all: u64 = self.turns.values().sum();
        let other = self.turns.iter().filter(|(reason, _)| *reason != "end_turn");
        let other: Vec<String> = other.map(|(reason, count)| format!("{count} {}", reason.replace('_', " "))).collect();
        let other = if other.is_empty() { String::new() } else { format!(" ({})", other.join(", ")) };
        format!("{all} {}{other}", if all == 1 { "turn" } else { "turns" })
    }

    /// Formats the tool calls, such as `bash 2 (1 failed), read_file 5`.
    pub fn tools(&self) -> String {
        let each = self.tools.iter().map(|(name, Calls { calls, failed })| match failed {
            0 => format!("{name} {calls}"),
            _ => format!("{name} {calls} ({failed} failed)"),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    pub fn permissions(&self) -> String {
        match self.asked {
            0 => "never asked".to_owned(),
            asked => format!("asked {asked}: {} allowed, {} rejected", self.allowed, self.rejected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_answers_and_turns_are_counted() {
        let log = r#"
            {"event":"tool_called","call":"a","message":"m","card":{"tool":"bash","title":"x","kind":"execute","input":{},"access":"free"}}
            {"event":"permission_asked","question":{"id":"q","call":"a"}}
            {"event":"permission_answered","question":"q","call":"a","decision":{"chose":"allow_once"},"by":"me"}
            {"event":"tool_ended","call":"a","outcome":{"verdict":"failed","text":"no"}}
            {"event":"tool_called","call":"b","message":"m","card":{"tool":"read_file","title":"x","kind":"read","input":{},"access":"free"}}
            {"event":"tool_ended","call":"b","outcome":{"verdict":"completed","text":"yes"}}
            {"event":"turn_ended","turn":"t","reason":"end_turn","usage":{"input":1,"output":1}}
            {"event":"turn_ended","turn":"u","reason":"cancelled","usage":{"input":1,"output":1}}"#;
        let mut stats = SessionStats::default();
        for (line, number) in log.lines().filter(|line| !line.trim().is_empty()).zip(1..) {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            (event["life"], event["number"], event["at"]) = (1.into(), number.into(), 0.into());
            stats.add(&serde_json::from_value(event).unwrap());
        }
        assert_eq!(stats.turns(), "2 turns (1 cancelled)");
        assert_eq!(stats.tools(), "bash 1 (1 failed), read_file 1");
        assert_eq!(stats.permissions(), "asked 1: 1 allowed, 0 rejected");
    }
}
