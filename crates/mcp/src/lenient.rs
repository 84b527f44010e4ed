//! Parses messages of servers leniently: a list entry that cannot be parsed is skipped and does not
//! hide the others.
//!
//! The MCP library parses a result as a whole, so one tool without a schema makes it reject the
//! whole list.

use std::borrow::Cow;

use domain::text::cut;
use rmcp::model::{
    ContentBlock, JsonRpcMessage, Prompt, Resource, ResourceTemplate, ServerJsonRpcMessage, ServerResult, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::message_budget::{self, TooManyValues};

/// Why a text cannot be read as a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Parses a message within the limit of values. Also returns descriptions of the entries that were
/// skipped.
pub(crate) fn read(text: &[u8]) -> Result<(ServerJsonRpcMessage, Vec<String>), ReadError> {
    let text = message_budget::within(text)?;
    let message = serde_json::from_slice(&text)?;
    if let Some((mended, left_out)) = suspicious(&message).then(|| mend(&text)).flatten()
        && let Ok(message) = serde_json::from_value(mended)
    {
        return Ok((message, left_out));
    }
    Ok((message, Vec::new()))
}

/// Returns a message within the limit of values and without the entries that cannot be parsed, and
/// descriptions of those. None if that is the same message.
pub(crate) fn mended(text: &str) -> Result<Option<(String, Vec<String>)>, TooManyValues> {
    let text = message_budget::within(text.as_bytes())?;
    let Ok(message) = serde_json::from_slice(&text) else { return Ok(None) };
    if let Some((mended, left_out)) = suspicious(&message).then(|| mend(&text)).flatten() {
        return Ok(Some((mended.to_string(), left_out)));
    }
    Ok(match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(cut) => String::from_utf8(cut).ok().map(|cut| (cut, Vec::new())),
    })
}

/// Returns whether the message may be a list that was parsed as something else.
fn suspicious(message: &ServerJsonRpcMessage) -> bool {
    let JsonRpcMessage::Response(response) = message else { return false };
    match &response.result {
        ServerResult::CustomResult(_) | ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => true,
        ServerResult::CallToolResult(result) => result.content.is_empty(),
        _ => false,
    }
}

fn mend(text: &[u8]) -> Option<(Value, Vec<String>)> {
    let mut message: Value = serde_json::from_slice(text).ok()?;
    let result = message.get_mut("result")?.as_object_mut()?;
    let mut left_out = Vec::new();
    keep::<Tool>(result, "tools", "tool", &mut left_out);
    keep::<Prompt>(result, "prompts", "prompt", &mut left_out);
    keep::<Resource>(result, "resources", "resource", &mut left_out);
    keep::<ResourceTemplate>(result, "resourceTemplates", "resource template", &mut left_out);
    let mut changed = !left_out.is_empty();
    if let Some(Value::Array(blocks)) = result.get_mut("content") {
        for block in blocks {
            if serde::Deserialize::deserialize(&*block).map(|_: ContentBlock| ()).is_err() {
                let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown");
                *block = json!({ "type": "text", "text": format!("[content of the type `{}` that acpd cannot read]", cut(kind, 60)) });
                changed = true;
            }
        }
    }
    changed.then_some((message, left_out))
}

fn keep<T: DeserializeOwned>(result: &mut Map<String, Value>, list: &str, what: &str, left_out: &mut Vec<String>) {
    let Some(Value::Array(entries)) = result.get_mut(list) else { return };
    entries.retain(|entry| match T::deserialize(entry) {
        Ok(_) => true,
        Err(error) => {
            let name = ["name", "uri", "uriTemplate"].iter().find_map(|key| entry.get(key)?.as_str());
            let name = name.map_or_else(|| "without a name".to_owned(), |name| format!("`{}`", cut(name, 60)));
            left_out.push(format!("the {what} {name} ({})", cut(&error.to_string(), 120)));
            false
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: Value) -> String {
        json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string()
    }

    fn result(text: &str) -> (ServerResult, Vec<String>) {
        match read(text.as_bytes()).unwrap() {
            (JsonRpcMessage::Response(response), left_out) => (response.result, left_out),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_tool_that_makes_no_sense_hides_no_other() {
        let tools = json!([{ "name": "good", "inputSchema": {} }, { "name": "bad" }, 7]);
        // These fields make a broken list look like another kind of result.
        for more in [json!({}), json!({ "_meta": {} }), json!({ "resultType": "complete" })] {
            let mut list = json!({ "tools": tools });
            list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let (found, left_out) = result(&answer(list));
            let ServerResult::ListToolsResult(found) = found else { panic!("{found:?}") };
            assert_eq!(found.tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good"]);
            assert_eq!(left_out.len(), 2, "{left_out:?}");
            assert_eq!(left_out[0], "the tool `bad` (missing field `inputSchema`)");
            assert!(left_out[1].starts_with("the tool without a name ("), "{left_out:?}");
        }
    }

    #[test]
    fn lists_and_results_are_read_entry_by_entry() {
        let (found, left_out) = result(&answer(json!({ "prompts": [{ "name": "a" }, { "name": 5 }] })));
        assert!(matches!(found, ServerResult::ListPromptsResult(found) if found.prompts.len() == 1));
        assert_eq!(left_out.len(), 1);
        let blocks = json!([{ "type": "text", "text": "one" }, { "type": "hologram" }]);
        let (found, left_out) = result(&answer(json!({ "content": blocks })));
        let ServerResult::CallToolResult(found) = found else { panic!("{found:?}") };
        assert_eq!((found.content.len(), left_out.len()), (2, 0));
    }

    #[test]
    fn a_valid_message_is_not_changed() {
        for result in [
            json!({ "tools": [{ "name": "good", "inputSchema": {} }] }),
            json!({ "content": [] }),
            json!({ "content": [], "structuredContent": { "tools": 1 } }),
            json!({}),
            json!({ "own": "thing" }),
        ] {
            let text = answer(result);
            assert!(read(text.as_bytes()).unwrap().1.is_empty());
            assert_eq!(mended(&text).unwrap(), None);
        }
        assert!(read(b"nothing").is_err());
    }
}
