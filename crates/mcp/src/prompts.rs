//! The prompts of servers as slash commands: `/SERVER:PROMPT`, its arguments, and the text that
//! replaces it.

use std::collections::HashSet;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use domain::instructions::SlashCommandCard;
use domain::text::cut;
use domain::{Content, Payload};
use rmcp::model::{ContentBlock, GetPromptRequestParams, Prompt, PromptArgument, ResourceContents, Role};
use rmcp::service::{Peer, RoleClient};
use serde_json::{Map, Value};

use crate::link::ConnectedServer;
use crate::names;

/// The longest description of a slash command, in characters.
const LONGEST_DESCRIPTION: usize = 1000;

pub(crate) fn of(server: &str, connected: &ConnectedServer) -> Vec<SlashCommandCard> {
    let mut names = HashSet::new();
    connected.prompts.iter().map(|prompt| card(server, prompt)).filter(|card| names.insert(card.name.clone())).collect()
}

fn card(server: &str, prompt: &Prompt) -> SlashCommandCard {
    let words = prompt.description.clone().or_else(|| prompt.title.clone());
    let hint: Vec<String> = arguments(prompt)
        .iter()
        .map(
            |argument| if required(argument) { format!("<{}>", argument.name) } else { format!("[{}]", argument.name) },
        )
        .collect();
    SlashCommandCard {
        name: names::command(server, &prompt.name),
        description: words.map_or_else(|| format!("A prompt of {server}"), |words| cut(&words, LONGEST_DESCRIPTION)),
        hint: Some(cut(&hint.join(" "), LONGEST_DESCRIPTION)).filter(|hint| !hint.is_empty()),
    }
}

fn arguments(prompt: &Prompt) -> &[PromptArgument] {
    prompt.arguments.as_deref().unwrap_or_default()
}

fn required(argument: &PromptArgument) -> bool {
    argument.required.unwrap_or(false)
}

/// Splits a prompt that may be one of these commands into the name and the rest.
pub(crate) fn typed(prompt: &[Content]) -> Option<(&str, &str)> {
    let [Content { payload: Payload::Text { text }, .. }, ..] = prompt else { return None };
    let text = text.trim().strip_prefix('/')?;
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (server, of_server) = name.split_once(':')?;
    (!server.is_empty() && !of_server.is_empty() && !server.contains('/')).then_some((name, rest.trim()))
}

/// Returns the text of a prompt, with the words after its name as arguments. The error is worded
/// for the user.
pub(crate) async fn expand(
    connected: &Arc<ConnectedServer>,
    server: &str,
    name: &str,
    rest: &str,
) -> Option<Result<Vec<Content>, String>> {
    let prompt = connected.prompts.iter().find(|prompt| names::command(server, &prompt.name) == name)?;
    Some(match fill(prompt, rest) {
        Ok(arguments) => fetch(&connected.peer, &prompt.name, arguments).await,
        Err(why) => Err(why),
    })
}

async fn fetch(peer: &Peer<RoleClient>, name: &str, arguments: Map<String, Value>) -> Result<Vec<Content>, String> {
    let mut params = GetPromptRequestParams::new(name);
    params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
    let answer = peer.get_prompt_once(params).await.map_err(|error| cut(&error.to_string(), 300))?;
    let rmcp::model::GetPromptResponse::Complete(result) = answer else {
        return Err("the server asks for further input, which acpd cannot give".to_owned());
    };
    Ok(result.messages.into_iter().map(|message| said(message.role, message.content)).collect())
}

fn said(role: Role, content: ContentBlock) -> Content {
    match (role, as_content(content)) {
        (Role::Assistant, Content { payload: Payload::Text { text }, .. }) => {
            Content::text(format!("[an answer that the prompt gives as an example]\n{text}"))
        }
        (_, content) => content,
    }
}

/// Converts a content block of a server to one of a prompt.
pub(crate) fn as_content(block: ContentBlock) -> Content {
    let payload = match block {
        ContentBlock::Text(text) => Payload::Text { text: text.text },
        ContentBlock::Image(image) => Payload::Image { data: image.data, mime: image.mime_type, uri: None },
        ContentBlock::Audio(audio) => Payload::Audio { data: audio.data, mime: audio.mime_type },
        ContentBlock::Resource(resource) => return resource_content(resource.resource),
        ContentBlock::ResourceLink(link) => Payload::Link {
            uri: link.uri,
            path: None,
            name: link.name,
            mime: link.mime_type,
            title: link.title,
            description: link.description,
            size: link.size.and_then(|size| i64::try_from(size).ok()),
        },
        _ => Payload::Text { text: "[content that acpd does not know]".to_owned() },
    };
    payload.into()
}

pub(crate) fn resource_content(resource: ResourceContents) -> Content {
    match resource {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Payload::TextResource { uri, mime: mime_type, text }.into()
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            match blob_text(mime_type.as_deref(), &blob) {
                Some(text) => Payload::TextResource { uri, mime: mime_type, text }.into(),
                None => Payload::BlobResource { uri, mime: mime_type, blob }.into(),
            }
        }
        _ => Content::text("[a resource of a kind that acpd does not know]"),
    }
}

/// Returns the text of a resource that is sent as base64 although it is text.
fn blob_text(mime: Option<&str>, blob: &str) -> Option<String> {
    let mime = mime?.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = ["json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "ecmascript", "sql", "x-sh"];
    let is_text = mime.starts_with("text/")
        || mime.ends_with("+json")
        || mime.ends_with("+xml")
        || mime.strip_prefix("application/").is_some_and(|kind| known.contains(&kind));
    let bytes = is_text.then(|| BASE64_STANDARD.decode(blob.trim()).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}

/// Assigns the typed words to arguments. `name=value` names an argument; other words fill the
/// arguments in order, and the last argument gets the rest.
fn fill(prompt: &Prompt, rest: &str) -> Result<Map<String, Value>, String> {
    let known = arguments(prompt);
    let mut filled = Map::new();
    let mut words = words(rest).into_iter().peekable();
    while let Some(word) = words.next() {
        if let Some((name, value)) = word.split_once('=')
            && known.iter().any(|argument| argument.name == name)
        {
            filled.insert(name.to_owned(), value.into());
            continue;
        }
        let mut open = known.iter().filter(|argument| !filled.contains_key(&argument.name));
        let Some(argument) = open.next() else {
            return Err(format!("`{word}` is one argument too many for the prompt `{}`", prompt.name));
        };
        let value = if open.next().is_some() {
            word
        } else {
            std::iter::once(word).chain(words.by_ref()).collect::<Vec<_>>().join(" ")
        };
        filled.insert(argument.name.clone(), value.into());
    }
    let missing: Vec<&str> = known
        .iter()
        .filter(|argument| required(argument) && !filled.contains_key(&argument.name))
        .map(|argument| argument.name.as_str())
        .collect();
    if missing.is_empty() {
        Ok(filled)
    } else {
        Err(format!("the prompt `{}` needs {}", prompt.name, missing.join(", ")))
    }
}

/// Splits a text into words. Quotes keep words together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' && word.as_ref().is_none_or(|word| word.ends_with('=')) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> Prompt {
        let arguments =
            arguments.iter().map(|(name, required)| PromptArgument::new(*name).with_required(*required)).collect();
        Prompt::new("weather", Some("Tells the weather"), Some(arguments))
    }

    #[test]
    fn a_prompt_is_a_command_with_a_hint() {
        let card = card("my server", &prompt(&[("city", true), ("unit", false)]));
        assert_eq!(card.name, "my_server:weather");
        assert_eq!((card.description.as_str(), card.hint.as_deref()), ("Tells the weather", Some("<city> [unit]")));
    }

    #[test]
    fn arguments_are_taken_by_name_or_in_order() {
        let two = prompt(&[("city", true), ("unit", false)]);
        let filled = |text: &str| fill(&two, text).map(Value::Object);
        let good = [
            ("Bonn", json!({ "city": "Bonn" })),
            ("Bonn degrees Celsius", json!({ "city": "Bonn", "unit": "degrees Celsius" })),
            ("\"New York\" F", json!({ "city": "New York", "unit": "F" })),
            ("unit='the usual' It's", json!({ "city": "It's", "unit": "the usual" })),
            ("unit=K city=\"São Paulo\"", json!({ "city": "São Paulo", "unit": "K" })),
        ];
        for (typed, expected) in good {
            assert_eq!(filled(typed), Ok(expected), "{typed}");
        }
        assert_eq!(filled("").unwrap_err(), "the prompt `weather` needs city");
        assert_eq!(fill(&prompt(&[]), "x").unwrap_err(), "`x` is one argument too many for the prompt `weather`");
    }

    #[test]
    fn an_mcp_prompt_command_needs_a_server_and_a_name() {
        let read = |text: &str| typed(&[Content::text(text)]).map(|(name, rest)| (name.to_owned(), rest.to_owned()));
        assert_eq!(read("/a:b  c d "), Some(("a:b".to_owned(), "c d".to_owned())));
        for text in ["/help", "a:b", "/:b", "/a:", "/etc/x:1 is odd", "/mode safe:x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
