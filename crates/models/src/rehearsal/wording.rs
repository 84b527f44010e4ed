//! The texts of the rehearsal model.
//!
//! Pure. They claim nothing that the model did not see: no result is paraphrased, and every failure
//! or denial is reported.

use domain::instructions::environment_facts;
use domain::model::NO_MODEL_CONFIGURED;
use domain::{Content, Outcome, Payload};

use super::directions::{Direction, Understanding};
use super::progress::Stage;

/// The number of lines of a result that the answer repeats. The tool call itself shows all of it.
const EXCERPT_LINES: usize = 60;
const EXCERPT_BYTES: usize = 4000;

/// The notice after every understood task, which keeps users from mistaking this for a poor
/// language model.
const DISCLAIMER: &str =
    "`rehearsal` answered, a small program that follows plain directions. No language model is configured.";

/// Explains how to get a language model.
const SET_UP: &str = "so `rehearsal` answered, a small program that follows plain directions, and it did not understand this. To \
set up a model, run `acpd login`, or set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` in the environment of your editor or shell, or name \
a provider in `~/.config/acpd/config.toml`.";

const EXAMPLES: &str = "\
You can check your editor with me. Everything I do is real: tool calls, permission questions, diffs. Try:

- `What files are in this folder?`
- `read README.md`
- `search for TODO in src`
- `write hello.txt with Hello there`
- `replace Hello with Goodbye in hello.txt`
- `run ls -l`
- several of them, one per line, or with `then` between them";

/// Returns the plan entry of a direction.
pub(super) fn title(direction: &Direction) -> String {
    match direction {
        Direction::Look => "Look at this folder".to_owned(),
        Direction::List { folder } => format!("List {}", folder_name(folder)),
        Direction::Read { file } => format!("Read {}", code(file)),
        Direction::Search { text, folder: None, .. } => format!("Search for {}", code(text)),
        Direction::Search { text, folder: Some(folder), .. } => {
            format!("Search for {} in {}", code(text), code(folder))
        }
        Direction::Find { pattern } => format!("Find files that match {}", code(pattern)),
        Direction::Write { file, .. } => format!("Write {}", code(file)),
        Direction::Append { file, .. } => format!("Append to {}", code(file)),
        Direction::Replace { file, old, new } => format!("Replace {} with {} in {}", code(old), code(new), code(file)),
        Direction::Run { command } => format!("Run {}", code(command)),
    }
}

/// Describes what was understood of the prompt.
pub(super) fn thought(understanding: &Understanding) -> String {
    let directions = &understanding.directions;
    match directions.as_slice() {
        [Direction::Look] => "I find no direction in this that I can follow, so I look at the folder.".to_owned(),
        [only] => format!("I understand one direction: {}.", title(only)),
        several => {
            let numbered: Vec<_> =
                several.iter().enumerate().map(|(index, one)| format!("{}. {}", index + 1, title(one))).collect();
            format!("I understand {} directions:\n{}", several.len(), numbered.join("\n"))
        }
    }
}

/// Returns the text before the first call: what came with the prompt, and which of it is ignored.
pub(super) fn opening(blocks: &[Content], understanding: &Understanding) -> Option<String> {
    let mut said = Vec::new();
    // Facts that acpd adds to every prompt were not attached by the user.
    let attached = blocks.iter().filter(|block| environment_facts(block).is_none());
    let markers: Vec<_> = attached.filter_map(marker).collect();
    if !markers.is_empty() {
        said.push(format!("Your prompt came with: {}.", markers.join(", ")));
    }
    match (understanding.directions.as_slice(), &understanding.unclear) {
        ([Direction::Look], Some(_)) => {
            said.push("I am not a language model and did not understand that, so I look at this folder.".to_owned());
        }
        ([Direction::Look], None) => said.push("I look at this folder.".to_owned()),
        (_, Some(unclear)) => said.push(format!("I did not understand {}; I do the rest.", code(unclear))),
        (_, None) => {}
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// Reports how a direction ended.
pub(super) fn report(direction: &Direction, stage: &Stage<'_>) -> String {
    match stage {
        Stage::Done { answer } => success(direction, answer),
        Stage::Failed { reason }
            if *reason == Outcome::denied().text || reason.starts_with(&Outcome::declined(None).text) =>
        {
            format!("You did not allow it, so {}.", undone(direction))
        }
        Stage::Failed { reason } if *reason == Outcome::cancelled().text => {
            format!("{}: this was cancelled before it was done.", title(direction))
        }
        Stage::Failed { reason } => format!("{}: this did not work.\n\n{}", title(direction), excerpt(reason)),
        Stage::Missing { tool } => {
            format!("The session's mode does not offer `{tool}`, so {}.", undone(direction))
        }
        Stage::Due(_) | Stage::Waiting => format!("{}: this is still to do.", title(direction)),
    }
}

fn success(direction: &Direction, answer: &str) -> String {
    let showing = |heading: String, nothing: &str| match answer.trim() {
        "" => format!("{heading} {nothing}"),
        _ => format!("{heading}\n\n{}", excerpt(answer)),
    };
    match direction {
        Direction::Look => showing("In this folder:".to_owned(), "nothing."),
        Direction::List { folder } => showing(format!("In {}:", folder_name(folder)), "nothing."),
        Direction::Read { file } => showing(format!("This is {}:", code(file)), "it is empty."),
        Direction::Search { text, .. } => showing(format!("Searched for {}:", code(text)), "nothing was found."),
        Direction::Find { pattern } => showing(format!("Files that match {}:", code(pattern)), "none."),
        Direction::Write { file, content } => {
            format!("Wrote {} to {}.", count_lines(content.lines().count()), code(file))
        }
        Direction::Append { file, content } => {
            format!("Appended {} to {}.", count_lines(content.lines().count()), code(file))
        }
        Direction::Replace { file, old, new } => {
            format!("Replaced {} with {} in {}.", code(old), code(new), code(file))
        }
        Direction::Run { command } => showing(format!("{} ended:", code(command)), "it printed nothing."),
    }
}

/// Returns what did not happen, to follow "so".
fn undone(direction: &Direction) -> &'static str {
    match direction {
        Direction::Look | Direction::List { .. } => "nothing was listed",
        Direction::Read { .. } => "nothing was read",
        Direction::Search { .. } | Direction::Find { .. } => "nothing was searched",
        Direction::Write { .. } => "nothing was written",
        Direction::Append { .. } | Direction::Replace { .. } => "nothing was changed",
        Direction::Run { .. } => "nothing was run",
    }
}

/// Suggests what to ask instead, after a prompt without any direction.
pub(super) fn examples(understanding: &Understanding) -> Option<&'static str> {
    understanding.directions.contains(&Direction::Look).then_some(EXAMPLES)
}

/// Returns the notice at the end of a task: that this is not a language model, and how to get one.
pub(super) fn notice(understanding: &Understanding) -> String {
    match (understanding.directions.as_slice(), &understanding.unclear) {
        ([Direction::Look], Some(_)) => format!("{NO_MODEL_CONFIGURED}, {SET_UP}"),
        _ => DISCLAIMER.to_owned(),
    }
}

/// Describes a block that is not text in a few words.
fn marker(block: &Content) -> Option<String> {
    match &block.payload {
        Payload::Text { .. } => None,
        Payload::TextResource { uri, text, .. } => Some(format!("[resource: {} bytes of text, {uri}]", text.len())),
        Payload::Link { .. } | Payload::BlobResource { .. } | Payload::Image { .. } | Payload::Audio { .. } => {
            Some(block.as_text())
        }
    }
}

fn folder_name(folder: &str) -> String {
    if folder == "." { "this folder".to_owned() } else { code(folder) }
}

/// Formats a name or a command inside a sentence, shortened to one line.
fn code(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short = &line[..line.floor_char_boundary(80)];
    let more = if short.len() < text.trim_end().len() { "…" } else { "" };
    if text.is_empty() {
        "nothing".to_owned()
    } else if short.contains('`') {
        format!("“{short}{more}”")
    } else {
        format!("`{short}{more}`")
    }
}

fn count_lines(lines: usize) -> String {
    match lines {
        0 => "nothing".to_owned(),
        1 => "1 line".to_owned(),
        several => format!("{several} lines"),
    }
}

/// Quotes the beginning of a result in a fence that nothing inside it can close.
fn excerpt(text: &str) -> String {
    let text = text.trim_end();
    let mut kept = &text[..text.floor_char_boundary(EXCERPT_BYTES)];
    if let Some((end, _)) = kept.match_indices('\n').nth(EXCERPT_LINES - 1) {
        kept = &kept[..end];
    }
    let mut fence = "```".to_owned();
    while kept.contains(&fence) {
        fence.push('`');
    }
    let left = &text[kept.len()..];
    let more = match left.strip_prefix('\n').unwrap_or(left).lines().count() {
        0 => String::new(),
        1 => "\n\n… and 1 more line; the tool call shows it.".to_owned(),
        several => format!("\n\n… and {several} more lines; the tool call shows them."),
    };
    format!("{fence}\n{kept}\n{fence}{more}")
}
