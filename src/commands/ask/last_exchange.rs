//! Shows the last prompt of a continued session with its answer, so that the user sees where the
//! conversation stopped.

use domain::card::SessionDetails;
use domain::{Content, Event, EventKind, Payload, TurnId};
use serde_json::{Value, json};
use wire::method;

use super::Conversation;
use crate::client::Client;
use crate::commands::session_log::read_page;

/// How many of the last events of a log are read. An exchange that began before them is not shown.
const EVENTS: u64 = 2000;

impl Conversation {
    /// Shows the last exchange, unless a turn goes on: the turn shows itself. If the exchange
    /// cannot be read, the conversation continues without it.
    pub(super) async fn show_last_exchange(&mut self) -> anyhow::Result<()> {
        if !self.output.is_live() {
            return Ok(());
        }
        for update in self.last_exchange().await.unwrap_or_default() {
            self.output.update(&json!({ "sessionId": self.session, "update": update }))?;
        }
        self.output.abandon()
    }

    async fn last_exchange(&mut self) -> anyhow::Result<Vec<Value>> {
        let params = json!({ "sessionId": self.session });
        let details: SessionDetails = self.client.call(method::SESSION, params).await?;
        match details.card.turn_started {
            Some(_) => Ok(Vec::new()),
            None => read(&mut self.client, &self.session, details.events).await,
        }
    }
}

/// Reads the end of a log with this many events, and returns the last exchange as updates.
async fn read(client: &mut Client, session: &str, events: u64) -> anyhow::Result<Vec<Value>> {
    let mut exchange = Exchange::default();
    let mut from = Some(events.saturating_sub(EVENTS).max(1));
    while let Some(number) = from {
        let page = read_page(client, session, number).await?;
        let events = page.events.iter().filter_map(|event| serde_json::from_str::<Event>(event.get()).ok());
        events.for_each(|event| exchange.add(event.kind));
        from = page.next;
    }
    Ok(exchange.updates)
}

#[derive(Default)]
struct Exchange {
    /// The turn of the prompt, once a prompt was found.
    turn: Option<TurnId>,
    updates: Vec<Value>,
}

impl Exchange {
    /// Adds an event. The prompt of another turn begins another exchange.
    fn add(&mut self, event: EventKind) {
        match event {
            EventKind::UserMessage { turn, content, steering, .. } => {
                let is_next = self.turn.as_ref() != Some(&turn);
                // In the same turn, what is not typed during it was written by acpd.
                if !is_next && steering.is_none() {
                    return;
                }
                if is_next {
                    self.updates.clear();
                }
                self.turn = Some(turn);
                let own = content.iter().filter(|block| matches!(block.payload, Payload::Text { .. }));
                let text = own.map(Content::as_text).collect::<Vec<_>>().join("\n");
                self.updates.push(update("user_message_chunk", &Value::Null, &text));
            }
            EventKind::AgentText { message, text } if self.turn.is_some() => {
                self.updates.push(update("agent_message_chunk", &json!(message), &text));
            }
            _ => {}
        }
    }
}

fn update(kind: &str, message: &Value, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "messageId": message, "content": { "type": "text", "text": text } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exchange_begins_with_the_last_prompt_that_started_a_turn() {
        let prompt = |turn: &TurnId, text: &str| EventKind::user_text(turn.clone(), text.to_owned());
        let answer = |text: &str| EventKind::AgentText { message: "m".into(), text: text.to_owned() };
        let (one, two) = (TurnId::new(), TurnId::new());
        let mut exchange = Exchange::default();
        for event in [answer("cut off"), prompt(&one, "one"), answer("1"), prompt(&two, "two"), answer("2")] {
            exchange.add(event);
        }
        exchange.add(prompt(&two, "a reminder by acpd"));
        exchange.add(answer("3"));
        let texts: Vec<&str> =
            exchange.updates.iter().map(|update| update["content"]["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["two", "2", "3"]);
    }
}
