//! Parses a prompt in plain English into directions.
//!
//! Pure. This module knows how a prompt splits into directions and which verbs exist; `verbs` reads
//! what follows each verb. It knows nothing of tools: a direction is what a person wants, not how
//! it is done.

use super::phrases;
use super::verbs;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Direction {
    /// Look around, because nothing in the prompt was understood.
    Look,
    List {
        folder: String,
    },
    Read {
        file: String,
    },
    Search {
        /// The search text as it was typed.
        text: String,
        /// The search text as a regular expression.
        pattern: String,
        folder: Option<String>,
    },
    /// Look for files by name.
    Find {
        pattern: String,
    },
    Write {
        file: String,
        content: String,
    },
    Append {
        file: String,
        content: String,
    },
    Replace {
        file: String,
        old: String,
        new: String,
    },
    Run {
        command: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Understanding {
    /// Never empty.
    pub(super) directions: Vec<Direction>,
    /// The part that was not understood, if there is one.
    pub(super) unclear: Option<String>,
}

/// The longest prompt in bytes that is searched for directions.
const LONGEST_PROMPT: usize = 100_000;

/// Parses a prompt. It never fails: what is not understood becomes `Direction::Look`.
pub(super) fn understand(prompt: &str) -> Understanding {
    let mut directions = Vec::new();
    let mut unclear = None;
    if prompt.len() <= LONGEST_PROMPT {
        for group in groups(prompt) {
            let understood = match directions_in(group.whole) {
                none if none.is_empty() => directions_in(group.first),
                some => some,
            };
            if understood.is_empty() && unclear.is_none() {
                unclear = Some(group.whole.to_owned());
            }
            directions.extend(understood);
        }
    }
    if directions.is_empty() {
        directions.push(Direction::Look);
        unclear = Some(prompt.trim().to_owned());
    }
    Understanding { directions, unclear: unclear.filter(|text| !text.is_empty()) }
}

/// A direction and the text that follows it up to the next direction.
struct Group<'a> {
    whole: &'a str,
    first: &'a str,
}

/// Groups the pieces of a prompt by direction. A separator counts only if a direction follows it.
/// Therefore a command may contain `;`, and a file's text may have several lines, without quotes.
fn groups(prompt: &str) -> Vec<Group<'_>> {
    let pieces = pieces(prompt);
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut start = 0;
    for (index, &(_, to)) in pieces.iter().enumerate() {
        let next = pieces.get(index + 1).map(|&(from, to)| &prompt[from..to]);
        if next.is_none_or(begins_direction) {
            let (first_from, first_to) = pieces[start];
            let first = trim_conjunction(&prompt[first_from..first_to]);
            groups.push(Group { whole: trim_conjunction(&prompt[first_from..to]), first });
            start = index + 1;
        }
    }
    groups.retain(|group| !group.whole.is_empty());
    groups
}

fn begins_direction(piece: &str) -> bool {
    let announced = piece.trim_end().ends_with(':') && verb(phrases::without_courtesy(piece)).is_some();
    announced || !directions_in(piece).is_empty()
}

/// Returns the ranges between newlines, `;` and "then", outside of quotations, fences and `$`
/// lines.
fn pieces(prompt: &str) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut command_line = prompt.trim_start().starts_with("$ ");
    for at in phrases::open_positions(prompt) {
        let here = &prompt[at..];
        let separator = if here.starts_with('\n') {
            command_line = here.trim_start().starts_with("$ ");
            1
        } else if command_line {
            0
        } else if here.starts_with(';') {
            1
        } else if here.starts_with(' ') && phrases::skip(here, "then").is_some_and(|rest| rest.starts_with([' ', ',']))
        {
            " then".len()
        } else {
            0
        };
        if separator > 0 && at >= from {
            pieces.push((from, at));
            from = at + separator;
        }
    }
    pieces.push((from, prompt.len()));
    pieces
}

/// Removes the rest of ", and then" from the end of a piece.
fn trim_conjunction(piece: &str) -> &str {
    let piece = piece.trim();
    let bare = piece.strip_suffix("and").filter(|head| head.ends_with([' ', ','])).unwrap_or(piece);
    if bare.len() < piece.len() { bare.trim_end_matches([',', ' ']) } else { piece.trim_end_matches(',') }
}

/// Returns all directions of one piece. There are several only if one verb has several objects.
fn directions_in(piece: &str) -> Vec<Direction> {
    let text = phrases::without_courtesy(piece);
    let Some(verb) = verb(text) else { return Vec::new() };
    let rest = verb.rest;
    let one = match verb.kind {
        Verb::Shell => verbs::shell(text),
        Verb::Run => verbs::run(rest),
        Verb::List => verbs::list(rest),
        Verb::Read => return verbs::read(rest),
        Verb::Show => return verbs::show(rest),
        Verb::Ask => verbs::ask(rest),
        Verb::Look => verbs::look(rest),
        Verb::Search => verbs::search(rest),
        Verb::Grep => verbs::grep(rest),
        Verb::Find => verbs::find(rest),
        Verb::Where => verbs::locate(rest),
        Verb::Write => verbs::write(rest),
        Verb::Create => verbs::create(rest),
        Verb::Append => verbs::append(rest),
        Verb::Replace => verbs::replace(rest, &["with", "by"]),
        Verb::Change => verbs::replace(rest, &["to", "into"]),
        Verb::Within => verbs::within(rest),
    };
    one.into_iter().collect()
}

enum Verb {
    /// A command as typed at a shell prompt.
    Shell,
    Run,
    List,
    Read,
    Show,
    /// "What is in ...?"
    Ask,
    Look,
    Search,
    Grep,
    Find,
    /// "Where is ...?"
    Where,
    Write,
    Create,
    Append,
    Replace,
    Change,
    /// "In FILE, replace ..."
    Within,
}

struct FoundVerb<'a> {
    kind: Verb,
    rest: &'a str,
}

fn verb(text: &str) -> Option<FoundVerb<'_>> {
    let end = text.find(|letter: char| letter.is_whitespace() || letter == ':').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let rest = rest.trim_start_matches(':').trim_start();
    let flags = rest.starts_with('-') || rest.starts_with(". -");
    let kind = match word.trim_end_matches(['.', ',', '!']).to_ascii_lowercase().as_str() {
        "$" => Verb::Shell,
        "ls" | "grep" | "find" | "cat" if flags => Verb::Shell,
        "run" | "execute" | "exec" => Verb::Run,
        "list" | "ls" | "dir" => Verb::List,
        "read" | "open" | "cat" | "view" | "display" => Verb::Read,
        "show" => Verb::Show,
        "what" | "what's" | "what’s" | "whats" | "which" => Verb::Ask,
        "look" => Verb::Look,
        "search" => Verb::Search,
        "grep" => Verb::Grep,
        "find" => Verb::Find,
        "where" | "where's" => Verb::Where,
        "write" | "save" | "put" => Verb::Write,
        "create" | "make" => Verb::Create,
        "append" | "add" => Verb::Append,
        "replace" | "substitute" => Verb::Replace,
        "change" | "rename" => Verb::Change,
        "in" | "edit" => Verb::Within,
        _ => return None,
    };
    Some(FoundVerb { kind, rest })
}

#[cfg(test)]
mod tests;
