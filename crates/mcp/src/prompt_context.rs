//! Prepares a prompt for the model: waits for servers that are connecting, reads the resources that
//! the prompt links to, and expands the server prompt that it names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::mcp::PreparedPrompt;
use domain::text::{cut, size};
use domain::{Content, Payload};
use rmcp::model::{ReadResourceRequestParams, ReadResourceResponse};
use tokio::time::{timeout, timeout_at};

use crate::link::ConnectedServer;
use crate::prompts;
use crate::server_group::Member;

/// How long a server may take to return a resource or a prompt.
const RESOURCE_DEADLINE: Duration = Duration::from_secs(20);

/// The most bytes of one resource, or of a server's prompt, that are added to a prompt.
const MAX_RESOURCE_BYTES: usize = 1 << 20;

/// Returns whether there is anything to prepare.
pub(crate) fn is_due(members: Option<&[Member]>, prompt: &[Content], max_wait: Duration) -> bool {
    let Some(members) = members else { return true };
    let joined = || members.iter().filter_map(Member::shared);
    let connects = joined().any(|shared| shared.awaited(max_wait).is_some());
    let asks = prompts::typed(prompt).is_some() || links(prompt).next().is_some();
    connects || (asks && joined().next().is_some())
}

pub(crate) async fn prepare(members: Arc<[Member]>, prompt: Vec<Content>, max_wait: Duration) -> PreparedPrompt {
    let mut prepared = PreparedPrompt { notices: wait_for(&members, max_wait).await, ..PreparedPrompt::default() };
    if let Some((name, rest)) = prompts::typed(&prompt) {
        match expand(&members, name, rest).await {
            Some(Ok(said)) => take_over(&mut prepared, said),
            Some(Err(why)) => prepared.refusal = Some(format!("`/{name}` cannot be used: {why}.")),
            None => {}
        }
    }
    for uri in links(&prompt) {
        match fetch(&members, uri).await {
            Some(Ok(content)) => prepared.context.extend(content),
            Some(Err(why)) => prepared.notices.push(format!("The resource {uri} could not be read: {why}.")),
            None => {}
        }
    }
    prepared
}

/// Replaces the slash command with the texts of the server's prompt, and adds its images and other
/// content.
fn take_over(prepared: &mut PreparedPrompt, said: Vec<Content>) {
    let mut texts = Vec::new();
    for content in said {
        match content.payload {
            Payload::Text { text } => texts.push(text),
            other => prepared.context.push(other.into()),
        }
    }
    prepared.stands_for = Some(texts.join("\n\n")).filter(|text| !text.is_empty());
}

/// Waits for servers that are connecting, and returns notices about those that are late.
async fn wait_for(members: &[Member], max_wait: Duration) -> Vec<String> {
    let mut late = Vec::new();
    for member in members {
        let Some(shared) = member.shared() else { continue };
        let Some(until) = shared.awaited(max_wait) else { continue };
        let until = tokio::time::Instant::now() + until.saturating_duration_since(Instant::now());
        if timeout_at(until, shared.settled()).await.is_err() {
            late.push(format!(
                "The MCP server `{}` is still connecting; its tools follow once it is connected.",
                member.name
            ));
        }
    }
    late
}

async fn expand(members: &[Member], name: &str, rest: &str) -> Option<Result<Vec<Content>, String>> {
    let named = |member: &&Member| name.starts_with(&crate::names::command(&member.name, ""));
    // A server that is off, such as that of an untrusted project, does not hide another one of the
    // same name.
    let joined = members.iter().filter(named).find(|member| member.shared().is_some());
    let member = joined.or_else(|| members.iter().find(named))?;
    let Some(connected) = member.connected() else {
        return Some(Err(format!("the MCP server `{}` is not available", member.name)));
    };
    let expansion = timeout(RESOURCE_DEADLINE, prompts::expand(&connected, &member.name, name, rest)).await;
    let expansion = expansion.unwrap_or_else(|_| Some(Err("the server does not answer".to_owned())))?;
    Some(expansion.and_then(limited))
}

fn links(prompt: &[Content]) -> impl Iterator<Item = &str> {
    prompt.iter().filter_map(|content| match &content.payload {
        Payload::Link { uri, .. } => Some(uri.as_str()),
        Payload::Text { .. }
        | Payload::TextResource { .. }
        | Payload::BlobResource { .. }
        | Payload::Image { .. }
        | Payload::Audio { .. } => None,
    })
}

/// Reads a resource from the server that has it. Returns None if no server does.
async fn fetch(members: &[Member], uri: &str) -> Option<Result<Vec<Content>, String>> {
    let connected = members.iter().filter_map(Member::connected).find(|connected| has(connected, uri))?;
    let params = ReadResourceRequestParams::new(uri);
    let read = match timeout(RESOURCE_DEADLINE, connected.peer.read_resource_once(params)).await {
        Ok(Ok(ReadResourceResponse::Complete(read))) => read,
        Ok(Ok(_)) => return Some(Err("the server asks for further input, which acpd cannot give".to_owned())),
        Ok(Err(error)) => return Some(Err(cut(&error.to_string(), 300))),
        Err(_) => return Some(Err("the server does not answer".to_owned())),
    };
    Some(limited(read.contents.into_iter().map(prompts::resource_content).collect()))
}

/// Returns whether a server has a resource. A file or a web page may belong to any server, so the
/// server must list that address. Other addresses may match a template.
fn has(connected: &ConnectedServer, uri: &str) -> bool {
    let common = ["file:", "http:", "https:"].iter().any(|scheme| uri.starts_with(scheme));
    let described = || connected.templates.iter().any(|start| start.contains(':') && uri.starts_with(start.as_str()));
    connected.resources.iter().any(|known| known == uri) || (!common && described())
}

fn limited(contents: Vec<Content>) -> Result<Vec<Content>, String> {
    let weight: usize = contents.iter().map(Content::weight).sum();
    if weight > MAX_RESOURCE_BYTES { Err(format!("it is too large ({})", size(weight as u64))) } else { Ok(contents) }
}
