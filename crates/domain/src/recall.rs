//! Searches a session's log for what a model no longer sees. Pure: the caller reads the log and
//! feeds the events.
//!
//! The main conversation finds what was said and its own calls. A sub-agent finds only its own
//! calls, because its words are not in the log and the main conversation is not its own. Either can
//! get any call's outcome by the call's id, which replaces an outcome that was cleared.

use std::collections::{BTreeMap, VecDeque};

use crate::budget::BUDGET;
use crate::text::cut;
use crate::{CallId, Content, Event, EventKind, MessageId, Outcome, ToolCard, ToolContent};

/// The maximum number of matches shown. The newest are kept.
const MATCHES: usize = 20;

/// The number of characters shown before and after a match.
const CONTEXT_CHARS: usize = 240;

/// The maximum number of bytes of an outcome shown at once.
const PAGE: usize = 24 << 10;

/// The name of the tool that searches.
pub const RECALL: &str = "recall";

/// What the model asks to see again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecallRequest {
    /// Everything that contains all of these words, whatever their case is.
    Search { words: Vec<String> },
    /// The outcome of a call, from this byte on.
    Result { call: CallId, offset: usize },
}

/// The conversation that searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecallReader {
    Main,
    /// The sub-agent that these calls started and continued.
    SubAgent {
        calls: Vec<CallId>,
    },
}

/// What the model sees again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recalled {
    pub text: String,
    /// The pictures of an outcome.
    pub images: Vec<ToolContent>,
}

/// A search in progress.
pub struct Recall {
    request: RecallRequest,
    reader: RecallReader,
    /// The text that is being streamed, with its message.
    open: Option<(MessageId, String)>,
    /// The titles of the reader's calls, but not of calls of this tool.
    calls: BTreeMap<CallId, String>,
    /// The calls of sub-agents, and whether each is one of the reader.
    delegated: BTreeMap<CallId, bool>,
    found: VecDeque<String>,
    count: usize,
    outcome: Option<Recalled>,
}

impl Recall {
    pub fn new(request: RecallRequest, reader: RecallReader) -> Self {
        let request = match request {
            RecallRequest::Search { words } => {
                RecallRequest::Search { words: words.iter().map(|word| word.to_lowercase()).collect() }
            }
            result @ RecallRequest::Result { .. } => result,
        };
        Self {
            request,
            reader,
            open: None,
            calls: BTreeMap::new(),
            delegated: BTreeMap::new(),
            found: VecDeque::new(),
            count: 0,
            outcome: None,
        }
    }

    /// Takes the next event of the log.
    pub fn feed(&mut self, event: &Event) {
        if let EventKind::AgentText { message, text } = &event.kind {
            match &mut self.open {
                Some((open, so_far)) if open == message => return so_far.push_str(text),
                Some(_) | None => self.close(),
            }
            self.open = Some((message.clone(), text.clone()));
            return;
        }
        self.close();
        match &event.kind {
            EventKind::UserMessage { content, aside: false, .. } => {
                let text = content.iter().map(Content::as_text).collect::<Vec<_>>().join("\n");
                self.look_at_words("The user", &text);
            }
            EventKind::Delegated { call, within } => self.note_delegated(call, within),
            EventKind::ToolCalled { call, card, .. } => self.begin_call(call, card),
            EventKind::ToolEnded { call, outcome } => self.end_call(call, outcome),
            EventKind::Compacted { summary, .. } => self.look_at_words("A summary", summary),
            EventKind::UserMessage { aside: true, .. }
            | EventKind::Created { .. }
            | EventKind::Reopened
            | EventKind::TurnStarted { .. }
            | EventKind::AgentText { .. }
            | EventKind::AgentThought { .. }
            | EventKind::ResponseSealed { .. }
            | EventKind::CallBegun { .. }
            | EventKind::CallsRequested { .. }
            | EventKind::Abandoned { .. }
            | EventKind::PermissionAsked { .. }
            | EventKind::PermissionAnswered { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolProgressed { .. }
            | EventKind::CallPaused { .. }
            | EventKind::CallResumed { .. }
            | EventKind::BackgroundOutput { .. }
            | EventKind::BackgroundEnded { .. }
            | EventKind::Planned { .. }
            | EventKind::Configured { .. }
            | EventKind::Titled { .. }
            | EventKind::Used { .. }
            | EventKind::ResultsCleared { .. }
            | EventKind::Compacting { .. }
            | EventKind::PromptDropped { .. }
            | EventKind::Hosted { .. }
            | EventKind::Noticed { .. }
            | EventKind::Moved { .. }
            | EventKind::Restored { .. }
            | EventKind::TurnEnded { .. } => {}
        }
    }

    fn note_delegated(&mut self, call: &CallId, within: &CallId) {
        let is_own = match &self.reader {
            RecallReader::Main => false,
            RecallReader::SubAgent { calls } => calls.contains(within),
        };
        self.delegated.insert(call.clone(), is_own);
    }

    fn begin_call(&mut self, call: &CallId, card: &ToolCard) {
        if ![RECALL, BUDGET].contains(&card.tool.as_str()) && self.is_own(call) {
            self.look(&format!("Your call of {}", card.tool), &format!("{} {}", card.title, card.input));
            self.calls.insert(call.clone(), card.title.clone());
        }
    }

    /// Whether the reader made this call.
    fn is_own(&self, call: &CallId) -> bool {
        match (&self.reader, self.delegated.get(call)) {
            (RecallReader::Main, delegated) => delegated.is_none(),
            (RecallReader::SubAgent { .. }, delegated) => delegated == Some(&true),
        }
    }

    fn end_call(&mut self, call: &CallId, outcome: &Outcome) {
        if matches!(&self.request, RecallRequest::Result { call: wanted, .. } if wanted == call) {
            let images = outcome.content.iter().filter(|shown| matches!(shown, ToolContent::Image { .. }));
            self.outcome = Some(Recalled { text: outcome.text.clone(), images: images.cloned().collect() });
        }
        // A call that is not known is one of this tool or of another conversation.
        if let Some(title) = self.calls.remove(call) {
            self.look(&format!("The outcome of \"{}\" (`result` = `{call}`)", cut(&title, 80)), &outcome.text);
        }
    }

    fn close(&mut self) {
        if let Some((_, text)) = self.open.take() {
            self.look_at_words("You", &text);
        }
    }

    /// Searches a message, which is one of the main conversation.
    fn look_at_words(&mut self, who: &str, text: &str) {
        match self.reader {
            RecallReader::Main => self.look(who, text),
            RecallReader::SubAgent { .. } => {}
        }
    }

    fn look(&mut self, who: &str, text: &str) {
        let RecallRequest::Search { words } = &self.request else { return };
        let lower = text.to_lowercase();
        let Some(at) = words.first().and_then(|word| lower.find(word.as_str())) else { return };
        if !words.iter().all(|word| lower.contains(word.as_str())) {
            return;
        }
        // The position in the lower-case text is close enough to that in the original for an
        // excerpt.
        let at = text.floor_char_boundary(at.min(text.len()));
        let start = text[..at].char_indices().rev().nth(CONTEXT_CHARS).map_or(0, |(start, _)| start);
        let end = text[at..].char_indices().nth(CONTEXT_CHARS).map_or(text.len(), |(end, _)| at + end);
        let (before, after) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
        self.count += 1;
        self.found.push_back(format!("{who}:\n{before}{}{after}", text[start..end].trim()));
        if self.found.len() > MATCHES {
            self.found.pop_front();
        }
    }

    /// Returns what the model sees, or why there is nothing.
    pub fn finish(mut self) -> Result<Recalled, String> {
        self.close();
        match self.request {
            RecallRequest::Search { words } if self.count == 0 => {
                let place = match self.reader {
                    RecallReader::Main => "nothing in this session",
                    RecallReader::SubAgent { .. } => "no call of this sub-agent, which is all that it can search,",
                };
                Err(format!("{place} contains {}", words.join(" and ")))
            }
            RecallRequest::Search { .. } => {
                let found = self.found.make_contiguous().join("\n\n");
                let left_out = self.count - self.found.len();
                let note =
                    if left_out > 0 { format!("[{left_out} older matches are left out]\n\n") } else { String::new() };
                Ok(Recalled { text: format!("{note}{found}"), images: Vec::new() })
            }
            RecallRequest::Result { call, offset } => {
                let Recalled { text, images } =
                    self.outcome.ok_or_else(|| format!("there is no call `{call}` with an outcome in this session"))?;
                let start = text.ceil_char_boundary(offset.min(text.len()));
                let end = text.floor_char_boundary(start.saturating_add(PAGE).min(text.len()));
                let rest = text.len() - end;
                let mut page = text[start..end].to_owned();
                if rest > 0 {
                    page.push_str(&format!("\n[{rest} bytes follow; go on with `offset` {end}]"));
                }
                let is_first = start == 0;
                Ok(Recalled { text: page, images: if is_first { images } else { Vec::new() } })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recall(request: RecallRequest, events: &[Value]) -> Result<String, String> {
        recall_of(RecallReader::Main, request, events).map(|recalled| recalled.text)
    }

    fn recall_of(reader: RecallReader, request: RecallRequest, events: &[Value]) -> Result<Recalled, String> {
        let mut recall = Recall::new(request, reader);
        for (number, event) in (1..).zip(events) {
            let mut event = event.clone();
            event["life"] = json!(1);
            event["number"] = json!(number);
            event["at"] = json!(0);
            recall.feed(&serde_json::from_value(event).unwrap());
        }
        recall.finish()
    }

    fn search(words: &str) -> RecallRequest {
        RecallRequest::Search { words: words.split(' ').map(str::to_owned).collect() }
    }

    fn log() -> Vec<Value> {
        let called = |call: &str, tool: &str| {
            json!({ "event": "tool_called", "call": call, "message": "m", "card": {
                "tool": tool, "kind": "read", "title": format!("Run {call}"), "input": { "x": "Token" }, "access": "free" } })
        };
        let ended = |call: &str, text: &str| json!({ "event": "tool_ended", "call": call, "outcome": { "verdict": "completed", "text": text } });
        vec![
            json!({ "event": "user_message", "turn": "t", "message": "u", "content": [{ "type": "text", "text": "The port is 8080" }] }),
            json!({ "event": "agent_text", "message": "a", "text": "I chose the po" }),
            json!({ "event": "agent_text", "message": "a", "text": "rt 9090." }),
            called("c1", "bash"),
            ended("c1", "listening on PORT 9090"),
            json!({ "event": "delegated", "call": "c2", "within": "c0" }),
            called("c2", "bash"),
            ended("c2", "port of a sub-agent"),
            called("c3", "recall"),
            ended("c3", "port found before"),
        ]
    }

    #[test]
    fn everything_with_all_words_is_found_in_its_order() {
        let found = recall(search("port"), &log()).unwrap();
        assert_eq!(
            found,
            "The user:\nThe port is 8080\n\nYou:\nI chose the port 9090.\n\nThe outcome of \"Run c1\" (`result` = `c1`):\n\
             listening on PORT 9090"
        );
        assert_eq!(recall(search("9090 port"), &log()).unwrap().matches("9090").count(), 2);
        assert_eq!(recall(search("token"), &log()).unwrap(), "Your call of bash:\nRun c1 {\"x\":\"Token\"}");
        assert!(recall(search("nowhere port"), &log()).is_err());
    }

    #[test]
    fn a_sub_agent_finds_its_own_calls_and_nothing_else() {
        let own = |words: &str| {
            let reader = RecallReader::SubAgent { calls: vec!["c9".into(), "c0".into()] };
            recall_of(reader, search(words), &log()).map(|recalled| recalled.text)
        };
        assert_eq!(own("port").unwrap(), "The outcome of \"Run c2\" (`result` = `c2`):\nport of a sub-agent");
        assert_eq!(own("token").unwrap(), "Your call of bash:\nRun c2 {\"x\":\"Token\"}");
        assert_eq!(
            own("9090").unwrap_err(),
            "no call of this sub-agent, which is all that it can search, contains 9090"
        );
        let other = RecallReader::SubAgent { calls: vec!["c1".into()] };
        assert!(recall_of(other, search("port"), &log()).is_err());
    }

    #[test]
    fn the_outcome_of_every_call_can_be_shown_with_its_pictures() {
        let result = |call: &str| RecallRequest::Result { call: call.into(), offset: 0 };
        assert_eq!(recall(result("c2"), &log()).unwrap(), "port of a sub-agent");
        assert_eq!(recall(result("c3"), &log()).unwrap(), "port found before");
        let picture = json!({ "type": "image", "data": "aGk=", "mime": "image/png" });
        let content = json!([{ "type": "text", "text": "shown to people" }, picture]);
        let outcome = json!({ "verdict": "completed", "text": "a picture", "content": content });
        let log = [json!({ "event": "tool_ended", "call": "c", "outcome": outcome })];
        let show =
            |offset| recall_of(RecallReader::Main, RecallRequest::Result { call: "c".into(), offset }, &log).unwrap();
        let image = ToolContent::Image { data: "aGk=".into(), mime: "image/png".into() };
        assert_eq!(show(0), Recalled { text: "a picture".into(), images: vec![image] });
        assert_eq!(show(2), Recalled { text: "picture".into(), images: Vec::new() });
    }

    #[test]
    fn matches_and_outcomes_are_bounded() {
        let many: Vec<Value> = (0..50)
            .map(|n| json!({ "event": "agent_text", "message": n.to_string(), "text": format!("{} needle {n}", "x".repeat(9_000)) }))
            .collect();
        let found = recall(search("needle"), &many).unwrap();
        assert!(found.starts_with("[30 older matches are left out]") && found.ends_with("needle 49"), "{found}");
        assert!(found.len() < 20 * 600, "{}", found.len());
        let long = "é".repeat(20_000);
        let log = [json!({ "event": "tool_ended", "call": "c", "outcome": { "verdict": "completed", "text": long } })];
        let result = |offset| recall(RecallRequest::Result { call: "c".into(), offset }, &log).unwrap();
        assert!(result(0).ends_with("[15424 bytes follow; go on with `offset` 24576]"), "{}", &result(0)[24_570..]);
        assert_eq!(result(24_576).len(), 15_424);
        assert_eq!(result(99_999), "");
        assert!(recall(RecallRequest::Result { call: "d".into(), offset: 0 }, &log).is_err());
    }
}
