//! The built-in model: offline, deterministic, and not a language model.
//!
//! It follows plain directions in English with the tools that it is offered. People can check their
//! editor with it, and authors of clients can see every kind of update. It keeps no state: each
//! answer follows from the conversation alone. `prompt` and `directions` read the request, `task`
//! and `progress` determine what was done, and `wording` writes the text.

mod directions;
mod phrases;
mod progress;
mod prompt;
mod task;
mod verbs;
mod wording;
mod work;

use domain::conversation::{Message, Part};
use domain::model::{Delta, Model, ModelError, ModelInfo, ModelRequest};
use domain::tool::UPDATE_PLAN;
use domain::{ModelId, StopReason, Usage};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::json;

use self::progress::TaskProgress;
use self::task::{LastAnswer, Task};

/// The number of words in one streamed piece of text.
const WORDS_PER_PIECE: usize = 4;

pub struct Rehearsal {
    info: ModelInfo,
}

impl Rehearsal {
    pub const ID: &str = "rehearsal";

    pub fn new() -> Self {
        let info = ModelInfo {
            id: ModelId::from(Self::ID),
            name: "Rehearsal (built in, no language model)".to_owned(),
            window: 200_000,
            images: false,
            audio: false,
            thinks: false,
            patches: false,
            price: None,
        };
        Self { info }
    }
}

impl Default for Rehearsal {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Rehearsal {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        stream::iter(answer(&request)).map(Ok).boxed()
    }
}

/// Computes the whole answer to one request.
fn answer(request: &ModelRequest) -> Vec<Delta> {
    let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let task = Task::of(&request.messages);
    let progress = TaskProgress::of(&task, offered);
    let due = progress.due();
    let plan = || offered(UPDATE_PLAN).then(|| json!({ "entries": progress.plan() }));

    let mut deltas = Vec::new();
    // The plan is updated before the final text, because a call after the text would require
    // another answer.
    if due.is_none()
        && task.last_answer == LastAnswer::Worked
        && let Some(input) = plan()
    {
        deltas.push(Delta::Call { tool: UPDATE_PLAN.to_owned(), input, origin: None });
        return ended(request, deltas);
    }
    let mut said = Vec::new();
    let is_new = task.last_answer == LastAnswer::Nothing;
    if is_new {
        deltas.extend(pieces(&wording::thought(&task.understanding)).map(Delta::Thought));
        said.extend(wording::opening(task.blocks, &task.understanding));
    }
    let news: Vec<_> = progress.news().map(|(direction, stage)| wording::report(direction, stage)).collect();
    let plan_changed = is_new || !news.is_empty();
    said.extend(news);
    if due.is_none() {
        said.extend(wording::examples(&task.understanding).map(str::to_owned));
    }
    deltas.extend(pieces(&said.join("\n\n")).map(Delta::Text));
    if due.is_none() {
        // This is a notice and not part of the answer, because `acpd ask` prints only the answer on
        // stdout.
        deltas.push(Delta::Notice(wording::notice(&task.understanding)));
    }
    if let Some(call) = due {
        let plan = plan().filter(|_| plan_changed);
        deltas.extend(plan.map(|input| Delta::Call { tool: UPDATE_PLAN.to_owned(), input, origin: None }));
        deltas.push(Delta::Call { tool: call.tool.to_owned(), input: call.input.clone(), origin: None });
    }
    ended(request, deltas)
}

fn ended(request: &ModelRequest, mut deltas: Vec<Delta>) -> Vec<Delta> {
    let usage =
        Usage { input: tokens(request_size(request)), output: tokens(answer_size(&deltas)), ..Usage::default() };
    deltas.extend([Delta::Usage(usage), Delta::Stopped(StopReason::EndTurn)]);
    deltas
}

/// Splits a text into pieces of a few words each.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let ends = rest.match_indices(char::is_whitespace).map(|(at, space)| at + space.len());
        let (piece, left) = rest.split_at(ends.take(WORDS_PER_PIECE).last().unwrap_or(rest.len()));
        rest = left;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

/// Estimates tokens: four bytes are about one token.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

fn request_size(request: &ModelRequest) -> usize {
    let tools =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len());
    let messages = request.messages.iter().map(|message| match &**message {
        Message::User { content, .. } => content.iter().map(|block| block.as_text().len()).sum::<usize>(),
        Message::Assistant { parts, .. } => parts.iter().map(weight).sum(),
        Message::Results { results } => results.iter().map(|result| result.text.len()).sum(),
    });
    request.system.len() + tools.sum::<usize>() + messages.sum::<usize>()
}

fn weight(part: &Part) -> usize {
    match part {
        Part::Thought(text) | Part::Text(text) => text.len(),
        Part::Seal(seal) => seal.to_string().len(),
        Part::Call { tool, input, .. } => tool.len() + input.to_string().len(),
    }
}

fn answer_size(deltas: &[Delta]) -> usize {
    let sizes = deltas.iter().map(|delta| match delta {
        Delta::Text(text) | Delta::Thought(text) => text.len(),
        Delta::Call { tool, input, .. } => tool.len() + input.to_string().len(),
        Delta::CallBegun { .. }
        | Delta::CutCall { .. }
        | Delta::Abandoned
        | Delta::Seal(_)
        | Delta::Usage(_)
        | Delta::DocumentsAsText { .. }
        | Delta::Notice(_)
        | Delta::Stopped(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests;
