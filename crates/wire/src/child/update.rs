//! Reads the updates of a child agent.

use domain::hosted::{CallFields, CallStatus, OfferPart};
use domain::plan::read_plan;
use domain::text::cut;
use domain::tool::Location;
use domain::{CallId, ConnectionId, Content, Cost, Payload, PlanEntry, ToolContent, ToolKind};
use serde_json::{Value, json};

use super::object;
use crate::decode::content;

/// How many commands of a child a session keeps, and how many bytes of them.
const COMMANDS: usize = 200;
const BYTES_OF_COMMANDS: usize = 64 << 10;

/// The bytes of a command's name, the characters of its description, and the bytes of any other
/// field.
const LONGEST_NAME: usize = 200;
const LONGEST_DESCRIPTION: usize = 1000;
const LONGEST_FIELD: usize = 2000;

/// An update, as far as acpd understands it.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    Text {
        message: Option<String>,
        text: String,
    },
    Thought {
        message: Option<String>,
        text: String,
    },
    /// The child repeats a message of the user, which acpd's log has already.
    Echo,
    /// `first` is true if the child announced the call, and false if it changed one.
    Called {
        call: CallId,
        first: bool,
        fields: Box<CallFields>,
    },
    Planned(Vec<PlanEntry>),
    Offered(OfferPart),
    Titled(String),
    Used {
        window_used: u64,
        window: u64,
        cost: Option<Cost>,
    },
    /// Any other update, unchanged.
    Other(Value),
}

pub fn read_update(update: Value) -> Update {
    understood(&update).unwrap_or(Update::Other(update))
}

fn understood(update: &Value) -> Option<Update> {
    let text_of = |name: &str| update.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(match update.get("sessionUpdate")?.as_str()? {
        "agent_message_chunk" => Update::Text { message: text_of("messageId"), text: chunk_text(update)? },
        "agent_thought_chunk" => Update::Thought { message: text_of("messageId"), text: chunk_text(update)? },
        "user_message_chunk" => Update::Echo,
        "tool_call" => Update::Called { call: call_id(update)?, first: true, fields: Box::new(call_fields(update)) },
        "tool_call_update" => {
            Update::Called { call: call_id(update)?, first: false, fields: Box::new(call_fields(update)) }
        }
        "plan" => Update::Planned(read_plan(&json!({ "entries": update.get("entries")? })).ok()?),
        "current_mode_update" => Update::Offered(OfferPart::Mode(text_of("currentModeId")?)),
        "config_option_update" => {
            Update::Offered(OfferPart::Options(update.get("configOptions").filter(|list| list.is_array())?.clone()))
        }
        "available_commands_update" => {
            Update::Offered(OfferPart::Commands(limited_commands(update.get("availableCommands")?.as_array()?)))
        }
        "session_info_update" => Update::Titled(text_of("title").filter(|title| !title.trim().is_empty())?),
        "usage_update" => {
            let cost = update.get("cost").and_then(|cost| {
                Some(Cost {
                    amount: cost.get("amount")?.as_f64()?,
                    currency: cost.get("currency")?.as_str()?.to_owned(),
                })
            });
            Update::Used { window_used: update.get("used")?.as_u64()?, window: update.get("size")?.as_u64()?, cost }
        }
        _ => return None,
    })
}

/// Returns as many commands as a session keeps in memory. A long description is cut, and a long
/// field of another name is left out. So is a command with a long name, because a part of it would
/// name another command.
fn limited_commands(commands: &[Value]) -> Value {
    let mut left = BYTES_OF_COMMANDS;
    let limited = commands.iter().filter_map(limited_command).take(COMMANDS).take_while(|command| {
        let size = command.to_string().len();
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    limited.collect()
}

fn limited_command(command: &Value) -> Option<Value> {
    let fields = command.as_object()?;
    if fields.get("name").and_then(Value::as_str).is_some_and(|name| name.len() > LONGEST_NAME) {
        return None;
    }
    let limited = fields.iter().filter_map(|(name, value)| match value {
        Value::String(text) if name == "description" => Some((name.clone(), cut(text, LONGEST_DESCRIPTION).into())),
        value => {
            let is_short = name.len() <= LONGEST_NAME && value.to_string().len() <= LONGEST_FIELD;
            is_short.then(|| (name.clone(), value.clone()))
        }
    });
    Some(Value::Object(limited.collect()))
}

/// Whether version 1 has updates of this kind. Those of a child of version 2 that stay as they are
/// may be of both.
pub fn is_of_first_version(update: &Value) -> bool {
    let kinds = ["agent_message_chunk", "agent_thought_chunk", "session_info_update", "usage_update"];
    update.get("sessionUpdate").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
}

/// The text of a chunk that holds nothing but text.
fn chunk_text(update: &Value) -> Option<String> {
    let content = object(update.get("content"))?;
    let is_plain = content.keys().all(|key| key == "type" || key == "text");
    (is_plain && content.get("type")?.as_str()? == "text").then(|| content.get("text")?.as_str().map(str::to_owned))?
}

pub(super) fn call_id(call: &Value) -> Option<CallId> {
    Some(CallId::from(call.get("toolCallId")?.as_str()?))
}

/// The fields of a call that are present and valid.
pub(super) fn call_fields(call: &Value) -> CallFields {
    let present = |name: &str| call.get(name).filter(|value| !value.is_null());
    CallFields {
        title: present("title").and_then(Value::as_str).map(str::to_owned),
        kind: present("kind").and_then(Value::as_str).map(kind),
        status: present("status").and_then(Value::as_str).and_then(status),
        content: present("content")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(tool_content).collect()),
        locations: present("locations")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(location).collect()),
        input: present("rawInput").cloned(),
        output: present("rawOutput").cloned(),
        meta: present("_meta").filter(|meta| meta.is_object()).cloned(),
    }
}

fn kind(name: &str) -> ToolKind {
    match name {
        "read" => ToolKind::Read,
        "search" => ToolKind::Search,
        "edit" => ToolKind::Edit,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        "execute" => ToolKind::Execute,
        "fetch" => ToolKind::Fetch,
        "think" => ToolKind::Think,
        "switch_mode" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

fn status(name: &str) -> Option<CallStatus> {
    Some(match name {
        "pending" => CallStatus::Pending,
        "in_progress" => CallStatus::InProgress,
        "completed" => CallStatus::Completed,
        "failed" => CallStatus::Failed,
        _ => return None,
    })
}

fn location(location: &Value) -> Option<Location> {
    let line = location.get("line").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    Some(Location { path: location.get("path")?.as_str()?.into(), line })
}

/// Reads one piece of a call's content. A terminal has the id that acpd gave it; its owner is
/// determined later.
fn tool_content(entry: &Value) -> Option<ToolContent> {
    match entry.get("type")?.as_str()? {
        "content" => {
            let block = content::block(entry.get("content")?.clone())?;
            Some(match block {
                Content { payload: Payload::Text { text }, metadata } if metadata.is_empty() => {
                    ToolContent::Text { text }
                }
                Content { payload: Payload::Image { data, mime, uri: None }, metadata } if metadata.is_empty() => {
                    ToolContent::Image { data, mime }
                }
                block => ToolContent::Block { block: Box::new(block) },
            })
        }
        "diff" => Some(ToolContent::Diff {
            path: entry.get("path")?.as_str()?.into(),
            old: entry.get("oldText").and_then(Value::as_str).map(str::to_owned),
            new: entry.get("newText")?.as_str()?.to_owned(),
        }),
        "terminal" => {
            let id = entry.get("terminalId")?.as_str()?.to_owned();
            Some(ToolContent::Terminal { id, owner: ConnectionId::from("") })
        }
        _ => None,
    }
}
