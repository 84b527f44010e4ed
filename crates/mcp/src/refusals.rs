//! Calls that a remote server refused by its HTTP status. Such a call had no effect, and the model
//! and the user should read why.
//!
//! The MCP library reports a refused call like a lost connection, or not at all if the connection
//! ends at the same time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use domain::text::cut;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};

use crate::login::Demand;

/// The most refused calls that are remembered. Each is taken by its call, unless that was
/// cancelled.
const MAX_REFUSALS: usize = 200;

/// Why a server refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Login(Demand),
    /// The text says which status the server answered.
    Status(String),
}

/// The refused calls of one connection. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    refused: Arc<Mutex<VecDeque<(RequestId, Refusal)>>>,
    /// The command with which the user logs in; None for a server that gets no token.
    command: Option<Arc<str>>,
}

impl Refusals {
    pub(crate) fn new(command: Option<String>) -> Self {
        Self { refused: Arc::default(), command: command.map(Arc::from) }
    }

    pub(crate) fn note(&self, call: RequestId, refusal: Refusal) {
        // Every operation leaves the list consistent, so a poisoned lock is harmless.
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() == MAX_REFUSALS {
            refused.pop_front();
        }
        refused.push_back((call, refusal));
    }

    /// Takes the reason why a call was refused, in a sentence for the model and the user. None if
    /// the server did not refuse it.
    pub(crate) fn take(&self, call: &RequestId) -> Option<String> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let at = refused.iter().position(|(known, _)| known == call)?;
        let (_, refusal) = refused.remove(at)?;
        drop(refused);
        Some(self.explain(&refusal))
    }

    fn explain(&self, refusal: &Refusal) -> String {
        match (refusal, &self.command) {
            (Refusal::Status(text), _) => {
                format!("The server refused the call, which had no effect: {}", cut(text, 2000))
            }
            (Refusal::Login(_), None) => "The server refused the call, which had no effect: it does not accept the \
                                          key in the configured headers, or wants one."
                .to_owned(),
            (Refusal::Login(demand), Some(command)) => {
                let what = if demand.has_login { "a login with more rights" } else { "a login" };
                format!(
                    "The server wants {what} for this call, which had no effect. Only the user can log in: with `{}` \
                     in a terminal. The call can be repeated afterwards.",
                    demand.command(command)
                )
            }
        }
    }
}

/// Returns the id of a request that uses a tool.
pub(crate) fn call(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::CallToolRequest(_)) => {
            Some(request.id.clone())
        }
        _ => None,
    }
}

/// Returns whether the message uses what the server offers. A server may demand a login for that
/// alone; one that demands a login for anything else cannot be used without it.
pub(crate) fn is_use(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(
        request.request,
        ClientRequest::CallToolRequest(_) | ClientRequest::GetPromptRequest(_) | ClientRequest::ReadResourceRequest(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_refused_call_is_returned_once() {
        let refusals = Refusals::new(Some("acpd login --mcp tickets".to_owned()));
        let id = RequestId::Number;
        refusals.note(id(1), Refusal::Login(Demand { has_login: true, scopes: vec!["write".to_owned()] }));
        refusals.note(id(2), Refusal::Status("HTTP 413 Payload Too Large".to_owned()));
        assert_eq!(refusals.take(&id(3)), None);
        assert_eq!(
            refusals.take(&id(1)).unwrap(),
            "The server wants a login with more rights for this call, which had no effect. Only the user can log in: \
             with `acpd login --mcp tickets --scope write` in a terminal. The call can be repeated afterwards."
        );
        assert_eq!(refusals.take(&id(1)), None);
        assert_eq!(
            refusals.take(&id(2)).unwrap(),
            "The server refused the call, which had no effect: HTTP 413 Payload Too Large"
        );
        for number in 0..2 * MAX_REFUSALS as i64 {
            refusals.note(id(number), Refusal::Login(Demand::default()));
        }
        assert_eq!(refusals.refused.lock().unwrap().len(), MAX_REFUSALS);
    }
}
